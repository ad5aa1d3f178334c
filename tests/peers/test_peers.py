"""scikit-learn's own tests of SGD and of passive-aggressive estimators, run against our classes.

They run in the interpreter, but for those that would take minutes there: FIOL_ALL_PEERS=1 compiles, and runs all.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn
from tests.peers.differences import DIFFERENCES, SLOW

HERE = Path(__file__).parent
ALL = bool(os.environ.get("FIOL_ALL_PEERS"))
#: The version whose tests the list of differences is about.
VERSION = (1, 9)
#: The sentences of docs/guides/from_scikit_learn.md with the number of a module's tests that pass.
STATED = {"sgd": r"`test_sgd`: (\d+) of (\d+)", "passive_aggressive": r"`test_passive_aggressive`: (\d+) of (\d+)"}


def run(module, report):
    """Return the outcome of each test of a module that makes a model of ours, and the tests that were left out."""
    skipped = () if ALL else SLOW[module]
    own = {"PEERS_MODULE": module, "PEERS_OUTCOMES": str(report), "PEERS_SKIPPED": " ".join(skipped)}
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    own["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and some take half a second
    environment = {**os.environ, **own, "PYTHONPATH": path, **({} if ALL else {"NUMBA_DISABLE_JIT": "1"})}
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "substitution_plugin", "-c", os.devnull]
    options += ["--rootdir", str(HERE)]
    command = [sys.executable, "-m", "pytest", *options, "--pyargs", f"sklearn.linear_model.tests.test_{module}"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=report.parent)
    assert report.exists(), found.stdout + found.stderr
    return json.loads(report.read_text())


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) != VERSION,
    reason=f"the differences are those to scikit-learn {'.'.join(map(str, VERSION))}",
)
@pytest.mark.parametrize("module", DIFFERENCES)
def test_peer_tests_pass_except_listed_differences(module, tmp_path):
    outcomes = run(module, tmp_path / "outcomes.json")
    differ = DIFFERENCES[module]

    def is_listed(name):
        return name in differ or name.partition("[")[0] in differ

    wrong = {name: outcome for name, outcome in outcomes["ran"].items() if (outcome == "failed") != is_listed(name)}
    assert not wrong, f"neither passed nor listed, or passed and listed: {wrong}"
    names = [*outcomes["ran"], *outcomes["left out"]]
    stale = [name for name in differ if not any(name in (test, test.partition("[")[0]) for test in names)]
    assert not stale, f"no such tests: {stale}"
    passed = sum(not is_listed(name) for name in names)
    found = re.search(
        STATED[module], (HERE.parent.parent / "docs" / "guides" / "from_scikit_learn.md").read_text(encoding="utf-8")
    )
    assert found is not None
    assert found.groups() == (str(passed), str(len(names)))
