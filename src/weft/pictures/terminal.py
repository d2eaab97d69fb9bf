"""Terminal output for all views: shaded cells, colors, lines rendered as one string, a table of copied tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from weft.pictures.labels import shorten, visible

Color = tuple[int, int, int]
Label = Callable[[int], str]
"""Gives the text of a token id."""

SHADES = ("· ", "░░", "▒▒", "▓▓", "██")
ASCII_SHADES = (". ", "--", "++", "xx", "##")
SHADE_STEPS = (0.1, 0.3, 0.5, 0.75)
"""Lowest values of the second to the last shade."""
BLUES: tuple[Color, ...] = (
    (255, 255, 255),
    (222, 235, 247),
    (158, 202, 225),
    (66, 146, 198),
    (8, 81, 156),
    (8, 48, 107),
)
"""Colors at equal steps from 0 to 1, after ColorBrewer's Blues."""
CELL = 2
"""Terminal columns of one cell, which is then about square."""
STYLES = {"best": "bold cyan", "finished": "green", "pruned": "dim", "secondary": "dim"}
"""Rich styles of the lines of a search trace."""
ASCII_SYMBOLS = str.maketrans("●○×■│┃├┠┤└─−…∞–•█░▶◀·▏▎▍▌▋▊▉", "*ox#|||||`--.!-*#-><.:::####")


def interpolate(colors: Sequence[Color], value: float) -> Color:
    """The color at a value from 0 to 1, between two neighbors of equally spaced colors."""
    position = min(max(value, 0.0), 1.0) * (len(colors) - 1)
    low = min(int(position), len(colors) - 2)
    red, green, blue = (
        round(a + (b - a) * (position - low)) for a, b in zip(colors[low], colors[low + 1], strict=True)
    )
    return red, green, blue


def color_cell(colors: Sequence[Color], value: float) -> Text:
    """A cell whose background is the color at a value from 0 to 1."""
    red, green, blue = interpolate(colors, value)
    return Text(" " * CELL, style=Style.parse(f"on rgb({red},{green},{blue})"))


@dataclass(frozen=True)
class Shading:
    """Shading of values from 0 to 1: by background color, or by five characters in a terminal without colors."""

    colored: bool
    ascii_only: bool

    @classmethod
    def of(cls, console: Console, options: ConsoleOptions) -> Shading:
        colored = console.color_system in ("256", "truecolor") and not console.no_color
        return cls(colored, options.ascii_only)

    @property
    def shades(self) -> tuple[str, ...]:
        return ASCII_SHADES if self.ascii_only else SHADES

    def cell(self, value: float) -> Text:
        if self.colored:
            return color_cell(BLUES, value)
        return Text(self.shades[sum(value >= step for step in SHADE_STEPS)])

    def key(self, peak: float) -> Text:
        """The legend of the shades, where 1 stands for ``peak``."""
        if self.colored:
            return Text.assemble("0 ", *(self.cell(step / 8) for step in range(9)), f" {peak:.2g}")
        steps = zip(self.shades[1:], SHADE_STEPS, strict=True)
        return Text("  ".join(f"{shade[0]} {step * peak:.2g}+" for shade, step in steps))


def ascii_text(text: str) -> str:
    """Characters outside ASCII as escapes."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def printable(label: Label, ascii_only: bool) -> Label:
    """The label with every character visible and, if necessary, spelled in ASCII."""
    if not ascii_only:
        return lambda token: visible(label(token))
    return lambda token: ascii_text(visible(label(token)))


def render_lines(lines: Sequence[Text], width: int, *, color: bool, ascii_only: bool) -> str:
    """Lines as one string. Dim lines of prose are wrapped, others cropped to the width."""
    console = Console(
        width=width, color_system="256" if color else None, force_terminal=color, highlight=False, _environ={}
    )
    rendered: list[str] = []
    for line in lines:
        prose = line.style == "dim" and cell_len(line.plain) > width
        for part in line.wrap(console, width) if prose else [line]:
            part.truncate(width, overflow="crop")
            part.rstrip()
            part.stylize(part.style)
            segments = part.render(console)
            rendered.append("".join(style.render(text) if color and style else text for text, style, _ in segments))
    text = "\n".join(rendered) + "\n"
    return text.translate(ASCII_SYMBOLS).encode("ascii", "replace").decode() if ascii_only else text


LONGEST_TOKEN = 24


def terminal_copied_tokens(
    tokens: Sequence[str], copied: Sequence[float], gates: Sequence[float], *, ascii_only: bool = False
) -> str:
    """A line for each token: the share of its probability that was copied, and the gate g."""
    names = [shorten(visible(token), LONGEST_TOKEN) for token in tokens]
    if ascii_only:
        names = [ascii_text(name) for name in names]
    width = max(map(cell_len, ["token", *names]))
    lines = [f"{'token':<{width}}  copied     g"]
    for name, share, gate in zip(names, copied, gates, strict=True):
        lines.append(f"{name}{' ' * (width - cell_len(name))}  {share:>6.2f}  {gate:>4.2f}")
    return "\n".join(lines)
