"""`fiol export` and `fiol import`: models in other formats, and back from JSON."""

from __future__ import annotations

import json
from typing import Any

import click
from click.core import ParameterSource

from fiol.cli.errors import handle_errors, refuse_existing
from fiol.cli.sections import OptionSections, option_in
from fiol.cli.terminal import echo
from fiol.exports.formats import EXPORT_FORMATS

sql_option, json_option = option_in("SQL"), option_in("JSON")
#: The dialects of SQL; `fiol.exports.dialects` has them, which help does not load.
SQL_DIALECTS = ["standard", "sqlite", "postgresql", "duckdb"]

EXPORT_HELP = f"""Write MODEL in another format, to FILE or to standard output.

\b
{chr(10).join(f"{name:9} {each.description}" for name, each in EXPORT_FORMATS.items())}

\b
fiol export clicks.fiol --to json -o clicks.json
fiol export clicks.fiol --to sql --table clicks --dialect sqlite | sqlite3 shop.db
fiol export clicks.fiol -o clicks_model.py
"""


@click.command("export", cls=OptionSections, help=EXPORT_HELP)
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option("--to", "name", type=click.Choice(list(EXPORT_FORMATS)),
              help="The format [default: by the ending of FILE].")  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="The file to write.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@sql_option("--table", default="data", show_default=True, help="Name of the table.")
@sql_option("--dialect", default="standard", type=click.Choice(SQL_DIALECTS), show_default=True,
            help="The database; standard SQL has no parts of dates.")  # fmt: skip
@sql_option(
    "--column",
    default="f{}",
    show_default=True,
    help="Names of columns, of a model that learned from an array or svmlight: {} is the number of the feature.",
)
@json_option("--no-state", "state", is_flag=True, flag_value=False, default=True,
             help="Leave out what learning continues from: for predicting alone, much smaller.")  # fmt: skip
@handle_errors
def export_model(model: str, name: str | None, output: str | None, force: bool, signals: Any, **options: Any) -> None:
    """Write a model file in another format."""
    name = name or format_by_ending(output)
    found = EXPORT_FORMATS[name]
    context = click.get_current_context()
    for option in options:
        if option not in found.options and context.get_parameter_source(option) is not ParameterSource.DEFAULT:
            flag = "--no-state" if option == "state" else f"--{option}"
            raise click.UsageError(f"{flag} has no effect on --to {name}")
    if output is None and found.serialize is not None:
        raise click.UsageError(f"--to {name} is no text: name a file by -o")
    if output is not None:
        refuse_existing(output, force)
    import fiol
    from fiol.workflow.files import atomic_write

    data = found.file_data(fiol.load(model, compiled=False), **{option: options[option] for option in found.options})
    if isinstance(data, bytes):
        from fiol.readers.writing import file_for

        with file_for(output, force) as file:
            file.write(data)
    else:
        with atomic_write(output) as file:
            file.write(data)
            file.flush()


def format_by_ending(path: str | None) -> str:
    """Return the format that the ending of a file name means; UsageError if it means none."""
    for name, found in EXPORT_FORMATS.items():
        if path is not None and path.lower().endswith(found.extension):
            return name
    endings = ", ".join(found.extension for found in EXPORT_FORMATS.values())
    raise click.UsageError(f"name the format by --to, or by the ending of FILE: {endings}")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="MODEL", help="The model file.")
@click.option("--force", is_flag=True, help="Replace MODEL if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object about it.")
@handle_errors
def import_model(file: str, output: str, force: bool, as_json: bool, signals: Any) -> None:
    """Write a model file from JSON that `fiol export --to json` wrote.

    With its state the model is the one that was exported, bit for bit. Without ("state": null) it predicts by the
    weights in FILE, which may have been edited, and learns anew from these.

    \b
    fiol import clicks.json -o clicks.fiol
    """
    refuse_existing(output, force)
    from fiol.exports.json_model import load_json

    model = load_json(file, compiled=False)
    model.save(output)
    weights = model.weights if hasattr(model, "weights") else model.coef_
    facts = {
        "model": output,
        "features": weights.shape[-1],
        "nonzeros": int((weights != 0.0).reshape(-1, weights.shape[-1]).any(axis=0).sum()),
        "rounds": getattr(model, "rounds", None),
    }
    if as_json:
        echo(json.dumps(facts))
    else:
        echo(f"{output}: {facts['nonzeros']:,} of {facts['features']:,} features have a weight")
