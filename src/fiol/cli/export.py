"""`fiol export` and `fiol import`: models as others read them, and back from JSON."""

from __future__ import annotations

import json
from typing import Any

import click

from fiol.cli.errors import handle_errors, refuse_existing
from fiol.cli.sections import OptionSections, option_in

#: What a model can be, and what each is.
EXPORTED = {
    "json": "all of it, with exact numbers; fiol import reads it back",
    "vw": "lines of name:hash:weight, as Vowpal Wabbit's --invert_hash writes them",
    "sklearn": "a fitted estimator of scikit-learn, pickled",
    "onnx": "a graph for any runtime of ONNX",
    "sql": "one SELECT that scores the rows of a table",
    "python": "a module with score(row) and predict(row) that needs no library",
}
#: What is no text, so that it goes to a file.
BINARY = ("sklearn", "onnx")

of_sql, of_json, of_vw = option_in("SQL"), option_in("JSON"), option_in("Vowpal Wabbit")


@click.command("export", cls=OptionSections)
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option("--to", "form", required=True, type=click.Choice(list(EXPORTED)), help="What to make of it.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Where to; whole or not at all.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@of_sql("--table", default="data", show_default=True, help="What the table is called.")
@of_sql("--dialect", default="standard", type=click.Choice(["standard", "sqlite", "postgresql"]), show_default=True,
        help="How parts of dates are told.")  # fmt: skip
@of_sql("--column", "column", default="f{}", show_default=True, help="What columns of numbered features are called.")
@of_json("--no-state", is_flag=True, help="Leave out what learning goes on from: for predicting alone, much smaller.")
@of_vw("--bits", type=click.IntRange(1, 31), default=18, show_default=True, help="Bits of the hashes (-b).")
@handle_errors
def export_model(model: str, form: str, output: str | None, force: bool, signals: Any, **options: Any) -> None:
    """Write MODEL in another form, to FILE or to standard output.

    \b
    json      all of it, with exact numbers; fiol import reads it back
    vw        lines of name:hash:weight, as Vowpal Wabbit's --invert_hash writes them
    sklearn   a fitted estimator of scikit-learn, pickled (joblib.load, pickle.load)
    onnx      a graph for any runtime of ONNX, which takes a matrix of features
    sql       one SELECT that scores the rows of a table
    python    a module with score(row) and predict(row) that needs no library

    \b
    fiol export clicks.fiol --to json -o clicks.json
    fiol export clicks.fiol --to sql --table clicks --dialect sqlite | sqlite3 shop.db
    fiol export clicks.fiol --to python -o clicks_model.py
    """
    if output is None and form in BINARY:
        raise click.UsageError(f"--to {form} is no text: name a file by -o")
    if output is not None:
        refuse_existing(output, force)
    from fiol.workflow.files import atomic_write
    from fiol.workflow.model import open_model

    made = exported(open_model(model, compiled=False), form, options)
    if isinstance(made, bytes):
        from fiol.readers.writing import file_for

        with file_for(output, force) as file:
            file.write(made)
    else:
        with atomic_write(output) as file:
            file.write(made)
            file.flush()


def exported(learner: Any, form: str, options: dict[str, Any]) -> str | bytes:
    """The model in a form, as text or bytes."""
    if form == "json":
        from fiol.exports.json_model import model_as_json

        return model_as_json(learner, state=not options["no_state"])
    if form == "vw":
        from fiol.exports.vw_text import vw_text

        return vw_text(learner, options["bits"])
    if form == "sql":
        from fiol.exports.sql import sql_scores

        return sql_scores(learner, options["table"], options["column"], dialect=options["dialect"])
    if form == "python":
        from fiol.exports.python_source import python_source

        return python_source(learner)
    if form == "onnx":
        from fiol.exports.onnx_graph import onnx_model

        return onnx_model(learner).SerializeToString()  # type: ignore[no-any-return]
    import pickle

    from fiol.exports.sklearn_model import to_sklearn

    return pickle.dumps(to_sklearn(learner))


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="MODEL", help="The model file.")
@click.option("--force", is_flag=True, help="Replace MODEL if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object about it.")
@handle_errors
def import_model(file: str, output: str, force: bool, as_json: bool, signals: Any) -> None:
    """Make a model file of JSON that `fiol export --to json` wrote.

    With its state the model is the one that was exported, bit for bit. Without ("state": null) it predicts by the
    weights in FILE, which may have been edited, and learns anew from these.

    \b
    fiol import clicks.json -o clicks.fiol
    """
    refuse_existing(output, force)
    from fiol.exports.json_model import load_json

    learner = load_json(file, compiled=False)
    learner.save(output)
    facts = {"model": output, "features": learner.n_features, "nonzeros": learner.n_nonzero, "rounds": learner.rounds}
    if as_json:
        click.echo(json.dumps(facts))
    else:
        found = f"{facts['nonzeros']:,} of {facts['features']:,} features have a weight"
        click.echo(f"{output}: {found}, {facts['rounds']:,} rounds")
