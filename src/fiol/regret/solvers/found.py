"""The answer of a solver."""

from __future__ import annotations

from typing import NamedTuple

from fiol.components.row import Floats


class Found(NamedTuple):
    """Who found which weights, and the beta found with them, if any."""

    credit: str
    w: Floats
    beta: Floats | None = None
