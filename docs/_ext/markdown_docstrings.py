"""Docstrings with Markdown's tables and inline code, as reStructuredText for numpydoc.

A docstring of the package is meant to be read in a terminal and an editor. It has numpydoc's sections, tables with
bars, single backticks for code, and indented formulas.
"""

import re
from typing import Any

from sphinx.application import Sphinx

#: Sections whose indented lines are descriptions; elsewhere they are formulas or code.
DESCRIBED = ("Parameters", "Returns", "Raises", "Yields", "Attributes", "Warns", "Other Parameters", "See Also")
#: Characters that reStructuredText would read as markup outside of code.
MARKUP = re.compile(r"([*|]|(?<=\w)_(?=\W|$))")


def escaped(text: str) -> str:
    """Return a line with code in double backticks, and everything else as it is read.

    >>> escaped("the score |z| of `coef_`")
    'the score \\\\|z\\\\| of ``coef_``'
    """
    parts = re.split(r"(``.+?``|`[^`]+`)", text)
    for k, part in enumerate(parts):
        parts[k] = f"``{part.strip('`')}``" if k % 2 else MARKUP.sub(r"\\\1", part)
    return "".join(parts)


def as_list_table(rows: list[str], indent: str) -> list[str]:
    """Return a table with bars as a `list-table`."""
    cells = [[cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip()[1:-1])] for row in rows]
    head, body = cells[0], cells[2:]
    lines = ["", f"{indent}.. list-table::", f"{indent}   :header-rows: 1", ""]
    for row in [head, *body]:
        for k, cell in enumerate(row):
            lines.append(f"{indent}   {'*' if k == 0 else ' '} - {escaped(cell)}")
    return [*lines, ""]


def indent_of(line: str) -> int:
    """Return the number of blanks that a line begins with."""
    return len(line) - len(line.lstrip())


def running_text(lines: list[str], k: int) -> bool:
    """Return whether the text after the colon of parameter k is a sentence, or goes on in the next line: no type."""
    after = lines[k + 1] if k + 1 < len(lines) else ""
    goes_on = indent_of(after) > 0 and bool(after.strip()) and not after.strip()[0].isupper()
    return goes_on or lines[k].rstrip().endswith(".")


def converted(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    out: list[str] = []
    section, k = "", 0
    while k < len(lines):
        line = lines[k]
        text = line.strip()
        if k + 1 < len(lines) and text and re.fullmatch(r"-{3,}", lines[k + 1].strip()):
            section, out, k = text, [*out, line, lines[k + 1]], k + 2
        elif text.startswith(">>>"):
            while k < len(lines) and lines[k].strip():
                out.append(lines[k])
                k += 1
        elif text.startswith("|") and k + 1 < len(lines) and re.match(r"\s*\|[-:| ]+\|$", lines[k + 1]):
            end = k
            while end < len(lines) and lines[end].strip().startswith("|"):
                end += 1
            out, k = out + as_list_table(lines[k:end], " " * indent_of(line)), end
        elif section not in DESCRIBED and indent_of(line) >= 4 and (not out or not out[-1].strip()):
            out += ["::", ""]
            while k < len(lines) and (indent_of(lines[k]) >= 4 or not lines[k].strip()):
                out.append(lines[k])
                k += 1
        elif section in DESCRIBED and indent_of(line) == 0 and " : " in text and running_text(lines, k):
            name, _, rest = text.partition(" : ")
            out, k = [*out, name, f"    {escaped(rest)}"], k + 1
        elif section in DESCRIBED and indent_of(line) == 0 and " : " in text:
            name, _, rest = text.partition(" : ")
            out, k = [*out, f"{name} : {escaped(rest)}"], k + 1
        elif section in DESCRIBED and indent_of(line) == 0:
            out, k = [*out, line], k + 1
        else:
            out, k = [*out, escaped(line)], k + 1
    return out


def convert(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Replace a docstring before numpydoc reads it."""
    lines[:] = converted(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the conversion, ahead of numpydoc's."""
    app.connect("autodoc-process-docstring", convert, priority=100)
    return {"parallel_read_safe": True}
