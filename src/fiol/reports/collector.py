"""What the predictions of a learner are worth while it learns: those for rows that it has not learned from."""

from __future__ import annotations

from typing import Any

from fiol.components.row import Floats
from fiol.learner import Learner
from fiol.training.evaluation import Evaluation
from fiol.training.task_inference import Task


class MetricsCollector:
    """Judges a run by the rows held out in the last pass; without such rows, by all of the first pass.

    Those have their scores from before they were learned from. A run that goes on is judged by the rows after that,
    and not at all if the first pass is over.
    """

    def __init__(self, learner: Learner, task: Task, held_out: bool) -> None:
        self.evaluation, self.held_out, self.number = Evaluation(learner, task), held_out, 1

    def __call__(self, run: Any, scores: Floats, rows: Any, held_out: bool) -> None:
        """Take in scores of rows: as `Training(watch=...)` calls it."""
        if held_out != self.held_out or (not held_out and run.number > 1):
            return
        if run.number != self.number:
            self.evaluation, self.number = Evaluation(run.learner, self.evaluation.task), run.number
        self.evaluation.add(scores, rows.y, rows.weights)

    def judged(self, run: Any) -> str:
        """By which rows."""
        rows = f"{self.evaluation.rows:,} rows"
        if self.held_out:
            return f"{rows} held out in pass {self.number}, each by the model of its moment"
        new = "" if run.rows == self.evaluation.rows * run.number else " of this session"
        return f"{rows}{new}, each before it was learned from"
