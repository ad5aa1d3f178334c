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

    A caller that learns holds the lock of the model, and checks that `intake` and `encoder` are those of the row:

        z = path.learn(row, y, 1.0) if path.intake is intake and path.encoder is intake.encoder else None

    Reading takes no lock. `score` and `predict` hold the interpreter's lock, without which no thread takes or releases
    the lock of a model. They return None while another thread holds that lock, so they see a state between two changes.
    The model may have changed between any two lines of the caller, which therefore checks afterwards that the fast path
    is still the engine's:

        path = engine.fast_path
        z = path.score(row)
        if path is not engine.fast_path or path.intake is not intake or path.encoder is not intake.encoder:
            z = None
    """

    __slots__ = ("encoder", "entries", "intake", "learn", "predict", "score")

    def __init__(self, intake: Any, entries: int) -> None:
        self.intake = intake  #: numbers the names
        self.encoder: Any = None if intake is None else intake.encoder
        self.entries = entries  #: longer rows need the general code
        self.score: Any = fallback
        self.predict: Any = fallback
        self.learn: Any = fallback


#: No function is compiled.
NO_FAST_PATH = FastPath(None, 0)
