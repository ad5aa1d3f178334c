"""JSON lines: an object per line. Nested objects become dotted names, lists of texts a feature each.

Rows may have different keys. A key that is not there is no feature, null is `key is missing`. The first 2^20 bytes
decide the kinds of their keys (`fiol.features.table_encoding`); keys that come later are numbers, categories and tags
by their values.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fiol.features.byte_words import bytes_and_words, joined_words
from fiol.features.column_values import ListedValues
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import TableEncoding
from fiol.features.table_rows import DEEPEST, UnknownKeys, flat_dict, named_rows_of_dicts
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch, Place
from fiol.readers.cell_rows import COMPILED_MIN_BYTES, MAX_FALLBACKS, CellRows
from fiol.readers.columns import NON_FEATURE_COLUMNS, Rows, aside_columns, batch_of, coding_of, inferred_fields
from fiol.readers.formats import Format
from fiol.readers.line_blocks import is_utf8
from fiol.readers.loops import codes
from fiol.readers.sources import Block, Sources

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


class JsonLines(Format):
    """An object per line."""

    extensions = (".jsonl", ".ndjson", ".json")
    has_columns = True

    def recognises(self, start: bytes) -> bool:
        """Whether the first line is an object, or the only one begins as one."""
        line, end, _ = start.lstrip().partition(b"\n")
        if not line.startswith(b"{"):
            return False
        try:
            return isinstance(json.loads(line), dict)
        except ValueError:
            return not end  # cut

    def infer(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The coding of the keys in the first lines."""
        lines = start.splitlines()
        found = list[dict[str, Any]]()
        for k, line in enumerate(lines):
            try:
                found += [flat_object(line)] if not is_empty(line) else []
            except ValueError:
                if k + 1 < len(lines):
                    continue  # the last one may be cut; others are bad lines when their turn comes
        columns = [ListedValues(key, [row[key] for row in found if key in row]) for key in all_keys(found)]
        encoding = TableEncoding.from_spec(given.get("coding"))
        if not encoding.complete:  # that of a model decides what an absent key is
            encoding = dataclasses.replace(encoding, optional=True)
        return inferred_fields(columns, {**given, "coding": encoding})

    def batches(self, reading: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[Batch]:
        """A batch per block of about a megabyte."""
        if reading.coding is None or not reading.coding.complete:
            given = {name: getattr(reading, name) for name in (*NON_FEATURE_COLUMNS, "pairs", "coding")}
            made = self.infer(*sources.start(), given)
            reading = type(reading)(**{**given, **made, "format": reading.format})
        coding, aside = coding_of(reading), aside_columns(reading)
        loop, before, unknown = JsonLoop(reading), sources.size or 0, UnknownKeys()
        for block in sources.blocks():
            before += block.size
            batch = loop(block) if before > COMPILED_MIN_BYTES else None
            if batch is None:
                for rows, lines, _ in self.objects([block], bad):
                    unknown.note(coding, rows)
                    batch = batch_of(reading, dict_rows(rows, lines, coding, aside, block), bad)
            if batch is not None:
                yield batch

    def objects(
        self, blocks: Iterable[Block], bad: BadLines
    ) -> Iterator[tuple[list[dict[str, Any]], list[int], Block]]:
        """The objects of every block, flat, the line of each in its file, and the block."""
        for block in blocks:
            rows, lines = list[dict[str, Any]](), list[int]()
            for number, line in enumerate(lines_of(bytes(block.data[: block.size])), block.place.line):
                try:
                    rows += [flat_object(line)] if not is_empty(line) else []
                except ValueError as error:
                    bad.note(BadLineError(Place(block.place.file, number), getattr(error, "column", 0), str(error)))
                if len(lines) < len(rows):
                    lines.append(number)
            yield rows, lines, block


class JsonLoop:
    """From a block to a batch by the compiled loop: `loop(block)`, None where it has to be done the other way.

    It takes objects whose keys are in the same order, but for a few different patterns, and nothing that is wrong.
    After `MAX_FALLBACKS` blocks in a row that are not for it, it tries no more.
    """

    def __init__(self, reading: ReaderConfig) -> None:
        self.reading, self.strange = reading, 0
        self.patterns: dict[tuple[bytes, ...], Any] = {}  #: literals, and the cell of every column
        self.rows: CellRows | None = None
        self.tried = False

    def __call__(self, block: Block) -> Batch | None:
        """The rows of a block."""
        if self.strange > MAX_FALLBACKS:
            return None
        if not self.tried:
            self.tried = True
            held = {column.name: "number" for column in coding_of(self.reading).columns if column.kind == "number"}
            if self.reading.weight is not None:
                held[self.reading.weight] = "number"
            held.pop(self.reading.target, None)
            self.rows = CellRows.of(self.reading, held, {"text": codes.TARGET_ANY})
        batch = None if self.rows is None else self.batch(self.rows, block)
        self.strange = self.strange + 1 if batch is None else 0
        return batch

    def batch(self, rows: CellRows, block: Block) -> Batch | None:
        """The rows of a block; None if one of them is not for the loop."""
        from fiol.readers.loops.json_rows import json_rows  # here: what only looks at files loads no compiler

        if not is_utf8(block.data, 0, block.size):
            return None
        data = rows.working_copy(block.data, 0, block.size)
        text = (*bytes_and_words(data), np.uint64(0), np.uint64(block.size))
        while True:
            found = rows.run(block.size, functools.partial(json_rows, *text, *self.cells(rows)))
            code, count, first, place = found
            if code != codes.OTHER_KEYS:
                break
            end = data.index(b"\n", place)
            if len(self.patterns) >= MOST_PATTERNS or not self.learn(rows, bytes(data[place:end])):
                return None
        if code != codes.DONE or not count:
            return None
        there = {role: self.has(rows, role) for role in NON_FEATURE_COLUMNS}
        return Batch(
            rows.features(count),
            self.targets(rows, count) if there["target"] else None,
            rows.weights[:count].copy() if there["weight"] else None,
            [data[a:b].decode() for a, b in rows.tags[:count].tolist()] if there["tag"] else None,
            block.place._replace(line=block.place.line + data.count(b"\n", 0, first)),
            count,
            block.read,
        )

    def cells(self, rows: CellRows) -> tuple[Any, ...]:
        """The patterns, and room for the cells of a row, as the loop takes them."""
        literals, ends = joined_words([literal for pattern in self.patterns for literal in pattern])
        firsts = np.cumsum([0, *map(len, self.patterns)]).astype(np.int64)
        width = max([1, *map(len, self.patterns)])
        cells_of = np.array([*self.patterns.values()], np.int64).reshape(len(self.patterns), len(rows.columns))
        room = np.empty(width, np.uint64), np.empty(width, np.uint64), np.empty(width, np.int64), np.empty(width)
        return (literals, ends, firsts, cells_of, *room, np.empty(len(rows.columns), np.int64))

    def learn(self, rows: CellRows, line: bytes) -> bool:
        """Whether an object has a pattern that the loop may look for; then it is known."""
        try:
            json.loads(line, object_pairs_hook=refuse_twins)
            spans = value_spans(line.decode()) if flat_object(line) else {}
        except ValueError:
            return False
        text, literals, before = line.decode().rstrip("\r"), list[bytes](), 0
        known = {column.name for column in coding_of(self.reading).columns} | aside_columns(self.reading)
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
        if not self.reading.coding.optional and min(cells[: rows.first_aside], default=0) < 0:
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

    def has(self, rows: CellRows, role: str) -> bool:
        """Whether objects have a target, a weight or a tag."""
        name, one = getattr(self.reading, role), next(iter(self.patterns.values()))
        return any(column.name == name and cell >= 0 for column, cell in zip(rows.columns, one, strict=True))

    def targets(self, rows: CellRows, count: int) -> list[Any]:
        """The targets as JSON has them."""
        kinds: dict[int, Any] = {codes.YES: bool, codes.NULL: int, codes.BARE: float}
        y, forms = rows.y[:count], rows.y_forms[:count]
        texts, which = np.unique(y[forms == codes.TEXT].astype(np.int64), return_inverse=True)
        labels = np.array([*map(rows.label, texts.tolist())], object)[which].tolist()
        if len(labels) == count:  # as a rule, if one is a text
            return labels
        rest = iter(labels)
        return [
            next(rest) if form == codes.TEXT else kinds[form](value)
            for value, form in zip(y.tolist(), forms.tolist(), strict=True)
        ]


def dict_rows(
    rows: list[dict[str, Any]], lines: list[int], coding: TableEncoding, aside: set[str], block: Block
) -> Rows:
    """Flat dicts as rows of a file; `lines` are their lines in it."""

    def code(kept: Any, odd: list[tuple[int, str, str]] | None) -> NamedRows:
        return named_rows_of_dicts(coding, [rows[k] for k in kept.tolist()], odd, aside)

    def column(name: str) -> Any:
        return [row.get(name) for row in rows] if any(name in row for row in rows) else None

    def where(row: int, name: str) -> int:
        text = bytes(block.data[: block.size]).split(b"\n")[lines[row] - block.place.line].decode()
        return value_spans(text).get(name, (-1, -1))[0] + 1

    return Rows(len(rows), code, column, lines.__getitem__, block.place.file, block.read, where)


def all_keys(rows: list[dict[str, Any]]) -> list[str]:
    """All keys, in the order in which they first come."""
    return list(dict.fromkeys(key for row in rows for key in row))


def lines_of(data: bytes) -> Sequence[str | bytes]:
    """The lines, as text if all of them are."""
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        return data.split(b"\n")


def is_empty(line: str | bytes) -> bool:
    """Whether there is nothing in a line but what JSON has for blanks."""
    return not (line.strip(" \t\r") if isinstance(line, str) else line.strip(b" \t\r"))


def flat_object(line: str | bytes) -> dict[str, Any]:
    """The object of a line, with dotted names for objects within; ValueError if it is none.

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
    """The object of keys and values; ValueError if a key is there twice, or one with a dot, which others may make."""
    found = dict(pairs)
    if len(found) < len(pairs) or any("." in key for key in found):
        raise ValueError("has a key twice, or one with a dot")
    return found


def refuse_no_json(name: str) -> NoReturn:
    """ValueError for what JSON does not have."""
    raise ValueError(f"has {name}, which is no number of JSON: write null")


#: Reads an object, and nothing that is no JSON.
DECODER = json.JSONDecoder(parse_constant=refuse_no_json)
