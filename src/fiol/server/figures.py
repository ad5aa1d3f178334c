"""Figures of requests: rates, errors and durations, and the last errors."""

from __future__ import annotations

import bisect
import time
from collections import deque
from typing import Any

#: Upper bounds of the buckets of durations, in seconds: from 0.1 ms, each 1.5 times the one before.
BOUNDS = [1e-4 * 1.5**k for k in range(30)]
ERRORS_KEPT = 50
#: Statuses of refusals, and what they mean.
REFUSALS = {
    400: "the request is not HTTP as it should be",
    401: "a token is needed",
    403: "the token, or the page, may not do this",
    404: "there is no such model or snapshot",
    409: "the request contradicts what is there",
    413: "the body has too many bytes or rows",
    415: "the content type is not supported",
    421: "the server has another name",
    422: "a row, or the message, is wrong; nothing was learned",
    429: "too many requests or rows wait: see Retry-After",
    503: "the server stops",
    507: "the journal cannot be written: nothing was learned",
}


class Durations:
    """A histogram of durations.

    >>> durations = Durations()
    >>> for _ in range(100):
    ...     durations.add(0.001)
    >>> durations.count, 0.0005 < durations.quantile(0.99) < 0.002
    (100, True)
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.count, self.total = 0, 0.0

    def add(self, seconds: float) -> None:
        """Add one duration."""
        self.counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.count += 1
        self.total += seconds

    def quantile(self, q: float) -> float | None:
        """Return the upper bound of the bucket with the quantile; None without durations."""
        if not self.count:
            return None
        rest = q * self.count
        for bound, count in zip([*BOUNDS, BOUNDS[-1] * 1.5], self.counts, strict=True):
            rest -= count
            if rest <= 0.0:
                return bound
        return BOUNDS[-1] * 1.5


class Figures:
    """Requests by route and status, durations by route, and the last errors and refusals."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: dict[tuple[str, int], int] = {}
        self.durations: dict[str, Durations] = {}
        self.errors: deque[dict[str, Any]] = deque(maxlen=ERRORS_KEPT)
        self.refusals: dict[tuple[str, int, str | None], dict[str, Any]] = {}  #: the newest last

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = route, status
        self.requests[key] = self.requests.get(key, 0) + 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Durations()
        durations.add(seconds)

    def error(self, reason: str, route: str = "", status: int = 0) -> None:
        """Keep an error of the server for the dashboard."""
        self.errors.append({"time": time.time(), "route": route, "status": status, "reason": reason[:500], "count": 1})

    def refuse(self, route: str, status: int, column: str | None = None) -> None:
        """Count a refused request for the dashboard, without values of its rows.

        >>> figures = Figures()
        >>> for column in ("age", "size", "age"):
        ...     figures.refuse("/learn", 422, column)
        >>> [(one["reason"], one["count"]) for one in figures.status()["errors"]]
        [("a row was refused for its column 'age'", 2), ("a row was refused for its column 'size'", 1)]
        """
        key = route, status, None if column is None else column[:100]
        before = self.refusals.pop(key, {"count": 0})
        reason = REFUSALS.get(status, "refused") if column is None else f"a row was refused for its column {key[2]!r}"
        self.refusals[key] = {
            "time": time.time(),
            "route": route,
            "status": status,
            "reason": reason,
            "count": before["count"] + 1,
        }
        if len(self.refusals) > ERRORS_KEPT:
            del self.refusals[next(iter(self.refusals))]

    def status(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        routes = []
        for route, durations in sorted(self.durations.items()):
            by_status = {str(status): n for (of, status), n in sorted(self.requests.items()) if of == route}
            quantiles = {f"p{str(100 * q).rstrip('0').rstrip('.')}": durations.quantile(q) for q in (0.5, 0.99, 0.999)}
            routes.append({"route": route, "requests": durations.count, "statuses": by_status, **quantiles})
        errors = sorted((*self.errors, *self.refusals.values()), key=lambda one: one["time"], reverse=True)
        return {"routes": routes, "errors": errors[:ERRORS_KEPT]}
