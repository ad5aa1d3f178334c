"""Help in sections: commands and options of one purpose stand together."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

#: Where a context has the words of the command line.
TYPED = "fiol.typed"
#: Whatever is decorated.
Kind = TypeVar("Kind")


def typed_command() -> str:
    """Return the command that runs, so that it can be typed again, without --resume and --force."""
    words = [word for word in click.get_current_context().meta.get(TYPED, []) if word not in ("--resume", "--force")]
    return shlex.join(["fiol", *words])


class Sections(click.Group):
    """A group whose help lists its commands in sections, in this order."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections = sections

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; an OSError outside of `handle_errors` is one of printing, such as help for a full disk."""
        try:
            return super().main(*args, **options)
        except OSError as error:
            click.echo(f"Error: {error.filename or 'standard output'}: {error.strerror}", err=True)
            raise SystemExit(1) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember what was typed: see `typed_command`."""
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section each."""
        for title, names in self.sections.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, each.get_short_help_str(90)) for name, each in found if each is not None])


class OptionSections(click.Command):
    """A command whose help lists options by the `section` they were made with (`option_in`); others are last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section each."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", "Others"), []).append(record)
        for title in sorted(sections, key=lambda title: title == "Others"):
            with formatter.section(title):
                formatter.write_dl(sections[title])


class OptionOfSection(click.Option):
    """An option that knows its section."""

    def __init__(self, *args: Any, section: str = "Others", **options: Any) -> None:
        super().__init__(*args, **options)
        self.section = section


def option_in(section: str) -> Callable[..., Callable[[Kind], Kind]]:
    """Return a decorator like `click.option` for options of this section."""

    def option(*names: str, **options: Any) -> Any:
        return click.option(*names, cls=OptionOfSection, section=section, **options)

    return option
