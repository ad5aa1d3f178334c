"""The functions that an engine keeps at hand for single events."""

from __future__ import annotations

from typing import Any


def second_look(*row: Any) -> None:
    """The answer to a row that has to be looked at with care."""
    return


class AtHand:
    """Functions that score, predict and learn from one row as Python has it, a dict or two arrays, or answer None.

    None says that the row needs a second look, and that nothing has happened. `score(row)` gives the score,
    `predict(row)` what the loss predicts, `learn(row, y, sample_weight)` makes a round and gives the score before it.
    They are compiled for an engine as it is (`fiol.engine.events`): `Engine` drops them when any of its arrays is
    replaced. Whoever learns by them takes a turn, and makes sure that `intake` and its `encoder` are those of the row:

        z = at_hand.learn(row, y, 1.0) if at_hand.intake is intake and at_hand.encoder is intake.encoder else None

    Reading needs no turn. `score` and `predict` hold the interpreter's lock, which nobody begins or ends a turn
    without; they answer None while another thread has its turn, and otherwise see a moment between two turns. There may
    have been a turn between any two lines of the caller, who therefore looks afterwards whether this was still at hand:

        at_hand = engine.at_hand
        z = at_hand.score(row)
        if at_hand is not engine.at_hand or at_hand.intake is not intake or at_hand.encoder is not intake.encoder:
            z = None
    """

    __slots__ = ("encoder", "entries", "intake", "learn", "predict", "score")

    def __init__(self, intake: Any, entries: int) -> None:
        self.intake = intake  #: numbers the names
        self.encoder: Any = None if intake is None else intake.encoder
        self.entries = entries  #: longer rows need a second look
        self.score: Any = second_look
        self.predict: Any = second_look
        self.learn: Any = second_look


#: Nothing is at hand.
NOTHING_AT_HAND = AtHand(None, 0)
