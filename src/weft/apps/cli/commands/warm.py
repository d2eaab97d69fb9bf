"""``weft warm``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import Changes, DeviceOrNone, RunArguments, check_device, search_changes
from weft.runtime.activity import activity


def command(
    name: Annotated[str, typer.Argument(metavar="RECIPE|RUN", help="A recipe or a run folder.", show_default=False)],
    changes: Changes = None,
    device: DeviceOrNone = None,
) -> None:
    """Compile the kernels that training with a recipe, or searches with a run, will need.

    Compiled kernels are kept on disk: the first update or translation of later processes does not wait for them. For
    images of machines and clusters: run it once on a machine of the same kind and keep the caches, ~/.triton/cache
    (TRITON_CACHE_DIR) and ~/.cache/weft (WEFT_CACHE). Nothing else is saved.
    """
    check_device(device)
    is_run = Path(name).is_dir()
    with activity("compiling kernels"):
        if is_run:
            arguments = RunArguments(Path(name), None, device or "auto", None, "torch")
            arguments.check()
            settings = search_changes(Path(name), None, changes)
            from weft.apps.bench.warm import warm_run

            warmed = warm_run(arguments.load(), **settings)
        else:
            from weft.recipe import load_recipe

            recipe = load_recipe(name, [*(changes or ()), *([f"training.device={device}"] if device else [])])
            from weft.apps.bench.warm import warm_recipe

            warmed = warm_recipe(recipe)
    updates = f"{warmed.updates} update{'s' * (warmed.updates != 1)}"
    searches = f"{warmed.searches} search{'es' * (warmed.searches != 1)}"
    typer.echo(f"warm for {name} on {warmed.device}: {updates} and {searches}")
