"""The session's cache of compiled code, how hypothesis draws, and examples of the documentation in the interpreter."""

import gc
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent


def compiler_hash() -> str:
    """Return a hash of the layer that compiles; the cache itself notices edits of all other code (ARCHITECTURE.md)."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "fiol" / "compiler").rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


#: Spark has tests of its own, `make test-spark`, and need not be there for all others.
collect_ignore_glob = (
    [] if os.environ.get("FIOL_SPARK") else ["src/fiol/integrations/spark*.py", "src/fiol/spark.py", "tests/spark/*"]
)
collect_ignore_glob += ["docs/_ext/*", "docs/conf.py"]  # extensions of Sphinx, which `make docs` installs


def pytest_ignore_collect(collection_path):
    """Skip files without examples and tests: every worker would import them, and libraries such as MLflow with them."""
    if collection_path.suffix != ".py" or collection_path.name.startswith("test_"):
        return None
    return ">>> " not in collection_path.read_text(encoding="utf-8") or None


os.environ["NUMBA_CACHE_DIR"] = str(ROOT / "build" / f"numba-{compiler_hash()}")  # read when numba is imported

#: How many times as many examples hypothesis draws, in tests without a number of their own. FIOL_EXAMPLES=20 is a
#: campaign: every run draws others.
EXAMPLES = int(os.environ.get("FIOL_EXAMPLES", "1"))
settings.register_profile(
    "default", deadline=None, derandomize=EXAMPLES == 1, print_blob=True, max_examples=30 * EXAMPLES
)
settings.load_profile("default")


def synced(handle: int) -> None:
    """For `os.fsync`: no test pulls the plug, and waiting for the disk after every file takes longer than the rest."""
    os.fstat(handle)  # what is no file is refused, as there


os.fsync = synced

gc.disable()  # while tests are collected: what is imported stays


def pytest_collection_finish():
    """Leave what is there now out of every search for garbage, which would take a second each."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)  # compiling makes many objects that stay


#: Examples that run as they do for a reader.
COMPILED = ("README.md",)
#: Examples whose default ensembles do so: they make too many rounds for the interpreter.
ENSEMBLES_COMPILED = (
    "estimators.md",
    "parallel.md",
    "fiol.learner.learner.Learner.learn_parallel",
    "fiol.integrations.river.FIOLClassifier",
    "fiol.integrations.river.FIOLRegressor",
)


@pytest.fixture(autouse=True)
def examples_in_the_interpreter(request):
    """Run examples in the interpreter, except those that ask for compiled code: results do not depend on it."""
    if not isinstance(request.node, pytest.DoctestItem) or request.node.name in COMPILED:
        yield
        return
    from tests.interpreted import (  # imported here: numba reads the folder of its cache, set above
        check_uncompiled,
        interpret_all,
        interpret_ensembles,
    )

    with pytest.MonkeyPatch.context() as patch:
        interpret_all(patch)
        if request.node.name not in ENSEMBLES_COMPILED:
            interpret_ensembles(patch)
        check_uncompiled(patch)
        yield
