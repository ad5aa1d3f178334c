"""One exact step, compiled: the row's own weights, and all others."""

from fiol.compiler.compiled import jit


@jit
def step_row(problem, row, out):
    """Solve one row into `out`; return beta, new score, passes, residual, and the slope of the score in beta."""
    beta, z, passes = problem.step(row, out)
    reach, _ = problem.start(row)
    return beta, z, passes, problem.residual(row, beta, z), row.weight * reach


@jit
def absent_weights(problem, w, eta, out):
    """Write the weights w after the round into `out`, for features that are absent from the row."""
    for i in range(w.shape[0]):
        out[i] = problem.geometry.weight(problem.regularizer, w[i], 0.0, 0.0, eta, i)
