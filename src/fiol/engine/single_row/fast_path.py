"""`FastPath`: compiled functions of an engine for single rows."""

from __future__ import annotations

from typing import Any


def fallback(*row: Any) -> None:
    """Stand for a function that is not compiled: every row needs the general code."""
    return


class FastPath:
    """Functions that score, predict and learn from a single row, a dict or two arrays, as Python has it.

    They return None if the row needs the general code, for chunks of rows; then nothing has changed. `score(row)`
    returns the score, `predict(row)` the prediction of the loss, `learn(row, y, sample_weight)` makes a round and
    returns the score before it. They point to the arrays of an engine (`fiol.engine.single_row.events`), which drops
    them when it replaces any of these (`Engine.set_storage`).

    A caller that learns holds the lock of the model, and checks that `space` and `encoder` are those of the row:

        z = path.learn(row, y, 1.0) if path.space is space and path.encoder is space.encoder else None

    Reading takes no lock. `score` and `predict` hold the interpreter's lock, without which no thread takes or releases
    the lock of a model. They return None while another thread holds that lock, so they see a state between two changes.
    The model may have changed between any two lines of the caller, which therefore checks afterwards that the fast path
    is still the engine's:

        path = engine.fast_path
        z = path.score(row)
        if path is not engine.fast_path or path.space is not space or path.encoder is not space.encoder:
            z = None
    """

    __slots__ = ("encoder", "entries", "learn", "predict", "score", "space")

    def __init__(self, space: Any, entries: int) -> None:
        self.space = space  #: numbers the names
        self.encoder: Any = None if space is None else space.encoder
        self.entries = entries  #: longer rows need the general code
        self.score: Any = fallback
        self.predict: Any = fallback
        self.learn: Any = fallback


#: No function is compiled.
NO_FAST_PATH = FastPath(None, 0)
