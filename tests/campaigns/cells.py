"""Mutated lines of CSV and JSON: no crash, no hang; the compiled loop agrees with a slow one.

    python tests/campaigns/cells.py [--lines N] [--seed N] [--only FORMAT]

Good lines are changed as in `lines.py`, with the bytes that mean something in these formats. What the reader makes of a
text, row by row and bit by bit, and which lines it refuses, must be what a slow loop says: fields by Python's `csv`,
objects by `json`, a value at a time. It must be the same by the compiled loop and by the way without it. A text with
quotes in which Python's `csv` sees something malformed has to be read the same both ways, and nothing more.
"""

import argparse
import collections
import csv
import datetime
import io
import itertools
import json
import math
import random
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.campaigns import lines as plain_lines

from fiol.features.cell_rules import MISSING_MARKERS
from fiol.readers import compiled_parser
from fiol.readers.loops.codes import MISSING_WORDS
from fiol.readers.reader_config import infer_config

#: Good lines; the first ones say what columns hold.
GOOD = {
    "csv": [
        b"1.5,red,2024-03-04,True,1", b"-2e-3,blue sky,1999-12-31,False,0", b",,,,1", b'7,"a, b",2000-02-29,true,0',
        b'0,"say ""hi""",NA,FALSE,1', b" 12345678901234567890 ,x,2024-03-05,TRUE,-5", "3,größe,null,False,1".encode(),
    ],
    "json": [
        b'{"n": 1.5, "c": "red", "u": {"d": "2024-03-04"}, "t": true, "y": 1}',
        b'{"n": -2e-3, "c": "blue sky", "u": {"d": "1999-12-31"}, "t": false, "y": 0}',
        b'{"n": null, "c": null, "u": {"d": null}, "t": null, "y": 1}',
        b'{"n":7,"c":"say \\"hi\\" \\u00e9","u":{"d":"2000-02-29"},"t":true,"y":0}',
        b'{"y": 1, "n": 3}', '{"n": 12345678901234567890, "c": "größe", "y": "no"}'.encode(), b"",
    ],
}  # fmt: skip
HEADER = {"csv": b"n,c,d,t,y\n", "json": b""}
#: What is put in, beside what `lines.py` puts in.
PIECES = [
    *(bytes([c]) for c in b',"{}[]\\'), b'""', b"null", b"true", b"false", b"NA", b"-NaN", b"2024-02-30", b'","',
    b'": ', b"\\u12", b"\\ud800", b"\\", b"{}", b"[1]", b'"n": ', b'"new": 1, ',
]  # fmt: skip
NUMERIC_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
DATE = re.compile(r"\s*(\d{4})-(\d\d)-(\d\d)\s*")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class RefusedError(Exception):
    """A line that is not to be read."""


# --- the slow loop ----------------------------------------------------------------------------


def number_entry(name, value):
    """The feature of a number."""
    if math.isnan(value):
        return [(f"{name} is missing", 1.0)]
    if value != 0.0 and not 1e-100 <= abs(value) <= 1e100:
        raise RefusedError
    return [(name, value)] if value else []


def date_entries(name, text):
    """The features of a date, as Python's own dates have them."""
    found = DATE.fullmatch(text)
    if found is None:
        if text.strip():
            raise RefusedError
        return [(f"{name} is missing", 1.0)]
    try:
        if found[1] == "0000":  # which Python does not have
            raise UnclearError
        day = datetime.date(*map(int, found.groups()))
    except ValueError:
        raise RefusedError from None
    days = float((day - datetime.date(2000, 1, 1)).days)
    parts = [(f"{name}.month={day.month}", 1.0), (f"{name}.weekday={WEEKDAYS[day.weekday()]}", 1.0)]
    return [*number_entry(name, days), *parts]


class UnclearError(Exception):
    """A text that the slow loop does not define."""


def csv_row(fields):
    """Features and target of the fields of a line."""
    if len(fields) != 5:
        raise RefusedError
    n, c, d, t, y = (None if field in ("", *MISSING_WORDS) else field for field in fields)
    n, d, t = (None if cell is None or cell.strip().lower() in MISSING_MARKERS else cell for cell in (n, d, t))
    entries = []
    if n is None:
        entries += [("n is missing", 1.0)]
    else:
        text = n.strip(" \t")
        if re.fullmatch("[+-]?(nan.*|inf(inity)?)", text, re.IGNORECASE) or not n.isascii():
            raise UnclearError
        if NUMERIC_TEXT.fullmatch(text) is None:
            raise RefusedError
        entries += number_entry("n", float(text))
    entries += [("c is missing" if c is None else f"c={c}", 1.0)]
    entries += [("d is missing", 1.0)] if d is None else date_entries("d", d)
    if t is None:
        entries += [("t is missing", 1.0)]
    elif t.strip(" \t") != t:
        raise UnclearError
    elif t not in ("True", "TRUE", "true", "False", "FALSE", "false"):
        raise RefusedError
    elif t in ("True", "TRUE", "true"):
        entries += [("t", 1.0)]
    if y is None:
        raise RefusedError
    if y.strip(" \t") != y or y.startswith("+") or not y.isascii():
        raise UnclearError
    if re.fullmatch("-?[0-9]{1,18}", y) is None:
        if re.fullmatch("-?[0-9]+", y):
            raise UnclearError
        raise RefusedError
    return int(y), entries


def plain_csv(text):
    """Read a text by the slow loop: targets and features of rows, and the number of refused records."""
    rows, refused = [], 0
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        raise UnclearError from None  # it may be in the middle of a record
    if "\0" in decoded:
        raise UnclearError
    try:
        records = list(csv.reader(io.StringIO(decoded, newline=""), strict=True))
    except csv.Error:
        raise UnclearError from None
    for fields in records:
        if not fields:
            continue
        try:
            rows.append(csv_row(fields))
        except RefusedError:
            refused += 1
    return rows, refused


def json_entries(name, kind, value):
    """The features of a value of JSON."""
    if value is None:
        return [(f"{name} is missing", 1.0)]
    if kind == "number":
        if isinstance(value, (str, list)):
            raise RefusedError
        try:
            return number_entry(name, float(value))
        except OverflowError:
            raise RefusedError from None
    if kind == "date":
        if not isinstance(value, str):
            raise RefusedError
        return date_entries(name, value)
    if isinstance(value, list):
        raise RefusedError
    if isinstance(value, str):
        return [(f"{name}={value}", 1.0)]
    raise UnclearError  # numbers as strings


def flat_object(found, before=""):
    """Keys with dots for objects within."""
    if isinstance(found, dict):
        out = {}
        for key, value in found.items():
            out.update(flat_object(value, f"{before}.{key}" if before else key) if isinstance(value, dict) else
                       {f"{before}.{key}" if before else key: value})  # fmt: skip
            if isinstance(value, list) and any(isinstance(entry, (dict, list)) for entry in value):
                raise RefusedError
        return out
    raise RefusedError


def json_row(line):
    """Features and target of a line."""
    try:
        found = json.loads(line.decode(), parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    except ValueError:
        raise RefusedError from None
    if not isinstance(found, dict):
        raise RefusedError
    if any("." in key for key in found) or ("u" in found and not isinstance(found["u"], dict)):
        raise UnclearError
    row, entries = flat_object(found), []
    if row.get("y") is None:
        raise RefusedError
    if not {*row} <= {"n", "c", "u.d", "t", "y"} or isinstance(row["y"], list):
        raise UnclearError
    for name, kind in (("n", "number"), ("c", "category"), ("u.d", "date"), ("t", "number")):
        if name in row:
            entries += json_entries(name, kind, row[name])
    return row["y"], entries


def plain_json(text):
    """`plain_csv` for lines of JSON."""
    rows, refused, unclear = [], 0, False
    for line in text.split(b"\n"):
        if line.strip(b" \t\r"):
            try:
                rows.append(json_row(line))
            except RefusedError:
                refused += 1
            except UnclearError:
                unclear = True
    if unclear:
        raise UnclearError
    return rows, refused


# --- the reader -------------------------------------------------------------------------------


def read(reading, text, looped):
    """Targets and features of rows, how many lines were refused, and the first of them."""
    compiled_parser.COMPILED_MIN_BYTES = 0 if looped else math.inf
    reader = reading.batches(io.BytesIO(text), "skip", prefetch=False)
    rows, places = [], []
    for batch in reader:
        y = [None] * batch.rows if batch.y is None else batch.y if isinstance(batch.y, list) else batch.y.to_pylist()
        chunk, names = batch.X
        places.append(batch.place)
        ends, entries = chunk.indptr.tolist(), list(zip(chunk.indices.tolist(), chunk.data.tolist(), strict=True))
        rows += [(y[k], [(names[i], x) for i, x in entries[a:b]]) for k, (a, b) in enumerate(itertools.pairwise(ends))]
    return rows, reader.skipped, [str(error) for error in reader.first_skipped], places


def check(reading, text):
    """Compare; return how many rows were read, how many lines refused, and whether the slow loop could say."""
    start = time.process_time()
    rows, refused, first, places = read(reading, text, True)
    took = time.process_time() - start
    assert (repr(rows), refused, first, places) == repr_first(read(reading, text, False)), text
    clear = True
    try:
        expected, bad = {"csv": plain_csv, "json": plain_json}[reading.format](text[len(HEADER[reading.format]) :])
        if all(row[0] is None for row in rows) and rows:  # no line had a target: then they are read without one
            clear = False
        else:
            for found, right in itertools.zip_longest(rows, expected):
                assert repr(found) == repr(right), f"{found!r} is not {right!r} in {text!r}"
            assert refused == bad, f"{refused} refused, not {bad}: {first} in {text!r}"
    except UnclearError:
        clear = False
    assert took < 2.0 + len(text) / 1e4, f"{took} seconds for {len(text)} bytes"
    return len(rows), refused, clear


def repr_first(found):
    """With rows as text, in which NaN equals NaN."""
    return repr(found[0]), *found[1:]


def run(lines, seed=0, only=None, together=60):
    """Check this many lines, some of them together in one file; return counts by format and outcome."""
    draw, counts = random.Random(seed), collections.Counter()
    formats, begun = [only] if only else list(GOOD), PIECES + plain_lines.PIECES
    readings = {
        form: infer_config(io.BytesIO(HEADER[form] + b"\n".join(GOOD[form][:2])), format=form, target="y")
        for form in formats
    }
    for form, reading in readings.items():  # compiled, or loaded, before anything is timed
        read(reading, HEADER[form] + b"\n".join(GOOD[form]), True)
    while counts["lines"] < lines:
        form = draw.choice(formats)
        quiet = draw.random() < 0.7  # most lines stay as they are, so that the loop reads whole files
        some = [
            draw.choice(GOOD[form]) if quiet and draw.random() < 0.97 else mutated(GOOD[form], draw, begun)
            for _ in range(draw.choice([1, 3, together, 4 * together]))
        ]
        read_rows, refused, clear = check(readings[form], HEADER[form] + b"\n".join(some))
        counts["lines"] += len(some)
        counts[form, "read"] += read_rows
        counts[form, "refused"] += refused
        counts[form, "compared with the slow loop" if clear else "compared both ways alone"] += len(some)
    return counts


def mutated(lines, draw, pieces):
    """A line that was good, with changes of `lines.py`, by these pieces."""
    before, plain_lines.PIECES = plain_lines.PIECES, pieces
    try:
        return plain_lines.mutated(lines, draw)
    finally:
        plain_lines.PIECES = before


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=GOOD)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    for what, count in sorted(run(arguments.lines, arguments.seed, arguments.only).items(), key=str):
        print(f"{' '.join(what) if isinstance(what, tuple) else what:40} {count:9,}")
    print(f"all as the slow loop says, {time.perf_counter() - begin:.0f} s")
