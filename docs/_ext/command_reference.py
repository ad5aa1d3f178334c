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
        if record is not None and isinstance(parameter, click.Option):
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


def all_commands(group: click.Group, parent: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield the commands of a group, and of groups in it, with their full names."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent)
        yield context.command_path, command, context
        if isinstance(command, click.Group):
            yield from all_commands(command, context)


class Commands(SphinxDirective):
    """Insert a section for every command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        found: list[nodes.Node] = []
        with click.Context(main, info_name="fiol") as parent:
            for name, command, context in all_commands(main, parent):
                usage = command.get_usage(context).removeprefix("Usage: ")
                lines = ["```text", *usage.splitlines(), "```", "", *described(command.help or "")]
                lines += options_of(command, context)
                section = nodes.section(ids=[name.replace(" ", "-")], names=[name])
                section += nodes.title("", name)
                self.state.nested_parse(StringList(lines, f"{name} --help"), 0, section)
                found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
