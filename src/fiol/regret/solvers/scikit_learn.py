"""The lasso, the elastic net and logistic regression, by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.regret.libraries import library
from fiol.regret.objective import Objective
from fiol.regret.solvers.found import Found

#: Newton's method is for fewer features than this: its steps solve for all of them directly.
FEATURES_FOR_NEWTON = 1000


def by_scikit_learn(o: Objective) -> Found:
    """Minimize by coordinate descent (lasso, elastic net), Newton's method or L-BFGS (logistic regression)."""
    models = library("sklearn.linear_model")
    X, lam1, lam2, intercept = o.A[:, : o.d], float(o.lam1[0]), float(o.lam2[0]), o.lam1.size > o.d
    if X.nnz > 0.2 * X.shape[0] * X.shape[1]:
        X = X.toarray()
    common: dict[str, Any] = {"fit_intercept": intercept, "tol": 1e-10, "max_iter": 10_000}
    if o.loss.alias == "log_loss":
        how = "newton-cholesky" if o.d < FEATURES_FOR_NEWTON else "lbfgs"
        model = models.LogisticRegression(C=1.0 / lam2, solver=how, **common)
    else:
        common |= {"alpha": (lam1 + lam2) / float(o.weight.sum()), "positive": bool(o.lo[0] == 0.0)}
        model = models.ElasticNet(l1_ratio=lam1 / (lam1 + lam2), **common) if lam2 > 0.0 else models.Lasso(**common)
    model.fit(X, o.y, sample_weight=o.weight)
    w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_) if intercept else [])
    return Found(f"scikit-learn {type(model).__name__}", w)
