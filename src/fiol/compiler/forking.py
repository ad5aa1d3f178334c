"""Forks wait until no other thread compiles: a child would wait forever for a thread that it does not have."""

from __future__ import annotations

import functools
import os

from fiol.compiler.numba_names import global_compiler_lock


@functools.cache
def wait_for_compiler() -> None:
    """Let every fork of this process hold the compiler's lock, and release it in parent and child."""
    if hasattr(os, "register_at_fork"):
        release = global_compiler_lock.release
        os.register_at_fork(before=global_compiler_lock.acquire, after_in_parent=release, after_in_child=release)
