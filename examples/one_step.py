"""One exact step, seen from all sides: what `make demo-step` runs.

python examples/one_step.py [--figure FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import fiol

SOLVERS = (fiol.Newton(), fiol.Partition(), fiol.Partition(fiol.MedianOfMedians()), fiol.Sorting(), fiol.Bisection())
LOSS, PENALTY = fiol.Squared(), fiol.L1(0.5)
LIGHT = fiol.L1(0.02)
X, Y, W = np.array([1.0, -1.5, 1.0, 0.5]), 2.3, np.array([-1.2, 0.9, 0.3, -0.1])
ETAS = (0.01, 1.0, 100.0)


def explicit_step(x: np.ndarray, y: float, w: np.ndarray, eta: float, penalty: fiol.L1) -> np.ndarray:
    """What SGD does: the loss and the penalty replaced by their slopes at the old weights."""
    new: np.ndarray = w - eta * (LOSS.grad(x @ w, y) * x + penalty.lam * np.sign(w))
    return new


def exact_step(x: np.ndarray, y: float, w: np.ndarray, eta: float, penalty: fiol.L1) -> np.ndarray:
    return fiol.solve_step(x, y, w, loss=LOSS, regularizer=penalty, eta=eta).w


def print_solvers() -> None:
    print("All solvers find the same step (eta = 1)\n")
    print(f"  {'solver':<36}{'beta':>10}{'new score':>11}{'zeros':>7}{'passes':>8}{'residual':>10}")
    for solver in SOLVERS:
        step = fiol.solve_step(X, Y, W, loss=LOSS, regularizer=PENALTY, eta=1.0, solver=solver)
        zeros = int(np.sum(step.w == 0.0))
        print(f"  {solver!r:<36}{step.beta:>10.6f}{step.z:>11.6f}{zeros:>7}{step.iterations:>8}{step.residual:>10.1e}")
    print(f"\n  new weights {np.array2string(step.w, precision=4)}")


def print_one_step() -> None:
    print("\nThe loss of this row after the step: linearizing overshoots, the exact step never does\n")
    print(f"  {'eta':>6}{'before':>12}{'explicit':>12}{'exact':>12}")
    for eta in ETAS:
        after = (LOSS.value(float(X @ step(X, Y, W, eta, PENALTY)), Y) for step in (explicit_step, exact_step))
        print(f"  {eta:>6g}{LOSS.value(float(X @ W), Y):>12.4g}" + "".join(f"{value:>12.4g}" for value in after))


def print_stream(rows: int = 300, d: int = 20) -> None:
    """Mean loss before each step on the paper's data, from zero weights."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((rows, d)) + rng.standard_normal((rows, 1))
    true = (-1.0) ** np.arange(d) * np.exp(-np.arange(d) / 10.0)
    y = x @ true + 0.2 * rng.standard_normal(rows)
    print(f"\nA stream of {rows} rows, {d} correlated features, {LIGHT}: mean loss of a row before its step\n")
    print(f"  {'eta':>6}{'explicit':>12}{'exact':>12}")
    for eta in ETAS:
        means = []
        for step in (explicit_step, exact_step):
            w, total = np.zeros(d), 0.0
            for t in range(rows):
                total += LOSS.value(float(x[t] @ w), float(y[t]))
                w = step(x[t], float(y[t]), w, eta, LIGHT)
                if not total < 1e100:
                    break
            means.append(f"{total / rows:>12.4g}" if total < 1e100 else f"{'overflows':>12}")
        print(f"  {eta:>6g}" + "".join(means))


def draw(path: Path) -> None:
    """The equation of the step, and beside it where linearizing the loss leads."""
    from fiol.plots import load_matplotlib, plot_step

    matplotlib = load_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 12, "legend.fontsize": 11, "svg.hashsalt": "fiol"}):
        figure = Figure(figsize=(12.5, 5.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        plot_step(X, Y, W, loss=LOSS, regularizer=PENALTY, eta=1.0, span=(-0.3, 2.2), ax=left)
        plot_step(X, Y, W, loss=LOSS, regularizer=PENALTY, eta=1.0, explicit=True, ax=right)
        left.set_title("The exact step: one equation, one straight piece of it")
        right.set_title("The same, farther away: a linearized loss overshoots")
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if path.suffix == ".svg" else None  # the same picture is the same file
        figure.savefig(path, dpi=100, metadata=metadata)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("build/equation.png"), help="default: %(default)s")
    options = parser.parse_args()
    print("The new weights minimize  loss(<x, w>; y) + penalty(w) + |w - old|^2 / (2 eta)  exactly.\n")
    print(f"  loss {LOSS}, penalty {PENALTY}, old score {X @ W:.2f}, target {Y}\n  x = {X}\n  w = {W}\n")
    print_solvers()
    print_one_step()
    print_stream()
    try:
        draw(options.figure)
        print(f"\nThe equation behind the step is drawn in {options.figure}")
    except ImportError as error:
        print(f"\nNo figure: {error}")


if __name__ == "__main__":
    main()
