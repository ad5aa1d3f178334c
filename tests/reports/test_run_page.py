"""Pages about runs show the measured numbers and escape all data."""

import html.parser
import json
import re

import numpy as np
import pytest
from tests.commands import CliRunner
from tests.interpreted import interpret_all

import fiol
from fiol import cli
from fiol.reports.html import shaded_table
from fiol.training import metrics
from fiol.training import run as loop


@pytest.fixture(autouse=True)
def small_figures_in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(loop, "FIRST_LINE", 25)
    monkeypatch.setattr(metrics.Windows.__init__, "__defaults__", (16, 10, ()))


class Reader(html.parser.HTMLParser):
    """Collects open tags, addresses, titles of parts and all text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.addresses, self.titles, self.text = [], [], [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "onclick", "onerror")]
        if tag not in ("meta", "br", "!doctype"):
            self.open.append(tag)
        if tag in ("h1", "h2"):
            self.titles.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("h1", "h2"):
            self.titles[-1] += data


def read_page(path):
    page = path.read_text(encoding="utf-8")
    found = Reader(page)
    assert "script" not in found.tags
    assert found.addresses == []
    assert not re.search(r"https?://|url\(|@import|nan|inf\b|None", re.sub(r"<pre>.*?</pre>", "", page, flags=re.S))
    return found


def invoke(*arguments, code=0):
    done = CliRunner().invoke(cli.main, list(map(str, arguments)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    if "--report" in arguments:
        assert done.stderr == f"The page is {arguments[arguments.index('--report') + 1]}: open it in a browser.\n"
    return done.stdout


def write_table(path, kind, rows=240):
    draw = np.random.default_rng(3)
    a, b = draw.normal(size=(2, rows))
    names = np.array(["<script>alert(1)</script>", 'x" onclick="y', "z&amp;"])[draw.integers(0, 3, rows)]
    z = 2.0 * a - b + (names == "z&amp;") + 0.5 * draw.normal(size=rows)
    y = {"two": np.where(z > 0, "<b>yes", "no"), "classes": np.digitize(z, [-1, 1]), "numbers": z.round(3)}[kind]
    lines = [f"{p:.3f},{q:.3f},'{name}',{t}" for p, q, name, t in zip(a, b, names, y, strict=True)]
    path.write_text("\n".join(["a,b,<script>,y", *(line.replace("'", "") for line in lines)]) + "\n")


@pytest.mark.parametrize("kind", ["two", "classes", "numbers"])
def test_run_pages_of_all_kinds(kind, tmp_path):
    pytest.importorskip("pyarrow")
    data, model, page = tmp_path / "rows.csv", tmp_path / "rows.fiol", tmp_path / "rows.html"
    write_table(data, kind)
    options = ["--algorithm", "FIOL"] if kind == "classes" else []
    printed = json.loads(invoke("train", data, "--target", "y", *options, "--report", page, "-o", model, "--json"))
    found, learner = read_page(page), fiol.load(model)
    loss, constant = printed["loss"], printed["constant"]
    name = "Squared loss" if kind == "numbers" else "Log loss"
    assert found.titles[0] == f"{name} {loss:.3g}, {100 * (1 - loss / constant):.0f} % below the best constant"
    assert f"fiol train {data} --target y" in found.text
    assert str(data) in found.text
    top = next(iter(learner.importances(1)))
    assert any(title.startswith(f"{top} matters most") for title in found.titles)
    column = next(iter(learner.importances(1, by="column")))
    assert any(title.startswith(f"Column {column} matters most") for title in found.titles)
    assert "columnkindmissingfeaturesexamples" in found.text.replace("\n", "")
    assert "<script>=<script>alert(1)</script>" in found.text
    expected = {"two": "of the labels are right", "classes": "of the labels are right", "numbers": "nine of ten within"}
    assert expected[kind] in found.text
    assert ("What was predicted happened" in found.text) == (kind == "two")
    assert any("combin" in title or "member" in title for title in found.titles) == (kind != "classes")
    assert any(title.startswith("The loss") for title in found.titles)
    assert found.tags.count("svg") >= 3

    assert "exists" in CliRunner().invoke(cli.main, ["evaluate", str(model), str(data), "--report", str(page)]).output
    judged = json.loads(invoke("evaluate", model, data, "--report", page, "--force", "--json"))
    found = read_page(page)
    assert found.titles[0].startswith(f"{name} {judged['loss']:.3g}, ")
    assert "Evaluated on 240 rows" in found.text


def test_held_out_rows_are_used_for_several_passes(tmp_path):
    pytest.importorskip("pyarrow")
    data, page = tmp_path / "rows.csv", tmp_path / "page.html"
    write_table(data, "numbers")
    options = ["--algorithm", "FIOL", "--passes", "3", "--holdout", "0.3"]
    printed = json.loads(
        invoke("train", data, "--target", "y", *options, "--report", page, "-o", tmp_path / "m.fiol", "--json")
    )
    found = read_page(page)
    assert found.titles[0].startswith(f"Squared loss {printed['held_out']:.3g}, ")
    assert "held out in pass 3" in found.text
    assert f"Pass {printed['best_pass']} of 3 was best on the rows held out" in found.text


def test_page_of_three_rows_has_no_empty_section(tmp_path):
    data, page = tmp_path / "rows.svm", tmp_path / "page.html"
    data.write_text("1 1:1\n0 1:2\n1 2:1\n")
    invoke("train", data, "--algorithm", "FIOL", "--report", page, "-o", tmp_path / "m.fiol")
    found = read_page(page)
    assert "svg" not in found.tags or "What was predicted" in found.text
    assert all(title.strip() for title in found.titles)
    assert "feature 0" in found.text


def test_headline_of_a_run_whose_first_rows_were_costly(tmp_path):
    data, page = tmp_path / "rows.csv", tmp_path / "page.html"
    draw = np.random.default_rng(0)
    x = draw.normal(size=400)
    data.write_text("x,y\n" + "".join(f"{a:.3f},{1000.0 + a + 0.1 * b:.3f}\n" for a, b in zip(x, x[::-1], strict=True)))
    invoke("train", data, "--target", "y", "--report", page, "-o", tmp_path / "m.fiol")
    title = read_page(page).titles[0]
    assert re.match(r"Squared loss \S+ in the last quarter of the rows, \d+ % below the best constant; ", title)


@pytest.mark.parametrize(("labels", "dense"), [(2, False), (5, False), (7, True)])
def test_confusion_matrix_of_many_labels_is_written_smaller(labels, dense):
    names = [str(k) for k in range(labels)]
    assert ('class="dense"' in shaded_table(names, [[1.0] * labels] * labels)) == dense
