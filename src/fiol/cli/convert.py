"""`fiol convert`: data of one format in another."""

from __future__ import annotations

import json
from typing import Any

import click

from fiol.cli.data_options import data_options, print_skipped, take_data_options
from fiol.cli.errors import handle_errors, refuse_existing
from fiol.cli.sections import OptionSections, option_in

result_option = option_in("Result")


@click.command("convert", cls=OptionSections)
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@data_options
@result_option("--to", "form", type=click.Choice(["svmlight", "vw", "csv", "json", "parquet"]),
         help="The format to write [default: by the ending of FILE].")  # fmt: skip
@result_option("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="FILE",
         help="Where to; there when it is complete, or not at all.")  # fmt: skip
@result_option("--force", is_flag=True, help="Replace FILE if it exists.")
@result_option("--bits", type=click.IntRange(1, 30), help="For svmlight: number names by a hash, into 2^BITS.")
@result_option("--names", type=click.Path(dir_okay=False), metavar="NAMES",
         help="For svmlight: write the names, a JSON text a line, the first being feature 1.")  # fmt: skip
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
    """Write the rows of DATA, in their order, to FILE in another format.

    Columns stay columns between csv, json and parquet. For svmlight and vw, rows are the features that a model would
    learn from (texts, dates and holes by the coding; say --target), and names of features become numbers in svmlight:
    as they first appear, or by --bits. Features of svmlight and vw become keys of json, or columns of csv and parquet.

    \b
    fiol convert clicks.csv -o clicks.parquet
    fiol convert clicks.csv --target clicked --to vw -o clicks.vw
    fiol convert rcv1.svm.gz --to json -o rcv1.jsonl
    """
    from fiol.readers.converting import Conversion, format_to_write
    from fiol.readers.reading import guess
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
    reading = guess(files, **given.reading())
    if form == "svmlight" and reading.kind.has_columns and reading.target is None:
        raise click.UsageError("a line of svmlight starts with the target: say by --target which column it is")
    work = Conversion(reading, files, form, on_error, bits)
    work.run(output, overwrite=force)
    known = getattr(work.encoder, "names", None)
    if names is not None:
        with atomic_write(names) as file:
            file.writelines(f"{json.dumps(name, ensure_ascii=False)}\n" for name in known or [])
    print_skipped(work)
    facts = {"file": output, "from": reading.format, "to": form, "rows": work.rows, "skipped": work.skipped}
    click.echo(json.dumps(facts) if as_json else f"{output}: {work.rows:,} rows, {reading.format} to {form}")
