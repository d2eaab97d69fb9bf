"""Commands that are imported when they are looked up."""

from __future__ import annotations

import pytest
import typer

from weft.apps.cli import COMMANDS
from weft.apps.cli.terminal.lazy_commands import LazyCommand, LazyCommands


def test_a_command_is_loaded_when_it_is_looked_up() -> None:
    commands = LazyCommands(
        {"runs": COMMANDS["runs"], "data": COMMANDS["data"], "gone": LazyCommand("weft.gone:x")}, {}
    )
    assert list(commands) == ["runs", "data", "gone"] and "gone" in commands and len(commands) == 3
    assert commands["runs"].epilog == "Try:  weft runs" and commands["runs"] is commands["runs"]
    assert {"show", "check"} <= set(commands["data"].commands)
    with pytest.raises(ModuleNotFoundError):
        commands["gone"]
    with pytest.raises(KeyError):
        commands["trian"]


def test_commands_can_be_added_and_removed() -> None:
    added = typer.main.get_command(typer.Typer(add_completion=False, callback=lambda: None))
    commands = LazyCommands({"runs": COMMANDS["runs"]}, {"mine": added})
    commands["other"] = added
    del commands["runs"]
    assert dict(commands) == {"mine": added, "other": added}
