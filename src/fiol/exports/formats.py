"""The table of export formats, for the command `fiol export` and for methods of models such as `to_sql`."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fiol.exportable import register_exporter


@dataclasses.dataclass(frozen=True)
class ExportFormat:
    """A format that models are exported to.

    Parameters
    ----------
    name : what the user calls it: `--to sql`, `model.to_sql()`.
    extension : of the names of its files.
    description : its contents, in a line.
    function : where the function `export(model, **options)` is; it is imported when it is called.
    options : the options of the function that the command offers.
    serialize : turns what the function returns into the bytes of a file; None if it returns text.
    """

    name: str
    extension: str
    description: str
    function: str
    options: tuple[str, ...] = ()
    serialize: Callable[[Any], bytes] | None = None

    def export(self, model: Any, **options: Any) -> Any:
        """Return the model in this format: a text, or an object of another library."""
        module, _, name = self.function.rpartition(".")
        return getattr(import_module(module), name)(model, **options)

    def file_data(self, model: Any, **options: Any) -> str | bytes:
        """Return what a file of this format holds."""
        found: Any = self.export(model, **options)
        return found if self.serialize is None else self.serialize(found)


#: All formats, by name.
EXPORT_FORMATS = {
    each.name: each
    for each in (
        ExportFormat(
            "json",
            ".json",
            "the whole model with exact numbers; fiol import reads it back",
            "fiol.exports.json_model.model_as_json",
            ("state",),
        ),
        ExportFormat(
            "sql",
            ".sql",
            "one SELECT that scores the rows of a table",
            "fiol.exports.sql.sql_scores",
            ("table", "column", "dialect"),
        ),
        ExportFormat(
            "python",
            ".py",
            "a module with score(row) and more that needs no library",
            "fiol.exports.python_source.python_source",
        ),
        ExportFormat(
            "onnx",
            ".onnx",
            "a graph for any ONNX runtime, which takes a matrix of features",
            "fiol.exports.onnx_graph.to_onnx",
            serialize=lambda proto: proto.SerializeToString(),
        ),
        ExportFormat(
            "sklearn",
            ".pickle",
            "a fitted estimator of scikit-learn, pickled (joblib.load, pickle.load)",
            "fiol.exports.sklearn_model.to_sklearn",
            serialize=pickle.dumps,
        ),
    )
}


def register_formats() -> None:
    """Let the methods of models call these formats."""
    for export_format in EXPORT_FORMATS.values():
        register_exporter(export_format.name, export_format.export)
