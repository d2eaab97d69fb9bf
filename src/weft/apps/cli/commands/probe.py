"""``weft probe``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import (
    Adapter,
    Changes,
    Device,
    Json,
    Run,
    check_adapter,
    check_file,
    check_picture,
    check_runs,
    load_runs,
    search_changes,
)
from weft.apps.cli.terminal.help_text import CommandGroup

if TYPE_CHECKING:
    from weft.apps.probes.result import ProbeResult

PictureOrPage = Annotated[
    Path | None,
    typer.Option(
        "--to", "--out", help="Write a picture of the chart (.svg, .png, .pdf) or a page with all of it (.html)."
    ),
]

app = CommandGroup(help="Measure how a trained model behaves on inputs of a special kind.", no_args_is_help=True)


@app.command("repeat", epilog="Try:  weft probe repeat runs/try 'il dort' --source 'he sleeps' --times 20")
def repeat_command(
    run: Run,
    phrase: Annotated[str, typer.Argument(metavar="PHRASE", help="The phrase to repeat.", show_default=False)],
    times: Annotated[int, typer.Option("--times", min=2, help="Number of copies.")] = 200,
    source: Annotated[
        str | None,
        typer.Option("--source", help="The source of a translation model, whose target the copies are; or a prompt."),
    ] = None,
    to: PictureOrPage = None,
    as_json: Json = False,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Show the probability of each token of a repeated phrase.

    For a language model the copies continue the text, for a translation model they are the target of --source. In most
    models each copy makes the next one more probable. In Python: weft.probes.repeat(run, phrase).
    """
    _check(run, to, adapter)
    from weft.apps.probes import repeat

    _show(repeat(load_runs(run, device=device, adapter=adapter), phrase, times=times, source=source), to, as_json)


@app.command("nonsense", epilog="Try:  weft probe nonsense runs/try --limit 50")
def nonsense_command(
    run: Run,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A file of real sources, one per line; by default those of the run's validation set.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=2, help="Use only the first N sources.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random orders of words.")] = 1,
    to: PictureOrPage = None,
    as_json: Json = False,
    changes: Changes = None,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Compare the probabilities of a model's outputs for meaningless sources and for real ones.

    Each real source is turned into three meaningless ones: a repeated syllable (ag ag ag), its words in a random
    order, and its letters in another script. AUROC: the probability that the output for a real source has the higher
    mean log p: 0.5 by chance, 1 if the two are perfectly separated. In Python: weft.probes.nonsense(run).
    """
    _check(run, to, adapter)
    if file is not None:
        check_file(str(file))
    settings = search_changes(run, None, changes)
    from weft.apps.probes import nonsense

    model = load_runs(run, device=device, adapter=adapter)
    _show(nonsense(model, file, limit=limit, seed=seed, **settings), to, as_json)


@app.command("bias", epilog="Try:  weft probe bias runs/try --templates english")
def bias_command(
    run: Run,
    templates: Annotated[
        str,
        typer.Option(
            "--templates",
            metavar="FILE",
            help="A TOML file of templates, or english (to French), finnish, hungarian, malay or turkish (to English).",
            show_default=False,
        ),
    ],
    to: PictureOrPage = None,
    as_json: Json = False,
    changes: Changes = None,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Count the genders that a model assumes where its source states none.

    Templates in a language without words for he and she are filled with professions and translated; outputs are counted
    as feminine or masculine by their words, with a binomial interval (docs/probes.md has the format of the file). In
    Python: weft.probes.bias(run, templates).
    """
    _check(run, to, adapter)
    from weft.apps.probes.bias import bias, read_templates

    given = read_templates(templates)
    settings = search_changes(run, None, changes)
    _show(bias(load_runs(run, device=device, adapter=adapter), given, **settings), to, as_json)


@app.command("coreference", epilog="Try:  weft train coreference && weft probe coreference runs/coreference")
def coreference_command(
    run: Run,
    limit: Annotated[int, typer.Option("--limit", min=4, help="Number of sentences.")] = 200,
    to: PictureOrPage = None,
    as_json: Json = False,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Find the head of a Transformer's encoder that links "it" to the noun that it stands for.

    The sources are English ("the animal did not cross the street because it was too tired"), with known referents. The
    head is chosen on half of them and judged on the other half; chance is 50 %. In Python:
    weft.probes.coreference(run).
    """
    _check(run, to, adapter)
    from weft.apps.probes import coreference

    _show(coreference(load_runs(run, device=device, adapter=adapter), limit=limit), to, as_json)


@app.command("states", epilog="Try:  weft probe states runs/try")
def states_command(
    run: Run,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A file of labeled texts: text, tab, label, and perhaps a tab and the number of the word that states "
            "it; by default clauses of the built-in grammar.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=20, help="Number of texts.")] = 2_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the clauses and of the control.")] = 1,
    to: PictureOrPage = None,
    as_json: Json = False,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Show what the states of each layer know: number, gender, tense, negation, or labels of your own.

    A linear probe for each property and layer is fitted to one half of the texts and tested on the other, beside the
    most frequent class and a control whose labels are drawn at random. The model is one with an encoder, or a language
    model. In Python: weft.probes.states(run).
    """
    _check(run, to, adapter)
    if file is not None:
        check_file(str(file))
    from weft.apps.probes import states

    _show(states(load_runs(run, device=device, adapter=adapter), file, limit=limit, seed=seed), to, as_json)


def _check(run: Path, to: Path | None, adapter: str | None) -> None:
    """Fail on bad arguments before torch is imported."""
    if to is not None and to.suffix != ".html":
        check_picture(to)
    check_runs(run)
    check_adapter(run, adapter)


def _show(result: ProbeResult, to: Path | None, as_json: bool) -> None:
    """Write the picture or the page, then print its path, the numbers as JSON, or tables and chart."""
    if to is not None:
        path = result.save(to)
        if not as_json:
            typer.echo(path)
    if as_json:
        typer.echo(result.to_json())
    elif to is None:
        from rich.console import Console

        console = Console(highlight=False)
        color = console.color_system is not None and not console.no_color
        sys.stdout.write(result.text(console.width, color=color, ascii_only=console.options.ascii_only))
