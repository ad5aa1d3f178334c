"""`fiol compare`: algorithms times step sizes on the user's own rows."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from fiol.cli.data_options import data_options, print_skipped, take_data_options
from fiol.cli.errors import handle_errors, print_page, refuse_existing
from fiol.cli.learning_options import learning_options
from fiol.cli.sections import OptionSections, option_in, typed_command
from fiol.cli.terminal import echo

comparing = option_in("Comparing")
#: Two pairs: an algorithm that linearizes the loss, and the same with exact steps.
COMPARED = ("FIOL", "SGD", "ImplicitFTRL", "FTRLProximal")
#: Step sizes, from far too short to far too long.
SIZES = "1e-4,1e-3,1e-2,1e-1,1,10,100,1e3,1e4"


@click.command(cls=OptionSections)
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@data_options
@comparing(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="NAME",
    help=f"An algorithm; may be repeated [default: {', '.join(COMPARED)}].",
)
@comparing("--step-sizes", default=SIZES, show_default=True, metavar="SIZES", help="Step sizes, separated by commas.")
@comparing(
    "--steps",
    type=click.Choice(["scale_free", "adagrad", "constant"]),
    default="scale_free",
    show_default=True,
    help="What a step size multiplies: the paper's are constant, which suits columns of one scale alone.",
)
@learning_options(comparing)
@click.option("--report", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page with a figure (.html).")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@handle_errors
def compare(
    sources: tuple[str, ...], report: str | None, force: bool, as_json: bool, signals: Any, **options: Any
) -> None:
    """Compare algorithms over many step sizes on DATA.

    Exact steps, explicit ones, and the default, which has no step size. All learn from the same rows in the same order,
    once; losses are of rows before they are learned from. The default is the ensemble that `fiol train` makes.

    \b
    fiol compare clicks.csv --target clicked
    fiol compare rcv1.svm.gz --algorithm SGD --algorithm FIOL --report steps.html
    """
    from fiol.reports.comparison_page import HEAD, comparison_page, comparison_rows, comparison_title
    from fiol.summary import columns
    from fiol.training.run import rows_of_batch
    from fiol.training.sweep import Sweep
    from fiol.workflow.files import atomic_write
    from fiol.workflow.job import TrainingJob
    from fiol.workflow.options import TrainOptions

    if report is not None:
        refuse_existing(report, force)
    sizes, names = step_sizes(options.pop("step_sizes")), options.pop("algorithms") or COMPARED
    steps = options.pop("steps")
    job = TrainingJob(list(sources), TrainOptions(**take_data_options(options), **options))
    job.infer()
    comparison = Sweep(entrants(job, names, steps, sizes), job.task)
    skips = job.options.on_error == "skip"
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
        with atomic_write(report) as file:
            file.write(page)
    print_skipped(job.reader, missing)
    if as_json:
        runs = [{**f._asdict(), "loss": f.loss if math.isfinite(f.loss) else None} for f in found]
        results = {"rows": comparison.rows, "constant": comparison.constant_loss(), "why": job.task.why, "runs": runs}
        echo(json.dumps(results, indent=2))
    else:
        echo(comparison_title(found))
        for line in columns([HEAD, *comparison_rows(found)]):
            echo(line)
    print_page(report)


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
    """Return a learner per algorithm and step size, the default learner last; raise UsageError if one is impossible."""
    from fiol import AdaGrad, Constant, Learner, ScaleFree
    from fiol.integrations.parameters import make_update
    from fiol.names import DEFAULT_ALPHA, DEFAULT_L1_RATIO
    from fiol.reports.comparison_page import ENSEMBLE

    kinds: dict[str, Any] = {
        "constant": Constant,
        "adagrad": AdaGrad,
        "scale_free": lambda size: ScaleFree(AdaGrad(size)),
    }
    o, made = job.options, dict[tuple[str, float | None], Any]()
    alpha = DEFAULT_ALPHA if o.alpha is None else o.alpha
    l1_ratio = DEFAULT_L1_RATIO if o.l1_ratio is None else o.l1_ratio
    for name in names:
        for size in sizes:
            try:
                update = make_update(job.task.loss, o.penalty, alpha, l1_ratio, name, kinds[steps](size), alone=True)
            except (TypeError, ValueError) as error:
                raise click.UsageError(" ".join(str(error).split())) from error
            made[name, size] = Learner(update, bits=o.bits)
    made[ENSEMBLE, None] = job.make_model()
    return made


def exact_ones(names: Any) -> list[str]:
    """Those algorithms that do not linearize the loss."""
    from fiol.components.losses import Squared
    from fiol.names import ALGORITHMS, algorithm_named

    updates = {name: ALGORITHMS[algorithm_named(name)](loss=Squared()) for name in names}
    return [name for name, update in updates.items() if "Linear" not in type(update.loss_step).__name__]
