"""Attention on a picture, as SVG without scripts: panels for a page or a file, and an animation that CSS moves.

The picture is written once, as a data address, and every panel refers to it. Text and background follow the reader's
choice of a light or a dark scheme; a picture keeps its colors. Who prefers no motion sees the first token.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from rich.cells import cell_len

from weft.data.arrays.png import data_address
from weft.pictures.html.elements import Content, Html, element, join
from weft.pictures.html.page import page
from weft.pictures.pixels import MAX_TINT, TINT, as_rgb, fit

if TYPE_CHECKING:
    from weft.pictures.attention_panels import AttentionPanels

CHARACTER = 6.6
"""Pixels of a column of a label."""
PANEL_WIDTH, PANEL_HEIGHTS = 460, (28, 120)
"""Pixels of the widest panel, of the lowest and of the highest."""
PAGE_WIDTH = 980
FAINTEST = 0.02
"""Cells with a smaller share of the largest weight are not drawn."""
MAX_SIDE = 2_000
"""Pixels of a side of a picture that is embedded."""
SECONDS = 0.9
"""How long an animation shows a token."""
STYLE = """
.ID text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1f2933 }
.ID .faint { fill: #52606d } .ID .tint { fill: COLOR } .ID .edge { fill: none; stroke: #9aa5b1 }
.ID .page { fill: #ffffff } .ID .now { font-weight: 700 }
@media (prefers-color-scheme: dark) {
  .ID text { fill: #e4e7eb } .ID .faint { fill: #a9b4c0 } .ID .edge { stroke: #52606d } .ID .page { fill: #15191e }
}
"""
ANIMATION = """
.ID .step { opacity: 0; animation: ID-step TOTALs linear infinite }
@keyframes ID-step { 0% { opacity: 1 } SHARE% { opacity: 1 } UNTIL% { opacity: 0 } 100% { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { .ID .step { animation: none } .ID .start { opacity: 1 } }
"""


def panels_svg(panels: AttentionPanels, title: str = "") -> Html:
    """All panels as one drawing: each token with its largest weight above the picture."""
    key, scale = _key(panels), _scale(panels)
    sizes = [_size(panels, token, scale) for token in range(len(panels.labels))]
    texts = [f"{label}\u2002{panels.peak(token):.2f}" for token, label in enumerate(panels.labels)]
    cell_width = max(max(width for width, _ in sizes), CHARACTER * max(map(cell_len, texts))) + 16
    columns = max(int(PAGE_WIDTH / cell_width), 1)
    row_height, top = sizes[0][1] + 30, 34 if title else 10
    parts: list[Content] = [_text(10, 22, title, "now")] if title else []
    for token, text in enumerate(texts):
        left, upper = 10 + token % columns * cell_width, top + token // columns * row_height
        parts.append(_text(left, upper + 11, text))
        parts += _panel(panels, token, (left, upper + 17), key, scale)
    height = top + -(-len(texts) // columns) * row_height
    if panels.more:
        parts.append(_text(10, height + 8, panels.more, "faint"))
        height += 20
    width = max(20 + min(columns, len(texts)) * cell_width, 20 + CHARACTER * 1.2 * cell_len(title))
    return _drawing(panels, key, parts, (width, height), "")


def animation(panels: AttentionPanels, title: str = "") -> Html:
    """The picture with the attention of one token after the other, and the output below it."""
    key, number = _key(panels), len(panels.labels)
    start, end = panels.window(0)
    scale = min(PANEL_HEIGHTS[1] / panels.picture.shape[0], (PAGE_WIDTH - 20) / (end - start))
    width, height = _size(panels, 0, scale)
    page_width, top = max(width + 20, 320), 34 if title else 10
    parts: list[Content] = [_text(10, 22, title, "now")] if title else []
    parts += _image((start, end), (10, top), (width, height), key)
    x, y = 10.0, top + height + 24
    for token, label in enumerate(panels.labels):
        advance = CHARACTER * 1.15 * cell_len(label) + 9
        if x + advance > page_width - 5 and x > 10:
            x, y = 10.0, y + 20
        parts.append(_text(x, y, label, "faint"))
        line = element("rect", x=x - 2, y=y + 4, width=advance - 5, height=2, class_="tint")
        panel = _panel(panels, token, (10, top), key, scale)
        delay = f"animation-delay: {token * SECONDS:.1f}s"
        style = "step start" if token == 0 else "step"
        parts.append(element("g", *panel, line, _text(x, y, label), class_=style, style=delay))
        x += advance
    if panels.more:
        y += 20
        parts.append(_text(10, y, panels.more, "faint"))
    share = 100 / number
    moving = ANIMATION.replace("TOTAL", f"{number * SECONDS:.1f}").replace("SHARE", f"{share:.3f}")
    moving = moving.replace("UNTIL", f"{min(share + 0.001, 100):.3f}")
    return _drawing(panels, key, parts, (page_width, y + 14), moving)


def attention_panels(panels: AttentionPanels) -> Html:
    """The panels in a box that scrolls, for a page or a notebook."""
    return element("div", panels_svg(panels), class_="scroll")


def panels_page(panels: AttentionPanels, title: str = "") -> str:
    """A page with the animation and all panels."""
    moving = element("div", animation(panels), class_="scroll")
    heading = element("h1", title or "Attention on a picture")
    note = element("p", "The number is the largest weight of a token, which has the darkest color.", class_="faint")
    return str(page(title or "Attention on a picture", heading, moving, note, attention_panels(panels)))


def _drawing(
    panels: AttentionPanels, key: str, parts: list[Content], size: tuple[float, float], more_style: str
) -> Html:
    height, width = panels.picture.shape[:2]
    picture = fit(as_rgb(panels.picture), MAX_SIDE, MAX_SIDE)
    if (picture == picture[:, :, :1]).all():
        picture = picture[:, :, 0]
    image = element(
        "image",
        id=f"{key}-picture",
        href=data_address(picture),
        width=width,
        height=height,
        preserveAspectRatio="none",
        style="image-rendering: pixelated" if height < PANEL_HEIGHTS[1] else None,
    )
    style = (STYLE + more_style).replace("ID", key).replace("COLOR", "rgb({},{},{})".format(*TINT))
    background = element("rect", class_="page", width=round(size[0]), height=round(size[1]))
    return element(
        "svg",
        element("title", "attention on a picture, token by token"),
        element("style", Html(style)),
        element("defs", image),
        background,
        join(parts),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {size[0]:.0f} {size[1]:.0f}",
        width=round(size[0]),
        height=round(size[1]),
        class_=key,
        role="img",
        aria_label="attention on a picture",
    )


def _panel(panels: AttentionPanels, token: int, corner: tuple[float, float], key: str, scale: float) -> list[Content]:
    """The part of the picture that a token attends to, with its cells."""
    start, end = panels.window(token)
    size = _size(panels, token, scale)
    clip = element("svg", *_cells(panels, token, scale, start), x=corner[0], y=corner[1], **_sides(size))
    return [*_image((start, end), corner, size, key), clip]


def _image(window: tuple[int, int], corner: tuple[float, float], size: tuple[float, float], key: str) -> list[Content]:
    start, end = window
    pixels = size[1] * (end - start) / size[0]
    box = f"{start} 0 {end - start} {pixels:.6g}"
    use = element("use", href=f"#{key}-picture")
    box_sides = {"x": corner[0], "y": corner[1], **_sides(size)}
    return [element("svg", use, viewBox=box, **box_sides), element("rect", class_="edge", **box_sides)]


def _cells(panels: AttentionPanels, token: int, scale: float, start: int) -> list[Content]:
    """The cells of a token as rectangles; their tooltip is their weight."""
    cells: list[Content] = []
    for (left, top, width, height), share in panels.cells(token, FAINTEST):
        note = element("title", f"{panels.labels[token]}: {share * panels.peak(token):.2f}")
        x, y = (left - start) * scale, top * scale
        sides = _sides((width * scale, height * scale))
        cells.append(element("rect", note, x=x, y=y, **sides, class_="tint", fill_opacity=MAX_TINT * share))
    return cells


def _sides(size: tuple[float, float]) -> dict[str, float]:
    return {"width": size[0], "height": size[1]}


def _size(panels: AttentionPanels, token: int, scale: float) -> tuple[float, float]:
    start, end = panels.window(token)
    return (end - start) * scale, panels.picture.shape[0] * scale


def _scale(panels: AttentionPanels) -> float:
    """Pixels of a drawing for one of the picture."""
    height = panels.picture.shape[0]
    start, end = panels.window(0)
    low, high = PANEL_HEIGHTS
    return min(min(max(height, low), high) / height, PANEL_WIDTH / (end - start))


def _key(panels: AttentionPanels) -> str:
    """A name for the parts of a drawing, so that several can be in one page."""
    content = (
        panels.picture.tobytes() + panels.weights_THW.tobytes() + "\n".join(panels.labels).encode("utf-8", "replace")
    )
    return f"a{blake2b(content, digest_size=6).hexdigest()}"


def _text(x: float, y: float, text: str, style: str | None = None) -> Html:
    return element("text", text, x=x, y=y, class_=style)
