"""Run a user's first steps with an installed fiol in an empty folder: python smoke.py EXTRAS, such as files,sklearn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any


def run_command(*words: str) -> str:
    """Run the command `fiol` of this environment; return its standard output."""
    command = [sys.executable, "-m", "fiol", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def try_learner() -> None:
    """A learner learns, is saved and continues to the same bits."""
    import fiol

    rows, targets = [{"site": "news", "hour": 9}, {"site": "sport", "hour": 20}], [1, -1]
    learner = fiol.Learner()
    learner.learn(rows, targets)
    learner.save("model.fiol")
    again = fiol.load("model.fiol")
    assert (learner.learn(rows, targets) == again.learn(rows, targets)).all()
    assert (learner.weights == again.weights).all()
    module: dict[str, Any] = {}
    exec(learner.to_python(), module)
    assert abs(module["score"](rows[0]) - learner.score_named(rows[0])) < 1e-12


def try_estimators() -> None:
    """An estimator is better on unscaled columns than SGD."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import SGDClassifier

    import fiol

    X, y = load_breast_cancer(return_X_y=True)
    ours, theirs = (
        m.fit(X[::2], y[::2]).score(X[1::2], y[1::2])
        for m in (fiol.FIOLClassifier(random_state=0), SGDClassifier(random_state=0))
    )
    assert ours > max(0.9, theirs), (ours, theirs)


def try_command() -> None:
    """The commands of README run."""
    run_command("demo", "--rows", "2000")
    run_command("train", "tickets.csv", "--target", "escalated", "-o", "tickets.fiol")
    assert "AUC" in run_command("evaluate", "tickets.fiol", "later.csv", "--report", "tickets.html")
    assert run_command("predict", "tickets.fiol", "later.csv").count("\n") == 1 + 400
    run_command("train", "later.csv", "--update", "tickets.fiol")
    run_command("export", "tickets.fiol", "-o", "scorer.py")
    assert "<html" in Path("tickets.html").read_text(encoding="utf-8")


def main() -> None:
    import fiol

    assert "site-packages" in str(fiol.__file__), f"{fiol.__file__} is not an installed package"
    extras = sys.argv[1].split(",")
    try_learner()
    if "sklearn" in extras:
        try_estimators()
    if "files" in extras:
        try_command()
    print(f"fiol {fiol.__version__} on Python {sys.version.split()[0]}: learner, command and estimators work")


if __name__ == "__main__":
    main()
