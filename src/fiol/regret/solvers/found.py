"""`Found`: the result of a solver."""

from __future__ import annotations

from typing import NamedTuple

from fiol.components.row import Floats


class Found(NamedTuple):
    """The weights that a solver found, its name, and the beta found with them, if any."""

    credit: str
    w: Floats
    beta: Floats | None = None
