"""`fiol vw`: the translation of Vowpal Wabbit's options, and the commands it runs."""

import csv
import importlib.util
import io
import itertools
import json

import numpy as np
import pytest
from tests.cli.test_train import invoke
from tests.interpreted import interpret_all

import fiol
from fiol.cli.vw import namespaces_in
from fiol.cli.vw_options import VwOptionError, translated_words
from fiol.readers.reader_config import ReaderConfig

TRAIN = "train a.vw --format vw"
END = "-o m --force"
TABLE = {
    "-d a.vw -f m": f"{TRAIN} --loss squared_error {END}",
    "a.vw -f m": f"{TRAIN} --loss squared_error {END}",
    "--data=a.vw --final_regressor m --loss_function=logistic": f"{TRAIN} --loss log_loss {END}",
    "-d a.vw -f m --loss_function hinge -b 20": f"{TRAIN} --loss hinge --bits 20 {END}",
    "-d a.vw -f m --loss_function quantile --quantile_tau 0.5": f"{TRAIN} --loss quantile {END}",
    "-d a.vw -f m --loss_function poisson -b24": f"{TRAIN} --loss poisson --bits 24 {END}",
    "-d a.vw -f m --oaa 3": f"{TRAIN} --loss softmax {END}",
    "-d a.vw -f m --l1 1e-6": f"{TRAIN} --loss squared_error --penalty l1 --alpha 1e-06 {END}",
    "-d a.vw -f m --l2 0.5": f"{TRAIN} --loss squared_error --penalty l2 --alpha 0.5 {END}",
    "-d a.vw -f m --l1 3 --l2 1": (
        f"{TRAIN} --loss squared_error --penalty elasticnet --alpha 4.0 --l1-ratio 0.75 {END}"
    ),
    "-d a.vw -f m --sgd -l 2": f"{TRAIN} --loss squared_error --algorithm ISGD --step-size 4.0 {END}",
    "-d a.vw -f m --sgd --power_t 0": f"{TRAIN} --loss squared_error --algorithm ISGD --step-size 1.0 {END}",
    "-d a.vw -f m --sgd --loss_function poisson": f"{TRAIN} --loss poisson --algorithm ISGD --step-size 0.5 {END}",
    "-d a.vw -f m --sgd --loss_function hinge": f"{TRAIN} --loss hinge --algorithm SGD --step-size 0.5 {END}",
    "-d a.vw -f m --ftrl": f"{TRAIN} --loss squared_error --algorithm FTRLProximal {END}",
    "-d a.vw -f m --coin": f"{TRAIN} --loss squared_error --algorithm ImplicitCoin {END}",
    "-d a.vw -f m --coin --loss_function logistic": f"{TRAIN} --loss log_loss --algorithm Coin {END}",
    "-d a.vw -f m --oaa 2 --named_labels a,b": f"{TRAIN} --loss softmax --reader labels=names {END}",
    "-d a.vw -f m --log_level off --ring_size 9 --driver_output_off": f"{TRAIN} --loss squared_error {END}",
    "-d a.vw -f m -q u:": (
        f"{TRAIN} --loss squared_error --pairs user,user --pairs user,item --pairs user,info --pairs user, {END}"
    ),
    "-d a.vw -f m -l 0.5 --power_t 0.5 --adaptive -c -k": f"{TRAIN} --loss squared_error {END}",
    "-d a.vw -f m --passes 4 -c": f"{TRAIN} --loss squared_error --passes 4 --holdout 0.1 --early-stop 3 {END}",
    "-d a.vw -f m --passes 4 --holdout_off": f"{TRAIN} --loss squared_error --passes 4 {END}",
    "-d a.vw -f m --passes 4 --holdout_period 4 --early_terminate 1": (
        f"{TRAIN} --loss squared_error --passes 4 --holdout 0.25 --early-stop 1 {END}"
    ),
    "-d a.vw -f m --noconstant --random_seed 7 --quiet": f"{TRAIN} --loss squared_error --no-intercept {END}",
    "-d a.vw -f m --passes 4 -c --random_seed 7": (
        f"{TRAIN} --loss squared_error --passes 4 --holdout 0.1 --early-stop 3 --seed 7 {END}"
    ),
    "-d a.vw -f m -q ui": f"{TRAIN} --loss squared_error --pairs user,item --pairs user,info {END}",
    "-d a.vw -f m -quu --cubic uux": f"{TRAIN} --loss squared_error --pairs user,user --pairs user,user,x {END}",
    "-d a.vw -f m --interactions iu -q ui": (f"{TRAIN} --loss squared_error --pairs user,item --pairs user,info {END}"),
    "-d a.vw -f m --experimental_full_name_interactions user|item": (
        f"{TRAIN} --loss squared_error --pairs user,item {END}"
    ),
    "-d a.vw -f m --ngram u2 --ignore i --keep u --keep x": (
        f"{TRAIN} --loss squared_error --reader ignore=i --reader keep=ux --reader ngrams=u2 {END}"
    ),
    "-d a.vw -f m --loss_function quantile --quantile_tau 0.9": f"{TRAIN} --loss quantile:0.9 {END}",
    "-d a.vw -f m --invert_hash h": f"{TRAIN} --loss squared_error {END}",
    "-d a.vw -f m -p p": f"{TRAIN} --loss squared_error {END}; predict m a.vw --scores -o p --force",
    "-d a.vw -t -i m": "evaluate m a.vw",
    "-d a.vw -t -i m -p p --link logistic": "predict m a.vw --probabilities -o p --force",
    "-d a.vw -t -i m -p /dev/stdout -r r": "predict m a.vw --scores; predict m a.vw --scores -o r --force",
    "-d a.vw -t -i m -p p --binary": "predict m a.vw --labels -o p --force",
    "-d a.vw -t -i several -p p": "predict several a.vw --labels -o p --force",
    "-t -i m -p p": "predict m - --scores -o p --force",
}


def translated(text):
    return translated_words(text.split(), lambda file: ["user", "item", "info", ""], lambda model: model == "several")


@pytest.mark.parametrize(("options", "commands"), TABLE.items())
def test_vw_options_are_translated(options, commands):
    assert "; ".join(" ".join(command) for command in translated(options).commands) == commands


@pytest.mark.parametrize(
    ("options", "reason"),
    {
        "--cb_explore 3": "--cb_explore is an option",
        "-z": "-z is an option",
        "-tq ab": "-tq is an option",
        "-d": "--data needs a value",
        "--quiet=1": "--quiet has no value",
        "-d a -i m": "-i without -t",
        "-d a -t": "-t needs a model",
        "-d a --ngram t": "--ngram needs a number",
        "-d a --bfgs": "--bfgs has no counterpart: learning is online",
        "-d a --skips 1": "--skips has no counterpart",
        "-d a --daemon": "--daemon has no counterpart: fiol serve",
        "--port 26542": "--port has no counterpart: fiol serve",
        "-d a --csv": "--csv has no counterpart: CSV is read",
        "-d a -a": "--audit has no counterpart: fiol inspect",
        "-d a --constant 3": "--constant has no counterpart: the intercept starts at 0",
        "-d a -C 3": "--constant has no counterpart",
        "-d a --ftrl --ftrl_alpha 1": "--ftrl_alpha has no counterpart",
        "-d a --classweight 1:2": "--classweight has no counterpart",
        "-d a --sgd --power_t 0.5": "--sgd with --power_t has no counterpart",
        "-d a --named_labels a,b": "--named_labels needs --oaa",
        "-d a --experimental_full_name_interactions a,b|c": "has a comma",
        "-d a --nn 5": "--nn has no counterpart: models are linear",
        "-d a --loss_function expectile": "--loss_function expectile",
        "-d a --loss_function quantile --quantile_tau much": "--quantile_tau",
        "-d a --l1 much": "--l1 needs a number",
        "-d a --passes 1.5": "--passes needs a whole number",
        "-d a --passes 2 --holdout_period 1": "--holdout_period",
        "-d a --sgd --ftrl": "--sgd and --ftrl exclude",
        "-d a --sgd --adaptive": "--sgd with --adaptive",
        "-d a -q abc": "--quadratic needs the first letters of 2",
        "-d a --interactions abcd": "two or three letters",
        "-d a --link glf1 -p p": "--link glf1",
        "-p p": "standard input",
    }.items(),
)
def test_vw_options_without_counterpart_are_named(options, reason):
    with pytest.raises(VwOptionError, match=reason):
        translated(options)


def test_vw_options_that_are_ignored_are_reported():
    notes = " ".join(translated("-d a -l 1 --power_t 0 --cache_file c --save_resume --oaa 3 -q zu").notes)
    for said in ("-l:", "--power_t", "--cache_file", "--save_resume", "softmax", "'z'", "no -f"):
        assert said in notes
    assert translated("-d a -f m -P 1").notes == []
    assert translated("-d a -f m --l1 1 --no_bias_regularization").notes == []


def test_interactions_of_all_namespaces_include_the_unnamed_one(tmp_path, monkeypatch):
    """Vowpal Wabbit makes 14 features of this line: `vw -q :: --noconstant`."""
    interpret_all(monkeypatch)
    (tmp_path / "a.vw").write_text("1 | a b |x c d\n" * 3)
    options = ["-d", str(tmp_path / "a.vw"), "-q", "::", "--noconstant", "--sgd", "-f", str(tmp_path / "m.fiol")]
    assert "(unnamed), x" in invoke("vw", "--", *options).stderr
    expected = "a b x^c x^d a*a a*b b*b a*x^c a*x^d b*x^c b*x^d x^c*x^c x^c*x^d x^d*x^d"
    assert sorted(fiol.load(tmp_path / "m.fiol").names) == sorted(expected.split())


#: Lines, options, and how many features Vowpal Wabbit makes of them, without its constant.
INTERACTIONS = [
    ("1 | a b |x c d", "-q ::", 14), ("1 |x c d e", "--cubic xxx", 13), ("1 |x c d |y e", "--cubic xxy", 6),
    ("1 |x c d |y e", "--interactions :::", 13), ("1 |xa c |xb d |y e", "-q xx", 6), ("1 |xa c |xb d |y e", "-q xy", 5),
    ("1 |x c |y e", "-q x:", 4), ("1 |x c |y e", "-q xy -q yx", 3), ("1 |x c:2 d |x.y e", "-q xx", 9),
]  # fmt: skip


@pytest.mark.parametrize(("line", "options", "count"), INTERACTIONS)
def test_interactions_are_as_many_as_those_of_vowpal_wabbit(tmp_path, line, options, count):
    file = tmp_path / "a.vw"
    file.write_text(f"{line}\n")
    (command,) = translated_words(["-d", str(file), *options.split()], namespaces_in).commands
    pairs = [tuple(pair.split(",")) for option, pair in itertools.pairwise(command) if option == "--pairs"]
    (batch,) = ReaderConfig("vw", pairs=pairs).batches(io.BytesIO(line.encode()))
    assert len(batch.X.names) == len(batch.X.chunk.indices) == count


@pytest.mark.skipif(not importlib.util.find_spec("vowpalwabbit"), reason="vowpalwabbit is not there")
@pytest.mark.parametrize(("line", "options", "count"), INTERACTIONS)
def test_numbers_of_interactions_are_what_the_package_says(line, options, count):
    from vowpalwabbit import Workspace

    model = Workspace(f"--quiet --noconstant {options}")
    row = model.example(line)
    model.predict(row)
    assert row.get_feature_number() == count


@pytest.mark.parametrize(("option", "theirs"), [("--sgd", 1.2635), ("--coin", 0.1997)])
def test_squared_loss_does_not_diverge_where_vowpal_wabbit_does_not(tmp_path, monkeypatch, option, theirs):
    """`theirs` is the progressive loss of Vowpal Wabbit 9.11 on the same rows, which is twice ours."""
    interpret_all(monkeypatch)
    draw = np.random.default_rng(0)
    x = draw.random((300, 8)) * np.geomspace(0.1, 10.0, 8)
    y = x @ draw.normal(size=8) * 0.1 + 3.0
    rows = [" ".join(f"f{k}:{value:.4f}" for k, value in enumerate(row)) for row in x]
    (tmp_path / "a.vw").write_text("".join(f"{target:.4f} | {row}\n" for target, row in zip(y, rows, strict=True)))
    shown = invoke("vw", "--", "-d", str(tmp_path / "a.vw"), option).stdout
    (loss,) = [line.split()[1] for line in shown.splitlines() if line.split()[:1] == ["300"]]
    assert 2.0 * float(loss) <= theirs


def test_classes_with_names_are_learned_and_predicted(tmp_path, monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.vw").write_text("det | the\nnoun | monster\nverb | ate\ndet | a\nnoun | sandwich\n" * 9)
    invoke("vw", "--", "-d", "a.vw", "--oaa", "3", "--named_labels", "det,noun,verb", "-f", "m.fiol")
    invoke("vw", "--", "-d", "a.vw", "-t", "-i", "m.fiol", "-p", "p.csv")
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [row["label"] for row in rows[:5]] == ["det", "noun", "verb", "det", "noun"]


def test_translated_vw_commands_run(tmp_path, monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.vw").write_text("1 |user a |item x\n-1 |user b |item x:2\n" * 60)
    dry = invoke(
        "vw", "--dry-run", "--", "-d", "a.vw", "--loss_function", "logistic", "-q", "ui", "--sgd", "-f", "m.fiol"
    )
    command = "fiol train a.vw --format vw --loss log_loss --algorithm SGD --step-size 0.5 --pairs user,item -o m.fiol"
    assert dry.stdout == f"{command} --force\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.vw"]
    options = ["-d", "a.vw", "--loss_function", "logistic", "-q", "ui", "--sgd", "-f", "m.fiol", "--quiet"]
    done = invoke("vw", "--", *options, "--invert_hash", "h.txt")
    assert command in done.stderr
    assert "--invert_hash is not written" in done.stderr
    assert done.stdout == ""
    assert "user^a*item^x" in fiol.load(tmp_path / "m.fiol").names
    invoke("vw", "-d", "a.vw", "-t", "-i", "m.fiol", "-p", "p.csv", "--link=logistic")
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == 120
    assert float(rows[0]["probability"]) > 0.5 > float(rows[1]["probability"])
    assert "AUC" in invoke("vw", "--", "-d", "a.vw", "-t", "-i", "m.fiol").stdout
    assert "last rows" in invoke("vw", "--", "-d", "a.vw", "--sgd").stdout
    assert json.loads(invoke("inspect", "m.fiol", "--json").output)["labels"] == [-1, 1]
    assert "--cb is an option" in invoke("vw", "--", "--cb", "3", code=2).output
    assert invoke("vw", "--", "-d", "none.vw", "-f", "n.fiol", code=1).exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vw", "m.fiol", "p.csv"]
