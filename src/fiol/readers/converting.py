"""Files of any format as one file of svmlight or Vowpal Wabbit's text: rows in their order, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fiol.features.hashing import Hashing
from fiol.features.named_rows import NamedRows
from fiol.features.vocabulary import Encoder, Vocabulary
from fiol.option_names import option_text
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch
from fiol.readers.formats import get_format
from fiol.readers.reader_config import ReaderConfig, as_sources
from fiol.readers.writing import WRITERS, write_rows


class Conversion:
    """Writes the rows of files, as features, to one file of another format.

    Parameters
    ----------
    reading : how the files are read.
    sources : the files: see `fiol.readers.sources.Sources`.
    format : "svmlight" or "vw".
    on_error : "stop", "skip" or "missing", for lines that cannot be read: see `ReaderConfig.batches`.
    bits : for svmlight, hash names of features into 2^bits numbers; by default they are numbered as they appear.

    Attributes
    ----------
    rows : number of rows written.
    encoder : numbers the names of features for svmlight.

    >>> import io
    >>> file = io.BytesIO()
    >>> Conversion(ReaderConfig("vw"), io.BytesIO(b"1 |a x:2 y\\n-1 |a y\\n"), "svmlight").run(file)
    2
    >>> file.getvalue()
    b'1 1:2 2:1\\n-1 2:1\\n'
    """

    def __init__(
        self, reading: ReaderConfig, sources: Any, format: str, on_error: str = "stop", bits: int | None = None
    ) -> None:
        if format not in WRITERS:
            raise ValueError(f"a format to write must be one of {', '.join(WRITERS)}, got {format!r}")
        self.reading, self.sources, self.format, self.bad = reading, as_sources(sources), format, BadLines(on_error)
        self.encoder: Encoder = Vocabulary() if bits is None else Hashing(bits)
        self.rows = 0

    @property
    def skipped(self) -> int:
        """The number of lines that were skipped."""
        return self.bad.count

    @property
    def first_skipped(self) -> list[BadLineError]:
        """The first lines that were skipped."""
        return self.bad.first

    @property
    def odd_cells(self) -> dict[str, tuple[int, BadLineError]]:
        """How many cells of a column became missing, and the first of them."""
        return self.bad.cells

    @property
    def unknown_columns(self) -> dict[str, str]:
        """Columns that were left out because the first file lacks them, each with the first file that has it."""
        return self.bad.unknown_columns

    def run(self, path: Any, overwrite: bool = False) -> int:
        """Write the file and return its number of rows; FileExistsError if it exists, unless `overwrite` is set."""
        options = {"escape": True} if self.format == "vw" else {}
        self.rows = write_rows(path, self.batches(), self.format, overwrite, **options)
        return self.rows

    def batches(self) -> Iterator[Batch]:
        """Yield the rows as features, numbered for svmlight."""
        for batch in self.reading.kind.batches(self.reading, self.sources, self.bad):
            if self.format == "svmlight" and isinstance(batch.X, NamedRows):
                batch = batch._replace(X=batch.X.encoded(self.encoder))
            yield batch


def format_to_write(format: str | None, path: str) -> str:
    """Return the format that is named, or that the ending of a file name means; ValueError if it means none.

    >>> format_to_write(None, "rows.svm"), format_to_write("vw", "rows")
    ('svmlight', 'vw')
    """
    if format is not None:
        return format
    for name in WRITERS:
        known = get_format(name)
        if path.lower().endswith((*known.extensions, *known.shared_extensions)):
            return name
    raise ValueError(
        f"{path} has no ending of a format to write: name one of {', '.join(WRITERS)} by {option_text('to')}"
    )
