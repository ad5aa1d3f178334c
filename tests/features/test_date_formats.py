"""Date formats: given or inferred, and the same moments by the rule of one cell and by arrays."""

import datetime as dt
import io
import itertools
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.features.dates import FORMATS, date_cells, formatted

import fiol
import fiol.exports.json_model
from fiol.exports.linear import NoExportError
from fiol.features.cell_rules import moment_of_value
from fiol.features.column_values import BadValueError, ListedValues
from fiol.features.date_formats import KNOWN_FORMATS, check_format, infer_format, moments_in_bytes, moments_of_strings
from fiol.features.table_encoding import Column, TableEncoding
from fiol.readers.reader_config import infer_config


@given(st.datetimes(dt.datetime(1, 1, 1)), st.sampled_from(FORMATS), st.booleans())
def test_formatted_date_is_parsed_as_by_strptime(moment, form, padded):
    text = formatted(moment, form, padded)
    days, month, micros = moment_of_value(text, form)
    expected = dt.datetime.strptime(text, form)
    found = dt.datetime(1970, 1, 1) + dt.timedelta(days, microseconds=micros)
    assert (found, month) == (expected, expected.month)


@settings(max_examples=150)
@given(st.sampled_from(["", *FORMATS]).flatmap(lambda form: st.tuples(st.just(form), st.lists(date_cells(form)))))
@example(("%m/%d/%Y", ["2/30/2011", "13/13/2011", "2/29/2012", "2/29/2011", "1/1/2011\0", "1/1/20111", "", "/1/2011"]))
@example(("%d.%m.%Y %H:%M", ["1.1.2011 24:00", "1.1.2011 23:60", "1.1.2011 3:4", "1.1.2011 ", "1.1.2011"]))
@example(("%d%b%y %I:%M:%S %p", ["1JAN69 12:00:00 am", "1jan68 0:00:00 AM", "1Jan68 13:00:00 pm", "1Ian68 1:00:00 xm"]))
@example(("", ["2011-02-30", "2011-01-01T24:00", "2011-01-01 07:30+02", "2011-1-1", "0000-02-29", "2011-01-01x07:30"]))
def test_array_parser_matches_the_rule_of_one_cell(case):
    form, strings = case
    found = moments_of_strings(strings, form)
    for text, moment in zip(strings, found, strict=True):
        try:
            days, month, micros = moment_of_value(text, form)
        except ValueError:
            assert np.isnat(moment), text
        else:
            assert moment == np.datetime64(days, "D") + np.timedelta64(micros, "us"), text
            assert int(moment.astype("datetime64[M]").astype(int)) % 12 + 1 == month


def test_array_parser_covers_common_texts_without_the_rule_of_one_cell():
    """A form that is left to the slow rule by mistake would be slow, and would not show."""
    for form in ("", *FORMATS):
        moments = [dt.datetime(2011, 5, 2, 7, 3, 9), dt.datetime(1999, 12, 31, 13, 45, 59)]
        for padded in (True, False) if form else (True,):
            strings = [formatted(m, form or "%Y-%m-%dT%H:%M:%S", padded).encode() for m in moments]
            ends = np.cumsum([0, *map(len, strings)])
            found = moments_in_bytes(np.frombuffer(b"".join(strings), np.uint8), ends[:-1], ends[1:], form)
            assert not np.isnat(found).any(), (form, strings)


@pytest.mark.parametrize(
    ("strings", "form"),
    [
        (["2011-05-28", "NA"], ""),
        (["5/28/2011", "5/6/2011", "?"], "%m/%d/%Y"),
        (["28/05/2011", "05/06/2011"], "%d/%m/%Y"),
        (["05.06.2011"], "%d.%m.%Y"),
        (["05.28.2011"], "%m.%d.%Y"),
        (["2011/05/28", "2011/5/6"], "%Y/%m/%d"),
        (["2011-5-6"], "%Y-%m-%d"),
        (["28-May-2011", "6-JUN-2011"], "%d-%b-%Y"),
        (["May 28, 2011"], "%b %d, %Y"),
        (["28MAY2011"], "%d%b%Y"),
        (["5/28/2011 13:45", "5/6/2011 0:00"], "%m/%d/%Y %H:%M"),
        (["5/28/2011 1:45 PM"], "%m/%d/%Y %I:%M %p"),
        (["28.05.2011 13:45:10"], "%d.%m.%Y %H:%M:%S"),
        (["20110528"], None),
        (["1.2.3", "10.2.3"], None),
        (["5/28/2011", "28/5/2011"], None),
        (["5/28/2011", "soon"], None),
        (["2/30/2011"], None),
        (["", "?"], None),
        ([], None),
    ],
)
def test_format_is_inferred_from_cells(strings, form):
    assert inferred_format(strings) == form


def inferred_format(strings):
    """Return the format of cells."""
    return infer_format("d", ListedValues("d", strings).cell_counts())


@given(st.sampled_from(KNOWN_FORMATS), st.lists(st.datetimes(dt.datetime(1000, 1, 1)), min_size=1), st.booleans())
def test_inferred_format_is_the_one_that_was_written_or_ambiguous(form, moments, padded):
    strings = [formatted(moment, form, padded) for moment in moments]
    months_first = "%m/%d/%Y" in form or "%d/%m/%Y" in form or "%m-%d-%Y" in form or "%d-%m-%Y" in form
    if months_first and all(moment.day <= 12 for moment in moments):
        with pytest.raises(ValueError, match=r"column 'd': day and month cannot be distinguished"):
            inferred_format(strings)
        return
    if form.startswith("%m.%d") and all(moment.day <= 12 for moment in moments):
        form = form.replace("%m.%d", "%d.%m")  # with dots the day is first
    assert inferred_format(strings) in (form, "" if form.startswith("%Y-%m-%d") and padded else form)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("%m/%d", "one of %Y and %y"),
        ("%Y-%d", "one of %m and %b"),
        ("%Y-%m", "needs one of %d"),
        ("%Y-%m-%d %q", "each of"),
        ("%Y-%m-%d-%d", "each of"),
        ("%%Y-%m-%d", "each of"),
        ("%Y-%m-%d%", "each of"),
        ("%Y-%m-%d %M", "the time"),
        ("%Y-%m-%d %I:%M", "the time"),
        ("%Y-%m-%d %H:%M %p", "the time"),
        ("%Y-%m-%d %H:%S", "the time"),
        ("20%y-%m-%d", "no digits"),
        (" %Y-%m-%d", "no blanks"),
        (7, "a text"),
    ],
)
def test_format_that_is_no_date_is_refused(form, reason):
    with pytest.raises(ValueError, match=reason):
        check_format(form)
    with pytest.raises(ValueError, match=f"column 'd': .*{reason}"):
        Column("d", "date", format=form)


def test_only_dates_have_a_format():
    with pytest.raises(ValueError, match="column 'd': only a date has a format"):
        Column("d", "category", format="%m/%d/%Y")


def test_format_is_stored_and_described():
    encoding = TableEncoding.infer(pd.DataFrame({"d": ["5/28/2011", "5/6/2011"], "e": ["2011-05-28", "2011-05-06"]}))
    assert encoding.describe() == [
        "d: parts of a date: days, month, weekday; text as %m/%d/%Y", "e: parts of a date: days, month, weekday"
    ]  # fmt: skip
    stored = json.loads(json.dumps(encoding.to_json()))
    assert "format" not in stored["columns"][1]  # as before
    assert TableEncoding.from_json(stored) == encoding


def test_named_date_column_infers_its_format():
    frame = pd.DataFrame({"d": ["5/28/2011", "5/6/2011"]})
    assert TableEncoding.infer(frame, {"d": "date"}).columns[0].format == "%m/%d/%Y"
    with pytest.raises(
        ValueError, match=r"columns=\{'d': 'date:%m/%d/%Y'\}, or columns=\{'d': 'category'\} \(table_encoding"
    ):
        TableEncoding.infer(frame[1:], {"d": "date"})


def test_ambiguous_dates_are_an_error_unless_the_kind_is_given():
    frame, y = pd.DataFrame({"d": ["5/6/2011", "7/8/2011"]}), [1, -1]
    with pytest.raises(ValueError, match=r"column 'd'.*'5/6/2011' may be %m/%d/%Y or %d/%m/%Y.*columns="):
        fiol.Learner(fiol.FIOL(fiol.Logistic()), compiled=False).learn(frame, y)
    for kind, name in (({"kind": "date", "format": "%d/%m/%Y"}, "d.month=6"), ("category", "d=5/6/2011")):
        learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), table_encoding={"d": kind}, compiled=False)
        learner.learn(frame, y)
        assert name in learner.names


def test_cell_in_another_format_is_odd():
    encoding = TableEncoding((Column("d", "date", parts=("month",), format="%m/%d/%Y"),))
    frame = pd.DataFrame({"d": ["5/28/2011", "2011-05-28", "13/13/2011", "NA"]})
    with pytest.raises(BadValueError, match=re.escape("X[1, 'd'] must be a date as %m/%d/%Y, got '2011-05-28'")):
        encoding.named_rows(frame)
    odd = []
    rows = encoding.named_rows(frame, odd)
    assert [row for row, _, _ in odd] == [1, 2]
    assert [rows.names[i] for i in rows.chunk.indices] == ["d.month=5", *["d is missing"] * 3]


def features_of(rows):
    """Every row of `NamedRows` as names and values."""
    ends, names = rows.chunk.indptr.tolist(), rows.names
    entries = [(names[i], x) for i, x in zip(rows.chunk.indices.tolist(), rows.chunk.data.tolist(), strict=True)]
    return [entries[a:b] for a, b in itertools.pairwise(ends)]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(FORMATS).flatmap(lambda form: st.tuples(st.just(form), st.lists(date_cells(form), min_size=1))))
def test_every_source_gives_the_features_of_the_rule(tmp_path_factory, case):
    """Cells of CSV, JSON lines, Parquet and frames that are no dates are missing."""
    form, strings = case
    strings = [re.sub(r"[\0\r\n]", "", text) for text in strings]
    column = Column("d", "date", parts=("days", "month", "weekday", "hour"), format=form)
    encoding, expected = TableEncoding((column,)), []
    for text in strings:
        cell = text if encoding_accepts(text, form) else None
        expected.append([(n, x) for n, x, _ in fiol.features.cell_rules.column_features(
            "d", column.spec, 1, column.parts, cell, encoding.markers, False) if x])  # fmt: skip
    for frame in (pd.DataFrame({"d": strings}), pa.table({"d": strings})):
        assert features_of(encoding.named_rows(frame, [])) == expected
    folder = tmp_path_factory.mktemp("dates")
    csv = pd.DataFrame({"d": strings, "y": 1}).to_csv(index=False)
    lines = "".join(json.dumps({"d": text, "y": 1}) + "\n" for text in strings)
    pq.write_table(pa.table({"d": strings, "y": [1] * len(strings)}), folder / "rows.parquet")
    kinds = {"d": {"kind": "date", "format": form, "parts": column.parts}}
    for source, kind in ((csv.encode(), "csv"), (lines.encode(), "json"), (folder / "rows.parquet", "parquet")):
        files = [io.BytesIO(source) if isinstance(source, bytes) else source for _ in range(2)]
        reading = infer_config(files[0], format=kind, target="y", table_encoding=TableEncoding.from_spec(kinds))
        found = [row for batch in reading.batches(files[1], "missing") for row in features_of(batch.X)]
        assert found == expected, kind


def encoding_accepts(text, form):
    """Whether a text is a date by the rule of one cell."""
    try:
        moment_of_value(text, form)
    except ValueError:
        return False
    return True


def test_exports_of_a_date_format_score_as_the_model_or_are_refused():
    frame = pd.DataFrame({"d": ["5/28/2011", "5/6/2011", None, "12/31/1999"]})
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    learner.learn(frame, [1.0, 2.0, 3.0, 4.0])
    expected, module = learner.scores(frame), {}
    exec(learner.to_python(), module)
    rows = [{"d": None if pd.isna(text) else text} for text in frame["d"]]
    np.testing.assert_allclose([module["score"](row) for row in rows], expected, rtol=1e-12)
    assert [learner.score_named(row) for row in rows] == expected.tolist()
    again = fiol.exports.json_model.model_from_json(json.loads(learner.to_json()), compiled=False)
    assert again.scores(frame).tolist() == expected.tolist()
    with pytest.raises(ValueError, match=r"there is no day|a date must be as"):
        module["score"]({"d": "13/13/2011"})
    with pytest.raises(NoExportError, match="dates need a dialect"):
        learner.to_sql()
