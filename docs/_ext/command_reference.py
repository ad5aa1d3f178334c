"""The directive `commands`: every command of `fiol` with its help and options, read from the program itself."""

import inspect
from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fiol.cli import main


def described(help_text: str) -> list[str]:
    """Return a command's help as Markdown: paragraphs that keep their lines become blocks of code."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(help_text).split("\n\n"):
        if paragraph.startswith("\b"):
            lines += ["```text", *paragraph.splitlines()[1:], "```", ""]
        else:
            lines += [*paragraph.replace("*", "\\*").splitlines(), ""]
    return lines


def options_of(command: click.Command, context: click.Context) -> list[str]:
    """Return tables of options as Markdown, one for each section of the command's help."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
    lines: list[str] = []
    for title, records in sections.items():
        lines += [f"| {title} | |", "|---|---|"]
        for names, text in records:
            lines.append(
                "| `{}` | {} |".format(names.replace("|", "\\|"), text.replace("|", "\\|").replace("*", "\\*"))
            )
        lines.append("")
    return lines


def all_commands(group: click.Group, context: click.Context, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command of a group by its words, and the commands of groups within after them."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield before + name, command
        if isinstance(command, click.Group):
            yield from all_commands(command, context, f"{before}{name} ")


class Commands(SphinxDirective):
    """Insert a section for every command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        found: list[nodes.Node] = []
        with click.Context(main, info_name="fiol") as parent:
            for name, command in all_commands(main, parent):
                with click.Context(command, info_name=name, parent=parent) as context:
                    usage = command.get_usage(context).removeprefix("Usage: ")
                    lines = ["```text", *usage.splitlines(), "```", "", *described(command.help or "")]
                    lines += options_of(command, context)
                section = nodes.section(ids=[f"fiol-{name.replace(' ', '-')}"], names=[f"fiol {name}"])
                section += nodes.title("", f"fiol {name}")
                self.state.nested_parse(StringList(lines, f"fiol {name} --help"), 0, section)
                found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
