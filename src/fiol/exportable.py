"""`Exportable`: the methods `to_sql`, `to_python`, `to_json`, `to_onnx` and `to_sklearn` that models share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

#: The function of every export format; `fiol.exports.formats` registers them, so that models need not import exports.
EXPORTERS: dict[str, Callable[..., Any]] = {}


def register_exporter(name: str, export: Callable[..., Any]) -> None:
    """Let models be exported to the format `name` by `export(model, **options)`."""
    EXPORTERS[name] = export


def exporter(name: str) -> Callable[..., Any]:
    """Return the function of an export format; a model may have been unpickled, with nothing else of fiol loaded."""
    if name not in EXPORTERS:
        import_module("fiol.exports.formats").register_formats()
    return EXPORTERS[name]


class Exportable:
    """A model that can be written in other formats: see docs/guides/exports.md for what each format holds.

    Exported scores equal the model's to about 1e-12. A model that a format cannot express raises a TypeError with the
    reason.
    """

    def to_sql(self, table: str = "data", column: str = "f{}", dialect: str = "standard") -> str:
        """Return one SELECT with the score of every row of a table: a column `score`, or `score of LABEL` per class.

        Parameters
        ----------
        table : name of the table.
        column : names of the columns of a model with numbered features; {} is replaced by the number, from 0.
        dialect : "sqlite", "postgresql" or "duckdb"; "standard" SQL has no parts of dates.

        >>> import fiol
        >>> model = fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=2, compiled=False)
        >>> model.start_from([0.5, -2.0], intercept=1.0)
        >>> print(model.to_sql("people", "x{}"))
        SELECT
          ((1.0e0 + (0.5e0 * COALESCE("x0", 0.0e0))) + (-2.0e0 * COALESCE("x1", 0.0e0))) AS "score"
        FROM "people"
        <BLANKLINE>
        """
        return exporter("sql")(self, table=table, column=column, dialect=dialect)

    def to_python(self) -> str:
        """Return the source of a module, which needs no library: `score(row)`, `label`, `probability`, `prediction`.

        >>> import fiol
        >>> model = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
        >>> before = model.learn_named({"age": 2.0, "city": "Rome"}, y=1.0)
        >>> module = {}
        >>> exec(model.to_python(), module)
        >>> abs(module["prediction"]({"age": 3.0}) - model.predict_named({"age": 3.0})) < 1e-15
        True
        """
        return exporter("python")(self)

    def to_json(self, state: bool = True) -> str:
        """Return the model as JSON text, which `fiol.load_json` reads from a file.

        Parameters
        ----------
        state : include what learning continues from. A `Learner` without it predicts, and its weights may be edited.

        >>> import json, fiol
        >>> model = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
        >>> before = model.learn_named({"age": 2.0}, y=1.0)
        >>> json.loads(model.to_json(state=False))["weights"] == [["age", model.weights[0]]]
        True
        """
        return exporter("json")(self, state=state)

    def to_onnx(self, dtype: Any = "float64") -> Any:
        """Return an `onnx.ModelProto`, which takes a matrix `X` with a column per feature; needs `fiol[onnx]`.

        Parameters
        ----------
        dtype : of the rows and of all arithmetic, "float64" or "float32".

        >>> import fiol
        >>> model = fiol.Learner(fiol.FIOL(fiol.Logistic()), n_features=2, compiled=False)
        >>> model.start_from([0.5, -2.0])
        >>> [output.name for output in model.to_onnx().graph.output]
        ['label', 'probability', 'score']
        """
        return exporter("onnx")(self, dtype=dtype)

    def to_sklearn(self) -> Any:
        """Return a fitted estimator of scikit-learn, or a pipeline that ends with one; needs `fiol[sklearn]`.

        >>> import fiol
        >>> model = fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=2, compiled=False)
        >>> model.start_from([0.5, -2.0])
        >>> model.to_sklearn().predict([[2.0, 1.0]])
        array([-1.])
        """
        return exporter("sklearn")(self)
