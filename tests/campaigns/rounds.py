"""A stack with adversarial members for very many rounds: its state stays consistent, and it still learns.

    python tests/campaigns/rounds.py [--rounds N] [--seed N] [--loss NAME] [--plain]

Blocks of rows of nine kinds take turns: scores that tell something, all alike, collinear, tiny, huge, all 0, of any
size, with a target that is always the worst for the whole, and with a sense that turns round. After every block the
weights, shares and losses must be finite, the information A symmetric and at least I / prior, and its inverse P, which
rounds bring up to date by one row each, near to A inverted afresh. At the end the stack must combine members as well as
a new one does, give or take a tenth.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

import fiol
from fiol.components.combiners import NewtonStack
from fiol.components.losses import Loss
from fiol.engine.ensemble.lane_stack import lane_stack_rows
from fiol.engine.ensemble.newton_stack import stack_rows
from fiol.engine.ensemble.stack_state import (
    CURVED,
    SQUARES,
    combined_weights,
    lane_buffers,
    narrowed,
    new_stack_state,
    widened,
)

#: Rows a block.
BLOCK = 10_000
MEMBERS, LANES = 7, 8
KINDS = ("telling", "alike", "collinear", "tiny", "huge", "zero", "any size", "adversarial", "turning")
LOSSES = {"logistic": fiol.Logistic(), "squared": fiol.Squared()}


class Worst(NamedTuple):
    """The worst that was seen of a stack, over all blocks."""

    asymmetry: float  #: of A, relative to the diagonal
    least: float  #: eigenvalue of A, times the prior: 1 or more but for rounding
    apart: float  #: how far P is from A inverted afresh, relative to the diagonal of that
    finite: bool


class Stacks:
    """The stacks of one stream, in lanes as the library runs them, or `plain`."""

    def __init__(self, loss: Loss, plain: bool, members: int = MEMBERS) -> None:
        self.loss, self.stack, self.plain, self.members = loss, NewtonStack(), plain, members
        state = new_stack_state(self.stack, members)
        self.known = state if plain else widened(state, LANES, self.stack.prior)
        self.buffers = None if plain else lane_buffers(len(state.v), LANES)

    @property
    def state(self) -> Any:
        """The state of the members."""
        return self.known if self.plain else narrowed(self.known, np.size(self.stack.forgets), self.members)

    @property
    def v(self) -> Any:
        """The current weights of the members."""
        return combined_weights(self.state)

    def learn(self, Z: Any, y: Any) -> Any:
        """A round per row; the score of the whole before each."""
        scores, weight = np.empty(len(y)), np.ones(len(y))
        if self.plain:
            stack_rows(self.stack, self.loss, Z, y, weight, self.known, scores)
            return scores
        wide = np.zeros((len(y), LANES))
        wide[:, : self.members] = Z
        zeros = (0.0,) * LANES, (0.0,) * 4
        rows = wide.reshape(-1), y, weight, self.members
        lane_stack_rows(self.stack, self.loss, *zeros, *rows, self.known, self.buffers, scores)
        return scores

    def worst(self) -> Worst:
        """What is wrong with the state now."""
        state, found = self.state, []
        finite = all(np.isfinite(array).all() for array in state) and abs(state.share.sum() - 1.0) < 1e-9
        for A, P in zip(state.A, state.P, strict=True):
            size = np.sqrt(np.outer(A.diagonal(), A.diagonal()))
            fresh = np.linalg.inv(A)
            small = np.sqrt(np.outer(fresh.diagonal(), fresh.diagonal()))
            least = np.linalg.eigvalsh(A)[0] * self.stack.prior
            found.append((abs(A - A.T).max() / size.max(), least, (abs(P - fresh) / small).max()))
        asymmetry, least, apart = np.array(found).T
        return Worst(float(asymmetry.max()), float(least.min()), float(apart.max()), bool(finite))


def block_of(kind: str, loss: Loss, v: Any, rows: int, rng: Any) -> tuple[Any, Any]:
    """The scores [row, member] and targets of a block of this kind; v is what members count with before it."""
    K = len(v)
    truth = rng.standard_normal(rows)
    Z = truth[:, None] * rng.uniform(-1.0, 2.0, K) + rng.uniform(0.1, 2.0, K) * rng.standard_normal((rows, K))
    if kind == "alike":
        Z[:] = Z[:, :1]
    elif kind == "collinear":
        Z[:, 2:] = Z[:, :2] @ rng.standard_normal((2, K - 2)) * 10.0 ** rng.uniform(-3, 3, K - 2)
    elif kind in ("tiny", "huge"):
        Z *= 10.0 ** rng.uniform(-140.0, -6.0) if kind == "tiny" else 10.0 ** rng.uniform(1.0, 12.0)
    elif kind == "zero":
        Z[:] = 0.0
    elif kind == "any size":
        Z *= 10.0 ** rng.uniform(-100.0, 50.0, (rows, K))
    y = truth + 0.5 * rng.standard_normal(rows)
    if kind == "adversarial":
        y = -(Z @ v)
    elif kind == "turning":
        y[rows // 2 :] *= -1.0
    if loss.value_unit > 0.0:
        y = np.where(y > 0.0, 1.0, -1.0)
    return np.ascontiguousarray(Z), y


def campaign(rounds: int, seed: int, loss: Loss, plain: bool = False, block: int = BLOCK) -> tuple[Worst, int, float]:
    """Return the worst numbers of these rounds, and the loss of the stack on informative rows by that of a new one."""
    rng, stacks = np.random.default_rng(seed), Stacks(loss, plain)
    worst, made = Worst(0.0, np.inf, 0.0, True), 0
    while made < rounds:
        kind = KINDS[int(rng.integers(len(KINDS)))]
        Z, y = block_of(kind, loss, stacks.v, min(block, rounds - made), rng)
        scores = stacks.learn(Z, y)
        made += len(y)
        now = stacks.worst()
        worst = Worst(
            max(worst.asymmetry, now.asymmetry),
            min(worst.least, now.least),
            max(worst.apart, now.apart),
            worst.finite and now.finite and bool(np.isfinite(scores).all()),
        )
    Z, y = block_of("telling", loss, stacks.v, 20_000, rng)
    fresh = Stacks(loss, plain)
    if loss.value_unit == 0.0:  # errors so far were of any size, and theirs is the unit
        unit = float(np.sqrt(stacks.state.ticks[SQUARES] / stacks.state.ticks[CURVED]))
        y, Z = unit * y, unit * Z
    total = [np.mean([loss.value(z, t) for z, t in zip(one.learn(Z, y)[10_000:], y[10_000:], strict=True)])
             for one in (stacks, fresh)]  # fmt: skip
    return worst, made, float(total[0] / total[1])


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=float, default=1e8, help="how many (1e8)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loss", choices=list(LOSSES), default="logistic")
    parser.add_argument("--plain", action="store_true", help="number by number instead of in lanes")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    worst, made, ratio = campaign(int(options.rounds), options.seed, LOSSES[options.loss], options.plain)
    seconds = time.perf_counter() - start
    print(
        f"{options.loss}, {made} rounds, seed {options.seed}, {seconds:.0f} s: {worst}, loss by a new one's {ratio:.4f}"
    )
    return 0 if fine(worst, ratio) else 1


def fine(worst: Worst, ratio: float) -> bool:
    """Whether the worst is good enough."""
    return worst.finite and worst.asymmetry < 1e-9 and worst.least > 0.999 and worst.apart < 1e-2 and ratio < 1.1


if __name__ == "__main__":
    raise SystemExit(main())
