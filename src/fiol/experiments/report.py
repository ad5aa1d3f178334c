"""Results of an experiment: numbers as JSON, tables and claims as Markdown, figures as PNG and SVG."""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fiol.plots import STYLE, load_matplotlib, save_figure

#: Verdict on a claim by whether it holds; None without enough results.
VERDICTS = {True: "holds", False: "does NOT hold", None: "not enough results"}


class Claim(NamedTuple):
    """A statement, whether the numbers support it, and these numbers."""

    text: str
    holds: bool | None
    measured: str


class Table(NamedTuple):
    """A table with a title; the first column is text, the others are formatted numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Picture(NamedTuple):
    """A figure: `draw` makes it from a matplotlib Figure of this size in inches."""

    name: str
    title: str
    alt: str  #: alternative text
    draw: Callable[[Any], None]
    size: tuple[float, float] = (7.0, 4.2)


@dataclass
class Report:
    """All results of an experiment."""

    name: str
    title: str
    summary: list[str]  #: paragraphs about the method
    settings: dict[str, Any]
    results: Any  #: values for `as_json`
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  #: paragraphs about the numbers
    partial: bool = False  #: whether the experiment was cut short

    def document(self) -> dict[str, Any]:
        """Return all numbers as JSON, with what is needed to read them later."""
        return {
            "experiment": self.name,
            "title": self.title,
            "partial": self.partial,
            "settings": as_json(self.settings),
            "environment": environment(),
            "results": as_json(self.results),
            "claims": as_json(self.claims),
        }

    def markdown(self) -> str:
        """Return the tables and claims, with the text around them."""
        parts = [f"# {self.title}"]
        if self.partial:
            parts.append("**Cut short: these are the numbers up to then.**")
        parts += self.summary
        if self.claims:
            parts.append(
                markdown_table(
                    ["claim", "verdict", "measured"], [[c.text, VERDICTS[c.holds], c.measured] for c in self.claims]
                )
            )
        for table in self.tables:
            parts += [f"## {table.title}", markdown_table(table.head, table.rows), *filter(None, [table.note])]
        return "\n\n".join([*parts, *self.remarks]) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Write everything to a folder and return the files. A figure that cannot be drawn yet is left out."""
        folder.mkdir(parents=True, exist_ok=True)
        json_file, markdown_file = folder / f"{self.name}.json", folder / f"{self.name}.md"
        json_file.write_text(json.dumps(self.document(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        markdown_file.write_text(self.markdown(), encoding="utf-8")
        return [json_file, markdown_file, *(path for p in self.pictures for path in draw(p, folder))]


def draw(picture: Picture, folder: Path) -> list[Path]:
    """Return one figure as PNG and as SVG."""
    matplotlib = load_matplotlib()
    from matplotlib.figure import Figure

    paths = [folder / f"{picture.name}.{suffix}" for suffix in ("png", "svg")]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure)
        for path in paths:
            save_figure(figure, path)
    return paths


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with its first column to the left and the others to the right.

    >>> print(markdown_table(["", "gap"], [["SGD", "0.1"]]))
    |  | gap |
    |---|---:|
    | SGD | 0.1 |
    """
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    text[1] = text[1].replace(" ", "")
    return "\n".join(text)


def as_json(value: Any) -> Any:
    """Return named tuples, arrays and numbers as JSON values, null if they are not finite.

    >>> as_json({"gap": np.float64(np.inf), "claim": Claim("a", True, "b"), "t": np.arange(2)})
    {'gap': None, 'claim': {'text': 'a', 'holds': True, 'measured': 'b'}, 't': [0, 1]}
    """
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def environment() -> dict[str, Any]:
    """Return versions and the kind of machine."""
    return {
        "python": platform.python_version(),
        **{name: installed(name) for name in ("fiol", "numpy", "numba", "scipy", "matplotlib")},
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
    }


def installed(name: str) -> str | None:
    """Return the version of a package, if it is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def cpu_name() -> str:
    """Return the name of the processor, which `platform` lacks on Linux."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


# --- numbers and words as text --------------------------------------------------------------------------


def number(value: float, digits: int = 3) -> str:
    """Return a number with few digits, in words if it overflowed.

    >>> number(0.012345), number(float("inf")), number(1.5e-5), number(1234567.0)
    ('0.0123', 'overflow', '1.5e-05', '1.23e+06')
    """
    return f"{value:.{digits}g}" if math.isfinite(value) else "overflow"


def power_of_ten(eta: float) -> str:
    """Return a step size, for tables.

    >>> power_of_ten(1e-4), power_of_ten(100.0), power_of_ten(float("nan"))
    ('1e-4', '1e2', 'none')
    """
    return "none" if math.isnan(eta) else f"{eta:.0e}".replace("e-0", "e-").replace("e+0", "e")


def prose(text: str) -> list[str]:
    """Return the paragraphs of a text, each on one line.

    >>> prose("One\\n  line.\\n\\n  Another.")
    ['One line.', 'Another.']
    """
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
