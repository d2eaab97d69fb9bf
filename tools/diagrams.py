"""Diagrams of the course: architectures and steps as SVG, for light and dark pages.

    python tools/diagrams.py            writes docs/images/diagrams/*.svg
    python tools/diagrams.py --check    fails if one of them is not current

A diagram is a list of boxes and arrows on a grid; colors follow the reader's choice of a light or a dark page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "docs/images/diagrams"
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


def recurrent() -> Diagram:
    """An RNN, unrolled over three words."""
    diagram = Diagram(560, 245, "A recurrent network as a language model, unrolled")
    before = None
    for index, (word, following) in enumerate((("the", "king"), ("king", "sees"), ("sees", "the"))):
        x = 140 + 150 * index
        state = diagram.box(x, 115, f"h{'₁₂₃'[index]}", kind="main")
        diagram.text(x, 210, word)
        diagram.arrow((x, 194), state.bottom)
        diagram.arrow(state.top, (x, 52))
        diagram.text(x, 30, f"p({following})")
        diagram.arrow(before.right if before else (50, 115), state.left)
        before = state
    diagram.text(32, 120, "h₀")
    diagram.note(280, 234, "U, W and b are the same at every step")
    return diagram


def lstm() -> Diagram:
    """An LSTM cell."""
    diagram = Diagram(620, 300, "An LSTM cell: forget, write, show")
    forget = diagram.box(170, 60, "× f", width=56, kind="main")
    write = diagram.box(330, 60, "+ i g", width=64, kind="main")
    show = diagram.box(470, 150, "o tanh(c)", width=92, kind="main")
    diagram.text(40, 65, "c(t−1)")
    diagram.arrow((70, 60), forget.left)
    diagram.arrow(forget.right, write.left)
    diagram.arrow(write.right, (550, 60))
    diagram.text(580, 65, "c(t)")
    diagram.arrow((470, 60), show.top)
    diagram.arrow(show.right, (550, 150))
    diagram.text(580, 155, "h(t)")
    gates = [
        diagram.box(x, 215, name, width=64)
        for x, name in ((170, "f  σ"), (290, "i  σ"), (370, "g  tanh"), (470, "o  σ"))
    ]
    diagram.arrow(gates[0].top, forget.bottom)
    diagram.arrow(gates[1].top, (318, 77))
    diagram.arrow(gates[2].top, (342, 77))
    diagram.arrow(gates[3].top, show.bottom)
    diagram.text(60, 272, "x(t), h(t−1)")
    for gate in gates:
        diagram.arrow((115, 267), (gate.x, 267), gate.bottom)
    return diagram


def encoder_decoder() -> Diagram:
    """Sequence to sequence through one vector."""
    diagram = Diagram(760, 240, "Encoder and decoder: the source passes through one vector")
    diagram.group(20, 60, 300, 115, "encoder")
    diagram.group(400, 60, 340, 115, "decoder")
    before = None
    for index, word in enumerate(("he", "hit", "me")):
        state = diagram.box(75 + 95 * index, 120, f"h{'₁₂₃'[index]}", width=60)
        diagram.text(state.x, 215, word)
        diagram.arrow((state.x, 198), state.bottom)
        if before:
            diagram.arrow(before.right, state.left)
        before = state
    for index, (given, output) in enumerate((("START", "il"), ("il", "m'"), ("m'", "a"))):
        state = diagram.box(460 + 110 * index, 120, f"s{'₁₂₃'[index]}", width=60, kind="main")
        diagram.text(state.x, 215, given)
        diagram.arrow((state.x, 198), state.bottom)
        diagram.arrow(state.top, (state.x, 45))
        diagram.text(state.x, 32, output)
        assert before is not None
        diagram.arrow(before.right, state.left)
        before = state
    diagram.note(360, 105, "s₀ = h₃")
    return diagram


def attention() -> Diagram:
    """One step of a decoder with attention."""
    diagram = Diagram(720, 330, "One step of attention: scores, weights, context")
    words = ("he", "hit", "me", "with")
    query = diagram.box(620, 255, "sₜ", width=60, kind="main")
    total = diagram.box(250, 45, "context  Σ α h", width=150, kind="main")
    for index, word in enumerate(words):
        x = 70 + 120 * index
        state = diagram.box(x, 255, f"h{'₁₂₃₄'[index]}", width=60)
        score = diagram.box(x, 180, f"sₜ · h{'₁₂₃₄'[index]}", width=84)
        weight = diagram.box(x, 110, f"α{'₁₂₃₄'[index]}", width=50)
        diagram.text(x, 315, word)
        diagram.arrow((x, 298), state.bottom)
        diagram.arrow(state.top, score.bottom)
        diagram.arrow(score.top, weight.bottom)
        diagram.arrow(weight.top, (total.x + 30 * (index - 1.5), 62))
        diagram.arrow((query.x, 238), (query.x, 217), (x + 28, 217), (x + 28, 197))
    diagram.note(545, 114, "softmax: sum 1")
    joined = diagram.box(620, 45, "[context ; sₜ]", width=130)
    diagram.arrow(total.right, joined.left)
    diagram.arrow((640, 238), (640, 62))
    diagram.note(620, 290, "query")
    return diagram


def self_attention() -> Diagram:
    """The six steps for the first of two words, with the numbers of chapter 12."""
    diagram = Diagram(690, 500, "Self-attention in six steps, for the first of two words")
    steps = ("1  query, keys, values", "2  scores", "3  ÷ √64", "4  softmax", "5  weigh", "6  sum")
    for step, y in zip(steps, (350, 285, 230, 175, 120, 45), strict=True):
        diagram.note(85, y + 4, step)
    query = diagram.box(215, 350, "q₁", width=50, kind="main")
    total = diagram.box(405, 45, "z₁ = 0.88 v₁ + 0.12 v₂", width=190, kind="main")
    for index, (word, numbers) in enumerate((("Thinking", (112, 14, 0.88)), ("Machines", (96, 12, 0.12)))):
        x, name = 300 + 230 * index, "₁₂"[index]
        vector = diagram.box(x, 420, f"x{name}", width=60)
        diagram.text(x, 482, word)
        diagram.arrow((x, 465), vector.bottom)
        key, value = (diagram.box(x + shift, 350, f"{kind}{name}", width=50) for shift, kind in ((0, "k"), (80, "v")))
        for target in (key, value, query)[: 3 - index]:
            diagram.arrow(vector.top, target.bottom)
        score = diagram.box(x, 285, f"q₁ · k{name} = {numbers[0]}", width=120)
        scaled, weight = (diagram.box(x, y, f"{n}", width=60) for y, n in ((230, numbers[1]), (175, numbers[2])))
        weighed = diagram.box(x, 120, f"{numbers[2]} v{name}", width=80)
        for low, high in ((key, score), (score, scaled), (scaled, weight), (weight, weighed)):
            diagram.arrow(low.top, high.bottom)
        diagram.arrow(query.top, (215, 318), (x - 30, 318), (x - 30, 302))
        diagram.arrow(value.top, (value.x, 120), weighed.right)
        diagram.arrow(weighed.top, (total.x + 60 * (2 * index - 1), 62))
    return diagram


def mask() -> Diagram:
    """Scores, the mask that is added to them, and the weights."""
    diagram = Diagram(640, 190, "A causal mask is added to the scores, before the softmax")
    scores = (("2", "1", "0"), ("1", "2", "1"), ("0", "1", "2"))
    added = (("0", "−∞", "−∞"), ("0", "0", "−∞"), ("0", "0", "0"))
    weights = (("1", "0", "0"), ("0.27", "0.73", "0"), ("0.09", "0.24", "0.67"))
    for left, name, rows in ((60, "scores", scores), (265, "mask M", added), (490, "weights", weights)):
        diagram.note(left + 48, 172, name)
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                kind = "main" if column <= row else "box"
                diagram.box(left + 48 * column, 40 + 40 * row, cell, width=46, height=38, kind=kind)
    diagram.text(210, 85, "+")
    diagram.arrow((395, 80), (458, 80))
    diagram.note(426, 70, "softmax")
    return diagram


def multi_head() -> Diagram:
    """Four heads of self-attention."""
    diagram = Diagram(620, 330, "Multi-head attention: smaller spaces side by side, then joined")
    words = diagram.box(310, 270, "X: n words of d numbers", width=220)
    joined = diagram.box(310, 110, "[head₁ ; head₂ ; head₃ ; head₄]", width=260)
    output = diagram.box(310, 45, "W_O", width=90, kind="main")
    diagram.text(310, 316, "source or target")
    diagram.arrow((310, 300), words.bottom)
    for index in range(4):
        x = 85 + 150 * index
        head = diagram.box(x, 190, "Q, K, V of d/4", width=120, kind="main")
        diagram.arrow((310 + 50 * (index - 1.5), 253), head.bottom)
        diagram.arrow(head.top, (310 + 60 * (index - 1.5), 127))
    diagram.arrow(joined.top, output.bottom)
    diagram.arrow(output.top, (310, 8))
    return diagram


def between() -> Diagram:
    """An encoder of attention alone with a recurrent decoder."""
    diagram = Diagram(760, 330, "In between: an encoder of attention alone, a recurrent decoder")
    diagram.group(25, 70, 270, 190, "encoder")
    diagram.group(370, 70, 370, 190, "decoder")
    diagram.text(160, 318, "source words, with or without positions")
    below = None
    for y, name in ((230, "self-attention"), (175, "feed-forward"), (120, "as many vectors as words")):
        box = diagram.box(160, y, name, width=200, kind="main" if y == 230 else "box")
        diagram.arrow(below.top if below else (160, 300), box.bottom)
        below = box
    assert below is not None
    before = None
    for index, (given, output) in enumerate((("START", "il"), ("il", "m'"), ("m'", "a"))):
        state = diagram.box(440 + 115 * index, 190, f"s{'₁₂₃'[index]}", width=60, kind="main")
        diagram.text(state.x, 300, given)
        diagram.arrow((state.x, 283), state.bottom)
        diagram.arrow(state.top, (state.x, 48))
        diagram.text(state.x, 35, output)
        diagram.arrow(below.right, (335, 120), (335, 145), (state.x - 18, 145), (state.x - 18, 173))
        if before:
            diagram.arrow(before.right, state.left)
        before = state
    diagram.note(335, 108, "attention")
    return diagram


def stack() -> Diagram:
    """Two layers, and two directions."""
    diagram = Diagram(760, 270, "A stack of two layers, and a layer that reads in both directions")
    diagram.group(15, 20, 345, 190, "stacked")
    diagram.group(395, 20, 350, 190, "bidirectional")
    for side, names in ((0, ("h⁽¹⁾", "h⁽²⁾")), (1, ("→", "←"))):
        rows = [[diagram.box(75 + 385 * side + 110 * i, y, name, width=70, kind=("box", "main")[row]) for i in range(3)]
                for row, (name, y) in enumerate(zip(names, (160, 80), strict=True))]  # fmt: skip
        for left, right in zip(rows[0], rows[0][1:], strict=False):
            diagram.arrow(left.right, right.left)
        for left, right in zip(rows[1], rows[1][1:], strict=False):
            diagram.arrow(*((left.right, right.left) if side == 0 else (right.left, left.right)))
        for index, (low, high) in enumerate(zip(*rows, strict=True)):
            diagram.text(low.x, 248, f"x{'₁₂₃'[index]}")
            diagram.arrow((low.x, 232), low.bottom)
            if side == 0:
                diagram.arrow(low.top, high.bottom)
            else:
                diagram.arrow((low.x + 20, 240), (low.x + 48, 240), (low.x + 48, 110), (low.x + 20, 97))
    return diagram


def transformer() -> Diagram:
    """The encoder and the decoder of Vaswani et al."""
    diagram = Diagram(700, 560, "The Transformer: encoder, decoder, and the final layer")
    diagram.group(40, 220, 250, 235, "× 6")
    diagram.group(390, 95, 270, 360, "× 6")
    _column(diagram, 165, 500, ("self-attention", "add & norm", "feed-forward", "add & norm"), "source words")
    parts = ("masked self-attention", "add & norm", "cross-attention", "add & norm", "feed-forward", "add & norm")
    _column(diagram, 525, 500, parts, "target words, one to the right")
    diagram.arrow((165, 243), (165, 200), (340, 200), (340, 318), (440, 318))
    diagram.note(262, 192, "keys, values")
    final = diagram.box(525, 50, "linear, softmax: p(next word)", width=250, kind="main")
    diagram.arrow((525, 133), final.bottom)
    return diagram


def _column(diagram: Diagram, x: float, start: float, parts: tuple[str, ...], words: str) -> None:
    """Embeddings below, the parts of a layer above each other, and the residual connections around them."""
    diagram.text(x, start + 50, words)
    below = diagram.box(x, start, "embedding + position", width=170)
    diagram.arrow((x, start + 36), below.bottom)
    for index, part in enumerate(parts):
        kind = "main" if "attention" in part else "box"
        height = start - 75 - 55 * index
        box = diagram.box(x, height, part, width=170, height=34, kind=kind)
        diagram.arrow(below.top, box.bottom)
        if part == "add & norm":  # x + sublayer(x): the input of the part below comes past it
            fork, side = below.y + below.height / 2 + 10, x + 103
            diagram.arrow((x, fork), (side, fork), (side, height), box.right)
        below = box


DIAGRAMS: dict[str, Callable[[], Diagram]] = {
    "recurrent": recurrent,
    "lstm": lstm,
    "encoder-decoder": encoder_decoder,
    "attention-step": attention,
    "self-attention": self_attention,
    "mask": mask,
    "multi-head": multi_head,
    "between": between,
    "stack": stack,
    "transformer": transformer,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not current")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in DIAGRAMS.items():
        path, text = FOLDER / f"{name}.svg", draw().svg()
        if not arguments.check:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            sys.exit(f"{path}: not current; run python tools/diagrams.py")


if __name__ == "__main__":
    main()
