"""Models of `fiol train` and `fiol serve` as MLflow models of the flavor `python_function`.

fiol.mlflow.save_model("clicks.fiol", "clicks_mlflow")
mlflow.pyfunc.load_model("clicks_mlflow").predict(frame)
"""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any

import numpy as np
import pandas as pd

from fiol.workflow.model import open_model

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow warns of its own annotations
    import mlflow.pyfunc


class FiolPythonModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc,name-defined,unused-ignore]
    """Predictions of a fiol model for frames: a column `prediction`, and `probability of LABEL` for every label."""

    def load_context(self, context: Any) -> None:
        """Load the model file."""
        self.model = open_model(context.artifacts["model"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Return the predictions for the rows of a frame, with its index."""
        frame = pd.DataFrame(model_input)
        found = {"prediction": np.asarray(self.model.predict(frame))}
        if self.model.has_probabilities:
            shares = self.model.predict_proba(frame)
            found |= {f"probability of {label}": shares[:, k] for k, label in enumerate(self.model.labels)}
        return pd.DataFrame(found, index=frame.index)


def save_model(model: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Save a model, or the model in a file, as an MLflow model; options are those of `mlflow.pyfunc.save_model`.

    The MLflow model loads without pickles of fiol: it holds the model file.
    """
    with tempfile.TemporaryDirectory(prefix="fiol-mlflow-") as folder:
        mlflow.pyfunc.save_model(os.fspath(path), **pyfunc_arguments(model, folder), **options)


def log_model(model: Any, name: str = "model", **options: Any) -> Any:
    """Log a model, or the model in a file, to the active run; options are those of `mlflow.pyfunc.log_model`."""
    with tempfile.TemporaryDirectory(prefix="fiol-mlflow-") as folder:
        return mlflow.pyfunc.log_model(name, **pyfunc_arguments(model, folder), **options)


def pyfunc_arguments(model: Any, folder: str) -> dict[str, Any]:
    """Return what `mlflow.pyfunc` saves: the class above and a model file."""
    from fiol import __version__

    if isinstance(model, (str, os.PathLike)):
        file = os.fspath(model)
    else:
        file = os.path.join(folder, "model.fiol")
        model.save(file)
    return {
        "python_model": FiolPythonModel(),
        "artifacts": {"model": file},
        "pip_requirements": [f"fiol=={__version__}", "pandas"],
    }
