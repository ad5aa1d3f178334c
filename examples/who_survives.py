"""Every preset over fourteen orders of magnitude of step sizes, on badly scaled data: what `make demo-steps` runs.

python examples/who_survives.py [--figure FILE] [--quick]
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fiol
from fiol import AdaGrad, Constant, Polynomial

LOSS, PENALTY = fiol.Squared(), fiol.L1(1e-3)
TUNING_FREE = fiol.FIOL(LOSS).step_size
#: A run survives if its loss is below this multiple of the loss of w = 0.
LIMIT = 10.0


class Preset(NamedTuple):
    """One line of the table: an update for every step size."""

    group: str
    steps: str
    make: Callable[[float], fiol.Update]


LINEARIZED, HALF, IMPLICIT, NO_STEP_SIZE = (
    "linearized loss",
    "implicit loss, linearized penalty",
    "implicit loss",
    "no step size at all",
)
#: Each preset with the step sizes its authors analyse, in one free number eta.
PRESETS = {
    "SGD": Preset(LINEARIZED, "eta", lambda eta: fiol.SGD(LOSS, PENALTY, Constant(eta))),
    "COMID": Preset(LINEARIZED, "eta", lambda eta: fiol.COMID(LOSS, PENALTY, Constant(eta))),
    "RDA": Preset(LINEARIZED, "eta / sqrt(t)", lambda eta: fiol.RDA(LOSS, PENALTY, Polynomial(eta, 0.5))),
    "FTRL-Proximal": Preset(LINEARIZED, "eta AdaGrad", lambda eta: fiol.FTRLProximal(LOSS, PENALTY, AdaGrad(eta))),
    "I-SGD": Preset(HALF, "eta", lambda eta: fiol.ISGD(LOSS, PENALTY, Constant(eta))),
    "PA-I": Preset(IMPLICIT, "eta", lambda eta: fiol.PA1(eta, fiol.EpsilonInsensitive(0.1))),
    "IOL": Preset(IMPLICIT, "eta", lambda eta: fiol.IOL(LOSS, Constant(eta))),
    "FIOL": Preset(IMPLICIT, "eta", lambda eta: fiol.FIOL(LOSS, PENALTY, Constant(eta))),
    "implicit FTRL": Preset(IMPLICIT, "eta AdaGrad", lambda eta: fiol.ImplicitFTRL(LOSS, PENALTY, AdaGrad(eta))),
    "FIOL, default": Preset(NO_STEP_SIZE, "scale-free", lambda eta: fiol.FIOL(LOSS, PENALTY)),
    "COMID, same steps": Preset(NO_STEP_SIZE, "scale-free", lambda eta: fiol.COMID(LOSS, PENALTY, TUNING_FREE)),
}


class Sweep(NamedTuple):
    """What became of a preset: per step size, the loss relative to w = 0 (inf: overflow) and the exact zeros."""

    etas: np.ndarray
    losses: np.ndarray
    zeros: np.ndarray

    @property
    def survived(self) -> np.ndarray:
        return self.losses < LIMIT


class Race(NamedTuple):
    """How large everything is."""

    rows: int = 4000
    d: int = 60
    per_decade: float = 2.0
    compiled: bool = True

    def etas(self) -> np.ndarray:
        return np.logspace(-10, 4, round(14 * self.per_decade) + 1)


QUICK = Race(rows=100, d=20, per_decade=0.5, compiled=False)


@functools.cache
def stream(rows: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns with scales from 1e-3 to 1e3, in no order; a target to which one in eight contributes."""
    rng = np.random.default_rng(0)
    scales = 10.0 ** rng.permutation(np.linspace(-3.0, 3.0, d))
    x = rng.standard_normal((rows, d)) + 0.7 * rng.standard_normal((rows, 3)) @ rng.standard_normal((3, d))
    true = np.zeros(d)
    true[rng.choice(d, d // 8 + 1, replace=False)] = rng.choice([-1.0, 1.0], d // 8 + 1)
    signal = x @ true
    return x * scales, signal / signal.std() + 0.3 * rng.standard_normal(rows)


def sweep(name: str, race: Race) -> Sweep:
    """Learn the stream from zero weights with every step size; each row is scored before it is learned."""
    x, y = stream(race.rows, race.d)
    preset = PRESETS[name]
    etas = race.etas() if preset.group != NO_STEP_SIZE else np.array([np.nan])
    losses, zeros = np.empty(etas.size), np.empty(etas.size, int)
    for k, eta in enumerate(etas.tolist()):
        learner = fiol.Learner(preset.make(eta), compiled=race.compiled)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # the learner warns of scores that overflow
            losses[k] = np.mean((learner.learn(x, y) - y) ** 2) / np.mean(y**2)
        zeros[k] = race.d - learner.n_nonzero
    return Sweep(etas, np.where(np.isfinite(losses), losses, np.inf), zeros)


def sweep_all(race: Race) -> dict[str, Sweep]:
    """Every preset, on two cores if there is something to compile, with a line of progress on stderr."""
    terminal, start, sweeps = sys.stderr.isatty(), time.perf_counter(), {}

    def follow(results: Iterator[Sweep]) -> dict[str, Sweep]:
        for k, name in enumerate(PRESETS):
            line = f"{k + 1} of {len(PRESETS)}: {name}, {time.perf_counter() - start:.0f} s"
            print(f"\r\033[K{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
            sweeps[name] = next(results)
        print("\r\033[K" if terminal else "", end="", file=sys.stderr, flush=True)
        return sweeps

    task = functools.partial(sweep, race=race)
    if not race.compiled:
        return follow(map(task, PRESETS))
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        return follow(pool.map(task, PRESETS))


def print_table(race: Race, sweeps: dict[str, Sweep]) -> None:
    x, y = stream(race.rows, race.d)
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    print(f"  {'':<20}{'step size':<15}{'survived':>9}{'best':>10}{'at eta':>8}{'zeros':>7}{'worst':>10}")
    group = ""
    for name, found in sweeps.items():
        preset, best = PRESETS[name], int(np.argmin(found.losses))
        if preset.group != group:
            group = preset.group
            print(f"  {group}")
        several = found.etas.size > 1
        share = f"{np.mean(found.survived):.0%}" if several else "yes" if found.survived[0] else "no"
        at, worst = (f"{found.etas[best]:.0e}", number(found.losses.max())) if several else ("", "")
        line = f"{share:>9}{number(found.losses[best]):>10}{at:>8}{found.zeros[best]:>7}{worst:>10}"
        print(f"    {name:<18}{preset.steps:<15}{line}")
    print(f"  {'least squares on all rows, in hindsight':<44}{number(np.mean(residual**2) / np.mean(y**2)):>10}")
    print("  Surviving is not learning: with a wrong size an exact step stays finite, and learns little. The best loss")
    print("  comes from the default steps, which adapt to every feature, with an exact and with a linearized loss.")


def number(loss: float) -> str:
    return f"{loss:.3g}" if np.isfinite(loss) else "overflow"


def print_learner(race: Race) -> None:
    """The learner in use: half of the stream, a file, the other half."""
    x, y = stream(race.rows, race.d)
    half = race.rows // 2
    straight = fiol.Learner(fiol.FIOL(LOSS, PENALTY), compiled=race.compiled)
    straight.learn(x, y)
    learner = fiol.Learner(fiol.FIOL(LOSS, PENALTY), compiled=race.compiled)
    learner.learn(x[:half], y[:half])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.fiol")
        learner.save(path)
        loaded = fiol.Learner.load(path, compiled=race.compiled)
    loaded.learn(x[half:], y[half:])
    same = loaded.weights.tobytes() == straight.weights.tobytes() and loaded.intercept == straight.intercept
    print(f"\nlearner = Learner(FIOL({LOSS}, {PENALTY}))")
    print(f"  saved after {half:,} rows, loaded, went on: identical bits: {same}")
    print(f"  {loaded.nbytes / race.d:.0f} bytes per weight, all that is learned included")


def draw(race: Race, sweeps: dict[str, Sweep], path: Path) -> None:
    """Draw loss against step size, log-log: warm colors for linearized updates, cold ones for implicit updates."""
    from fiol import plots

    matplotlib = plots.load_matplotlib()
    from matplotlib.figure import Figure

    styles = {
        "SGD": (plots.RED, "-", "right"),
        "COMID": (plots.RED, "-", ""),  # the same curve as SGD
        "RDA": (plots.PURPLE, "-", "left"),
        "FTRL-Proximal": (plots.ORANGE, "-", "right"),
        "I-SGD": (plots.ORANGE, "--", "left"),
        "PA-I": (plots.SKY, "--", ""),
        "IOL": (plots.SKY, "-", ""),
        "FIOL": (plots.BLUE, "-", ""),
        "implicit FTRL": (plots.GREEN, "-", ""),
    }
    names = {"SGD": "SGD, COMID", "I-SGD": "I-SGD (its L1\nis linearized)"}
    bottom, top = 0.05, 2e3
    with matplotlib.rc_context({"font.size": 15, "svg.hashsalt": "fiol", "svg.fonttype": "path"}):
        figure = Figure(figsize=(11.0, 7.0), layout="constrained")
        ax = figure.subplots()
        etas = sweeps["FIOL"].etas
        ax.axhspan(LIMIT, top, color=plots.RED, alpha=0.07, lw=0)
        ax.axhline(1.0, color=plots.GREY, lw=1.2, ls=":")
        ends = {name: sweeps[name].losses[-1] for name in styles if sweeps[name].survived[-1]}
        heights = dict(zip(sorted(ends, key=ends.__getitem__), spread(sorted(ends.values()), 1.6), strict=True))
        for name, (color, dashes, side) in styles.items():
            losses = np.minimum(sweeps[name].losses, 1e12)
            ax.plot(etas, losses, color=color, ls=dashes, lw=2.8)
            if name in ends:
                ax.annotate(
                    name,
                    (etas[-1], losses[-1]),
                    (etas[-1] * 3.0, heights[name]),
                    va="center",
                    annotation_clip=False,
                    arrowprops={"arrowstyle": "-", "color": color, "lw": 1.5, "shrinkA": 2, "shrinkB": 0},
                )
            elif side:
                level = top / (2.2 if "\n" in names.get(name, "") else 1.6)
                x = crossing(etas, losses, level)
                ax.text(x * (2.0 if side == "left" else 0.6), level, names.get(name, name), ha=side, va="center")
        free, same = (float(sweeps[name].losses[0]) for name in ("FIOL, default", "COMID, same steps"))
        ax.axhline(free, color=plots.BLACK, lw=3.5)
        ax.text(
            etas[-1] / 2.0,
            free / 1.15,
            f"default steps, no size to choose: FIOL {free:.3f}, COMID {same:.3f}",
            ha="right",
            va="top",
            weight="bold",
        )
        ax.text(2e-4, LIMIT * 1.4, "did not survive", color=plots.RED, ha="center")
        ax.set(xscale="log", yscale="log", xlim=(etas[0], etas[-1]), ylim=(bottom, top))
        ax.set_xticks(10.0 ** np.arange(-10, 5, 2))
        ax.set_yticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
        ax.set_xlabel("step size $\\eta$")
        ax.set_ylabel("progressive loss, relative to w = 0")
        title = "Implicit updates survive every step size; the default steps need none"
        figure.suptitle(title, x=0.01, ha="left", weight="bold", size=19)
        data = f"{race.rows:,} rows of {race.d} correlated features with scales from 0.001 to 1,000, squared loss, L1"
        ax.set_title(data, loc="left", color="#444444", size=15, pad=12)
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if path.suffix == ".svg" else None  # the same picture is the same file
        figure.savefig(path, dpi=100, metadata=metadata)


def crossing(etas: np.ndarray, losses: np.ndarray, level: float) -> float:
    """Where a curve first rises to a level, on straight lines between logarithms."""
    k = int(np.argmax(losses > level))
    below, above = np.log(losses[k - 1 : k + 1])
    share = (np.log(level) - below) / (above - below)
    return float(etas[k - 1] * (etas[k] / etas[k - 1]) ** share)


def spread(values: list[float], ratio: float) -> list[float]:
    """Rising values moved as little as it takes to put a ratio between each and the next, their middle kept.

    >>> [round(value, 3) for value in spread([1.0, 1.0, 100.0], 4.0)]
    [0.5, 2.0, 100.0]
    """
    gap, moved = np.log(ratio), np.log(values)
    for _ in range(1000):
        short = gap - np.diff(moved)
        k = int(np.argmax(short)) if short.size else 0
        if not short.size or short[k] < 1e-6:
            break
        moved[k] -= 0.5 * short[k]
        moved[k + 1] += 0.5 * short[k]
    return [float(value) for value in np.exp(moved)]


def main(arguments: Sequence[str] | None = None) -> dict[str, Sweep]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("build/who_survives.png"), help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="a short stream, few step sizes, nothing compiled")
    options = parser.parse_args(arguments)
    race = QUICK if options.quick else Race()
    etas = race.etas()
    print(f"{race.rows:,} rows of {race.d} correlated features with scales from 0.001 to 1,000; {LOSS}, {PENALTY}.")
    print(f"Each preset learns them with {etas.size} step sizes eta from {etas[0]:.0e} to {etas[-1]:.0e}.")
    print("Loss: mean squared error of each row before it is learned, relative to that of w = 0.")
    print(f"Survived: less than {LIMIT:.0f}. Zeros: weights that are exactly 0 at the best eta.\n", flush=True)
    sweeps = sweep_all(race)
    print_table(race, sweeps)
    print_learner(race)
    try:
        draw(race, sweeps, options.figure)
        print(f"\nLoss against step size is drawn in {options.figure}")
    except ImportError as error:
        print(f"\nNo figure: {error}")
    return sweeps


if __name__ == "__main__":
    main()
