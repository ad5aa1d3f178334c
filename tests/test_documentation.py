"""README and documentation name only what exists: names, commands, options, targets, files and links."""

import ast
import importlib
import importlib.util
import inspect
import re
import warnings
from pathlib import Path

import click
import pytest
from tests.commands import CliRunner
from tests.interpreted import interpret_all

import fiol
from fiol.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: All text for readers.
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(DOCS.rglob("*.md")),
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
URLS = dict(re.findall(r'^(\w+) = "(https://.+)"$', PROJECT, re.MULTILINE))


def name_of(page):
    return str(page.relative_to(ROOT))


each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def code_in(text):
    """Yield inline code, and the lines of blocks of code."""
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (line.strip() for line in text.splitlines() if line.startswith("    "))
    yield from re.findall(r"`([^`]+)`", text)


def resolve(name):
    """Import a dotted name; AttributeError or ImportError if there is none."""
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for k, part in enumerate(parts[1:], 1):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[: k + 1]))
        found = getattr(found, part)
    return found


# --- names ----------------------------------------------------------------------------------------


@each_page
def test_dotted_names_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"(?<![\w./:-])(fiol(?:\.[A-Za-z_]\w*)+)", text))):
        if name.startswith(("fiol.spark", "fiol.integrations.spark", "fiol.readthedocs")):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of MLflow, at its import
                resolve(name)
        except ModuleNotFoundError as error:  # a library that users install, such as MLflow
            if str(error.name).startswith("fiol"):
                raise


def listed_names(reference):
    """Return the names that the reference lists, by module."""
    found = {}
    for module, names in re.findall(r"currentmodule:: (fiol\.[\w.]+)\n(.*?)```", reference, re.DOTALL):
        found.setdefault(module, []).extend(re.findall(r"^   (\w+)$", names, re.MULTILINE))
    for module in ("fiol.spark", "fiol.mlflow"):  # tables: to read signatures needs Spark
        section = reference.partition(f"### {module}\n")[2].partition("\n###")[0]
        rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
        found[module] = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    return found


def test_reference_lists_all_public_names():
    text = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    of_package = text[: text.index("## Modules")]
    listed = re.findall(r"^   (\w+)$", of_package, re.MULTILINE)
    assert sorted(listed) == sorted(set(fiol.__all__) - {"checks"})
    found = listed_names(text)
    assert len(found) > 15
    for module, names in found.items():
        if module == "fiol.spark":  # needs Spark
            tree = ast.parse((ROOT / "src" / "fiol" / "spark.py").read_text(encoding="utf-8"))
            (public,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
            assert sorted(names) == sorted(public)
        elif module == "fiol.mlflow" and importlib.util.find_spec("mlflow") is None:
            continue
        else:
            for name in names:
                assert hasattr(importlib.import_module(module), name), (module, name)


def test_reference_lists_what_pages_import_from_modules():
    listed = listed_names((DOCS / "reference" / "api.md").read_text(encoding="utf-8"))
    for page in PAGES:
        if name_of(page) in ("ARCHITECTURE.md", "docs/project/adding.md"):  # for contributors
            continue
        for module, names in re.findall(r"from (fiol\.[\w.]+) import ([\w, ]+)", page.read_text(encoding="utf-8")):
            public = {*listed[module], "PerFeature"}
            assert {name.partition(" as ")[0].strip() for name in names.split(",")} <= public, name_of(page)


@each_page
def test_named_files_exist(page):
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:src|tests|examples|benchmarks|docs)/[\w./-]*\w)`", text):
        assert (ROOT / path).exists(), path
    for module in re.findall(r"python -m ((?:benchmarks|tests)[\w.]*)", text):
        assert (ROOT / (module.replace(".", "/") + ".py")).exists() or (ROOT / module.replace(".", "/")).is_dir(), (
            module
        )
    for path in re.findall(r"python ((?:tests|examples|benchmarks)/[\w/]+\.py)", text):
        assert (ROOT / path).exists(), path


def script_of(command):
    """Return the file of `path/script.py` or of `-m package.module`."""
    path = ROOT / (command[3:].replace(".", "/") if command.startswith("-m ") else command)
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


@each_page
def test_options_of_scripts_exist(page):
    text = page.read_text(encoding="utf-8")
    for command, words in re.findall(r"python ((?:-m )?(?:tests|examples|benchmarks)[./][\w./]*\w)([^`\n|]*)", text):
        source = script_of(command).read_text(encoding="utf-8")
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", words):
            assert f'"{option}"' in source, f"{command} {option}"


def documented_parameters(docstring):
    """Return the names that have an entry of their own under Parameters."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:^\w+\n-{3,}$|\Z)", docstring, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^([A-Za-z_][\w, ]*?)(?: :.*)?$", section[1] if section else "", re.MULTILINE)
    return [name.strip() for entry in entries for name in entry.split(",")]


@pytest.mark.parametrize(
    "name",
    [
        "fiol.Learner",
        "fiol.OneVsRest",
        "fiol.FIOLClassifier",
        "fiol.FIOLRegressor",
        "fiol.PassiveAggressiveClassifier",
        "fiol.PassiveAggressiveRegressor",
        "fiol.river.FIOLClassifier",
        "fiol.river.FIOLRegressor",
        "fiol.train",
        "fiol.read",
    ],
)
def test_docstring_has_an_entry_for_every_parameter_and_no_other(name):
    found = resolve(name)
    assert documented_parameters(inspect.getdoc(found)) != []
    assert sorted(documented_parameters(inspect.getdoc(found))) == sorted(inspect.signature(found).parameters)


# --- commands -------------------------------------------------------------------------------------


def fiol_commands(text):
    """Return the words of all command lines of `fiol` in code."""
    found = []
    for code in code_in(text):
        line = re.sub(r"^\$ |\s+#.*$", "", code.strip()).rstrip("\\")
        for part in re.split(r"\s*(?:\||&&|;)\s*", line):
            words = part.split()
            if words[:1] == ["fiol"] and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
                found.append(words[1:])
    return found


@each_page
def test_commands_and_options_exist(page):
    for name, *words in fiol_commands(page.read_text(encoding="utf-8")):
        command = main.get_command(click.Context(main), name)
        assert command is not None, f"fiol {name}"
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = [command.get_command(click.Context(command), one) for one in words[0].split("|")]
            assert None not in found, f"fiol {name} {words[0]}"
            command, words = found[0], words[1:]
        if name == "vw":
            words = words[: words.index("--")] if "--" in words else words
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        options |= {"-h", "--help"}
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert word.partition("=")[0] in options, f"fiol {name} {word}"


@each_page
def test_make_targets_exist(page):
    for code in code_in(page.read_text(encoding="utf-8")):
        if code.startswith("make "):
            for target in re.findall(r"\s([a-z][a-z-]*)(?=\s|$)", code.partition("#")[0]):
                assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


# --- links ----------------------------------------------------------------------------------------


def links_in(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)


@each_page
def test_relative_links_lead_to_files(page):
    for link in links_in(page.read_text(encoding="utf-8")):
        path = link.partition("#")[0]
        if path and "://" not in path:
            assert (page.parent / path).exists(), link


def test_readme_links_are_absolute_and_lead_to_files():
    links = links_in(README)
    assert links
    raw = URLS["Repository"].replace("github.com", "raw.githubusercontent.com")
    for link in links:
        assert link.startswith("https://"), link
        if link.startswith(URLS["Repository"] + "/blob/main/"):
            assert (ROOT / link.removeprefix(URLS["Repository"] + "/blob/main/")).exists(), link
        elif link.startswith(raw):
            assert (ROOT / link.removeprefix(raw + "/main/")).exists(), link
        elif link.startswith(URLS["Documentation"]):
            page = link.removeprefix(URLS["Documentation"] + "/en/stable/").replace(".html", ".md") or "index.md"
            assert (DOCS / page).exists(), link
        else:
            assert link.startswith("https://arxiv.org/"), link


# --- README ---------------------------------------------------------------------------------------


def test_readme_commands_run(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    interpret_all(monkeypatch)
    monkeypatch.chdir(tmp_path)
    kinds = re.findall(r"^```(\w+)", README, re.MULTILINE)
    assert set(kinds) == {"python", "console"}  # blocks of Python are doctests
    lines = "\n".join(re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)).splitlines()
    commands = [line.split() for line in lines if line.strip()]
    extras = re.search(r"^all = \[", PROJECT, re.MULTILINE)
    assert commands[0] == ["pip", "install", '"fiol[all]"']
    assert extras is not None
    names = ["demo", "train", "evaluate", "predict", "serve", "send"]
    assert [words[:2] for words in commands[1:]] == [["fiol", name] for name in names]
    commands[1] += ["--rows", "400"]
    for words in commands[1:5]:  # a server and its client have tests of their own, in tests/server
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == 0, done.output
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 1 + 80
    assert "Evaluated on 80 rows" in (tmp_path / "tickets.html").read_text()


def test_readme_is_short():
    assert len(README.splitlines()) <= 120


# --- numbers --------------------------------------------------------------------------------------

#: Numbers that were measured once, on some machine; and ratios of such numbers.
COMPARED = r"(?:as (?:fast|long|slow|large|much|many|little|small)|faster|slower|longer|smaller|larger|less|more)\b"
MEASURED = re.compile(
    r"\d[\d.,]*\s?(?:(?:µs|us|microseconds?|milliseconds?|ms|rows/s|MB/s|GB|MB of memory)\b"
    r"|(?:short |long )?rows (?:a|per) second|bytes (?:each|for each|per|a feature|a row)\b"
    rf"|(?:times|%) (?:{COMPARED}|the (?:\w+ )?(?:time|memory|size)\b)|of the (?:time|memory|size)\b)"
    r"|\b(?:in|for|takes?|took|costs?|about|some) (?:about |some )?\d[\d.]*(?: to \d[\d.]*)? (?:s|seconds|minutes)\b"
    r"|\btakes? (?:about |only )?[\w.]+ times\b"
    r"|\b(?:half|a third|a quarter|a fifth|a tenth|thirds|quarters) (?:of )?the (?:time|memory|size)\b"
    r"|\b(?:a|one|few|some|several) (?:micro|milli)seconds?\b"
    rf"|\b(?:two|three|four|five|six|seven|eight|nine|ten|several|many) times {COMPARED}"
)
#: Commands that measure.
COMMAND = re.compile(
    r"`[^`]*(?:make [a-z]|python -m (?:benchmarks|tests)|python (?:tests|examples)/|fiol reproduce|pytest )[^`]*`"
)


def sections(text):
    """Yield the parts of a page between headings."""
    yield from re.split(r"^#+ ", text, flags=re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "ARCHITECTURE.md"], ids=name_of)
def test_measured_numbers_stand_beside_the_command_that_gives_them(page):
    text = page.read_text(encoding="utf-8")
    if page.name == "benchmarks.md":  # one command gives all numbers of the page
        assert COMMAND.search(text.partition("\n## ")[0])
        return
    for section in sections(text):
        prose = re.sub(r"^```.*?^```", "", section, flags=re.MULTILINE | re.DOTALL)
        found = MEASURED.search(" ".join(re.sub(r"`[^`]+`", "", prose).split()))
        assert found is None or COMMAND.search(prose), f"{section.splitlines()[0]}: {found[0]}"


@pytest.mark.parametrize(
    "sentence",
    [
        "A row takes 3.5 µs.",
        "It compiles, for 4 to 10 seconds.",
        "It learns in about 7 s.",
        "It takes 5 times the processor time of one stream.",
        "A pass takes several times as long.",
        "Three of them take 0.56 of the time.",
        "First use takes half the time.",
        "Nodes are of about 130 bytes each.",
        "A file takes 90 bytes for each feature.",
        "A call costs a few microseconds.",
    ],
)
def test_sentence_with_a_measured_number_is_recognized(sentence):
    assert MEASURED.search(sentence)


def test_code_without_a_command_that_measures_is_no_evidence():
    assert not COMMAND.search("```python\n>>> fiol.Learner()\n```\n and `fiol train`")
    assert COMMAND.search("`make bench`")


def test_benchmark_page_is_short():
    words = (DOCS / "project" / "benchmarks.md").read_text(encoding="utf-8").replace("|", " ").split()
    assert len(words) <= 1500


# --- search ---------------------------------------------------------------------------------------


def found_by():
    """Return the section of every text by which the search of the pages finds a question, or a page with words."""
    found = {}
    for text_of_page in (page.read_text(encoding="utf-8") for page in PAGES):
        for level, title, words in re.findall(r"^(##?) (.+)\n\n<!-- Search words: (.+) -->$", text_of_page, re.M):
            for text in [title] * (level == "##") + words.split(", "):
                assert text.lower() not in found, f"{title} and {found[text.lower()]} have {text!r}"
                found[text.lower()] = title
    return found


def sections_for(query):
    """Return the sections that Sphinx lists: their text contains the query and is at most twice as long."""
    texts = [text for text in found_by() if query.lower() in text and len(text) <= 2 * len(query)]
    return {found_by()[text] for text in texts}


def test_every_question_has_search_words():
    questions = set(re.findall(r"^## (.+)$", (DOCS / "questions.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert questions <= set(found_by().values())


@pytest.mark.parametrize(
    ("section", "queries"),
    [
        ("Installing", ["install", "pip install", "docker"]),
        ("Learning rate", ["learning rate", "lr", "step size", "which learning rate"]),
        ("Scaling features", ["scaling", "normalize", "StandardScaler", "feature scaling"]),
        ("Missing values (NaN)", ["missing values", "nan", "null", "imputation"]),
        ("Class weights", ["class weights", "class_weight", "imbalanced classes", "imbalanced data", "unbalanced"]),
        ("Probabilities", ["probabilities", "probability", "predict_proba", "calibration"]),
        ("Early stopping", ["early stopping", "epochs", "number of epochs", "overfitting", "max_iter"]),
        ("Serving", ["serving", "deploy", "deployment", "deploy a model", "rest api", "production"]),
        ("Delayed labels", ["delayed labels", "late labels", "delayed feedback"]),
        ("Interactions", ["interactions", "interaction", "feature crosses", "polynomial features"]),
        ("The paper", ["the paper", "arxiv", "which paper"]),
        ("Saving a model", ["save model", "load model", "pickle"]),
        ("File size", ["file size", "model file size", "how big is a model"]),
        ("Model size", ["model size", "memory", "memory usage"]),
        ("Threads", ["threads", "thread safe", "multithreading", "n_jobs", "gpu", "cores"]),
        ("Random seed", ["random seed", "random_state", "reproducible"]),
        ("Slow first call", ["slow", "compile time", "numba"]),
        ("Uncertainty", ["uncertainty", "confidence intervals", "prediction intervals"]),
        ("Non-linear relations", ["nonlinear", "non-linear", "xgboost"]),
        ("Feature selection", ["feature importance", "sparsity", "lasso"]),
        ("Hyperparameters", ["hyperparameter tuning", "grid search", "cross validation"]),
        ("Multiclass targets", ["multiclass", "softmax", "several classes"]),
        ("Citing fiol", ["citing", "cite", "citation", "bibtex", "how to cite"]),
        ("Upgrading", ["upgrading", "upgrade", "new version", "backwards compatibility", "deprecation"]),
        ("Contributing", ["contributing", "contribute", "pull request", "bug report"]),
        ("Columns of tables", ["one hot encoding", "categorical features"]),
        ("Drift", ["concept drift"]),
        ("Text", ["text classification", "bag of words"]),
        ("Huge files", ["incremental learning", "out of core"]),
        ("Choosing a penalty", ["regularization", "ridge"]),
        ("Updating a model every day", ["retraining", "warm start"]),
        ("Your own loss, penalty or step size", ["custom loss"]),
    ],
)
def test_search_in_words_of_newcomers_finds_the_section(section, queries):
    assert {query: sections_for(query) for query in queries} == {query: {section} for query in queries}


def extension(name):
    """Return an extension of the documentation; skip where there is no Sphinx."""
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_words_of_a_section_become_entries_of_the_index_of_the_pages():
    words = extension("search_words")
    from docutils import nodes
    from docutils.utils import new_document
    from sphinx import addnodes

    page = new_document("questions")
    section = nodes.section("", nodes.title("", "Class weights"), ids=["class-weights"])
    page += section
    comment = "<!-- Search words: imbalanced classes, unbalanced -->"
    section += nodes.raw(comment, comment, format="html")
    words.SearchWords(page).apply()
    (index,) = page.findall(addnodes.index)
    assert [entry[1:4] for entry in index["entries"]] == [
        ("imbalanced classes", "class-weights", "main"),
        ("unbalanced", "class-weights", "main"),
    ]


def test_cell_of_shell_commands_is_shown_without_the_magic_of_jupyter():
    cells = extension("shell_cells")
    from docutils import nodes
    from docutils.utils import new_document

    page = new_document("tutorial")
    for code in ("%%bash\nfiol demo\nhead -4 tickets.csv", "print('%%bash')"):
        page += nodes.literal_block(code, code, language="ipython3")
    cells.ShellCells(page).apply()
    shown = [(block.astext(), block["language"]) for block in page.findall(nodes.literal_block)]
    assert shown == [("fiol demo\nhead -4 tickets.csv", "bash"), ("print('%%bash')", "ipython3")]
