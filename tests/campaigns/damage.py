"""Damaged and forged files of every kind of model: none loads into a model that breaks later.

    python tests/campaigns/damage.py [--files N] [--seed N] [--only KIND]

Kinds are those of the golden files (`tests/persistence/make_golden.py`): learners, ensembles, one-vs-rest, estimators;
and models that the command trained, which say how files are read and where their training is.

A third of the files have bytes altered or cut off; these are all refused. The others have a header that says something
else in one to three places, of another type, out of range, missing, unknown or from elsewhere in it, and a checksum
that is right. What loads must work: read, learn, copy, save, load again and go on to the same bits, and refuse no
rows but those that a new model of the same settings refuses. `fiol inspect`, `predict`, `evaluate` and `train --resume`
of what the command trained end well, or with one line that says what is wrong with the file.

Some of these files have NaN or an infinity in an array, or claim features that were never seen for all members and
classes, which fit into memory for each but not for all together. These are all refused.
"""

import argparse
import collections
import copy
import hashlib
import json
import math
import os
import random
import re
import struct
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import fiol
from fiol import cli
from fiol.persistence import model_file, records
from fiol.persistence.model_file import ModelFileError

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.interpreted import interpret_all
from tests.persistence.make_golden import MODELS

#: What the command trains, by the name of the file with the rows.
TRAINED = {
    "table.csv": ["--target", "bought", "--passes", "3", "--holdout", "0.25", "--early-stop", "2", "--shuffle", "4"],
    "numbers.svm": ["--algorithm", "FIOL", "--passes", "2"],
    "kinds.vw": ["--algorithm", "FIOL", "--bits", "6"],
}
ROWS = {
    "table.csv": """id,age,city,joined,note,bought
a,31,Rome,2024-03-04,quick brown fox jumps over it,yes
b,,Oslo,2024-03-05,the lazy dog sleeps here all day,no
c,45,Rome,2024-03-06,one more fox and one more dog,yes
d,27,"Oslo, north",,nothing to say about these dogs at all,no
e,3.5,Oslo,2023-01-01,six dogs are more than five foxes,no
f,61,Rome,2024-12-31,who says that foxes never jump,yes
""",
    "numbers.svm": "1.5 1:0.5 3:2\n-2 2:1\n0.25 1:1 2:-1 3:0.5\n7 3:1\n",
    "kinds.vw": "1 |a x:0.5 y |b z\n2 |a y:2\n3 |b z:3 w\n1 |a x |b w\n",
}
#: Messages of Python that do not help the owner of a file, or that all memory would be used.
NATIVE = (
    r"object is not|has no attribute|unsupported operand|not subscriptable|positional argument|out of range$|unhashable"
    r"|allocate|^Error: MemoryError"
)
#: A file takes no room for features never seen, of which wide rows have millions, but the weights of all of them do.
MOST_USED = 10**7

#: Files of each kind with a number that is not finite.
POISONED = 5
#: Features that a file claims; models of a few features take as much memory as this for each of them.
CLAIMED = 10**6

#: What takes the place of a value.
OTHERS = (
    None, True, False, -1, 0, 1, 2, 3, 5, 6, 7, 8, 31, 255, 256, 2**31 - 2, 2**31 - 1, 2**31, 2**53 + 1, 2**63, 2**64,
    10**30, -0.0, 0.5, 1.0, 7.5, 1e-320, 1e308, "", "x", "inf", "-inf", "nan", "float64", "float32", "f8", "größe",
    "word 1",
    [], [1], ["a"], ["a", "a"], [[]], [None], {}, {"a": 1}, {"array": "AAAAAAAA8D8=", "shape": [1]},
    {"component": "L1", "fields": {"lam": 0.1}}, {"component": "Squared", "fields": {}},
    {"component": "Softmax", "fields": {}},
)  # fmt: skip
#: Refusals of rows that go with the settings of a model.
REFUSALS = (
    r"this (learner|model) has|row \d+ brings|y\[\d|X\[\d|X has|y must|X must|there are no classes"
    r"|there are \d+ features|.* is none of the classes|.* has no probabilities|its .*|x\[|array"
)


def places(value, path=()):
    """Every place in a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def parts(data):
    """The header of a file and the bytes of its arrays."""
    (length,) = struct.unpack_from("<Q", data, 20)
    start = -(-(28 + length) // 64) * 64
    return json.loads(data[28 : 28 + length]), data[start:-32]


def signed(header, body):
    """A file of the newest format with this header, as if it had been written so."""
    text = json.dumps(header).encode()
    gap = -(28 + len(text)) % 64
    head = struct.pack("<8sIQQ", b"\x89fiol\r\n\x1a", 2, 28 + len(text) + gap + len(body) + 32, len(text))
    whole = head + text + bytes(gap) + body
    return whole + hashlib.sha256(whole).digest()


def forged(data, rng):
    """Return a file with a forged header."""
    header, body = parts(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        there = list(places(header))
        if not there:
            break
        *way, key = rng.choice(there)
        here = header
        for step in way:
            here = here[step]
        what = rng.random()
        if what < 0.08:
            del here[key]
        elif what < 0.13 and isinstance(here, dict):
            here[rng.choice(("extra", "bits", "classes", "names", "seen", "lam", "max_features"))] = rng.choice(OTHERS)
        elif what < 0.25:  # a value from elsewhere
            other = header
            for step in rng.choice(there):
                other = other[step] if isinstance(other, (dict, list)) and has(other, step) else None
            here[key] = copy.deepcopy(other)
        elif what < 0.4 and type(here[key]) in (int, float):
            here[key] += rng.choice((-1, 1, 2, 0.5, 1e-9, 2**31))
        else:
            here[key] = copy.deepcopy(rng.choice(OTHERS))
    return signed(header, body)


def poisoned(data, rng):
    """A file with NaN or an infinity at a random place of an array, and the name of the array."""
    header, body = parts(data)
    first = {
        entry["offset"]: entry for entry in reversed(header["arrays"]) if entry["length"]
    }  # of those that share it
    entry = rng.choice([entry for entry in first.values() if entry["dtype"][1] == "f"])
    dtype = np.dtype(entry["dtype"])
    at = entry["offset"] + dtype.itemsize * rng.randrange(entry["length"] // dtype.itemsize)
    value = np.array(rng.choice((math.nan, math.inf, -math.inf)), dtype).tobytes()
    return signed(header, body[:at] + value + body[at + dtype.itemsize :]), entry["name"].replace("seen.", "state.")


def packed(arrays, features):
    """Return the arrays of a file in which every learner, member and class claims this many features."""
    claimed = {}
    for name, array in arrays.items():
        owner, _, statistic = name.rpartition("state.")
        fresh = arrays.get(f"{owner}fresh.{statistic}")
        if not name.startswith(f"{owner}state.") or fresh is None or not len(fresh):
            claimed[name] = array
            continue
        claimed[f"{owner}features"] = np.array([features], np.uint32)
        claimed[f"{owner}seen"] = np.arange(len(array), dtype=np.uint32)
        claimed[f"{owner}seen.{statistic}"] = array
    return claimed


def refuses_claims(path):
    """Claim features for all parts of the model of a file, one more than fit into memory; the number of parts."""
    whole, arrays = model_file.read(path)
    claimed = packed(records.unpack(arrays), CLAIMED)
    owners = [name.removesuffix("seen") for name in claimed if name.rpartition("/")[2] == "seen"]
    sizes = [
        CLAIMED * sum(a.nbytes for name, a in claimed.items() if name.startswith(f"{owner}fresh.")) for owner in owners
    ]
    model_file.write(path, whole, claimed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fiol.persistence.memory.free_memory", lambda: records.LOADING_COPIES * sum(sizes) - 1.0)
        tracemalloc.start()
        try:
            with pytest.raises(ModelFileError, match=f"a model of {CLAIMED:,} features"):
                fiol.load(path, compiled=False)
            assert tracemalloc.get_traced_memory()[1] < min(sizes), "allocated before it was refused"
        finally:
            tracemalloc.stop()
    return len(owners)


def has(value, key):
    return key in value if isinstance(value, dict) else isinstance(key, int) and key < len(value)


def damaged(data, rng):
    """A file with some bytes altered, cut off or added."""
    what = rng.random()
    if what < 0.25:
        return data[: rng.randrange(len(data))]
    if what < 0.3:
        return data + rng.randbytes(rng.randrange(1, 100))
    altered = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 10))):
        altered[rng.randrange(len(altered))] ^= rng.randrange(1, 256)
    return bytes(altered)


def weights_of(model):
    """The weights of a model, none of one that is not linear."""
    return model.weights if model.update.is_linear() else np.empty(0)


def use(model, X, y, path):
    """Do with a model what can be done; the error of rows that it refuses."""
    assert weights_of(model).shape[-1] in (0, model.n_features), "weights of other features"
    assert model.names is None or len(model.names) == model.n_features, "names of other features"
    model.save(path)
    twin = fiol.load(path, compiled=False)
    outcomes = []
    for one in (model, twin, model.copy()):
        try:
            said = one.scores(X).tobytes(), repr(one.predict(X).tolist())
            outcomes.append((said, one.learn(X, y).tobytes(), weights_of(one).tobytes(), one.rounds))
        except (TypeError, ValueError) as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1], "another model after it was saved and loaded"
    model.save(path)
    again = fiol.load(path, compiled=False)
    assert weights_of(again).tobytes() == weights_of(model).tobytes(), "another model after it learned and was saved"
    if hasattr(model, "prune") and model.names is not None and model.columns is None:
        try:
            model.prune()
        except TypeError as error:  # hats and nodes of numbered features have names
            if "features are numbered by the caller" not in str(error):
                raise
        assert weights_of(model).shape[-1] in (0, model.n_features)
    type(model).merge([model, again])
    return outcomes[0] if isinstance(outcomes[0], str) else None


def dense(weights):
    """Return weights as an array, also of an estimator with sparse ones."""
    return weights.toarray() if hasattr(weights, "toarray") else np.asarray(weights)


def use_estimator(model, X, y, path):
    """Use a loaded estimator; parameters that it refuses are refused when it learns."""
    X = np.array(X)
    model.save(path)
    twin, outcomes = fiol.load(path, compiled=False), []
    for one in (model, twin, copy.deepcopy(model)):
        np.random.seed(0)  # the order of rows, where a file says that any will do
        try:  # joblib has its own words for some numbers of threads
            said = repr(one.predict(X).tolist()), dense(one.coef_).tobytes()
            outcomes.append((said, repr(one.partial_fit(X, y).predict(X).tolist())))
        except (TypeError, ValueError) as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1] == outcomes[2], "another model after it was saved and loaded"
    model.save(path)
    assert dense(fiol.load(path, compiled=False).coef_).tobytes() == dense(model.coef_).tobytes()


def trained(name, folder, path):
    """The bytes of a model that the command trained."""
    Path(folder, name).write_text(ROWS[name])
    done = run("train", os.path.join(folder, name), *TRAINED[name], "-o", path, "--force")
    assert done.exit_code == 0, done.output
    return Path(path).read_bytes()


def run(*arguments):
    """The command in this process."""
    return CliRunner().invoke(cli.main, list(arguments))


def use_command(name, folder, path):
    """What the command does with a model: whether it ends well or says in a line what is wrong."""
    data = os.path.join(folder, name)
    for arguments in (
        ("inspect", path),
        ("inspect", path, "--json"),
        ("predict", path, data),
        ("evaluate", path, data),
        ("train", data, *TRAINED[name], "-o", path, "--resume"),
    ):
        done = run(*arguments)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code:
            said = done.output.splitlines()[-1]
            assert done.exit_code in (1, 2), done.output
            assert said.startswith("Error: "), done.output
            assert not re.search(NATIVE, said), f"{arguments[0]} says {said}"


def refused_by_a_new_one(model, X, y):
    """Whether a new model of the same settings refuses the rows, too."""
    labels = model.core.space.labels
    known = {"classes": fiol.features.labels.AnyLabels(labels.classes)} if labels is not None and labels.closed else {}
    new = type(model)(model.update, **model.core.options(), **known, compiled=False)
    new.core.space.restore(model.core.space.header())
    try:
        new.learn(X, y)
    except (TypeError, ValueError):
        return True
    return False


def campaign(files, seed, folder, kinds=(*MODELS, *TRAINED), first=0):
    """Count the files, from the `first`, that were refused and those that loaded, by what was done to them.

    Models are to work in the interpreter, see `interpret_all`.
    """
    path, found = os.path.join(folder, "model.fiol"), collections.Counter()
    originals = {}
    for kind in kinds:
        if kind in TRAINED:
            originals[kind] = trained(kind, folder, path), None, None
            continue
        make, write, _ = MODELS[kind]
        model, (X, y) = make()
        write(model, path)
        originals[kind] = Path(path).read_bytes(), X, y
    for kind, (data, _, _) in originals.items():
        Path(path).write_bytes(data)
        found["claims of too many features, refused"] += refuses_claims(path) > 0
        for k in range(POISONED):
            changed, name = poisoned(data, random.Random(f"{seed} {kind} {k}"))
            Path(path).write_bytes(changed)
            with pytest.raises(ModelFileError, match=f"array {name!r} must be finite, got (nan|inf|-inf) at "):
                fiol.load(path, compiled=False)
            found["numbers that are not finite, refused"] += 1
    for k in range(first, first + files):
        rng = random.Random(f"{seed} {k}")
        kind = rng.choice(kinds)
        data, X, y = originals[kind]
        forge = k % 3 != 0
        changed = forged(data, rng) if forge else damaged(data, rng)
        with open(path, "wb") as file:
            file.write(changed)
        where = f"file {k} of seed {seed}, {kind}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a forged step may diverge
            try:
                model = fiol.load(path, compiled=False)
            except ModelFileError as error:
                if not str(error).startswith(path):
                    raise AssertionError(f"{where}: no path in {error}") from error
                found["forged, refused" if forge else "damaged, refused"] += 1
                continue
            except BaseException as error:
                raise AssertionError(f"{where}: loading it is a {type(error).__name__}: {error}") from error
            assert forge or changed == data, f"{where}: a damaged file loads"
            if getattr(model, "n_features", 0) > MOST_USED:
                found["forged, loaded, with more features than are used here"] += 1
                continue
            try:
                if kind in TRAINED:
                    reason = use_command(kind, folder, path)
                else:
                    reason = use_estimator(model, X, y, path) if hasattr(model, "coef_") else use(model, X, y, path)
                if reason is not None and "max_features" not in reason:
                    assert refused_by_a_new_one(model, X, y), f"refuses rows: {reason}"
            except BaseException as error:
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        assert reason is None or re.match(REFUSALS, reason), (where, reason)
        found["forged, loaded and works"] += 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="leave out the files before this one")
    parser.add_argument("--only", choices=[*MODELS, *TRAINED])
    options = parser.parse_args()
    kinds = [options.only] if options.only else [*MODELS, *TRAINED]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        interpret_all(patch)
        began = time.perf_counter()
        found = campaign(options.files, options.seed, folder, kinds, options.first)
        for what, number in sorted(found.items()):
            print(f"{number:8} {what}")
        print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
