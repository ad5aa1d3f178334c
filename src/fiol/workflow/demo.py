"""A made-up table for `fiol demo`: tickets of a help desk with text, dates and missing values, some of them escalated.

`write_tickets` writes tickets.csv (40,000 rows) and later.csv (the 10,000 that came after them). The rows are made up,
so the truth about them is known: the words, products and plans below matter, and from the moment of a release on,
one product causes trouble that it did not cause before.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fiol.workflow.files import atomic_write

#: The files that `write_tickets` writes.
FILES = ("tickets.csv", "later.csv")
TICKET_COLUMNS = ("opened", "product", "plan", "country", "customer_days", "earlier_tickets", "message", "escalated")
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
    """Yield rows in the order of time.

    >>> first = next(tickets(10))
    >>> dict(zip(TICKET_COLUMNS, first, strict=True))["opened"].isoformat()
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
        unknown = bool(draw.random() < 0.12)  # not a customer yet
        odds += 0.6 * unknown + TROUBLE * (product == BROKEN and k >= RELEASE * rows)
        escalated = "yes" if draw.random() < 1.0 / (1.0 + np.exp(-odds)) else "no"
        shown = "" if unknown else round(days)
        yield time, product, plan, "" if draw.random() < 0.05 else country, shown, earlier, " ".join(said), escalated


def write_tickets(folder: Path, rows: int = 50_000, later: float = 0.2) -> list[Path]:
    """Write tickets.csv and later.csv, which has the last share `later` of the rows; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths, made = [folder / name for name in FILES], tickets(rows)
    for path, some in zip(paths, (rows - round(later * rows), round(later * rows)), strict=True):
        with atomic_write(str(path)) as file:
            writer = csv.writer(file)
            writer.writerow(TICKET_COLUMNS)
            writer.writerows(next(made) for _ in range(some))
    return paths
