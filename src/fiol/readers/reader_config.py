"""`ReaderConfig`, how files are read, as plain JSON; `infer_config`; and `Reader`, an iterator over batches of rows."""

from __future__ import annotations

import dataclasses
import queue
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from fiol.option_names import Wording, option_text
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch, SourceError
from fiol.readers.formats import FORMATS, Format, get_format
from fiol.readers.prefetch import Prefetch
from fiol.readers.sources import START_SIZE, Sources

#: Endings that compression adds to the names of files.
COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst")
#: What a table encoding is called in stored configurations.
STORED_ENCODING = "coding"
#: Formats that are no text.
BINARY_FORMATS = ("parquet", "arrow")
#: How files begin that people have, and that are no data.
OTHER_FILES = {
    b"\x89fiol": "a model of fiol, not data",
    b"PK\x03\x04": "a zip archive: unpack it, or save it as CSV if it is a workbook of Excel",
    b"%PDF": "a PDF, not data",
    b"SQLite format 3": "a database of SQLite: export the table as CSV",
}


@dataclasses.dataclass(frozen=True)
class ReaderConfig:
    """A format, and what there is to know about the rows of files in it.

    Parameters
    ----------
    format : what the files are: "svmlight", "vw", or one of the formats with columns.
    target, weight, tag : the columns of the target, the sample weight and of what a row is called; None where lines
        have places for them, and for none.
    pairs : columns or namespaces, two or three each, whose features are multiplied.
    table_encoding : how columns become features, a `fiol.TableEncoding`; None where features are as they are.
    options : of the format, such as `zero_based`.
    examples : some cells of every column as text, for people to look at; not stored.

    >>> reading = ReaderConfig("svmlight", options={"zero_based": False})
    >>> ReaderConfig.from_json(reading.to_json()) == reading
    True
    >>> reading.to_json()
    {'format': 'svmlight', 'options': {'zero_based': False}}
    """

    format: str
    target: Any = None
    weight: Any = None
    tag: Any = None
    pairs: tuple[tuple[str, ...], ...] = ()
    table_encoding: Any = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    examples: Mapping[str, list[str]] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = get_format(self.format)
        object.__setattr__(self, "pairs", tuple(tuple(pair) for pair in self.pairs))
        object.__setattr__(self, "options", known.checked_options(self.options))
        for name in ("target", "weight", "tag"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise ValueError(f"{name} must be the name of a column, got {getattr(self, name)!r}")
        if not known.has_columns:
            for name in ("target", "weight", "tag", "table_encoding"):
                if getattr(self, name) is not None:
                    without = f"leave out {self._option_of(name)}, or set {option_text('format')}"
                    raise ValueError(f"{self.format} has no columns: {without}")
        if self.pairs and not known.has_groups:
            raise ValueError(f"{self.format} has neither columns nor namespaces, of which there are pairs")
        for pair in self.pairs:
            if not 2 <= len(pair) <= 3 or not all(isinstance(name, str) for name in pair):
                raise ValueError(f"pairs must be of two or three names each, got {pair!r}")

    def _option_of(self, name: str) -> str:
        """Return what users call a field; a table encoding is several options of the command."""
        if name != "table_encoding" or not Wording.for_command:
            return option_text(name)
        return option_text("columns" if self.table_encoding.columns else "missing")

    @property
    def kind(self) -> Format:
        """The format itself."""
        return get_format(self.format)

    def option(self, name: str) -> Any:
        """Return an option of the format, or its default."""
        return self.options.get(name, self.kind.options[name])

    def batches(self, sources: Any, on_error: str = "stop", prefetch: bool = True, all_columns: bool = True) -> Reader:
        """Yield the rows of files, batch by batch: see `Reader`, and `Sources` for what names files.

        `on_error` says what happens to lines that cannot be read: "stop" raises a `BadLineError`, "skip" leaves them
        out and counts them, "missing" takes cells that are not of their column's kind for missing values, counts
        these (`Reader.odd_cells`), and raises for all other errors. With `prefetch` batches are made on a thread, while
        the last one is learned from. Columns that the table encoding does not have are left out; without `all_columns`
        absent ones are missing. "stop" raises for both.
        """
        bad = BadLines(on_error, all_columns)
        return Reader(self.kind.batches(self, as_sources(sources), bad), bad, prefetch)

    def to_json(self) -> dict[str, Any]:
        """Return all settings that differ from the default, as plain JSON values."""
        found: dict[str, Any] = {"format": self.format}
        for name in ("target", "weight", "tag"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        if self.pairs:
            found["pairs"] = [list(pair) for pair in self.pairs]
        if self.table_encoding is not None:
            found[STORED_ENCODING] = self.table_encoding.to_json()
        if self.options:
            found["options"] = dict(self.options)
        return found

    @classmethod
    def from_json(cls, value: Any) -> ReaderConfig:
        """Return the config that `to_json` wrote; raise ValueError for anything else.

        >>> ReaderConfig.from_json({"format": "vw", "colour": "red"})
        Traceback (most recent call last):
        ValueError: a reading has no field 'colour'
        """
        if not isinstance(value, Mapping) or not isinstance(value.get("format"), str):
            raise ValueError(f"a reading is a mapping with a format, got {value!r}")
        fields = {field.name for field in dataclasses.fields(cls)} - {"examples", "table_encoding"} | {STORED_ENCODING}
        for name in value:
            if name not in fields:
                raise ValueError(f"a reading has no field {name!r}")
        given = {name: field for name, field in value.items() if name != STORED_ENCODING}
        if not isinstance(given.get("options", {}), Mapping):
            raise ValueError(f"the options of a reading are a mapping, got {given['options']!r}")
        if not isinstance(given.get("pairs", []), (list, tuple)):
            raise ValueError(f"the pairs of a reading are a list, got {given['pairs']!r}")
        stored = value.get(STORED_ENCODING)
        if stored is not None:  # loaded here: formats of lines need none
            optional = {"optional": True} if given.get("format") == "json" else {}  # earlier versions did not store it
            stored = {**stored, **optional} if isinstance(stored, dict) else stored
            given["table_encoding"] = import_module("fiol.features.table_encoding").TableEncoding.from_json(stored)
        return cls(**given)


class Reader:
    """An iterator over batches; it counts the lines that were left out until the last one it gave.

    It may be closed before its end, which `with` does; a reader that is no longer referenced closes itself.
    """

    def __init__(self, batches: Iterator[Batch], bad: BadLines, prefetch: bool) -> None:
        self._bad = bad
        counted = ((batch, bad.count, dict(bad.cells)) for batch in batches)
        self._batches: Any = Prefetch(counted) if prefetch else counted
        #: How many lines could not be read and were left out, until the last batch that was given.
        self.skipped = 0
        #: Rows of all batches that were given.
        self.rows = 0
        #: By column, how many cells became missing because they are not of its kind, and the first of them.
        self.odd_cells: dict[str, tuple[int, BadLineError]] = {}

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Batch:
        batch = self.next_within(None)
        assert batch is not None
        return batch

    def next_within(self, seconds: float | None) -> Batch | None:
        """Return the next batch, None if none comes within some seconds; StopIteration at the end."""
        try:
            found = next(self._batches) if seconds is None else self._batches.next_within(seconds)
        except queue.Empty:
            return None
        except StopIteration:
            self.skipped, self.odd_cells = self._bad.count, dict(self._bad.cells)
            raise
        batch, self.skipped, self.odd_cells = found
        self.rows += batch.rows
        return batch  # type: ignore[no-any-return]

    @property
    def unknown_columns(self) -> dict[str, str]:
        """Columns that were left out because the model does not know them, each with the first file that has it."""
        return self._bad.unknown_columns

    @property
    def absent_columns(self) -> dict[str, str]:
        """Columns that count as missing because they were absent, each with the first file that lacks it."""
        return self._bad.absent_columns

    @property
    def unmet_pairs(self) -> set[tuple[str, ...]]:
        """Pairs of namespaces that have no products, because one of the namespaces is in no row so far."""
        return self._bad.unmet_pairs or set()

    @property
    def first_skipped(self) -> list[BadLineError]:
        """The first lines that were left out, and why."""
        return self._bad.first[: self.skipped]

    def close(self) -> None:
        """Read no more."""
        self._batches.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def infer_config(sources: Any, **given: Any) -> ReaderConfig:
    """Return the `ReaderConfig` of files: the format by content or name, and all options that are not given.

    Looks at the first 2^20 bytes of text of the first file that is not empty.

    >>> import io
    >>> infer_config(io.BytesIO(b"1 3:0.5 7:1\\n-1 0:2\\n")).to_json()
    {'format': 'svmlight', 'options': {'zero_based': True}}
    """
    sources = as_sources(sources)
    start, name = sources.start(START_SIZE)
    found = given.get("format") or format_of(start, name)
    kind, options = get_format(found), given.get("options", {})
    try:
        options = kind.checked_options(options)
    except ValueError as error:
        if given.get("format") or options.keys() <= kind.options.keys():
            raise
        raise ValueError(f"{error}; the format of {name} was inferred, set it by {option_text('format')}") from None
    made = kind.infer_from_sources(sources, start, name, {**given, "format": found, "options": options})
    fields = {**given, "format": found, **made}
    fields["options"] = {**made.get("options", {}), **options}
    return ReaderConfig(**fields)


def format_of(start: bytes, name: str) -> str:
    """Return the format of a file that begins so and has this name; raise SourceError if there is none.

    The content decides first, then the ending of the name. CSV is recognized by its content last, because lines of
    other formats, such as Vowpal Wabbit's with named labels, may look like CSV.

    >>> format_of(b"yes | a\\nno | b\\n", "rows.vw.gz"), format_of(b"yes | a\\nno | b\\n", "rows")
    ('vw', 'csv')
    """
    for found in FORMATS:
        if found != "csv" and get_format(found).recognizes(start):
            return found
    for beginning, what in OTHER_FILES.items():
        if start.startswith(beginning):
            raise SourceError(f"{name} is {what}")
    plain = name.lower()
    for ending in COMPRESSED_ENDINGS:
        plain = plain.removesuffix(ending)
    known = {found: get_format(found) for found in FORMATS}
    fitting = [found for found, kind in known.items() if plain.endswith(kind.extensions)]
    fitting += ["csv"] if not fitting and known["csv"].recognizes(start) else []
    fitting += [found for found, kind in known.items() if plain.endswith(kind.shared_extensions)]
    if not fitting:
        what = "is empty" if not start else "is in no format that could be recognised"
        ask = f"say which format it is ({option_text('format')}), one of {', '.join(FORMATS)}"
        raise SourceError(f"{name} {what}: {ask}")
    if b"\0" in start and fitting[0] not in BINARY_FORMATS:
        raise SourceError(f"{name} is no text of {fitting[0]}: there are bytes in it that are 0")
    return fitting[0]


def as_sources(sources: Any) -> Sources:
    """Return the sources that are given, or the sources of names of files."""
    return sources if isinstance(sources, Sources) else Sources(sources)
