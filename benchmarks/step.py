"""Microseconds per step: every solver of the exact step beside the explicit step of SGD.

    python -m benchmarks.step [--json FILE] [--plot FILE] [--quick]

Three questions, each about a stream of rows: the paper's problem (dense, d = 1000), and how the time grows with the
number of non-zeros of dense and of sparse rows. All contestants of a setting run in turns, on the same arrays, compiled
with the same flags, and must first end with the same weights.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import (
    FIT_FROM,
    Target,
    decades,
    fit_ranges,
    header,
    progress,
    table,
    verdicts,
)
from fiol.experiments.solvers import (
    EXPLICIT,
    LAM,
    PLAIN,
    Result,
    Stream,
    draw,
    fits_of,
    measure,
    paper_stream,
    scaling_streams,
)
from fiol.plots import STYLE, load_matplotlib, save_figure


class Plan(NamedTuple):
    """How much to run."""

    d: int  #: features of the paper's problem
    rows: int  #: and its rows
    dense: tuple[int, ...]  #: features of the dense scaling runs
    sparse: tuple[int, ...]  #: non-zeros of the sparse ones
    width: int  #: and their features
    volume: int  #: non-zeros in a scaling run, for as many rows as that makes
    rounds: dict[str, int]  #: turns of every contestant, by section


FULL = Plan(1000, 2000, decades(1, 6), decades(1, 5), 1_000_000, 2_000_000, {"paper": 9, "dense": 3, "sparse": 3})
QUICK = Plan(30, 20, (10, 30), (10, 30), 1000, 200, {"paper": 1, "dense": 1, "sparse": 1})


def streams(plan: Plan) -> Iterator[tuple[str, Stream]]:
    """Return all settings, each with its section."""
    for rho in (0.0, 0.5):
        for eta in (1e-4, 1e-3):
            yield "paper", paper_stream(plan.d, plan.rows, rho, eta)
    for stream in scaling_streams(plan.dense, plan.sparse, plan.width, plan.volume):
        yield stream.layout, stream


def measure_all(plan: Plan) -> list[Result]:
    results = []
    for section, stream in streams(plan):
        progress(f"{section}: {stream.title()}")
        results.append(measure(section, stream, plan.rounds[section]))
    progress("")
    return results


# --- what the numbers say ---------------------------------------------------------------------


def targets(results: list[Result]) -> list[Target]:
    """Return the targets, each at its worst setting."""
    paper, dense, sparse = ([r for r in results if r.section == s] for s in ("paper", "dense", "sparse"))
    found = []
    for eta in sorted({r.eta for r in paper}):
        worst = max(r.us["Newton"] / r.us[EXPLICIT] for r in paper if r.eta == eta)
        found.append(Target(f"Newton at most 2.0 x {EXPLICIT}, eta {eta:g}", f"{worst:.2f} x", worst <= 2.0))
    for name, bound in (("Sorting", 40.0), ("Partition", 8.0)):
        worst = min(r.us[name] / r.us["Newton"] for r in paper)
        found.append(Target(f"Newton at least {bound:g} x faster than {name}", f"{worst:.0f} x", worst >= bound))
    large = [r for r in results if r.nnz >= 1000] or results
    worst = min(r.us["Sorting"] / r.us["Partition"] for r in large)
    found.append(Target("Partition faster than Sorting from 1000 non-zeros on", f"{worst:.2f} x", worst > 1.0))
    for section in (dense, sparse):
        for name in ("Newton", "Partition"):
            fits = fits_of(section, name)
            measured = f"nnz^{fits[0]:.3f}" + "".join(f" (nnz^{b:.3f} from {FIT_FROM[1]:,})" for b in fits[1:])
            span = f"{section[0].layout}, {section[0].nnz} to {section[-1].nnz:,} non-zeros"
            found.append(Target(f"{name} grows slower than nnz^1.1, {span}", measured, fits[0] < 1.1))
    return found


def report(results: list[Result], plan: Plan) -> str:
    paper = [r for r in results if r.section == "paper"]
    names = list(paper[0].us)
    head = ["", *(f"rho {r.rho:g}, eta {r.eta:g}" for r in paper)]
    pairs = [("Newton", EXPLICIT), ("Newton", PLAIN), ("Sorting", "Newton"), ("Partition", "Newton")]
    pairs += [("Bisection", "Newton"), ("Sorting", "Partition")]
    parts = [
        f"Squared loss + L1({LAM:g}), double precision, one thread, the best of several turns.\n"
        f"{EXPLICIT}: w -= eta (phi' x + lam sign(w)), in place. {PLAIN}: w -= eta phi' x, in place.\n"
        "Sparse rows: exact steps gather, solve and scatter; no step touches absent features.",
        f"The paper's problem, dense d = {plan.d}, {plan.rows} rows from w = 0: microseconds per step",
        table(head, [[name, *(f"{r.us[name]:.3f}" for r in paper)] for name in names]),
        "Ratios of these times",
        table(head, [[f"{a} / {b}", *(f"{r.us[a] / r.us[b]:.2f}" for r in paper)] for a, b in pairs]),
        "Passes over the row per step",
        table(head, [[name, *(f"{r.passes[name]:.2f}" for r in paper)] for name in names]),
    ]
    for layout in ("dense", "sparse"):
        rows = [r for r in results if r.section == layout]
        width = "" if layout == "dense" else f" in d = {plan.width:,}"
        body = [[f"{r.nnz:,}", *(f"{r.us[name]:.3g}" for name in names)] for r in rows]
        for k, first in enumerate(fit_ranges(r.nnz for r in rows)):
            fits = (f"{fits_of(rows, name)[k]:.3f}" for name in names)
            body.append([f"exponent from {first:,}" if first else "exponent, all sizes", *fits])
        parts.append(f"Scaling, {layout} rows{width}, eta = 1 / non-zeros: microseconds per step")
        parts.append(table(["non-zeros", *names], body))
    parts += ["Targets, each at its worst setting", verdicts(targets(results), plan is FULL)]
    return "\n\n".join(parts)


def document(results: list[Result], plan: Plan, arguments: list[str] | None) -> dict[str, Any]:
    """Return all numbers, and what is needed to read them later."""
    return {
        **header("benchmarks.step", arguments, plan is not FULL),
        "unit": "microseconds per step",
        "results": [r._asdict() for r in results],
        "exponents_from": FIT_FROM,
        "exponents": {
            layout: {name: fits_of(rows, name) for name in rows[0].us}
            for layout in ("dense", "sparse")
            for rows in [[r for r in results if r.section == layout]]
        },
        "targets": [t._asdict() for t in targets(results)],
    }


# --- command line -----------------------------------------------------------------------------


def save_plot(results: list[Result], path: Path) -> None:
    """Save the scaling plot."""
    matplotlib = load_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.4), layout="constrained")
        draw(figure, results)
        save_figure(figure, path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, versions and the command")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw time against non-zeros (png, svg, pdf)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, measures nothing")
    options = parser.parse_args(arguments)
    if options.plot:
        load_matplotlib()  # better now than after three minutes
    plan = QUICK if options.quick else FULL
    results = measure_all(plan)
    print(report(results, plan))
    for path in filter(None, (options.json, options.plot)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if options.json:
        options.json.write_text(json.dumps(document(results, plan, arguments), indent=1) + "\n")
    if options.plot:
        save_plot(results, options.plot)


if __name__ == "__main__":
    main()
