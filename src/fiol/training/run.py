"""The loop of training: batches of a reader in, a model, its figures and its checkpoints out.

Everything that is learned and counted follows from the rows, their order and a seed. So a run that was stopped, at
whatever moment, goes on from its last checkpoint to the same model and the same figures, bit for bit: it reads the
rows from the beginning, mixes them as before, and passes over those that the model has learned from.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from fiol.components.joint_losses import JointLoss
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk
from fiol.features.named_rows import NamedRows
from fiol.learner import Learner
from fiol.models.epochs import MIN_STACK_ROWS
from fiol.readers.batch import Batch
from fiol.training.metrics import Line, PassMetrics
from fiol.training.rows import TargetRows
from fiol.training.shuffling import held_out_rows, shuffled
from fiol.training.task_inference import Task, UnclearTargetError

#: The first line of the table comes after so many rows, the others after twice as many each.
FIRST_LINE = 1000
#: Rows are learned from in pieces of about so many entries and rows (times classes): some ten milliseconds.
WORK_AT_ONCE = 2**17
#: So many rows are learned from for trial, so that all is compiled: enough to see which columns are far from 0.
ROWS_REHEARSED = 64


#: Features of a learner that hashes are hashed into at most 2 to this power in the trial.
BITS_REHEARSED = 8


@dataclasses.dataclass(frozen=True)
class Regime:
    """How often, in which order, and from which rows to learn. Plain values, which a model's file keeps."""

    passes: int = 1  #: at most so many
    shuffle: int = 0  #: rows that the shuffling buffer holds; 0 leaves rows in their order
    seed: int = 1  #: of the shuffling and of the choice of rows held out
    holdout: float = 0.0  #: the share of rows that are never learned from
    patience: int | None = (
        None  #: stop after so many passes that were no better, and go back to the best; None never stops
    )

    def __post_init__(self) -> None:
        for name, least in (("passes", 1), ("shuffle", 0), ("seed", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")
        if not 0.0 <= self.holdout < 1.0:
            raise ValueError(f"holdout must be a share of all rows, from 0 to less than 1, got {self.holdout!r}")
        if self.patience is not None and (type(self.patience) is not int or self.patience < 1):
            raise ValueError(f"patience must be a number of passes, at least 1, got {self.patience!r}")
        if self.patience is not None and not self.holdout:
            raise ValueError("to stop early, rows must be held out: give holdout")

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Regime:
        """Return the regime of a model's file; TypeError or ValueError if it is none.

        Files of earlier versions have `jobs`, the number of parts that rows were learned from in, which is dropped.

        >>> Regime.from_json({"passes": 2, "jobs": 3})
        Regime(passes=2, shuffle=0, seed=1, holdout=0.0, patience=None)
        """
        stored = dict(stored)
        jobs = stored.pop("jobs", 1)
        if type(jobs) is not int or jobs < 1:
            raise ValueError(f"jobs must be a whole number, at least 1, got {jobs!r}")
        return cls(**stored)


class Advance(NamedTuple):
    """How far a run has come, after every piece of rows."""

    number: int  #: the pass, from 1
    read: int  #: bytes read in this pass, as they are on disk
    rows: int  #: learned from in this run, in all passes


class Base(NamedTuple):
    """The rows that a model had learned from before its last update: counts that the run continues from."""

    rows: int = 0  #: learned from
    scored: int = 0  #: held out
    rows_read: int = 0  #: in the data, with those held out and those without a target
    missing: int = 0  #: without a target


class Training:
    """One run: `for event in Training(learner, task, batches, regime).events(): ...`

    Parameters
    ----------
    learner : what learns; it may have learned before.
    task : the loss of the learner, and how targets are written: see `fiol.training.task_inference`.
    batches : called once a pass, returns the rows as readers do (`Batch`), the same ones each time. None among them
        means that no rows have arrived for a while.
    regime : passes, shuffling, rows held out.
    defer_signals : context manager that delays signals to the end of its block: see `fiol.training.signals`.
    skip_missing : leave out rows without a target, and count them (`missing`); otherwise they are an error.
    class_weight : a factor of the sample weight for every label; None for none.
    stopped : returns whether the data were cut short by a signal; then the pass is not ended.
    save : called with the learner at checkpoints, which come every `every_rows` rows and `every_seconds` seconds.
    watch : called with this run, scores, their rows (`TargetRows`) and whether they are held out; rows that are not
        were learned from after they had these scores.

    Losses are progressive: of every row before it is learned from, so that in the first pass they are losses on new
    rows. A row held out is scored after the others of its batch, once in every pass, by the model of that moment.
    Figures count from the beginning of the pass.

    >>> from fiol import FIOL, Learner, Squared, to_chunk
    >>> from fiol.readers.batch import Place
    >>> x = np.arange(1.0, 5.0)
    >>> batch = Batch(to_chunk(x[:, None]), 2.0 * x, None, None, Place("made up", 1), 4, 100)
    >>> run = Training(Learner(FIOL(Squared())), Task(Squared(), None, ""), lambda: iter([batch]), Regime(passes=2))
    >>> lines = [event for event in run.events() if isinstance(event, Line)]
    >>> [(line.number, line.rows, line.constant) for line in lines], run.learner.rounds
    ([(1, 4, 2.5), (2, 4, 2.5)], 8)
    """

    def __init__(
        self,
        learner: Learner,
        task: Task,
        batches: Callable[[], Iterator[Batch | None]],
        regime: Regime | None = None,
        *,
        defer_signals: Callable[[], AbstractContextManager[Any]] = nullcontext,
        skip_missing: bool = False,
        class_weight: Mapping[Any, float] | None = None,
        stopped: Callable[[], bool] = lambda: False,
        save: Callable[[Learner], None] | None = None,
        every_rows: float = float("inf"),
        every_seconds: float = float("inf"),
        watch: Callable[[Training, Any, TargetRows, bool], None] | None = None,
    ) -> None:
        self.learner, self.task, self.batches = learner, task, batches
        self.regime = Regime() if regime is None else regime
        self.defer_signals, self.skip_missing, self.class_weight = defer_signals, skip_missing, class_weight
        self.stopped = stopped
        self.save, self.every_rows, self.every_seconds = save, every_rows, every_seconds
        self.watch, self.compiling = watch, 0.0  #: seconds until the first row could be learned from
        self.number = 1  #: the pass, from 1
        self.rows = 0  #: learned from in all passes
        self.scored = 0  #: rows held out that were scored in this pass
        self.read, self.read_before = 0, 0  #: bytes read in this pass, and without the last batch
        self.missing = 0  #: rows left out for want of a target, in this pass
        self.metrics = self._new_metrics()
        self.base, self.rows_read = Base(), 0
        self.history: list[Line] = []
        self.finished = False
        self.best: Learner | None = None  #: the model after the best pass so far, if there is to be an early stop
        self.best_pass, self.best_loss = 0, float("inf")
        self.piece = max(1, WORK_AT_ONCE // max(1, len(learner.classes or ())))
        self._saved_rows, self._saved_at, self._rehearsed = 0, time.monotonic(), not learner.compiled

    # --- checkpoints --------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Where the run is, as plain JSON values; no times are among them."""
        return {
            "regime": dataclasses.asdict(self.regime),
            "pass": self.number,
            "rows": self.rows,
            "scored": self.scored,
            "missing": self.missing,
            "figures": self.metrics.to_json(),
            "piece": self.piece,
            "best": [self.best_pass, self.best_loss] if self.best_pass else None,
            "why": self.task.why,
            "finished": self.finished,
            "rows_read": self.rows_read,
            **({"base": list(self.base)} if self.base.rows else {}),
            **({"class_weight": [list(pair) for pair in self.class_weight.items()]} if self.class_weight else {}),
        }

    def note(self) -> None:
        """Write state, labels and history into `learner.meta`, as a file of the model is to have them."""
        meta = self.learner.meta
        meta["training"] = {**meta.get("training", {}), **self.state()}
        meta["history"] = [line.to_json() for line in self.history]
        if self.task.labels is not None:
            meta["labels"] = list(self.task.labels)

    def checkpoint(self) -> None:
        """Save the model as it is now, if there is somewhere to save it; whole, or not at all."""
        with self.defer_signals():
            self.note()
            if self.save is not None:
                self.save(self.learner)
            self._saved_rows, self._saved_at = self.rows, time.monotonic()

    def go_on_from(self, state: dict[str, Any], history: list[dict[str, Any]], best: Learner | None = None) -> None:
        """Be where another run was when it wrote this state into the file of its learner, which is this one's."""
        self.regime = Regime.from_json(state["regime"])
        self.number, self.rows, self.scored = state["pass"], state["rows"], state["scored"]
        self.missing, self.piece, self.finished = state["missing"], state["piece"], state["finished"]
        self.metrics = PassMetrics.from_json(state["figures"])
        self.history = [Line.from_json(line) for line in history]
        self.best_pass, self.best_loss = state["best"] or (0, float("inf"))
        self.best, self._saved_rows = best, self.rows
        self.base, self.rows_read = Base(*state.get("base", ())), state.get("rows_read", 0)

    def extend_from(self, state: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """Continue after the rows of a run of one pass, with rows that follow them.

        The result is that of a run that had all of the rows. ValueError for a run of which that cannot be so.
        """
        regime = Regime.from_json(state["regime"])
        if regime.passes > 1 or regime.shuffle:
            raise ValueError(
                "a model of several passes or of shuffled rows cannot be updated exactly: its rows would have been "
                "mixed with the new ones; train again with all rows"
            )
        if regime.holdout and not state["finished"]:
            raise ValueError("a run with rows held out must be finished (--resume) before new rows follow")
        self.go_on_from(state, history)
        self.finished, self.regime = False, regime
        self.base = Base(self.metrics.rows, self.scored, self.rows_read, self.missing)
        if self.history and not is_line(self.history[-1].rows):
            self.history.pop()  # the last line of a pass, which does not end there

    # --- the loop -----------------------------------------------------------------------------

    def events(self) -> Iterator[Advance | Line]:
        """Learn until the end, and tell: `Advance` after every piece of rows, a `Line` whenever the table grows."""
        while not self.finished:
            yield from self._one_pass()
            if self.stopped():
                return
            told = is_line(self.metrics.rows)
            with self.defer_signals():
                line = self._end_pass()
            if not told:
                yield line

    def _one_pass(self) -> Iterator[Advance | Line]:
        """The rest of the pass."""
        done, regime = self.metrics.rows, self.regime
        blocks, position = self._blocks(self.scored), self.base.rows
        if regime.shuffle:
            blocks = shuffled(blocks, regime.shuffle, regime.seed, self.number)
        for block in blocks:
            for start, stop in itertools.pairwise(self._cuts(block, position)):
                if position + stop <= done:
                    continue
                lines = self._learn(block.part(max(start, done - position), stop))
                yield Advance(self.number, self._bytes_learned(stop / block.size), self.rows)
                yield from lines
                if self._is_due():
                    self.checkpoint()
            position += block.size
        if self.stopped():
            return
        if position < done:
            raise ValueError(
                f"the data have {position:,} rows to learn from, but {done:,} were learned from before: other data?"
            )
        if position == self.base.rows and (not position or self.rows_read == self.base.rows_read):
            raise ValueError("there are no rows to learn from")

    def _cuts(self, block: TargetRows, position: int) -> list[int]:
        """Where pieces of a block start, and where the last one ends: at lines of the table, and where work is enough.

        `position` rows of the pass came before. Pieces follow from the rows alone, so that sums over them are the same
        whenever a run was stopped.
        """
        work = block.entries[1:] - block.entries[0] + np.arange(1, block.size + 1)
        pieces = work // self.piece
        return sorted({*cuts_at_lines(position, block.size), *(np.flatnonzero(np.diff(pieces)) + 1).tolist()})

    def _bytes_learned(self, share: float) -> int:
        """Return the bytes of the rows that were learned from; with shuffling, all that were read."""
        if self.regime.shuffle:
            return self.read
        return round(self.read_before + share * (self.read - self.read_before))

    def _blocks(self, scored: int) -> Iterator[TargetRows]:
        """The rows of the data to learn from; those held out are scored, but for the first `scored` of them."""
        regime = self.regime
        _, held_before, start, self.missing = self.base
        self.read = 0
        for batch in self.batches():
            if batch is None:
                if self._is_due():
                    self.checkpoint()
                continue
            self.read_before, self.read = self.read, batch.read
            rows, there = rows_of_batch(batch, self.task, self.skip_missing, self.class_weight)
            self.missing += int(np.count_nonzero(~there))
            stop, aside = start + batch.rows, None
            if regime.holdout:
                held = held_out_rows(start, stop, regime.holdout, regime.seed)
                chosen = np.flatnonzero(held & there)
                new = chosen[max(0, scored - held_before) :]
                held_before += len(chosen)
                if len(new):
                    aside = rows.taken(new)
                there &= ~held
            start = self.rows_read = stop
            if not there.all():
                rows = rows.taken(np.flatnonzero(there))
            if rows.size:
                yield rows
            if aside is not None:  # after the others: a file of one batch is not to be judged by an empty model
                self._score(aside)

    def _learn(self, rows: TargetRows) -> list[Line]:
        """A round per row, and their figures: both or neither. Returns the lines that the table has of them."""
        learner = self.learner
        if not self._rehearsed:
            started = time.monotonic()
            self._rehearse(rows.part(0, min(rows.size, ROWS_REHEARSED)))
            self.compiling = time.monotonic() - started
        again = self.number > 1 and learner.rounds >= MIN_STACK_ROWS
        with self.defer_signals():
            with learner.engine.freeze_stack() if again else nullcontext():
                scores = learner.learn(*rows)
            codes, lines = self._codes(rows.y), []
            for start, stop in itertools.pairwise(cuts_at_lines(self.metrics.rows, rows.size)):
                self.metrics.add(learner, scores[start:stop], codes[start:stop], rows.weights[start:stop])
                if is_line(self.metrics.rows):
                    lines.append(self._line())
            self.rows += rows.size
            if self.watch is not None:
                self.watch(self, scores, rows, False)
            return lines

    def _codes(self, y: Any) -> Any:
        """Targets as losses take them: codes of classes for a joint one."""
        return self.learner.core.codes_of(y) if isinstance(self.task.loss, JointLoss) else y

    def _score(self, rows: TargetRows) -> None:
        """The loss of rows held out, with the model of this moment."""
        learner = self.learner
        if isinstance(self.task.loss, JointLoss):
            learner.add_classes(rows.y.tolist())  # there is no loss of a class that nobody knows
        scores, codes = learner.scores(rows.X), self._codes(rows.y)
        mean = learner.core.mean_loss(scores, codes, rows.weights)
        with self.defer_signals():
            self.metrics.held_out.add(mean, float(rows.weights.sum()))
            self.scored += rows.size
            if self.watch is not None:
                self.watch(self, scores, rows, True)

    def _line(self) -> Line:
        """Add a line to the table."""
        self.history.append(self.metrics.line(self.number, self.task.loss, self.learner))
        return self.history[-1]

    def current_line(self) -> Line:
        """Return the line that the table would have now; nothing changes."""
        return copy.deepcopy(self.metrics).line(self.number, self.task.loss, self.learner)

    def _new_metrics(self) -> PassMetrics:
        return PassMetrics(len(self.learner.classes or ()))

    def _end_pass(self) -> Line:
        """The last line of a pass; the next pass begins, or the run is finished."""
        regime, held = self.regime, self.metrics.held_out
        if not is_line(self.metrics.rows):
            self.history.append(self.current_line())  # the pass may go on: see `extend_from`
        elif held.mass:  # rows were scored after that line
            self.history[-1] = self.history[-1]._replace(held_out=held.value)
        line = self.history[-1]
        if line.held_out is not None and line.held_out < self.best_loss:
            self.best_pass, self.best_loss = self.number, line.held_out
            if regime.patience is not None:
                self.best = self.learner.copy()
        waited = self.number - self.best_pass
        patient = regime.patience is None or not self.best_pass or waited < regime.patience
        self.finished = self.number >= regime.passes or not patient
        if not self.finished:
            self.number, self.scored, self.metrics = self.number + 1, 0, self._new_metrics()
        elif self.best is not None and self.best_pass < self.number:
            self.best.meta = self.learner.meta
            self.learner = self.best
        return line

    def _is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        if self.save is None:
            return False
        return (
            self.rows - self._saved_rows >= self.every_rows or time.monotonic() - self._saved_at >= self.every_seconds
        ) and self.rows > self._saved_rows

    def _rehearse(self, rows: TargetRows) -> None:
        """Let a learner like this one learn from some rows, and make a line of the table.

        So what has to be compiled is compiled while signals are heard, and before the time of rows is taken.
        """
        like, self._rehearsed = self.learner, True
        options = {"intercept": like.intercept_fitted, "average": like.averages, "dtype": like.dtype}
        width, bits = (like.width, None) if like.bits is None else (None, min(like.bits, BITS_REHEARSED))
        try:
            twin = Learner(like.update, n_features=width, bits=bits, **options)
        except TypeError:  # with another number of features it cannot be
            return
        for part in (rows, rows):  # the second time, columns far from 0 are known
            scores = twin.learn(*part)
        codes = twin.core.codes_of(rows.y) if isinstance(self.task.loss, JointLoss) else rows.y
        metrics = PassMetrics()
        metrics.add(twin, scores, codes, rows.weights)
        metrics.line(1, self.task.loss, twin)
        twin.scores(rows.X)


def rows_of_batch(
    batch: Batch, task: Task, skip_missing: bool = False, class_weight: Mapping[Any, float] | None = None
) -> tuple[TargetRows, Any]:
    """Return the rows of a batch with targets as the loss takes them, and which of the rows have a target.

    Raises
    ------
    UnclearTargetError : with the place, if a target is wrong, or missing and `skip_missing` is False.
    """
    if batch.y is None:
        raise UnclearTargetError(f"{batch.place}: the rows have no target")
    where = f"in the {batch.rows:,} rows from {batch.place} on"
    try:
        y, there = task.coded(batch.y)
    except UnclearTargetError as error:
        raise UnclearTargetError(f"{where}: {error}") from error
    if not (skip_missing or there.all()):
        raise UnclearTargetError(f"{where}: row {int(np.argmin(there)) + 1} of these has no target")
    X = batch.X if isinstance(batch.X, (Chunk, NamedRows)) else to_chunk(batch.X)
    weights = np.ones(batch.rows) if batch.weights is None else np.asarray(batch.weights, np.float64)
    if class_weight:
        weights = weights * weights_of_labels(y, task, class_weight)
    return TargetRows(X, y, weights), there


def weights_of_labels(y: Any, task: Task, class_weight: Mapping[Any, float]) -> Any:
    """Return the weight of the label of every row, 1 for labels that have none; y is as `Task.coded` returns it."""
    if task.labels is not None:
        negative, positive = (class_weight.get(label, 1.0) for label in task.labels)
        return np.where(y > 0.0, positive, negative)
    return np.array([class_weight.get(label, 1.0) for label in y.tolist()])


def cuts_at_lines(position: int, size: int) -> list[int]:
    """Where so many rows, after `position` others of the pass, are cut by lines of the table; 0 and `size` included.

    >>> cuts_at_lines(0, 2500), cuts_at_lines(2200, 2000), cuts_at_lines(4000, 10)
    ([0, 1000, 2000, 2500], [0, 1800, 2000], [0, 10])
    """
    cuts, line = [0], FIRST_LINE
    while line < position + size:
        if line > position:
            cuts.append(line - position)
        line *= 2
    return [*cuts, size]


def is_line(rows: int) -> bool:
    """Whether the table has a line after so many rows.

    >>> [rows for rows in (0, 500, 1000, 2000, 3000, 4000) if is_line(rows)]
    [1000, 2000, 4000]
    """
    return rows >= FIRST_LINE and rows % FIRST_LINE == 0 and (rows // FIRST_LINE).bit_count() == 1
