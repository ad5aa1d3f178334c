"""The command line. Thin: it reads options, shows progress and prints; everything else is in the library.

Exit codes: 0 all is well, 1 data or model are not, 2 the command line is not, 130 and 143 after SIGINT and SIGTERM.
"""

from __future__ import annotations

import click

import fiol
from fiol.cli.compare import compare
from fiol.cli.convert import convert_data
from fiol.cli.demo import demo
from fiol.cli.evaluate import evaluate
from fiol.cli.export import export_model, import_model
from fiol.cli.info import info
from fiol.cli.inspect import inspect_model
from fiol.cli.journal import journal
from fiol.cli.predict import predict
from fiol.cli.reproduce import reproduce
from fiol.cli.sections import Sections
from fiol.cli.send import send
from fiol.cli.serve import serve
from fiol.cli.train import train_command
from fiol.cli.vw import vowpal_wabbit
from fiol.cli.warmup import warmup

COMMANDS = {
    "Models": (train_command, predict, evaluate, inspect_model, compare),
    "Serving": (serve, send, journal),
    "Other formats": (export_model, import_model, convert_data, vowpal_wabbit),
    "This installation": (demo, info, warmup),
    "The paper": (reproduce,),
}


@click.group(
    cls=Sections,
    sections={title: [str(command.name) for command in commands] for title, commands in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(fiol.__version__, prog_name="fiol")
def main() -> None:
    """Online learning with linear models by exact implicit steps.

    \b
    fiol train clicks.csv --target clicked -o clicks.fiol     from a file to a model
    fiol evaluate clicks.fiol more_clicks.csv                 how good it is
    fiol predict clicks.fiol new_clicks.csv > predictions.csv

    Data are files, folders, patterns in quotes, or - for standard input: svmlight, Vowpal Wabbit text, CSV, JSON lines,
    Parquet, Arrow; also compressed (.gz .bz2 .xz .zst).

    \b
    Completion of commands and options by the tab key:
    eval "$(_FIOL_COMPLETE=bash_source fiol)"                 in ~/.bashrc
    eval "$(_FIOL_COMPLETE=zsh_source fiol)"                  in ~/.zshrc
    _FIOL_COMPLETE=fish_source fiol | source                  in ~/.config/fish/config.fish
    """


for _commands in COMMANDS.values():
    for _command in _commands:
        main.add_command(_command)
