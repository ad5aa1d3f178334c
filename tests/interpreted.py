"""Patches that run models in the interpreter, except those that other tests compile anyway."""

import numba
import numpy as np

import fiol
from fiol.learner import core as learner_core

#: In the interpreter a row takes them milliseconds; compiled for some tests, they are in the cache for all others.
COMPILED_ANYWAY = (fiol.Stacked(fiol.Logistic()), fiol.Stacked(fiol.Squared()))


def interpret(patch):
    """Let learners and models of several work in the interpreter unless they are given `compiled`.

    Default ensembles are compiled all the same, unless nothing is (NUMBA_DISABLE_JIT) or `interpret_ensembles` follows.
    """
    for kind in (fiol.Learner, fiol.OneVsRest):
        patch.setitem(kind.__init__.__kwdefaults__, "compiled", False)
    make = learner_core.make_engine

    def make_engine(update, plans, features, intercept, average, dtype, compiled, scores):
        compiled |= update in COMPILED_ANYWAY and dtype == np.float64 and scores is None
        return make(update, plans, features, intercept, average, dtype, compiled, scores)

    if not numba.config.DISABLE_JIT:
        patch.setattr(learner_core, "make_engine", make_engine)


def interpret_ensembles(patch):
    """Let default ensembles work in the interpreter, too."""
    from fiol.engine.ensemble.engine import make_engine

    patch.setattr(learner_core, "make_engine", make_engine)


def check_uncompiled(patch):
    """Patch `fiol.checks` to check only the copies of a component: another test checks its compiled code."""
    from fiol import checks

    stream = checks.stream
    patch.setattr(checks, "check_compiled", lambda component, _: checks.check_copies(component))
    patch.setattr(checks, "stream", lambda step_size, compiled, members=1: stream(step_size, False, members))


def interpret_all(patch):
    """Let learners, models of several, single steps, audits and models from files work in the interpreter."""
    from fiol.integrations.estimator_file import Saved
    from fiol.regret import audit

    interpret(patch)
    for function in (fiol.solve_step, audit):
        patch.setitem(function.__kwdefaults__, "compiled", False)
    kinds = (fiol.Learner, fiol.OneVsRest, Saved)
    builders = {method.__func__ for kind in kinds for method in (kind.load, kind.from_parts)}
    for function in (fiol.load, *builders):
        assert function.__defaults__ == (True,)  # of `compiled`
        patch.setattr(function, "__defaults__", (False,))
