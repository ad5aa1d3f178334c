"""Load numba without its support for linear algebra, which no kernel of the library calls.

The first kernel of a process loads numba's tables of functions. If scipy is installed, numba imports `scipy.linalg`
then, which takes a tenth of a second. scipy is an optional dependency of numba, so that it may be missing meanwhile.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

#: The module that numba tries to import.
BLAS = "scipy.linalg.cython_blas"

_without_blas = False


def load_without_blas() -> None:
    """Let the first kernel of this process load no scipy: other functions that numba compiles have no `np.dot` then.

    For processes that belong to the library, such as those of the command.
    """
    global _without_blas
    _without_blas = True


@contextlib.contextmanager
def loading_kernel() -> Iterator[None]:
    """Within, a kernel is compiled or loaded: the first one without scipy, after `load_without_blas`."""
    global _without_blas
    hidden, _without_blas = _without_blas and BLAS not in sys.modules, False
    if hidden:
        sys.modules[BLAS] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules[BLAS]
