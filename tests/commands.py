"""`CliRunner` of click: results have standard output and standard error apart, and both, with any version of it."""

import inspect

from click import testing

#: Options for results as since click 8.2: before, both outputs were one, or `output` was standard output alone.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(testing.CliRunner).parameters else {}


class Result(testing.Result):
    """A result of click before 8.2."""

    @property
    def output(self):
        return self.stdout + self.stderr


class CliRunner(testing.CliRunner):
    """Calls a command in this process."""

    def __init__(self, **options):
        super().__init__(**APART, **options)

    def invoke(self, *arguments, **options):
        """Return what a command printed, and its exit code."""
        done = super().invoke(*arguments, **options)
        if APART:
            done.__class__ = Result
        return done
