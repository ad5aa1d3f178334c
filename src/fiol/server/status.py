"""Everything that the dashboard shows, as one JSON object."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fiol.server.figures import Figures
from fiol.server.messages import encode
from fiol.server.registry import Registry
from fiol.server.served_model import MOVED_SHOWN, ServedModel
from fiol.training.metrics import finite_or_none

#: Seconds for which a status is kept: any number of dashboards costs as much as one.
STATUS_SECONDS = 0.5
#: Seconds between two weights that are compared.
MOVED_SECONDS = 60.0


class StatusPage:
    """The state of a server for its dashboard, made at most twice a second."""

    def __init__(self, registry: Registry, figures: Figures) -> None:
        self.registry, self.figures = registry, figures
        self.made, self.bytes = 0.0, b""
        self.weights: dict[str, tuple[float, dict[Any, float]]] = {}

    def json(self) -> bytes:
        """Return the status as JSON."""
        if time.monotonic() - self.made > STATUS_SECONDS:
            self.bytes, self.made = encode(self.status()), time.monotonic()
        return self.bytes

    def status(self) -> dict[str, Any]:
        """Return the status as plain JSON values."""
        from fiol import __version__

        return {
            "version": __version__,
            "time": time.time(),
            "started": self.figures.started,
            "requests": self.figures.status(),
            "journal": self.journal(),
            "models": [self.model(served) for served in list(self.registry.models.values())],
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

    def model(self, served: ServedModel) -> dict[str, Any]:
        """Return the figures of one model, by its reader and its metrics."""
        reader, snapshots = served.reader, self.registry.snapshots.list(served.name)
        newest = snapshots[0] if snapshots else None
        weights = weights_by_name(reader.snapshot)
        return {
            "name": served.name,
            "shadow_of": served.shadow_of,
            "shadow_errors": served.errors,
            "update": served.model.update.brief(),
            "labels": reader.labels,
            "rounds": served.model.rounds,
            "position": served.position,
            "served_round": reader.rounds,
            "lag_rounds": served.model.rounds - reader.rounds,
            "features": reader.snapshot.n_features,
            "nonzeros": sum(weight != 0.0 for weight in weights.values()) if weights else None,
            "unknown_keys": served.model.unknown_keys,
            "moved": self.moved(served.name, weights),
            "rules": served.rules,
            "snapshots": snapshots,
            "replay_length": served.position - (newest.position if newest else 0),
            "last_snapshot": newest.time if newest else None,
            "metrics": served.status,
        }

    def moved(self, name: str, weights: dict[Any, float]) -> list[dict[str, Any]]:
        """Return the weights that moved most in the last minute, by name."""
        now = time.monotonic()
        when, before = self.weights.get(name, (now, weights))
        if name not in self.weights or now - when > MOVED_SECONDS:
            self.weights[name] = now, weights
        changes = {
            key: weight - before.get(key, 0.0) for key, weight in weights.items() if weight != before.get(key, 0.0)
        }
        largest = sorted(changes, key=lambda key: abs(changes[key]), reverse=True)[:MOVED_SHOWN]
        return [
            {"name": str(key), "weight": finite_or_none(weights[key]), "change": finite_or_none(changes[key])}
            for key in largest
        ]


def weights_by_name(snapshot: Any) -> dict[Any, float]:
    """Return the weight of every feature by name or number, for classes the largest; nothing if there are none."""
    try:
        weights = snapshot.weights
    except TypeError:  # an ensemble that is not linear
        return {}
    if weights.ndim == 2:
        weights = weights[np.abs(weights).argmax(axis=0), np.arange(weights.shape[1])] if len(weights) else weights[:0]
    names = snapshot.names
    return dict(zip(range(len(weights)) if names is None else names, weights.tolist(), strict=False))
