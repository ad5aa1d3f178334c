"""A made-up table: tickets of a help desk with text, dates and missing values, some of them escalated.

python examples/tickets.py FOLDER writes tickets.csv (40,000 rows) and later.csv (the 10,000 that came after them): the
data of `make demo`. Since the rows are made up, it is known what is true of them: the words, hours and products below
matter, and from the moment of a release on, one product is in trouble that was not before.
"""

from __future__ import annotations

import argparse
import csv
import datetime
from collections.abc import Iterator
from pathlib import Path

import numpy as np

HEADER = ("opened", "product", "plan", "country", "customer_days", "earlier_tickets", "message", "escalated")
#: What a part adds to the log odds of being escalated.
PRODUCTS = {"mail": 0.0, "calendar": -0.6, "billing": 1.2, "backup": 0.5, "phone app": 0.0, "web shop": -0.3}
PLANS = {"free": -0.8, "team": 0.2, "company": 1.0}
COUNTRIES = dict.fromkeys(("AT", "BR", "CA", "DE", "ES", "FR", "IN", "IT", "JP", "NO", "PL", "US"), 0.0)
WORDS = {
    "refund": 2.0,
    "charged": 1.2,
    "twice": 0.8,
    "lawyer": 2.5,
    "lost": 1.5,
    "urgent": 1.0,
    "again": 0.9,
    "crash": 0.7,
    "thanks": -1.2,
    "question": -1.0,
    "please": -0.3,
    "how": -0.8,
    "wish": -1.1,
    "maybe": -0.5,
    **dict.fromkeys(("the", "my", "since", "update", "screen", "login", "password", "invoice", "file", "button"), 0.0),
    **dict.fromkeys(("today", "team", "account", "works", "settings", "export", "slow", "email", "phone", "sync"), 0.0),
}
#: The release that broke something comes after this share of all rows.
RELEASE, BROKEN, TROUBLE = 0.6, "phone app", 1.5


def tickets(rows: int, seed: int = 7) -> Iterator[tuple[object, ...]]:
    """Rows in the order of time.

    >>> first = next(tickets(10))
    >>> dict(zip(HEADER, first, strict=True))["opened"].isoformat()
    '2025-01-06T00:13:00'
    """
    draw = np.random.default_rng(seed)
    time, words = datetime.datetime(2025, 1, 6), list(WORDS)
    common = 1.0 / np.arange(2.0, 2.0 + len(words))
    common = draw.permutation(common / common.sum())
    for k in range(rows):
        time += datetime.timedelta(minutes=int(draw.integers(1, 16)))
        product, plan, country = (str(draw.choice(list(some))) for some in (PRODUCTS, PLANS, COUNTRIES))
        days, earlier = float(draw.exponential(400.0)), int(draw.poisson(1.5))
        said = [words[i] for i in draw.choice(len(words), int(draw.integers(3, 12)), p=common)]
        odds = -2.2 + PRODUCTS[product] + PLANS[plan] + sum(WORDS[word] for word in said)
        odds += 0.25 * earlier - 0.0008 * days + (0.7 if time.weekday() >= 5 else 0.0)
        unknown = bool(draw.random() < 0.12)  # who is not a customer yet has no days
        odds += 0.6 * unknown + TROUBLE * (product == BROKEN and k >= RELEASE * rows)
        escalated = "yes" if draw.random() < 1.0 / (1.0 + np.exp(-odds)) else "no"
        shown = "" if unknown else round(days)
        yield time, product, plan, "" if draw.random() < 0.05 else country, shown, earlier, " ".join(said), escalated


def write(folder: Path, rows: int = 50_000, later: float = 0.2) -> list[Path]:
    """Write both files; the second has the last rows."""
    folder.mkdir(parents=True, exist_ok=True)
    paths, made = [folder / "tickets.csv", folder / "later.csv"], tickets(rows)
    for path, some in zip(paths, (rows - round(later * rows), round(later * rows)), strict=True):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            writer.writerows(next(made) for _ in range(some))
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Write the files, and say so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=50_000, help="in both files together [default: 50,000]")
    options = parser.parse_args(arguments)
    for path in write(options.folder, options.rows):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
