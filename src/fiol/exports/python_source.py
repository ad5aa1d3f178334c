"""A model as a Python module that scores and predicts a row, a dict, without any library.

The module has `score(row)` and `predict(row)`, and needs nothing but Python 3.8 and `math`. Rows are

- dicts of columns, such as {"age": 30, "city": "Rome", "when": "2024-03-01"}, where the model has a coding: what is
  missing is None; a column that is left out is an error (a row of JSON lines may leave out any);
- dicts of names of features and their values, where it has learned from such (a text as value is part of the name), or
  from Vowpal Wabbit's text: {"space^feature": 2.0};
- dicts of numbers of features and their values, or lists of numbers, otherwise.

Scores are those of `Learner.scores` up to the last digits; with a score per class, dicts of them by label. Predictions
are the probability of the positive label (the second of LABELS), numbers, or -1 and +1, as `Learner.predict` has them;
of several classes the dict of probabilities, or the label of the highest score.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

from fiol.components.scalars import LOG_HUGE
from fiol.exports import row_features
from fiol.exports.linear import ExportedModel, NoExportError, joint_labels, linear_model
from fiol.features.hashing import MURMUR3

#: The functions of rows that each kind of model needs.
OF_COLUMNS = ("is_absent", "value_text", "words_of_text", "day_number", "moment_of_value", "time_of_value",
              "date_features", "column_features", "flat_row", "features_of_columns")  # fmt: skip
OF_HASHES = ("murmur3_number", "hashed_number")


class Bare(ast.NodeTransformer):
    """Leaves out the annotations of variables."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """An assignment without its annotation."""
        assert node.value is not None
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def python_source(learner: Any) -> str:
    """The module as text.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), compiled=False)
    >>> before = learner.learn_named({"age": 2.0, "city": "Rome"}, y=1.0)
    >>> scope = {}
    >>> exec(python_source(learner), scope)
    >>> abs(scope["score"]({"age": 3.0, "city": "Rome"}) - learner.score_named({"age": 3.0, "city": "Rome"})) < 1e-15
    True
    """
    model = linear_model(learner)
    if model.hashing is not None and model.hashing.function != MURMUR3:
        raise NoExportError(f"names are hashed by {model.hashing.function}, which Python has only in libraries")
    needed, rows = features_source(model)
    parts = [
        f'"""{what_it_is(model)}"""',
        "import math",
        constants_source(model),
        *(plain_source(name) for name in needed),
        rows,
        score_source(model),
        predict_source(model),
    ]
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


def what_it_is(model: ExportedModel) -> str:
    """The first line of the module."""
    return f"A linear model with {type(model.loss).__name__} loss, written by fiol: score(row) and predict(row)."


def constants_source(model: ExportedModel) -> str:
    """Labels, intercepts and weights."""
    lines = [f"LABELS = {model.labels!r}"]
    if model.joint:
        lines.append(f"INTERCEPT = {tuple(model.intercepts.tolist())!r}")
        pairs = (f"    {name!r}: {tuple(weights)!r},\n" for name, weights in model.entries())
    else:
        lines.append(f"INTERCEPT = {float(model.intercepts[0])!r}")
        pairs = (f"    {name!r}: {weights[0]!r},\n" for name, weights in model.entries())
    return "\n".join([*lines, f"WEIGHTS = {{\n{''.join(pairs)}}}"])


def plain_source(name: str) -> str:
    """The source of a function of `fiol.exports.row_features`, without annotations, examples and notes to linters."""
    tree = Bare().visit(ast.parse(inspect.getsource(getattr(row_features, name))))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            text = (ast.get_docstring(node) or "").partition("\n\n>>>")[0]
            node.body[0] = ast.Expr(ast.Constant(text))
        if isinstance(node, ast.arg):
            node.annotation = None
    return re.sub(r"\n{3,}", "\n\n", ast.unparse(tree))


def features_source(model: ExportedModel) -> tuple[list[str], str]:
    """Which functions are needed, and one that gives the features of a row: names, or numbers, and values."""
    needed: list[str] = []
    if model.kind == "columns":
        assert model.coding is not None
        needed += OF_COLUMNS
        columns = [(c.name, c.kind, c.ngrams, c.parts) for c in model.coding.columns if c.kind != "skip"]
        optional = model.reading is not None and model.reading.format == "json"
        skipped = [c.name for c in model.coding.columns if c.kind == "skip"] if optional else []
        listed = "".join(f"    {column!r},\n" for column in columns)
        start = f"COLUMNS = [\n{listed}]\n\n\n"
        body = f"features_of_columns(row, COLUMNS, {optional})"
        if skipped:
            own = f"{{k: v for k, v in flat_row(row).items() if k not in {skipped!r}}}"
            body = f"features_of_columns({own}, COLUMNS, True)"
    elif model.kind == "numbers":
        start = ""
        body = '[(i, float(x), "") for i, x in (row.items() if hasattr(row, "items") else enumerate(row))]'
    else:
        needed.append("features_of_names")
        start, body = "", "features_of_names(row)"
    if model.pairs:
        needed.append("products")
        body = f"products({body}, {model.pairs!r})"
    entries = f"[(name, value) for name, value, _ in {body}]"
    if model.hashing is not None:
        needed += OF_HASHES
        entries = f"[(hashed_number(name, {model.hashing.size}), value) for name, value, _ in {body}]"
    doc = '    """The features of a row: names, or numbers, and values."""\n'
    return needed, f"{start}def features(row):\n{doc}    return {entries}\n"


def score_source(model: ExportedModel) -> str:
    """The function `score`."""
    if not model.joint:
        return (
            'def score(row):\n    """The score of a row."""\n'
            "    return math.fsum([INTERCEPT, *(WEIGHTS.get(name, 0.0) * value for name, value in features(row))])\n"
        )
    return (
        'def score(row):\n    """The score of a row for every label."""\n'
        "    found = [(WEIGHTS[name], value) for name, value in features(row) if name in WEIGHTS]\n"
        "    return {label: math.fsum([INTERCEPT[k], *(w[k] * value for w, value in found)])"
        " for k, label in enumerate(LABELS)}\n"
    )


def predict_source(model: ExportedModel) -> str:
    """The function `predict`."""
    factor = "" if model.loss.link_factor == 1.0 else f"{model.loss.link_factor!r} * "
    if model.joint:
        joint_labels(model)
        if model.link != "logit":
            return 'def predict(row):\n    """The label of the highest score."""\n' + (
                "    scores = score(row)\n    return max(scores, key=scores.get)\n"
            )
        return 'def predict(row):\n    """The probability of every label."""\n' + (
            "    scores = score(row)\n    top = max(scores.values())\n"
            f"    found = {{label: math.exp({factor}(z - top)) for label, z in scores.items()}}\n"
            "    return {label: p / sum(found.values()) for label, p in found.items()}\n"
        )
    what, body = {
        "logit": (
            "The probability of the positive label",
            "    z = {f}score(row)\n    e = math.exp(-abs(z))\n    return (1.0 if z >= 0.0 else e) / (1.0 + e)\n",
        ),
        "log": ("The mean", f"    return math.exp(min({{f}}score(row), {LOG_HUGE!r}))\n"),
        "sign": ("-1.0 or +1.0", "    return math.copysign(1.0, score(row))\n"),
        "identity": ("The mean", "    return {f}score(row)\n"),
    }[model.link]
    return f'def predict(row):\n    """{what}."""\n{body.format(f=factor)}'
