"""Will this ad be clicked? Events one at a time, names that appear at any time, a model that stays small.

python examples/click_stream.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import fiol


def clicks(events: int, seed: int = 0) -> Iterator[tuple[dict[str, Any], bool]]:
    """Impressions: sites and ads matter, users do not, and there are new ads all the time."""
    rng = np.random.default_rng(seed)
    sites, ads = rng.standard_normal(30), rng.standard_normal(events // 100 + 20)
    for t in range(events):
        newest = t // 100
        site, ad, user = int(rng.integers(30)), newest + int(rng.integers(20)), int(rng.integers(events // 10))
        hour = float(rng.integers(24))
        score = -2.0 + sites[site] + ads[ad] + 0.8 * math.cos((hour - 20.0) / 24.0 * 2.0 * math.pi)
        event = {"site": f"s{site}", "ad": f"a{ad}", "user": f"u{user}", "hour": f"{hour:.0f}"}
        yield event, bool(rng.random() < 1.0 / (1.0 + math.exp(-score)))


def log_loss(p: float, clicked: bool) -> float:
    return -math.log(max(p if clicked else 1.0 - p, 1e-15))


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few events")
    events = list(clicks(1_000 if parser.parse_args(arguments).quick else 50_000))
    loss = fiol.Logistic()
    learner = fiol.Learner(fiol.FIOL(loss, fiol.L1(3e-4)))
    for event, _ in events[:3]:
        learner.copy().learn_named(event, 1.0)  # compiles, if need be
    learned, rate, total, guessed = 0, 0.5, 0.0, 0.0
    bins = np.zeros((5, 3))
    start = time.perf_counter()
    for t, (event, clicked) in enumerate(events):
        p = loss.predict(learner.learn_named(event, 1.0 if clicked else -1.0))  # the score before learning from it
        if t >= len(events) // 5:
            learned += 1
            total += log_loss(p, clicked)
            guessed += log_loss(rate, clicked)
            bins[min(int(p * 5.0), 4)] += 1.0, p, clicked
        rate += (clicked - rate) / (t + 2.0)
    seconds = time.perf_counter() - start
    print(f"{len(events):,} impressions, {rate:.1%} clicked, {1e6 * seconds / len(events):.1f} microseconds each\n")
    print(f"  log loss before learning from an event:  {total / learned:.4f}")
    print(f"  of the click rate so far:                {guessed / learned:.4f}")
    print(f"  names seen: {learner.n_features:,}, with a weight that is not 0: {learner.n_nonzero:,}\n")
    print(f"  {'predicted':>10}{'clicked':>10}{'events':>10}")
    for count, mean, hits in bins[bins[:, 0] > 0.0]:
        print(f"  {mean / count:>10.1%}{hits / count:>10.1%}{int(count):>10,}")
    return {"ours": total / learned, "rate": guessed / learned, "zeros": 1.0 - learner.n_nonzero / learner.n_features}


if __name__ == "__main__":
    main()
