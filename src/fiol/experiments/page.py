"""All reports as one HTML page without dependencies: tables, claims and figures."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from fiol.experiments.report import VERDICTS, Report, Table, environment

CSS = """
:root { color-scheme: light dark; --text: #1b1b1b; --soft: #555; --back: #fff; --line: #d0d0d0; --band: #f4f6f8;
  --good: #00684b; --bad: #b13c00; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --soft: #b0b0b0; --back: #16181c; --line: #3a3f47;
  --band: #1f2329; --good: #4fd1a5; --bad: #ff9a66; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto;
  padding: clamp(1rem, 3vw, 2.5rem); max-width: 80rem; }
h1 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 2px solid var(--line); padding-top: 1.2rem; }
h3 { margin: 1.8rem 0 .4rem; } p { max-width: 60rem; } .soft, figcaption { color: var(--soft); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums; }
sup { line-height: 0; }
th, td { padding: .28rem .45rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid var(--line); }
tbody tr:nth-child(even) { background: var(--band); }
table.claims td { white-space: normal; } table.claims th, table.claims td { text-align: left; }
td.good { color: var(--good); font-weight: 600; }
td.bad { color: var(--bad); font-weight: 700; }
figure { margin: 1.5rem 0; } figcaption { color: var(--text); font-size: 1rem; font-weight: 600; margin-bottom: .4rem; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; }
.partial { border-left: 4px solid var(--bad); padding-left: .8rem; font-weight: 600; }
nav a { margin-right: 1rem; } a { color: inherit; }
"""
#: A power in the text of tables.
POWER = re.compile(r"\^(-?[0-9.]*[0-9])")
TONE = {True: "good", False: "bad", None: "soft"}


def page(reports: Sequence[Report], folder: Path) -> str:
    """Return the page; the figures are read from the folder."""
    links = "".join(f'<a href="#{r.name}">{escape(r.title.partition(":")[0])}</a>' for r in reports)
    machine = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>fiol: the paper, reproduced</title><style>{CSS}</style></head><body>",
        "<h1>Fully implicit online learning: the paper, reproduced</h1>",
        "<p>Written by <code>fiol reproduce</code>. Every algorithm is a preset of the library,",
        "every stream is seeded. Times, and whatever was reached within a time, depend on the machine;",
        "the claims are checked against the numbers below.</p>",
        f"<nav>{links}</nav>",
        *(section(report, folder) for report in reports),
        f'<h2>Machine</h2><p class="soft">{escape(machine)}</p></body></html>',
    ]
    return "\n".join(parts) + "\n"


def section(report: Report, folder: Path) -> str:
    """Return the section of one experiment."""
    claims = "".join(
        f"<tr>{cells('td', [c.text])}<td class={TONE[c.holds]}>{VERDICTS[c.holds]}</td>{cells('td', [c.measured])}</tr>"
        for c in report.claims
    )
    parts = [f'<section id="{report.name}"><h2>{escape(report.title)}</h2>']
    if report.partial:
        parts.append('<p class="partial">Cut short: these are the numbers up to then.</p>')
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
    parts += [paragraph(text) for text in report.remarks]
    return "\n".join([*parts, "</section>"])


def titled_table(table: Table) -> str:
    """Return a table with its title and note."""
    head = cells("th", table.head)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    note = f'<p class="soft">{escape(table.note)}</p>' if table.note else ""
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h3>{escape(table.title)}</h3><div class="scroll">{whole}</div>{note}'


def cells(tag: str, texts: Iterable[str]) -> str:
    """Return the cells of one row; a power such as T^0.48 becomes a superscript.

    >>> cells("td", ["T^0.48 < 1"])
    '<td>T<sup>0.48</sup> &lt; 1</td>'
    """
    written = (POWER.sub(r"<sup>\g<1></sup>", escape(text)) for text in texts)
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
