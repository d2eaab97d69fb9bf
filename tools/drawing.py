"""Boxes, arrows and notes on a grid as SVG, in the colors of the reader's light or dark page: for tools/diagrams.py."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

STYLE = """
  .page { fill: #ffffff } .box { fill: #f4f6f8; stroke: #7b8794 } .main { fill: #deebf7; stroke: #08519c }
  .group { fill: none; stroke: #9aa5b1; stroke-dasharray: 4 3 }
  text { font: 14px system-ui, "DejaVu Sans", sans-serif; fill: #1f2933; text-anchor: middle }
  .note { font-size: 12px; fill: #52606d } .tip { fill: #52606d }
  .line { stroke: #52606d; fill: none; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #1e2129 } .box { fill: #2a2f3a; stroke: #9aa5b1 } .main { fill: #16365c; stroke: #9ecae1 }
    text { fill: #e6eaf0 } .note { fill: #b8c1cc } .group { stroke: #7b8794 }
    .line { stroke: #b8c1cc } .tip { fill: #b8c1cc }
  }
"""


class Box(NamedTuple):
    """A labeled rectangle; its center and size are in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> tuple[float, float]:
        return self.x, self.y - self.height / 2

    @property
    def bottom(self) -> tuple[float, float]:
        return self.x, self.y + self.height / 2

    @property
    def left(self) -> tuple[float, float]:
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y


class Diagram:
    """Boxes, arrows and notes, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(self, x: float, y: float, text: str, *, width: float = 76, height: float = 34, kind: str = "box") -> Box:
        corner = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}"'
        self.parts.append(f'<rect class="{kind}" {corner} rx="6"/>')
        self.text(x, y + 5, text)
        return Box(x, y, width, height)

    def group(self, x: float, y: float, width: float, height: float, text: str) -> None:
        self.parts.append(f'<rect class="group" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"/>')
        self.note(x + 12 + 3.4 * len(text), y + 16, text)

    def text(self, x: float, y: float, text: str) -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def note(self, x: float, y: float, text: str) -> None:
        self.parts.append(f'<text class="note" x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def arrow(self, *points: tuple[float, float]) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline class="line" points="{path}" marker-end="url(#tip)"/>')

    def svg(self) -> str:
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        marker = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self.title)}</title><style>{STYLE}</style>",
                f'<defs>{marker}<path class="tip" d="M0,0 L8,4 L0,8 z"/></marker></defs>',
                f'<rect class="page" width="{self.width}" height="{self.height}"/>',
                *self.parts,
                "</svg>\n",
            )
        )
