"""The compiled loop over cells makes the rows of a table encoding, to the bit, and leaves odd ones to it."""

import csv
import io
import json
import random
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.features.dates import FORMATS, date_cells

from fiol.compiler.compiled import interpreted
from fiol.features.byte_words import bytes_and_words
from fiol.features.cell_rules import moment_of_value, time_of_value
from fiol.features.table_encoding import Column
from fiol.readers import compiled_parser, json_lines
from fiol.readers import csv as csv_reader
from fiol.readers.compiled_parser import format_codes
from fiol.readers.line_blocks import wrapping
from fiol.readers.loops import cells
from fiol.readers.loops.dates import moment_at
from fiol.readers.reader_config import infer_config

#: Fields by the kind of their column; the first ones are what the first megabyte shows.
FIELDS = {
    "n": [
        "1", "-2.5", "1e3", "0", " 7 ", ".5", "5.", "NaN", "+3", "0.1", "1E-7", "", "NA", "-1.#IND", "1e-30", "0.0",
        "?", "-", "inf",
    ],
    "t": ["True", "False", "", "TRUE", "false", "null"],
    "c": ["a", "b c", "", "NA", "n/a", "nan", "nano", " x ", 'say "hi"', "a,b", "two\nlines", "crlf\r\n", "é", "'"],
    "w": [
        "all happy families are alike", "Call me ISHMAEL, and do not_ask why", "", "one", "a-b a-b, a", "1 2 3 4 5 6",
        "so it is, and so it was, with `quotes' and \"more\"", "null",
    ],
    "d": ["2024-03-04", "2000-01-01", "1999-12-31", "1600-02-29", "", "2024-02-29", "0001-01-01", "NA", "?"],
    "h": ["13:45:00", "00:00:00", "23:59", "00:00:01", "", "NA"],
    "m": ["2024-03-04 07:30:00", "2000-01-01T00:00:00", "1969-12-31 23:59:59", "2024-03-04 07:30", ""],
    "u": ["5/28/2011", "12/01/1999", "1/1/0001", "", "02/29/2024", "NA"],
    "a": ["28-May-2011 1:45 PM", "1-jan-1970 12:00 am", "29-FEB-2000 12:59 pm", "", "31-Dec-1969 11:59 PM", "?"],
}  # fmt: skip
ODD = {
    "n": ["oh", "1e400", "1e300", " NA ", "0x1", "1_0"],
    "t": ["yes", "1"],
    "c": ['"', "cr\rcr"],
    "w": ["größe, und so weiter und so fort"],
    "d": ["2024-02-30", "2024-3-4", "soon", "2024-03-04Z"],
    "h": ["24:00:00", "7:30", "noon", "07:30:00.5"],
    "m": ["2024-03-04 24:00:00", "2024-03-04 07:30:00.5"],
    "u": [
        "13/13/2011",
        "2/30/2011",
        "2/29/2011",
        " 5/28/2011",
        "2011-05-28",
        "5/28/20111",
        "5/28/201",
        "5/28",
        "5//2011",
    ],
    "a": ["28-May-2011 0:45 PM", "28-May-2011 13:45 PM", "28-Mai-2011 1:45 PM", "28-May-2011 1:45 XM", "28-May-2011"],
}


def table_of(draw, rows, odd=0.0):
    """A table of all kinds, as text, and its fields."""
    kinds, out = list(FIELDS), io.StringIO()
    writer = csv.writer(out, lineterminator=draw.choice(["\n", "\r\n"]))
    writer.writerow([*kinds, "y", "k", "id"])
    for k in range(rows):
        some = [draw.choice(ODD[kind] if draw.random() < odd else FIELDS[kind]) for kind in kinds]
        if k == 0:
            some = [FIELDS[kind][0] for kind in kinds]
        if k % 7 == 5:
            out.write("\n")
        writer.writerow([*some, draw.choice(["yes", "no", "may, be"]), k % 3, f"row {k}"])
    return out.getvalue().encode()


def batches_of(reading, data, monkeypatch, looped, on_error="stop"):
    """Read text with the compiled loop or without it; return batches, errors, and which batches the loop read."""
    loop = csv_reader.CompiledCsv if reading.format == "csv" else json_lines.CompiledJson
    took, call = [], loop.batch
    with monkeypatch.context() as patch:
        patch.setattr(compiled_parser, "COMPILED_MIN_BYTES", 0 if looped else float("inf"))
        patch.setattr(loop, "batch", lambda self, *a: took.append(call(self, *a)) or took[-1])
        reader = reading.batches(io.BytesIO(data), on_error, prefetch=False)
        found = list(reader)
    return found, [str(error) for error in reader.first_skipped], [batch is not None for batch in took]


def plain(batch):
    """Everything about a batch, bit by bit."""
    y = repr(batch.y) if batch.y is None or isinstance(batch.y, list) else (batch.y.to_pylist(), str(batch.y.type))
    weights = None if batch.weights is None else batch.weights.tobytes()
    chunk = [(str(a.dtype), a.tobytes()) for a in batch.X.chunk]
    return batch.X.names, chunk, y, weights, batch.tags, batch.place, batch.rows, batch.read


@pytest.mark.parametrize(
    "given",
    [
        {"target": "y", "table_encoding": {"w": "words"}},
        {"target": "k", "tag": "id", "pairs": (("c", "d.month"), ("n", "t", "n")), "table_encoding": {"w": "words"}},
        {"target": "n", "weight": "k", "table_encoding": {"w": {"kind": "words", "ngrams": 3}, "c": "skip"}},
        {"tag": "c"},
    ],
)
def test_compiled_table_parser_matches_fallback(given, monkeypatch):
    draw = random.Random(4)
    first = table_of(draw, 60)
    reading = infer_config(io.BytesIO(first), format="csv", **given)
    assert {c.name: c.kind for c in reading.table_encoding.columns}["m"] == "date"
    loop_took = 0
    for seed in range(12):
        draw = random.Random(seed)
        data = table_of(draw, draw.choice([1, 5, 400]), odd=0.0 if seed < 6 else 0.001)
        slow, refused, _ = batches_of(reading, data, monkeypatch, looped=False, on_error="skip")
        fast, also, took = batches_of(reading, data, monkeypatch, looped=True, on_error="skip")
        assert list(map(plain, fast)) == list(map(plain, slow))
        assert also == refused
        loop_took += sum(took)
    if given.get("target") != "n" and given.get("tag") != "c":  # columns with missing values, and quotes within quotes
        assert loop_took >= 6


def test_unusual_values_use_the_fallback(monkeypatch):
    reading = infer_config(
        io.BytesIO(table_of(random.Random(4), 60)), format="csv", target="y", table_encoding={"w": "words"}
    )
    names, good = list(FIELDS), [fields[0] for fields in FIELDS.values()]
    for kind, fields in ODD.items():
        for field in fields:
            out = io.StringIO()
            writer = csv.writer(out)
            writer.writerows([[*names, "y", "k", "id"], [*good, "no", 1, "a"]])
            writer.writerow(
                [*(field if name == kind else g for name, g in zip(names, good, strict=True)), "no", 1, "b"]
            )
            data = out.getvalue().encode()
            slow, refused, _ = batches_of(reading, data, monkeypatch, looped=False, on_error="skip")
            fast, also, took = batches_of(reading, data, monkeypatch, looped=True, on_error="skip")
            assert (list(map(plain, fast)), also) == (list(map(plain, slow)), refused)
            assert took == [kind == "c"], (kind, field)


def test_compiled_table_parser_with_reordered_columns_and_blocks(monkeypatch, tmp_path):
    draw = np.random.default_rng(0)
    rows = [
        f"{a:.4g},{b},x{c}\n"
        for a, b, c in zip(
            draw.normal(size=90_000), draw.integers(0, 2, 90_000), draw.integers(0, 5000, 90_000), strict=True
        )
    ]
    (tmp_path / "1.csv").write_text("a,y,c\n" + "".join(rows))
    swapped = (",".join([c.strip(), a, y]) + "\n" for a, y, c in (row.split(",") for row in rows[:1000]))
    (tmp_path / "2.csv").write_text("c,a,y\n" + "".join(swapped))
    reading = infer_config(tmp_path / "1.csv", target="y")
    found = []
    for start in (0, float("inf")):
        monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", start)
        found.append([plain(batch) for batch in reading.batches(tmp_path, prefetch=False)])
    assert found[0] == found[1]
    assert len(found[0]) == 3


@settings(max_examples=150)
@given(
    st.sampled_from(["date", "time", *FORMATS]).flatmap(
        lambda form: st.tuples(st.just(form), date_cells("" if form in ("date", "time") else form))
    ),
    st.sampled_from(["", "0", "7", ",", "/1"]),
)
@example(("%m/%d/%Y", "9/9/2011"), "")
@example(("%m/%d/%Y", "0/1/2011"), "")
def test_compiled_date_matches_the_rule_of_one_cell(case, behind):
    """The loop reads dates as the rule does; it leaves strings that are no dates, and few more, to the fallback."""
    form, text = case
    kind, text = (form, text[11:]) if form == "time" else ("date", text)
    column = Column("d", kind, format="" if form == kind else form)
    data = text.encode() + behind.encode() + bytes(32)
    arrays = bytes_and_words(bytearray(data))
    start, stop = np.uint64(0), np.uint64(len(text.encode()))
    with wrapping():
        found = interpreted(moment_at)(*arrays, start, stop, format_codes([column]), 0)
    try:
        expected = time_of_value(text) if kind == "time" else moment_of_value(text, column.format)
    except (ValueError, IndexError):
        assert found[1] == 0
        return
    left = text != text.strip() or (
        not column.format and re.search(r"[.Z+]|-[0-9]+(:?[0-9]+)?$", text[10 * (kind == "date") :])
    )
    left = left or (kind == "time" and text[1:2] == ":")
    assert found == expected or (left and found[1] == 0), text


# --- JSON lines -------------------------------------------------------------------------------

VALUES = {
    "n": [1, -2.5, 1e3, 0, 0.0, 1e-30, -0.0, True, False, None, 123456789012345678901234567890],
    "c": [
        "a",
        "b c",
        "",
        "NA",
        'say "hi"',
        "back\\slash/",
        "two\nlines",
        "é ü",
        "\u2028",
        "nul\x00",
        None,
        "\t",
        "x\x7f",
    ],
    "w": ["All HAPPY families, all alike", "one", "", "a_b-c 1 2", None, 'quotes "within" quotes'],
    "u.d": ["2024-03-04", "2000-01-01", None],
    "u.v.at": ["13:45", "00:00:00", None],
}
STRANGE = {
    "n": ["x", [1], 1e300, 10**400],
    "c": [1.5, True, "😀", ["a", "b"]],
    "w": ["größe und so weiter"],
    "u.d": ["", "soon", 7],
    "u.v.at": ["24:00"],
}


def object_of(draw, strange, keys):
    """An object with values of every kind, some of them nested, with some keys and some strange values."""
    flat = {key: draw.choice(STRANGE[key] if draw.random() < strange else VALUES[key]) for key in keys}
    found = {"y": draw.choice([0, 1, 1.5, "no", "yes", True])}
    for key, value in flat.items():
        *outer, last = key.split(".")
        inner = found
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return found


@pytest.mark.parametrize("given", [{"target": "y"}, {"target": "n"}, {"tag": "c", "pairs": (("n", "u.d.month"),)}])
def test_compiled_json_parser_matches_fallback(given, monkeypatch):
    keys, encoding = list(VALUES), {"w": {"kind": "words", "ngrams": 2}, "u.v.at": "time"}
    draw = random.Random(1)
    first = "\n".join(json.dumps(object_of(draw, 0.0, keys)) for _ in range(60)).encode()
    reading = infer_config(io.BytesIO(first), format="json", table_encoding=encoding, **given)
    took_all = []
    for seed in range(16):
        draw = random.Random(seed)
        chosen = [draw.sample(keys, draw.randint(1, 5)) if seed % 4 == 3 else keys for _ in range(3)]
        form = {"separators": (",", ":")} if seed % 2 else {"ensure_ascii": False}
        lines = [
            json.dumps(object_of(draw, 0.002 if seed >= 8 else 0.0, draw.choice(chosen)), **form)
            for _ in range(draw.choice([1, 5, 300]))
        ]
        odd = [
            "",
            " ",
            '{"y": 1, "n": 1, "n": 2}',
            '{"y": 1, "n": 01}',
            '{"y": 1, "c": "\\ud800"}',
            '{"y": 1, "n": 1.}',
        ]
        if seed >= 12:
            lines.insert(draw.randrange(len(lines) + 1), draw.choice(odd))
        data = "\r\n".join(lines).encode() if seed % 3 else "\n".join(lines).encode()
        slow, refused, _ = batches_of(reading, data, monkeypatch, looped=False, on_error="skip")
        fast, also, took = batches_of(reading, data, monkeypatch, looped=True, on_error="skip")
        assert list(map(plain, fast)) == list(map(plain, slow))
        assert also == refused
        took_all += took
    if given == {"target": "y"}:
        assert sum(took_all) >= 6


@pytest.mark.parametrize("looped", [True, False])
def test_lone_surrogate_is_no_date_and_may_be_a_name(looped, monkeypatch):
    lines = [json.dumps({"d": f"2024-03-{k:02}", "\ud800": k, "y": k % 2}) for k in range(1, 20)]
    bad = json.dumps({"d": "2024-03-0\ud800", "\ud800": 1, "y": 1})
    text = "\n".join([*lines, bad, lines[0]]).encode()
    reading = infer_config(io.BytesIO(lines[0].encode()), format="json", target="y")
    batches, *_ = batches_of(reading, text, monkeypatch, looped, "skip")
    assert sum(batch.rows for batch in batches) == 20
    assert "\ud800" in batches[0].X.names


def test_eight_byte_word_operations_match_python():
    """Lower case and the end of an ASCII word, for any neighboring bytes."""
    plain, draw = interpreted(cells.lowered), random.Random(1)
    with np.errstate(over="ignore"):
        for _ in range(3000):
            some = bytes(draw.choice([draw.randrange(256), draw.choice(b"abcXYZ019_ `{@[/:^")]) for _ in range(8))
            word, count = plain(np.uint64(int.from_bytes(some, "little")))
            right = next((k for k, c in enumerate(some) if c > 127 or not (chr(c).isalnum() or chr(c) == "_")), 8)
            assert count == right
            assert int(word).to_bytes(8, "little")[:right] == some[:right].lower()


@pytest.mark.parametrize("looped", [True, False])
def test_missing_marker_followed_by_nul_is_text(looped, monkeypatch):
    text = b"c,y\nred,1\nnull,0\nnull\0,1\n"
    (batch,), _, _ = batches_of(
        infer_config(io.BytesIO(text[:10]), format="csv", target="y"), text, monkeypatch, looped
    )
    assert batch.X.names == ["c=red", "c is missing", "c=null\0"]
