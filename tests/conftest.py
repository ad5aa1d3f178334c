"""The session's cache of compiled code, and how hypothesis draws."""

import hashlib
import os
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parent.parent


def source_hash() -> str:
    """Kernels see edits of components and their helpers, but not of the layer that compiles them."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "fiol").rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


os.environ["NUMBA_CACHE_DIR"] = str(ROOT / "build" / f"numba-{source_hash()}")  # read when numba is imported

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")
