"""``weft recipes``."""

from __future__ import annotations

import typer

from weft.apps.cli.arguments import Changes, RecipeName
from weft.apps.cli.terminal.help_text import CommandGroup

app = CommandGroup(help="List the shipped recipes, or show one.", invoke_without_command=True)


@app.callback(epilog="Try:  weft recipes show grammar")
def listing(context: typer.Context) -> None:
    """List the shipped recipes, or show one."""
    if context.invoked_subcommand is not None:
        return
    from weft.recipe import load_recipe, shipped

    names = shipped()
    width = max(map(len, names)) + 2
    for name in names:
        typer.echo(f"{name:<{width}}{load_recipe(name).summary}")


@app.command("show", epilog="Try:  weft recipes show grammar")
def show(name: RecipeName, changes: Changes = None) -> None:
    """Print every setting of a recipe: value, meaning, values to choose from and, if it differs, the default."""
    from weft.recipe import SHIPPED, load_recipe
    from weft.recipe.toml import settings_of, toml_value

    recipe = load_recipe(name, changes or ())
    header = SHIPPED / f"{name}.toml"
    if header.is_file():
        for line in header.read_text("utf-8").splitlines():
            if not line.startswith("#"):
                break
            typer.echo(line)
    for setting in settings_of(recipe):
        value = "" if setting.value is None else toml_value(setting.value)
        default = "not set" if setting.default is None else toml_value(setting.default)
        changed = "" if setting.value == setting.default else f" (default {default})"
        typer.echo(f"{f'{setting.name} = {value}':<46} # {setting.meaning}{changed}")
