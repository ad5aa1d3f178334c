"""A file that is read in chunks: `partial_fit`, with a class that appears later.

python examples/out_of_core.py [--quick]

However the file is cut, the model is the same to the bit, and the same as one that reads it as a whole.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fiol import FIOLClassifier

SPECIES = np.array(["ant", "bee", "cricket"])


def write_file(path: Path, rows: int, d: int = 8) -> None:
    """Measurements of insects, in units of very different size; crickets arrive in the second half."""
    rng = np.random.default_rng(0)
    centers, units = rng.standard_normal((len(SPECIES), d)), np.logspace(-3, 3, d)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{i}" for i in range(d)), "species"])
        for k in range(rows):
            code = rng.integers(2 if k < rows // 2 else 3)
            writer.writerow([*((centers[code] + rng.standard_normal(d)) * units).tolist(), SPECIES[code]])


def read_chunks(path: Path, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the file in chunks of rows; only one chunk is in memory."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        next(reader)
        X: list[list[float]] = []
        y: list[str] = []
        for *values, species in reader:
            X.append([float(value) for value in values])
            y.append(species)
            if len(y) == size:
                yield np.array(X), np.array(y)
                X, y = [], []
        if y:
            yield np.array(X), np.array(y)


def learn(path: Path, size: int, show: bool) -> tuple[FIOLClassifier, list[float]]:
    """Learn from chunks; how many of each were right before they were learned from."""
    model, right = FIOLClassifier(), []
    for k, (X, y) in enumerate(read_chunks(path, size)):
        if k > 0:
            right.append(float(np.mean(model.predict(X) == y)))
        model.partial_fit(X, y)
        if show and k > 0:
            print(f"  {k * size:>8,}{right[-1]:>8.1%}   {', '.join(model.classes_)}")
    return model, right


def main(arguments: Sequence[str] | None = None) -> tuple[list[float], bool]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short file")
    rows = 400 if parser.parse_args(arguments).quick else 40_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "insects.csv"
        write_file(path, rows)
        print(
            f"{rows:,} rows in chunks of {rows // 10:,}; right before learning from a chunk, and classes known then:\n"
        )
        model, right = learn(path, rows // 10, show=True)
        other, _ = learn(path, rows // 7, show=False)
    same = np.array_equal(model.coef_, other.coef_) and np.array_equal(model.intercept_, other.intercept_)
    print(f"\nChunks of {rows // 7:,} instead: the same weights to the bit: {same}")
    return right, same


if __name__ == "__main__":
    main()
