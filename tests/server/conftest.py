"""Models of servers run in the interpreter."""

import pytest
from tests.interpreted import interpret_all, interpret_ensembles


@pytest.fixture(autouse=True)
def models_in_the_interpreter(monkeypatch):
    """Compile nothing."""
    interpret_all(monkeypatch)
    interpret_ensembles(monkeypatch)
