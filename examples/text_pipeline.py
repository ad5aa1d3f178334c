"""Which topic is a text about? A hashing vectorizer and an exactly sparse classifier in a scikit-learn pipeline.

python examples/text_pipeline.py [--quick]

The texts are made up: common words without meaning, and some words for every topic.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from fiol import FIOLClassifier

TOPICS = {
    "cooking": "oven butter salt simmer recipe flour garlic whisk boil taste pan dough",
    "sailing": "mast harbor wind anchor keel tack sail rope crew tide deck buoy",
    "astronomy": "orbit star lens galaxy comet dust moon telescope eclipse planet nebula probe",
    "chess": "rook gambit pawn castle endgame bishop check tempo blunder queen clock knight",
}


def make_texts(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Texts of 15 to 60 words, of which about one in ten belongs to its topic and one in twenty to another."""
    rng = np.random.default_rng(seed)
    common = np.array([f"word{k}" for k in range(20_000)])
    frequency = 1.0 / np.arange(10, 10 + len(common))
    words = np.array([text.split() for text in TOPICS.values()])
    codes, lengths = rng.integers(len(TOPICS), size=n), rng.integers(15, 60, size=n)
    text = rng.choice(common, lengths.sum(), p=frequency / frequency.sum())
    kind, own, other = rng.random(len(text)), np.repeat(codes, lengths), rng.integers(len(TOPICS), size=len(text))
    which = rng.integers(words.shape[1], size=len(text))
    text = np.where(kind > 0.9, words[own, which], np.where(kind < 0.05, words[other, which], text))
    return [" ".join(part) for part in np.split(text, np.cumsum(lengths)[:-1])], np.array(list(TOPICS))[codes]


def topic_words(model: Pipeline, topic: str, texts: list[str], most: int = 5) -> list[str]:
    """The words with the largest weights. A hash cannot be undone, but words can be asked for one by one."""
    vectorizer, classifier = model[0], model[-1]
    counts = Counter(word for text in texts for word in text.split())
    columns: dict[int, str] = {}
    for word, _ in counts.most_common():  # of words that share a column, the most frequent one
        columns.setdefault(int(vectorizer.transform([word]).indices[0]), word)
    weights = classifier.coef_[list(classifier.classes_).index(topic)]
    return [columns[k] for k in sorted(columns, key=lambda k: -weights[k])[:most]]


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few texts")
    quick = parser.parse_args(arguments).quick
    texts, topics = make_texts(160 if quick else 10_000, seed=0)
    new_texts, new_topics = make_texts(100 if quick else 5_000, seed=1)
    vectorizer = HashingVectorizer(n_features=2**10 if quick else 2**18, alternate_sign=False, norm=None)
    once: dict[str, Any] = {"max_iter": 1, "tol": None, "random_state": 0}
    models = {
        "FIOL, one pass": FIOLClassifier(**once),
        "SGD of scikit-learn, one pass": SGDClassifier("log_loss", penalty=None, **once),
        "FIOL, one pass, l1": FIOLClassifier(penalty="l1", alpha=2e-3, **once),
        "SGD of scikit-learn, one pass, l1": SGDClassifier("log_loss", penalty="l1", alpha=2e-3, **once),
    }
    print(f"{len(texts):,} texts about {', '.join(TOPICS)}, hashed into {vectorizer.n_features:,} columns\n")
    print(f"  {'':<38}{'right':>8}{'weights that are not 0':>26}")
    right = {}
    for name, classifier in models.items():
        model = make_pipeline(vectorizer, classifier)
        model.fit(texts, topics)
        right[name] = model.score(new_texts, new_topics)
        print(f"  {name:<38}{right[name]:>8.1%}{np.count_nonzero(classifier.coef_):>26,}")
    print("\nSteps of FIOL are larger for rare words: on few texts those count too much without a penalty.")
    sparse = make_pipeline(vectorizer, models["FIOL, one pass, l1"])
    print("\nThe words that tell most:")
    for topic in TOPICS:
        print(f"  {topic:<12}{', '.join(topic_words(sparse, topic, texts[:500]))}")
    return right


if __name__ == "__main__":
    main()
