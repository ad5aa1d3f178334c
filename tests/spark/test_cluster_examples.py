"""The examples for Dask and Ray run where these are installed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("library", ["dask", "ray"])
def test_cluster_example_learns_as_much_as_one_stream(library):
    pytest.importorskip(library)
    command = [sys.executable, str(ROOT / "examples" / f"with_{library}.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    words = done.stdout.split()
    among, one = float(words[-4].rstrip(",")), float(words[-1])
    assert among < 1.02 * one
    assert one < 0.45  # of log 2 without a model
