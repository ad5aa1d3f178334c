"""Dispatchers of functions that are compiled only to be inlined: within the turn of their kernel, without events."""

from __future__ import annotations

from typing import Any

from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature


class InlinedDispatcher(CPUDispatcher):
    """A dispatcher without cache, lock and timers: numba notifies the timers of all callers of every lock it takes."""

    def compile(self, sig: Any) -> Any:
        args, return_type = normalize_signature(sig)
        found: Any = self.overloads.get(tuple(args))
        if found is None:
            with self._compiling_counter:
                found = self._compiler.compile(args, return_type)
                self.add_overload(found)
        return found.entry_point
