"""The plot of one step, for all kinds of problems."""

import builtins
import sys

import numpy as np
import pytest

import fiol
from fiol.plots import load_matplotlib, plot_step

Figure = pytest.importorskip("matplotlib.figure").Figure

X, W = [1.0, -1.5, 1.0, 0.5], [-1.2, 0.9, 0.3, -0.1]
POSITIVE = [0.2, 0.3, 0.4, 0.1]
CASES = {
    "squared, l1": (X, 2.3, W, {"loss": fiol.Squared(), "regularizer": fiol.L1(0.5)}),
    "no penalty": (X, 2.3, W, {"loss": fiol.Squared()}),
    "elastic net, diagonal": (
        X,
        1.0,
        W,
        {
            "loss": fiol.Logistic(),
            "regularizer": fiol.ElasticNet(0.3, 0.2),
            "geometry": fiol.DiagonalMetric([1.0, 2.0, 3.0, 4.0]),
        },
    ),
    "box": (X, 2.3, W, {"loss": fiol.Absolute(), "regularizer": fiol.Box(fiol.L1(0.1), -0.5, 0.5)}),
    "sparse row": (([1, 3], [1.0, 2.0]), -1.0, W, {"loss": fiol.Hinge(), "regularizer": fiol.L1([0.1, 0.2, 0.3, 0.4])}),
    "entropy": (X, 2.0, POSITIVE, {"loss": fiol.Poisson(), "geometry": fiol.Entropy(), "regularizer": fiol.L1(0.1)}),
    "simplex": (X, 2.0, POSITIVE, {"loss": fiol.Huber(), "geometry": fiol.Simplex()}),
    "signed": (
        X,
        -1.0,
        fiol.SignedEntropy.split(np.array(W)),
        {"loss": fiol.Exponential(), "geometry": fiol.SignedEntropy()},
    ),
    "full matrix": (X, 2.0, W, {"loss": fiol.Quantile(0.9), "geometry": fiol.Mahalanobis(np.eye(4) + 0.1)}),
    "nothing moves": (X, 1.0, [0.0] * 4, {"loss": fiol.Hinge(), "regularizer": fiol.L1(9.0)}),
    "no loss": ([1.0], 1.0, [3.0], {"loss": fiol.Hinge()}),
}


def line(ax, label):
    return next(line for line in ax.lines if line.get_label().startswith(label))


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_plot_marks_the_root_of_the_solver(case, explicit):
    x, y, w, problem = CASES[case]
    ax = plot_step(x, y, w, eta=0.7, sample_weight=1.5, explicit=explicit, ax=Figure().subplots(), **problem)
    ax.figure.canvas.draw()
    step = fiol.solve_step(x, y, w, eta=0.7, sample_weight=1.5, compiled=False, **problem)
    root = line(ax, "exact step")
    assert root.get_xydata().tolist() == [[step.beta, step.z]]
    low, high = ax.get_xlim()
    assert low < step.beta < high
    g = line(ax, "score $g")
    assert np.interp(step.beta, g.get_xdata(), g.get_ydata()) == pytest.approx(step.z, abs=1e-9)
    assert np.all(np.diff(g.get_ydata()) >= -1e-12)
    assert np.all(np.diff(line(ax, "score $z").get_xdata()) <= 1e-12)


def test_plot_marks_visible_breakpoints():
    x, y, w, problem = CASES["squared, l1"]
    ax = plot_step(x, y, w, span=(0.0, 2.0), ax=Figure().subplots(), **problem)
    # (+-0.5 - w) / x, without those below 0 and above 2
    assert line(ax, "breakpoints").get_xdata() == pytest.approx([0.2, 4 / 15, 0.7, 14 / 15, 1.2, 1.7])
    piece = line(ax, "the piece").get_xdata()
    assert (piece[0], piece[-1]) == pytest.approx((14 / 15, 1.2))


def test_plot_shows_the_explicit_step_overshooting():
    x, y, w, problem = CASES["squared, l1"]
    ax = plot_step(x, y, w, explicit=True, ax=Figure().subplots(), **problem)
    ((pull, score),) = line(ax, "linearized loss").get_xydata()
    assert pull == pytest.approx(y - np.dot(x, w))
    assert score > y


def test_plot_creates_its_own_figure():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    x, y, w, problem = CASES["squared, l1"]
    ax = plot_step(x, y, w, **problem)
    assert pyplot.fignum_exists(ax.figure.number)
    pyplot.close(ax.figure)


def test_plot_without_matplotlib_names_the_install_command(monkeypatch):
    original = builtins.__import__

    def without_matplotlib(name, *args, **kwargs):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=r'pip install "fiol\[plots\]"'):
        load_matplotlib()
    with pytest.raises(ImportError, match=r"fiol\[plots\]"):
        plot_step([1.0], 1.0, [0.0], loss=fiol.Squared())


def test_plot_checks_arguments_as_solve_step_does():
    with pytest.raises(ValueError, match="eta must be positive"):
        plot_step([1.0], 1.0, [0.0], loss=fiol.Squared(), eta=0.0, ax=Figure().subplots())
    assert "fiol.plots" in sys.modules
