"""Figures in the text format of Prometheus."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from operator import getitem
from typing import Any


def prometheus_text(status: dict[str, Any]) -> str:
    """Return the figures of a status, requests (rate, errors, durations), journal and models."""
    lines = list[str]()
    for name, kind, help_text, samples in families(status):
        found = [(labels, value) for labels, value in samples if value is not None]
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{label_text(labels)} {float(value)!r}" for labels, value in found]
    return "\n".join([*lines, ""])


def families(status: dict[str, Any]) -> Iterator[tuple[str, str, str, list[tuple[dict[str, str], Any]]]]:
    """Yield name, kind, help and samples of every family of figures."""
    routes, journal, models = status["requests"]["routes"], status["journal"], status["models"]
    yield (
        "fiol_requests_total",
        "counter",
        "Requests by route and status.",
        [({"route": one["route"], "status": code}, count) for one in routes for code, count in one["statuses"].items()],
    )
    yield (
        "fiol_request_seconds",
        "gauge",
        "Quantiles of durations by route since the start.",
        [
            ({"route": one["route"], "quantile": q}, one[p])
            for one in routes
            for q, p in (("0.5", "p50"), ("0.99", "p99"), ("0.999", "p99.9"))
        ],
    )
    for name, kind, help_text in (
        ("position", "counter", "Last position of the journal."),
        ("bytes", "gauge", "Bytes of the journal."),
        ("commits", "counter", "Transactions since the start."),
        ("commit_p50", "gauge", "Median seconds of a transaction."),
        ("commit_p99", "gauge", "99th percentile of seconds of a transaction."),
        ("queue_rows", "gauge", "Rows that wait to be written."),
        ("pending", "gauge", "Predictions of all models that wait for a label."),
        ("early", "gauge", "Labels of all models that wait for a prediction."),
    ):
        yield f"fiol_journal_{name}", kind, help_text, [({}, journal[name])]
    yield from model_families(models)


#: Figures of models: name, kind, help, and the path to the number in the status of a model.
MODEL_FIGURES = (
    ("fiol_model_rounds", "counter", "Rounds of the model.", ("rounds",)),
    ("fiol_model_lag_rounds", "gauge", "Rounds that predictions lag behind.", ("lag_rounds",)),
    ("fiol_model_pending", "gauge", "Predictions that wait for a label.", ("pending",)),
    ("fiol_model_early", "gauge", "Labels that wait for a prediction.", ("early",)),
    ("fiol_model_features", "gauge", "Features seen.", ("features",)),
    ("fiol_model_nonzeros", "gauge", "Features whose weight is not 0.", ("nonzeros",)),
    ("fiol_model_loss", "gauge", "Progressive loss of all rows.", ("metrics", "loss")),
    ("fiol_model_recent_loss", "gauge", "Progressive loss of recent rows.", ("metrics", "recent", "loss")),
    ("fiol_model_constant_loss", "gauge", "Loss of the best constant.", ("metrics", "constant_loss")),
    ("fiol_model_mean_prediction", "gauge", "Mean prediction of recent rows.", ("metrics", "recent", "prediction")),
    ("fiol_model_mean_label", "gauge", "Mean label of recent rows.", ("metrics", "recent", "label")),
    (
        "fiol_model_unseen_share",
        "gauge",
        "Share of features of recent rows that were new.",
        ("metrics", "recent", "unseen"),
    ),
    ("fiol_model_last_snapshot_seconds", "gauge", "When the newest snapshot was saved.", ("last_snapshot",)),
)


def model_families(models: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, list[tuple[dict[str, str], Any]]]]:
    """Yield the families of figures of models."""
    of = [({"model": one["name"]}, one) for one in models]
    for name, kind, help_text, path in MODEL_FIGURES:
        yield name, kind, help_text, [(n, functools.reduce(getitem, path, one)) for n, one in of]
    flows = [(n, one["metrics"]["label_flow"]) for n, one in of]
    yield (
        "fiol_model_labels_total",
        "counter",
        "Labels and predictions by outcome.",
        [({**n, "outcome": outcome}, count) for n, flow in flows for outcome, count in flow["outcomes"].items()],
    )
    yield (
        "fiol_model_label_delay_seconds",
        "gauge",
        "Quantiles of the delay of labels.",
        [
            ({**n, "quantile": q}, flow[p])
            for n, flow in flows
            for q, p in (("0.5", "delay_p50"), ("0.99", "delay_p99"))
        ],
    )
    drifts = [(n, len(one["metrics"]["drift"])) for n, one in of]
    yield "fiol_model_drifts_total", "counter", "Changes of the loss.", drifts


def label_text(labels: dict[str, str]) -> str:
    r"""Return labels in braces, escaped.

    >>> label_text({"model": 'a"b'}), label_text({})
    ('{model="a\\"b"}', '')
    """
    parts = [f'{name}="{escaped(value)}"' for name, value in labels.items()]
    return "{" + ",".join(parts) + "}" if parts else ""


def escaped(value: str) -> str:
    """Return the value of a label with backslashes, quotes and line ends escaped."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
