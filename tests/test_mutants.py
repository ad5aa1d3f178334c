"""The mutation campaign seeds and detects faults: see `campaigns.mutants`."""

import contextlib

import numpy as np
import pytest
from campaigns import mutants

from fiol.engine import interrupts
from fiol.features.chunk import Chunk

SOURCE = (mutants.SOURCE / "engine" / "interrupts.py").read_text()
FAULTS = [fault for fault in mutants.faults("engine/interrupts.py", SOURCE) if fault.function == "cost_up_to"]


def cost():
    return interrupts.cost_up_to(np.array([0, 3, 7, 8]), 0.5, 1, 2)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault_is_seeded_only_in_its_function(fault):
    assert cost() == 6.0
    ((function, code),) = mutants.put_in_place(fault)
    try:
        assert function is interrupts.cost_up_to
        with contextlib.suppress(IndexError, TypeError):
            assert cost() != 6.0
    finally:
        function.__code__ = code
    assert cost() == 6.0


def test_all_kinds_of_faults_are_seeded():
    text = [str(fault) for module in mutants.modules()[::4] for fault in mutants.faults(module, source_of(module))]
    assert len(text) > 2500
    for kind in ("no return", "no raise", "once for", "once while", " < ", " not not ", "max(", " and ", " -> +"):
        assert any(kind in one for one in text), kind


def source_of(module):
    return (mutants.SOURCE / module).read_text()


def test_line_watch_records_executed_lines():
    chunk = Chunk(np.array([0, 1]), np.array([0], np.int32), np.ones(1))
    with mutants.Watch() as watch:
        list(interrupts.paced(chunk, np.empty(0, np.int64)))
    lines = {int(line.partition(":")[2]) for line in watch.visited() if line.startswith("engine/interrupts.py")}
    first = 1 + next(k for k, line in enumerate(SOURCE.splitlines()) if "shuffled = len(order) > 0" in line)
    assert first in lines
    assert (
        not {1 + k for k, line in enumerate(SOURCE.splitlines()) if "def cost_up_to" in line or "took" in line} & lines
    )


def test_skipped_statement_keeps_free_variables():
    """A function that no longer calls `super` can still take the place of the one that does."""
    source = "class A(B):\n    def f(self):\n        super().f()\n        return 1\n"
    fault = next(fault for fault in mutants.faults("m.py", source) if fault.what.startswith("no super"))
    before, after = (compile(tree, "m.py", "exec") for tree in (source, fault.tree(source)))
    free = [code.co_freevars for each in (before, after) for code in mutants.codes(each) if code.co_name == "f"]
    assert free == [("__class__",), ("__class__",)]
    names = {"B": object}
    exec(before, names)
    with pytest.raises(AttributeError, match="f"):
        names["A"]().f()
    exec(after, names)
    assert names["A"]().f() == 1
