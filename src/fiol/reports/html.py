"""HTML page without dependencies: style sheet, cards, tables."""

from __future__ import annotations

from collections.abc import Container, Sequence
from html import escape
from typing import NamedTuple

from fiol.reports.svg import shortened

#: Longest name in a table.
LONGEST_CELL = 40
#: A confusion matrix of more labels is written smaller.
FEW_LABELS = 5

STYLE_SHEET = """
:root { color-scheme: light dark; --text: #1c2024; --soft: #5b6570; --back: #f5f6f8; --card: #fff; --line: #dde1e6;
  --accent: #0b62c4; --other: #b4530a; --members: #a9b2bc; --good: #00684b; --bad: #b13c00; }
@media (prefers-color-scheme: dark) { :root { --text: #e7eaee; --soft: #a3adb8; --back: #121418; --card: #1b1e24;
  --line: #343a43; --accent: #6cb2ff; --other: #ffab66; --members: #5d6772; --good: #4fd1a5; --bad: #ff9a66; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--text);
  background: var(--back); margin: 0 auto; padding: clamp(1rem, 3vw, 2.5rem); max-width: 84rem; }
h1 { font-size: clamp(1.5rem, 4vw, 2.3rem); line-height: 1.15; margin: 0 0 .4rem; text-wrap: balance; }
h2 { font-size: 1.05rem; line-height: 1.3; margin: 0 0 .15rem; text-wrap: balance; overflow-wrap: anywhere; }
p { margin: .2rem 0 .8rem; } .soft { color: var(--soft); font-size: .88rem; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: .6rem; margin: 1.4rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .55rem .8rem; }
.tile b { display: block; font-size: 1.3rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .84rem; }
.cards { columns: 2 24rem; column-gap: 1rem; }
.cards + .card { margin-top: 1rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem 1.1rem;
  margin: 0 0 1rem; break-inside: avoid; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .28rem .5rem; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td.text, th.text { text-align: left; overflow-wrap: break-word; }
.scroll td.text:first-child { overflow-wrap: anywhere; min-width: 8.5rem; }
.scroll td.text:last-child:not(:first-child) { min-width: 8rem; }
td.shade { background: color-mix(in srgb, var(--accent) calc(var(--share) * 55%), transparent); }
table.dense { font-size: .74rem; } table.dense th, table.dense td { padding: .25rem .22rem; }
td.best { font-weight: 700; color: var(--accent); }
.bars td { border: 0; padding: .12rem .4rem; } .bars td.bar { width: 52%; padding: 0; position: relative; }
@media (max-width: 32rem) { .bars td.bar { width: 36%; } }
.bars i { position: absolute; top: 18%; bottom: 18%; background: var(--accent); border-radius: 2px; }
.bars i.minus { background: var(--other); } .bars td.bar::before { content: ""; position: absolute; left: var(--zero);
  top: 0; bottom: 0; width: 1px; background: var(--line); }
pre { background: var(--back); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; margin: .4rem 0;
  overflow-x: auto; font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
details summary { cursor: pointer; color: var(--soft); }
svg { display: block; width: 100%; height: auto; font-size: 12px; margin-top: .5rem; }
svg text { fill: var(--soft); } svg .grid, svg .axis { stroke: var(--line); fill: none; }
svg .axis { stroke: var(--soft); } svg .leader { stroke: var(--members); stroke-width: .7; fill: none; }
svg .curve { fill: none; stroke-width: 1.2; stroke-linejoin: round; }
svg .curve.main { stroke: var(--accent); stroke-width: 2.4; }
svg .curve.other { stroke: var(--other); stroke-width: 2; }
svg .curve.level { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .curve.members { stroke: var(--members); }
svg circle.main, svg rect.main { fill: var(--accent); } svg circle.other { fill: var(--other); }
svg .band { fill: var(--accent); fill-opacity: .18; stroke: none; }
svg rect.rows { fill: var(--members); fill-opacity: .45; }
svg rect.plus { fill: var(--accent); } svg rect.minus { fill: var(--other); }
svg .name.main { fill: var(--accent); font-weight: 600; } svg .name.other { fill: var(--other); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; } sup { line-height: 0; } .good { color: var(--good); }
.bad { color: var(--bad); font-weight: 700; } table.claims th, table.claims td { text-align: left; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; margin-bottom: .4rem; }
figure img { display: block; width: 100%; height: auto; background: #fff; border-radius: 6px; }
footer { margin-top: 1.5rem; }
@media print { body { background: #fff; } .card, .tile { break-inside: avoid; } }
"""


class Card(NamedTuple):
    """A part of a page: a title that states the result, a body in HTML, and a remark."""

    title: str
    body: str
    remark: str = ""
    wide: bool = False  #: comes after the others, as wide as the page
    anchor: str = ""  #: the name that links go to

    def html(self) -> str:
        """Return the card as HTML; title and remark are plain text."""
        remark = f'<p class="soft">{escape(self.remark)}</p>' if self.remark else ""
        anchor = f' id="{escape(self.anchor)}"' if self.anchor else ""
        return f'<section class="card"{anchor}><h2>{escape(self.title)}</h2>{remark}{self.body}</section>'


def html_page(title: str, lead: str, tiles: Sequence[tuple[str, str]], cards: Sequence[Card], foot: str) -> str:
    """Return the page; everything except the bodies of cards is plain text.

    >>> "<h1>1 &lt; 2</h1>" in html_page("1 < 2", "", [], [Card("A", "<p>b</p>")], "")
    True
    """
    shown = "".join(f'<div class="tile"><b>{escape(v)}</b><span>{escape(name)}</span></div>' for name, v in tiles)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE_SHEET}</style></head><body>",
            f'<header><h1>{escape(title)}</h1><p class="soft">{escape(lead)}</p></header>',
            f'<div class="tiles">{shown}</div>' if tiles else "",
            f'<main><div class="cards">{"".join(card.html() for card in cards if not card.wide)}</div>',
            f"{''.join(card.html() for card in cards if card.wide)}</main>",
            f'<footer class="soft">{escape(foot)}</footer></body></html>',
            "",
        ]
    )


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]], strings: Container[int] = (0,)) -> str:
    """Return a table of text; the columns with the numbers `strings` are aligned left, the others, numbers, right.

    >>> plain_table(["a"], [["<b>"]]).partition("<tbody>")[2].partition("</tbody>")[0]
    '<tr><td class="text">&lt;b&gt;</td></tr>'
    """

    def line(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="text"' if k in strings else "" for k in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    top = f"<thead><tr>{line('th', head)}</tr></thead>" if any(head) else ""
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def bar_table(values: Sequence[tuple[str, float]]) -> str:
    """Return a table of names with bars to the right of 0, or in another color to the left.

    Numbers have a sign if one of them is below 0.

    >>> bar_table([("a", 2.0), ("b", -2.0)]).count("<i ")
    2
    """
    low, high = min(0.0, *(v for _, v in values)), max(0.0, *(v for _, v in values))
    length = high - low or 1.0
    zero, lines, sign = -low / length, list[str](), "+" if low < 0.0 else ""
    for name, value in values:
        start, long = 100.0 * (zero + min(value, 0.0) / length), 100.0 * abs(value) / length
        bar = f'<i class="{"plus" if value >= 0.0 else "minus"}" style="left:{start:.2f}%;width:{long:.2f}%"></i>'
        cell = f'<td class="text" title="{escape(name)}">{escape(shortened(name, LONGEST_CELL))}</td>'
        lines.append(f'<tr>{cell}<td class="bar">{bar}</td><td>{value:{sign}.3g}</td></tr>')
    return f'<table class="bars" style="--zero:{100.0 * zero:.2f}%"><tbody>{"".join(lines)}</tbody></table>'


def shaded_table(labels: Sequence[str], counts: Sequence[Sequence[float]]) -> str:
    """Return a confusion matrix (a row per true label), darker where counts are larger."""
    head = "".join(f"<th>{escape(label)}</th>" for label in labels)
    lines = []
    for label, row in zip(labels, counts, strict=True):
        total = sum(row) or 1.0
        cells = "".join(
            f'<td class="shade" style="--share:{n / total:.3f}">{n:,.6g}<br>{100 * n / total:.0f} %</td>' for n in row
        )
        lines.append(f'<tr><th class="text">{escape(label)}</th>{cells}</tr>')
    top = f'<thead><tr><th class="text">true ↓ predicted →</th>{head}</tr></thead>'
    dense = ' class="dense"' if len(labels) > FEW_LABELS else ""
    return f'<div class="scroll"><table{dense}>{top}<tbody>{"".join(lines)}</tbody></table></div>'


def command_box(text: str) -> str:
    """Return a box with a command to type."""
    return f"<pre>{escape(text)}</pre>"
