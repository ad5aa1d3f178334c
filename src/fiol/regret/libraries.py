"""Import the solver libraries on first use."""

from __future__ import annotations

import functools
import importlib
from typing import Any


def library(module: str) -> Any:
    """Return a module of the solver libraries; raise ImportError with the install command."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("sklearn", "scikit-learn")
        raise ImportError(f'comparators need {package}: pip install "fiol[regret]"') from error


def one_thread() -> Any:
    """Limit linear algebra to one thread: more are slow for small problems and change the last bits."""
    return controller().limit(limits=1, user_api="blas")


@functools.cache
def controller() -> Any:
    """Return the thread control of the loaded linear algebra libraries."""
    library("scipy.linalg")
    return library("threadpoolctl").ThreadpoolController()
