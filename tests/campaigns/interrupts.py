"""Signals in the middle of long calls: how soon they stop, and whether the model is what the exception says.

    python tests/campaigns/interrupts.py [--signals N] [--seed N] [--rows N] [--only NAME]

Every case runs in a process of its own, which makes a call over many rows again and again. This process sends it SIGINT
or SIGTERM at random moments. The child tells how long after the signal the exception was there, and compares the
model, bit for bit, with one that learned the rows that the exception names and no others, and after the rest with one
that was never interrupted.
"""

import argparse
import json
import pickle
import random
import signal
import subprocess
import sys
import time

import numpy as np
from scipy import sparse

#: The seconds within which a call must have stopped after a signal.
SOON = 0.5


class Stop(BaseException):
    """What the handler of SIGTERM raises."""


def stop(number, frame):
    raise Stop


# --- the child --------------------------------------------------------------------------------


def data(rows, entries=8, width=1000, seed=0):
    """Sparse rows, targets -1 and +1, and labels of five classes."""
    rng = np.random.default_rng(seed)
    indices = np.sort(rng.integers(0, width // entries, (rows, entries)) + np.arange(entries) * (width // entries))
    X = sparse.csr_matrix(
        (
            rng.standard_normal(rows * entries),
            indices.ravel().astype(np.int32),
            np.arange(0, rows * entries + 1, entries),
        ),
        shape=(rows, width),
    )
    y = np.where(rng.random(rows) < 0.5, -1.0, 1.0)
    return X, y, rng.integers(0, 5, rows)


def state(model):
    """Return the state of a model as bytes."""
    return pickle.dumps(model)


class Learning:
    """`learn` of a model: rows learned from are kept."""

    def __init__(self, rows, new, labels=False, wrap=lambda X: X):
        X, y, classes = data(rows)
        self.X, self.y, self.new, self.rows = wrap(X), classes if labels else y, new, X.shape[0]

    def begin(self):
        self.model = self.new()

    def call(self, start=0):
        self.model.learn(self.X[start:], self.y[start:])

    def check(self, learned):
        other = self.new()
        if learned:
            other.learn(self.X[:learned], self.y[:learned])
        assert state(self.model) == state(other), "not the rows that the exception says"
        self.call(learned)
        whole = self.new()
        whole.learn(self.X, self.y)
        assert state(self.model) == state(whole), "not as if there had been no interrupt"


class Scoring(Learning):
    """`scores`: nothing changes."""

    def begin(self):
        super().begin()
        self.model.learn(self.X[:1000], self.y[:1000])
        self.before = state(self.model)

    def call(self, start=0):
        self.model.predict(self.X)

    def check(self, learned):
        assert not learned
        assert state(self.model) == self.before


class Fitting(Learning):
    """`fit` or `partial_fit` of an estimator: all is as before the call."""

    def __init__(self, rows, new, labels=False, method="fit"):
        super().__init__(rows, new, labels)
        self.method = method

    def begin(self):
        super().begin()
        getattr(self.model, self.method)(self.X[:5000], self.y[:5000])
        self.before = state(self.model)

    def call(self, start=0):
        getattr(self.model, self.method)(self.X[start:], self.y[start:])

    def check(self, learned):
        assert not learned
        assert state(self.model) == self.before


class Partial(Fitting):
    """`partial_fit`: rows learned from are kept."""

    def __init__(self, rows, new, labels=False):
        super().__init__(rows, new, labels, "partial_fit")

    def check(self, learned):
        other = self.new()
        other.partial_fit(self.X[:5000], self.y[:5000])
        if learned:
            other.partial_fit(self.X[:learned], self.y[:learned])
        ours, others = ([state(one) for one in model.learners_] for model in (self.model, other))
        assert ours == others, "not the rows that the exception says"


class Many(Learning):
    """`learn_many` of River's models."""

    def __init__(self, rows, new, labels=False):
        import pandas as pd

        super().__init__(rows, new, labels)
        self.X = pd.DataFrame(self.X[:, ::50].toarray(), columns=[f"x{k}" for k in range(20)])
        self.y = pd.Series(self.y)

    def call(self, start=0):
        self.model.learn_many(self.X[start:], self.y[start:])

    def check(self, learned):
        other = self.new()
        if learned:
            other.learn_many(self.X[:learned], self.y[:learned])
            other._y_name = self.model._y_name
        assert state(self.model) == state(other), "not the rows that the exception says"


def cases():
    """By name, what is interrupted."""
    import fiol
    from fiol import FIOL, L1, Constant, Learner, Logistic, OneVsRest, Softmax
    from fiol.regret import Ledger

    plain, joint = FIOL(Logistic(), L1(1e-4)), FIOL(Softmax())

    def accounted():
        learner = Learner(FIOL(Logistic(), L1(1e-4), Constant(0.1)))
        Ledger(learner, every=1000)
        return learner

    def dicts(X):
        X = X[: X.shape[0] // 10]
        names = [f"f{i}" for i in range(X.shape[1])]
        return [
            {names[i]: v for i, v in zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)}
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        ]

    class Named(Learning):
        def __init__(self, rows, new):
            super().__init__(rows, new)
            self.X = dicts(self.X)
            self.rows, self.y = len(self.X), self.y[: len(self.X)]

    class Accounted(Learning):
        def check(self, learned):
            other = self.new()
            if learned:
                other.learn(self.X[:learned], self.y[:learned])
            assert state(self.model) == state(other)
            ours, others = self.model.ledger.records, other.ledger.records
            assert [a.tolist() for a in ours[:3]] == [a.tolist() for a in others[:3]]

    def river(kind, **options):
        from fiol.river import FIOLClassifier, FIOLRegressor

        return {"classifier": FIOLClassifier, "regressor": FIOLRegressor}[kind](**options)

    return {
        "learn": lambda rows: Learning(rows, lambda: Learner(plain)),
        "average": lambda rows: Learning(rows, lambda: Learner(plain, average=True)),
        "unsorted": lambda rows: Learning(rows, lambda: Learner(plain), wrap=reversed_rows),
        "dense": lambda rows: Learning(rows // 10, lambda: Learner(plain), wrap=lambda X: X[:, :100].toarray()),
        "named": lambda rows: Named(rows, lambda: Learner(plain)),
        "bounded": lambda rows: Named(rows, lambda: Learner(plain, max_features=1000)),
        "joint": lambda rows: Learning(rows, lambda: Learner(joint), labels=True),
        "one-vs-rest": lambda rows: Learning(rows, lambda: OneVsRest(plain), labels=True),
        "accounted": lambda rows: Accounted(rows // 4, accounted),
        "scores": lambda rows: Scoring(4 * rows, lambda: Learner(plain)),
        "scores of classes": lambda rows: Scoring(rows, lambda: OneVsRest(plain), labels=True),
        "fit": lambda rows: Fitting(rows, lambda: fiol.FIOLClassifier(loss="log_loss", random_state=0)),
        "fit classes": lambda rows: Fitting(rows, lambda: fiol.FIOLClassifier(loss="log_loss"), labels=True),
        "fit again": lambda rows: Fitting(rows, lambda: fiol.FIOLRegressor(warm_start=True)),
        "partial_fit": lambda rows: Partial(rows, lambda: fiol.FIOLRegressor()),
        "partial_fit classes": lambda rows: Partial(rows, lambda: fiol.FIOLClassifier(loss="log_loss"), labels=True),
        "river": lambda rows: Many(rows // 2, lambda: river("regressor")),
        "river classes": lambda rows: Many(rows // 2, lambda: river("classifier"), labels=True),
    }


def reversed_rows(X):
    """The same rows with falling indices."""
    n = X.indptr[1]
    return sparse.csr_matrix(
        (X.data.reshape(-1, n)[:, ::-1].ravel(), X.indices.reshape(-1, n)[:, ::-1].ravel(), X.indptr), X.shape
    )


#: Seconds within which a signal has come, if it comes at all.
LONGEST_WAIT = 10.0


def child(name, rows):
    """Answer every line of standard input with what an interrupted call left behind."""
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells let jobs in the background ignore
    case = cases()[name](rows)
    case.begin()
    started = time.monotonic()
    case.call()
    took = time.monotonic() - started  # of the compiler, too; the next call is shorter
    case.begin()
    started = time.monotonic()
    case.call()
    print(json.dumps({"took": min(took, time.monotonic() - started)}), flush=True)
    ignored = []
    sys.unraisablehook = lambda args: ignored.append(repr(args.object))  # raised in a destructor, Python drops it
    for _ in sys.stdin:
        case.begin()
        answer = {}
        ignored.clear()
        try:
            print("go", flush=True)
            case.call()
            answer["late"] = True  # the signal has not come inside the call
            time.sleep(LONGEST_WAIT)
            answer |= {"stopped": time.monotonic(), "rows": 0, "ignored": ignored[:]}
            assert ignored, "the signal was not heard"
        except AssertionError as error:
            answer["wrong"] = str(error)
        except (KeyboardInterrupt, Stop) as error:
            answer |= {"stopped": time.monotonic(), "rows": getattr(error, "rows_learned", 0)}
        try:
            ended = "late" in answer or getattr(case.model, "rounds", 0) == case.rows  # and was about to return
            if not ended:
                case.check(answer["rows"])
        except AssertionError as error:
            answer["wrong"] = str(error) or "wrong"
        print(json.dumps(answer), flush=True)


# --- the parent -------------------------------------------------------------------------------


def campaign(name, signals, rows, rng):
    """The latencies of signals to one case; AssertionError if a model was not what the exception said."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", name, "--rows", str(rows)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        took = json.loads(process.stdout.readline())["took"]
        found, learned = [], 0
        for k in range(signals):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "go\n"
            time.sleep(rng.uniform(0.0, 0.9 * took))
            sent = time.monotonic()
            process.send_signal(signal.SIGTERM if k % 2 else signal.SIGINT)
            answer = json.loads(process.stdout.readline())
            assert "wrong" not in answer, (name, answer)
            if not answer.get("ignored"):
                found.append(answer["stopped"] - sent)
                learned += 0 < answer["rows"]
        return took, found, learned
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=20, help="to every case")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="the name of one case")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.rows)
        return
    rng, late = random.Random(options.seed), []
    print(f"{'case':20} {'seconds':>8} {'signals':>8} {'median':>8} {'worst':>8}   in the middle of rows")
    for name in [options.only] if options.only else cases():
        took, found, learned = campaign(name, options.signals, options.rows, rng)
        print(f"{name:20} {took:8.2f} {len(found):8} {np.median(found):8.3f} {max(found):8.3f}   {learned}", flush=True)
        late += [name] * (max(found) > SOON)
    if late:
        sys.exit(f"too late: {', '.join(late)}")


if __name__ == "__main__":
    main()
