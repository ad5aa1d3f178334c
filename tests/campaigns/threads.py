"""Threads that use models at once: the outcome is that of the same calls in some order.

    python tests/campaigns/threads.py [--calls N] [--threads N] [--seed N] [--only NAME]
    python tests/campaigns/threads.py --runs 20 [--only SCENARIO]

The first form lets threads learn, predict, save, pickle, copy, prune, merge and read at once. The model's lock is
wrapped in one that notes in which order threads held it. Then one thread makes the same calls in that order with a new
model, and every answer, and the state of the models in the end, must be the same to the bit. Another campaign has one
thread that writes, and others that read events all the time: each of their answers must be that of a moment between two
calls, no sooner or later than the reader's own.

The second form starts a process per run, with 2 to 8 threads of single events: models of their own, also with curves
and pairs, one shared learner, one shared snapshot, River's models, one model loaded per thread; with an empty cache of
compiled code and with a filled one. No process may crash or hang, and every answer must be that of the same calls in
some order.
"""

import argparse
import contextlib
import itertools
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import fiol
from fiol import FIOL, L1, Learner, Logistic, OneVsRest, Softmax
from fiol.features.lock import Lock
from fiol.snapshot import Snapshot

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


# --- processes whose threads use single events ------------------------------------------------

#: Events of every thread of a run.
EVENTS = 300


def events(seed):
    """Events of one thread: rows with known, new and text values, and targets."""
    rng, found = random.Random(seed), []
    for k in range(EVENTS):
        x = {f"f{rng.randrange(20)}": rng.gauss(0.0, 1.0) for _ in range(1 + k % 20)}
        if k % 7 == 0:
            x["color"] = rng.choice(["red", "blue"])
        if k % 11 == 0:
            x[f"{seed} {k}"] = 1.0
        found.append((x, rng.choice([-1.0, 1.0])))
    return found


def new_learner(seed):
    """A learner, an ensemble for every fourth seed."""
    return Learner() if seed % 4 == 3 else Learner(LASSO)


def new_river_model(seed):
    """A model of River's, one of three kinds."""
    from fiol import river

    if seed % 3 == 2:
        return river.FIOLRegressor(step_size="single")
    return river.FIOLClassifier() if seed % 4 == 3 else river.FIOLClassifier(step_size="single")


def call_event(model, x, y, k):
    """The answer of call k of a thread to a model of any kind, read or learned from."""
    if isinstance(model, Snapshot):
        return model.score_named(x) if k % 2 else model.predict_named(x)
    if isinstance(model, Learner):
        return model.learn_named(x, y) if k % 2 else model.predict_named(x)
    if not hasattr(model, "classes"):
        return model.learn_one(x, y) if k % 2 else model.predict_one(x)
    return model.learn_one(x, y > 0.0) if k % 2 else model.predict_proba_one(x)


def run_threads(models, streams, noted=None):
    """Let a thread per stream call its model with every event, twice; return the answers by thread and call."""
    answers, failed, barrier = [[] for _ in streams], [], threading.Barrier(len(streams))

    def run(thread):
        try:
            barrier.wait()
            for k, (x, y) in enumerate(event for event in streams[thread] for _ in range(2)):
                if noted is not None:
                    noted.local.call = thread, k
                answers[thread].append(call_event(models[thread], x, y, k))
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=run, args=(thread,)) for thread in range(len(streams))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    if failed:
        raise failed[0]
    return answers


def run_apart(models, again, streams):
    """Compare threads that share nothing that changes with the same calls one after the other."""
    answers = run_threads(models, streams)
    for thread, stream in enumerate(streams):
        calls = enumerate(event for event in stream for _ in range(2))
        expected = [call_event(again[thread], x, y, k) for k, (x, y) in calls]
        assert answers[thread] == expected, thread


def run_shared(make, streams):
    """Compare threads that share a model with the same calls in the order in which they held the lock."""
    shared, noted, again = make(), Noted(), make()
    if isinstance(shared, Learner):
        shared.core.lock = noted
    else:
        shared._lock = noted
    answers = run_threads([shared] * len(streams), streams, noted)
    last = {call: place for place, call in enumerate(noted.turns)}
    assert len(last) == 2 * sum(map(len, streams))
    for thread, k in sorted(last, key=last.get):
        assert call_event(again, *streams[thread][k // 2], k) == answers[thread][k], (thread, k)


def run_snapshot(seed, streams):
    """Let threads share a snapshot while the model learns on."""
    learner = new_learner(seed)
    for x, y in events(seed + 1000):
        learner.learn_named(x, y)
    snapshot, again = learner.snapshot(), learner.snapshot()
    learning = threading.Thread(target=lambda: [learner.learn_named(x, y) for x, y in events(seed + 2000)])
    learning.start()
    run_apart([snapshot] * len(streams), [again] * len(streams), streams)
    learning.join()


def run_loaded(seed, streams):
    """Let every thread load a model file and go on with it."""
    with tempfile.TemporaryDirectory() as folder:
        path, learner = os.path.join(folder, "model.fiol"), new_learner(seed)
        for x, y in events(seed + 1000):
            learner.learn_named(x, y)
        learner.save(path)
        loaded, barrier, threads = {}, threading.Barrier(len(streams)), []
        for thread in range(len(streams)):

            def load(thread=thread):
                barrier.wait()
                loaded[thread] = fiol.load(path)

            threads.append(threading.Thread(target=load))
            threads[-1].start()
        for one in threads:
            one.join()
        run_apart([loaded[k] for k in range(len(streams))], [fiol.load(path) for _ in streams], streams)


#: By name, what threads do in one process, by a seed and the events of every thread.
SCENARIOS = {
    "own": lambda seed, streams: run_apart(
        [new_learner(seed) for _ in streams], [new_learner(seed) for _ in streams], streams
    ),
    "levels": lambda seed, streams: run_apart(
        [Learner(features="auto") for _ in streams], [Learner(features="auto") for _ in streams], streams
    ),
    "learner": lambda seed, streams: run_shared(lambda: new_learner(seed), streams),
    "snapshot": run_snapshot,
    "river": lambda seed, streams: run_apart(
        [new_river_model(seed) for _ in streams], [new_river_model(seed) for _ in streams], streams
    ),
    "river-shared": lambda seed, streams: run_shared(lambda: new_river_model(seed), streams),
    "loaded": run_loaded,
}


def run_scenario(name, seed, threads):
    """Run one scenario in this process; AssertionError unless every answer is that of some order."""
    SCENARIOS[name](seed, [events(100 * seed + thread) for thread in range(threads)])


def run_process(name, seed, threads, cache, timeout=600.0):
    """Run one scenario in a process of its own; return None, or how it failed."""
    command = [sys.executable, __file__, "--scenario", name, "--seed", str(seed), "--threads", str(threads)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    fine = done.returncode == 0 and done.stdout.strip() == "fine"
    return None if fine else f"exit {done.returncode}: {done.stderr[-2000:]}"


def processes(names, runs, cold_runs):
    """Run every scenario in processes, with an empty and with a filled cache; return how many failed."""
    failures = 0
    with tempfile.TemporaryDirectory() as warm:
        for name, (kind, number) in itertools.product(names, (("cold", cold_runs), ("warm", runs))):
            began, failed = time.perf_counter(), []
            for seed in range(number):
                cache = tempfile.mkdtemp() if kind == "cold" else warm
                found = run_process(name, seed, 2 + seed % 7, cache)
                if kind == "cold":
                    shutil.rmtree(cache, ignore_errors=True)
                if found is not None:
                    failed.append((seed, found))
            failures += len(failed)
            seconds = time.perf_counter() - began
            print(f"{name:13} {kind} {number} runs, {len(failed)} failed, {seconds:.0f} s", flush=True)
            for seed, found in failed:
                print(f"  seed {seed}: {found}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000, help="of all kinds together")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one kind of model, or one scenario")
    parser.add_argument("--runs", type=int, help="processes per scenario and cache")
    parser.add_argument("--cold-runs", type=int, help="processes with an empty cache; by default as many")
    parser.add_argument("--scenario", choices=SCENARIOS, help="run one scenario in this process")
    options = parser.parse_args()
    if options.scenario:
        run_scenario(options.scenario, options.seed, options.threads)
        print("fine")
        return
    if options.runs is not None:
        names = [options.only] if options.only else list(SCENARIOS)
        sys.exit(processes(names, options.runs, options.runs if options.cold_runs is None else options.cold_runs) > 0)
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
