"""Vowpal Wabbit text matches a slow parser, the vowpalwabbit package and dicts; errors name the line."""

import importlib.util
import io
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.readers import vowpal
from tests.readers.plain import plain_rows, plain_vw

import fiol
from fiol.features.hashing import Hashing
from fiol.readers.batch import BadLineError
from fiol.readers.namespaces import full_name, split_name
from fiol.readers.reader_config import ReaderConfig, infer_config
from fiol.readers.vw import VwLines


def batches_of(text, on_error="stop", **options):
    return ReaderConfig("vw", options=options).batches(io.BytesIO(text), on_error, prefetch=False)


def rows_of(batches):
    """Return every row in the form of the slow parser; check that names are numbered as they appear."""
    rows = []
    for batch in batches:
        chunk, names = batch.X
        assert batch.rows == chunk.rows > 0
        _, first = np.unique(chunk.indices, return_index=True)
        assert len(first) == len(names)
        assert (np.diff(first) > 0).all()
        ends, entries = chunk.indptr.tolist(), list(zip(chunk.indices.tolist(), chunk.data.tolist(), strict=True))
        for k, (a, b) in enumerate(itertools.pairwise(ends)):
            y = None if batch.y is None or math.isnan(batch.y[k]) else float(batch.y[k])
            weight = 1.0 if batch.weights is None else float(batch.weights[k])
            rows.append((y, weight, batch.tags[k] if batch.tags else "", [(names[i], v) for i, v in entries[a:b]]))
    return rows


def check_against_plain(text):
    """Check that rows and refused lines match those of the slow parser."""
    reader = batches_of(text, "skip")
    rows = rows_of(reader)
    expected, refused = plain_rows(text, plain_vw)
    expected = [(y, weight, tag or "", entries) for y, weight, tag, entries in expected]
    assert repr(rows) == repr(expected)
    assert reader.skipped == len(refused)
    assert [error.place.line for error in reader.first_skipped] == refused[:10]


TOKENS = [
    "1", "-1", "2.5", "|", "|f", "|g:2", "|long_name_of_a_space:-1e-3", "a", "b:2", "a:0", ":3", "é:1", "x" * 9,
    "y" * 40, "'tag", "tag|", "a:", "a:x", "|:2", "a:1:2", "9:1e101", "c:1e-60", "|h:1e-60", "0", "1e400", "a^b",
    "|a^b", "|é", "a:red", ":red", "p^q:x^y", "^a", "a^", "a:-x", "a:Nano", "c:x:1", "c:_|", "'x", "a:\x00",
    "d:12345678901234567890123", "\x00", "|z:0", "nan", "'", "5:1e-400",
]  # fmt: skip
BETWEEN = ["\n", "\r\n", " ", " ", " ", " ", " ", " |f ", "\t", "\r", "", "\n1 |"]


@given(st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from(BETWEEN))), st.sampled_from([b"", b"\xff", b"\xc3"]))
def test_vw_rows_and_errors_match_slow_parser(parts, broken):
    text = "".join(map("".join, parts)).encode()
    check_against_plain(text.replace(b"9", broken) if broken else text)


def test_vw_lines_match_the_vowpalwabbit_package():
    """Outputs were recorded by `vowpal.py`; the package stores values as 32-bit floats."""
    kept = json.loads(vowpal.RECORD.read_text())
    for line in vowpal.LINES:
        ((y, weight, tag, entries),) = rows_of(batches_of(line.encode()))
        hashes = sorted((vowpal.vowpal_hash(name), value) for name, value in entries)
        label, their_weight, their_tag, features = kept[line]
        assert (y, weight, tag or None) == (label, their_weight, their_tag), line
        assert [h for h, _ in hashes] == [h for h, _ in features], line
        assert np.allclose([v for _, v in hashes], [v for _, v in features], rtol=1e-6), line
    for line in vowpal.REFUSED:
        with pytest.raises(BadLineError):
            list(batches_of(line.encode()))


@pytest.mark.skipif(not importlib.util.find_spec("vowpalwabbit"), reason="vowpalwabbit is not there")
def test_stored_vw_lines_match_the_package():
    kept = json.loads(vowpal.RECORD.read_text())
    assert json.loads(json.dumps(vowpal.understood(vowpal.LINES))) == [kept[line] for line in vowpal.LINES]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 |f a\n1 |f a b:-x c", "2:10: '-x' is no finite number, and no text value"),
        (b"1 |f a: 2", "1:8: '' is no finite number, and no text value"),
        (b"1 |f a:x|g b", "1:8: 'x' is no finite number, and no text value"),
        (b"1 |f a:inf", "1:8: 'inf' is no finite number, and no text value"),
        (b"1 2 3 |f a", "1:5: '3' is a third number before the bar, a prediction to start from: leave it out"),
        (b"1 -2 |f a", "1:3: '-2' is no sample weight, which is between 0 and 1e+30"),
        (b"1 'a b |f a", "1:6: 'b' follows the tag, which is the last before the bar"),
        (b"0:1:0.5 |f a", "1:1: '0:1:0.5' is no finite number: before the bar are a target, a weight and a tag; labels "
         "that are names need reader={'labels': 'names'}"),
        (b"\n1 2", "2:1: there is no bar '|', which features follow"),
        (b"1 |:2 a", "1:4: ':2' is no namespace: its name is missing"),
        (b"1 |f a:1e60 |g:1e60 b:1e60", "1:21: 'b:1e60' has a value, times that of its namespace, that must be 0 or "
         "between 1e-100 and 1e+100 in size"),
        (b"1 |f a\r b", "1:7: a carriage return in the middle of a line"),
        (b"1 |f a\n1 |f \xff\n", "2:6: a byte that is no UTF-8"),
    ],
)  # fmt: skip
def test_vw_errors_name_line_and_reason(text, message):
    with pytest.raises(BadLineError) as caught:
        list(batches_of(text))
    assert str(caught.value) == f"an open file:{message}"


@pytest.mark.parametrize("bits", [None, 24])
def test_features_of_different_namespaces_are_different_features(bits):
    expected = ["p^the", "| p^the", "|p^q the", "p^q^the", "p^q^the:x", "| p^q^the", "|p^ the", "p^^the"]
    lines = [b"|p the", b"| p^the", b"|p^q the", b"|p q^the", b"|p q^the:x", b"| p^q^the", b"|p^ the", b"|p ^the"]
    names = []
    for line in lines:
        (batch,) = batches_of(line, **({} if bits is None else {"bits": bits}))
        names += batch.X.indices.tolist() if bits else batch.X.names
    assert len(set(names)) == len(lines)
    if bits is None:
        assert names == expected
        assert [full_name(*split_name(name)) for name in names] == names
    else:
        assert names == Hashing(24).numbers_of_names(expected, True, -1).tolist()


def test_text_values_are_part_of_the_name_and_have_value_1():
    ((_, _, _, entries),) = rows_of(batches_of(b"1 |f:2 color:red color=red :blue size:3 :4 x"))
    assert entries == [("f^color:red", 1.0), ("f^color=red", 2.0), ("f^blue", 1.0), ("f^size", 6.0), ("f^0", 8.0),
                       ("f^x", 2.0)]  # fmt: skip


def test_labels_that_are_names():
    text = b"det 2 'first | the\nnoun | monster\n| the\n'tag |\nverb|ate\n1 |x\n"
    (batch,) = batches_of(text, labels="names")
    assert batch.y == ["det", "noun", None, None, None, "1"]
    assert batch.tags == ["first", "", "", "tag", "verb", ""]
    assert batch.weights.tolist() == [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    (batch,) = batches_of(b"| the\n", labels="names")
    assert batch.y is None
    with pytest.raises(BadLineError, match=r"reader=\{'labels': 'names'\}"):
        list(batches_of(text))
    with pytest.raises(ValueError, match="the option labels of vw must be"):
        batches_of(text, labels="texts")


def many_lines(rows, seed=3):
    """Lines with thousands of names, in several namespaces, some of them twice in a row."""
    draw = np.random.default_rng(seed)
    for k in range(rows):
        words = [f"w{i}:{v!r}" for i, v in zip(draw.zipf(1.3, 20) % 10**6, draw.random(20).tolist(), strict=True)]
        start = f"{draw.choice([-1, 1])} {draw.integers(1, 4)} row{k}"
        yield f"{start}|text {' '.join(words[:12])} |more:0.5 {' '.join(words[12:])}\n"


def test_vw_file_gives_the_weights_of_dicts_and_hashes(monkeypatch):
    """With a table of names that has to grow, and by `bits` as through names."""
    monkeypatch.setattr("fiol.readers.name_table.FEW_SLOTS", 64)
    text = "".join(many_lines(400)).encode()
    (batch,) = batches_of(text)
    assert len(batch.X.names) > 500
    expected, _ = plain_rows(text, plain_vw)
    assert batch.tags == [tag for _, _, tag, _ in expected]
    dicts = []
    for _, _, _, entries in expected:
        dicts.append(row := {})
        for name, value in entries:
            row[name] = row.get(name, 0.0) + value
    assert infer_config(io.BytesIO(text)) == ReaderConfig("vw")

    def taught(X, **options):
        learner = fiol.Learner(fiol.FIOL(fiol.Logistic(), fiol.L1(1e-3)), compiled=False, **options)
        return learner.learn(X, batch.y, batch.weights).tobytes(), learner.weights.tobytes(), learner.names

    assert taught(batch.X) == taught(dicts)
    (hashed,) = batches_of(text, bits=9)
    assert isinstance(hashed.X, fiol.Chunk)
    assert taught(hashed.X, bits=9) == taught(batch.X, bits=9)  # many names share a number
    assert repr(batch.X.encoded(Hashing(24))) == repr(Hashing(24).encode(dicts))


def test_option_of_another_format_than_the_inferred_one_names_the_option_format(tmp_path):
    file = tmp_path / "named.txt"
    file.write_text("cat | a b\ndog | c\ncat | a\n")
    with pytest.raises(ValueError, match=r"csv has no option 'labels'.*named\.txt was inferred, set it by format$"):
        infer_config(str(file), options={"labels": "names"})
    with pytest.raises(ValueError, match=r"its options are [^;]*$"):
        infer_config(str(file), format="csv", options={"labels": "names"})


def test_long_vw_names_make_more_batches(monkeypatch):
    """A long namespace is part of every name in it; a single line that has no room gets more of it."""
    monkeypatch.setattr("fiol.readers.vw.MOST_TEXT", 2**13)
    space = "s" * 1500
    text = (
        "".join(f"1 |{space} {' '.join(f'f{k}_{j}' for j in range(5))}\n" for k in range(9))
        + f"1 |{space} "
        + "a b " * 2
    )
    text += " ".join(f"{k}:2" for k in range(500))
    made = list(batches_of(text.encode()))
    assert rows_of(made) == [(y, w, tag or "", e) for y, w, tag, e in plain_rows(text.encode(), plain_vw)[0]]
    assert len(made) > 1
    lines = [batch.place.line for batch in made]
    assert lines == [1 + sum(batch.rows for batch in made[:k]) for k in range(len(made))]


@pytest.mark.parametrize("bits", [None, 22])
@pytest.mark.parametrize("room", [2, 1000])
def test_vw_namespaces_of_any_number_and_names_of_any_length(monkeypatch, room, bits):
    """With and without a free slot for every namespace, and for names with common parts."""
    monkeypatch.setattr("fiol.readers.vw.MOST_SPACES", room)
    pieces = ["a", "aa", "a^a", "abcdefgh", "abcdefghi", "abcdefgh^", "x" * 254, "x" * 255, "x" * 256, "x" * 300]
    draw = np.random.default_rng(4)
    line = " ".join(f"|{draw.choice(pieces)} {draw.choice(pieces)} {draw.choice(pieces)}:2 :3" for _ in range(60))
    text = f"1 {line} | {' '.join(pieces)}\n1 {line}\n| a:x\n1 {line}\n".encode()
    options = {} if bits is None else {"bits": bits}
    batches = list(ReaderConfig("vw", options=options).batches(io.BytesIO(text), "skip", prefetch=False))
    expected = [entries for _, _, _, entries in plain_rows(text, plain_vw)[0]]
    if bits is None:
        assert [entries for _, _, _, entries in rows_of(batches)] == expected
        named = next(iter(ReaderConfig("vw", pairs=(("a", "aa"),)).batches(io.BytesIO(text), "skip")))
        assert {name.split("*")[0][:2] for name in named.X.names if "*" in name} == {"a^"}
    else:
        sums = [{} for _ in expected]
        for row, entries in zip(sums, expected, strict=True):
            for name, value in entries:
                row[name] = row.get(name, 0.0) + value
        assert repr(batches[0].X) == repr(Hashing(bits).encode(sums))


def test_vw_line_with_long_hashed_names_grows_the_buffer(monkeypatch):
    monkeypatch.setattr("fiol.readers.vw.MOST_TEXT", 64)
    text = f"1 |f a\n1 |{'s' * 50} {'n' * 500}\n1 |{'t' * 700} b\n".encode()
    hashed = list(batches_of(text, bits=20))
    assert sum(batch.rows for batch in hashed) == 3
    expected, _ = plain_rows(text, plain_vw)
    rows = [Hashing(20).encode([dict(entries)]) for _, _, _, entries in expected]
    assert [int(i) for batch in hashed for i in batch.X.indices] == [int(row.indices[0]) for row in rows]


def test_vw_lines_without_targets_weights_and_tags():
    (batch,) = batches_of(b"|f a\n|f b\n")
    assert (batch.y, batch.weights, batch.tags) == (None, None, None)
    (batch,) = batches_of(b"|f a\n2 3 |f b\n1 'x |f a\n")
    assert repr(batch.y.tolist()) == "[nan, 2.0, 1.0]"
    assert batch.weights.tolist() == [1.0, 3.0, 1.0]
    assert batch.tags == ["", "", "x"]
    assert VwLines().hashing is None


def test_vw_pairs_of_namespaces_and_overflowing_products():
    text = b"1 'x |a p:2 q |b r:3 s | t\n\n1 |a p:1e60 |b r:1e60\n-1 |a q\n"
    reading = ReaderConfig("vw", pairs=(("a", "b"), ("", "a")))
    with pytest.raises(BadLineError, match=r":3:1: the feature 'a\^p\*b\^r' of a pair must be between"):
        list(reading.batches(io.BytesIO(text)))
    reader = reading.batches(io.BytesIO(text), "skip", prefetch=False)
    rows = rows_of(reader)
    assert reader.skipped == 1
    first = {"a^p": 2, "a^q": 1, "b^r": 3, "b^s": 1, "t": 1}
    pairs = {"a^p*b^r": 6, "a^p*b^s": 2, "a^q*b^r": 3, "a^q*b^s": 1, "t*a^p": 2, "t*a^q": 1}
    assert [(y, tag, dict(entries)) for y, _, tag, entries in rows] == [(1, "x", first | pairs), (-1, "", {"a^q": 1})]
    (hashed,) = ReaderConfig("vw", pairs=reading.pairs, options={"bits": 20}).batches(io.BytesIO(text), "skip")
    assert hashed.X.indptr.tolist() == [0, 11, 12]
    with pytest.raises(ValueError, match="neither columns nor namespaces"):
        ReaderConfig("svmlight", pairs=(("a", "b"),))


def test_rows_with_many_products_make_several_batches(monkeypatch):
    """The rows, their lines and those that are refused do not depend on the batches; hashes are those of names."""
    monkeypatch.setattr("fiol.readers.vw.MOST_PRODUCTS", 12)
    lines = ["1 'x |f a b:2 c", "1 |f a:1e60 b:1e60", "-1 2 |f d", "", "1 |f a b c d", "1 |f c:3 |g e", "1 |g a"]
    text = "\n".join(lines).encode()
    reading = ReaderConfig("vw", pairs=(("f", "f"), ("f", "g")))
    reader = reading.batches(io.BytesIO(text), "skip", prefetch=False)
    batches = list(reader)
    assert [(batch.rows, batch.place.line) for batch in batches] == [(1, 1), (1, 3), (1, 5), (2, 6)]
    assert [error.place.line for error in reader.first_skipped] == [2]
    whole = ReaderConfig("vw").batches(io.BytesIO(text), "skip", prefetch=False)
    kept = [row for k, row in enumerate(rows_of(whole)) if k != 1]
    found = rows_of(batches)
    assert [row[:3] for row in found] == [row[:3] for row in kept]
    assert [row[3][: len(own[3])] for row, own in zip(found, kept, strict=True)] == [own[3] for own in kept]
    assert found[3][3][2:] == [("f^c*f^c", 9.0), ("f^c*g^e", 3.0)]
    hashed = list(ReaderConfig("vw", pairs=reading.pairs, options={"bits": 20}).batches(io.BytesIO(text), "skip"))
    assert [repr(batch.X) for batch in hashed] == [repr(batch.X.encoded(Hashing(20))) for batch in batches]


def test_vw_ignored_namespaces_and_repeated_features():
    text = b"1 |t a b c |u x |t d\n| p q |under y z\n1 |t e:0 f\n"
    reading = ReaderConfig("vw", options={"ignore": "u", "ngrams": "t3"})
    (batch,) = reading.batches(io.BytesIO(text))
    names = [
        [batch.X.names[i] for i in batch.X.chunk.indices[a:b]] for a, b in itertools.pairwise(batch.X.chunk.indptr)
    ]
    in_a_row = ["t^a b", "t^b c", "t^c d", "t^a b c", "t^b c d"]
    assert names == [["t^a", "t^b", "t^c", "t^d", *in_a_row], ["p", "q"], ["t^f"]]
    (batch,) = ReaderConfig("vw", options={"keep": " ", "ngrams": 2}).batches(io.BytesIO(text))
    assert (batch.X.names, batch.X.chunk.indptr.tolist()) == (["p", "q", "p q"], [0, 0, 3, 3])
    (hashed,) = ReaderConfig("vw", options={"keep": " ", "ngrams": 2, "bits": 20}).batches(io.BytesIO(text))
    assert sorted(hashed.X.indices.tolist()) == sorted(Hashing(20).numbers_of_names(["p", "q", "p q"], True, -1))
    pairs = ReaderConfig("vw", pairs=(("t", "u"),), options={"ignore": "t"})
    assert all("*" not in name for batch in pairs.batches(io.BytesIO(text)) for name in batch.X.names)
    with pytest.raises(ValueError, match="ngrams must be a number"):
        list(ReaderConfig("vw", options={"ngrams": "many"}).batches(io.BytesIO(text)))
