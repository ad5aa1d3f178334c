"""`Learner`: a linear model that learns from a stream, one exact round per row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.joint_losses import AnyLoss
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.engine.engine import Engine
from fiol.engine.ensemble.engine import Member
from fiol.features.blocks import blocks_of
from fiol.features.feature_space import counted
from fiol.features.hashing import integer
from fiol.features.numbered_rows import one_row
from fiol.learner import files, merge, parallel
from fiol.learner.arguments import chosen_update, with_features
from fiol.learner.core import LearnerCore, make_learner_core, only_score
from fiol.learner.model import Model, is_canonical_row
from fiol.persistence.model import register_kind
from fiol.summary import SHOWN, Summary

Self = TypeVar("Self", bound="Learner")


class Learner(Model):
    """A linear model that learns from a stream, one exact round per row.

    Parameters
    ----------
    update : the update rule, an `Update`, most easily one of `fiol.presets`; or an `Ensemble` of them, whose weights,
        scores and predictions are those of one combined linear model. By default `Stacked(loss, regularizer)`, an
        ensemble with nothing to tune; if the regularizer bounds the weights, `FIOL(loss, regularizer)`.
    loss, regularizer : instead of an update: a loss, `Logistic()` by default, and a penalty, none by default. Names are
        accepted as well (`fiol.names`): `Learner("quantile:0.9")`, `Learner(loss="hinge", regularizer="l1:1e-5")`.
    n_features : the number of features. By default the model grows as new ones appear in dicts, sparse rows and
        chunks. Arrays and frames have as many columns as the first one learned from.
    bits : hash all features, named or numbered, into 2**bits.
    max_features : the largest number of features to hold. When a row needs more, features whose weight is exactly 0 are
        dropped; a feature that comes back later starts anew.
    table_encoding : how columns of frames become features: a dict from columns to kinds ("category", "words", ...), a
        `TableEncoding`, or None, which infers it from the first frame: docs/guides/columns.md.
    intercept : whether to fit an intercept, which is never penalized.
    average : keep the average of the weights over all rounds, and predict with it.
    dtype : how numbers per feature are stored, "float64" or "float32". All arithmetic is in float64. Values are 0 or
        from 1e-100 to 1e100 in size, for float32 from 1e-30 to 1e30; rows after which a weight or statistic is beyond
        float32 raise OverflowError.
    classes : with a joint loss (`Softmax()`, `CrammerSinger()`), the labels of all classes. By default classes may
        appear at any time; the weights of a new one start at 0.
    features : what is made of the columns of a table. "linear", the default: every column as it is. "additive": a curve
        for every column of numbers, too. "pairwise" or "auto": a surface for every pair of columns as well. A
        stack mixes what the simpler models and the richer one predict, so that "auto" costs little where a linear
        model is best: docs/guides/tables.md. Or a `TableBasis` with its own limits.
    compiled : False runs the same code in the interpreter.

    Notes
    -----
    The same rows give the same bits however they are cut into chunks, whatever container holds them, and whether or not
    the learner was saved and loaded in between. Every weight is what a loop over all features in every round would
    give, at a cost that depends on the entries of a row alone (`fiol.algorithms.lazy_updates` has the few exceptions).
    An error in a chunk names the row and column, and nothing has been learned from the chunk.

    Rounds are exact for steps from 1e-12 to 1e12, and for longer ones while the dual variable beta of a row is a
    normal double, at least 1e-308. Beta is about the row's error divided by the sum of step x^2, so that only absurd
    numbers get there; below, weights miss the row's target by the lost digits of beta, without an error. (`solve_step`
    checks every step, and refuses those.)

    A learner is thread-safe, and signals stop it: see `Model`. `snapshot()` returns a scorer that never changes, for
    threads that must not wait.

    Memory beyond the data is `nbytes`: 8 bytes per feature (4 for float32), and 8 more if absent features are
    regularized lazily; as much again for each of AdaGrad's sums and the scale-free maxima; 8 for averages.

    Examples
    --------
    >>> from fiol import FIOL, L1, Learner, Logistic
    >>> learner = Learner()  # logistic loss, nothing to tune
    >>> scores = learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1])
    >>> scores.shape, learner.rounds, len(learner.members)
    ((3,), 3, 7)

    One exact learner of the paper, with a penalty:

    >>> learner = Learner(FIOL(Logistic(), L1(0.01)))
    >>> scores = learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1])
    >>> scores.shape, learner.rounds, learner.n_features
    ((3,), 3, 2)
    >>> learner.predict([[1.0, 0.0]]) > 0.5  # the probability of +1
    array([ True])

    Dicts of named features, one at a time:

    >>> clicks = Learner(FIOL(Logistic()))
    >>> for day in range(3):
    ...     score = clicks.learn_named({"site": "news", "hour": 9 + day}, y=1)
    >>> clicks.names
    ['site=news', 'hour']

    With a loss of one score per class, y holds labels, scores are of shape (rows, classes) and weights of shape
    (classes, features):

    >>> from fiol import Softmax
    >>> fruit = Learner(FIOL(Softmax()))
    >>> fruit.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["apple", "pear", "pear"]).shape, fruit.classes
    ((3, 2), ['apple', 'pear'])
    >>> fruit.predict([[1.0, 0.0]]).shape  # the probability of each class
    (1, 2)
    """

    KIND = files.LEARNER
    core: LearnerCore
    _make_core = staticmethod(make_learner_core)

    def __init__(
        self,
        update: Update | Ensemble | str | None = None,
        *,
        loss: AnyLoss | str | None = None,
        regularizer: Regularizer | str | None = None,
        n_features: int | None = None,
        bits: int | None = None,
        max_features: int | None = None,
        table_encoding: Any = None,
        intercept: bool = True,
        average: bool = False,
        dtype: Any = "float64",
        classes: Sequence[Any] | None = None,
        features: Any = None,
        compiled: bool = True,
    ) -> None:
        self.core = make_learner_core(
            with_features(chosen_update(update, loss, regularizer), features),
            n_features=n_features,
            bits=bits,
            max_features=max_features,
            table_encoding=table_encoding,
            intercept=intercept,
            average=average,
            dtype=dtype,
            classes=classes,
            compiled=compiled,
        )
        self.meta = {}

    # --- learning -----------------------------------------------------------------------------

    def learn_parallel(
        self, X: Any, y: Any, sample_weight: Any = None, parts: int = 2, threads: int | None = None
    ) -> Floats:
        """Learn from rows in rounds, whose shards are learned from in parallel, and return the scores before.

        A round has a tenth of the rows so far, after 2,000 rows in one stream. Its shards start from copies of one
        learner; then their updates are pooled (`fiol.engine.parallel.shards`), and one more exact step finds how much
        of the pooled update to apply. The result is not that of a single stream: see docs/guides/parallel.md.

        Parameters
        ----------
        X, y, sample_weight : as for `learn`, but no generator.
        parts : the number of shards of a round. One part gives the bits of `learn`, and members of an ensemble that do
            not share SIMD lanes (those of a joint loss, or with penalties that lanes do not support) run in threads.
        threads : by default as many as there is work for, but no more than processors. They do not change the result.

        Returns
        -------
        The score of every row before it was learned from, by the shard that learned from it. All rows are learned from,
        or none is; with one part an interrupt may come in between, as in `learn`.

        Examples
        --------
        >>> from fiol import Learner
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(5000, 3))
        >>> learner = Learner()
        >>> scores = learner.learn_parallel(X, np.sign(X[:, 0] + X[:, 1]), parts=4)
        >>> learner.rows, float(np.mean(np.sign(learner.scores(X)) == np.sign(X[:, 0] + X[:, 1]))) > 0.95
        (5000, True)
        """
        return parallel.learn_parallel(self.core, X, self.targets_of(y), sample_weight, parts, threads)

    def learn_one(self, indices: Any, values: Any, y: Any, sample_weight: float = 1.0) -> Any:
        """Make one round for the row with these values at these indices, and return its score before.

        With a joint loss the result is an array with the score of every class. Fastest for arrays of int32 and float64
        whose indices increase.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), intercept=False)
        >>> learner.learn_one([3, 5], [1.0, 2.0], y=1.0), learner.n_features
        (0.0, 6)
        """
        core = self.core
        with core.lock:
            if core.space.encoder is None and is_canonical_row(indices, values):
                z = core.fast_learn_row(indices, values, y, sample_weight)
                if z is not None:
                    return z
        return only_score(core.learn(one_row(indices, values), [y], [sample_weight]))

    def learn_named(self, features: Mapping[Any, Any], y: Any, sample_weight: float = 1.0) -> Any:
        """Make one round for a dict of features, and return its score before.

        Keys are names, or numbers; a text value is part of the name: {"color": "red"} is {"color=red": 1}. If the model
        learned from frames, the dict is a row of their table, and an absent column is missing (docs/guides/columns.md).
        With a joint loss the result is an array with the score of every class.

        >>> from fiol import FIOL, Learner, Squared
        >>> Learner(FIOL(Squared())).learn_named({"age": 30, "color": "red"}, y=1.0)
        0.0
        """
        core = self.core
        with core.lock:
            find = core.space.find
            if find is not None:
                path = core.engine.fast_path
                z = path.learn_dict(find, features, y, sample_weight, core.space.features)
                if z is not None:
                    return z if math.isfinite(z) else core.warn_if_score_not_finite(z)
            return core.learn_dict(features, y, sample_weight)

    def start_from(self, weights: Any, intercept: Any = 0.0) -> None:
        """Begin with these weights instead of the geometry's origin; before the first round.

        Parameters
        ----------
        weights : one for every feature; a learner that grows has as many features as there are weights. With a joint
            loss they are of shape (classes, features), for the classes there are.
        intercept : one number, or with a joint loss also one per class.

        Examples
        --------
        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), n_features=2)
        >>> learner.start_from([1.0, 2.0], intercept=3.0)
        >>> learner.scores([[1.0, 1.0]])
        array([6.])
        """
        with self.core.lock:
            self.core.start_from(weights, intercept)

    def with_update(self: Self, update: Update | Ensemble) -> Self:
        """Return a learner with another update that starts from the weights of this one, without statistics of steps.

        >>> from fiol import FIOL, Constant, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), n_features=1)
        >>> learner.start_from([2.0])
        >>> score = learner.learn([[1.0]], [2.0])
        >>> learner.with_update(FIOL(Squared(), step_size=Constant(0.1))).weights
        array([2.])
        """
        core = self.core
        with core.lock:
            new = core.with_update(update)
            if core.rounds:
                new.start_from(core.weights(), core.intercept())
            return self.from_core(new, self.meta)

    def truncated(self: Self, max_nonzero: int, X: Any = None) -> Self:
        """Return a learner with at most `max_nonzero` weights of this one, those that matter most; all others are 0.

        The result is a model to predict with, to save or to export. It has the plainest update for the loss, and would
        start to learn from these weights. TypeError for a model with curves and pairs.

        Parameters
        ----------
        X : rows; a feature matters by its squared weight (the mean over classes) times its mean square in them. By
            default it matters by the cost of leaving it out if the loss were quadratic: the squared weight times the
            sum of the second derivatives of the loss along it, which `Curvature` steps, and so those of `Stacked`,
            keep; for `AdaGrad` steps times the sum of squared gradients, for others times the square of the largest
            value, or 1. Of equal features the one with the larger weight stays.

        Examples
        --------
        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), n_features=3)
        >>> learner.start_from([0.5, -2.0, 1.0])
        >>> learner.truncated(2).weights, learner.truncated(1, X=[[9.0, 1.0, 1.0]]).weights
        (array([ 0., -2.,  1.]), array([0.5, 0. , 0. ]))
        """
        if integer("max_nonzero", max_nonzero) < 0:
            raise ValueError(f"max_nonzero must be at least 0, got {max_nonzero}")
        with self.core.lock:
            core = self.core.copy()
        return self.from_core(core.truncated(max_nonzero, X), self.meta)

    def prune(self) -> int:
        """Drop all features whose weight is exactly 0, with their statistics, and return their number.

        For learners with named features or `max_features`. Where steps do not depend on a feature's past (a schedule,
        last iterate) this changes no later score. The weight is that of the last round: its average is dropped too.
        """
        with self.core.lock:
            return self.core.prune()

    # --- predicting ---------------------------------------------------------------------------

    def uncertainty(self, X: Any) -> Floats:
        """Return the standard deviation of the score of every row that the rows so far leave.

        Weights count as independent and normal with the variances of a `Curvature` step size. The variance of a score
        is the sum of x_i^2 / h_i, intercept included, times the dispersion of the loss: 1 for logistic, softmax and
        Poisson loss, whose curvature is that of a likelihood, and the mean squared error so far for squared loss. It
        is too large for features that are correlated. Names never seen are left out, as in `scores`.

        An ensemble, the default, adds two variances: that of its best `Curvature` member, and that of the combination
        of members, the sum over its stacks j of pi_j (z' P_j z + (z' v_j - score)^2), with the scores z of the members
        and the P = A^-1 of `fiol.NewtonStack` (the mean over scores, if there are several). After a thousand rows they
        agree with squared errors within a factor of two.

        >>> from fiol import FIOL, Curvature, Learner, Logistic, ScaleFree
        >>> learner = Learner(FIOL(Logistic(), step_size=ScaleFree(Curvature())))
        >>> _ = learner.learn([[1.0, 0.0], [-1.0, 0.0]] * 26, [1.0, 1.0, -1.0, -1.0] * 13)
        >>> learner.uncertainty([[1.0, 0.0], [0.0, 1.0]]).round(2)  # a feature seen in 52 rows, and one in none
        array([0.4 , 1.04])
        """
        core = self.core
        if not core.update.has_variance():
            raise TypeError(
                "uncertainty needs step_size=Curvature() or ScaleFree(Curvature()), or an ensemble with such a member "
                "and NewtonStack(), and squared, logistic, softmax or Poisson loss; this learner has "
                f"{core.update.brief()}"
            )
        X, rows = counted(X, "a list of such dicts")
        if rows is None:
            return np.concatenate([self.uncertainty(block) for block in blocks_of(X)])
        with core.lock:
            return np.sqrt(core.engine.variances(core.entered(core.read_rows(X))))

    def score_one(self, indices: Any, values: Any) -> Any:
        """Return the score of one row, see `learn_one`."""
        core = self.core
        with core.lock:
            if core.space.encoder is None and is_canonical_row(indices, values):
                z = core.fast_score_row(indices, values)
                if z is not None:
                    return z
            return only_score(self.scores(one_row(indices, values)))

    def score_named(self, features: Mapping[Any, Any]) -> Any:
        """Return the score of a dict of features, see `learn_named`."""
        core = self.core
        with core.lock:
            find = core.space.find
            z = None if find is None else core.engine.fast_path.score_dict(find, features, False)
            return core.score_dict(features) if z is None else z

    def predict_named(self, features: Mapping[Any, Any]) -> Any:
        """Return the prediction for a dict of features, see `predict` and `learn_named`.

        >>> from fiol import FIOL, Learner, Logistic
        >>> clicks = Learner(FIOL(Logistic()))
        >>> score = clicks.learn_named({"site": "news"}, y=1)
        >>> clicks.predict_named({"site": "news"}) > 0.5, clicks.predict_named({"site": "mail"}) > 0.5
        (True, True)
        """
        core = self.core
        with core.lock:
            find = core.space.find
            p = None if find is None else core.engine.fast_path.score_dict(find, features, True)
            return super().predict_named(features) if p is None else p

    # --- the model ----------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The engine: plan, state and rounds. For the rest of the package, which holds the lock of `core`."""
        return self.core.engine

    @property
    def ledger(self) -> Any:
        """The `fiol.regret.Ledger` that measures this learner, if there is one."""
        return self.core.engine.observer

    @property
    def last_weights(self) -> Floats:
        """The weights of the last round, also where averages are kept."""
        with self.core.lock:
            return self.core.weights(averaged=False)

    @property
    def last_intercept(self) -> Any:
        """The intercept of the last round, also where averages are kept."""
        with self.core.lock:
            return self.core.intercept(averaged=False)

    @property
    def n_nonzero(self) -> int:
        """The number of features whose weight is not exactly 0, for any class (with any member, for `Bayes`)."""
        with self.core.lock:
            return int(np.count_nonzero(self.core.nonzero(self.core.averages)))

    @property
    def members(self) -> list[Member]:
        """Loss and weight of every member of an ensemble, in the order of `update.members`, and last of its gate.

        An `Update` has none.

        >>> from fiol import FIOL, Constant, Ensemble, Learner, Logistic
        >>> updates = [FIOL(Logistic(), step_size=Constant(size)) for size in (0.001, 1.0)]
        >>> learner = Learner(Ensemble(updates))
        >>> scores = learner.learn([[1.0], [-1.0]] * 50, [1, -1] * 50)
        >>> slow, fast = learner.members
        >>> slow.loss > fast.loss > 0.0, slow.loss > learner.progressive_loss > 0.0
        (True, True)
        """
        with self.core.lock:
            return self.core.engine.report(self.core.space.features)

    def member(self: Self, k: int | None = None) -> Self:
        """Return an independent learner that continues from member k of an ensemble; by default from the best.

        The best has the least progressive loss of those that have not overflowed. Members behind a gate have not seen
        all of the rows: TypeError.

        >>> from fiol import FIOL, L1, Learner, Logistic, tuned
        >>> learner = Learner(tuned(FIOL(Logistic(), L1(0.0)), {"lam": [10.0, 0.1]}))
        >>> scores = learner.learn([[1.0], [-1.0]] * 50, [1, -1] * 50)
        >>> best = learner.member()
        >>> best.update.regularizer, best.rounds, bool((best.weights == learner.weights).all())
        (L1(lam=0.1), 100, True)
        """
        with self.core.lock:
            return self.from_core(self.core.member(k), self.meta)

    @property
    def progressive_loss(self) -> float:
        """The mean loss of an ensemble's scores, each from before its row was learned from, by sample weights.

        A single update stores no losses: TypeError. Take the mean loss of the scores that `learn` returns.
        """
        with self.core.lock:
            return self.core.engine.progressive_loss

    @property
    def mixing(self) -> Floats:
        """The current weight of the score of each member of an ensemble."""
        with self.core.lock:
            return self.core.engine.mixing

    @classmethod
    def merge(
        cls: type[Self], learners: Iterable[Self], weights: Sequence[float] | None = None, base: Self | None = None
    ) -> Self:
        """Return the mean of learners with the same update and options that saw different rows.

        Parameters
        ----------
        learners : one or more. They do not change.
        weights : how much each counts; by default the rows n_k it learned from.
        base : the learner that all of them were copies of. Then n_k are the rows since.

        Notes
        -----
        With shares c_k = n_k / (n_1 + n_2 + ...), every number v that learners keep (weights, or the sums they follow
        from; averages; statistics of step sizes; rounds, to the nearest whole number) becomes the sum of c_k v_k, which
        is base + sum of c_k (v_k - base). The largest value of a feature is the largest of all. `rows` add up.

        Named features are united by name, in the order of the learners, columns of frames by name, all others by
        number. A feature that a learner has not seen counts with the weight that learner would give it, as a rule 0.
        Classes are united by label; one that a learner has not met counts with weights of 0. `meta` is the first
        learner's. With `max_features`, features of weight 0 are dropped if there are too many; ValueError if that is
        not enough.

        To rounding, the result does not depend on the order: merge([merge([a, b]), c]) is merge([a, b, c]). Equal
        learners merge into their equal, and one that saw no rows changes nothing. (Without any rows, or with `weights`,
        shares do not say how often a learner was merged before.) One exception: in pairs of columns, a category with
        more values than points (256 at most) has one point for all further values, and those of the first learner that
        has knots decide which these are, so order matters to such values.

        A mean is not the learner of all rows in one stream: after one long run each, it has learned about as much as
        one of them. Short rounds from a common base lose less (docs/explanations/streams.md has numbers).

        Examples
        --------
        >>> from fiol import FIOL, Learner, Squared
        >>> parts = [Learner(FIOL(Squared()), n_features=2) for _ in range(2)]
        >>> for part, x in zip(parts, ([[1.0, 0.0]], [[0.0, 1.0]])):
        ...     score = part.learn(x, [1.0])
        >>> whole = Learner.merge(parts)
        >>> whole.rounds, whole.rows, bool(np.allclose(whole.weights, (parts[0].weights + parts[1].weights) / 2))
        (1, 2, True)
        """
        parts = [learner.copy() for learner in merge.check_mergeable(cls, learners, base)]  # one moment of each
        start = None if base is None else base.copy().core
        return cls.from_core(merge.merge_cores([part.core for part in parts], weights, start), parts[0].meta)

    @classmethod
    def from_parts(cls: type[Self], header: dict[str, Any], arrays: dict[str, Any], compiled: bool = True) -> Self:
        """Return the learner of the header and the arrays of a file; arrays that it lacks are as in a new learner."""
        return cls.from_core(files.learner_from_parts(header, arrays, compiled))

    def __repr__(self) -> str:
        return f"<Learner of {self.n_features} features after {self.rounds} rounds of {self.update.brief()}>"

    def _summary(self) -> Summary:
        model = self.copy()  # one moment, whatever other threads do
        counts = {"features": model.n_features, "features with weight": model.n_nonzero, "rounds": model.rounds}
        classes = {} if model.classes is None else {"classes": len(model.classes)}
        members = model.members
        loss = {"progressive loss": model.progressive_loss} if members and model.rounds else {}
        facts = {"update": model.update.brief(), **counts, **classes, **loss}
        return Summary("fiol.Learner", facts, members, model.importances(SHOWN) if model.update.is_linear() else {})


register_kind(Learner.KIND, Learner.from_parts)
