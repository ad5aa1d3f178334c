"""The compiled loops over rows. Self-contained: a kernel calls only components' methods."""

from fiol.compiled import jit


@jit
def step_row(problem, row, out):  # type: ignore[no-untyped-def]
    """Solve one row into `out`; return beta, new score, passes, residual, and how far a unit of pull can reach."""
    beta, z, passes = problem.step(row, out)
    reach, _ = problem.start(row)
    return beta, z, passes, problem.residual(row, beta, z), row.weight * reach


@jit
def settle(problem, w, eta, out):  # type: ignore[no-untyped-def]
    """What a round does to weights whose feature is absent."""
    for i in range(w.shape[0]):
        out[i] = problem.geometry.weight(problem.regularizer, w[i], 0.0, 0.0, eta, i)
