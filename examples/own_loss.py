"""A loss of your own in six lines, compiled, in an estimator of scikit-learn.

python examples/own_loss.py [--quick]

A shop that orders too little loses a sale; one that orders too much has to store the rest, at a fifth of the cost.
The first run compiles each loss, for some seconds; later ones find the code in a cache on disk.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import log1p

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fiol


class OrderCost(fiol.Loss):
    """What an order of z costs if y is asked for: quadratic for small errors, steeper for orders that are too small."""

    shortage: float = 5.0

    def value(self, z: float, y: float) -> float:
        return (self.shortage if z < y else 1.0) * (abs(z - y) - log1p(abs(z - y)))

    def grad(self, z: float, y: float) -> float:
        return (self.shortage if z < y else 1.0) * (z - y) / (1.0 + abs(z - y))


def make_sales(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weather, day of the week, price; demand is more uncertain on some days than on others."""
    rng = np.random.default_rng(seed)
    warm, weekend, price = rng.normal(18.0, 6.0, rows), rng.random(rows) < 2 / 7, rng.normal(3.0, 0.4, rows)
    demand = 60.0 + 2.0 * warm + 25.0 * weekend - 12.0 * price + rng.gamma(2.0, 8.0, rows)
    return np.column_stack([warm, weekend, price]), demand


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few days")
    quick = parser.parse_args(arguments).quick
    loss = OrderCost()
    fiol.checks.check_loss(loss)  # do value and derivative belong together?
    X, demand = make_sales(120 if quick else 5_000, seed=0)
    new, asked = make_sales(120 if quick else 5_000, seed=1)
    costs = {}
    print(f"Orders for {len(asked):,} new days after learning from {len(demand):,}:\n")
    print("(compiling for some seconds, if this is the first run)\n")
    print(f"  {'':<28}{'mean cost':>10}{'too little':>12}{'mean order':>12}")
    for name, each in {"squared error": "squared_error", repr(loss): loss}.items():
        estimator = fiol.FIOLRegressor(each, random_state=0)
        orders = make_pipeline(StandardScaler(), estimator).fit(X, demand).predict(new)
        costs[name] = float(np.mean([loss.value(z, y) for z, y in zip(orders, asked, strict=True)]))
        print(f"  {name:<28}{costs[name]:>10.2f}{np.mean(orders < asked):>12.0%}{np.mean(orders):>12.1f}")
    return costs


if __name__ == "__main__":
    main()
