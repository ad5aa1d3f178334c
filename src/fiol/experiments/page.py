"""All reports as one HTML page without dependencies: tables, claims and figures."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from fiol.experiments.report import VERDICTS, Report, Table, environment
from fiol.reports.html import Card, html_page

TITLE = "Fully implicit online learning: the paper, reproduced"
LEAD = (
    "Written by fiol reproduce. Every algorithm is a preset of the library, and every stream is seeded. Times, and "
    "what was reached within a time, depend on the machine. Claims are checked against the numbers below."
)

#: A power in the text of tables.
POWER = re.compile(r"\^(-?[0-9.]*[0-9])")
TONE = {True: "good", False: "bad", None: "soft"}


def page(reports: Sequence[Report], folder: Path) -> str:
    """Return the page; the figures are read from the folder."""
    machine = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    links = "".join(f'<a href="#{r.name}">{escape(r.title.partition(":")[0])}</a> ' for r in reports)
    cards = [Card(r.title, card_body(r, folder), wide=True, anchor=r.name) for r in reports]
    return html_page(TITLE, LEAD, [], [Card("Experiments", f"<p>{links}</p>", wide=True), *cards], machine)


def card_body(report: Report, folder: Path) -> str:
    """Return what is found by one experiment: claims, figures and tables."""
    claims = "".join(
        f"<tr>{cells('td', [c.text])}<td class={TONE[c.holds]}>{VERDICTS[c.holds]}</td>{cells('td', [c.measured])}</tr>"
        for c in report.claims
    )
    parts = ['<p class="bad">Cut short: these are the numbers up to then.</p>'] if report.partial else []
    parts += [paragraph(text) for text in report.summary]
    if claims:
        head = "<thead><tr><th>claim</th><th>verdict</th><th>measured</th></tr></thead>"
        parts.append(f'<h3>What holds</h3><div class="scroll"><table class="claims">{head}<tbody>{claims}')
        parts.append("</tbody></table></div>")
    for p in report.pictures:
        image = base64.b64encode((folder / f"{p.name}.svg").read_bytes()).decode()
        source = f"data:image/svg+xml;base64,{image}"
        parts.append(f"<figure><figcaption>{escape(p.title)}</figcaption>")
        parts.append(f'<img alt="{escape(p.alt)}" src="{source}"></figure>')
    parts += [titled_table(table) for table in report.tables]
    return "\n".join([*parts, *map(paragraph, report.remarks)])


def titled_table(table: Table) -> str:
    """Return a table with its title and note."""
    head = cells("th", table.head)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    note = f'<p class="soft">{escape(table.note)}</p>' if table.note else ""
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h3>{escape(table.title)}</h3><div class="scroll">{whole}</div>{note}'


def cells(tag: str, strings: Iterable[str]) -> str:
    """Return the cells of one row; a power such as T^0.48 becomes a superscript.

    >>> cells("td", ["T^0.48 < 1"])
    '<td>T<sup>0.48</sup> &lt; 1</td>'
    """
    written = (POWER.sub(r"<sup>\g<1></sup>", escape(text)) for text in strings)
    return "".join(f"<{tag}>{text}</{tag}>" for text in written)


def paragraph(text: str) -> str:
    """Return a paragraph; text between double asterisks is bold.

    >>> paragraph("**Yes** & no")
    '<p><b>Yes</b> &amp; no</p>'
    """
    bold = re.sub(r"[*]{2}(.+?)[*]{2}", r"<b>\1</b>", escape(text))
    return f"<p>{bold}</p>"


def write_page(reports: Sequence[Report], folder: Path) -> Path:
    """Write the page beside the other files."""
    path = folder / "index.html"
    path.write_text(page(reports, folder), encoding="utf-8")
    return path
