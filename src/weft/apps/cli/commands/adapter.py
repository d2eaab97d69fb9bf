"""``weft adapter``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import Json, Run, check_adapter, check_runs
from weft.apps.cli.terminal.help_text import CommandGroup

app = CommandGroup(help="List, add, export and remove the adapters (LoRA) of a run.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the adapter.", show_default=False)]


@app.command("list", epilog="Try:  weft adapter list runs/en-fr")
def list_command(run: Run, as_json: Json = False) -> None:
    """List the adapters of a run: name, rank, projections and training step."""
    import json

    check_runs(run)
    from weft.runs.adapters import AdapterConfig, AdapterFolder, adapter_names
    from weft.runs.layout import RunFolder

    for name in adapter_names(RunFolder(run)):
        folder = AdapterFolder(RunFolder(run), name)
        adapter, origin = folder.read()
        config = AdapterConfig.read(folder.path).values
        parameters = sum(pair.lora_A.numel() + pair.lora_B.numel() for pair in adapter.values())
        record = {"name": name, "rank": config.get("r"), "alpha": config.get("lora_alpha")}
        record |= {"projections": len(adapter), "parameters": parameters}
        record["weights"] = "" if origin is None else origin.describe()
        if as_json:
            typer.echo(json.dumps(record))
        else:
            text = f"rank {record['rank']}, alpha {record['alpha']:g}, {len(adapter)} projections"
            typer.echo(f"{name}\t{text}, {parameters:,} parameters\t{record['weights']}")


@app.command("add", epilog="Try:  weft adapter add runs/en-fr medical-lora --name medical")
def add_command(
    run: Run,
    source: Annotated[
        Path,
        typer.Argument(metavar="FROM", help="A PEFT folder, or a run with an adapter.", show_default=False),
    ],
    name: Annotated[str | None, typer.Option("--name", help="Its name in RUN; by default that of FROM.")] = None,
) -> None:
    """Copy an adapter into a run, and print its name.

    FROM is a run that was trained with --lora on the weights of RUN, or a folder with adapter_config.json and
    adapter_model.safetensors that PEFT wrote for the model that RUN was imported from.
    """
    check_runs(run)
    from weft.interop.huggingface.peft import add_adapter

    typer.echo(add_adapter(run, source, name))


@app.command("export", epilog="Try:  weft adapter export runs/en-fr medical --out medical-lora")
def export_command(
    run: Run, name: Name, out: Annotated[Path, typer.Option("--out", help="The folder to write.", show_default=False)]
) -> None:
    """Write an adapter as a folder that PEFT reads, and print the folder."""
    check_runs(run)
    check_adapter(run, name)
    from weft.interop.huggingface.peft import export_adapter

    typer.echo(export_adapter(run, name, out))


@app.command("remove", epilog="Try:  weft adapter remove runs/en-fr medical")
def remove_command(run: Run, name: Name) -> None:
    """Remove an adapter from a run."""
    check_runs(run)
    check_adapter(run, name)
    from weft.runs.adapters import remove_adapter
    from weft.runs.layout import RunFolder

    remove_adapter(RunFolder(run), name)
