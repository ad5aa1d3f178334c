"""Optional acceleration of first use: the functions of a kernel are linked into it instead of compiled one by one.

This folder alone uses names of numba that are not public. It is used on the versions of numba in `TESTED`, after a
self-test, and unless `FIOL_LINKING=0`. Otherwise numba compiles the same functions by itself, and first use takes about
twice as long.
"""

from __future__ import annotations

import functools
import os
import warnings
from typing import Any

import numba

#: The first version of numba that this folder was tested with, and the first one that it was not.
TESTED = (0, 57), (0, 69)
#: These bounds as pip takes them.
TESTED_BOUNDS = f"numba>={TESTED[0][0]}.{TESTED[0][1]},<{TESTED[1][0]}.{TESTED[1][1]}"


def version() -> tuple[int, ...]:
    """Return the major and minor version of numba."""
    return tuple(int(part) for part in numba.__version__.split(".")[:2])


def tested() -> bool:
    """Return whether this version of fiol was tested with this version of numba."""
    return TESTED[0] <= version() < TESTED[1]


def switched_on() -> bool:
    """Return whether settings and the version of numba allow linking."""
    return os.environ.get("FIOL_LINKING", "1") != "0" and tested()


def options() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options for kernels and for inlined functions: none where linking is off or fails its self-test."""
    if not tested():
        untested = f"numba {numba.__version__} was not tested with this version of fiol ({TESTED_BOUNDS} was)"
        text = f"{untested}: first use takes longer"
        warnings.warn(f"{text}; install '{TESTED_BOUNDS}' if anything fails", RuntimeWarning, stacklevel=2)
    if not switched_on():
        return {}, {}
    try:
        from fiol.compiler.linking.pipelines import INLINED_PIPELINE, KERNEL_PIPELINE
    except Exception as error:  # a name is gone
        warn_of_numba(error)
        return {}, {}
    return {"pipeline_class": KERNEL_PIPELINE}, {"pipeline_class": INLINED_PIPELINE}


@functools.cache
def passes_self_test() -> bool:
    """Return whether linked code passes its self-test in this process; warn if it does not."""
    from fiol.compiler.linking.self_test import check

    try:
        check()
    except Exception as error:
        warn_of_numba(error)
        return False
    return True


def warn_of_numba(error: Exception) -> None:
    """Say that numba is not as expected, and what follows."""
    reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    text = f"numba {numba.__version__} differs from the versions that fiol was tested with ({reason})"
    warnings.warn(f"{text}: first use takes longer, results are the same", RuntimeWarning, stacklevel=3)
