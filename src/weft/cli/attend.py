"""``weft attend``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.arguments import Device, Run

if TYPE_CHECKING:
    from weft.translation.results import HeadAttention


def command(
    run: Run,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="What to translate.", show_default=False)],
    target: Annotated[
        str | None, typer.Option("--target", help="Show where it looks when it must say this instead.")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", min=1, help="Show this layer of a Transformer.")] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=1, help="Show this head of the layer, not the mean of all.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="cross, encoder or decoder: which attention --layer and --heads mean.")
    ] = None,
    heads: Annotated[bool, typer.Option("--heads", help="Show all heads of all layers side by side.")] = False,
    to: Annotated[Path | None, typer.Option("--to", help="Write a picture: .svg, .png or .pdf.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show tokens, not whole words.")] = False,
    device: Device = "auto",
) -> None:
    """Show where a model looks, word by word.

    A map in the terminal or, with --to, a picture. Of a Transformer this is the mean over the heads of the layer below
    the top one; --layer, --head and --kind show any other, token by token, and --heads all at once.
    """
    from rich.console import Console

    from weft.evaluation.alignment import write_pharaoh
    from weft.translation.load import load
    from weft.views.attention_map import draw_map, terminal_map

    if heads or layer is not None or head is not None or kind is not None:
        _show_heads(load(run, device=device).heads(sentence, target), layer, head, kind, heads, to, sentence)
        return
    found, words = load(run, device=device).attend(sentence, target)
    weights_TS, source, said = words
    if tokens and found.attention is not None:
        weights_TS, source, said = found.attention, found.source_tokens, found.tokens
    if to is not None:
        draw_map(weights_TS, source, said, to, title=found.text)
        typer.echo(to)
        return
    console = Console(highlight=False)
    console.print(f"{found.text}\n", markup=False)
    console.print(terminal_map(weights_TS, source, said))
    console.print(f"\nlinks {write_pharaoh(found.links)}   log p {found.log_probability:.3f}", markup=False)


def _show_heads(
    maps: list[HeadAttention],
    layer: int | None,
    head: int | None,
    kind: str | None,
    grid: bool,
    to: Path | None,
    title: str,
) -> None:
    """All the heads that were asked for as a grid, or one map: a head's, or the mean of a layer's."""
    import numpy as np
    from rich.console import Console

    from weft.errors import SearchError
    from weft.views.attention_map import draw_map, terminal_map
    from weft.views.heads import draw_heads, terminal_heads

    kinds = list(dict.fromkeys(one.kind for one in maps))
    if kind is not None and kind not in kinds:
        raise SearchError(f"--kind {kind}: this model has {', '.join(kinds)}")
    asked = " ".join(f"--{name} {value}" for name, value in (("layer", layer), ("head", head)) if value is not None)
    if not grid:
        kind = kind or next(one for one in ("cross", "decoder", "encoder") if one in kinds)
        layer = layer or max(one.layer for one in maps if one.kind == kind)
    chosen = [
        one for one in maps if kind in (None, one.kind) and layer in (None, one.layer) and head in (None, one.head)
    ]
    if not chosen:
        layers, heads = (
            max(getattr(one, name) for one in maps if kind in (None, one.kind)) for name in ("layer", "head")
        )
        raise SearchError(f"{asked}: this model has {layers} layers and {heads} heads at most")
    console = Console(highlight=False)
    if grid:
        if to is not None:
            typer.echo(draw_heads(chosen, to, title=title))
            return
        console.print(terminal_heads(chosen, title=title))
        return
    weights_TS = np.mean([one.weights_TS for one in chosen], axis=0)
    which = f"{chosen[0].kind}, layer {layer}, " + (f"head {head}" if head else f"mean of {len(chosen)} heads")
    if to is not None:
        typer.echo(draw_map(weights_TS, chosen[0].source, chosen[0].target, to, title=which))
        return
    console.print(f"{which}\n", markup=False)
    console.print(terminal_map(weights_TS, chosen[0].source, chosen[0].target))
