"""`fiol journal`: look into the journal of a server."""

from __future__ import annotations

import datetime
from contextlib import closing
from typing import Any

import click

from fiol.cli.errors import handle_errors, json_text, print_page, refuse_existing
from fiol.cli.sections import typed_command
from fiol.cli.terminal import echo

Folder = click.argument("folder", type=click.Path(exists=True, file_okay=False))


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A date or time in ISO format, local unless it has an offset."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return seconds since 1970."""
        if isinstance(value, float):
            return value
        try:
            return datetime.datetime.fromisoformat(value).timestamp()
        except ValueError:
            self.fail(f"{value!r} is no time such as 2026-11-18 or 2026-11-18T09:30", param, ctx)


def period(command: Any) -> Any:
    """Add the options of a period to a command."""
    command = click.option("--until", type=Moment(), default=float("inf"), help="Rows before this time.")(command)
    return click.option("--since", type=Moment(), default=0.0, help="Rows since this time.")(command)


@click.group("journal")
def journal() -> None:
    """List, verify, export and replay the journal of fiol serve.

    \b
    fiol journal list fiol-journal
    fiol journal verify fiol-journal
    fiol journal export fiol-journal clicks.parquet --model clicks
    fiol journal replay fiol-journal other.json --report other.html
    """


@journal.command("list")
@Folder
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@handle_errors
def list_journal(folder: str, as_json: bool, signals: Any) -> None:
    """Print models, records, rows and snapshots."""
    from fiol.server.journal import Journal
    from fiol.server.journal_tools import journal_summary

    with closing(Journal(folder, read_only=True)) as found:
        models = journal_summary(found)
    if as_json:
        echo(json_text(models))
        return
    echo(f"{'model':16} {'records':>9} {'learned':>9} {'predicted':>9} {'refused':>8}  positions        snapshots at")
    for one in models:
        counts = f"{one['records']:>9,} {one['learned']:>9,} {one['predicted']:>9,} {one['refused']:>8,}"
        places = f"{one['first']} to {one['last']}"
        echo(f"{one['model']:16} {counts}  {places:16} {', '.join(map(str, one['snapshots'])) or 'none'}")


@journal.command("verify")
@Folder
@handle_errors
def verify_journal(folder: str, signals: Any) -> None:
    """Check the journal's file, the checksum of every record, and all snapshots; exit code 1 if one is damaged."""
    from fiol.server.journal import Journal
    from fiol.server.journal_tools import journal_summary
    from fiol.server.snapshots import SnapshotStore

    with closing(Journal(folder, read_only=True)) as found:
        problems, store = list(found.damaged()), SnapshotStore(folder)
        for problem in problems:
            echo(problem, err=True)
        models = journal_summary(found)
    for one in models:
        for snapshot in store.list(one["model"]):
            try:
                store.load(one["model"], snapshot)
            except (ValueError, OSError) as error:
                problems.append(str(error))
                echo(str(error), err=True)
    if problems:
        raise click.ClickException(f"{len(problems)} problems")
    echo(f"{sum(one['records'] for one in models):,} records and all snapshots are whole")


@journal.command("export")
@Folder
@click.argument("path", type=click.Path(dir_okay=False))
@click.option("--model", help="Name of the model; need not be given if there is one.")
@period
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@handle_errors
def export_journal(
    folder: str, path: str, model: str | None, since: float, until: float, force: bool, signals: Any
) -> None:
    """Write the rows that a model learned from to a Parquet file.

    Every feature is a column. The other columns are _label, _weight, _id, _served, _delay, _time and _position.
    """
    from fiol.server.journal import Journal
    from fiol.server.journal_tools import check_model, export_parquet

    refuse_existing(path, force)
    with closing(Journal(folder, read_only=True)) as found:
        rows = export_parquet(found, check_model(found, model), path, since, until)
    echo(f"{path}: {rows:,} rows")


@journal.command("replay")
@Folder
@click.argument("specification", type=click.Path(exists=True, dir_okay=False))
@click.option("--model", help="Name of the model whose rows are replayed.")
@period
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Save the trained model.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write a page about it (.html).")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@handle_errors
def replay_journal(
    folder: str,
    specification: str,
    model: str | None,
    since: float,
    until: float,
    output: str | None,
    report: str | None,
    force: bool,
    signals: Any,
) -> None:
    """Train another learner on the rows of a journal, and report what it would have predicted.

    SPECIFICATION is a specification of an empty model (.json), or a model file that continues. Every row is predicted
    before it is learned from, and the printed metrics are of these predictions. A second table compares both models on
    the rows that were predicted with an id, by the scores that were served.
    """
    from fiol.cli.evaluate import report_lines
    from fiol.server.journal import Journal
    from fiol.server.journal_tools import check_model, replay_into
    from fiol.server.specification import model_from_file
    from fiol.workflow.model import write_evaluation_page

    for path in (output, report):
        if path is not None:
            refuse_existing(path, force)
    with closing(Journal(folder, read_only=True)) as found:
        name = check_model(found, model)
        served, refused = replay_into(found, name, model_from_file(specification), since, until)
    if output is not None:  # before it prints: standard output may be closed or full
        served.model.save(output)
    head, *compared = comparison_table(served.comparison())
    if report is not None:
        cards = comparison_cards(head, compared)
        write_evaluation_page(report, served.evaluation, [f"{name} in {folder}"], 0, typed_command(), cards)
    for line in report_lines(served.evaluation.results()):
        echo(line)
    for line in ("", *(f"{a:<26}{b:>16}{c:>16}" for a, b, c in (head, *compared))) if compared else ():
        echo(line)
    if not compared:
        echo("no comparison with the model as served: no row was predicted with an id", err=True)
    if refused:
        echo(f"{refused:,} records were not accepted", err=True)
    print_page(report)


def comparison_table(compared: list[tuple[str, Any, Any]]) -> list[list[str]]:
    """Return the cells of `ReplayedModel.comparison`, with a head.

    >>> comparison_table([("rows", 20, 20), ("log_loss", 0.25, 0.5)])
    [['predicted with an id', 'this learner', 'as served'], ['rows', '20', '20'], ['log loss', '0.25', '0.5']]
    """
    from fiol.cli.evaluate import TITLES, figure_text

    rows = [[TITLES[name], figure_text(mine), figure_text(served)] for name, mine, served in compared]
    return [["predicted with an id", "this learner", "as served"], *rows]


def comparison_cards(head: list[str], rows: list[list[str]]) -> list[Any]:
    """Return the card of a report with these rows; none without rows."""
    from fiol.reports.html import Card, plain_table

    remark = "Both are of the same rows, predicted before they were learned from."
    return [Card("This learner beside the model as served", plain_table(head, rows, (0,)), remark)] if rows else []
