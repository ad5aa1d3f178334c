"""Models as the source of a Python module that scores and predicts one row without any library.

The module needs Python 3.8 and `math`. It has `score(row)`, and `label(row)` and `probability(row)` for labels, or
`prediction(row)` for numbers. A row is

- a dict of columns, such as {"age": 30, "city": "Rome", "when": "2024-03-01"}, where the model has a table encoding: a
  missing value is None; a column that is left out is an error (a row of JSON lines may leave out any);
- a dict of names of features and their values, where the model has learned from dicts (text as a value is part of the
  name) or from Vowpal Wabbit's text: {"space^feature": 2.0};
- a dict of numbers of features and their values, or a list of numbers, otherwise.

`score` is that of `Learner.scores` except for the last digits; `probability` is that of the positive label, the second
of LABELS. With a score per class both are dicts by label.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
from typing import Any

from fiol.components.scalars import LOG_HUGE
from fiol.exports import row_features
from fiol.exports.basis import nonzero_nodes
from fiol.exports.linear import ExportedModel, NoExportError, linear_model, two_or_more_labels
from fiol.features import cell_rules
from fiol.features.hashing import MURMUR3

#: The functions of rows that each kind of model needs.
OF_COLUMNS = ("is_missing", "is_marker", "cell_text", "words_of_text", "number_of_text", "number_of_value",
              "day_number", "date_parts", "moment_of_parts", "moment_of_value", "time_of_value", "date_features",
              "column_features", "flat_row", "features_of_columns")  # fmt: skip
OF_BASIS = ("place_of_number", "terms_of_basis")
OF_HASHES = ("murmur3_number", "hashed_number")


class Bare(ast.NodeTransformer):
    """Removes the annotations of variables."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Return an assignment without its annotation."""
        assert node.value is not None
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def python_source(model: Any) -> str:
    """Return the source of the module.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), compiled=False)
    >>> before = learner.learn_named({"age": 2.0, "city": "Rome"}, y=1.0)
    >>> scope = {}
    >>> exec(python_source(learner), scope)
    >>> abs(scope["score"]({"age": 3.0, "city": "Rome"}) - learner.score_named({"age": 3.0, "city": "Rome"})) < 1e-15
    True
    """
    linear = linear_model(model)
    if linear.hashing is not None and linear.hashing.function != MURMUR3:
        raise NoExportError(f"names are hashed by {linear.hashing.function}, which needs a library: export to json")
    needed, rows = features_source(linear)
    predicts = numbers_source(linear) if linear.labels is None else labels_source(linear)
    parts = [
        python_literal(about(linear)),
        "import math",
        constants_source(linear),
        *(plain_source(name) for name in needed),
        rows,
        *([] if linear.basis is None else [basis_source(linear)]),
        score_source(linear),
        *predicts,
    ]
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


def about(model: ExportedModel) -> str:
    """Return the docstring of the module."""
    loss = "" if model.loss is None else f" with {type(model.loss).__name__} loss"
    return f"A linear model{loss}, exported by fiol."


def python_literal(value: Any) -> str:
    """Return plain values, and tuples and lists of them, as Python source; NoExportError for any other object.

    >>> python_literal(["a\\"b", 2, (0.5, None)])
    '[\\'a"b\\', 2, (0.5, None)]'
    """
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(python_literal, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    for kind in (bool, str, int, float):  # a subclass may have another repr, which could be any code
        if isinstance(value, kind) and value == value and value not in (math.inf, -math.inf):  # noqa: PLR0124
            return kind.__repr__(value)
    if value is None:
        return "None"
    raise NoExportError(f"a {type(value).__name__} has no place in Python source: {value!r}")


def constants_source(model: ExportedModel) -> str:
    """Return the assignments of LABELS, INTERCEPT and WEIGHTS."""
    intercepts = tuple(model.intercepts.tolist())
    entries = (
        f"    {python_literal(name)}: {python_literal(tuple(weights) if model.per_class else weights[0])},\n"
        for name, weights in model.entries()
    )
    lines = [
        *([] if model.labels is None else [f"LABELS = {python_literal(model.labels)}"]),
        f"INTERCEPT = {python_literal(intercepts if model.per_class else intercepts[0])}",
        f"WEIGHTS = {{\n{''.join(entries)}}}",
    ]
    return "\n".join(lines)


def function_called(name: str) -> Any:
    """Return the function of cells or rows with this name."""
    return getattr(cell_rules, name, None) or getattr(row_features, name)


@functools.cache
def plain_source(name: str) -> str:
    """Return the source of a function of cells or rows without annotations, examples and comments."""
    tree = Bare().visit(ast.parse(inspect.getsource(function_called(name))))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            text = (ast.get_docstring(node) or "").partition("\n\n>>>")[0]
            node.body[0] = ast.Expr(ast.Constant(text))
        if isinstance(node, ast.arg):
            node.annotation = None
    return re.sub(r"\n{3,}", "\n\n", ast.unparse(tree))


def features_source(model: ExportedModel) -> tuple[list[str], str]:
    """Return the names of the functions that are needed, and the source of `features(row)`."""
    needed: list[str] = []
    if model.kind == "columns":
        assert model.table_encoding is not None
        needed += OF_COLUMNS
        columns = [
            (c.name, c.spec if c.kind == "date" else c.kind, c.ngrams, c.parts)
            for c in model.table_encoding.columns
            if not c.is_left_out
        ]
        optional = model.table_encoding.optional
        skipped = [c.name for c in model.table_encoding.columns if c.is_left_out] if optional else []
        listed = "".join(f"    {python_literal(column)},\n" for column in columns)
        markers = f"MISSING = {python_literal(model.table_encoding.markers)}\n"
        start = f"COLUMNS = [\n{listed}]\n{markers}\n\n"
        more = f"COLUMNS, {optional}, MISSING, {model.table_encoding.missing is not None}"
        body = f"features_of_columns(row, {more})"
        if skipped:
            own = f"{{k: v for k, v in flat_row(row).items() if k not in {python_literal(skipped)}}}"
            body = f"features_of_columns({own}, {more})"
    elif model.kind == "numbers":
        start = ""
        body = '[(i, float(x), "") for i, x in (row.items() if hasattr(row, "items") else enumerate(row))]'
    else:
        needed.append("features_of_names")
        start, body = "", "features_of_names(row)"
    if model.pairs:
        needed.append("products")
        body = f"products({body}, {python_literal(model.pairs)})"
    if model.basis is not None:
        needed += OF_BASIS
    entries = f"[(name, value) for name, value, _ in {body}]"
    if model.hashing is not None:
        needed += OF_HASHES
        entries = f"[(hashed_number(name, {model.hashing.size}), value) for name, value, _ in {body}]"
    doc = '    """Return the features of a row: names, or numbers, and values."""\n'
    return needed, f"{start}def features(row):\n{doc}    return {entries}\n"


def basis_source(model: ExportedModel) -> str:
    """Return the assignments of SLOTS, CURVES and NODES, and the function `more_terms`."""
    assert model.basis is not None

    def weight(values: Any) -> str:
        return python_literal(tuple(values.tolist()) if model.per_class else float(values[0]))

    slots = "".join(
        f"    {python_literal((slot.points, slot.knots, slot.grid, slot.number, slot.missing))[:-1]}, "
        f"{{{', '.join(f'{python_literal(name)}: {code}' for name, code in slot.codes.items())}}}, {slot.period!r}),\n"
        for slot in model.basis.slots
    )
    curves = "".join(
        f"    {s}: [{', '.join(map(weight, slot.curve.T))}],\n"
        for s, slot in enumerate(model.basis.slots)
        if slot.curve is not None
    )
    nodes = ""
    for pair in model.basis.pairs:
        own = ", ".join(f"{k}: {weight(found)}" for k, found in nonzero_nodes(pair.nodes))
        nodes += f"    ({pair.left}, {pair.right}, {{{own}}}),\n"
    return (
        f"SLOTS = [\n{slots}]\nCURVES = {{\n{curves}}}\nNODES = [\n{nodes}]\n\n\n"
        'def more_terms(found):\n    """Return weights and values of the curves and pairs of a row\'s features."""\n'
        "    return terms_of_basis(dict(found), SLOTS, CURVES, NODES)\n"
    )


def score_source(model: ExportedModel) -> str:
    """Return the function `score`."""
    more = "" if model.basis is None else ", *(w * value for w, value in more_terms(found))"
    if not model.per_class:
        return (
            'def score(row):\n    """Return the score of a row."""\n'
            "    found = features(row)\n"
            f"    return math.fsum([INTERCEPT, *(WEIGHTS.get(name, 0.0) * value for name, value in found){more}])\n"
        )
    more = "" if model.basis is None else " + more_terms(given)"
    return (
        'def score(row):\n    """Return the score of a row for every label."""\n'
        "    given = features(row)\n"
        f"    found = [(WEIGHTS[name], value) for name, value in given if name in WEIGHTS]{more}\n"
        "    return {label: math.fsum([INTERCEPT[k], *(w[k] * value for w, value in found)])"
        " for k, label in enumerate(LABELS)}\n"
    )


#: The inverse of every link as Python source, of a score z times the factor of the link.
INVERSE_LINKS = {
    "logit": "1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))",
    "log": f"math.exp(min(z, {LOG_HUGE!r}))",
    "sign": "math.copysign(1.0, z)",
    "identity": "z",
}


def numbers_source(model: ExportedModel) -> list[str]:
    """Return the functions `mean` and `prediction` of a model that predicts numbers."""
    prediction = 'def prediction(row):\n    """Return the predicted number."""\n    return mean(score(row))\n'
    return [mean_source(model), prediction]


def labels_source(model: ExportedModel) -> list[str]:
    """Return the functions `label`, and `probability` where there is one, of a model that predicts labels."""
    two_or_more_labels(model)
    if not model.per_class:
        label = '    """Return the label: the second of LABELS if the score is above 0."""\n'
        label += "    return LABELS[1] if score(row) > 0.0 else LABELS[0]\n"
    else:
        label = '    """Return the label of the highest score."""\n'
        label += "    scores = score(row)\n    return max(scores, key=scores.get)\n"
    found = [f"def label(row):\n{label}"]
    if model.probability == "sigmoid":
        doc = '    """Return the probability of the second of LABELS."""\n'
        found += [mean_source(model), f"def probability(row):\n{doc}    return mean(score(row))\n"]
    elif model.probability == "softmax":
        found.append(
            'def probability(row):\n    """Return the probability of every label."""\n'
            "    scores = score(row)\n    top = max(scores.values())\n"
            f"    found = {{label: math.exp({model.link_factor!r} * (z - top)) for label, z in scores.items()}}\n"
            "    return {label: p / sum(found.values()) for label, p in found.items()}\n"
        )
    elif model.probability == "shares":
        found += [
            mean_source(model),
            'def probability(row):\n    """Return the probability of every label."""\n'
            "    found = {label: mean(z) for label, z in score(row).items()}\n    mass = sum(found.values())\n"
            "    return {label: p / mass if mass > 0.0 else 1.0 / len(found) for label, p in found.items()}\n",
        ]
    return found


def mean_source(model: ExportedModel) -> str:
    """Return the function `mean`, which is the inverse of the link."""
    scaled = "" if model.link_factor == 1.0 else f"    z = {model.link_factor!r} * z\n"
    doc = f'    """Return the inverse of the link {model.link} at a score."""\n'
    return f"def mean(z):\n{doc}{scaled}    return {INVERSE_LINKS[model.link]}\n"
