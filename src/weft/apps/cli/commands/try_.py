"""``weft try``: train, evaluate, translate and draw on the built-in grammar, in about a minute and a half."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import Changes, Json

if TYPE_CHECKING:
    from rich.console import Console

SENTENCES = ("he hit me with a pie", "the old king does not see the white horse")


def command(
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; by default runs/try.")] = None,
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """A tour of weft: train, evaluate, translate and draw.

    Trains the default recipe on the built-in grammar, evaluates it on unseen sentences, translates two of them and
    draws the attention of the model. No existing folder is overwritten.
    """
    start = time.monotonic()
    from rich.console import Console

    from weft.recipe import load_recipe

    recipe = load_recipe("grammar", changes or ())
    from weft.apps.cli.terminal.progress import ProgressReporter
    from weft.evaluation.evaluate import evaluate
    from weft.pictures.attention_map import draw_map, terminal_map
    from weft.training.train import train
    from weft.translation.load import load

    console = Console(stderr=True, highlight=False, soft_wrap=True)  # commands can be pasted
    folder = out or _unused(Path("runs/try"))
    console.print(f"Training [bold]{recipe.name}[/]: {recipe.summary}")
    for _ in ProgressReporter(console)(train(recipe, folder)):
        pass
    run = load(folder, device=recipe.training.device)
    report = evaluate(run, metrics=["exact_match", "bleu"])
    exact, bleu = (score.value for score in report.scores)
    picture = folder / "attention.svg"
    for sentence in reversed(SENTENCES):
        translation, words = run.attend(sentence)
        console.print(f"\n  {sentence}\n  [bold]{translation.text}[/]")
    if words.target:
        console.print()
        console.print(terminal_map(*words))
        draw_map(*words, picture, title=translation.text)
    seconds = time.monotonic() - start
    aer = None if report.alignment is None else report.alignment.error_rate
    console.print(f"\nOn {report.pairs} unseen sentences: {exact:.1f} % translated exactly, BLEU {bleu:.1f}.")
    if aer is not None:
        console.print(
            f"Attention compared with the gold word links, which it never saw: alignment error rate {aer:.1f} %."
        )
    console.print(f"The attention map: {picture}   ({seconds:.0f} s in total)\n")
    _suggest_next(console, folder)
    if as_json:
        numbers = {
            "seconds": round(seconds, 1),
            "exact_match": round(exact / 100, 4),
            "bleu": round(bleu, 2),
            "aer": None if aer is None else round(aer / 100, 4),
            "run": str(folder),
        }
        typer.echo(json.dumps(numbers))


def _suggest_next(console: Console, folder: Path) -> None:
    console.print("What next:", style="bold")
    console.print(f"  weft attend {folder} 'she does not love the small red house'", markup=False)
    console.print(f"  echo 'he hit me with a pie' | weft translate {folder} --n-best 3", markup=False)
    console.print("  weft train pairs.tsv          your own pairs: source, tab, target", markup=False)
    console.print("  weft recipes                  other tasks, and the classic models", markup=False)
    console.print("  weft train bahdanau2015       another kind of attention", markup=False)
    console.print(f"  {f'weft serve {folder} --open':<30}watch it translate step by step, in a browser", markup=False)


def _unused(path: Path) -> Path:
    """This path, or the first of path-2, path-3, … that does not exist."""
    number = 2
    free = path
    while free.exists():
        free = path.with_name(f"{path.name}-{number}")
        number += 1
    return free
