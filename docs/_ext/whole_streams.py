"""Printed output of executed pages in one piece.

A process may write a line in several pieces. myst-nb ends each of them with a line break (`coalesce_streams`), so they
are joined before.
"""

from typing import Any

from myst_nb.core import render
from sphinx.application import Sphinx


def joined(outputs: list[Any]) -> list[Any]:
    """Return outputs in which all pieces of a stream are one.

    >>> joined([{"output_type": "stream", "name": "stdout", "text": text} for text in ("a l", "ine")])
    [{'output_type': 'stream', 'name': 'stdout', 'text': 'a line'}]
    """
    found: list[Any] = []
    streams: dict[str, Any] = {}
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] in streams:
            streams[output["name"]]["text"] += output["text"]
            continue
        if output["output_type"] == "stream":
            streams[output["name"]] = output
        found.append(output)
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    merge = render.coalesce_streams
    render.coalesce_streams = lambda outputs: merge(joined(outputs))
    return {"parallel_read_safe": True}
