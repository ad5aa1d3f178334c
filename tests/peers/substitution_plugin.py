"""A pytest plugin for scikit-learn's own tests that substitutes fiol's classes, with scikit-learn's parameters.

`SGDClassifier` and `SGDRegressor` follow docs/guides/from_scikit_learn.md in every parameter; the passive-aggressive
classes are the drop-ins as they are. The outcome of every test goes to the file that PEERS_OUTCOMES names.
"""

import functools
import inspect
import json
import os
import re
from pathlib import Path

import numpy as np
from sklearn import linear_model

import fiol

THEIRS = {name: getattr(linear_model, name) for name in ("SGDClassifier", "SGDRegressor")}
#: Losses that are half of theirs here: twice the step and half the penalty give the same.
HALVES = ("squared_hinge", "squared_epsilon_insensitive")
#: Losses that their passive-aggressive steps take.
PA_LOSSES = ("hinge", "epsilon_insensitive")
#: With a linearized penalty where theirs is; an l1 that acts on absent features, too, is the nearest to theirs.
ALGORITHMS = {None: "SGD", "l2": "SGD", "l1": "COMID", "elasticnet": "COMID"}


class Translated:
    """Our parameters, translated from scikit-learn's."""

    geometry = solver = record_every = tune = table_encoding = None
    positive = False
    _start = None, None

    def fit(self, X, y, coef_init=None, intercept_init=None, sample_weight=None):
        """Ours has no `coef_init`: the learners of a new model start there (docs/guides/from_scikit_learn.md)."""
        self._start = coef_init, intercept_init
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._start

    def _goes_on(self):
        return self._start[0] is self._start[1] is None and super()._goes_on()

    def _started(self, learners):
        coef, intercept = self._start
        shape = (len(learners), self.n_features_in_)
        if coef is not None or intercept is not None:
            w = np.zeros(shape) if coef is None else np.asarray(coef, float).reshape(shape)
            b = np.zeros(shape[0]) if intercept is None else np.asarray(intercept, float).reshape(shape[:1])
            for k, learner in enumerate(learners):
                learner.start_from(w[k], b[k])

    def _new_learner(self, *given):
        learner = super()._new_learner(*given)
        self._started([learner])
        return learner

    def _loss(self):
        loss, epsilon = self.loss, self.epsilon
        if self.learning_rate == "pa2" and loss in PA_LOSSES:
            loss = f"squared_{loss}"
        known = {
            "hinge": fiol.Hinge(),
            "log_loss": fiol.Logistic(),
            "squared_hinge": fiol.SquaredHinge(),
            "squared_error": fiol.Squared(),
            "huber": fiol.Huber(max(epsilon, 1e-9)),
            "epsilon_insensitive": fiol.EpsilonInsensitive(epsilon),
            "squared_epsilon_insensitive": fiol.SquaredEpsilonInsensitive(epsilon),
        }
        if loss not in known:
            raise NotImplementedError(f"there is no loss {loss!r} here")
        return known[loss]

    @property
    def algorithm(self):
        return {"optimal": "FIOL", "adaptive": "FIOL", "pa1": "PA1", "pa2": "PA2"}.get(
            self.learning_rate, ALGORITHMS[self.penalty]
        )

    @property
    def step_size(self):
        factor = 2.0 if self.loss in HALVES else 1.0
        if self.learning_rate == "invscaling":
            return fiol.Polynomial(factor * self.eta0, self.power_t)
        return "auto" if self.learning_rate in ("optimal", "adaptive") else factor * self.eta0

    def _update(self):
        if self.learning_rate in ("pa1", "pa2"):
            if self.loss not in PA_LOSSES:
                raise ValueError(f"learning_rate={self.learning_rate!r} has no use for {self.loss!r}")
            return fiol.integrations.parameters.make_update(self._loss(), algorithm=self.algorithm, step_size=self.eta0)
        alpha = self.alpha / 2.0 if self.loss in HALVES else self.alpha
        options = self.penalty, alpha, self.l1_ratio, self.algorithm, self.step_size
        return fiol.integrations.parameters.make_update(self._loss(), *options)


def taking_parameters_of(theirs):
    """A constructor with the parameters of a class of theirs."""
    parameters = inspect.signature(theirs.__init__)

    def construct(self, *arguments, **options):
        given = parameters.bind(self, *arguments, **options)
        given.apply_defaults()
        for name, value in list(given.arguments.items())[1:]:
            setattr(self, name, value)

    construct.__signature__ = parameters
    return construct


class SGDClassifier(Translated, fiol.FIOLClassifier):
    """scikit-learn's, by name and parameters."""

    _parameter_constraints = THEIRS["SGDClassifier"]._parameter_constraints
    __init__ = taking_parameters_of(THEIRS["SGDClassifier"])

    def _new_model(self, *given):
        model = super()._new_model(*given)
        self._started(list(model.learners.values()))
        return model


class SGDRegressor(Translated, fiol.FIOLRegressor):
    """scikit-learn's, by name and parameters."""

    _parameter_constraints = THEIRS["SGDRegressor"]._parameter_constraints
    n_jobs = None
    __init__ = taking_parameters_of(THEIRS["SGDRegressor"])


class PrivateParts:
    """Attributes of theirs that begin with an underscore, for tests that ask whether they are there."""

    def __getattr__(self, name):
        if self.average and name in ("_average_coef", "_average_intercept", "_standard_coef", "_standard_intercept"):
            return
        raise AttributeError(name)


class PassiveAggressiveClassifier(PrivateParts, fiol.PassiveAggressiveClassifier):
    """The drop-in."""


class PassiveAggressiveRegressor(PrivateParts, fiol.PassiveAggressiveRegressor):
    """The drop-in."""


#: Whose place is taken in the tests of each module.
OURS = {
    "sgd": (SGDClassifier, SGDRegressor),
    "passive_aggressive": (PassiveAggressiveClassifier, PassiveAggressiveRegressor),
}
#: Tests of a class that has no counterpart here.
OTHER = re.compile("one_?class|ocsvm", re.IGNORECASE)
OUTCOMES, LEFT_OUT, MADE = {}, [], []


def noted(init):
    """A constructor that notes that it was called."""

    @functools.wraps(init)
    def call(*arguments, **options):
        MADE.append(True)
        init(*arguments, **options)

    return call


def pytest_configure(config):
    """Take their place before their tests import them."""
    for kind in OURS[os.environ["PEERS_MODULE"]]:
        kind.__init__ = noted(kind.__init__)
        setattr(linear_model, kind.__name__, kind)


def pytest_collection_modifyitems(items):
    """Leave out the tests that are named, and those of a class that is not ours."""
    named = os.environ.get("PEERS_SKIPPED", "").split()
    LEFT_OUT.extend(item.name for item in items if item.originalname in named and "OneClass" not in item.name)
    items[:] = [item for item in items if item.originalname not in named and not OTHER.search(item.name)]


def pytest_runtest_setup(item):
    """Forget the models of the test before."""
    MADE.clear()


def pytest_runtest_logreport(report):
    """Remember what became of a test, if it has made a model of ours, or could not."""
    name = report.nodeid.partition("::")[2]
    if report.failed or (MADE and report.when == "call"):
        OUTCOMES[name] = report.outcome


def pytest_sessionfinish():
    """Write down what became of all."""
    Path(os.environ["PEERS_OUTCOMES"]).write_text(json.dumps({"ran": OUTCOMES, "left out": LEFT_OUT}))
