"""A stack by its definition, in fifty digits: full information, solved afresh in every round."""

from mpmath import mp, mpf


def exp(x):
    """Far beyond what a double holds, any huge number will do for the sign of a bracket."""
    return mp.exp(max(min(x, mpf(10) ** 5), -(mpf(10) ** 5)))


#: value, derivative, second derivative (None where there are kinks), whether values have a unit of their own.
LOSSES = {
    "Logistic": (
        lambda z, y: max(-y * z, mpf(0)) + mp.log(1 + exp(-abs(z))),
        lambda z, y: -y / (1 + exp(y * z)),
        lambda z, y: 1 / ((1 + exp(z)) * (1 + exp(-z))),
    ),
    "Hinge": (lambda z, y: max(mpf(0), 1 - y * z), lambda z, y: -y * (y * z < 1), None),
    "SquaredHinge": (
        lambda z, y: max(mpf(0), 1 - y * z) ** 2 / 2,
        lambda z, y: -y * max(mpf(0), 1 - y * z),
        lambda z, y: mpf(y * z < 1),
    ),
    "Exponential": (lambda z, y: exp(-y * z), lambda z, y: -y * exp(-y * z), lambda z, y: exp(-y * z)),
    "Squared": (lambda z, y: (z - y) ** 2 / 2, lambda z, y: z - y, lambda z, y: mpf(1)),
    "Absolute": (lambda z, y: abs(z - y), lambda z, y: mp.sign(z - y), None),
    "Quantile": (
        lambda z, y: max(mpf(0.8) * (y - z), (1 - mpf(0.8)) * (z - y)),
        lambda z, y: (1 - mpf(0.8)) * (z > y) - mpf(0.8) * (z < y),
        None,
    ),
    "Poisson": (lambda z, y: exp(z) - y * z, lambda z, y: exp(z) - y, lambda z, y: exp(z)),
    "LogCosh": (lambda z, y: mp.log(mp.cosh(z - y)), lambda z, y: mp.tanh(z - y), None),
}
BINARY = ("Logistic", "Hinge", "SquaredHinge", "Exponential")
SMOOTH = ("Logistic", "SquaredHinge", "Exponential", "Squared", "Poisson")


def root(f, low, high):
    """Where f, which falls, crosses 0."""
    for _ in range(170):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return (low + high) / 2


def bound_information(A, prior):
    """Leave no member more information than 1e10 times that of the prior."""
    for one in A:
        for k in range(one.rows):
            part = mpf(10) ** 10 / prior / one[k, k]
            if part < 1:
                one[k, :] *= mp.sqrt(part)
                one[:, k] *= mp.sqrt(part)
                one[k, k] += (1 - part) / prior


def scores_by_definition(name, Z, y, weight, prior, forgets, burn, floor, limit, robust, doubt):
    """The scores of the whole before every row; the last weights and shares of the stacks."""
    mp.dps = 50
    value, grad, hess = LOSSES[name]
    binary = name in BINARY
    K, J = len(Z[0]), len(forgets)
    v = [mp.matrix([mpf(1) / K] * K) for _ in range(J)]
    A = [mp.eye(K) / mpf(prior) for _ in range(J)]
    share = [mpf(1) / J] * J
    excess = steep = slopes = bends = mpf(0)
    last, following, out, shrunk = 0, 1, [], mpf(1)

    def around(z, target, r):
        if name == "Squared":
            return mpf(1)
        return (value(z + r, target) - 2 * value(z, target) + value(z - r, target)) / r**2

    for t, (row, target, h) in enumerate(zip(Z, y, weight, strict=True), 1):
        z, target, h = mp.matrix([mpf(a) for a in row]), mpf(target), mpf(h)
        s = [mp.fdot(v[j], z) for j in range(J)]
        score = mp.fsum(share[j] * s[j] for j in range(J))
        out.append(score)
        d, r = mpf(1), mpf(1)
        if not binary:
            lower = target - target * mp.log(target) if name == "Poisson" and target > 0 else 0
            excess += h * (value(score, target) - lower)
            steep += h * abs(grad(score, target))
            r = 2 * excess / steep
            curvature, square = around(score, target, r), grad(score, target) ** 2
            if name in SMOOTH and slopes > 0 and bends > 0:
                square = min(square, robust**2 * curvature * slopes / bends)
            slopes, bends = slopes + h * square, bends + h * curvature
            d = slopes / bends
        losses = [h * value(a, target) / d for a in s]
        share = [w * max(mp.exp(min(losses) - a), mpf(1) / (1 + t)) for w, a in zip(share, losses, strict=True)]
        common = min(mpf(1) / 2, mpf(1) / t)
        share = [(1 - common) * w / mp.fsum(share) + common / J for w in share]
        part = (limit / max(map(abs, z))) ** 2 if binary and max(map(abs, z)) > limit else mpf(1)
        largest_growth = mpf(0)
        for j in range(J):
            u = mp.lu_solve(A[j], z)
            q, before = mp.fdot(u, z), s[j]
            p = h * q / d
            wrong = target * min(doubt * max(mpf(1) / t, mpf(forgets[j])), mpf(1) / 2) if binary else mpf(0)
            wrong *= min(mpf(10) ** 6 / max(map(abs, z)), mpf(1)) ** 2 if any(z) else 1
            far = abs(grad(before, target)) + 1
            beta = root(lambda b: -grad(before + p * b, target) - wrong - b, -far, far)  # noqa: B023
            curvature = around(before, target, r) if hess is None or not binary else hess(before + p * beta, target)
            if binary:
                curvature = max(curvature, mpf(floor))
            if name == "Squared" and abs(beta) > robust * mp.sqrt(d / (1 + p)):
                most = robust * mp.sqrt(d / (1 + p))
                curvature, beta = curvature * most / abs(beta), most * mp.sign(beta)
            v[j] += (h * beta / d) * u
            information = min(part * h * curvature / d, 10**6 / q if q > 0 else mp.inf)
            A[j], largest_growth = A[j] + information * (z * z.T), max(largest_growth, information * q)
        shrunk *= 1 + largest_growth
        due = t == following
        if due:
            n = t - last
            for j in range(J):
                kept = min((1 - mpf(forgets[j])) ** n, (1 - mpf(n) / t) ** burn) if forgets[j] > 0 else mpf(1)
                A[j] = kept * A[j] + (1 - kept) * mp.eye(K) / mpf(prior)
            last, following = t, t + min(128, 1 + t // 8)
        if due or shrunk > 10**4:
            bound_information(A, mpf(prior))
            shrunk = mpf(1)
    return out, v, share
