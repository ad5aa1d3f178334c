"""`TableFormat`: the one path from files with columns to batches, and parts of files that are Arrow tables.

A format yields its files in parts. The rows of a part are made by the compiled parser, where there is one for it, or
else by `batch_of`, which covers all kinds of columns and names what is wrong with a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import Batch
from fiol.readers.columns import NON_FEATURE_COLUMNS, Rows, batch_of, flat_table, table_rows
from fiol.readers.formats import Format
from fiol.readers.sources import Sources

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig


class TableFormat(Format):
    """A format whose rows have columns."""

    has_columns = True

    def batches(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[Batch]:
        """Yield a batch for every part that has rows."""
        if not self.is_complete(config):
            config = self.completed(config, sources)
        parse, make_rows = self.compiled_parser(config, sources), self.row_maker(config, bad)
        for part in self.parts(config, sources, bad):
            batch = None if parse is None else parse(part)
            if batch is not None:  # all of its lines are rows
                batch = batch._replace(line=partial(line_of_row, make_rows, part))
            else:
                batch = batch_of(config, make_rows(part), bad)
            if batch is not None:
                yield batch

    def is_complete(self, config: ReaderConfig) -> bool:
        """Return whether a configuration has all that the first rows of files decide."""
        return config.table_encoding is not None and config.table_encoding.complete

    def completed(self, config: ReaderConfig, sources: Sources) -> ReaderConfig:
        """Return the configuration with what the first rows of files decide."""
        given = {name: getattr(config, name) for name in (*NON_FEATURE_COLUMNS, "pairs", "table_encoding", "options")}
        made = self.infer_from_sources(sources, *sources.start(), given)
        return type(config)(**{**given, **made, "format": config.format})

    def parts(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[Any]:
        """Yield parts of all files, of a complete configuration; they depend on nothing but the files."""
        raise NotImplementedError

    def row_maker(self, config: ReaderConfig, bad: BadLines) -> Callable[[Any], Rows]:
        """Return the function that makes the rows of a part."""
        raise NotImplementedError

    def compiled_parser(self, config: ReaderConfig, sources: Sources) -> Callable[[Any], Batch | None] | None:
        """Return the function that parses a part, or returns None for a part that `row_maker` is for; None for none."""
        return None


def line_of_row(make_rows: Callable[[Any], Rows], part: Any, row: int) -> int:
    """Return the line of a row of a part whose lines are all rows."""
    return make_rows(part).line(row)


class TablePart(NamedTuple):
    """Rows of a file as an Arrow table, and where they are."""

    table: Any
    first: int  #: the number of the first row in its file, from 1
    file: str
    read: int  #: bytes of all files, as they are on disk, that were read until the end of these rows


class ArrowTableFormat(TableFormat):
    """A format whose parts are Arrow tables."""

    def row_maker(self, config: ReaderConfig, bad: BadLines) -> Callable[[TablePart], Rows]:
        """Return the function that makes the rows of a table."""
        return lambda part: table_rows(
            config, flat_table(part.table), lambda row: part.first + row, part.file, part.read
        )
