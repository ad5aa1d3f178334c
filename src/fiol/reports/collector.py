"""Collect the metrics of a learner's predictions during training, for its report."""

from __future__ import annotations

from typing import Any

from fiol.components.row import Floats
from fiol.learner import Learner
from fiol.training.evaluation import Evaluation
from fiol.training.task_inference import Task


class MetricsCollector:
    """Evaluate a run by its held-out rows in the last pass; without such rows, by all rows of the first pass.

    Scores are from before the rows were learned from. A resumed run is evaluated by the rows after that, and not at all
    after the first pass.
    """

    def __init__(self, learner: Learner, task: Task, held_out: bool) -> None:
        self.evaluation, self.held_out, self.number = Evaluation(learner, task), held_out, 1

    def __call__(self, run: Any, scores: Floats, rows: Any, held_out: bool) -> None:
        """Add scores of rows; `Training(watch=...)` calls it."""
        if held_out != self.held_out or (not held_out and run.number > 1):
            return
        if run.number != self.number:
            self.evaluation, self.number = Evaluation(run.learner, self.evaluation.task), run.number
        self.evaluation.add(scores, rows.y, rows.weights)

    def evaluated_on(self, run: Any) -> str:
        """Return which rows the metrics are of."""
        rows = f"{self.evaluation.rows:,} rows"
        if self.held_out:
            return f"{rows} held out in pass {self.number}, each by the model of its moment"
        new = "" if run.rows == self.evaluation.rows * run.number else " of this session"
        return f"{rows}{new}, each before it was learned from"
