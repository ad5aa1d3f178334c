"""scikit-learn's view of a learner: what `FIOLClassifier` and `FIOLRegressor` share.

No mathematics of its own: parameters become a preset (`fiol.presets`), rows a chunk, and `fiol.Learner` does the rest.
Needs scikit-learn, the extra `fiol[sklearn]`.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.geometries import Geometry
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.components.solvers import Solver
from fiol.components.step_sizes import StepSize
from fiol.components.table_basis import TableBasis
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk
from fiol.features.feature_space import is_dicts
from fiol.features.frames import Frame, as_frame
from fiol.features.table_encoding import TableEncoding
from fiol.features.table_rows import needs_encoding
from fiol.features.targets import check_sample_weights
from fiol.integrations import estimator_file
from fiol.integrations.fitting import (
    TAIL,
    HeldBackLoss,
    Passes,
    Progress,
    held_back,
    held_out,
    moments_of_fit,
)
from fiol.integrations.parameters import (
    AUTOMATIC,
    GEOMETRIES,
    SOLVERS,
    STEP_SIZES,
    UPDATE_DOCS,
    UpdateParameters,
    make_grid,
    make_update,
)
from fiol.integrations.validation import (
    CSR_TYPES,
    LARGEST_SEED,
    OF_PASSES,
    NameOptions,
    PassParameters,
    PenaltyOptions,
    is_all_zero,
    plain_targets,
    validate_data,
)
from fiol.learner import Learner
from fiol.learner.arguments import FEATURES, with_features
from fiol.models.epochs import EpochRun, Stopping, run_epochs
from fiol.names import ALGORITHMS
from fiol.regret import Ledger

#: The number of entries of `loss_curve_` that are kept: a stream of single events must not fill the memory.
CURVE = 100_000

FIT_DOCS = """\
    tune : None, or lists of values by parameter, such as {"alpha": [1e-5, 1e-4, 1e-3]}, of alpha, l1_ratio, penalty,
        step_size and algorithm. Every combination is a learner of its own in the same pass. Predictions are those of
        the combination with the least progressive loss so far (of each class, one against the rest).
        `learners_[0].members` has loss and non-zeros of each. Then "auto" steps are "single".
    max_iter : the largest number of passes of `fit` over the rows.
    tol : `fit` stops once n_iter_no_change passes in a row did not improve by tol: the loss of rows before they are
        learned from (of a regressor, which has a unit, by tol times that of the first pass), or the score on held-out
        rows. An ensemble soon overfits its rows: it stops by the loss of rows that are held back (validation_fraction
        of them, if that makes ten), of a regressor once that loss falls by less than tol times itself, returns to its
        best pass, and then learns from these rows, too. After 1,000 rows, later passes change how members are
        combined only by the rows held back. None makes max_iter passes; of these the best one is kept.
    early_stopping, validation_fraction, n_iter_no_change : whether `fit` holds out a part of the rows to decide when
        to stop, the share of these rows, and the number of passes without improvement before it stops.
    shuffle : whether `fit` shuffles the rows before every pass, for the regressor into the order that scikit-learn's
        `SGDRegressor` gives them (its classifiers draw their seeds otherwise). `partial_fit` takes rows in their order.
        With shuffled rows an ensemble ("auto", "stacked") ends with the mean of its linear models at eight moments,
        evenly over the last eighth of the last pass, or over the rows that were held back (see tol). With l1 a weight
        is 0 where it is 0 at the end. Learning continues from that mean, by the members nearest to the old ones whose
        combination it is. Means of columns do not move either, and more columns are centered.
    random_state : None (another order every time), an int, or a `numpy.random.RandomState`
        Seed of shuffling and holding out.
    warm_start : whether `fit` continues from the last one, with the statistics of step sizes as well if no parameter of
        the update has changed.
    table_encoding : how the columns of a frame with text, dates or missing values become features: a dict from columns
        to kinds ("number", "category", "words", "date", "skip", ...), a `fiol.TableEncoding`, or None, which infers it
        from the frame of the first fit (docs/guides/columns.md). `coef_` has a column for each of `coef_names_` then.
    record_every : keep an account of every round (`fiol.regret.Ledger`) in `ledgers_`, with a record after
        every `record_every` rounds.
    verbose : print a line per pass of `fit`; `partial_fit` prints nothing."""


@dataclass(eq=False, repr=False, kw_only=True)
class LinearEstimator(UpdateParameters, PassParameters, estimator_file.Saved, BaseEstimator):  # type: ignore[misc]
    """The parts that both estimators share: parameters to an update, rows to learners, weights back."""

    table_encoding: Any = None
    record_every: int | None = None
    tune: dict[str, Any] | None = None
    _parameter_docs: ClassVar[str] = UPDATE_DOCS + FIT_DOCS
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "table_encoding": [dict, TableEncoding, None],
        "penalty": [PenaltyOptions(), Regularizer, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "algorithm": [NameOptions(ALGORITHMS)],
        "step_size": [StrOptions({*AUTOMATIC, *STEP_SIZES}), Interval(Real, 0, None, closed="neither"), StepSize],
        "geometry": [StrOptions(set(GEOMETRIES)), Geometry, None],
        "solver": [StrOptions(set(SOLVERS)), Solver, None],
        "average": ["boolean"],
        "positive": ["boolean"],
        "features": [StrOptions(set(FEATURES)), TableBasis],
        "tune": [dict, None],
        "record_every": [Interval(Integral, 1, None, closed="left"), None],
        **OF_PASSES,
    }

    # --- parameters -------------------------------------------------------------------------------

    def _loss(self) -> Any:
        """Return the loss that the parameter names."""
        raise NotImplementedError

    def _fitted_loss(self) -> Any:
        """Return the loss that the weights were learned with; before fitting, the one that the parameter names."""
        if not hasattr(self, "learners_"):
            return self._loss()
        return self.learners_[0].update.loss

    def _update(self) -> Update | Ensemble:
        """Return the update that the parameters describe."""
        given = {**self.update_parameters(), "alone": self.average or self.record_every is not None}
        if self.tune is not None:
            if self.features != "linear":
                raise ValueError('tune tries single learners, which have no curves and pairs: use features="linear"')
            return make_grid(self._loss(), self.tune, **given)
        return with_features(make_update(self._loss(), **given), self.features)  # type: ignore[no-any-return]

    # --- rows -------------------------------------------------------------------------------------

    def _plain(self, X: Any) -> bool:
        """Return whether X needs no checks beyond those of a feature space."""
        if type(X) not in CSR_TYPES and not (type(X) is np.ndarray and X.dtype == np.float64):
            return False
        shape = X.shape
        return (
            len(shape) == 2
            and shape[0] > 0
            and shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    @property
    def _coded(self) -> bool:
        """Whether a table encoding makes features of the columns of frames."""
        return hasattr(self, "learners_") and self._inside().table_encoding is not None

    def _frame_to_code(self, X: Any, first: bool) -> Any:
        """Return X as a frame, or as dicts, if a table encoding applies to it; None if scikit-learn validates it."""
        if not first and not self._coded:
            return None
        if not first and is_dicts(X):
            return X
        frame = as_frame(X)
        if frame is None and not first:
            columns = ", ".join(self.feature_names_in_)
            raise TypeError(
                f"this model learned from frames: X must be one with the columns {columns}, or a list of dicts"
            )
        if first and (frame is None or (self.table_encoding is None and not needs_encoding(frame))):
            return None
        return frame

    def _coded_data(self, frame: Frame, y: Any, first: bool, numeric: bool = False) -> tuple[Any, Any]:
        """Return a stand-in for X and y for scikit-learn's checks; remember the columns."""
        X, y = check_X_y(np.zeros((len(frame), 1)), plain_targets(y), y_numeric=numeric, estimator=self)
        if first:
            self.feature_names_in_ = np.array(list(map(str, frame.names or frame.column_labels)), object)
            self.n_features_in_ = frame.shape[1]
        return X, y

    def _taken_in(self, frame: Frame, old: Any, new: Any) -> Chunk:
        """Return the rows of a frame for a new model, which shares the features of an old one if `fit` continues it."""
        chunk = (new if old is None else old).core.encode_rows(frame)
        if old is not None:
            new.core.share_features(old.core)
        return chunk

    def _chunk(self, X: Any) -> Chunk:
        """X that scikit-learn, or a table encoding, has looked at as a chunk."""
        return X if isinstance(X, Chunk) else to_chunk(X, n_features=self.n_features_in_)

    def _checked(self, X: Any) -> Any:
        """X as scikit-learn wants it for a model that is fitted."""
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _read(self, X: Any, ask: Callable[[Any], Any]) -> Any:
        """`ask(X)`, where scikit-learn's checks, which take longer than scores, are made for what needs them."""
        check_is_fitted(self)
        if self._coded:
            return ask(self._inside().core.read_rows(self._frame_to_code(X, first=False)))
        if self._plain(X):
            try:
                return ask(X)
            except (TypeError, ValueError):  # scikit-learn may have its own words for what is wrong
                pass
        return ask(self._checked(X))

    def _sample_weights(self, sample_weight: Any, X: Any, online: bool = False) -> Floats:
        """Return one sample weight per row; if `online`, they may all be 0, as those of any chunk of a stream."""
        if sample_weight is not None and not (online and is_all_zero(sample_weight)):
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return check_sample_weights(sample_weight, X.shape[0])

    # --- learning ---------------------------------------------------------------------------------

    def _new_learner(self, update: Update | Ensemble, coded: bool) -> Learner:
        new = Learner(update, **self._options(coded))
        self._name_columns(new, coded)
        self._keep_account(new)
        return new

    def _name_columns(self, model: Any, coded: bool) -> None:
        """Let a model with curves know the names of its columns, for those of its features."""
        if self.features != "linear" and not coded and hasattr(self, "feature_names_in_"):
            model.core.space.columns = tuple(map(str, self.feature_names_in_))

    def _options(self, coded: bool) -> dict[str, Any]:
        """Options of every kind of model."""
        features = (
            {"table_encoding": {} if self.table_encoding is None else self.table_encoding}
            if coded
            else {"n_features": self.n_features_in_}
        )
        return {**features, "intercept": self.fit_intercept, "average": self.average}

    def _keep_account(self, learner: Learner) -> None:
        """Let a ledger ride along, if one is asked for."""
        if self.record_every is not None:
            Ledger(learner, every=self.record_every)

    def _goes_on(self) -> bool:
        """Return whether `fit` continues the last one."""
        return self.warm_start and hasattr(self, "learners_")

    def _begin(self) -> None:
        """Forget the losses and coefficients of earlier fits, as `fit` and the first `partial_fit` do."""
        self._losses: deque[float] = deque(maxlen=CURVE)
        self._sparse = False
        self._coef: tuple[Any, Any] | None = None
        self._rounds_before_fit = 0

    def _run(
        self, chunk: Chunk, tasks: list[tuple[Any, Any]], sample_weights: Floats, held_out: Any, score: Any
    ) -> None:
        """Let every learner pass over the rows with its targets until nothing improves.

        `score(learner, chunk, targets, sample_weights)` says how good the learner is on the rows held out.
        """
        self._rounds_before_fit = self._rounds()
        seed = check_random_state(self.random_state).randint(LARGEST_SEED) if self.shuffle else None
        chooses = held_out is None and self.max_iter > 1
        several = isinstance(tasks[0][0].update, Ensemble)
        back = held_back(chunk.rows, self.validation_fraction, seed) if chooses and several else None
        if back is not None:
            held_out = back
        rest = None if held_out is None else chunk.take(np.flatnonzero(held_out))
        tail = TAIL if self.shuffle and back is None else 0.0
        runs: list[EpochRun] = []
        last: list[Passes] = []  # which end the fit
        for learner, y in tasks:
            if self.shuffle:
                learner.engine.expect_random_order()
            judge = None
            if rest is not None:
                held = rest, y[held_out], sample_weights[held_out]
                judge = HeldBackLoss(learner, *held, chunk) if back is not None else partial(score, learner, *held)
            passes = Passes(learner, chunk, y, sample_weights, tail)
            last.append(passes if back is None else Passes(learner, *held, 1.0 if self.shuffle else 0.0))
            runs.append(EpochRun(passes, judge, None if back is None else learner.core))
        stopping = Stopping(self.max_iter, self.tol, self.n_iter_no_change, relative=is_regressor(self))
        tell = Progress() if self.verbose else None
        kept = None if held_out is None else ~held_out
        self.n_iter_ = run_epochs(runs, chunk.rows, stopping, seed, kept, self._map, tell)
        if back is not None:  # what was held back is learned from at last
            for learner, _ in tasks:
                learner.engine.raise_scales(rest, chunk)
            run_epochs(
                [EpochRun(passes) for passes in last], len(sample_weights[back]), Stopping(), seed, each=self._map
            )
        for passes in last:
            passes.settle()
        for k in range(self.n_iter_):
            self._losses.append(float(np.mean([c.losses[k] for c in runs if k < len(c.losses)])))
        self._coef = None
        columns = frozenset(self.feature_names_in_) if self._coded else None
        self._inside().meta["moments"] = moments_of_fit(chunk, self._inside().core.space.names, columns).to_json()
        if self.tol is not None and 1 < self.max_iter == self.n_iter_:
            message = f"max_iter={self.max_iter} passes did not reach tol={self.tol}; raise max_iter, or give tol=None"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _held_out(self, y: Any, sample_weights: Floats, splitter: Any) -> Any:
        """Which rows are held out for early stopping; None if it is not asked for."""
        held = held_out(self, y, splitter)
        if held is not None and not sample_weights[held].any():
            raise ValueError("the rows held out for early stopping all have sample weight 0: use another random_state")
        return held

    def _map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return the results of the work for all items; a classifier may do it in threads."""
        return [work(item) for item in items]

    def _note(self, losses: Iterable[float]) -> None:
        """Remember the losses of a call of `partial_fit`."""
        losses = list(losses)
        self._losses.append(sum(losses) / len(losses))
        self.n_iter_ = 1
        self._coef = None

    def _first_checks(self) -> None:
        """Refuse parameters that the first `partial_fit` cannot start with."""
        self._validate_params()
        if self.early_stopping:
            raise ValueError("early_stopping should be False with partial_fit")

    # --- the model --------------------------------------------------------------------------------

    def _scorers(self) -> list[Learner]:
        """Return the learners whose scores count."""
        return self.learners_

    def _read_weights(self) -> tuple[Floats, Floats]:
        """Weights, one row per score, and intercepts."""
        found = self._scorers()
        return np.vstack([a.weights for a in found]), np.hstack([a.intercept for a in found])

    def _weights_and_intercepts(self) -> tuple[Any, Any]:
        if not hasattr(self, "learners_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit or partial_fit first")
        if self._coef is None:
            w, b = self._read_weights()
            self._coef = (sparse.csr_matrix(w) if self._sparse else w), b
        return self._coef

    @property
    def coef_names_(self) -> list[str]:
        """What every column of `coef_` is called: a column of X, or a feature that a table encoding made of one.

        >>> import pandas as pd, fiol
        >>> frame = pd.DataFrame({"age": [30, 40, 50], "city": ["Rome", "Oslo", None]})
        >>> model = fiol.FIOLRegressor(max_iter=1, shuffle=False).fit(frame, [1.0, 2.0, 3.0])
        >>> model.coef_names_
        ['age', 'city=Rome', 'city=Oslo', 'city is missing']
        """
        check_is_fitted(self)
        if self._coded or self._inside().core.levels is not None:
            return list(map(str, self._inside().names))
        given = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if given is None else list(given)

    @property
    def loss_curve_(self) -> list[float]:
        """Mean loss of rows before they were learned from, for every pass of `fit` and every call of `partial_fit`.

        For several classes it is the mean over them. The last 100,000 are kept.
        """
        check_is_fitted(self)
        return list(self._losses)

    @property
    def ledgers_(self) -> list[Ledger]:
        """A `fiol.regret.Ledger` of every learner of `learners_`, if `record_every` is given.

        Copies and pickles do without, and so do classes that appear later.
        """
        check_is_fitted(self)
        if self.record_every is None:
            raise AttributeError("no account was kept: give record_every, the rounds between two records")
        return [learner.ledger for learner in self.learners_ if learner.ledger is not None]

    @property
    def t_(self) -> float:
        """Rows learned from since the last `fit` began, plus 1, as scikit-learn counts."""
        check_is_fitted(self)
        return 1.0 + self._rounds() - self._rounds_before_fit

    def _rounds(self) -> int:
        """Rounds of all fits."""
        return max(learner.rounds for learner in self.learners_)

    def importances(self, most: int | None = None, X: Any = None, by: str = "feature") -> dict[Any, float]:
        """Return how much every feature, or every column, matters: see `fiol.Learner.importances`.

        Features have the name of their column. Columns of text, dates or missing values become several features, which
        have the names of `coef_names_`. After `fit`, standard deviations are those in its rows; for features that are
        in less than an eighth of the rows, the root mean square is used, which is at most 7 % larger.

        >>> from fiol import FIOLRegressor
        >>> model = FIOLRegressor(random_state=0).fit([[k, 1000.0 * (k % 3)] for k in range(30)], range(30))
        >>> list(model.importances())[0]
        0
        """
        check_is_fitted(self)
        if self._coded:  # the model has the names of its features, which are no columns
            return self._inside().importances(most, X if X is None else self._frame_to_code(X, first=False), by)
        found = self._inside().importances(most, X if X is None else self._checked(X), by)
        names = getattr(self, "feature_names_in_", None)
        return (
            found
            if names is None or self._inside().names is not None
            else {str(names[i]): value for i, value in found.items()}
        )

    def sparsify(self) -> LinearEstimator:
        """Make `coef_` a sparse matrix."""
        check_is_fitted(self)
        self._sparse, self._coef = True, None
        return self

    def densify(self) -> LinearEstimator:
        """Make `coef_` an array, which it is at first."""
        check_is_fitted(self)
        self._sparse, self._coef = False, None
        return self

    # --- files ------------------------------------------------------------------------------------

    def _inside(self) -> Any:
        """Return the model that does the learning."""
        raise NotImplementedError

    def _go_on_with(self, model: Any) -> None:
        """Let this model do the learning."""
        raise NotImplementedError

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return estimator_file.parts_of(self)

    def _become(self, header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> None:
        estimator_file.restore(self, header, arrays, compiled)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "_losses": list(state["_losses"])} if "_losses" in state else state  # skops empties a deque

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_losses" in state:
            self._losses = deque(state["_losses"], CURVE)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learners_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn < 1.6
        why = "a weight multiplies the loss of one round: two rounds are not one of weight 2, nor is weight 0 no round"
        return {"_xfail_checks": {"check_sample_weights_invariance": why}}
