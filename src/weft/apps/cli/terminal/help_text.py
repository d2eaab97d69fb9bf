"""The format of command help: whole summaries, examples that can be pasted, plain names of arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def _argument_name(argument: Any) -> str:
    """The name of an argument without marks: ``FILE`` of ``[FILE]...``."""
    return str(argument.metavar or argument.name.upper()).strip("[]{}.")


def _usage(argument: Any) -> str:
    """An argument in the line of usage: ``RUN``, ``[FILE]`` or ``[FILE]...``."""
    name = _argument_name(argument) if argument.required else f"[{_argument_name(argument)}]"
    return name if argument.nargs == 1 else f"{name}..."


def _record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """The name and the help of a parameter, as in the lists of arguments and options."""
    if (record := parameter.get_help_record(context)) is None:
        return None
    name, help_text = record
    if parameter.param_type_name == "argument":
        return _argument_name(parameter), help_text
    return re.sub(r"<(?:list\[)?(\w+)(?: range|\])?>", r"<\1>", name), help_text


def _write_options(command: Any, context: Any, formatter: Any) -> None:
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        parameters = [parameter for parameter in command.get_params(context) if parameter.param_type_name == kind]
        if records := [record for parameter in parameters if (record := _record(parameter, context)) is not None]:
            with formatter.section(title):
                formatter.write_dl(records)


def _write_example(command: Any, formatter: Any) -> None:
    """The epilog in one line, however long: half of a command cannot be pasted."""
    if command.epilog:
        formatter.write(f"\n  {command.epilog}\n")


class HelpCommand(TyperCommand):
    """A command with this help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_example(self, formatter)


class HelpGroup(TyperGroup):
    """A group of commands with this help."""

    sections: Mapping[str, Sequence[str]] = {}
    """The commands under their headings; all others are listed as "Commands"."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The first sentence of each command, wrapped rather than cut."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        summaries = {
            name: command.get_short_help_str(limit=1_000)
            for name, command in commands
            if command is not None and not command.hidden
        }
        width = max(map(len, summaries), default=0)  # the same in all sections
        in_sections = {name for names in self.sections.values() for name in names}
        others = [name for name in summaries if name not in in_sections]
        for title, names in {**self.sections, "Commands": others}.items():
            if rows := [(name.ljust(width), summaries[name]) for name in names if name in summaries]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_example(self, formatter)


class CommandGroup(typer.Typer):
    """A group of commands, such as ``weft data``, all with this help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=HelpGroup, **options)

    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, cls=HelpCommand, **options)
