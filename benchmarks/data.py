"""Rows to learn from: public data sets, as they are found in a folder, and made-up text."""

from __future__ import annotations

import csv
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

import numpy as np

from fiol.features.chunk import Chunk

#: Where data sets are kept once they have been read.
CACHE = Path(__file__).parents[1] / "build" / "data"


class Rows(NamedTuple):
    """A data set in memory: CSR, and a target for every row: -1 or +1, a number, or a class counted from 0."""

    name: str
    d: int
    indptr: Any
    indices: Any
    data: Any
    y: Any

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def nnz(self) -> float:
        """Non-zeros per row."""
        return len(self.data) / len(self.y)

    def take(self, order: Any) -> Rows:
        """These rows, in this order."""
        length = np.diff(self.indptr)[order]
        indptr = np.append(0, np.cumsum(length))
        entries = np.repeat(self.indptr[order] - indptr[:-1], length) + np.arange(indptr[-1])
        return self._replace(indptr=indptr, indices=self.indices[entries], data=self.data[entries], y=self.y[order])

    def matrix(self) -> Any:
        """Return the rows as a scipy CSR matrix, or without scipy as its arrays."""
        try:
            from scipy.sparse import csr_matrix
        except ImportError:
            return Chunk(self.indptr, self.indices, self.data)
        return csr_matrix((self.data, self.indices, self.indptr), shape=(self.size, self.d))

    def scores(self, w: Any) -> Any:
        """<x, w> of every row."""
        row = np.repeat(np.arange(self.size), np.diff(self.indptr))
        return np.bincount(row, self.data * w[self.indices], self.size)


# --- made-up rows -----------------------------------------------------------------------------


def text_like(rows: int, d: int, draws: int = 72, seed: int = 1) -> Rows:
    """Return rows whose words are as popular as in text: feature floor(d u^3) for uniform u, uniform values.

    72 draws leave about 70 different features of 47,000.
    """
    rng = np.random.default_rng(seed)
    drawn = np.sort((d * rng.random((rows, draws)) ** 3).astype(np.int32), axis=1)
    first = np.ones(drawn.shape, bool)
    first[:, 1:] = drawn[:, 1:] > drawn[:, :-1]
    indptr, indices = np.append(0, np.cumsum(first.sum(axis=1))), drawn[first]
    made = Rows("synthetic", d, indptr, indices, 1.0 - rng.random(len(indices)), np.empty(rows))
    score = made.scores(rng.standard_normal(d))
    return made._replace(y=np.where(score + rng.standard_normal(rows) > 0.0, 1.0, -1.0))


#: How many values the fields of `clicks` have.
FIELDS: tuple[int, ...] = (
    2,
    3,
    4,
    5,
    7,
    10,
    12,
    15,
    24,
    31,
    50,
    80,
    100,
    200,
    300,
    500,
    1000,
    2000,
    5000,
    10_000,
    20_000,
    50_000,
)
FIELDS += (100_000, 200_000, 500_000, 1_000_000)


def clicks(rows: int, bits: int = 16, seed: int = 1, block: int = 0) -> Rows:
    """Return a stream of clicks: 26 categorical fields of 2 to a million values, hashed into 2^bits features.

    A value's rank in a field of n is floor(n^u) for uniform u, a power law. The log-odds are the sum of a normal weight
    per value, less what leaves a click in 20 rows or so. Nothing drifts; another `block` has other rows of the same
    stream.
    """
    weights, rng = np.random.default_rng(seed), np.random.default_rng((seed, 1 + block))
    columns, scores = np.empty((rows, len(FIELDS)), np.int32), np.full(rows, -6.0)
    for k, n in enumerate(FIELDS):
        rank = (float(n) ** rng.random(rows)).astype(np.int64)
        scores += 0.45 * weights.standard_normal(n + 1)[rank]
        mixed = (rank + np.int64(k + 1) * np.int64(1_000_003)) * np.int64(-7046029254386353131)  # modulo 2^64
        columns[:, k] = (mixed.view(np.uint64) >> np.uint64(64 - bits)).astype(np.int32)
    columns.sort(axis=1)
    first = np.ones(columns.shape, bool)
    first[:, 1:] = columns[:, 1:] > columns[:, :-1]
    indptr, indices = np.append(0, np.cumsum(first.sum(axis=1))), columns[first]
    y = np.where(rng.random(rows) * (1.0 + np.exp(-scores)) < 1.0, 1.0, -1.0)
    return Rows("clicks", 2**bits, indptr, indices, np.ones(len(indices)), y)


# --- files ------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """Lines of `label index:value ...` as arrays: labels as they are, and the rows in CSR."""

    labels: Any
    indptr: Any
    indices: Any
    values: Any


#: From labels as they are in a file to targets.
Targets = Callable[[Any], Any]


def binary(labels: Any) -> Any:
    """+1 for labels above 0, -1 for the others."""
    return np.where(labels > 0.0, 1.0, -1.0)


def second_class(labels: Any) -> Any:
    """+1 for class 2, -1 for the others."""
    return np.where(labels == 2.0, 1.0, -1.0)


def numbers(labels: Any) -> Any:
    """Labels that are targets."""
    return np.asarray(labels, np.float64)


def classes(labels: Any) -> Any:
    """Return the place of every label among all labels, from 0."""
    return np.unique(labels, return_inverse=True)[1].astype(np.float64)


def parse_libsvm(file: Iterable[str], first: int = 1) -> Lines:
    """Lines of `label index:value ...`, empty ones left out; indices count from `first`."""
    lines = [line for line in file if line.strip()]
    numbers = np.array(" ".join(lines).replace(":", " ").split(), np.float64)
    indptr = np.append(0, np.cumsum([line.count(":") for line in lines], dtype=np.int64))
    label = 2 * indptr[:-1] + np.arange(len(lines))
    entries = np.delete(numbers, label).reshape(-1, 2)
    return Lines(numbers[label], indptr, entries[:, 0].astype(np.int32) - first, entries[:, 1].copy())


def read_libsvm(file: Iterable[str], first: int = 1, targets: Targets = binary) -> Rows:
    """Return the rows of an svmlight file."""
    labels, indptr, indices, values = parse_libsvm(file, first)
    d = int(indices.max(initial=-1)) + 1
    return Rows("", d, indptr, indices, values, targets(labels))


def read_libfm(file: IO[str]) -> Rows:
    """Return the rows of a file in the layout of svmlight with indices counted from 0."""
    return read_libsvm(file, first=0)


def read_vw(file: IO[str]) -> Rows:
    """Lines of `label |namespace index:value ...`, one namespace only, indices counted from 0."""
    return read_libsvm((re.sub(r"\|\S*", "", line) for line in file), first=0)


def from_array(x: Any, y: Any) -> Rows:
    """Return the rows of a table without its zeros."""
    there = x != 0.0
    indptr = np.append(0, np.cumsum(there.sum(axis=1)))
    return Rows("", x.shape[1], indptr, np.nonzero(there)[1].astype(np.int32), x[there], y)


def read_covtype(file: IO[str], scaled: bool = True, targets: Targets = second_class) -> Rows:
    """Labels in the last column; `scaled`: columns divided by their largest size."""
    numbers = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
    x = numbers[:, :-1]
    if scaled:
        x /= np.maximum(np.abs(x).max(axis=0), 1e-300)
    return from_array(x, targets(numbers[:, -1]))


def columns(file: IO[str], target: str | None = None, drop: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """Return a table with a header; the target is its last column by default. Values stay in their units."""
    names, *rows = list(csv.reader(file))
    target = names[-1] if target is None else target
    y = np.array([row[names.index(target)] for row in rows])
    keep = [k for k, name in enumerate(names) if name != target and name not in drop]
    return np.array([[row[k] for k in keep] for row in rows], np.float64), y


BIKE = partial(columns, target="cnt", drop=("instant", "dteday", "casual", "registered"))
CASP = partial(columns, target="RMSD")


def read_table(file: IO[str], read: Callable[[IO[str]], tuple[Any, Any]] = columns, targets: Targets = numbers) -> Rows:
    """Return the rows of a table with a header."""
    x, y = read(file)
    return from_array(x, targets(y.astype(np.float64)))


def read_messages(file: IO[str], bits: int = 18) -> Rows:
    """Return rows of a file of `ham` or `spam`, a tab and a message: counts of words, hashed."""
    next(file)
    y, indptr, indices, values = [], [0], list[int](), list[int]()
    for line in file:
        label, _, message = line.partition("\t")
        words = Counter(crc32(word.encode()) % 2**bits for word in re.findall(r"\w+", message.lower()))
        y.append(1.0 if label == "spam" else -1.0)
        indices += sorted(words)
        values += [words[word] for word in sorted(words)]
        indptr.append(len(indices))
    return Rows("", 2**bits, np.array(indptr), np.array(indices, np.int32), np.array(values, np.float64), np.array(y))


class Source(NamedTuple):
    """A data set: what it is called, its file (perhaps with .xz behind), how to read it, whether to shuffle."""

    name: str
    file: str
    read: Callable[[IO[str]], Rows]
    shuffle: bool = False


SOURCES = (
    Source("a9a", "a9a", read_libsvm),
    Source("w8a", "w8a", read_libsvm, shuffle=True),  # sorted by class
    Source("frappe", "frappe.validation.libfm", read_libfm),
    Source("reuters", "reuters21578_earn.svm", read_libsvm),
    Source("spam", "spam_drift_40k.svm", read_libsvm),
    Source("covtype", "covtype.csv", read_covtype),
)
#: The same rows in the units they came in: metres and degrees beside 0 and 1.
RAW_COVTYPE = Source("covtype raw", "covtype.csv", partial(read_covtype, scaled=False))
#: More sets of two classes.
MORE_BINARY = (
    RAW_COVTYPE,
    Source("elec", "elec.csv", partial(read_table, targets=binary)),
    Source("rcv1", "rcv1_small.dat", read_vw),
    Source("sms", "SMSSpamCollection.tsv", read_messages),
)
#: Targets are numbers.
NUMBERS = (
    Source("flights", "nycflights13_arrdelay.svm", partial(read_libsvm, targets=numbers)),
    Source("bike", "bike_hour.csv", partial(read_table, read=BIKE)),
    Source("casp", "casp_protein.csv", partial(read_table, read=CASP)),
)
#: Targets are classes.
MANY_CLASSES = (
    Source("news20", "news20_bydate.svm", partial(read_libsvm, targets=classes)),
    Source("sector", "sector.scale", partial(read_libsvm, targets=classes)),
    Source("covtype 7", "covtype.csv", partial(read_covtype, targets=classes)),
)


def load(folder: Path, cache: Path = CACHE, sources: tuple[Source, ...] = SOURCES) -> Iterator[Rows]:
    """Return every one of `sources` that is in `folder`."""
    for source in sources:
        path = find(folder, source.file)
        if path is not None:
            yield read(source, path, cache)


def find(folder: Path, name: str) -> Path | None:
    """Return the file of that name, or the one compressed as .xz, or None if the folder has neither."""
    return next((path for path in (folder / name, folder / f"{name}.xz") if path.exists()), None)


def open_text(path: Path) -> IO[str]:
    """Open a file, compressed or not."""
    return lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else open(path, encoding="utf-8")


def read(source: Source, path: Path, cache: Path = CACHE) -> Rows:
    """Return a data set from its file, or from the cache if that was made from the same file."""
    kept, origin = cache / f"{source.name}.npz", np.array([path.stat().st_size, path.stat().st_mtime_ns])
    if kept.exists():
        with np.load(kept) as arrays:
            if np.array_equal(arrays["origin"], origin):
                return Rows(source.name, int(arrays["d"]), *(arrays[k] for k in Rows._fields[2:]))
    with open_text(path) as file:
        rows = source.read(file)._replace(name=source.name)
    if source.shuffle:
        rows = rows.take(np.random.default_rng(1).permutation(rows.size))
    cache.mkdir(parents=True, exist_ok=True)
    part = cache / f"{source.name}.part.npz"
    np.savez(part, origin=origin, **dict(zip(Rows._fields[1:], rows[1:], strict=True)))
    part.replace(kept)
    return rows
