"""Models as SQL: one SELECT with the score of every row of a table.

Every column of the table encoding is a column of the table, by its name:

| kind | in SQL |
|---|---|
| `number`, `numeric_text` | weight times value (text is cast); NULL, NaN, and blank text or 'nan' are missing |
| `category` | CASE: the weight of the value, 0 for values never seen; NULL is missing |
| `date`, `time` | an inner SELECT makes ISO text of it (`fiol.exports.sql_dates`); any other text is missing |
| `words`, `tags` | not exported: SQL has no common way to split text and lists; export such models to Python |

Models of numbered features have columns `f0`, `f1`, ... (option `column`), where NULL is 0; models of frames of plain
numbers have the columns of the frames, where NULL makes the score NULL. Named features (dicts, Vowpal Wabbit's text)
and hashes are no columns.

Names are quoted as identifiers with quotes doubled, and so is text, as standard SQL demands (MySQL: with ANSI_QUOTES
and NO_BACKSLASH_ESCAPES). Sums are nested as flat as possible, because SQLite takes expressions up to depth 1,000.
Weights have all their digits. What differs between databases is in `fiol.exports.dialects`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fiol.exports.basis import ExportedSlot
from fiol.exports.dialects import DIALECTS
from fiol.exports.dialects.standard import Dialect, identifier, number_literal, text_literal
from fiol.exports.linear import ExportedModel, NoExportError, linear_model
from fiol.exports.sql_basis import SlotSource, basis_terms, inner_select
from fiol.exports.sql_dates import moment_name, select_moments
from fiol.features.cell_rules import MISSING_MARKERS
from fiol.features.column_kinds import PART_VALUES
from fiol.features.column_values import NUMERIC_TEXT
from fiol.features.interactions import belongs_to
from fiol.features.product_names import TIMES
from fiol.features.table_encoding import Column
from fiol.option_names import option_text


class Atom(NamedTuple):
    """A feature of one column: its group, the SQL condition under which a row has it, and its SQL value."""

    group: str
    condition: str
    value: str  #: "1.0" for a feature that is there or not


def sql_scores(model: Any, table: str = "data", column: str = "f{}", dialect: str = "standard") -> str:
    """Return a SELECT with the score of every row of a table, or a column of scores per class, and nothing else.

    The parameters are those of `fiol.exportable.Exportable.to_sql`.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), n_features=1, compiled=False)
    >>> learner.start_from([0.5])
    >>> print(sql_scores(learner))
    SELECT
      (0.0e0 + (0.5e0 * COALESCE("f0", 0.0e0))) AS "score"
    FROM "data"
    <BLANKLINE>
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}")
    linear = linear_model(model)
    if not len(linear.intercepts):
        raise NoExportError("a model without classes has no scores: learn first")
    if linear.kind == "numbers" and "{}" not in column and linear.weights.shape[1] > 1:
        raise ValueError(f"column must have {{}} where the number of a feature is, as in 'f{{}}', got {column!r}")
    columns = [
        f"  {score_expression(linear, k, column, DIALECTS[dialect])} AS {identifier(linear.score_name(k))}"
        for k in range(len(linear.intercepts))
    ]
    rows, own = identifier(table), DIALECTS[dialect]
    if linear.table_encoding is not None:
        rows = select_moments(linear.table_encoding.columns, rows, own)
    if linear.basis is not None:
        rows = inner_select(linear.basis, lambda slot: slot_source(linear, slot, column, own), rows, own)
    if rows != identifier(table):
        refuse_lost_columns(linear, own)
    return "SELECT\n" + ",\n".join(columns) + f"\nFROM {rows}\n"


def refuse_lost_columns(model: ExportedModel, dialect: Dialect) -> None:
    """Raise NoExportError for a column that an inner SELECT of the database renames."""
    encoding = model.table_encoding
    columns = model.names or () if encoding is None else [one.name for one in encoding.columns if not one.is_left_out]
    lost = next((name for name in map(str, columns) if name.lower() in dialect.lost_columns), None)
    if lost is not None:
        raise NoExportError(
            f"an inner SELECT of the database loses the column {lost!r}: rename it, or export to python"
        )


def score_expression(model: ExportedModel, k: int, column: str, dialect: Dialect) -> str:
    """Return score k of a row as an SQL expression."""
    if model.hashing is not None:
        raise NoExportError(f"SQL cannot hash names: train without {option_text('bits')}, or export to python")
    weights = {name: own[k] for name, own in model.entries() if own[k] != 0.0}
    if model.table_encoding is not None:
        terms = coded_terms(model, weights, dialect)
    elif model.names is None:
        names = {i: identifier(column.replace("{}", str(i))) for i in weights}
        terms = (f"({number_literal(w)} * COALESCE({names[i]}, 0.0e0))" for i, w in weights.items())
    elif model.plain_columns:
        terms = (f"({number_literal(w)} * {identifier(str(name))})" for name, w in weights.items())
    else:
        raise NoExportError("named features that are no columns are in no table: export to python or json")
    more = () if model.basis is None else basis_terms(model.basis, k)
    return balanced_sum([number_literal(float(model.intercepts[k])), *terms, *more])


def slot_source(model: ExportedModel, slot: ExportedSlot, column: str, dialect: Dialect) -> SlotSource:
    """Return the number of a column with knots, or conditions of its categories, as SQL expressions."""
    if model.table_encoding is None:
        if model.names is None:
            value = f"COALESCE({identifier(column.replace('{}', str(slot.number)))}, 0.0e0)"
        else:
            value = identifier(str(slot.number))
        return SlotSource(value, "", [])
    features = [*slot.codes, *([] if slot.number is None else [slot.number])]
    found = {name: atom for name in features for one in model.table_encoding.columns if not one.is_left_out
             for atom in column_atoms(one, str(name), dialect)}  # fmt: skip
    codes = [(found[name].condition, code) for name, code in slot.codes.items() if name in found]
    if slot.number is None:
        return SlotSource("", "", codes)
    own = next(one for one in model.table_encoding.columns if one.name == slot.number)
    return SlotSource(found[slot.number].value, missing_condition(own, dialect), [])


# --- features of columns ----------------------------------------------------------------------


def coded_terms(model: ExportedModel, weights: dict[Any, float], dialect: Dialect) -> Iterator[str]:
    """Yield the terms of all columns and of all interactions."""
    assert model.table_encoding is not None
    if model.table_encoding.missing is not None:
        raise NoExportError("SQL knows the default missing markers alone: export to python")
    for column in model.table_encoding.columns:
        if column.rules.has_several:
            raise NoExportError(
                f"column {column.name!r} is split into {column.kind}, for which SQL has no common way: "
                "export to python, or leave the column out"
            )
        yield from column_terms(column, weights, dialect)
    for pair in model.table_encoding.pairs:
        yield from product_terms(model.table_encoding.columns, pair, weights, dialect)


def column_terms(column: Column, weights: dict[Any, float], dialect: Dialect) -> Iterator[str]:
    """Yield the terms of one column: a number, a choice by its value, or both for the parts of a date."""
    if column.is_left_out:
        return
    missing = weights.get(column.missing_feature, 0.0)
    is_missing = missing_condition(column, dialect)
    if column.rules.is_number:
        own = weights.get(column.name, 0.0)
        if own or missing:
            value = f"{number_literal(own)} * {number_value(column, dialect)}"
            yield f"(CASE WHEN {is_missing} THEN {number_literal(missing)} ELSE {value} END)"
    elif column.kind in ("category", "undecided"):
        found = dict(rest_of_names(f"{column.name}=", weights))
        if found or missing:
            chosen = category_choice(column, found, dialect)
            yield f"(CASE WHEN {is_missing} THEN {number_literal(missing)} ELSE {chosen} END)"
    else:
        moment = moment_name(column)
        if missing:
            yield f"(CASE WHEN {is_missing} THEN {number_literal(missing)} ELSE 0.0e0 END)"
        if "days" in column.parts and weights.get(column.name):
            days = f"{number_literal(weights[column.name])} * {dialect.days(moment)}"
            yield f"(CASE WHEN {is_missing} THEN 0.0e0 ELSE {days} END)"
        for part in column.parts:
            codes = ((part_code(part, text), w) for text, w in rest_of_names(f"{column.name}.{part}=", weights))
            found = {code: w for code, w in codes if code is not None}
            if found:
                chosen = choice(dialect.date_part(moment, part), found)
                yield f"(CASE WHEN {is_missing} THEN 0.0e0 ELSE {chosen} END)"


def rest_of_names(prefix: str, weights: dict[Any, float]) -> Iterator[tuple[str, float]]:
    """Yield the rest of every name that begins with a prefix, and its weight."""
    for name, weight in weights.items():
        if isinstance(name, str) and name.startswith(prefix):
            yield name[len(prefix) :], weight


def choice(value: str, weights: dict[str, float]) -> str:
    """Return the weight of a value, by SQL literals; 0 for all others."""
    if not weights:
        return "0.0e0"
    cases = (f" WHEN {literal} THEN {number_literal(w)}" for literal, w in weights.items())
    return f"CASE {value}{''.join(cases)} ELSE 0.0e0 END"


def category_choice(column: Column, weights: dict[str, float], dialect: Dialect) -> str:
    """Return the weight of a category; 0 for all others."""
    by_value: dict[str, dict[str, float]] = {}
    for text, weight in weights.items():
        by_value.setdefault(category_value(column, text, dialect), {})[text_literal(text)] = weight
    return " + ".join(choice(value, found) for value, found in by_value.items()) or "0.0e0"


def category_value(column: Column, text: str, dialect: Dialect) -> str:
    """Return what is compared with a category: the column where that is a number, which then may be one, else its text.

    Names of interactions, such as `zip=7*city=Rome`, could be those of a category, and are no literals of a number.
    """
    name = identifier(column.name)
    return name if NUMERIC_TEXT.fullmatch(text) and text.isascii() else dialect.text(name)


def missing_condition(column: Column, dialect: Dialect) -> str:
    """Return the condition that the value of a column is missing."""
    name = identifier(column.name)
    if column.kind == "number":
        return dialect.number_is_missing(name)
    if column.kind == "category":
        return f"COALESCE({dialect.text(name)}, '') = ''"
    if column.kind in ("numeric_text", "undecided"):
        return marked(name, dialect)
    dialect.day(name)  # raises for a dialect without dates
    return f"{moment_name(column)} IS NULL"


def marked(name: str, dialect: Dialect) -> str:
    """Return the condition that a text is NULL or a missing marker."""
    return f"COALESCE(LOWER({dialect.trimmed(name)}), '') IN ({', '.join(map(text_literal, MISSING_MARKERS))})"


def number_value(column: Column, dialect: Dialect) -> str:
    """Return the value of a column of numbers, or of text that is numbers."""
    name = identifier(column.name)
    return dialect.number(name) if column.kind == "number" else dialect.number_of_text(dialect.text_or_null(name))


def part_code(part: str, text: str) -> str | None:
    """Return the number of a part of a date by its name in features; None if there is no such part.

    >>> part_code("weekday", "Sun"), part_code("month", "3"), part_code("hour", "x")
    ('0', '3', None)
    """
    values = PART_VALUES.get(part, ())
    if text not in values:
        return None
    return str((values.index(text) + 1) % 7) if part == "weekday" else text


# --- interactions -----------------------------------------------------------------------------


def product_terms(
    columns: Sequence[Column], pair: tuple[str, ...], weights: dict[Any, float], dialect: Dialect
) -> Iterator[str]:
    """Yield the terms of a pair or triple: for every name of a product, each way to split it into factors."""
    for name, weight in weights.items():
        if not isinstance(name, str) or name.count(TIMES) < len(pair) - 1:
            continue
        pieces = name.split(TIMES)
        for cuts in itertools.combinations(range(1, len(pieces)), len(pair) - 1):
            factors = [TIMES.join(pieces[a:b]) for a, b in itertools.pairwise([0, *cuts, len(pieces)])]
            if not are_sorted(factors, pair):
                continue
            matches = zip(factors, pair, strict=True)
            atoms = [list(atoms_called(columns, factor, element, dialect)) for factor, element in matches]
            for chosen in itertools.product(*atoms):
                yield product_term(weight, chosen)


def are_sorted(factors: list[str], pair: tuple[str, ...]) -> bool:
    """Return whether the factors of one group are in alphabetical order, as in the names of products.

    >>> are_sorted(["b", "x", "a"], ("words", "age", "words"))
    False
    """
    for element in set(pair):
        own = [factor for factor, other in zip(factors, pair, strict=True) if other == element]
        if own != sorted(own):
            return False
    return True


def atoms_called(columns: Sequence[Column], name: str, element: str, dialect: Dialect) -> Iterator[Atom]:
    """Yield the features with a name, of those columns and parts that an element of a pair names."""
    for column in columns:
        for atom in column_atoms(column, name, dialect) if not column.is_left_out else ():
            if belongs_to(atom.group, element):
                yield atom


def column_atoms(column: Column, name: str, dialect: Dialect) -> Iterator[Atom]:
    """Yield the features of a column that have a name."""
    before = column.prefix
    is_missing = missing_condition(column, dialect)
    present = f"NOT ({is_missing})"
    if name == column.missing_feature:
        yield Atom(column.name, f"({is_missing})", "1.0")
    if column.rules.is_number and name == column.name:
        yield Atom(column.name, present, number_value(column, dialect))
    if column.kind == "category" and name.startswith(before):
        value = category_value(column, name[len(before) :], dialect)
        yield Atom(column.name, f"{value} = {text_literal(name[len(before) :])}", "1.0")
    if column.rules.parts:
        moment = moment_name(column)
        if name == column.name and "days" in column.parts:
            yield Atom(column.name, present, dialect.days(moment))
        for part in column.parts:
            for text, _ in rest_of_names(f"{column.name}.{part}=", {name: 1.0}):
                code = part_code(part, text)
                if code is not None:
                    condition = f"{present} AND {dialect.date_part(moment, part)} = {code}"
                    yield Atom(f"{column.name}.{part}", condition, "1.0")


def product_term(weight: float, factors: tuple[Atom, ...]) -> str:
    """Return the weight times all factors, for rows that have all of them."""
    conditions = " AND ".join(dict.fromkeys(factor.condition for factor in factors))
    value = " * ".join([number_literal(weight), *(factor.value for factor in factors if factor.value != "1.0")])
    return f"(CASE WHEN {conditions} THEN {value} ELSE 0.0e0 END)"


def balanced_sum(terms: list[str]) -> str:
    """Return the sum of terms, nested as flat as possible.

    >>> balanced_sum(["a", "b", "c"])
    '((a + b) + c)'
    """
    while len(terms) > 1:
        pairs = [f"({a} + {b})" for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
    return terms[0]
