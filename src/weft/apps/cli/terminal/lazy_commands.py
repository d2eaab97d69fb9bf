"""Commands whose files are imported when they are run or listed: ``weft translate`` imports no other command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer

from weft.apps.cli.terminal.help_text import HelpCommand
from weft.apps.cli.terminal.signals import InterruptibleGroup


class LazyCommand(NamedTuple):
    """Location of a command, ``module:function``, or of a group of commands, ``module:app``; and its example."""

    location: str
    example: str | None = None

    def load(self, name: str) -> Any:
        """Import the command."""
        module, _, attribute = self.location.partition(":")
        loaded = getattr(import_module(module), attribute)
        parent = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
        parent.callback()(_no_options)  # so that typer makes a group of it, even of one command
        if isinstance(loaded, typer.Typer):
            parent.add_typer(loaded, name=name)
        else:
            parent.command(name, cls=HelpCommand, epilog=f"Try:  {self.example}")(loaded)
        group: Any = typer.main.get_command(parent)
        return group.commands[name]


class LazyCommands(MutableMapping[str, Any]):
    """Commands by name, each loaded when it is looked up for the first time."""

    def __init__(self, commands: Mapping[str, LazyCommand], loaded: Mapping[str, Any]) -> None:
        self._commands: dict[str, Any] = {**commands, **loaded}

    def __getitem__(self, name: str) -> Any:
        command = self._commands[name]
        if isinstance(command, LazyCommand):
            command = self._commands[name] = command.load(name)
        return command

    def __setitem__(self, name: str, command: Any) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)

    def __contains__(self, name: object) -> bool:
        return name in self._commands


def lazy_group(sections: Mapping[str, Mapping[str, LazyCommand]]) -> type[InterruptibleGroup]:
    """A group that has these commands, before those that are registered with typer; its help lists them in sections."""
    commands = {name: command for section in sections.values() for name, command in section.items()}

    class LazyGroup(InterruptibleGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = LazyCommands(commands, self.commands)
            self.sections = {title: list(section) for title, section in sections.items()}

    return LazyGroup


def _no_options() -> None:
    """Options of a group that has none."""
