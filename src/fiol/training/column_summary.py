"""What became of the columns of a table: kind, examples, missing values and features, from the first rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fiol.features.column_kinds import COLUMN_KINDS
from fiol.features.column_names import column_and_value
from fiol.features.named_rows import NamedRows
from fiol.summary import columns as aligned

#: Characters of an example, and columns in a table of text.
LONGEST_EXAMPLE, COLUMNS_PRINTED = 20, 40


def summarize_columns(reading: Any, batches: Iterable[Any]) -> list[dict[str, Any]]:
    """Return name, kind, examples, share of missing values and number of features of every column.

    Parameters
    ----------
    reading : the `ReaderConfig`, with examples; columns of target, weight and tag are left out.
    batches : the first rows. Without names of features (hashed ones), shares and counts are left out.
    """
    aside = {reading.target, reading.weight, reading.tag}
    columns = [column for column in reading.table_encoding.columns if column.name not in aside]
    found = {column.name: new_summary(column, reading.examples.get(column.name, [])) for column in columns}
    rows, features = 0, dict[str, set[str]]()
    for batch in batches:
        rows += batch.rows
        if isinstance(batch.X, NamedRows):
            add_features(found, features, batch.X)
    for name, summary in found.items():
        if rows and features and not is_left_out(summary):
            summary["features"] = len(features.get(name, ()))
            summary["missing"] = summary.pop("_missing", 0) / rows
        summary.pop("_missing", None)
    return list(found.values())


def new_summary(column: Any, examples: Iterable[str]) -> dict[str, Any]:
    """Return the summary of a column of which no row was seen."""
    lines = [" ".join(text.split()) for text in examples]  # cells may have line breaks
    shown = [text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE]}..." for text in lines]
    return {"name": column.name, "kind": column.spec, "examples": shown, "missing": None, "features": None}


def add_features(found: dict[str, dict[str, Any]], features: dict[str, set[str]], rows: NamedRows) -> None:
    """Add the features of some rows to the summaries of their columns."""
    counts = np.bincount(rows.chunk.indices, minlength=len(rows.names))
    for k, name in enumerate(rows.names):
        column, value = column_and_value(str(name), found)
        if column is None:
            continue
        features.setdefault(column, set()).add(str(name))
        if value is None:
            found[column]["_missing"] = found[column].get("_missing", 0) + int(counts[k])


def count_features(summaries: Sequence[dict[str, Any]], model: Any) -> list[dict[str, Any]]:
    """Return summaries with the number of features of each column in a model, and whether it has a curve.

    The number includes the knots of the curve; it is None for columns that are left out.
    """
    names, levels = model.core.space.names, model.core.levels
    if names is None:
        return list(summaries)
    counts = dict.fromkeys((summary["name"] for summary in summaries if not is_left_out(summary)), 0)
    for name in names:
        column, _ = column_and_value(str(name), counts)
        if column is not None:
            counts[column] += 1
    if levels is not None and levels.basis is not None:
        roles = model.core.space.roles
        own, curved = roles.column[levels.basis.member].tolist(), set[str]()
        for first, hats in zip(own, levels.basis.hat_counts.tolist(), strict=True):
            column = roles.titles.get(first, str(names[first]))
            counts[column] = counts.get(column, 0) + hats
            curved |= {column} if hats else set()
        summaries = [{**summary, "curve": summary["name"] in curved} for summary in summaries]
    return [{**summary, "features": counts.get(summary["name"])} for summary in summaries]


def is_left_out(summary: dict[str, Any]) -> bool:
    """Return whether a column makes no features."""
    return COLUMN_KINDS[summary["kind"].partition(":")[0]].is_left_out


def count_columns(summaries: Sequence[dict[str, Any]]) -> str:
    """Return in words how many columns there are, and how many of them are left out.

    >>> count_columns([{"kind": "number"}, {"kind": "skip"}])
    '2 columns, 1 left out'
    """
    left_out = sum(is_left_out(summary) for summary in summaries)
    words = f"{len(summaries):,} column{'s' * (len(summaries) != 1)}"
    return f"{words}, {left_out:,} left out" if left_out else words


def column_rows(summaries: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a row of text for every column, the header first."""
    rows: list[tuple[str, ...]] = [("column", "kind", "missing", "features", "examples")]
    for summary in summaries:
        missing = "" if summary["missing"] is None else f"{summary['missing']:.1%}"
        features = "" if summary["features"] is None else f"{summary['features']:,}"
        kind = f"{summary['kind']} + curve" if summary.get("curve") else summary["kind"]
        rows.append((summary["name"], kind, missing, features, ", ".join(summary["examples"])))
    return rows


def column_lines(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table of columns as lines of text.

    >>> one = {"name": "age", "kind": "number", "examples": ["30", "41"], "missing": 0.25, "features": 2}
    >>> print("\\n".join(column_lines([one])))
      column  kind    missing  features  examples
      age     number    25.0%         2  30, 41
    """
    titles, *cells = column_rows(summaries[:COLUMNS_PRINTED])
    known = tuple(title if any(row[k] for row in cells) else "" for k, title in enumerate(titles))
    lines = aligned([known, *cells], "<>><")
    return lines + [f"  ... and {len(summaries) - COLUMNS_PRINTED:,} more"] * (len(summaries) > COLUMNS_PRINTED)
