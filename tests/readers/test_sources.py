"""Sources of bytes: file names, compression detected by content, blocks of lines, and errors."""

import bz2
import gzip
import io
import lzma
import os
import random
import subprocess
import sys
import threading

import pyarrow
import pytest

from fiol.readers import sources as module
from fiol.readers.batch import BadLineError, SourceError
from fiol.readers.reader_config import ReaderConfig, infer_config
from fiol.readers.sources import BLOCK_SIZE, Sources


def text_of(blocks):
    """All bytes of blocks, which end with a line's end each and have zeros behind it."""
    blocks = list(blocks)
    for block in blocks:
        assert block.data[block.size - 1 : block.size] == b"\n"
        assert block.data[block.size :] == bytes(16)
    return b"".join(block.data[: block.size] for block in blocks)


def zstd(text):
    """Text compressed by zstd, in two frames."""
    half = len(text) // 2
    codec = pyarrow.Codec("zstd")
    return b"".join(codec.compress(part, asbytes=True) for part in (text[:half], text[half:]))


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd, "plain": bytes}


@pytest.mark.parametrize("kind", COMPRESS)
def test_compression_is_detected_by_content(kind, tmp_path):
    """Also of a file named for something else, of several parts behind each other, and of a pipe that was looked at."""
    draw = random.Random(1)
    text = b"".join(b"%d 1:%d\n" % (k, draw.getrandbits(60)) for k in range(20_000))
    data = COMPRESS[kind](text[: 2 * 10**5]) + COMPRESS[kind](text[2 * 10**5 :])
    path = tmp_path / "rows.txt"
    path.write_bytes(data)
    blocks = list(Sources(path).blocks(2**17))
    assert text_of(blocks) == text
    assert [block.read for block in blocks][-1] == Sources(path).size == len(data)
    assert len(blocks) > 2
    assert [b.place.line for b in blocks] == [
        1 + text[: sum(c.size for c in blocks[:k])].count(b"\n") for k in range(len(blocks))
    ]
    pipe = Sources(io.BytesIO(data))
    assert pipe.start(1000) == (text[:1000], "an open file")
    assert pipe.start() == (text[: 2**20], "an open file")
    assert [block.size for block in pipe.blocks(2**17)] == [block.size for block in blocks]
    if kind != "plain":
        path.write_bytes(data[: len(data) - 20])
        with pytest.raises(SourceError, match=r"rows.txt (ends in the middle of its|holds) compressed data"):
            list(Sources(path).blocks())
        path.write_bytes(data[: len(data) // 2] + bytes(50) + data[len(data) // 2 :])
        with pytest.raises(SourceError, match=r"rows.txt (ends in the middle of its|holds) compressed data"):
            list(Sources(path).blocks())


def test_missing_compression_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "ZSTANDARD", {})
    (tmp_path / "a").write_bytes(zstd(b"1 1:2\n"))
    with pytest.raises(SourceError, match="a is compressed by zstd: install zstandard or pyarrow"):
        list(Sources(tmp_path / "a").blocks())


@pytest.mark.parametrize("size", [4, 7, 64])
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"a",
        b"a\n",
        b"abcdefgh\n\nb\n" * 9 + b"end",
        b"x" * 70,
        b"\xef\xbb\xbfab\ncd",
        b"\xef\xbb\xbf",
        b"a\r\nb",
    ],
)
def test_blocks_are_cut_at_line_ends(text, size):
    blocks = list(Sources(io.BytesIO(text)).blocks(size))
    plain = text.removeprefix(b"\xef\xbb\xbf")
    assert text_of(blocks) == plain + b"\n" * (plain[-1:] not in (b"", b"\n"))
    longest = max(map(len, plain.split(b"\n")))
    assert all(block.size <= max(size, 4 * longest) for block in blocks)
    line = 1
    for block in blocks:
        assert block.place.line == line
        line += block.data[: block.size].count(b"\n")


def test_sources_from_paths_patterns_and_folders(tmp_path):
    for name in ("b.svm", "a.svm", "c.txt", ".hidden", "_SUCCESS"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "sub").mkdir()
    (tmp_path / "[1].svm").write_bytes(b"literal")
    files = lambda *given: [os.path.relpath(f, tmp_path) for f in Sources(list(given)).files]  # noqa: E731
    assert files(tmp_path) == ["[1].svm", "a.svm", "b.svm", "c.txt"]
    assert files(str(tmp_path / "?.svm")) == ["a.svm", "b.svm"]
    assert files(tmp_path / "[1].svm", str(tmp_path / "b*")) == ["[1].svm", "b.svm"]
    assert text_of(Sources(str(tmp_path / "?.svm")).blocks()) == b"a.svm\nb.svm\n"  # an end each
    for given, message in [
        (tmp_path / "no.svm", "there is no file .*no.svm"),
        (str(tmp_path / "no*"), "no file matches .*no"),
        (tmp_path / "sub", "the folder .*sub' has no files to read"),
        ([], "no file was named"),
    ]:
        with pytest.raises(FileNotFoundError, match=message):
            Sources(given)
    with pytest.raises(ValueError, match="only once"):
        Sources(["-", "-"])
    with pytest.raises(TypeError, match="got int"):
        Sources(7)


def test_utf16_text_and_unbounded_lines_are_rejected(monkeypatch):
    with pytest.raises(SourceError, match="UTF-16"):
        list(Sources(io.BytesIO("1 1:2\n".encode("utf-16"))).blocks())
    monkeypatch.setattr(module, "LONGEST_LINE", 2**22)
    assert text_of(Sources(io.BytesIO(b"a\n" + b"x" * 2**21)).blocks())
    with pytest.raises(BadLineError, match="an open file:2: a line of more than"):
        list(Sources(io.BytesIO(b"a\n" + b"x" * 2**23)).blocks())


SCRIPT = """
from fiol.readers.reader_config import infer_config
reading = infer_config("-")
reader = reading.batches("-", "skip")
print(reading.format, sum(batch.rows for batch in reader), *reader.first_skipped)
"""


def test_standard_input_format_is_inferred():
    text = b"1 1:2 3:4\n" * 200_000 + b"1 1:"
    run = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(run, input=text, capture_output=True, check=True)
    assert done.stdout == b"svmlight 200000 -:200001:5: '' is no finite number\n"


def test_very_long_line_is_one_row():
    n = 2 * 10**6
    text = b"1 " + b" ".join(b"%d:1" % k for k in range(1, n)) + b"\n-1 5:2\n"
    batches = list(ReaderConfig("svmlight").batches(io.BytesIO(text)))
    assert sum(batch.rows for batch in batches) == 2
    assert len(text) > 8 * BLOCK_SIZE
    assert batches[0].X.row_block(0, 1).indices.tolist() == list(range(n - 1))


@pytest.mark.parametrize("how", ["closed", "let go", "read to its end", "failed"])
def test_reader_leaves_no_thread(how):
    text = b"1 1:2\n" * 10**6 + b"x\n" * (how == "failed")
    reader = ReaderConfig("svmlight").batches(io.BytesIO(text))
    first = next(reader)
    assert first.rows > 1000
    if how == "closed":
        with reader:
            pass
        assert list(reader) == []
    elif how == "let go":
        del reader
    elif how == "read to its end":
        assert first.rows + sum(batch.rows for batch in reader) == 10**6
    else:
        with pytest.raises(BadLineError, match=":1000001:1: 'x'"):
            list(reader)
    for thread in threading.enumerate():
        if thread.name == "fiol-reader":
            thread.join(5.0)
            assert not thread.is_alive()


def test_empty_and_unknown_files_are_not_inferred(tmp_path):
    (tmp_path / "empty.svm.gz").write_bytes(gzip.compress(b""))
    assert infer_config(tmp_path / "empty.svm.gz").format == "svmlight"
    assert list(ReaderConfig("svmlight").batches(tmp_path / "empty.svm.gz")) == []
    for data, message in [(b"", "is empty: say which format"), (bytes(range(256)) * 20, "in no format")]:
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(SourceError, match=message):
            infer_config(tmp_path / "x")


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"\x89fiol\r\n\x1a and more", "model.csv", "model.csv is a model of fiol, not data"),
        (b"PK\x03\x04 xl/workbook.xml", "book.xlsx", "save it as CSV if it is a workbook"),
        (b"a,b\n1,2\n\0\0\0,,,\n3\n", "rows.csv", "rows.csv is no text of csv: there are bytes in it that are 0"),
        (b"\x01\x02\x03", "what.bin", r"say which format it is \(format\), one of"),
    ],
)
def test_files_of_other_kinds_are_named_in_the_error(tmp_path, content, name, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=said):
        infer_config(tmp_path / name, target="b")
