"""Models that compile nothing, wherever they are made."""

import fiol


def interpret(patch):
    """Let learners and models of several work in the interpreter unless they are told otherwise."""
    for kind in (fiol.Learner, fiol.OneVsRest):
        patch.setitem(kind.__init__.__kwdefaults__, "compiled", False)


def check_uncompiled(patch):
    """Let the checks of a component, which another test compiles beside others, look at its copies alone."""
    from fiol import checks

    stream = checks.stream
    patch.setattr(checks, "check_compiled", lambda component, _: checks.check_copies(component))
    patch.setattr(checks, "stream", lambda step_size, compiled: stream(step_size, False))


def interpret_all(patch):
    """The same, and single steps, audits and models from files, too."""
    from fiol.doors.estimator_file import Saved
    from fiol.regret import audit

    interpret(patch)
    for function in (fiol.solve_step, audit):
        patch.setitem(function.__kwdefaults__, "compiled", False)
    builders = [
        method.__func__ for kind in (fiol.Learner, fiol.OneVsRest, Saved) for method in (kind.load, kind.from_parts)
    ]
    for function in (fiol.load, *builders):
        assert function.__defaults__ == (True,)  # of `compiled`
        patch.setattr(function, "__defaults__", (False,))
