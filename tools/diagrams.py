"""Diagrams of the course: architectures and steps as SVG, for light and dark pages.

python tools/diagrams.py            writes docs/images/diagrams/*.svg
python tools/diagrams.py --check    fails if one of them is not current
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import step_diagrams
from drawing import Diagram

FOLDER = Path(__file__).resolve().parents[1] / "docs/images/diagrams"


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


def norm_placement() -> Diagram:
    """A sub-layer with its norm after the sum, and before it."""
    diagram = Diagram(560, 330, "Post-norm, as published in 2017, and pre-norm")
    columns = ((140, "post-norm", ("sub-layer", "+", "norm")), (420, "pre-norm", ("norm", "sub-layer", "+")))
    for x, name, parts in columns:
        diagram.note(x, 322, name)
        diagram.text(x, 292, "x")
        below, start = None, (x, 275)
        for part, y in zip(parts, (215, 140, 65), strict=True):
            box = diagram.box(x, y, part, width=44 if part == "+" else 110, kind="main" if part == "norm" else "box")
            diagram.arrow(below.top if below else start, box.bottom)
            if part == "+":
                diagram.arrow((x, 258), (x + 95, 258), (x + 95, y), box.right)
            below = box
        assert below is not None
        diagram.arrow(below.top, (x, 15))
    return diagram


def adapter() -> Diagram:
    """Two small matrices beside a weight that stays as it is."""
    diagram = Diagram(520, 300, "An adapter: two small trained matrices beside a weight that stays")
    diagram.text(250, 284, "x")
    weight = diagram.box(150, 150, "W: d × d, stays", width=170, height=70)
    down = diagram.box(380, 190, "W_down: ρ × d", width=130, kind="main")
    up = diagram.box(380, 115, "W_up: d × ρ", width=130, kind="main")
    total = diagram.box(250, 50, "+", width=44)
    diagram.arrow((240, 268), (150, 240), weight.bottom)
    diagram.arrow((260, 268), (380, 240), down.bottom)
    diagram.arrow(down.top, up.bottom)
    diagram.arrow(weight.top, (236, 67))
    diagram.arrow(up.top, (264, 67))
    diagram.note(352, 74, "× κ")
    diagram.arrow(total.top, (250, 10))
    return diagram


DIAGRAMS: dict[str, Callable[[], Diagram]] = {
    "recurrent": recurrent,
    "lstm": lstm,
    "encoder-decoder": encoder_decoder,
    "attention-step": step_diagrams.attention,
    "self-attention": step_diagrams.self_attention,
    "mask": step_diagrams.mask,
    "multi-head": step_diagrams.multi_head,
    "between": between,
    "stack": stack,
    "transformer": transformer,
    "writing": step_diagrams.writing,
    "teacher-forcing": step_diagrams.teacher_forcing,
    "placement": step_diagrams.placement,
    "scores": step_diagrams.scores,
    "links": step_diagrams.links,
    "merges": step_diagrams.merges,
    "embedding": step_diagrams.embedding,
    "norm-placement": norm_placement,
    "visibility": step_diagrams.visibility,
    "batch": step_diagrams.batch,
    "pooling": step_diagrams.pooling,
    "adapter": adapter,
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
