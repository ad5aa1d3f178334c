"""Text files that are there when they are complete, or not at all."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fiol.persistence.atomic_file import output_file


@contextmanager
def atomic_write(path: str | None) -> Iterator[Any]:
    """Open a text file that replaces the one at `path` when the block ends well; None is standard output."""
    if path is None:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed", "standard output")
        try:
            yield sys.stdout
            sys.stdout.flush()
        except OSError as error:
            if isinstance(error, BrokenPipeError) or error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, "standard output") from error
        return
    with output_file(path) as raw:
        text = io.TextIOWrapper(raw, "utf-8", newline="")
        yield text
        text.flush()
        text.detach()
