"""Return the free memory, and refuse model files that need more before anything is allocated."""

from __future__ import annotations

import os


def free_memory() -> float:
    """Return the bytes that can be allocated now without swapping; infinity where the system does not report them."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def check_memory(needed: float, what: str) -> None:
    """Raise ValueError if this number of bytes is not free; `what` names their use in the message.

    >>> check_memory(2.0**60, "a model of 2,147,483,647 features")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: a model of 2,147,483,647 features takes 1,073,741,824.0 GiB of memory, of which ... GiB are free
    """
    free = free_memory()
    if needed > free:
        raise ValueError(f"{what} takes {needed / 2**30:,.1f} GiB of memory, of which {free / 2**30:,.1f} GiB are free")
