"""Everything that the dashboard shows, as one JSON object."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fiol.models.one_vs_rest import OneVsRest
from fiol.reports.run_page import loss_name
from fiol.server.figures import Figures
from fiol.server.history import History
from fiol.server.messages import encode
from fiol.server.registry import Registry
from fiol.server.served_model import ServedModel
from fiol.server.weight_changes import WeightChanges
from fiol.training.metrics import finite_or_none

#: Seconds for which a status is kept: any number of dashboards costs as much as one.
STATUS_SECONDS = 0.5
#: Seconds between two comparisons of weights, or this multiple of the processor time of one, if that is more.
COMPARE_SECONDS, COMPARE_FACTOR = 2.0, 50.0
#: Metrics that grow with the number of rows; only those of the shown model are sent.
DETAILS = ("windows", "calibration", "members", "drift")


class StatusPage:
    """The state of a server for its dashboard, made at most twice a second for every model that is shown."""

    def __init__(self, registry: Registry, figures: Figures) -> None:
        self.registry, self.figures = registry, figures
        self.history = History(registry, figures)
        self.changes: dict[str, WeightChanges] = {}
        self.compare_next = 0.0
        self.made: dict[str, tuple[float, bytes]] = {}  #: by model: when, and what

    def json(self, shown: str | None = None) -> bytes:
        """Return the status as JSON, with the details of one model and its shadows; of the first one by default."""
        name = self.shown(shown)
        when, found = self.made.get(name, (0.0, b""))
        if time.monotonic() - when > STATUS_SECONDS:
            found = encode({**self.status(name), "shown": name, "sample": self.history.last(name)})
            self.made = {one: made for one, made in self.made.items() if one in self.registry.models}
            self.made[name] = time.monotonic(), found
        return found

    def history_json(self, shown: str | None = None) -> bytes:
        """Return the samples of the last minutes as JSON."""
        return encode(self.history.columns(self.shown(shown)))

    def shown(self, name: str | None) -> str:
        """Return the name of the model to show: the first live one, if there is none of the name."""
        models = self.registry.models
        if name is not None and name in models:
            return name
        return next((one.name for one in list(models.values()) if one.shadow_of is None), "")

    def sample(self) -> None:
        """Add a sample to the history."""
        self.history.sample({name: one.nonzeros for name, one in self.changes.items()})

    @property
    def compare_due(self) -> bool:
        """Whether weights are to be compared again."""
        return time.monotonic() >= self.compare_next

    def compare_weights(self) -> None:
        """Compare the weights of all models with those of the last minutes, in any thread."""
        started, models = time.thread_time(), dict(self.registry.models)  # waiting for the processor does not count
        changes = {name: self.changes.get(name) or WeightChanges() for name in models}
        for name, served in models.items():
            changes[name].compare(served.reader.snapshot)
        self.changes, cost = changes, time.thread_time() - started
        self.compare_next = time.monotonic() + max(COMPARE_SECONDS, COMPARE_FACTOR * cost)

    def status(self, shown: str | None = None) -> dict[str, Any]:
        """Return the status as plain JSON values; with the details of all models, or of the shown one alone."""
        from fiol import __version__

        models = list(self.registry.models.values())
        return {
            "version": __version__,
            "time": time.time(),
            "started": self.figures.started,
            "requests": self.figures.status(),
            "journal": self.journal(),
            "models": [self.model(one, shown is None or shown in (one.name, one.shadow_of)) for one in models],
        }

    def journal(self) -> dict[str, Any]:
        """Return the figures of the journal."""
        writer, journal = self.registry.writer, self.registry.journal
        commits = np.array(list(writer.commit_seconds))
        p50, p99 = (float(np.quantile(commits, q)) if len(commits) else None for q in (0.5, 0.99))
        return {
            "position": writer.position,
            "first": journal.first,
            "bytes": journal.size(),
            "commits": writer.commits,
            "rows_per_commit": finite_or_none(writer.group_rows / writer.commits) if writer.commits else None,
            "commit_p50": p50,
            "commit_p99": p99,
            "queue_rows": writer.waiting_rows,
            "queue_limit": writer.options.queue_rows,
            "pending": writer.join_labels.pending,
            "pending_limit": writer.options.most_pending,
            "early": writer.join_labels.early,
            "failed": writer.failed,
            "replayed": self.registry.replayed,
        }

    def model(self, served: ServedModel, details: bool = True) -> dict[str, Any]:
        """Return the figures of one model, by its reader and its metrics."""
        reader, snapshots = served.reader, self.registry.snapshots.list(served.name)
        newest = snapshots[0] if snapshots else None
        changes = self.changes.get(served.name)
        metrics, join = served.status, self.registry.writer.join_labels
        return {
            "name": served.name,
            "shadow_of": served.shadow_of,
            "shadow_errors": served.errors,
            "update": served.model.update.brief(),
            "loss": "error rate" if isinstance(served.model, OneVsRest) else loss_name(served.task),
            "labels": reader.labels,
            "rounds": served.model.rounds,
            "position": served.position,
            "served_round": reader.rounds,
            "lag_rounds": served.model.rounds - reader.rounds,
            "features": reader.snapshot.n_features,
            "metrics_error": served.metrics_error,
            "unknown_keys": served.model.unknown_keys,
            "nonzeros": changes.nonzeros if changes else None,
            "moved": changes.moved if changes and details else [],
            "moved_seconds": changes.seconds if changes else None,
            "rules": served.rules,
            "pending": join.pending_of[served.name],
            "early": join.early_of[served.name],
            "snapshots": snapshots if details else [],
            "replay_length": served.position - (newest.position if newest else 0),
            "last_snapshot": newest.time if newest else None,
            "metrics": metrics if details else {key: one for key, one in metrics.items() if key not in DETAILS},
        }
