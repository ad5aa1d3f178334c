"""Threads that share a model: whatever they do, the outcome is that of the same calls in some order.

    python tests/campaigns/threads.py [--calls N] [--threads N] [--seed N] [--only NAME]

Threads learn, predict, save, pickle, copy, prune, merge and read at once. The model's lock is wrapped in one that notes
whose turn it was, in order. Then one thread makes the same calls in that order with a new model, and every answer, and
what the models know in the end, must be the same to the bit.

Single events are read without a turn. So another campaign has one thread that writes, and others that read events all
the time: each of their answers must be that of a moment between two calls, no sooner or later than the reader's own.
"""

import argparse
import contextlib
import itertools
import os
import pickle
import random
import sys
import tempfile
import threading
import time

import numpy as np

from fiol import FIOL, L1, Learner, Logistic, OneVsRest, Softmax
from fiol.features.lock import Lock

LASSO, JOINT = FIOL(Logistic(), L1(0.02)), FIOL(Softmax())
#: By name, a model, and whether its features are named and its targets labels.
KINDS = {
    "named": (lambda **options: Learner(LASSO, **options), True, False),
    "averaged": (lambda **options: Learner(LASSO, average=True, dtype="float32", **options), True, False),
    "numbered": (lambda **options: Learner(LASSO, **options), False, False),
    "hashed": (lambda **options: Learner(LASSO, bits=6, **options), True, False),
    "bounded": (lambda **options: Learner(LASSO, max_features=48, **options), True, False),
    "joint": (lambda **options: Learner(JOINT, **options), True, True),
    "one-vs-rest": (lambda **options: OneVsRest(LASSO, **options), True, True),
}
#: Models whose single events are read without a turn.
READ_AS_EVENTS = ("named", "averaged", "numbered", "bounded")
LABELS = ["pear", "apple", "fig", "kiwi"]


class Noted:
    """A lock that notes in which order calls had their last turn."""

    def __init__(self):
        self.lock, self.turns, self.local, self.depth = Lock(), [], threading.local(), 0

    def acquire(self):
        self.lock.acquire()
        self.depth += 1
        if self.depth == 1:
            self.turns.append(self.local.call)

    def release(self):
        self.depth -= 1
        self.lock.release()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *error):
        self.release()


class Calls:
    """Calls that a seed makes, for one kind of model."""

    def __init__(self, kind, compiled=True):
        self.make, self.named, self.labeled = KINDS[kind]
        self.options, self.kind = {"compiled": compiled}, kind
        self.partner = self.new()
        rng = random.Random(7)
        for _ in range(5):
            self.partner.learn(*self.rows(rng, 4))

    def new(self):
        return self.make(**self.options)

    def rows(self, rng, n):
        """Rows and their targets."""
        if self.named:
            X = [{f"f{rng.randrange(60)}": rng.gauss(0, 1) for _ in range(rng.randrange(1, 7))} for _ in range(n)]
        else:
            X = [[rng.gauss(0, 1) * (rng.random() < 0.4) for _ in range(30)] for _ in range(n)]
        y = [rng.choice(LABELS) if self.labeled else rng.choice([-1.0, 1.0]) for _ in range(n)]
        return X, y

    def call(self, model, number, folder):
        """The answer of call `number`."""
        rng = random.Random(number)
        what = rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
        X, y = self.rows(rng, rng.randrange(1, 6))
        try:
            return what, self.answer(model, what, X, y, rng, folder)
        except (ValueError, TypeError) as error:  # such as a refusal of too many features
            return what, repr(error)

    def answer(self, model, what, X, y, rng, folder):
        if what == "learn":
            return model.learn(X, y).tobytes()
        if what == "generator" and self.named:
            return model.learn(iter(X), y).tobytes()
        if what == "wrong":
            X[-1] = {"new": float("nan")} if self.named else [float("nan")] * 30
            return model.learn(X, y).tobytes()
        if what == "predict":
            return model.predict(X).tobytes()
        if what == "save":
            path = os.path.join(folder, f"{threading.get_ident()}.fiol")
            model.save(path)
            with open(path, "rb") as file:
                return file.read()
        if what == "pickle":
            return pickle.dumps(model)
        if what == "snapshot":
            return model.snapshot().scores(X).tobytes()
        if what == "prune" and self.named and self.kind != "hashed" and hasattr(model, "prune"):
            return model.prune()
        if what == "merge":
            return type(model).merge([model, self.partner]).weights.tobytes()
        if what == "weights":
            return model.weights.tobytes()
        if what == "names":
            return model.names
        if what == "settle":
            return model.settle()
        if self.named:
            return np.asarray(model.learn_named(X[0], y[0])).tobytes()
        found = np.flatnonzero(X[0]).astype(np.int32)
        return np.asarray(model.learn_one(found, np.array(X[0])[found], y[0])).tobytes()


#: How often each call is made.
WEIGHTS = {
    "event": 60,
    "learn": 12,
    "generator": 3,
    "wrong": 3,
    "predict": 12,
    "save": 0.3,
    "pickle": 2,
    "snapshot": 2,
    "prune": 3,
    "merge": 1,
    "weights": 3,
    "names": 2,
    "settle": 1,
}


def campaign(kind, calls, threads, seed, compiled=True):
    """Let threads make calls, replay them, and compare; AssertionError if there is no such order."""
    work = Calls(kind, compiled)
    model, noted = work.new(), Noted()
    model.core.lock, answers, failed = noted, {}, []
    numbers = [[seed * 10**7 + t * 10**6 + k for k in range(calls // threads)] for t in range(threads)]
    barrier = threading.Barrier(threads)

    with tempfile.TemporaryDirectory() as folder:

        def run(mine):
            try:
                barrier.wait()
                for number in mine:
                    noted.local.call = number
                    answers[number] = work.call(model, number, folder)
                    time.sleep(0)  # let others have their turn
            except BaseException as error:
                failed.append(error)

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            workers = [threading.Thread(target=run, args=(mine,)) for mine in numbers]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            sys.setswitchinterval(before)
        if failed:
            raise failed[0]
        last = {number: place for place, number in enumerate(noted.turns)}
        order = sorted(last, key=last.get)
        other = work.new()
        for number in order:
            assert work.call(other, number, folder) == answers[number], (kind, number, answers[number][0])
        noted.local.call = None
        assert pickle.dumps(model) == pickle.dumps(other)
        switches = sum(a // 10**6 != b // 10**6 for a, b in itertools.pairwise(order))
    return len(answers), switches


def moments(kind, calls, readers, seed, compiled=True):
    """Let one thread write and others read events; AssertionError unless every answer is that of a moment in time."""
    work = Calls(kind, compiled)
    model, rng = work.new(), random.Random(seed)
    model.learn(*work.rows(rng, 3))
    probes, many = work.rows(rng, 6)[0], work.rows(rng, 1000)
    if not work.named:
        found = [np.flatnonzero(row).astype(np.int32) for row in probes]
        probes = [(indices, np.array(row)[indices]) for indices, row in zip(found, probes, strict=True)]

    def read(k):
        return model.score_named(probes[k]) if work.named else model.score_one(*probes[k])

    values, answers, failed, done = [[read(k) for k in range(len(probes))]], [], [], threading.Event()
    made = [0] * readers

    def run(own):
        try:
            rng = random.Random(own)
            while not done.is_set():
                k, first = rng.randrange(len(probes)), len(values) - 1
                z = read(k)
                made[own] += 1
                if z != values[first][k]:
                    answers.append((k, first, z, len(values)))
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=run, args=(own,)) for own in range(readers)]
        for worker in workers:
            worker.start()
        with tempfile.TemporaryDirectory() as folder:
            for number in range(calls):
                if number % 10:
                    work.call(model, seed * 10**7 + number, folder)
                else:  # long enough for others to look into it
                    with contextlib.suppress(ValueError):  # too many features
                        model.learn(*many)
                values.append([read(k) for k in range(len(probes))])
                time.sleep(0)
    finally:
        done.set()
        for worker in workers:
            worker.join()
        sys.setswitchinterval(before)
    if failed:
        raise failed[0]
    for k, first, z, last in answers:
        assert z in [one[k] for one in values[first : last + 1]], (kind, k, first, z, last)
    return sum(made), len(answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000, help="of all kinds together")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one kind of model")
    options = parser.parse_args()
    kinds = [options.only] if options.only else list(KINDS)
    for kind in kinds:
        began = time.perf_counter()
        made, switches = campaign(kind, options.calls // len(kinds), options.threads, options.seed)
        print(
            f"{kind:12} {made} calls, {switches} times another thread's turn, {time.perf_counter() - began:.0f} s",
            flush=True,
        )
        if kind in READ_AS_EVENTS:
            read, different = moments(kind, options.calls // len(kinds), 3, options.seed)
            print(f"{kind:12} {read} events read meanwhile, {different} as a call changed them", flush=True)


if __name__ == "__main__":
    main()
