"""Mutated lines of svmlight and Vowpal Wabbit text: no crash, no hang; the compiled parser agrees with a slow one.

    python tests/campaigns/lines.py [--lines N] [--seed N] [--only FORMAT]

Good lines have bytes changed, put in, taken out, doubled and swapped with others, among them those that mean something
in the format, ends of lines, bytes that are no UTF-8, and digits by the dozen. What the reader makes of a text, row by
row and bit by bit, and which lines it refuses, must be what a slow parser of one line says (`tests/readers/plain.py`).
A text that takes longer than a second is a hang.
"""

import argparse
import collections
import functools
import io
import itertools
import math
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.readers.plain import plain_rows, plain_svmlight, plain_vw

from fiol.readers.reader_config import ReaderConfig

#: Good lines.
GOOD = {
    "svmlight": [
        b"1 1:0.5 2:1 17:-3.25e-2", b"-1 qid:7 3:1 # a comment", b"+1.5 2147483646:1", b"0", b"",
        b"3 5:12345678901234567890", b"2 1:9007199254740993 4:1e22 5:1e-7", b"1 0:1 7:0", b"-0.25\t4:.5\t6:5.\r",
    ],
    "vw": [
        b"1 |f a b:2 c:0.5", b"-1 2 'tag |one x:1e-3 |two:0.5 y z:-2", b"| a b", b"|f :1 :2", b"",
        b"0 tag|f 9:6.2699720e-02",
        "1 |größe é:1 ü".encode(), b"1 |f a:12345678901234567890123|g b \r", b"2 |a^b c |a b^c d",
    ],
}  # fmt: skip
#: What is put in.
PIECES = [
    *(bytes([c]) for c in b" \t\r\n#:|'^.+-eE0123456789_xqid,;\"{}"), b"\x00", b"\xff", b"\xc3", b"\xa9",
    b"\xef\xbb\xbf",
    b"nan", b"inf", b"1e400", b"1e-400", b"e+", b"0x1", b"1_0", b"00000000000000000000", b"99999999999999999999",
    b"\r\n",
    b"qid:", b"|:", b"::", b"||", b" |", b"| ", b"\xe2\x80\xa8", b"\x0b", b"\x0c", b"\xc2\xa0", b"1e101", b"4.9e-324",
]  # fmt: skip


def mutated(lines, draw):
    """A line that was good, with one to four changes."""
    line = bytearray(draw.choice(lines))
    for _ in range(draw.randint(0, 4)):
        at = draw.randint(0, len(line))
        other = draw.choice(lines)
        kind = draw.randrange(7)
        if kind == 0:
            line[at:at] = draw.choice(PIECES)
        elif kind == 1:
            line[at : at + draw.randint(1, 3)] = b""
        elif kind == 2:
            line[at : at + 1] = draw.choice(PIECES)
        elif kind == 3:
            line[at : at + 1] = bytes([draw.randrange(256)])
        elif kind == 4:
            line[at:at] = line[draw.randint(0, len(line)) :][: draw.randint(1, 30)]
        elif kind == 5:
            line[at:] = other[draw.randint(0, len(other)) :]
        else:
            line[at:at] = b"%d" % draw.getrandbits(draw.choice([8, 32, 64, 200]))
    return bytes(line)


def rows_of(batches, form):
    """Return every row of batches in the form of the slow parser."""
    for batch in batches:
        chunk, names = (batch.X, None) if form == "svmlight" else batch.X
        ends, indices, data = chunk.indptr.tolist(), chunk.indices.tolist(), chunk.data.tolist()
        for k, (a, b) in enumerate(itertools.pairwise(ends)):
            y = None if batch.y is None or math.isnan(batch.y[k]) else float(batch.y[k])
            if names is None:
                yield y, list(zip(indices[a:b], data[a:b], strict=True))
            else:
                weight = 1.0 if batch.weights is None else float(batch.weights[k])
                entries = [(names[i], v) for i, v in zip(indices[a:b], data[a:b], strict=True)]
                yield y, weight, batch.tags[k] if batch.tags else "", entries


def check(text, form, options):
    """Compare reader and slow parser; return how many rows were read and how many lines refused."""
    reader = ReaderConfig(form, options=options).batches(io.BytesIO(text), "skip", prefetch=False)
    start = time.process_time()  # other processes may keep this one waiting
    rows = list(rows_of(reader, form))
    took = time.process_time() - start
    if form == "svmlight":
        expected, refused = plain_rows(text, functools.partial(plain_svmlight, zero_based=options["zero_based"]))
    else:
        expected, refused = plain_rows(text, plain_vw)
        expected = [(y, weight, tag or "", entries) for y, weight, tag, entries in expected]
    if repr(rows) != repr(expected):
        for found, right in itertools.zip_longest(rows, expected):
            assert repr(found) == repr(right), f"{form} {options}: {found!r} is not {right!r}"
    assert reader.skipped == len(refused)
    assert [error.place.line for error in reader.first_skipped] == refused[:10]
    assert took < 1.0 + len(text) / 1e5, f"{took} seconds for {len(text)} bytes"
    return len(rows), len(refused)


def run(lines, seed=0, only=None, together=400):
    """Check this many lines, some of them together in one file; return counts by format and outcome."""
    for form, good in GOOD.items():  # compiled, or loaded, before anything is timed
        list(ReaderConfig(form).batches(io.BytesIO(good[0])))
    draw, counts = random.Random(seed), collections.Counter()
    formats = [only] if only else list(GOOD)
    while sum(counts.values()) < lines:
        form = draw.choice(formats)
        options = {"zero_based": draw.random() < 0.5} if form == "svmlight" else {}
        text = b"\n".join(mutated(GOOD[form], draw) for _ in range(draw.choice([1, 3, together])))
        if text[:1] in b"\x1f\xfd\xfe\xffB(":  # not by chance a compressed file, or UTF-16
            text = b"\n" + text
        read, refused = check(text, form, options)
        counts[form, "read"] += read
        counts[form, "refused"] += refused
        counts[form, "empty"] += text.count(b"\n") + 1 - read - refused
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=GOOD)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    for (form, what), count in sorted(run(arguments.lines, arguments.seed, arguments.only).items()):
        print(f"{form:10} {what:10} {count:9,}")
    print(f"all as the slow parser says, {time.perf_counter() - begin:.0f} s")
