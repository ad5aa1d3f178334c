"""Where rows are: files, folders, patterns and standard input, as bytes, decompressed, in constant memory.

No file here depends on what the bytes mean. Formats of lines take them in blocks that end where a line does
(`Sources.blocks`), others as one stream per file (`Sources.streams`), or by the names of the files (`Sources.files`).
"""

from __future__ import annotations

import bz2
import glob
import gzip
import importlib
import io
import lzma
import math
import os
import shutil
import sys
import tempfile
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from stat import S_ISREG
from typing import Any, NamedTuple

import numpy as np

from fiol.features.byte_words import SPARE
from fiol.readers.batch import BadLineError, Place, SourceError
from fiol.readers.digests import FileDigest, digest_for
from fiol.readers.live import LIVE_SECONDS, LiveFile, is_pipe

#: Standard input, among the names of files.
STANDARD_INPUT = "-"
#: Bytes of text in a block, but for the end of the last line and for lines that are longer.
BLOCK_SIZE = 2**20
#: Bytes of text, from the beginning, that decide how a file is read.
START_SIZE = 2**20
#: Lines of more bytes are refused: whatever has no line ends is not read into memory.
LONGEST_LINE = 2**28
#: What UTF-8 text may begin with, and what begins text that is no UTF-8.
UTF8_MARK, UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")

#: Bytes of standard input that were looked at, and are still to be read.
_looked_at: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()
#: Pipes with a name that were opened, and are still to be read, by device and number: opened again they begin later.
_pipes: dict[tuple[int, int], Any] = {}
#: What was in a pipe, as a file on disk.
_spooled: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class Block(NamedTuple):
    """Some lines of a file: `data[:size]`, which ends with a line's end; what follows it in `data` is 0."""

    data: bytearray
    size: int
    place: Place  #: of the first line
    read: int  #: bytes of all files, as they are on disk, that were read until here


class Stream(io.RawIOBase):
    """The bytes of one file, decompressed, for reading once; `taken` is how many were read of it as it is on disk.

    Of a live file (`LiveFile`), a read ends `LIVE_SECONDS` after its first byte.
    """

    def __init__(
        self,
        name: str,
        raw: Any,
        owned: bool,
        ahead: bytes = b"",
        live: LiveFile | None = None,
        digest: FileDigest | None = None,
    ) -> None:
        self.name = name
        self.counted = Counted(raw, ahead, owned, live, digest)
        self.content: Any = self.counted  # closed as such if there is no such decompression
        self.content = decompressed(name, self.counted)

    @property
    def is_live(self) -> bool:
        """Whether the file is still being written."""
        return self.counted.live is not None

    @property
    def is_cut_short(self) -> bool:
        """Whether reading was stopped, perhaps in the middle of a line."""
        return self.counted.live is not None and self.counted.live.stop.is_set()

    @property
    def taken(self) -> int:
        """How many bytes were read, as they are on disk."""
        return self.counted.taken

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes: all that fit, or that there are, or that arrive in time in a live file.

        SourceError if they are damaged.
        """
        view, n, deadline = memoryview(buffer).cast("B"), 0, 0.0
        while n < len(view):
            if n and self.counted.live is not None and not self.counted.has_more(deadline - time.monotonic()):
                break
            try:
                found = self._read_some(view[n:])
            except EOFError:
                raise SourceError(f"{self.name} ends in the middle of its compressed data") from None
            except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk, not what is on it
                raise SourceError(f"{self.name} holds compressed data that is damaged: {error}") from None
            if not found:
                break
            deadline = deadline or time.monotonic() + LIVE_SECONDS
            n += found
        return n

    def _read_some(self, view: memoryview) -> int:
        """Read the next bytes, at least one unless there are no more; of a live file no more than one read has."""
        if self.is_live and hasattr(self.content, "read1"):
            data = self.content.read1(len(view))
            view[: len(data)] = data
            return len(data)
        return self.content.readinto(view) or 0

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            if self.content is not self.counted:
                self.content.close()
            self.counted.close()
        super().close()


class Counted(io.RawIOBase):
    """A file that is read once, and how far; `ahead` is what was read of it before."""

    def __init__(
        self, raw: Any, ahead: bytes, owned: bool, live: LiveFile | None = None, digest: FileDigest | None = None
    ) -> None:
        self.raw, self.ahead, self.owned, self.taken = raw, ahead, owned, 0
        self.live, self.digest = live, digest

    def readable(self) -> bool:
        """It is."""
        return True

    def look(self, n: int) -> bytes:
        """Return the next n bytes, or fewer at the end, without consuming them."""
        while len(self.ahead) < n:
            more = self.raw.read(n - len(self.ahead)) if self.live is None else self.live.read()
            if not more:
                break
            self.ahead += more
        return self.ahead[:n]

    def has_more(self, seconds: float) -> bool:
        """Return whether bytes of a live file are there, or arrive within some seconds."""
        return bool(self.ahead) or self.live is None or self.live.is_ready(max(0.0, seconds))

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer, at least one unless there are no more."""
        if self.live is not None and not self.ahead:
            self.ahead = self.live.read()
        if self.ahead or self.live is not None:
            n = min(len(buffer), len(self.ahead))
            buffer[:n], self.ahead = self.ahead[:n], self.ahead[n:]
        else:
            n = self.raw.readinto(buffer) or 0
        if self.digest is not None:
            self.digest.add(memoryview(buffer)[:n])
        self.taken += n
        return n

    def close(self) -> None:
        """Close the file, unless it was open before."""
        if self.owned and not self.closed:
            self.raw.close()
        super().close()


class Sources:
    """The files that a user named, in order: a path, several, patterns with * ? [ ], folders, "-", or open files.

    A folder stands for the files in it, sorted by name, without those whose names start with a dot or an underscore;
    a pattern for what matches, sorted. Files that are compressed (gz, bz2, xz, zst, whatever they are called) are
    decompressed. FileNotFoundError if there is nothing.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b", "a"):
    ...         _ = Path(folder, name).write_bytes(gzip.compress(b"1 1:2\\n") if name == "a" else b"0 1:3\\n0 2:1")
    ...     blocks = list(Sources(folder).blocks())
    >>> [(bytes(block.data[: block.size]), block.place.line) for block in blocks]
    [(b'1 1:2\\n', 1), (b'0 1:3\\n0 2:1\\n', 1)]
    """

    def __init__(self, sources: Any, follow: bool = False, idle_seconds: float | None = None) -> None:
        self.follow, self.idle_seconds = follow, idle_seconds
        #: Set to end live files: what has arrived by then is still read.
        self.stop = threading.Event()
        #: What was read of each file, if `keep_digests` was called.
        self.digests: list[FileDigest] | None = None
        many = sources if isinstance(sources, Sequence) and not isinstance(sources, (str, bytes)) else [sources]
        #: The names of the files, as they were given or found.
        self.files: list[str] = []
        self._open: dict[int, Any] = {}  # files that were given as such, by their number
        for source in many:
            if hasattr(source, "readinto"):
                self._open[len(self.files)] = source
                self.files.append(str(getattr(source, "name", None) or "an open file"))
            else:
                self.files += files_of(source)
        if not self.files:
            raise FileNotFoundError("there is nothing to read: no file was named")
        if self.files.count(STANDARD_INPUT) > 1:
            raise ValueError('standard input ("-") can be read only once')
        #: Bytes of all files on disk; None if that cannot be known beforehand.
        self.size: int | None = None
        if STANDARD_INPUT not in self.files and not self._open:
            sizes = [os.stat(file) for file in self.files]
            self.size = sum(s.st_size for s in sizes) if all(is_regular(s) for s in sizes) else None
            if follow and not is_regular(sizes[-1]):
                raise ValueError(f"{self.files[-1]} is a pipe, which is read as rows arrive without follow")
        elif follow:
            raise ValueError("follow is for files that grow: a pipe is read as rows arrive without it")
        if follow:
            self.size = None

    @property
    def is_live(self) -> bool:
        """Whether the last of the files is still being written: a pipe, or a file that is followed."""
        if self.follow:
            return True
        return any(is_pipe(self.pipe(number)) for number in range(len(self.files)))

    def keep_digests(self, expected: Sequence[tuple[int, str] | None] = ()) -> None:
        """Compute digests of what is read from now on.

        Parameters
        ----------
        expected : for each of the first files, bytes and digest of an earlier run, or None. SourceError, now for files
            on disk or in memory and else as soon as they are read, if a file begins with other bytes.
        """
        self.digests = [digest_for(name, self._open.get(number)) for number, name in enumerate(self.files)]
        there = self._digests_of_whole() if expected else {}
        for number, known in enumerate(expected[: len(self.files)]):
            self.digests[number].expected = known
            if known is not None and known[0] and number in there:
                there[number].expected = known
                there[number].check_beginning()

    def _digests_of_whole(self) -> dict[int, FileDigest]:
        """Return new digests of the files on disk, and in memory if none of it was read, by their numbers."""
        found = {}
        for number, name in enumerate(self.files):
            raw = self.pipe(number)
            if raw is None or (isinstance(raw, io.BytesIO) and raw.tell() == 0):
                found[number] = digest_for(name, raw)
        return found

    def grown(self) -> list[str]:
        """Return the names of files with more bytes than those that `keep_digests` expects."""
        expected = {number: digest.expected for number, digest in enumerate(self.digests or ())}
        whole = self._digests_of_whole() if any(expected.values()) else {}
        return [one.name for number, one in whole.items() if one.whole_size > (expected[number] or (math.inf, ""))[0]]

    def learned_before(self, records: Sequence[Sequence[Any]]) -> list[tuple[str, int, str, bool]]:
        """Return name, size and unit of the beginning, and whether that is all, of files in earlier records of digests.

        Pipes are not among them.
        """
        known = {(size, text) for _, size, text in records}
        sizes = [(one, one.known_beginning(known)) for one in self._digests_of_whole().values()]
        return [(one.name, size, one.unit, size == one.whole_size) for one, size in sizes if size]

    @property
    def is_seekable(self) -> bool:
        """Whether all are files on disk, which can be read again and from any place."""
        return self.size is not None

    def open(self, number: int) -> Stream:
        """File `number`, from its beginning, decompressed."""
        name = self.files[number]
        raw = self.pipe(number)
        digest = None if self.digests is None else self.digests[number]
        if digest is not None:
            digest.restart()
        if raw is not None:
            live = LiveFile(raw, stop=self.stop) if is_pipe(raw) else None
            return Stream(name, raw, False, _looked_at.pop(raw, b""), live, digest)
        file = open(name, "rb", buffering=0)  # noqa: SIM115 - closed by the stream
        live = None
        if self.follow and number == len(self.files) - 1:
            live = LiveFile(file, True, self.idle_seconds, self.stop)
        return Stream(name, file, True, b"", live, digest)

    def pipe(self, number: int) -> Any:
        """File `number`, open, if it can be read only once; None if it is a file on disk."""
        name = self.files[number]
        if number in self._open:
            return self._open[number]
        if name == STANDARD_INPUT:
            return standard_input()
        about = os.stat(name)
        if is_regular(about):
            return None
        key = about.st_dev, about.st_ino
        if key not in _pipes:
            _pipes[key] = open(name, "rb", buffering=0)  # noqa: SIM115 - closed when it is read
        return _pipes[key]

    def streams(self) -> Iterator[Stream]:
        """Yield all files one after the other; each is closed when the next is requested."""
        for number in range(len(self.files)):
            with self.open(number) as stream:
                yield stream
                forget_pipe(stream.counted.raw)

    def on_disk(self, number: int) -> Any:
        """File `number` as one on disk, for formats that say at the end what is in them: its name, or a copy, open."""
        raw = self.pipe(number)
        if raw is None:
            if self.digests is not None:
                self.digests[number].whole = True
            return self.files[number]
        if raw not in _spooled:
            copy = tempfile.TemporaryFile()  # noqa: SIM115 - it is there as long as the pipe is
            with self.open(number) as stream:
                shutil.copyfileobj(io.BufferedReader(stream, START_SIZE), copy, START_SIZE)
            weakref.finalize(raw, copy.close)
            _spooled[raw] = copy
        return _spooled[raw]

    def start(self, size: int = START_SIZE) -> tuple[bytes, str]:
        """Return the first text of a file that has any, decompressed, without byte order mark, and its name.

        Nothing is lost: standard input gives the same bytes again, as long as they are of one file.
        """
        text, number = b"", 0
        while not text and number < len(self.files):
            with self.open(number) as stream:
                raw = None if stream.counted.owned else stream.counted.raw
                if raw is not None:
                    text = self._start_of_pipe(stream, raw, size)
                elif stream.is_live:
                    text = start_of_live(stream, size)
                else:
                    data = bytearray(size + len(UTF8_MARK))
                    text = bytes(data[: stream.readinto(data)])
            number += 1
        name = self.files[number - 1]
        return without_mark(text, name)[:size], name

    def _start_of_pipe(self, stream: Stream, raw: Any, size: int) -> bytes:
        """Return the first bytes of a source that can be read once; they are kept as they came, for the next reader."""
        keep = Recorded(stream.counted)
        content = keep if stream.content is stream.counted else decompressed(stream.name, keep)
        data = bytearray(size + len(UTF8_MARK))
        stream.content = content
        try:
            return start_of_live(stream, size) if stream.is_live else bytes(data[: stream.readinto(data)])
        finally:
            stream.content = stream.counted
            _looked_at[raw] = bytes(keep.seen) + stream.counted.ahead

    def blocks(self, size: int = BLOCK_SIZE) -> Iterator[Block]:
        """Yield the lines of all files, about `size` bytes at a time, cut where lines end, alike in every reading.

        A last line without an end gets one; a byte order mark is left out. BadLineError for lines longer than
        `LONGEST_LINE`, SourceError for compressed data that is damaged and for UTF-16.
        """
        before = 0
        for stream in self.streams():
            for block in lines_in_blocks(stream, size):
                yield block._replace(read=before + block.read)
            before += stream.taken


class Recorded(io.RawIOBase):
    """A file that is read, and all that was read of it."""

    def __init__(self, source: Counted) -> None:
        self.source, self.seen = source, bytearray()

    def readable(self) -> bool:
        """It is."""
        return True

    def look(self, n: int) -> bytes:
        """Return the next n bytes without consuming them."""
        return self.source.look(n)

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer."""
        n = self.source.readinto(buffer)
        self.seen += bytes(buffer[:n])
        return n


def start_of_live(stream: Stream, size: int) -> bytes:
    """Return the first lines of a live file that have arrived `LIVE_SECONDS` after its first byte, at least two."""
    data, n = bytearray(size + len(UTF8_MARK)), 0
    with memoryview(data) as view:
        while n < len(data):
            found = stream.readinto(view[n:])
            n += found
            if not found or (data.count(b"\n", 0, n) > 1 and not is_binary(data[:n])):
                break
    end = data.rfind(b"\n", 0, n) + 1
    return bytes(data[: n if n == len(data) or not end or not found else end])


def is_binary(data: bytearray) -> bool:
    """Return whether bytes are no text: formats that are not of lines need more of them."""
    return data.find(b"\0") >= 0


def lines_in_blocks(stream: Stream, size: int) -> Iterator[Block]:
    """Yield the lines of one file; see `Sources.blocks`."""
    line, rest, ended = 1, b"", False
    first = True
    while not ended:
        data = bytearray(max(size, len(rest)) + SPARE)
        data[: len(rest)] = rest
        n, cut = len(rest), 0
        while not cut:
            room = len(data) - SPARE - 1  # and a line's end that may be missing
            if n >= room:
                if n >= LONGEST_LINE:
                    place = Place(stream.name, line)
                    raise BadLineError(place, 0, f"a line of more than {LONGEST_LINE} bytes, which no text file has")
                data.extend(bytes(len(data)))
                room = len(data) - SPARE - 1
            with memoryview(data) as view:
                found = stream.readinto(view[n:room])
            ended = found < room - n if not stream.is_live else found == 0
            if first:
                marked = without_mark(bytes(data[:4]), stream.name)
                mark = 4 - len(marked)
                if mark:
                    del data[:mark]
                    found -= mark
                first = False
            n += found
            cut = n if ended and not stream.is_cut_short else data.rfind(b"\n", n - found, n) + 1
            if ended:
                break
        if ended and n and data[n - 1] != ord("\n") and not stream.is_cut_short:
            data[n] = ord("\n")
            n += 1
            cut = n
        rest = bytes(data[cut:n])
        data[cut:] = bytes(SPARE)
        if cut:
            yield Block(data, cut, Place(stream.name, line), stream.taken)
            line += int(np.count_nonzero(np.frombuffer(data, np.uint8, cut) == ord("\n")))


def without_mark(text: bytes, name: str) -> bytes:
    """Text without its byte order mark; SourceError if that is of UTF-16 or UTF-32.

    >>> without_mark(b"\\xef\\xbb\\xbf1 1:2", "a.svm")
    b'1 1:2'
    """
    if text.startswith(UTF16_MARKS):
        raise SourceError(f"{name} is text in UTF-16 or UTF-32: convert it to UTF-8")
    return text.removeprefix(UTF8_MARK)


def files_of(source: Any) -> list[str]:
    """Return the files of a path, a folder or a pattern; raise FileNotFoundError if there are none."""
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a source is a path, a pattern, a folder, '-' or an open file, got {type(source).__name__}")
    name = os.fspath(source)
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    if name == STANDARD_INPUT:
        return [name]
    if os.path.isdir(name):
        files = [os.path.join(name, file) for file in sorted(os.listdir(name)) if file[0] not in "._"]
        files = [file for file in files if not os.path.isdir(file)]
        if not files:
            raise FileNotFoundError(
                f"the folder {name!r} has no files to read: its folders, and files that begin with . or _, are left "
                "out; files are .csv, .tsv, .jsonl, .parquet, .arrow, .svm, .vw, also compressed (.gz .bz2 .xz .zst)"
            )
        return files
    if os.path.exists(name):
        return [name]
    if glob.has_magic(name):
        files = [file for file in sorted(glob.glob(name, recursive=True)) if not os.path.isdir(file)]
        if not files:
            raise FileNotFoundError(f"no file matches {name!r}")
        return files
    raise FileNotFoundError(f"there is no file {name!r}")


def forget_pipe(raw: Any) -> None:
    """Close a pipe with a name that has been read."""
    for key in [key for key, known in _pipes.items() if known is raw]:
        _pipes.pop(key).close()


def is_regular(stat: os.stat_result) -> bool:
    """Return whether a file is one on disk, and no pipe or device."""
    return S_ISREG(stat.st_mode)


def standard_input() -> Any:
    """Return the bytes of standard input as a stream."""
    return sys.stdin.buffer


# --- decompression ----------------------------------------------------------------------------


def decompressed(name: str, source: Any) -> Any:
    """Return the content of a file, decompressed if its first bytes are those of a compressed file."""
    for magic, opener in COMPRESSIONS.items():
        if source.look(len(magic)) == magic:
            return opener(name, source)
    return source


def zstandard_stream(name: str, source: Any) -> Any:
    """Return the content of a file compressed by zstd, by an installed library; raise SourceError if there is none."""
    for library, opener in ZSTANDARD.items():
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        return opener(module, source)
    raise SourceError(f"{name} is compressed by zstd: install zstandard or pyarrow to read it, or decompress it first")


#: What opens a compressed file, by how such files begin.
COMPRESSIONS: dict[bytes, Callable[[str, Any], Any]] = {
    b"\x1f\x8b": lambda _, source: gzip.GzipFile(fileobj=source),
    b"BZh": lambda _, source: bz2.BZ2File(source),
    b"\xfd7zXZ\x00": lambda _, source: lzma.LZMAFile(source),  # noqa: SIM115 - closed by the stream
    b"\x28\xb5\x2f\xfd": zstandard_stream,
}
#: What opens a file compressed by zstd, by the library that does.
ZSTANDARD: dict[str, Callable[[Any, Any], Any]] = {
    "compression.zstd": lambda zstd, source: zstd.ZstdFile(source),
    "zstandard": lambda zstd, source: zstd.ZstdDecompressor().stream_reader(source, read_across_frames=True),
    "pyarrow": lambda arrow, source: arrow.CompressedInputStream(arrow.PythonFile(source, "r"), "zstd"),
}
