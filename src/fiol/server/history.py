"""`History`: figures of the last minutes, sampled once a second, which the dashboard draws."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from fiol.server.figures import Durations, Figures
from fiol.server.model_metrics import digits
from fiol.server.registry import Registry

#: Samples that are kept, and the seconds between two of them.
SAMPLES_KEPT, SAMPLE_SECONDS = 900, 1.0
#: Samples over which rates and quantiles are taken.
SPAN = 10
#: Routes whose durations are drawn, by the name of the series.
TIMED = {"predict": "/models/{name}/predict", "learn": "/models/{name}/learn"}
#: Counters of a model that become rates.
FLOWS = ("predicted", "labeled", "learned", "expired")

Columns = dict[str, list[float | None]]


class Series:
    """Samples by name, the newest last; all names have the same number of samples.

    >>> series = Series()
    >>> series.add({"time": 1.0, "queue": 3})
    >>> series.add({"time": 2.0, "queue": None})
    >>> series.columns()
    {'time': [1.0, 2.0], 'queue': [3, None]}
    """

    def __init__(self) -> None:
        self.samples: deque[dict[str, Any]] = deque(maxlen=SAMPLES_KEPT)

    def add(self, sample: dict[str, Any]) -> None:
        """Add one sample."""
        self.samples.append(sample)

    def columns(self) -> Columns:
        """Return the samples as columns."""
        return {name: [one[name] for one in self.samples] for name in (self.samples[-1] if self.samples else ())}


class History:
    """Samples of the server and of every model."""

    def __init__(self, registry: Registry, figures: Figures) -> None:
        self.registry, self.figures = registry, figures
        self.server, self.models = Series(), dict[str, Series]()
        #: Counters of the last samples, for rates: time, commits, requests, errors, counts of durations, flows.
        self.counters: deque[dict[str, Any]] = deque(maxlen=SPAN + 1)

    def sample(self, nonzeros: dict[str, int | None]) -> None:
        """Add a sample of everything; `nonzeros` has the number of weights that are not 0 by model."""
        now = self._counters()
        self.counters.append(now)
        before = self.counters[0]
        seconds = max(now["time"] - before["time"], SAMPLE_SECONDS)
        writer = self.registry.writer
        count = now["commits"] - before["commits"]
        commits = list(writer.commit_seconds)[-count:] if count else []
        commit_p50, commit_p99 = np.quantile(commits, (0.5, 0.99)).tolist() if commits else (None, None)
        when = time.time()
        sample: dict[str, Any] = {
            "time": round(when, 1),
            "requests": digits((now["requests"] - before["requests"]) / seconds),
            "errors": digits((now["errors"] - before["errors"]) / seconds),
            "commit_p50": digits(commit_p50),
            "commit_p99": digits(commit_p99),
            "queue_rows": writer.waiting_rows,
            "pending": writer.join_labels.pending,
        }
        for name in TIMED:
            recent = durations_between(before["durations"].get(name), now["durations"].get(name))
            sample |= {f"{name}_p{100 * q:.0f}": digits(recent.quantile(q)) for q in (0.5, 0.99)}
        self.server.add(sample)
        self.models = {name: self.models.get(name) or Series() for name in now["flows"]}
        for name, flows in now["flows"].items():
            old = before["flows"].get(name, flows)
            rates = {flow: digits(max(0, flows[flow] - old[flow]) / seconds) for flow in FLOWS}
            self.models[name].add({"time": round(when, 1), **rates, "nonzeros": nonzeros.get(name)})

    def _counters(self) -> dict[str, Any]:
        figures = self.figures
        durations = {
            name: figures.durations[route].counts for name, route in TIMED.items() if route in figures.durations
        }
        return {
            "time": time.monotonic(),
            "commits": self.registry.writer.commits,
            "requests": sum(figures.requests.values()),
            "errors": sum(count for (_, status), count in figures.requests.items() if status >= 400),
            "durations": {name: list(counts) for name, counts in durations.items()},
            "flows": {
                name: {flow: served.metrics.labels.get(flow, 0) for flow in FLOWS}
                for name, served in list(self.registry.models.items())
            },
        }

    def columns(self, model: str) -> dict[str, Columns]:
        """Return all samples of the server, and those of one model."""
        series = self.models.get(model)
        return {"server": self.server.columns(), "model": series.columns() if series else {}}

    def last(self, model: str) -> dict[str, Any]:
        """Return the newest sample of the server, and that of one model."""
        series = self.models.get(model)
        return {
            "server": self.server.samples[-1] if self.server.samples else None,
            "model": series.samples[-1] if series and series.samples else None,
        }


def durations_between(before: list[int] | None, now: list[int] | None) -> Durations:
    """Return the durations that were added between two counts of buckets."""
    found = Durations()
    if now is not None:
        found.counts = [n - m for n, m in zip(now, before or [0] * len(now), strict=True)]
        found.count = sum(found.counts)
    return found
