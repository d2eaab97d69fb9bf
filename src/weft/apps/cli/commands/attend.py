"""``weft attend``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from weft.apps.cli.arguments import Adapter, Device, Picture, Run, check_adapter, check_picture, check_runs, load_runs
from weft.errors import plural

if TYPE_CHECKING:
    from pathlib import Path

    from weft.pictures.attention_panels import AttentionPanels
    from weft.translation.results import HeadAttention, Translation
    from weft.translation.translator import Translator

DEFAULT_KINDS = ("cross", "decoder", "encoder")
"""Kinds in order of preference; without --kind, the first one that the model has."""


def command(
    run: Run,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="The text to translate.", show_default=False)],
    target: Annotated[str | None, typer.Option("--target", help="Force this translation.")] = None,
    layer: Annotated[int | None, typer.Option("--layer", min=1, help="Show this layer of a Transformer.")] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=1, help="Show this head of the layer instead of the mean.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Attention for --layer and --heads: cross, encoder, decoder or copy.")
    ] = None,
    heads: Annotated[bool, typer.Option("--heads", help="Show all heads of all layers side by side.")] = False,
    to: Picture = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show tokens instead of words.")] = False,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Show the attention of a model as a map.

    By default the map is over words, or over tokens where a side is a single word; for a Transformer it is the mean
    over the heads of the second-to-last layer. --layer, --head and --kind select another map, over tokens; --heads
    shows all of them. For a model that copies (model.copy), a table shows how much of each token was copied.

    If sources are pictures, SENTENCE is the file of one, and its attention is drawn on it: a panel for each token, or,
    as .svg, one token after the other.
    """
    check_picture(to)
    check_runs(run)
    check_adapter(run, adapter)
    from weft.pictures.attention_panels import panels_of

    if heads or layer is not None or head is not None or kind is not None:
        selection = HeadSelection(kind, layer, head)
        maps = load_runs(run, device=device, adapter=adapter).heads(sentence, target)
        if heads:
            _show_grid(selection.of(maps), to, sentence)
        else:
            _show_one(selection.with_defaults(maps), maps, to)
        return
    model = load_runs(run, device=device, adapter=adapter)
    translation, _ = model.attend(sentence, target)
    if (panels := panels_of(model, translation)) is not None:
        _show_panels(panels, to, translation)
        return
    _show_map(model, translation, tokens=tokens, to=to)


def _show_map(model: Translator, translation: Translation, *, tokens: bool, to: Path | None) -> None:
    """A map over words or tokens, with its links and how much was copied."""
    from rich.console import Console

    from weft.evaluation.alignment import write_pharaoh
    from weft.pictures.attention_map import draw_map, terminal_map
    from weft.pictures.terminal import terminal_copied_tokens
    from weft.translation.word_alignment import attention_view

    view = attention_view(translation, tokens=tokens)
    assert view is not None  # `attend` raises if there is none
    weights_TS, columns, rows = view.attention
    if to is not None:
        typer.echo(draw_map(weights_TS, columns, rows, to, title=translation.text))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{translation.text}\n", markup=False)
    console.print(terminal_map(weights_TS, columns, rows))
    links = write_pharaoh(view.links)
    between = " between tokens" if view.unit == "tokens" else ""
    console.print(f"\nlinks{between} {links}   log p {translation.log_probability:.3f}", markup=False)
    if copied := model.copied_tokens(translation):
        console.print(f"\n{terminal_copied_tokens(*copied, ascii_only=console.options.ascii_only)}", markup=False)


class HeadSelection(NamedTuple):
    """The heads to show; None: all."""

    kind: str | None
    layer: int | None
    head: int | None

    def with_defaults(self, maps: list[HeadAttention]) -> HeadSelection:
        """The selection with a single kind and layer: cross-attention if the model has it, and the last layer."""
        self._check_kind(maps)
        kinds = {candidate.kind for candidate in maps}
        kind = self.kind or next(name for name in DEFAULT_KINDS if name in kinds)
        layer = self.layer or max(candidate.layer for candidate in maps if candidate.kind == kind)
        return HeadSelection(kind, layer, self.head)._check(maps, self)

    def of(self, maps: list[HeadAttention]) -> list[HeadAttention]:
        """The selected ones; an error if there are none."""
        self._check_kind(maps)
        self._check(maps, self)
        return [candidate for candidate in maps if self._includes(candidate)]

    def _includes(self, candidate: HeadAttention) -> bool:
        selected = (self.kind, candidate.kind), (self.layer, candidate.layer), (self.head, candidate.head)
        return all(wanted in (None, value) for wanted, value in selected)

    def _check_kind(self, maps: list[HeadAttention]) -> None:
        from weft.errors import SearchError

        kinds = list(dict.fromkeys(candidate.kind for candidate in maps))
        if self.kind is not None and self.kind not in kinds:
            raise SearchError(f"--kind {self.kind}: this model has {', '.join(kinds)}")

    def _check(self, maps: list[HeadAttention], given: HeadSelection) -> HeadSelection:
        from weft.errors import SearchError

        if not any(map(self._includes, maps)):
            options = " ".join(
                f"--{name} {value}" for name, value in given._asdict().items() if name != "kind" and value is not None
            )
            same_kind = [candidate for candidate in maps if self.kind in (None, candidate.kind)]
            layers = max(candidate.layer for candidate in same_kind)
            heads = max(candidate.head for candidate in same_kind)
            raise SearchError(
                f"{options}: this model has {plural(layers, 'layer')} and {plural(heads, 'head')} at most"
            )
        return self


def _show_panels(panels: AttentionPanels, to: Path | None, translation: Translation) -> None:
    """Attention on a picture."""
    from rich.console import Console

    from weft.pictures.attention_panels import draw_panels, terminal_panels

    if to is not None:
        is_svg = to.suffix.lower() == ".svg"
        typer.echo(draw_panels(panels, to, title=translation.text, animated=is_svg))
        return
    console = Console(highlight=False)
    console.print(f"{translation.text}\n", markup=False)
    console.print(terminal_panels(panels))
    console.print(f"\nlog p {translation.log_probability:.3f}", markup=False)


def _show_grid(maps: list[HeadAttention], to: Path | None, title: str) -> None:
    """All selected heads side by side."""
    from rich.console import Console

    from weft.pictures.heads import draw_heads, terminal_heads

    if to is not None:
        typer.echo(draw_heads(maps, to, title=title))
    else:
        Console(highlight=False).print(terminal_heads(maps, title=title))


def _show_one(selection: HeadSelection, maps: list[HeadAttention], to: Path | None) -> None:
    """Show one map: that of a head, or the mean of a layer's heads."""
    import numpy as np
    from rich.console import Console

    from weft.pictures.attention_map import draw_map, terminal_map

    selected = selection.of(maps)
    weights_TS = np.mean([head_map.weights_TS for head_map in selected], axis=0)
    heads = f"head {selection.head}" if selection.head else f"mean of {plural(len(selected), 'head')}"
    title = f"{selection.kind}, layer {selection.layer}, {heads}"
    if to is not None:
        typer.echo(draw_map(weights_TS, selected[0].source, selected[0].target, to, title=title))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{title}\n", markup=False)
    console.print(terminal_map(weights_TS, selected[0].source, selected[0].target))
