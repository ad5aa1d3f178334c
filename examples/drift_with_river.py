"""The world changes twice: classifiers for River. The default has members that follow; one learner needs a detector.

python examples/drift_with_river.py [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from river import drift, linear_model, metrics, preprocessing

from fiol.river import FIOLClassifier

PARTS = 3


def changing_stream(events: int, seed: int = 0) -> Iterator[tuple[dict[str, float], str]]:
    """Events by names; what makes one good is turned around after each third."""
    rng = np.random.default_rng(seed)
    w = np.array([1.0, -2.0, 0.5, 0.0, 1.5])
    units = np.logspace(-2, 2, len(w))
    for t in range(events):
        values = rng.standard_normal(len(w))
        sign = (-1.0) ** (t * PARTS // events)
        label = "good" if sign * (values @ w) + 0.3 * rng.standard_normal() > 0.0 else "bad"
        yield {f"x{i}": float(value) for i, value in enumerate(values * units)}, label


def main(arguments: Sequence[str] | None = None) -> dict[str, list[float]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few events")
    events = 1_800 if parser.parse_args(arguments).quick else 9_000
    models: dict[str, Any] = {
        "FIOL": FIOLClassifier(),
        "FIOL, one learner": FIOLClassifier(step_size="single"),
        "one learner, started anew after a drift": drift.DriftRetrainingClassifier(
            FIOLClassifier(step_size="single"), drift.binary.DDM()
        ),
        "FIOL, constant steps": preprocessing.StandardScaler() | FIOLClassifier(step_size=0.5),
        "River's logistic regression": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    }
    right: dict[str, list[float]] = {}
    print(f"{events:,} events; right before learning from an event, in each third:\n")
    for name, model in models.items():
        accuracies: list[Any] = [metrics.Accuracy() for _ in range(PARTS)]  # type: ignore[no-untyped-call]
        for t, (x, label) in enumerate(changing_stream(events)):
            is_good = label == "good"
            accuracies[t * PARTS // events].update(is_good, bool(model.predict_one(x)))
            model.learn_one(x, is_good)
        right[name] = [accuracy.get() for accuracy in accuracies]
        print(f"  {name:<40}" + "".join(f"{share:>8.1%}" for share in right[name]))
    return right


if __name__ == "__main__":
    main()
