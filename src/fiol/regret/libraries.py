"""The libraries that solve, loaded when they are needed."""

from __future__ import annotations

import functools
import importlib
from typing import Any


def library(module: str) -> Any:
    """Return a module of the libraries that solve, or an ImportError that says how to get them."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("sklearn", "scikit-learn")
        raise ImportError(f'comparators need {package}: pip install "fiol[regret]"') from error


def one_thread() -> Any:
    """A context in which linear algebra uses one thread: several make small problems slow, and their last bits vary."""
    return controller().limit(limits=1, user_api="blas")


@functools.cache
def controller() -> Any:
    """Return the control over the libraries of linear algebra, which must have been loaded before."""
    library("scipy.linalg")
    return library("threadpoolctl").ThreadpoolController()
