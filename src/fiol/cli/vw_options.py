"""Vowpal Wabbit's options as commands of fiol: a table, and what is said about options that have no counterpart."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fiol.option_names import joined_names

#: Short names of options, and old ones.
VW_SHORT = {
    "-d": "--data", "-f": "--final_regressor", "-i": "--initial_regressor", "-t": "--testonly", "-p": "--predictions",
    "-r": "--raw_predictions", "-l": "--learning_rate", "-b": "--bit_precision", "-q": "--quadratic", "-c": "--cache",
    "-k": "--kill_cache", "-P": "--progress", "-C": "--constant", "-a": "--audit",
}  # fmt: skip
#: Options with a value, of which some may come several times.
VW_VALUED = {
    "--data", "--final_regressor", "--initial_regressor", "--predictions", "--raw_predictions", "--learning_rate",
    "--bit_precision", "--quadratic", "--cubic", "--interactions", "--experimental_full_name_interactions",
    "--loss_function", "--quantile_tau", "--l1", "--l2", "--passes", "--link", "--oaa", "--power_t", "--initial_t",
    "--decay_learning_rate", "--cache_file", "--progress", "--holdout_period", "--early_terminate", "--random_seed",
    "--readable_model", "--invert_hash", "--ngram", "--ignore", "--keep", "--named_labels", "--driver_output",
    "--limit_output", "--log_level", "--log_output", "--id", "--ring_size", "--example_queue_limit",
}  # fmt: skip
VW_FLAGS = {
    "--testonly", "--cache", "--kill_cache", "--compressed", "--holdout_off", "--quiet", "--noconstant", "--adaptive",
    "--normalized", "--invariant", "--sgd", "--ftrl", "--coin", "--binary", "--probabilities", "--save_resume",
    "--no_stdin", "--strict_parse", "--driver_output_off", "--dont_output_best_constant", "--sparse_weights",
    "--predict_only_model", "--preserve_performance_counters", "--no_bias_regularization",
}  # fmt: skip
#: Options that are left out, and what is said about each; nothing is said where there is nothing to miss.
VW_LEFT_OUT = {
    "--power_t": "--power_t is ignored: the default learner has no schedule of learning rates",
    "--initial_t": "--initial_t is ignored: the default learner has no schedule of learning rates",
    "--decay_learning_rate": "--decay_learning_rate is ignored: the default learner has no schedule of learning rates",
    "--adaptive": "--adaptive is ignored: step sizes adapt to every feature by default",
    "--normalized": "--normalized is ignored: steps do not depend on the scale of features by default",
    "--invariant": "--invariant is ignored: steps are exact for any sample weight by default",
    "--cache": "-c is ignored: fiol has no cache of parsed files",
    "--cache_file": "--cache_file is ignored: fiol has no cache of parsed files",
    "--kill_cache": "-k is ignored: fiol has no cache of parsed files",
    "--compressed": "--compressed is ignored: compressed files are recognized",
    "--save_resume": "--save_resume is ignored: model files always store what learning needs to continue",
    "--readable_model": "--readable_model is not written: fiol inspect and fiol export --to json list weights by name",
    "--invert_hash": "--invert_hash is not written: fiol inspect and fiol export --to json list weights by name",
    "--id": "--id is ignored: model files store no id",
    "--predict_only_model": "--predict_only_model is ignored: model files always store what learning needs to continue",
    **dict.fromkeys(
        (
            *("--progress", "--no_stdin", "--strict_parse", "--driver_output_off", "--driver_output", "--limit_output"),
            *("--log_level", "--log_output", "--ring_size", "--example_queue_limit", "--dont_output_best_constant"),
            *("--sparse_weights", "--preserve_performance_counters", "--no_bias_regularization"),
        ),
        "",
    ),
}
#: Options that would change what is done, and have no counterpart.
VW_REFUSED = {
    "--constant": "the intercept starts at 0; --noconstant leaves it out",
    "--ftrl_alpha": "the steps of FTRLProximal are those of AdaGrad with size 0.5: leave it out",
    "--ftrl_beta": "the steps of FTRLProximal are those of AdaGrad with size 0.5: leave it out",
    "--hash_seed": "-b hashes names by murmur3 with seed 0",
    "--permutations": "every two features are multiplied once",
    "--leave_duplicate_interactions": "interactions that are given twice count once",
    "--classweight": "give rows sample weights: the second number of a line",
    "--skips": "--ngram joins features that follow one another, without gaps",
    "--bfgs": "learning is online, a row at a time; --passes goes through the rows again",
    "--conjugate_gradient": "learning is online, a row at a time; --passes goes through the rows again",
    "--audit": "fiol inspect MODEL shows the weights of features by name",
    "--daemon": "fiol serve MODEL predicts and learns over HTTP",
    "--port": "fiol serve MODEL --port N predicts and learns over HTTP",
    "--csv": "CSV is read as it is: fiol train rows.csv --target label",
    "--json": "JSON lines are read as they are: fiol train rows.jsonl --target label",
    "--dsjson": "logs of decisions are not read",
    "--csoaa": "there are no costs of classes; --oaa learns classes",
    "--wap": "there are no costs of classes; --oaa learns classes",
    "--ect": "classes are learned together: --oaa",
    "--log_multi": "classes are learned together: --oaa",
    "--nn": "models are linear; -q multiplies namespaces",
    "--lrq": "models are linear; -q multiplies namespaces",
    "--rank": "models are linear; -q multiplies namespaces",
    "--bootstrap": "the default is an ensemble already",
    "--boosting": "the default is an ensemble already",
    "--input_feature_regularizer": "all features have one penalty: --l1, --l2",
    "--ignore_linear": "namespaces of pairs count by themselves, too",
    "--hash": "-b hashes names by murmur3",
    "--examples": "all rows are read: give it the first by head -n",
    "--initial_weight": "weights start at 0",
    "--random_weights": "weights start at 0",
}
VW_LOSSES = {
    "squared": "squared_error",
    "classic": "squared_error",
    "logistic": "log_loss",
    "hinge": "hinge",
    "quantile": "quantile",
    "poisson": "poisson",
}
#: Its share of rows held out, and how many passes without a better loss it waits, in several passes.
HELD_OUT_PERIOD, VW_PATIENCE = 10, 3
#: Its learning rate.
VW_LEARNING_RATE = 0.5
#: Losses whose derivatives have no bound: gradient steps diverge, since no prediction is clipped to the labels seen.
UNBOUNDED_LOSSES = ("squared_error", "poisson")
#: Options of a schedule of step sizes, which `--sgd` has not here.
SCHEDULE_OPTIONS = ("--power_t", "--initial_t", "--decay_learning_rate")


class VwOptionError(ValueError):
    """An option that is unknown, or has no counterpart; the message names it."""


@dataclasses.dataclass
class Translated:
    """Commands of fiol that do what Vowpal Wabbit's options say, as lists of words, and what is to be said."""

    commands: list[list[str]]
    notes: list[str]
    quiet: bool = False


def translated_words(
    words: Sequence[str],
    namespaces: Callable[[str], Iterable[str]] = lambda file: (),
    has_classes: Callable[[str], bool] = lambda model: False,
    unnamed: str = "model.fiol",
) -> Translated:
    """Return fiol's options for Vowpal Wabbit's; raise VwOptionError for options without a counterpart.

    Parameters
    ----------
    words : the options, as on its command line.
    namespaces : returns those in a file, of which `-q` names the first letters.
    has_classes : returns whether a model file has several classes.
    unnamed : the model file if `-f` names none.

    >>> translated_words(["-d", "a.vw", "--loss_function", "logistic", "-b24", "-f", "m.fiol"]).commands
    [['train', 'a.vw', '--format', 'vw', '--loss', 'log_loss', '--bits', '24', '-o', 'm.fiol', '--force']]
    >>> translated_words(["--cb_explore", "3"])
    Traceback (most recent call last):
    fiol.cli.vw_options.VwOptionError: --cb_explore is an option that fiol vw does not know
    """
    given, data = words_by_option(words)
    notes = [note for name, note in VW_LEFT_OUT.items() if name in given and note]
    files = [*given.get("--data", []), *data] or ["-"]
    model = last_value(given, "--final_regressor")
    if "--testonly" in given:
        commands = predict_or_evaluate(given, files, has_classes)
        if model is not None:
            notes.append("-f: with -t nothing is learned, and no model is written")
    else:
        commands = train_and_more(given, files, notes, namespaces, model or unnamed)
        if model is None:
            notes.append("there is no -f: the model is not kept")
    return Translated(commands, notes, "--quiet" in given)


def words_by_option(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the values of every option by its long name, and the words that belong to no option: files.

    >>> words_by_option(["-qab", "-q", "cd", "--l1=0.1", "-t", "a.vw"])
    ({'--quadratic': ['ab', 'cd'], '--l1': ['0.1'], '--testonly': ['']}, ['a.vw'])
    """
    found: dict[str, list[str]] = {}
    data: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            data.append(word)
            continue
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            name, value, equals = VW_SHORT.get(word[:2], word), word[2:], word[2:]
            if name in VW_FLAGS and value:
                raise VwOptionError(f"{word} is an option that fiol vw does not know: write {word[:2]} by itself")
        if name in VW_FLAGS:
            if equals:
                raise VwOptionError(f"{name} has no value, got {word!r}")
            found.setdefault(name, []).append("")
        elif name in VW_VALUED:
            if not equals:
                if not rest:
                    raise VwOptionError(f"{name} needs a value")
                value = rest.pop(0)
            found.setdefault(name, []).append(value)
        elif name in VW_REFUSED:
            raise VwOptionError(f"{name} has no counterpart: {VW_REFUSED[name]}")
        else:
            raise VwOptionError(f"{name} is an option that fiol vw does not know")
    return found, data


def last_value(given: Mapping[str, list[str]], name: str, otherwise: Any = None) -> Any:
    """Return the value of an option that may be given once."""
    return given[name][-1] if name in given else otherwise


def number_given(given: Mapping[str, list[str]], name: str, otherwise: float) -> float:
    """Return the number that an option has; raise VwOptionError if it is not a number."""
    try:
        return float(last_value(given, name, otherwise))
    except ValueError:
        raise VwOptionError(f"{name} needs a number, got {last_value(given, name)!r}") from None


def train_and_more(
    given: dict[str, list[str]],
    files: list[str],
    notes: list[str],
    namespaces: Callable[[str], Iterable[str]],
    model: str,
) -> list[list[str]]:
    """`fiol train`, and what is made of the model."""
    if "--initial_regressor" in given:
        raise VwOptionError("-i without -t has no counterpart: fiol train DATA --update MODEL continues a model")
    loss = named_loss_of(given, notes)
    train = ["train", *files, "--format", "vw", "--loss", loss]
    train += penalty_words(given) + algorithm_words(given, notes, loss) + pass_words(given)
    train += namespace_words(given)
    for pair in pairs_of_namespaces(given, files, notes, namespaces):
        train += ["--pairs", joined_names(pair)]
    if "--bit_precision" in given:
        train += ["--bits", last_value(given, "--bit_precision")]
    if "--random_seed" in given and "--holdout" in train:
        train += ["--seed", last_value(given, "--random_seed")]
    elif "--random_seed" in given:
        notes.append("--random_seed has no effect: no rows are held out")
    if "--noconstant" in given:
        train.append("--no-intercept")
    commands = [[*train, "-o", model, "--force"]]
    predictions = predict_words(given, files, model, "--oaa" in given)
    if predictions:
        if "-" in files:
            raise VwOptionError(
                "-p while training reads the data again, which standard input is not: name a file by -d"
            )
        notes.append("-p, -r: predictions are those of the model at the end, not of the moment before each row")
    return commands + predictions


def predict_or_evaluate(
    given: dict[str, list[str]], files: list[str], has_classes: Callable[[str], bool]
) -> list[list[str]]:
    """`fiol predict`, or `fiol evaluate` where no predictions are asked for."""
    model = last_value(given, "--initial_regressor")
    if model is None:
        raise VwOptionError("-t needs a model: name it by -i")
    return predict_words(given, files, model, "--oaa" in given or has_classes(model)) or [["evaluate", model, *files]]


def predict_words(given: dict[str, list[str]], files: list[str], model: str, classes: bool) -> list[list[str]]:
    """`fiol predict` for `-p`, and for `-r`."""
    commands = []
    link = last_value(given, "--link", "identity")
    if link not in ("identity", "logistic"):
        raise VwOptionError(f"--link {link} has no counterpart: there are identity and logistic")
    wanted = "--probabilities" if "--probabilities" in given or link == "logistic" else "--scores"
    if "--binary" in given or (classes and "--probabilities" not in given):
        wanted = "--labels"
    for option, columns in (("--predictions", wanted), ("--raw_predictions", "--scores")):
        if option in given:
            path = last_value(given, option)
            output = [] if path in ("/dev/stdout", "stdout") else ["-o", path, "--force"]
            commands.append(["predict", model, *files, columns, *output])
    return commands


def named_loss_of(given: dict[str, list[str]], notes: list[str]) -> str:
    """Return fiol's name of the loss; squared loss, Vowpal Wabbit's default, if no loss is named."""
    name = last_value(given, "--loss_function")
    if "--oaa" in given:
        notes.append("--oaa: the classes are learned together (softmax), not one against all others")
        return "softmax"
    if name is not None and name not in VW_LOSSES:
        raise VwOptionError(f"--loss_function {name} has no counterpart: there are {', '.join(VW_LOSSES)}")
    tau = number_given(given, "--quantile_tau", 0.5)
    return f"quantile:{tau:g}" if name == "quantile" and tau != 0.5 else VW_LOSSES[name or "squared"]


def namespace_words(given: dict[str, list[str]]) -> list[str]:
    """Which namespaces are read, and which of their features stand together.

    >>> namespace_words({"--ignore": ["a", "b"], "--ngram": ["t3", "2"]})
    ['--reader', 'ignore=ab', '--reader', 'ngrams=t3,2']
    """
    words = []
    for option, name, between in (("--ignore", "ignore", ""), ("--keep", "keep", ""), ("--ngram", "ngrams", ",")):
        if option in given:
            words += ["--reader", f"{name}={between.join(given[option])}"]
    if "--named_labels" in given:
        if "--oaa" not in given:
            raise VwOptionError("--named_labels needs --oaa: names are labels of classes")
        words += ["--reader", "labels=names"]
    for text in given.get("--ngram", []):
        if re.fullmatch(".?[1-9]", text) is None:
            raise VwOptionError(f"--ngram needs a number up to 9, or one after a letter, got {text!r}")
    return words


def penalty_words(given: dict[str, list[str]]) -> list[str]:
    """`--l1` and `--l2`.

    >>> penalty_words({"--l1": ["1e-6"]}), penalty_words({"--l1": ["3e-6"], "--l2": ["1e-6"]})[-1]
    (['--penalty', 'l1', '--alpha', '1e-06'], '0.75')
    """
    l1, l2 = number_given(given, "--l1", 0.0), number_given(given, "--l2", 0.0)
    if l1 and l2:
        return ["--penalty", "elasticnet", "--alpha", repr(l1 + l2), "--l1-ratio", repr(l1 / (l1 + l2))]
    if l1 or l2:
        return ["--penalty", "l1" if l1 else "l2", "--alpha", repr(l1 or l2)]
    return []


def algorithm_words(given: dict[str, list[str]], notes: list[str], loss: str) -> list[str]:
    """Return the algorithm, and its step size if it has one to choose.

    Vowpal Wabbit clips predictions to the range of the labels seen, which bounds the gradients of any loss. Nothing is
    clipped here: losses with unbounded derivatives get implicit steps instead of gradient steps.

    >>> algorithm_words({"--coin": [""]}, [], "squared_error"), algorithm_words({"--coin": [""]}, [], "log_loss")
    (['--algorithm', 'ImplicitCoin'], ['--algorithm', 'Coin'])
    """
    named = [name for name in ("--sgd", "--ftrl", "--coin") if name in given]
    if len(named) > 1:
        raise VwOptionError(f"{' and '.join(named)} exclude each other")
    implicit = loss in UNBOUNDED_LOSSES
    if named == ["--sgd"]:
        return sgd_words(given, notes, implicit, 2.0 if loss == "squared_error" else 1.0)
    if "--learning_rate" in given:
        notes.append("-l: there is no learning rate to tune; with --sgd it is the size of steps")
    if named == ["--coin"] and implicit:
        notes.append("--coin: steps are implicit (ImplicitCoin), since gradients of this loss have no bound")
    algorithm = {"--ftrl": "FTRLProximal", "--coin": "ImplicitCoin" if implicit else "Coin"}
    return ["--algorithm", algorithm[named[0]]] if named else []


def sgd_words(given: dict[str, list[str]], notes: list[str], implicit: bool, factor: float) -> list[str]:
    """Return the algorithm for `--sgd`, with a constant step size: `-l` times a factor for the unit of the loss."""
    if not {"--adaptive", "--normalized", "--invariant"}.isdisjoint(given):
        raise VwOptionError("--sgd with --adaptive, --normalized or --invariant has no counterpart")
    for option in SCHEDULE_OPTIONS:
        if option in given and not (option == "--power_t" and number_given(given, option, 0.0) == 0.0):
            raise VwOptionError(f"--sgd with {option} has no counterpart: its steps are constant, as by --power_t 0")
    notes.append("--sgd: steps are constant here, and do not shrink")
    if implicit:
        notes.append("--sgd: steps are implicit (ISGD), since gradients of this loss have no bound")
    rate = factor * number_given(given, "--learning_rate", VW_LEARNING_RATE)
    return ["--algorithm", "ISGD" if implicit else "SGD", "--step-size", repr(rate)]


def pass_words(given: dict[str, list[str]]) -> list[str]:
    """Passes, and the rows that are held out in several of them.

    >>> pass_words({"--passes": ["5"]})
    ['--passes', '5', '--holdout', '0.1', '--early-stop', '3']
    """
    passes = number_given(given, "--passes", 1)
    if passes != int(passes):
        raise VwOptionError(f"--passes needs a whole number, got {last_value(given, '--passes')!r}")
    if passes == 1:
        return []
    words = ["--passes", str(int(passes))]
    if "--holdout_off" not in given:
        period = number_given(given, "--holdout_period", HELD_OUT_PERIOD)
        if not period > 1.0:
            raise VwOptionError("--holdout_period needs a number above 1")
        words += [
            "--holdout",
            repr(1.0 / period),
            "--early-stop",
            last_value(given, "--early_terminate", str(VW_PATIENCE)),
        ]
    return words


def shown_names(namespaces: Iterable[str]) -> str:
    """Return the namespaces as words of a message.

    >>> shown_names(["", "user"]), shown_names([])
    ('(unnamed), user', 'none')
    """
    return ", ".join(name or "(unnamed)" for name in namespaces) or "none"


def pairs_of_namespaces(
    given: dict[str, list[str]], files: list[str], notes: list[str], namespaces: Callable[[str], Iterable[str]]
) -> list[tuple[str, ...]]:
    """Pairs and triples of namespaces, by their whole names, of which Vowpal Wabbit has the first letters."""
    from fiol.readers.namespaces import NO_LETTER  # here: `fiol --help` loads no numpy

    found = [tuple(text.split("|")) for text in given.get("--experimental_full_name_interactions", [])]
    wanted = [text for option in ("--quadratic", "--cubic", "--interactions") for text in given.get(option, [])]
    for option, size in (("--quadratic", 2), ("--cubic", 3)):
        for text in given.get(option, []):
            if len(text) != size:
                raise VwOptionError(f"{option} needs the first letters of {size} namespaces, got {text!r}")
    known: list[str] = []
    if wanted:
        known = list(dict.fromkeys(name for file in files if file != "-" for name in namespaces(file)))
        notes.append(f"interactions are of the namespaces in the first megabyte of each file: {shown_names(known)}")
    for text in wanted:
        if not 2 <= len(text) <= 3:
            raise VwOptionError(f"--interactions needs two or three letters, got {text!r}")
        choices = []
        for letter in text:
            names = [name for name in known if letter in (":", name[:1] or NO_LETTER)]
            if not names and letter == ":":
                raise VwOptionError(f"{text!r} stands for all namespaces, which are not known: name them")
            if not names:
                notes.append(f"no namespace in the first rows begins with {letter!r}: it is taken for the whole name")
            choices.append(names or [letter])
        for names_of_pair in itertools.product(*choices):
            if tuple(sorted(names_of_pair)) not in {tuple(sorted(pair)) for pair in found}:
                found.append(names_of_pair)
    for name in itertools.chain(*found):
        if "," in name:
            raise VwOptionError(f"the namespace {name!r} has a comma, which --pairs of fiol train cannot name")
    return found
