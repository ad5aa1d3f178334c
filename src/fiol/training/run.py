"""The training loop: batches of a reader in; a model, its metrics and its checkpoints out.

Results depend on the rows, their order and a seed only. So a stopped run continues from its last checkpoint to the same
model and metrics, bit for bit: it reads the rows from the beginning, shuffles them as before, and skips those that the
model has learned from.
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
from fiol.features.column_names import needs_moments
from fiol.features.containers import to_chunk
from fiol.features.feature_moments import FeatureMoments
from fiol.features.named_rows import NamedRows
from fiol.learner import Learner
from fiol.models.epochs import MIN_STACK_ROWS
from fiol.option_names import option_text
from fiol.readers.batch import Batch
from fiol.training.metrics import Line, Mean, PassMetrics
from fiol.training.rows import TargetRows, rows_together
from fiol.training.shuffling import held_out_rows, shuffled
from fiol.training.task_inference import Task, UnclearTargetError

#: Rows before the first line of the table; twice as many before each next one.
FIRST_LINE = 1000
#: Entries and rows (times classes) of a piece of rows: about ten milliseconds.
WORK_AT_ONCE = 2**17
#: Rows of the data between two scorings of held-out rows.
ROWS_PER_SCORING = 2**12
#: Rows for compiling: enough to see which columns are far from 0.
ROWS_REHEARSED = 64


#: Features of a learner that hashes are hashed into at most 2 to this power in the trial.
BITS_REHEARSED = 8


@dataclasses.dataclass(frozen=True)
class Regime:
    """Number of passes, order of rows, and held-out rows. Plain values, which model files store."""

    passes: int = 1  #: largest number of passes
    shuffle: int = 0  #: rows that the shuffling buffer holds; 0 leaves rows in their order
    seed: int = 1  #: random seed for shuffling and hold-out
    holdout: float = 0.0  #: fraction of rows that are never learned from
    patience: int | None = None  #: passes without improvement before the run stops and returns to the best; None: never

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
            raise ValueError("patience needs held-out rows: set holdout")

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
    """Progress of a run, after every piece of rows."""

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
    """One training run: `for event in Training(learner, task, batches, regime).events(): ...`

    Parameters
    ----------
    learner : the learner, which may have learned before.
    task : the loss of the learner, and how targets are written: see `fiol.training.task_inference`.
    batches : returns an iterator of `Batch`, the same rows in every pass; None among them means that no rows have
        arrived for a while.
    regime : passes, shuffling, held-out rows.
    defer_signals : context manager that delays signals to the end of its block: see `fiol.training.signals`.
    skip_missing : skip rows without a target, and count them (`missing`); otherwise they are an error.
    class_weight : a factor of the sample weight for every label; None for none.
    stopped : returns whether the data were cut short by a signal; then the pass is not ended.
    save : called with the learner at checkpoints, every `every_rows` rows and every `every_seconds` seconds.
    watch : called with this run, scores, their rows (`TargetRows`) and whether they are held out. All scores are from
        before the rows were learned from.

    Losses are progressive: that of a row is computed before the model learns from it. Held-out rows are scored after
    the other rows of their batch, once in every pass. Metrics start again with every pass.

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
        self.watch = watch
        self.number = 1  #: the pass, from 1
        self.rows = 0  #: learned from in all passes
        self.scored = 0  #: held-out rows that were scored in this pass
        self.read, self.read_before = 0, 0  #: bytes read in this pass, and without the last batch
        self.missing = 0  #: rows without a target in this pass
        self.metrics = self._new_metrics()
        self.moments = FeatureMoments.of_features([])  #: of columns of numbers, in the first pass
        self.base, self.rows_read = Base(), 0
        self.history: list[Line] = []
        self.finished = False
        self.best: Learner | None = None  #: the model after the best pass so far, with `patience`
        self.best_pass, self.best_loss = 0, float("inf")
        self.piece = max(1, WORK_AT_ONCE // max(1, len(learner.classes or ())))
        self._saved_rows, self._saved_at, self._rehearsed = 0, time.monotonic(), not learner.compiled

    # --- checkpoints --------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the position of the run as plain JSON values, without times."""
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
        """Write state, labels and history into `learner.meta`, for the model file."""
        meta = self.learner.meta
        meta["training"] = {**meta.get("training", {}), **self.state()}
        meta["history"] = [line.to_json() for line in self.history]
        if self.moments.names:
            meta["moments"] = self.moments.to_json()
        if self.task.labels is not None:
            meta["labels"] = list(self.task.labels)

    def checkpoint(self) -> None:
        """Save the model atomically, if `save` is given."""
        with self.defer_signals():
            self.note()
            if self.save is not None:
                self.save(self.learner)
            self._saved_rows, self._saved_at = self.rows, time.monotonic()

    def go_on_from(self, state: dict[str, Any], history: list[dict[str, Any]], best: Learner | None = None) -> None:
        """Continue from the state that another run stored in the file of this learner."""
        self.regime = Regime.from_json(state["regime"])
        self.number, self.rows, self.scored = state["pass"], state["rows"], state["scored"]
        self.missing, self.piece, self.finished = state["missing"], state["piece"], state["finished"]
        self.metrics = PassMetrics.from_json(state["figures"])
        self.history = [Line.from_json(line) for line in history]
        self.best_pass, self.best_loss = state["best"] or (0, float("inf"))
        self.best, self._saved_rows = best, self.rows
        self.base, self.rows_read = Base(*state.get("base", ())), state.get("rows_read", 0)
        if "moments" in self.learner.meta:
            self.moments = FeatureMoments.from_json(self.learner.meta["moments"])

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
            raise ValueError(
                f"a run with rows held out must be finished ({option_text('resume', True)}) before new rows follow"
            )
        self.go_on_from(state, history)
        self.finished, self.regime = False, regime
        self.base = Base(self.metrics.rows, self.scored, self.rows_read, self.missing)
        if self.history and not is_line(self.history[-1].rows):
            self.history.pop()  # the last line of a pass, which does not end there

    # --- the loop -----------------------------------------------------------------------------

    def events(self) -> Iterator[Advance | Line]:
        """Learn until the end; yield an `Advance` after every piece of rows, and every new `Line` of the table."""
        while not self.finished:
            yield from self._one_pass()
            if self.stopped():
                return
            reported = is_line(self.metrics.rows)
            with self.defer_signals():
                line = self._end_pass()
            if not reported:
                yield line

    def _one_pass(self) -> Iterator[Advance | Line]:
        """Learn from the rest of the pass; see `events`."""
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
                f"the data have {position:,} rows to learn from, but {done:,} were learned from before: they changed"
            )
        if position == self.base.rows and (not position or self.rows_read == self.base.rows_read):
            raise ValueError("there are no rows to learn from")

    def _cuts(self, block: TargetRows, position: int) -> list[int]:
        """Return the starts of the pieces of a block, cut at table lines and after enough work, and the end.

        `position` rows of the pass came before. Pieces depend on the rows only, so that sums over them do not depend on
        where a run was stopped.
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
        """Yield the rows to learn from; score held-out rows, except for the first `scored` of them.

        Held-out rows are scored after every `ROWS_PER_SCORING` rows of a file and at its end, whatever the batches.
        """
        regime, waiting, file = self.regime, list[TargetRows](), ""
        _, held_before, start, self.missing = self.base
        self.read, origin = 0, start
        for batch in self.batches():
            if batch is None:
                if self._is_due():
                    self.checkpoint()
                continue
            if batch.place.file != file:
                file, origin = batch.place.file, start
                self._score_waiting(waiting)
            rows, there = rows_of_batch(batch, self.task, self.skip_missing, self.class_weight)
            refuse_unknown_class(batch, rows.y, there, self.learner.core.labels)
            self.missing += int(np.count_nonzero(~there))
            cuts, before = scoring_cuts(start - origin, batch.rows) if regime.holdout else [0, batch.rows], self.read
            for first, last in itertools.pairwise(cuts):
                self.read_before = self.read
                self.read = before + round(last / batch.rows * (batch.read - before))
                learned = there[first:last]
                if regime.holdout:
                    held = held_out_rows(start + first, start + last, regime.holdout, regime.seed)
                    chosen = first + np.flatnonzero(held & learned)
                    new = chosen[max(0, scored - held_before) :]
                    held_before += len(chosen)
                    if len(new):
                        waiting.append(rows.taken(new))
                    learned = learned & ~held
                self.rows_read = start + last
                some = rows.part(first, last) if learned.all() else rows.taken(first + np.flatnonzero(learned))
                if some.size:
                    yield some
                if (start - origin + last) % ROWS_PER_SCORING == 0:
                    self._score_waiting(waiting)
            start += batch.rows
        if not self.stopped():
            self._score_waiting(waiting)

    def _learn(self, rows: TargetRows) -> list[Line]:
        """Learn from rows and add their metrics, atomically; return the new lines of the table."""
        learner = self.learner
        if not self._rehearsed:
            self._rehearse(rows.part(0, min(rows.size, ROWS_REHEARSED)))
        again = self.number > 1 and learner.rounds >= MIN_STACK_ROWS
        with self.defer_signals():
            with learner.engine.freeze_stack() if again else nullcontext():
                scores = learner.core.learn(*rows)
            codes, lines = self.task.codes(learner, rows.y), []
            for start, stop in itertools.pairwise(cuts_at_lines(self.metrics.rows, rows.size)):
                self.metrics.add(learner, scores[start:stop], codes[start:stop], rows.weights[start:stop])
                if is_line(self.metrics.rows):
                    lines.append(self._line())
            self.rows += rows.size
            if self.number == 1:
                self._add_moments(rows.X)
            if self.watch is not None:
                self.watch(self, scores, rows, False)
            return lines

    def _add_moments(self, X: Any) -> None:
        """Add rows to the moments of the columns of a table that are numbers, and of missing values."""
        encoding = self.learner.table_encoding
        if encoding is None or not isinstance(X, NamedRows):
            return
        columns, known = frozenset(encoding.names), frozenset(self.moments.names)
        self.moments.include([name for name in X.names if needs_moments(name, columns) and name not in known])
        places = {name: k for k, name in enumerate(self.moments.names)}
        self.moments.add(X.chunk, np.array([places.get(name, -1) for name in X.names], np.int64))

    def _score_waiting(self, waiting: list[TargetRows]) -> None:
        """Add the loss of held-out rows with the current model, and remove them from the list."""
        if not waiting:
            return
        rows, learner = rows_together(waiting), self.learner
        waiting.clear()
        if isinstance(self.task.loss, JointLoss):
            learner.add_classes(rows.y.tolist())  # an unknown class has no loss
        scores, codes = learner.scores(rows.X), self.task.codes(learner, rows.y)
        mean = learner.core.mean_loss(scores, codes, rows.weights)
        with self.defer_signals():
            self.metrics.held_out.add(mean, float(rows.weights.sum()))
            self.scored += rows.size
            if self.watch is not None:
                self.watch(self, scores, rows, True)

    def _line(self) -> Line:
        """Append a line to the table and return it."""
        self.history.append(self.metrics.line(self.number, self.task.loss, self.learner))
        return self.history[-1]

    def current_line(self) -> Line:
        """Return the line that the table would have now; nothing changes."""
        return copy.deepcopy(self.metrics).line(self.number, self.task.loss, self.learner)

    def summed_loss(self) -> Mean:
        """Return the sum of losses of the rows of this pass so far, and of their weights; nothing changes."""
        metrics = copy.deepcopy(self.metrics)
        metrics.flush(self.learner)
        return metrics.loss

    def _new_metrics(self) -> PassMetrics:
        return PassMetrics(len(self.learner.classes or ()))

    def _end_pass(self) -> Line:
        """Return the last line of a pass, and start the next pass or finish the run."""
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
        """Return whether a checkpoint is due."""
        if self.save is None:
            return False
        return (
            self.rows - self._saved_rows >= self.every_rows or time.monotonic() - self._saved_at >= self.every_seconds
        ) and self.rows > self._saved_rows

    def _rehearse(self, rows: TargetRows) -> None:
        """Compile everything: let a new learner of the same kind learn from some rows, and make a line of the table.

        Signals are handled meanwhile.
        """
        like, self._rehearsed = self.learner, True
        options = {"intercept": like.intercept_fitted, "average": like.averages, "dtype": like.dtype}
        width, bits = (like.width, None) if like.bits is None else (None, min(like.bits, BITS_REHEARSED))
        try:
            twin = Learner(like.update, n_features=width, bits=bits, **options)
        except TypeError:  # the update needs another number of features
            return
        for part in (rows, rows):  # the second time, columns far from 0 are known
            scores = twin.learn(*part)
        codes = self.task.codes(twin, rows.y)
        metrics = PassMetrics()
        metrics.add(twin, scores, codes, rows.weights)
        metrics.line(1, self.task.loss, twin)
        twin.scores(rows.X)


def rows_of_batch(
    batch: Batch, task: Task, skip_missing: bool = False, class_weight: Mapping[Any, float] | None = None
) -> tuple[TargetRows, Any]:
    """Return the rows of a batch with their targets in the form of the loss, and a mask of rows with a target.

    Raise UnclearTargetError, with the place, if a target is invalid, or missing without `skip_missing`.
    """
    if batch.y is None:
        raise UnclearTargetError(f"{batch.place}: the rows have no target")
    try:
        y, there = task.coded(batch.y)
    except UnclearTargetError as error:
        where = f"in the {batch.rows:,} rows from {batch.place} on" if error.row is None else batch.place_of(error.row)
        raise UnclearTargetError(f"{where}: {error}") from error
    if not (skip_missing or there.all()):
        raise UnclearTargetError(f"{batch.place_of(int(np.argmin(there)))} has no target")
    X = batch.X if isinstance(batch.X, (Chunk, NamedRows)) else to_chunk(batch.X)
    weights = np.ones(batch.rows) if batch.weights is None else np.asarray(batch.weights, np.float64)
    if class_weight:
        weights = weights * weights_of_labels(y, task, class_weight)
    return TargetRows(X, y, weights), there


def refuse_unknown_class(batch: Batch, y: Any, there: Any, labels: Any) -> None:
    """Raise UnclearTargetError, with the place, for a label that is none of the classes, if a model takes no others."""
    if labels is None or not labels.closed:
        return
    for row, label in enumerate(y.tolist()):
        if there[row] and label not in labels.codes:
            raise UnclearTargetError(f"{batch.place_of(row)}: {label!r} is none of the classes {labels.classes}")


def weights_of_labels(y: Any, task: Task, class_weight: Mapping[Any, float]) -> Any:
    """Return the weight of the label of every row, 1 for labels that have none; y is as `Task.coded` returns it."""
    if task.labels is not None:
        negative, positive = (class_weight.get(label, 1.0) for label in task.labels)
        return np.where(y > 0.0, positive, negative)
    return np.array([class_weight.get(label, 1.0) for label in y.tolist()])


def cuts_at_lines(position: int, size: int) -> list[int]:
    """Return where `size` rows after `position` others are cut by lines of the table, with 0 and `size`.

    >>> cuts_at_lines(0, 2500), cuts_at_lines(2200, 2000), cuts_at_lines(4000, 10)
    ([0, 1000, 2000, 2500], [0, 1800, 2000], [0, 10])
    """
    cuts, line = [0], FIRST_LINE
    while line < position + size:
        if line > position:
            cuts.append(line - position)
        line *= 2
    return [*cuts, size]


def scoring_cuts(position: int, size: int) -> list[int]:
    """Return where `size` rows after `position` others are cut for held-out rows to be scored, with 0 and `size`.

    >>> scoring_cuts(4000, 5000), scoring_cuts(4096, 10)
    ([0, 96, 4192, 5000], [0, 10])
    """
    first = ROWS_PER_SCORING - position % ROWS_PER_SCORING
    return [0, *range(first, size, ROWS_PER_SCORING), size]


def is_line(rows: int) -> bool:
    """Return whether the table has a line after this number of rows.

    >>> [rows for rows in (0, 500, 1000, 2000, 3000, 4000) if is_line(rows)]
    [1000, 2000, 4000]
    """
    return rows >= FIRST_LINE and rows % FIRST_LINE == 0 and (rows // FIRST_LINE).bit_count() == 1
