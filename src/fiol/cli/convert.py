"""`fiol convert`: rows as svmlight or Vowpal Wabbit's text, for other tools."""

from __future__ import annotations

import json
from typing import Any

import click

from fiol.cli.data_options import data_options, print_skipped, take_data_options
from fiol.cli.errors import handle_errors, refuse_existing
from fiol.cli.sections import OptionSections, option_in
from fiol.cli.terminal import echo

result_option = option_in("Result")


@click.command("convert", cls=OptionSections)
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@data_options
@result_option("--to", "form", type=click.Choice(["svmlight", "vw"]),
         help="The format to write [default: by the ending of FILE].")  # fmt: skip
@result_option("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="FILE",
         help="The file to write; it appears when it is complete.")  # fmt: skip
@result_option("--force", is_flag=True, help="Replace FILE if it exists.")
@result_option("--bits", type=click.IntRange(1, 30), help="For svmlight: number names by a hash, into 2^BITS.")
@result_option("--names", type=click.Path(dir_okay=False), metavar="NAMES",
         help="For svmlight: write the names of features as JSON text, one per line, from feature 1.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object about it.")
@handle_errors
def convert_data(
    sources: tuple[str, ...],
    form: str | None,
    output: str,
    force: bool,
    bits: int | None,
    names: str | None,
    as_json: bool,
    signals: Any,
    **options: Any,
) -> None:
    """Write the rows of DATA as svmlight or Vowpal Wabbit's text.

    The order stays. Rows become the features that a model would learn from: text, dates and missing values by the
    encoding of columns, interactions included. In svmlight names of features become numbers: in the order of their
    appearance, or by --bits. Target, weight and tag are written, too; a row that the format cannot express is an error.

    \b
    fiol convert clicks.csv --target clicked -o clicks.vw
    fiol convert clicks.parquet --target clicked -o clicks.svm --names clicks.names
    """
    from fiol.readers.converting import Conversion, format_to_write
    from fiol.readers.reader_config import infer_config
    from fiol.readers.sources import Sources
    from fiol.workflow.files import atomic_write
    from fiol.workflow.options import TrainOptions

    try:
        form = format_to_write(form, output)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if form != "svmlight" and (bits is not None or names is not None):
        raise click.UsageError("--bits and --names are for svmlight, whose features are numbers")
    if bits is not None and names is not None:
        raise click.UsageError("--bits keeps no --names")
    for path in (output, names):
        if path is not None:
            refuse_existing(path, force)
    on_error = options["on_error"]
    given = TrainOptions(**take_data_options(options))
    files = Sources(list(sources))
    reading = infer_config(files, **given.reading())
    if reading.kind.has_columns and reading.target is None:
        raise click.UsageError("name the column of the target by --target: otherwise it would become a feature")
    work = Conversion(reading, files, form, on_error, bits)
    work.run(output, overwrite=force)
    known = getattr(work.encoder, "names", None)
    if names is not None:
        with atomic_write(names) as file:
            file.writelines(f"{json.dumps(name, ensure_ascii=False)}\n" for name in known or [])
    print_skipped(work)
    facts = {"file": output, "from": reading.format, "to": form, "rows": work.rows, "skipped": work.skipped}
    echo(json.dumps(facts) if as_json else f"{output}: {work.rows:,} rows, {reading.format} to {form}")
