"""Options of commands that learn: loss, penalty, hashing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def learning_options(option: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options made by `option`, such as `click.option`, to a command."""
    decorators = [
        option(
            "--loss",
            metavar="NAME",
            help="log_loss, squared_error, softmax, hinge, quantile:0.9, ... [default: by the target].",
        ),
        option(
            "--penalty",
            default="none",
            show_default=True,
            metavar="NAME",
            help="Penalty on weights: none, l1, l2, elasticnet; l1:1e-4 is l1 with --alpha 1e-4.",
        ),
        option("--alpha", type=click.FloatRange(0.0), help="Strength of the penalty [default: 1e-4]."),
        option("--l1-ratio", type=click.FloatRange(0.0, 1.0), help="Share of l1 in elasticnet [default: 0.15]."),
        option("--bits", type=click.IntRange(1, 30), help="Hash all features into 2^BITS [default: keep all names]."),
    ]

    def decorate(command: Any) -> Any:
        for add in reversed(decorators):
            command = add(command)
        return command

    return decorate
