"""Other clusters over the same merge: the examples for Dask and Ray, where these are installed, run as they are."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("library", ["dask", "ray"])
def test_a_recipe_learns_as_much_as_one_stream(library):
    pytest.importorskip(library)
    name = f"with_{library}"
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    among, one = module.main(["--quick"]).values()
    assert among < 1.02 * one
    assert one < 0.45  # of log 2 without a model
