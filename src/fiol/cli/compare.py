"""`fiol compare`: algorithms times step sizes on the user's own rows."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from fiol.cli.data import reading_options, tell_skipped
from fiol.cli.outcome import answering, refuse_existing, tell_page, whole_file
from fiol.cli.sections import OptionSections, option_in, typed_command

comparing = option_in("Comparing")
#: Two pairs: an algorithm that linearizes the loss, and the same with exact steps.
COMPARED = ("FIOL", "SGD", "ImplicitFTRL", "FTRLProximal")
#: Step sizes, from far too short to far too long.
SIZES = "1e-4,1e-3,1e-2,1e-1,1,10,100,1e3,1e4"


@click.command(cls=OptionSections)
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@reading_options
@comparing(
    "--algorithm", "algorithms", multiple=True, metavar="NAME", help=f"May come again [default: {', '.join(COMPARED)}]."
)
@comparing("--step-sizes", default=SIZES, show_default=True, metavar="SIZES", help="Numbers with commas between them.")
@comparing(
    "--steps",
    type=click.Choice(["scale_free", "adagrad", "constant"]),
    default="scale_free",
    show_default=True,
    help="What a step size multiplies: the paper's are constant, which suits columns of one scale alone.",
)
@comparing("--loss", metavar="NAME", help="log_loss, squared_error, hinge, ... [default: by the target].")
@comparing(
    "--penalty",
    type=click.Choice(["none", "l1", "l2", "elasticnet"]),
    default="none",
    show_default=True,
    help="On weights.",
)
@comparing("--alpha", type=click.FloatRange(0.0), default=1e-4, show_default=True, help="The strength of the penalty.")
@comparing(
    "--l1-ratio", type=click.FloatRange(0.0, 1.0), default=0.15, show_default=True, help="The l1 part of elasticnet."
)
@comparing("--bits", type=click.IntRange(1, 30), help="Fold all features into 2^BITS by hashing: less memory.")
@click.option("--report", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page with a figure (.html).")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="As a JSON object.")
@answering
def compare(
    sources: tuple[str, ...], report: str | None, force: bool, as_json: bool, signals: Any, **options: Any
) -> None:
    """Compare algorithms over step sizes on DATA: exact steps, explicit ones, and the default, which has no size.

    All learn from the same rows in the same order, once; losses are of rows before they are learned from. The default
    is the ensemble that `fiol train` makes.

    \b
    fiol compare clicks.csv --target clicked
    fiol compare rcv1.svm.gz --algorithm SGD --algorithm FIOL --report steps.html
    """
    from fiol.cli.train import Job
    from fiol.reports.comparison_page import HEAD, comparison_page, comparison_rows, comparison_title
    from fiol.summary import columns
    from fiol.training.run import rows_of_batch
    from fiol.training.sweep import Sweep

    if report is not None:
        refuse_existing(report, force)
    sizes, names = step_sizes(options.pop("step_sizes")), options.pop("algorithms") or COMPARED
    steps = options.pop("steps")
    job = Job(list(sources), "", {**options, **LEFT_AS_THEY_ARE})
    job.find_out()
    comparison = Sweep(entrants(job, names, steps, sizes), job.task)
    skips = options["on_error"] == "skip"
    missing = 0
    try:
        for batch in job.batches():
            rows, there = rows_of_batch(batch, job.task, skips)
            missing += int((~there).sum())
            comparison.add(rows if there.all() else rows.taken(there.nonzero()[0]))
    finally:
        job.reader.close()
    found = comparison.results()
    if report is not None:
        page = comparison_page(comparison, exact_ones(names), ", ".join(sources), typed_command())
        with whole_file(report) as file:
            file.write(page)
    tell_skipped(job.reader, missing)
    if as_json:
        runs = [{**f._asdict(), "loss": f.loss if math.isfinite(f.loss) else None} for f in found]
        told = {"rows": comparison.rows, "constant": comparison.constant_loss(), "why": job.task.why, "runs": runs}
        click.echo(json.dumps(told, indent=2))
    else:
        click.echo(comparison_title(found))
        for line in columns([HEAD, *comparison_rows(found)]):
            click.echo(line)
    tell_page(report)


#: What a run of training can be asked for, and a comparison cannot.
LEFT_AS_THEY_ARE = {
    "passes": 1,
    "shuffle": 0,
    "seed": 1,
    "holdout": 0.0,
    "early_stop": None,
    "max_features": None,
    "no_intercept": False,
    "average": False,
    "dtype": "float64",
    "algorithm": None,
    "step_size": "auto",
}


def step_sizes(text: str) -> list[float]:
    """Numbers above 0, with commas between them, the least first.

    >>> step_sizes("1,1e-2")
    [0.01, 1.0]
    """
    try:
        found = sorted({float(part) for part in text.split(",")})
    except ValueError:
        found = []
    if len(found) < 2 or not all(0.0 < size < math.inf for size in found):
        raise click.UsageError(f"--step-sizes takes two or more numbers above 0, such as 0.01,1,100, got {text!r}")
    return found


def entrants(job: Any, names: Any, steps: str, sizes: list[float]) -> dict[tuple[str, float | None], Any]:
    """A learner for every algorithm and step size, and the default one, last; UsageError if one cannot be."""
    from fiol import AdaGrad, Constant, Learner, ScaleFree
    from fiol.integrations.parameters import make_update
    from fiol.names import ALGORITHMS
    from fiol.reports.comparison_page import ENSEMBLE

    kinds: dict[str, Any] = {
        "constant": Constant,
        "adagrad": AdaGrad,
        "scale_free": lambda size: ScaleFree(AdaGrad(size)),
    }
    o, made = job.options, dict[tuple[str, float | None], Any]()
    penalty = None if o["penalty"] == "none" else o["penalty"]
    for name in names:
        if name not in ALGORITHMS:
            raise click.UsageError(f"there is no algorithm {name!r}: choose from {', '.join(ALGORITHMS)}")
        for size in sizes:
            try:
                update = make_update(
                    job.task.loss, penalty, o["alpha"], o["l1_ratio"], name, kinds[steps](size), alone=True
                )
            except (TypeError, ValueError) as error:
                raise click.UsageError(" ".join(str(error).split())) from error
            made[name, size] = Learner(update, bits=o["bits"])
    made[ENSEMBLE, None] = job.make_learner()
    return made


def exact_ones(names: Any) -> list[str]:
    """Those algorithms that do not linearize the loss."""
    from fiol.components.losses import Squared
    from fiol.names import ALGORITHMS

    return [name for name in names if "Linear" not in type(ALGORITHMS[name](loss=Squared()).loss_step).__name__]
