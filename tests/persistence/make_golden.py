"""Makes the files that must load for ever: `python tests/persistence/make_golden.py NAME ...`, or `all` that are not
there.

Beside every file, a JSON file of its name has rows with targets, and what the model says before and after it learns
from them. An existing file is never overwritten: once released, it is the proof that old files load.
"""

import json
import sys
from pathlib import Path

import numpy as np

import fiol
from fiol.persistence import model_file

GOLDEN = Path(__file__).parent / "golden"


def words(rows, seed):
    """Rows of names and numbers, and targets -1 or +1."""
    draw = np.random.default_rng(seed)
    made = [{f"word {draw.zipf(1.5) % 9}": 1.0, "größe": round(draw.normal(), 2), "day": "sun"} for _ in range(rows)]
    return made, [1.0 if row["größe"] > 0.0 else -1.0 for row in made]


def numbers(rows, seed):
    """Rows of five numbers, some of them 0, and a target that depends on them."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, 5)).round(2) * draw.integers(0, 2, (rows, 5))
    return x.tolist(), (x @ [1.0, -2.0, 0.0, 3.0, 0.5] + 1.0).round(3).tolist()


def learner(rows, update, **options):
    """A learner after 20 rows, and five more."""
    model = fiol.Learner(update, compiled=False, **options)
    model.learn(*rows(20, seed=1))
    model.meta = {"target": "größe", "columns": ["word", None, 7, 0.5]}
    return model, rows(5, seed=2)


def names():
    """A learner of named features."""
    return learner(words, fiol.FIOL(fiol.Logistic(), fiol.L1(0.01)))


def bits():
    """A learner of hashed features, most of which it never saw."""
    return learner(words, fiol.FTRLProximal(fiol.Hinge(), fiol.ElasticNet(0.01, 0.02)), bits=8)


def float32_averages():
    """A learner that keeps averages and stores its weights in 32 bits."""
    return learner(numbers, fiol.FIOL(fiol.Huber(1.0), fiol.Ridge(0.01)), average=True, dtype="float32")


def merged():
    """A learner of the names of two, whose clock leaves out rows and half a round."""
    update, parts = fiol.FIOL(fiol.Logistic(), fiol.L1(0.01), fiol.Polynomial(0.5)), []
    for rows in (5, 15):
        parts.append(fiol.Learner(update, compiled=False))
        parts[-1].learn(*words(rows, seed=rows))
    return fiol.Learner.merge(parts), words(5, seed=2)


def bounded():
    """A learner that holds a few features only."""
    return learner(words, fiol.FIOL(fiol.Logistic(), fiol.L1(0.2), fiol.Constant(0.5)), max_features=6)


def per_feature():
    """A learner of as many features as its recipe has numbers."""
    regularizer = fiol.Box(fiol.L1([0.0, 0.1, 0.2, 0.3, 0.0]), hi=2.0)
    return learner(numbers, fiol.FIOL(fiol.Quantile(0.3), regularizer, fiol.Polynomial(0.5)), intercept=False)


def fruit(rows, seed):
    """Rows of names and numbers, and labels of three types."""
    made, targets = words(rows, seed)
    return made, [
        7 if row["größe"] > 0.5 else "äpfel" if target > 0.0 else True
        for row, target in zip(made, targets, strict=True)
    ]


def joint():
    """A learner of all classes at once, which appear."""
    return taught(fiol.Learner(fiol.FIOL(fiol.Softmax(), fiol.Ridge(0.01)), average=True, compiled=False))


def ensemble():
    """The default: seven learners and their stack."""
    return learner(words, fiol.Stacked(fiol.Logistic()))


def gated():
    """Seven learners behind a gate, which is closed to some features."""
    return learner(numbers, fiol.Stacked(fiol.Squared(), fiol.L1(0.05)))


def centered():
    """Seven learners of columns far from 0, whose means are taken from them after 32 rows."""

    def far(rows, seed):
        X, y = numbers(rows, seed)
        return [[row[0] + 1000.0, row[1] - 50.0, *row[2:]] for row in X], y

    return taught(fiol.Learner(fiol.Stacked(fiol.Squared()), compiled=False), far, first=40)


def curves():
    """Three levels, with curves and pairs since the 20th row, from before there were curves that close."""
    basis = fiol.TableBasis(rows=20, knots=3)
    return taught(fiol.Learner(fiol.Stacked(fiol.Squared(), basis=basis), compiled=False), numbers, first=30)


def bayes():
    """Members by exponential weights: there are none of the whole."""
    sizes = fiol.ScaleFree(fiol.AdaGrad(1.0)), fiol.ScaleFree(fiol.Constant(10.0))
    members = [fiol.FIOL(fiol.Logistic(), step_size=size) for size in sizes]
    return learner(words, fiol.Ensemble(members, fiol.Bayes(0.01)))


def one_vs_rest():
    """A learner per class of hashed features, and one that stands by for the next class."""
    return taught(fiol.OneVsRest(fiol.FIOL(fiol.Logistic(), fiol.L1(0.01)), bits=8, compiled=False))


def one_vs_one():
    """Return a learner of two declared classes."""
    model = fiol.OneVsRest(fiol.FIOL(fiol.Hinge()), classes=["no", "yes"], compiled=False)
    return taught(model, lambda rows, seed: (words(rows, seed)[0], ["no", "yes", "no", "no", "yes"] * (rows // 5)))


def taught(model, rows=fruit, first=20):
    """A model after the first rows, and five more."""
    model.learn(*rows(first, seed=1))
    model.meta = {"unit": "größe"}
    return model, rows(5, seed=2)


def save(model, path):
    """As this version writes."""
    model.save(path)


# --- as an older version would have written it ------------------------------------------------


def older():
    """A learner of AdaGrad, which needs its sums of squares to go on."""
    return learner(numbers, fiol.FIOL(fiol.Squared(), step_size=fiol.AdaGrad(0.5)))


def save_older(model, path):
    """Without sums of squares, rows that the clock leaves out, meta, and what has a default."""
    model.save(path)
    header, arrays = model_file.read(path)
    del header["meta"], header["model"]["options"]["dtype"], header["model"]["statistics"]
    fields = header["model"]["update"]["fields"]
    header["model"]["update"]["fields"] = {name: fields[name] for name in ("loss", "regularizer", "step_size")}
    fewer = {name: array for name, array in arrays.items() if not name.endswith((".square", "uncounted"))}
    assert len(fewer) < len(arrays)
    model_file.write(path, header, fewer)


def say_older(model, X, y):
    """Return the expected values of a model whose AdaGrad sums start at 0."""
    model.meta = {}
    before, rounds = say(model, X), model.rounds
    new = fiol.Learner(model.update, compiled=False)
    new.start_from(model.weights, model.intercept)
    new.learn(X, y)
    return before, {**say(new, X), "rounds": rounds + new.rounds}


def estimator(model, label):
    """An estimator after 20 rows, and five more."""
    X, y = numbers(20, seed=1)
    more, targets = numbers(5, seed=2)
    model.fit(X, [label(target) for target in y])
    model.meta = {"target": "größe"}
    return model, (more, [label(target) for target in targets])


def regressor():
    """A regressor with a loss and a penalty that are components, and averages."""
    options = {"penalty": fiol.L1(0.01), "average": True, "max_iter": 2, "tol": None, "random_state": 3}
    return estimator(fiol.FIOLRegressor(fiol.Huber(2.0), **options), float)


def classifier():
    """Return a one-vs-rest classifier of three text labels, with class weights."""
    options = {"class_weight": {"low": 2.0}, "max_iter": 1, "shuffle": False}
    return estimator(
        fiol.FIOLClassifier("hinge", **options), lambda y: "low" if y < -1 else "größer" if y > 3 else "mid"
    )


def classifier_of_numbers():
    """A classifier of three numbers, all at once."""
    return estimator(fiol.FIOLClassifier(max_iter=1, shuffle=False), lambda y: float(np.clip(np.round(y / 3.0), -1, 1)))


def passive_aggressive_classifier():
    """Return a passive-aggressive classifier of two text labels."""
    model = fiol.PassiveAggressiveClassifier(C=0.5, max_iter=1, shuffle=False)
    return estimator(model, lambda y: "low" if y < 1 else "high")


def passive_aggressive_regressor():
    """A passive-aggressive regressor that takes squares of what is beyond epsilon."""
    options = {"loss": "squared_epsilon_insensitive", "max_iter": 1, "shuffle": False}
    return estimator(fiol.PassiveAggressiveRegressor(epsilon=0.2, **options), float)


# --- all of them ------------------------------------------------------------------------------


def teach(model, X, y):
    """Train a model of any kind."""
    (model.partial_fit if hasattr(model, "partial_fit") else model.learn)(X, y)


def say(model, X):
    """Return the expected values of a model."""
    if hasattr(model, "partial_fit"):
        return say_estimator(model, X)
    linear = ("weights", "intercept") if not isinstance(model, fiol.Learner) or model.update.is_linear() else ()
    parts = {name: np.asarray(getattr(model, name)).tolist() for name in (*linear, "rounds", "n_features")}
    if getattr(model, "members", []):
        parts |= {"mixing": model.mixing.tolist(), "losses": [model.progressive_loss, *(m.loss for m in model.members)]}
    kinds = {} if model.classes is None else {"classes": model.classes, "predicted": model.predict(X).tolist()}
    return {**parts, **kinds, "scores": model.scores(X).tolist(), "names": model.names, "meta": model.meta}


def say_estimator(model, X):
    """Return the expected values of an estimator."""
    found = {
        "weights": model.coef_,
        "intercept": model.intercept_,
        "rounds": model.t_,
        "losses": getattr(model, "loss_curve_", []),
    }
    found["scores"] = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    if hasattr(model, "classes_"):
        found |= {"classes": model.classes_, "predicted": model.predict(X)}
    parts = {name: np.asarray(value).tolist() for name, value in found.items()}
    return {**parts, "parameters": repr(sorted(model.get_params().items())), "meta": model.meta}


def say_twice(model, X, y):
    """Return the expected values of a model before and after it learns."""
    before = say(model, X)
    teach(model, X, y)
    return before, say(model, X)


#: How each file is made, written, and what is expected of it.
MODELS = {
    "learner-names": (names, save, say_twice),
    "learner-merged": (merged, save, say_twice),
    "learner-bits": (bits, save, say_twice),
    "learner-float32-averages": (float32_averages, save, say_twice),
    "learner-bounded": (bounded, save, say_twice),
    "learner-per-feature": (per_feature, save, say_twice),
    "learner-older": (older, save_older, say_older),
    "learner-classes": (joint, save, say_twice),
    "learner-ensemble": (ensemble, save, say_twice),
    "learner-ensemble-gated": (gated, save, say_twice),
    "learner-ensemble-centred": (centered, save, say_twice),
    "learner-curves": (curves, save, say_twice),
    "learner-ensemble-bayes": (bayes, save, say_twice),
    "one-vs-rest": (one_vs_rest, save, say_twice),
    "one-vs-rest-two": (one_vs_one, save, say_twice),
    "regressor": (regressor, save, say_twice),
    "classifier": (classifier, save, say_twice),
    "classifier-joint": (classifier_of_numbers, save, say_twice),
    "passive-aggressive-classifier": (passive_aggressive_classifier, save, say_twice),
    "passive-aggressive-regressor": (passive_aggressive_regressor, save, say_twice),
}


def make(name, folder=GOLDEN):
    """Write the two files of that name; FileExistsError if one is there."""
    path, expected = folder / f"{name}.fiol", folder / f"{name}.json"
    for there in (path, expected):
        if there.exists():
            raise FileExistsError(f"{there} exists: files that were released must load for ever, so it stays")
    new, write, tell = MODELS[name]
    model, (X, y) = new()
    write(model, path)
    before, after = tell(model, X, y)
    text = json.dumps({"X": X, "y": y, "before": before, "after": after}, ensure_ascii=False, indent=1)
    expected.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    if wanted == ["all"]:
        wanted = [name for name in MODELS if not (GOLDEN / f"{name}.fiol").exists()]
    for name in wanted:
        make(name)
        print(name)
