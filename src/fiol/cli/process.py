"""The command in a process of its own, which starts and ends faster than as part of another program."""

from __future__ import annotations

import gc
import sys
import threading

from fiol.cli import main
from fiol.cli.errors import exit_now
from fiol.compiler.lean_start import load_without_blas

#: New objects until garbage is collected: modules make many, none of which is garbage.
COLLECT_AFTER = 50_000


def run_command(name: str = "fiol") -> None:
    """Run the command by the arguments of the process, and end the process."""
    gc.set_threshold(COLLECT_AFTER)
    load_without_blas()
    try:
        main(prog_name=name)
    except SystemExit as ended:
        if ended.code in (0, None) and is_done():
            exit_now(0)
        raise


def is_done() -> bool:
    """Return whether all that is left to do is to free memory: everything is printed, and no thread is at work."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # closed or full: the interpreter reports it
        return False
    return all(thread.daemon or thread is threading.main_thread() for thread in threading.enumerate())
