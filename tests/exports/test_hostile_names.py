"""Names of columns, values, labels, tables and files cannot break out of SQL, Python and HTML that fiol writes."""

import ast
import functools
import html.parser
import json
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.cli.test_train import invoke
from tests.exports.tables import HOSTILE, TEXT, quoted
from tests.interpreted import interpret_all

import fiol
from fiol.exports.dialects import DIALECTS
from fiol.exports.dialects.standard import identifier, text_literal
from fiol.exports.json_model import model_from_json
from fiol.exports.linear import NoExportError
from fiol.exports.python_source import python_literal
from fiol.features.table_encoding import TableEncoding

#: Strings that would run code, end a literal, or move a cursor, if they were not quoted.
ATTACKS = [
    *HOSTILE,
    '"; DROP TABLE data; --',
    "'; DROP TABLE data; --",
    "\\'; DROP TABLE data; --",
    '""" + __import__("os").system("touch broken") + """',
    "' + __import__('os').system('touch broken') + '",
    "'''",
    "\n__import__('os').system('touch broken')\n#",
    "{__import__}",
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "\x1b]0;title\x07",
    "\u2028\u2029\x85",
]
ANY_TEXT = st.one_of(st.sampled_from(ATTACKS), TEXT)


@pytest.fixture(autouse=True, scope="module")
def interpreted():
    with pytest.MonkeyPatch.context() as patch:
        interpret_all(patch)
        yield


def model_with(column, value, labels):
    """Return a model with a column, a category and labels of these names."""
    model = fiol.Learner(
        fiol.FIOL(fiol.Logistic()), table_encoding=TableEncoding.from_spec({column: "category"}), compiled=False
    )
    model.core.encode_rows(pd.DataFrame({column: [value, None]}))
    model.start_from([0.5, 2.0], 0.25)
    model.meta["labels"] = labels
    return model


def joint_model(labels):
    """Return a model with a score per label."""
    model = fiol.Learner(fiol.FIOL(fiol.Softmax()), n_features=1, classes=labels, compiled=False)
    model.start_from(np.arange(1.0, 1.0 + len(labels))[:, None], np.zeros(len(labels)))
    return model


def calls_of(source):
    """Return the names that are called, imported or looked up in the source of a module."""
    tree = ast.parse(source)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return named | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


@functools.cache
def plain_calls():
    """Return what `calls_of` finds in a module without hostile names."""
    return calls_of(model_with("x", "y", ["no", "yes"]).to_python())


@settings(max_examples=20)
@given(ANY_TEXT.filter(bool), ANY_TEXT)
@example('"""', '"""')
def test_python_source_has_names_and_values_as_literals(column, value):
    model = model_with(column, value, ["no", value or "yes"])
    source = model.to_python()
    assert calls_of(source) == plain_calls()
    module = {}
    exec(source, module)
    assert module["WEIGHTS"] == {f"{column}={value}": 0.5, f"{column} is missing": 2.0}
    assert module["LABELS"] == ["no", value or "yes"]
    assert module["score"]({column: value}) == 0.75
    assert "\x1b" not in source


def test_python_source_has_no_repr_of_other_objects():
    """Neither a subclass with another repr nor numpy's text reaches the source; other objects are refused."""

    class Odd(str):
        def __repr__(self):
            return "__import__('os')"

    assert python_literal(Odd("a")) == "'a'"
    assert python_literal(np.str_("a")) == "'a'"
    for value in (object(), float("nan"), float("inf"), {"a": 1}, b"a"):
        with pytest.raises(NoExportError, match="no place in Python source"):
            python_literal(value)
    column = pd.Index([np.str_('a"b')], dtype=object)
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    learner.learn(pd.DataFrame([[1.0]], columns=column), [1.0])
    module = {}
    exec(learner.to_python(), module)
    assert [*module["WEIGHTS"]] == ['a"b']


@given(ANY_TEXT.filter(bool), ANY_TEXT.filter(bool), ANY_TEXT.filter(bool))
def test_sql_has_names_and_values_as_literals(column, value, table):
    model = model_with(column, value, ["no", "yes"])
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE TABLE {quoted(table)} ({quoted(column)} TEXT)")
    base.executemany(f"INSERT INTO {quoted(table)} VALUES (?)", [(value,), (None,), ("other" + value,)])
    for dialect in ("standard", "sqlite"):
        assert base.execute(model.to_sql(table, dialect=dialect)).fetchall() == [(0.75,), (2.25,), (0.25,)]
    base.close()


@given(st.lists(ANY_TEXT, min_size=2, max_size=3, unique_by=lambda text: f"score of {text}"))
def test_labels_of_sql_python_and_json(labels):
    model = joint_model(labels)
    base = sqlite3.connect(":memory:")
    base.execute('CREATE TABLE data ("f0" REAL)')
    base.execute("INSERT INTO data VALUES (2.0)")
    found = base.execute(model.to_sql())
    assert [entry[0] for entry in found.description] == [f"score of {label}" for label in labels]
    assert found.fetchall() == [tuple(2.0 * k for k in range(1, 1 + len(labels)))]
    base.close()
    module = {}
    exec(model.to_python(), module)
    assert module["label"]([1.0]) == labels[-1]
    assert module["label"]([-1.0]) == labels[0]
    assert model_from_json(json.loads(model.to_json()), compiled=False).classes == labels


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_sql_refuses_names_that_it_has_not(name):
    with pytest.raises(NoExportError, match="SQL has no name"):
        identifier(name)
    with pytest.raises(NoExportError, match="SQL has no text"):
        text_literal("a\0b")
    for dialect in DIALECTS:
        with pytest.raises(NoExportError, match="SQL has no"):
            model_with("x", "a\0b", ["no", "yes"]).to_sql(dialect=dialect)


def test_column_patterns_are_no_format_strings():
    """Braces other than {} are part of the name."""
    model = joint_model(["a", "b"])
    assert '"{0.__class__}0"' in model.to_sql(column="{0.__class__}{}")


def test_column_pattern_without_a_number_is_refused():
    model = fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=2, compiled=False)
    model.start_from([0.5, -2.0])
    with pytest.raises(ValueError, match=r"column must have \{\} where the number of a feature is"):
        model.to_sql(column="x")  # both weights would be those of one column
    assert '"x"' in joint_model(["a", "b"]).to_sql(column="x")


class Elements(html.parser.HTMLParser):
    """Counts elements and attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, sorted(name for name, _ in attrs)))


@settings(max_examples=30)
@given(ANY_TEXT.filter(bool), ANY_TEXT)
@example("</td><script>alert(1)</script>", '"><img src=x onerror=alert(1)>')
def test_html_of_a_model_has_names_as_text(column, value):
    plain = Elements(model_with("x", "y", ["no", "yes"])._repr_html_()).found
    assert Elements(model_with(column, value, ["no", "yes"])._repr_html_()).found == plain


def test_report_pages_have_names_labels_and_files_as_text(tmp_path):
    """The elements of a page do not depend on the names of columns, values, labels and files."""
    found = []
    for folder, column, values, labels in (
        ("plain", "x", ["a", "b"], ["no", "yes"]),
        ("<img src=x onerror=alert(1)>", "<script>alert(1)", ["<b>a", '"><img src=x>'], ["<i>no", "</script><b>yes"]),
    ):
        home = tmp_path / folder
        home.mkdir()
        rows = [{column: values[k % 2], "n": k % 5, "target": labels[(k // 2) % 2]} for k in range(40)]
        pd.DataFrame(rows).to_csv(home / "rows.csv", index=False)
        report = ["--report", home / "page.html"]
        how = ["--target", "target", "--algorithm", "FIOL", "-o", home / "m.fiol"]
        invoke("train", home / "rows.csv", *how, *report)
        pages = [(home / "page.html").read_text(encoding="utf-8")]
        for command in (
            ["evaluate", home / "m.fiol", home / "rows.csv"],
            ["compare", home / "rows.csv", "--target", "target", "--algorithm", "FIOL", "--step-sizes", "1,2"],
            ["train", home / "rows.csv", "--target", "target", "--features", "auto", "-o", home / "curves.fiol"],
        ):
            invoke(*command, *report, "--force")
            pages.append((home / "page.html").read_text(encoding="utf-8"))
        assert not any("<script>alert" in page or "<img" in page for page in pages)
        found.append([[tag for tag, _ in Elements(page).found] for page in pages])
    assert found[0] == found[1]


def test_exported_files_run_nothing(tmp_path):
    """A model with hostile names is exported by the command; its module runs, and no other file appears."""
    attack = "\"\"\"\n__import__('pathlib').Path('broken').touch()\n#'; DROP TABLE data; --"
    model = model_with(attack, attack, ["no", attack])
    path = tmp_path / "a'b;--$(touch broken).fiol"
    model.save(path)
    for name in ("json", "sql", "python"):
        invoke("export", path, "--to", name, "-o", tmp_path / f"out.{name}")
    done = subprocess.run(
        [sys.executable, "-S", "out.python"], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["out.json", "out.sql", "out.python", path.name])


@pytest.mark.parametrize("name", ["True", "false"])
def test_sqlite_refuses_columns_that_an_inner_select_loses(name):
    """SQLite calls them `column1` there, and takes the quoted name for a text, without an error."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=200), "other": rng.normal(size=200)})
    target = np.where(frame[name] > 0.0, "yes", "no")
    curves = fiol.train(frame.assign(sold=target), target="sold", features="additive")
    with pytest.raises(NoExportError, match=f"loses the column '{name}': rename it"):
        curves.to_sql(dialect="sqlite")
    assert "OFFSET 0" in curves.to_sql(dialect="duckdb")
    model = fiol.train(frame.assign(sold=target), target="sold", features="linear", algorithm="FIOL")
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("data", base, index=False)
        found = [score for (score,) in base.execute(model.to_sql(dialect="sqlite"))]
    np.testing.assert_allclose(found, model.scores(frame), rtol=1e-12, atol=1e-12)
