"""JSON lines: an object per line. Nested objects become dotted names, lists of text a feature for each entry.

Rows may have different keys. A key that is not there is no feature, null is `key is missing`. The first 2^20 bytes
decide the kinds of their keys (`fiol.features.table_encoding`); keys that come later are numbers, categories and tags
by their values.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fiol.features.byte_words import bytes_and_words, joined_words
from fiol.features.column_values import ListedValues
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import TableEncoding
from fiol.features.table_rows import DEEPEST, flat_dict, named_rows_of_dicts
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch, Place
from fiol.readers.columns import Rows, aside_columns, check_columns, encoding_of, inferred_fields
from fiol.readers.compiled_parser import CompiledParser, TableBuffers
from fiol.readers.line_blocks import is_utf8
from fiol.readers.loops import codes
from fiol.readers.sources import Block, Sources
from fiol.readers.table_format import TableFormat

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: What may stand between the parts of an object.
JSON_BLANKS = re.compile(r"[ \t\r\n]*")
#: The most patterns of objects that the loop looks for.
MOST_PATTERNS = 16


class NoObjectError(ValueError):
    """A line that is no object: the reason, and the place in it, in characters from 1."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(reason)
        self.column = column


class JsonLines(TableFormat):
    """An object per line."""

    extensions = (".jsonl", ".ndjson", ".json")

    def recognizes(self, start: bytes) -> bool:
        """Return whether the first line is an object, or a single line begins as one."""
        line, end, _ = start.lstrip().partition(b"\n")
        if not line.startswith(b"{"):
            return False
        try:
            return isinstance(json.loads(line), dict)
        except ValueError:
            return not end  # cut
        except RecursionError:
            return True

    def infer(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Infer the table encoding of the keys in the first lines."""
        lines = start.splitlines()
        found = list[dict[str, Any]]()
        for k, line in enumerate(lines):
            try:
                found += [flat_object(line)] if not is_empty(line) else []
            except ValueError:
                if k + 1 < len(lines):
                    continue  # the last one may be cut; others are bad lines when their turn comes
        columns = [ListedValues(key, [row[key] for row in found if key in row]) for key in all_keys(found)]
        encoding = TableEncoding.from_spec(given.get("table_encoding"))
        if not encoding.complete:  # that of a model decides what an absent key is
            encoding = dataclasses.replace(encoding, optional=True)
        return inferred_fields(columns, {**given, "table_encoding": encoding})

    def parts(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[Block]:
        """Yield blocks of about a megabyte."""
        return sources.blocks()

    def compiled_parser(self, config: ReaderConfig, sources: Sources) -> CompiledJson:
        """Return the compiled parser of blocks."""
        return CompiledJson(config, sources.size or 0)

    def row_maker(self, config: ReaderConfig, bad: BadLines) -> Callable[[Block], Rows]:
        """Return the function that makes the rows of a block."""
        encoding, aside = encoding_of(config), aside_columns(config)
        known, checked = {*encoding.names} | aside, None

        def rows_of(block: Block) -> Rows:
            nonlocal checked
            rows, lines = objects_in(block, bad)
            file = block.place.file
            if not encoding.optional:
                if bad.on_error == "stop":
                    refuse_unknown_keys(rows, lines, known, file)
                keys = all_keys(rows)
                if keys and file != checked:
                    check_columns(config, keys, file, bad, may_lack=True)
                    checked = file
                bad.note_columns(file, [], [key for key in keys if key not in known])
            return dict_rows(rows, lines, encoding, aside, block)

        return rows_of


class CompiledJson(CompiledParser):
    """The compiled parser of JSON lines.

    It takes objects whose keys are in the same order, but for a few different patterns, and nothing that is wrong.
    """

    def __init__(self, config: ReaderConfig, size: int) -> None:
        super().__init__(config, size)
        self.patterns: dict[tuple[bytes, ...], Any] = {}  #: literals, and the cell of every column
        self.tried = False

    def begin(self) -> None:
        """Be ready for objects with the columns of the configuration."""
        self.tried = True
        held = {column.name: "number" for column in encoding_of(self.config).columns if column.kind == "number"}
        if self.config.weight is not None:
            held[self.config.weight] = "number"
        held.pop(self.config.target, None)
        self.rows = TableBuffers.of(self.config, held, {"text": codes.TARGET_ANY})

    def batch(self, part: Block) -> Batch | None:
        """Return the rows of a block; None if one of them is not for the loop."""
        from fiol.readers.loops.json_rows import json_rows  # here: what only looks at files loads no compiler

        if not self.tried:
            self.begin()
        rows = self.rows
        if rows is None or not is_utf8(part.data, 0, part.size):
            return None
        data = rows.working_copy(part.data, 0, part.size)
        text = (*bytes_and_words(data), np.uint64(0), np.uint64(part.size))
        while True:
            found = rows.run(part.size, functools.partial(json_rows, *text, *self.cells(rows)))
            code, count, first, at = found
            if code != codes.OTHER_KEYS:
                break
            end = data.index(b"\n", at)
            if len(self.patterns) >= MOST_PATTERNS or not self.learn(rows, bytes(data[at:end])):
                return None
        if code != codes.DONE or not count:
            return None
        place = part.place._replace(line=part.place.line + data.count(b"\n", 0, first))
        return self.found_batch(data, count, next(iter(self.patterns.values())), place, part.read)

    def cells(self, rows: TableBuffers) -> tuple[Any, ...]:
        """Return the patterns, and room for the cells of a row, as arguments of the loop."""
        literals, ends = joined_words([literal for pattern in self.patterns for literal in pattern])
        firsts = np.cumsum([0, *map(len, self.patterns)]).astype(np.int64)
        width = max([1, *map(len, self.patterns)])
        cells_of = np.array([*self.patterns.values()], np.int64).reshape(len(self.patterns), len(rows.columns))
        room = np.empty(width, np.uint64), np.empty(width, np.uint64), np.empty(width, np.int64), np.empty(width)
        return (literals, ends, firsts, cells_of, *room, np.empty(len(rows.columns), np.int64))

    def learn(self, rows: TableBuffers, line: bytes) -> bool:
        """Return whether the loop may look for the pattern of an object; store the pattern if so."""
        try:
            json.loads(line, object_pairs_hook=refuse_twins)
            spans = value_spans(line.decode()) if flat_object(line) else {}
        except ValueError:
            return False
        text, literals, before = line.decode().rstrip("\r"), list[bytes](), 0
        known = {column.name for column in encoding_of(self.config).columns} | aside_columns(self.config)
        keys = list(spans)
        if not keys or not known.issuperset(keys):
            return False
        for start, end in spans.values():
            if text[start] == "[":
                return False
            literals.append(text[before:start].encode())
            before = end
        pattern = (*literals, text[before:].encode())
        cells = [keys.index(column.name) if column.name in spans else -1 for column in rows.columns]
        if not self.config.table_encoding.optional and min(cells[: rows.first_aside], default=0) < 0:
            return False  # an absent key is a missing value
        if self.patterns:  # a target that some have, and others have not, is missing there
            one = next(iter(self.patterns.values()))
            aside = range(rows.first_aside, len(cells))
            if any((one[j] < 0) != (cells[j] < 0) for j in aside):
                return False
        if pattern in self.patterns:
            return False
        self.patterns[pattern] = cells
        return True

    def targets(self, rows: TableBuffers, count: int) -> list[Any]:
        """Return the targets with the types of JSON."""
        kinds: dict[int, Any] = {codes.YES: bool, codes.NULL: int, codes.BARE: float}
        y, forms = rows.y[:count], rows.y_forms[:count]
        strings, which = np.unique(y[forms == codes.TEXT].astype(np.int64), return_inverse=True)
        labels = np.array([*map(rows.label, strings.tolist())], object)[which].tolist()
        if len(labels) == count:  # as a rule, if one is a text
            return labels
        rest = iter(labels)
        return [
            next(rest) if form == codes.TEXT else kinds[form](value)
            for value, form in zip(y.tolist(), forms.tolist(), strict=True)
        ]


def objects_in(block: Block, bad: BadLines) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the objects of a block, flat, and the line of each in its file."""
    rows, lines = list[dict[str, Any]](), list[int]()
    for number, line in enumerate(lines_of(bytes(block.data[: block.size])), block.place.line):
        try:
            rows += [flat_object(line)] if not is_empty(line) else []
        except ValueError as error:
            bad.note(BadLineError(Place(block.place.file, number), getattr(error, "column", 0), str(error)))
        if len(lines) < len(rows):
            lines.append(number)
    return rows, lines


def dict_rows(
    rows: list[dict[str, Any]], lines: list[int], encoding: TableEncoding, aside: set[str], block: Block
) -> Rows:
    """Flat dicts as rows of a file; `lines` are their lines in it."""

    def code(kept: Any, odd: list[tuple[int, str, str]] | None) -> NamedRows:
        return named_rows_of_dicts(encoding, [rows[k] for k in kept.tolist()], odd, aside)

    def column(name: str) -> Any:
        return [row.get(name) for row in rows] if any(name in row for row in rows) else None

    def where(row: int, name: str) -> int:
        text = bytes(block.data[: block.size]).split(b"\n")[lines[row] - block.place.line].decode()
        return value_spans(text).get(name, (-1, -1))[0] + 1

    return Rows(len(rows), code, column, lines.__getitem__, block.place.file, block.read, where)


def refuse_unknown_keys(rows: list[dict[str, Any]], lines: list[int], known: set[str], file: str) -> None:
    """BadLineError for the first object with a key that is no column."""
    for row, line in zip(rows, lines, strict=True):
        for key in row:
            if key not in known:
                raise BadLineError(Place(file, line), 0, f"has the key {key!r}, which is no column of the model")


def all_keys(rows: list[dict[str, Any]]) -> list[str]:
    """Return all keys, in the order in which they first come."""
    return list(dict.fromkeys(key for row in rows for key in row))


def lines_of(data: bytes) -> Sequence[str | bytes]:
    """Return the lines, as text if all of them are."""
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        return data.split(b"\n")


def is_empty(line: str | bytes) -> bool:
    """Return whether a line has no characters but blanks of JSON."""
    return not (line.strip(" \t\r") if isinstance(line, str) else line.strip(b" \t\r"))


def flat_object(line: str | bytes) -> dict[str, Any]:
    """Return the object of a line, nested objects with dotted names; raise ValueError for other values.

    >>> flat_object(b'{"user": {"age": 30, "tags": ["a", "b"]}, "city": null}')
    {'user.age': 30, 'user.tags': ['a', 'b'], 'city': None}
    >>> flat_object(b'[1]')
    Traceback (most recent call last):
    ValueError: must be an object {...}, got a list
    """
    try:
        found = DECODER.decode(line if isinstance(line, str) else line.decode())
    except json.JSONDecodeError as error:
        raise NoObjectError(f"is no JSON: {error.msg}", error.colno) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"is no text in UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise ValueError(f"has objects within objects, deeper than {DEEPEST}") from None
    if not isinstance(found, dict):
        raise ValueError(f"must be an object {{...}}, got a {type(found).__name__}")
    return flat_dict(found)  # type: ignore[return-value]


def value_spans(text: str) -> dict[str, tuple[int, int]]:
    """From where to where the values of an object stand in a line, by dotted names; the object is sound.

    >>> value_spans('{"user": {"age": 30}, "city": null}')
    {'user.age': (17, 19), 'city': (30, 34)}
    """
    found: dict[str, tuple[int, int]] = {}
    inside = [""]
    at = JSON_BLANKS.match(text, 0).end() + 1  # type: ignore[union-attr]
    while inside:
        at = JSON_BLANKS.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "}":
            inside.pop()
            at += 1
        elif text[at] == ",":
            at += 1
        else:
            key, at = DECODER.raw_decode(text, at)
            at = JSON_BLANKS.match(text, at).end() + 1  # type: ignore[union-attr]
            at = JSON_BLANKS.match(text, at).end()  # type: ignore[union-attr]
            if text[at] == "{":
                inside.append(f"{inside[-1]}{key}.")
                at += 1
            else:
                start, (_, at) = at, DECODER.raw_decode(text, at)
                found[inside[-1] + key] = start, at
    return found


def refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of keys and values; raise ValueError for a repeated key, or one with a dot."""
    found = dict(pairs)
    if len(found) < len(pairs) or any("." in key for key in found):
        raise ValueError("has a key twice, or one with a dot")
    return found


def refuse_no_json(name: str) -> NoReturn:
    """ValueError for what JSON does not have."""
    raise ValueError(f"has {name}, which is no number of JSON: write null")


#: Reads an object, and nothing that is no JSON.
DECODER = json.JSONDecoder(parse_constant=refuse_no_json)
