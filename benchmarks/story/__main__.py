"""All benchmarks in one run: python -m benchmarks.story [--data DIR] [--quick] [--folder DIR] [--page FILE]

Writes FOLDER/story.json (machine, date, versions, command, all numbers) and FOLDER/benchmarks.md, the page; `--page`
writes the page to another file, too. Without `--data` the rows are made up. `--quick` takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.data import Rows, Source, text_like
from benchmarks.report import header, progress
from benchmarks.story import costs
from benchmarks.story.contests import BINARY, NUMBERS, contest
from benchmarks.story.page import render

#: Sets of two classes and of numbers, by name.
SETS = ("a9a", "w8a", "elec", "sms", "reuters", "spam", "bike", "casp", "flights")
#: Rows of a set that are used: scikit-learn takes milliseconds for a row of many features.
MOST_ROWS, MOST_ROWS_OF_TEXT, MANY_FEATURES = 8_000, 2_000, 1_000


def first_rows(rows: Rows, most: int = MOST_ROWS) -> Rows:
    """Return the first rows of a set."""
    limit = MOST_ROWS_OF_TEXT if rows.d > MANY_FEATURES else most
    return rows.take(np.arange(min(rows.size, limit)))


def made_up_table(rows: int, seed: int = 0) -> Rows:
    """Return a table with columns of six scales, one of which matters by its square, and numbers as targets."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((rows, 6))
    y = x[:, 0] - 2.0 * x[:, 1] + x[:, 2] ** 2 + 0.5 * draw.standard_normal(rows)
    return data.from_array(x * np.logspace(-2, 3, 6), y)._replace(name="made-up table")


class Sizes(NamedTuple):
    """How much is measured."""

    made_up: int  #: rows of made-up sets
    largest: int  #: rows of a public set
    text: int  #: rows of the text that times and memory are measured on
    events: int
    growth: int  #: rows of the longest stream
    step_sizes: int
    turns: int
    shuffles: int


FULL = Sizes(5_000, MOST_ROWS, 20_000, 5_000, 128_000, 13, 5, 2)
QUICK = Sizes(600, 1_000, 2_000, 500, 8_000, 5, 1, 1)


def sets_in(folder: Path | None, sizes: Sizes) -> tuple[list[Rows], list[Rows]]:
    """Return the sets of two classes, and those of numbers."""
    if folder is None:
        n = sizes.made_up
        return [text_like(n, 2_000, 30)._replace(name="made-up text")], [made_up_table(n)]

    def named(sources: Sequence[Source]) -> list[Rows]:
        chosen = tuple(source for source in sources if source.name in SETS)
        return [first_rows(rows, sizes.largest) for rows in data.load(folder, sources=chosen)]

    return named((*data.SOURCES, *data.MORE_BINARY)), named(data.NUMBERS)


def measure(folder: Path | None, sizes: Sizes) -> dict[str, Any]:
    """Return the numbers of all sections."""
    binary, numbers = sets_in(folder, sizes)
    text = text_like(sizes.text, 47_000)
    found: dict[str, Any] = {"contests": []}
    for rows, kind in [*((rows, BINARY) for rows in binary), *((rows, NUMBERS) for rows in numbers)]:
        found["contests"].append(contest(rows, kind, sizes.shuffles if rows.d <= MANY_FEATURES else 0, progress))
    sections: dict[str, Callable[[], Any]] = {
        "trees": lambda: [costs.trees(rows) for rows in numbers if rows.d <= MANY_FEATURES],
        "speed": lambda: costs.speed(text, sizes.turns),
        "events": lambda: costs.events(sizes.events, sizes.turns),
        "robustness": lambda: [costs.robustness(rows, sizes.step_sizes) for rows in binary],
        "sparsity": lambda: [costs.sparsity(rows) for rows in binary if rows.d > 200],
        "memory": lambda: costs.memory(text),
        "growth": lambda: costs.growth(sizes.growth),
    }
    for title, section in sections.items():
        progress(title)
        found[title] = section()
    progress("")
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.story", description=(__doc__ or "").partition(":")[0])
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="a folder of public data sets (see benchmarks/data.py)"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where to write [build/bench]")
    parser.add_argument("--page", type=Path, help="write the page to this file, too")
    parser.add_argument("--from", dest="old", type=Path, metavar="JSON", help="make the page of an earlier run anew")
    parser.add_argument("--quick", action="store_true", help="few rows: shows that everything runs")
    options = parser.parse_args(arguments)
    if options.old is not None:
        found = json.loads(options.old.read_text(encoding="utf-8"))
    else:
        head = header("benchmarks.story", arguments, options.quick, ("scikit-learn", "river", "vowpalwabbit"))
        head["command"] = (
            "make bench" + (" DATA=FOLDER" if options.data else "") + (" OPTIONS=--quick" if options.quick else "")
        )
        found = {**head, **measure(options.data, QUICK if options.quick else FULL)}
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / "story.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    page = render(found)
    for path in [options.folder / "benchmarks.md", *([options.page] if options.page else [])]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
        print(f"The page is {path}")


if __name__ == "__main__":
    main()
