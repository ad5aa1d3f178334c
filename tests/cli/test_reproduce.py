"""The command line: output, files and exit codes, with made-up experiments."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from tests.commands import CliRunner

import fiol
from fiol import cli
from fiol.cli.reproduce import EXPERIMENTS, show
from fiol.experiments import all as experiments
from fiol.experiments.report import Claim, Picture, Report, Table

NAMES = [*EXPERIMENTS, "all"]
LOADED = """
import sys
from click.testing import CliRunner
from fiol import cli
done = CliRunner().invoke(cli.main, sys.argv[1:])
print(done.exit_code, *{name.partition(".")[0] for name in sys.modules})
"""


class MadeUp:
    """An experiment of three steps, which may be interrupted after some."""

    def __init__(self, name, interrupted_after=None):
        self.name, self.stop, self.found = name, interrupted_after, []

    def run(self):
        for k in range(3):
            if k == self.stop:
                raise KeyboardInterrupt
            self.found.append(k)
            yield (k + 1) / 3, f"step {k}"

    def report(self):
        table, claim = Table("Steps", ["", "n"], [["all", str(len(self.found))]]), Claim("it runs", True, "yes")
        picture = Picture(f"{self.name}-picture", "t", "a", lambda figure: figure.subplots().plot(self.found))
        return Report(self.name, self.name, ["Text."], {}, self.found, [table], [claim], [picture])


@pytest.fixture
def asked(monkeypatch):
    """Record the experiments that run; `stop` interrupts the experiment of that name."""
    seen, stop = [], {}

    def make(name, *options):
        seen.append((name, *options))
        return MadeUp(name, stop.get(name))

    monkeypatch.setattr(experiments, "make_experiment", make)
    return seen, stop


def invoke(*arguments):
    return CliRunner().invoke(cli.main, list(map(str, arguments)))


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["reproduce", "all", "--help"], ["train", "--help"], ["info"]]
)
def test_help_loads_no_heavy_modules(arguments):
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, *loaded = done.stdout.split()
    assert code == "0"
    assert not {"numba", "llvmlite", "scipy", "sklearn", "matplotlib", "rich", "pandas", "pyarrow"} & set(loaded)


@pytest.mark.parametrize("module", ["fiol", "fiol.cli"])
def test_command_runs_as_a_module(module):
    command = [sys.executable, "-W", "error", "-m", module, "reproduce", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Usage: python -m {module} reproduce")
    assert "table3" in done.stdout


def test_dir_lists_lazily_loaded_names():
    command = [sys.executable, "-c", "import fiol, sys; print(*dir(fiol), 'sklearn' in sys.modules)"]
    *names, loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {*fiol.__all__, "__version__"} <= set(names)
    assert names == sorted(set(names))
    assert loaded == "False"


def test_help_lists_all_commands_and_options():
    assert fiol.__version__ in invoke("--version").output
    text = invoke("reproduce", "--help").output
    assert all(name in text for name in NAMES)
    text = invoke("reproduce", "table3", "--help").output
    assert all(option in text for option in ("--quick", "--seconds", "--seed", "--out", "--workers"))


@pytest.mark.parametrize("name", NAMES)
def test_reproduce_writes_files_and_prints_results(asked, tmp_path, name):
    done = invoke("reproduce", name, "--quick", "--seed", 3, "--workers", 1, "--out", tmp_path / "new" / "folder")
    assert done.exit_code == 0, done.output
    names = list(EXPERIMENTS) if name == "all" else [name]
    assert asked[0] == [(n, True, None, 3, 1) for n in names]
    assert "| all | 3 |" in done.output
    assert "step 2" in done.output
    files = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert files == {"index.html"} | {
        f"{n}{end}" for n in names for end in (".json", ".md", "-picture.png", "-picture.svg")
    }
    page = (tmp_path / "new" / "folder" / "index.html").read_text()
    assert all(f'id="{n}"' in page for n in names)


def test_interrupted_reproduce_keeps_partial_results(asked, tmp_path):
    asked[1]["stability"] = 2
    done = invoke("reproduce", "all", "--out", tmp_path)
    assert done.exit_code == 130
    assert [name for name, *_ in asked[0]] == ["table3", "stability"]
    assert json.loads((tmp_path / "table3.json").read_text())["partial"] is False
    cut = json.loads((tmp_path / "stability.json").read_text())
    assert cut["partial"] is True
    assert cut["results"] == [0, 1]
    assert "Cut short" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--seconds", "0", "--seconds"),
        ("--seconds", "soon", "--seconds"),
        ("--seed", "-1", "--seed"),
        ("--workers", "0", "--workers"),
    ],
)
def test_reproduce_rejects_wrong_option_values(asked, option, value, message):
    done = invoke("reproduce", "table3", option, value)
    assert done.exit_code == 2
    assert message in done.output
    assert not asked[0]


def test_unknown_experiment_is_rejected():
    done = invoke("reproduce", "table4")
    assert done.exit_code == 2
    assert "table4" in done.output


def test_unwritable_folder_is_rejected(asked, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        done = invoke("reproduce", "table3", "--out", out)
        assert done.exit_code in (1, 2)
        assert "file" in done.output
    assert not asked[0]


def test_missing_library_is_named(asked, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = invoke("reproduce", "table3", "--out", tmp_path)
    assert done.exit_code == 1
    assert 'pip install "fiol[reproduce]"' in done.output


def test_progress_bar_on_a_terminal(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert show("table3", MadeUp("table3")) is False
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize("name", list(EXPERIMENTS))
@pytest.mark.parametrize("quick", [True, False])
def test_all_experiments_are_constructed(name, quick):
    experiment = experiments.make_experiment(name, quick, 0.5, 7, 2)
    assert experiment.name == name
    assert experiment.settings.seed == 7
    assert experiment.settings.workers == 2
    if name == "table3":
        assert experiment.settings.seconds == 0.5


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_ctrl_c_writes_partial_results(tmp_path):
    code = (  # shells let jobs in the background ignore SIGINT, and children inherit that
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "sys.argv[0] = 'fiol'; from fiol.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "reproduce", "regret", "--quick", "--workers", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},  # or nothing would be heard of it for seconds
    )
    lines = iter(process.stderr.readline, "")
    next(line for line in lines if "regret:" in line)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads((tmp_path / "regret.json").read_text())["partial"] is True
    assert "Cut short" in out


def test_warmup_prints_times_and_folder(monkeypatch):
    monkeypatch.setattr("fiol.warmup.warm_up", lambda make: (make() and 1.25, "a/folder"))
    done = CliRunner().invoke(cli.main, ["warmup", "--loss", "hinge", "--penalty", "l1", "--penalty", "none"])
    assert done.output.splitlines() == [
        "1 of 2: hinge, l1 ... 1.2 s",
        "2 of 2: hinge, none ... 1.2 s",
        "Kept in a/folder",
    ]


@pytest.mark.parametrize("words", [["--loss", "hingee"], ["--penalty", "l3"], ["--model", "nowhere.fiol"]])
def test_warmup_names_unknown_options(words):
    done = CliRunner().invoke(cli.main, ["warmup", *words])
    assert done.exit_code == 2
    assert words[1] in done.output
