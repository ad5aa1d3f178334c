"""A model as SQL: one SELECT that gives the score of every row of a table.

Every column of the coding is a column of the table, by its name:

| kind | in SQL |
|---|---|
| `number`, `numeric_text` | weight times value (of texts, cast); NULL, for texts also '' and 'nan', is "is missing" |
| `category` | CASE: the weight of the value, 0 for values never seen; NULL is "is missing" |
| `date`, `time` | parts, by STRFTIME (dialect "sqlite": ISO texts, to the second) or EXTRACT ("postgresql") |
| `words`, `tags` | nothing: SQL has no common way to take texts and lists apart; export such models to Python |

Models of numbered features have columns `f0`, `f1`, ... (`column` says how they are called), where NULL is 0; models of
frames of plain numbers those of the frames, where NULL makes the score NULL. Names of features (dicts, Vowpal Wabbit's
text) and hashes are no columns.

Names are quoted as identifiers, quotes in them doubled, and texts alike, as standard SQL has it (MySQL: with
ANSI_QUOTES and NO_BACKSLASH_ESCAPES). Sums are nested as flat as they can be, for SQLite takes expressions of depth
1,000. Weights have all their digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fiol.exports.linear import ExportedModel, NoExportError, joint_labels, linear_model
from fiol.features.interactions import TIMES, belongs_to
from fiol.features.table_encoding import DATED, WEEKDAYS, Column
from fiol.readers.writing import number_text

#: The dialects there are: "standard" has no parts of dates.
DIALECTS = ("standard", "sqlite", "postgresql")
#: The day from which days are counted, as SQLite counts them.
JULIAN_2000 = "2451544.5"


class Atom(NamedTuple):
    """A feature of one column: the column's group, an SQL condition under which it is there, and its value."""

    group: str
    condition: str | None  #: None if it is always there
    value: str  #: an SQL expression, "1.0" for a feature that is there or not


def sql_scores(
    learner: Any, table: str = "data", column: str = "f{}", output: str = "score", dialect: str = "standard"
) -> str:
    """SELECT with the score of every row of a table, or a column of scores per class, and nothing else.

    Parameters
    ----------
    table : the name of the table, which is quoted.
    column : what the columns of numbered features are called, {} being the number, from 0.
    output : what the score is called; with several classes, `score of apple`, and so on.
    dialect : how parts of dates are told: "sqlite" or "postgresql"; "standard" has none.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), n_features=2, compiled=False)
    >>> learner.start_from([0.5, -2.0], intercept=1.0)
    >>> print(sql_scores(learner, "people", "x{}"))
    SELECT
      ((1.0 + (0.5 * COALESCE("x0", 0.0))) + (-2.0 * COALESCE("x1", 0.0))) AS "score"
    FROM "people"
    <BLANKLINE>
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}")
    model = linear_model(learner)
    columns = []
    for k in range(len(model.intercepts)):
        called = f"{output} of {joint_labels(model)[k]}" if model.joint else output
        columns.append(f"  {score_expression(model, k, column, dialect)} AS {identifier(called)}")
    return "SELECT\n" + ",\n".join(columns) + f"\nFROM {identifier(table)}\n"


def score_expression(model: ExportedModel, k: int = 0, column: str = "f{}", dialect: str = "standard") -> str:
    """Score k of a row as an SQL expression."""
    if model.hashing is not None:
        raise NoExportError("SQL has no such hash of names: train without --bits, or export to python")
    weights = {name: own[k] for name, own in model.entries() if own[k] != 0.0}
    if model.coding is not None:
        terms = coded_terms(model, weights, dialect)
    elif model.names is None:
        terms = (f"({literal(w)} * COALESCE({identifier(column.format(i))}, 0.0))" for i, w in weights.items())
    elif model.plain_columns:
        terms = (f"({literal(w)} * {identifier(str(name))})" for name, w in weights.items())
    else:
        raise NoExportError("features that have names, and no columns, are in no table: export to python, json or vw")
    return added([literal(float(model.intercepts[k])), *terms])


# --- features of columns ----------------------------------------------------------------------


def coded_terms(model: ExportedModel, weights: dict[Any, float], dialect: str) -> Iterator[str]:
    """What every column, and every product, adds to the score."""
    assert model.coding is not None
    for column in model.coding.columns:
        if column.kind in ("words", "tags"):
            raise NoExportError(
                f"column {column.name!r} is taken apart into {column.kind}, for which SQL has no common way: "
                "export to python, or leave the column out"
            )
        yield from column_terms(column, weights, dialect)
    for pair in model.coding.pairs:
        yield from product_terms(model.coding.columns, pair, weights, dialect)


def column_terms(column: Column, weights: dict[Any, float], dialect: str) -> Iterator[str]:
    """What a column adds to the score: a number, a choice by its value, or both for the parts of a date."""
    name, missing = identifier(column.name), weights.get(f"{column.name} is missing", 0.0)
    if column.kind in ("number", "numeric_text"):
        value, absent = number_value(column)
        own = weights.get(column.name, 0.0)
        if own or missing:
            yield f"(CASE WHEN {absent} THEN {literal(missing)} ELSE {literal(own)} * {value} END)"
    elif column.kind == "category":
        found = dict(values_behind(f"{column.name}=", weights))
        if found or missing:
            yield f"(CASE WHEN {name} IS NULL THEN {literal(missing)} ELSE {choice(name, found)} END)"
    elif column.kind in DATED:
        absent = date_absent(column, dialect)
        if missing:
            yield f"(CASE WHEN {absent} THEN {literal(missing)} ELSE 0.0 END)"
        if "days" in column.parts and weights.get(column.name):
            days = f"{literal(weights[column.name])} * {days_value(column, dialect)}"
            yield f"(CASE WHEN {absent} THEN 0.0 ELSE {days} END)"
        for part in column.parts:
            found = {text: w for text, w in values_behind(f"{column.name}.{part}=", weights) if part_code(part, text)}
            if part != "days" and found:
                coded = {part_code(part, text) or "": w for text, w in found.items()}
                chosen = choice(part_value(column, part, dialect), coded, quoted=False)
                yield f"(CASE WHEN {absent} THEN 0.0 ELSE {chosen} END)"


def values_behind(before: str, weights: dict[Any, float]) -> Iterator[tuple[str, float]]:
    """What stands behind the first part of names, and their weights."""
    for name, weight in weights.items():
        if isinstance(name, str) and name.startswith(before):
            yield name[len(before) :], weight


def choice(value: str, weights: dict[str, float], quoted: bool = True) -> str:
    """The weight of a value; 0 for all others."""
    if not weights:
        return "0.0"
    cases = (f" WHEN {text(known) if quoted else known} THEN {literal(w)}" for known, w in weights.items())
    return f"CASE {value}{''.join(cases)} ELSE 0.0 END"


def number_value(column: Column) -> tuple[str, str]:
    """The value of a column of numbers, or of texts that are numbers; and when it is missing."""
    name = identifier(column.name)
    if column.kind == "number":
        return name, f"{name} IS NULL"
    absent = f"{name} IS NULL OR LOWER(TRIM({name})) IN ('', 'nan')"
    return f"CAST(TRIM({name}) AS DOUBLE PRECISION)", absent


# --- dates ------------------------------------------------------------------------------------


def date_absent(column: Column, dialect: str) -> str:
    """When a date is missing."""
    name = identifier(column.name)
    if dialect == "standard":
        raise NoExportError(f"column {column.name!r} is a date, whose parts need a dialect: sqlite or postgresql")
    return f"{name} IS NULL OR TRIM({name}) = ''" if dialect == "sqlite" else f"{name} IS NULL"


def clock_text(column: Column) -> str:
    """An ISO text in SQLite without its fraction and its zone; a time of day has an hour of two digits."""
    trimmed = f"TRIM({identifier(column.name)})"
    if column.kind == "time":
        return f"SUBSTR('0' || {trimmed}, CASE WHEN SUBSTR({trimmed}, 2, 1) = ':' THEN 1 ELSE 2 END, 8)"
    return f"SUBSTR({trimmed}, 1, 19)"


def days_value(column: Column, dialect: str) -> str:
    """Days since 2000; the share of the day of a time."""
    if column.kind == "time" and dialect == "postgresql":
        return f"(EXTRACT(EPOCH FROM CAST({identifier(column.name)} AS TIME)) / 86400.0)"
    if dialect == "sqlite":
        # JULIANDAY of a whole day is exact; seconds are added by themselves
        day, clock = f"JULIANDAY(SUBSTR(TRIM({identifier(column.name)}), 1, 10))", clock_text(column)
        seconds = f"(STRFTIME('%H', {clock}) * 3600 + STRFTIME('%M', {clock}) * 60 + STRFTIME('%S', {clock}))"
        return f"({seconds} / 86400.0)" if column.kind == "time" else f"({day} - {JULIAN_2000} + {seconds} / 86400.0)"
    name = identifier(column.name)
    return f"(EXTRACT(EPOCH FROM CAST({name} AS TIMESTAMP) - TIMESTAMP '2000-01-01') / 86400.0)"


def part_value(column: Column, part: str, dialect: str) -> str:
    """A part of a date as a whole number; weekdays from 0 for Sunday."""
    if dialect == "sqlite":
        code = {"month": "%m", "weekday": "%w", "hour": "%H"}[part]
        return f"CAST(STRFTIME('{code}', {clock_text(column)}) AS INTEGER)"
    field = {"month": "MONTH", "weekday": "DOW", "hour": "HOUR"}[part]
    return (
        f"EXTRACT({field} FROM CAST({identifier(column.name)} AS {'TIME' if column.kind == 'time' else 'TIMESTAMP'}))"
    )


def part_code(part: str, told: str) -> str | None:
    """The number of a part by its name in features; None if there is no such part.

    >>> part_code("weekday", "Sun"), part_code("month", "3"), part_code("hour", "x")
    ('0', '3', None)
    """
    if part == "weekday":
        return str((WEEKDAYS.index(told) + 1) % 7) if told in WEEKDAYS else None
    return told if told.isascii() and told.isdigit() else None


# --- products ---------------------------------------------------------------------------------


def product_terms(
    columns: Sequence[Column], pair: tuple[str, ...], weights: dict[Any, float], dialect: str
) -> Iterator[str]:
    """What the features of a pair, or triple, add: for every name that is one, in every way in which it is one."""
    for name, weight in weights.items():
        if not isinstance(name, str) or name.count(TIMES) < len(pair) - 1:
            continue
        pieces = name.split(TIMES)
        for cuts in itertools.combinations(range(1, len(pieces)), len(pair) - 1):
            factors = [TIMES.join(pieces[a:b]) for a, b in itertools.pairwise([0, *cuts, len(pieces)])]
            if not in_their_order(factors, pair):
                continue
            told = zip(factors, pair, strict=True)
            ways = [list(atoms(columns, factor, element, dialect)) for factor, element in told]
            for way in itertools.product(*ways):
                yield product_term(weight, way)


def in_their_order(factors: list[str], pair: tuple[str, ...]) -> bool:
    """Whether the factors of one group stand in alphabetical order, as names of products have them.

    >>> in_their_order(["b", "x", "a"], ("words", "age", "words"))
    False
    """
    for element in set(pair):
        own = [factor for factor, other in zip(factors, pair, strict=True) if other == element]
        if own != sorted(own):
            return False
    return True


def atoms(columns: Sequence[Column], name: str, element: str, dialect: str) -> Iterator[Atom]:
    """The features of columns, among those that an element of a pair means, that are called so."""
    for column in columns:
        for atom in column_atoms(column, name, dialect):
            if belongs_to(atom.group, element):
                yield atom


def column_atoms(column: Column, name: str, dialect: str) -> Iterator[Atom]:
    """The features of a column that are called so."""
    if column.kind == "skip":
        return
    own, before = identifier(column.name), f"{column.name}="
    if column.kind in ("number", "numeric_text"):
        value, absent = number_value(column)
        if name == column.name:
            yield Atom(column.name, f"NOT ({absent})", value)
    else:
        absent = date_absent(column, dialect) if column.kind in DATED else f"{own} IS NULL"
    if name == f"{column.name} is missing":
        yield Atom(column.name, f"({absent})", "1.0")
    if column.kind == "category" and name.startswith(before):
        yield Atom(column.name, f"{own} = {text(name[len(before) :])}", "1.0")
    if column.kind in DATED:
        if name == column.name and "days" in column.parts:
            yield Atom(column.name, f"NOT ({absent})", days_value(column, dialect))
        for part in column.parts:
            told = name[len(f"{column.name}.{part}=") :] if name.startswith(f"{column.name}.{part}=") else ""
            code = part_code(part, told) if part != "days" else None
            if code is not None:
                yield Atom(
                    f"{column.name}.{part}", f"NOT ({absent}) AND {part_value(column, part, dialect)} = {code}", "1.0"
                )


def product_term(weight: float, factors: tuple[Atom, ...]) -> str:
    """The weight times all factors, where all are there."""
    conditions = " AND ".join(dict.fromkeys(factor.condition for factor in factors if factor.condition is not None))
    value = " * ".join([literal(weight), *(factor.value for factor in factors if factor.value != "1.0")])
    return f"(CASE WHEN {conditions} THEN {value} ELSE 0.0 END)"


# --- words of SQL -----------------------------------------------------------------------------


def identifier(name: str) -> str:
    """A quoted name.

    >>> print(identifier('a "b" c'))
    "a ""b"" c"
    """
    if not name or "\0" in name:
        raise NoExportError(f"SQL has no name {name!r}")
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A quoted text.

    >>> text("it's")
    "'it''s'"
    """
    if "\0" in value:
        raise NoExportError(f"SQL has no text {value!r}")
    return "'" + value.replace("'", "''") + "'"


def literal(value: float) -> str:
    """A number with all its digits, as a floating one.

    >>> literal(2.0), literal(-0.1), literal(1e-300)
    ('2.0', '-0.1', '1e-300')
    """
    found = number_text(value)
    return found if "." in found or "e" in found else f"{found}.0"


def added(terms: list[str]) -> str:
    """The sum of terms, nested as flat as it can be.

    >>> added(["a", "b", "c"])
    '((a + b) + c)'
    """
    while len(terms) > 1:
        pairs = [f"({a} + {b})" for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
    return terms[0]
