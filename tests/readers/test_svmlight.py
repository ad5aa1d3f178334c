"""svmlight files match a slow parser, scikit-learn and matrices; errors name the line."""

import functools
import io
import itertools
import random
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from tests.readers.plain import plain_rows, plain_svmlight

import fiol
from fiol.readers.batch import BadLineError
from fiol.readers.loops import numbers
from fiol.readers.reader_config import ReaderConfig, infer_config


def read(text, on_error="stop", **options):
    """Target and entries of all rows of a text, and the reader."""
    reader = ReaderConfig("svmlight", options=options).batches(io.BytesIO(text), on_error, prefetch=False)
    rows = []
    for batch in reader:
        chunk, ends = batch.X, batch.X.indptr.tolist()
        assert batch.rows == chunk.rows == len(batch.y) > 0
        entries = list(zip(chunk.indices.tolist(), chunk.data.tolist(), strict=True))
        rows += [(y, entries[a:b]) for y, (a, b) in zip(batch.y.tolist(), itertools.pairwise(ends), strict=True)]
    return rows, reader


def check_against_plain(text, zero_based):
    """Check that rows and refused lines match those of the slow parser."""
    rows, reader = read(text, "skip", zero_based=zero_based)
    expected, refused = plain_rows(text, functools.partial(plain_svmlight, zero_based=zero_based))
    assert repr(rows) == repr(expected)  # -0.0 is not 0.0
    assert reader.skipped == len(refused)
    assert [error.place.line for error in reader.first_skipped] == refused[:10]


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(1e-100, 1e100).map(lambda x: f"{x:.17e}"),
    st.from_regex(r"[-+]?(\d{1,25}\.?\d{0,25}|\.\d{1,25})([eE][-+]?\d{1,3})?", fullmatch=True).filter(str.isascii),
)


@given(st.lists(NUMBERS, min_size=1, max_size=50))
@example(
    [
        "9007199254740993",
        "9007199254740992.99999999999999999999",
        "1e22",
        "1e23",
        "8.5e-10",
        "5e-324",
        "2.2250738585072011e-308",
    ]
)
@example(
    [
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "0" * 40 + "1." + "0" * 40 + "e1",
        "1e0000000000005",
        "-0",
        "+.5",
        "5.",
    ]
)
@example(["1e-400", "0e999999999999999999999", "7.2057594037927933e16", "123456789012345678901234567890e-30"])
def test_parsed_numbers_match_python(numbers):
    """Targets, as their size is not limited: the same bits as `float` makes of the text, or refused if infinite."""
    rows, reader = read("\n".join(numbers).encode(), "skip")
    y = [target for target, entries in rows if entries == []]
    expected = [x for x in map(float, numbers) if np.isfinite(x)]
    assert struct.pack(f"{len(y)}d", *y) == struct.pack(f"{len(expected)}d", *expected)
    assert reader.skipped == len(numbers) - len(expected)


def test_128_bit_products_round_as_python():
    """`nearest` is right wherever it decides, and that is nearly everywhere in the range of ordinary numbers."""
    draw, undecided = random.Random(7), 0
    for _ in range(20_000):
        w, q = draw.getrandbits(draw.randint(1, 64)) or 1, draw.randint(-330, 300)
        found = numbers.nearest_double(np.uint64(w), q)
        if found >= 0.0:
            assert found == float(f"{w}e{q}"), (w, q)
        undecided += found < 0.0 and -290 < q < 270
    assert undecided < 10


TOKENS = [
    "1", "-1", "+1.5", "0:1", "1:2", "2:-3.5e2", "7:0", "1:", ":1", "1:2:3", "qid:3", "qid:", "x", "#", "# 5:x",
    "2147483647:1", "2147483648:1", "99999999999999999999:1", "1:1e101", "1:1e-101", "1:nan", "1:inf", "1:0x1", "1:1_0",
    "1:1e", "1:.", "\u00e9", "1:2#3", "\x00", "3:12345678901234567890123", "|", "1,2", "0000000000003:1",
]  # fmt: skip
BETWEEN = ["\n", "\n", "\r\n", " ", " ", " ", "  ", "\t", "\r", ""]


@given(st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from(BETWEEN))), st.booleans(), st.booleans())
def test_svmlight_rows_and_errors_match_slow_parser(parts, zero_based, marked):
    text = b"\xef\xbb\xbf" * marked + "".join(map("".join, parts)).encode()
    check_against_plain(text, zero_based)


AWKWARD = b"1 qid:4 1:0.5 7:1e-3 # 3:4\n\n# nothing\n -1\t2:1\r\n3.5\n+1 1:.5 2:5. 3:0 10:-7#8"


def test_unusual_svmlight_lines_match_scikit_learn():
    X, y = load_svmlight_file(io.BytesIO(AWKWARD))
    rows, _ = read(AWKWARD)
    assert [target for target, _ in rows] == y.tolist() == [1, -1, 3.5, 1]
    for found, row in zip(rows, X, strict=True):
        assert found[1] == list(zip(row.indices.tolist(), row.data.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 1:2\n1 3:x 4:1\n", "<text>:2:5: 'x' is no finite number"),
        (b"# a\n\n1 1:2 5\n", "<text>:3:7: '5' is not a feature number, a colon and a value"),
        (b"x 1:2", "<text>:1:1: 'x' is no finite number, which a line starts with: its target"),
        (b"1 1:2\n1 0:2", "<text>:2:3: '0:2' is feature 0, but features are numbered from 1: zero_based=True counts "
         "from 0"),
        (b"1 2147483648:2", "<text>:1:3: '2147483648:2' is beyond the largest feature number there is, 2147483646"),
        (b"1 1:1e300", "<text>:1:5: '1e300' is a value that must be 0 or between 1e-100 and 1e+100 in size"),
        (b"1 1:" + b"y" * 50, f"<text>:1:5: '{'y' * 40}'... is no finite number"),
    ],
)  # fmt: skip
def test_svmlight_errors_name_line_and_reason(text, message):
    source = io.BytesIO(text)
    source.name = "<text>"
    with pytest.raises(BadLineError) as caught:
        list(ReaderConfig("svmlight", options={"zero_based": False}).batches(source))
    assert str(caught.value) == message


def test_svmlight_indices_are_zero_based_if_a_zero_appears_early():
    """Later files and blocks do not change the inferred base."""
    one, zero = b"1 1:1 10:2 # 0:1\n", b"1 0:1 10:2\n"
    assert read(one)[0] == [(1, [(0, 1), (9, 2)])]
    assert read(zero + one)[0] == [(1, [(0, 1), (10, 2)]), (1, [(1, 1), (10, 2)])]
    assert [infer_config(io.BytesIO(text)).options["zero_based"] for text in (one, zero)] == [False, True]
    late = one * (2**20 // len(one) + 1)
    with pytest.raises(BadLineError, match="zero_based"):
        read(late + zero)
    assert read(late + zero, zero_based=True)[0][-1] == (1, [(0, 1), (10, 2)])


def test_svmlight_file_gives_the_weights_of_a_matrix(tmp_path):
    """With several blocks, prefetched in a thread, and the same batches from any source."""
    draw = np.random.default_rng(3)
    rows = [
        " ".join([draw.choice(["-1", "+1"]), *(f"{i}:{v!r}" for i, v in enumerate(x.tolist(), 1) if v > 0.9)])
        for x in draw.standard_normal((6000, 70))
    ]
    path = tmp_path / "rows.svm"
    path.write_text("\n".join(rows))
    X, y = load_svmlight_file(str(path))
    learner, other = (fiol.Learner(fiol.FIOL(fiol.Logistic(), fiol.L1(1e-3)), compiled=False) for _ in range(2))
    other.learn(X[:300], y[:300])
    reading = infer_config(path)
    batches = list(reading.batches(path))
    assert len(batches) > 1
    assert batches[0].rows > 300
    learner.learn(batches[0].X.row_block(0, 300), batches[0].y[:300])
    assert learner.weights.tobytes() == other.weights.tobytes()
    assert np.concatenate([b.X.data for b in batches]).tobytes() == X.data.tobytes()
    assert np.concatenate([b.X.indices for b in batches]).tolist() == X.indices.tolist()
    assert batches[-1].read == path.stat().st_size
    assert [b.place.line for b in batches] == [1 + sum(b.rows for b in batches[:k]) for k in range(len(batches))]
    with open(path, "rb", buffering=0) as file:
        again = list(reading.batches(ShortReads(file)))
    assert [b.rows for b in again] == [b.rows for b in batches]


class ShortReads(io.RawIOBase):
    """A file that gives some bytes at a time, as pipes do."""

    def __init__(self, file):
        self.file = file

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.file.readinto(memoryview(buffer)[:4099])
