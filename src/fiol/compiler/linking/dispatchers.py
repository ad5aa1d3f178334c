"""Dispatchers of functions that are compiled only to be inlined: within the turn of their kernel, without events."""

from __future__ import annotations

from typing import Any

from numba.core.sigutils import normalize_signature

from fiol.compiler.linking import passes_self_test
from fiol.compiler.options import InlinedFunction


class InlinedDispatcher(InlinedFunction):
    """A dispatcher without cache, lock and timers: numba notifies the timers of all callers of every lock it takes."""

    tested = True

    def compile(self, sig: Any) -> Any:
        if self.tested and not passes_self_test():
            return super().compile(sig)
        args, return_type = normalize_signature(sig)
        found: Any = self.overloads.get(tuple(args))
        if found is None:
            with self._compiling_counter:
                found = self._compiler.compile(args, return_type)
                self.add_overload(found)
        return found.entry_point


class UntestedDispatcher(InlinedDispatcher):
    """The dispatcher of the self-test itself."""

    tested = False
