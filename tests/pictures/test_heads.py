from __future__ import annotations

import io
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from weft.errors import DataError
from weft.pictures import heads
from weft.pictures.heads import draw_heads, terminal_heads
from weft.translation.results import HeadAttention

SOURCE = ["the", "red", "house", "</s>", "$x$"]
TARGET = ["la", "maison", "rouge"]
SVG = "{http://www.w3.org/2000/svg}"


def grid(layers: int, count: int, source: list[str], target: list[str], kind: str = "cross") -> list[HeadAttention]:
    """Heads that each attend one token further to the right than the previous one."""
    return [
        HeadAttention(kind, layer, head, np.roll(np.eye(len(target), len(source)), head - 1, axis=1), source, target)
        for layer in range(1, layers + 1)
        for head in range(1, count + 1)
    ]


def texts(path: Path) -> list[str]:
    return [element.text or "" for element in ElementTree.parse(path).iter(f"{SVG}text")]


def printed(view: object, width: int = 80, **settings) -> str:
    out = io.StringIO()
    Console(file=out, width=width, _environ={}, **settings).print(view)
    return out.getvalue()


@pytest.mark.parametrize(("layers", "count"), [(1, 1), (2, 3), (6, 8)])
def test_a_panel_for_each_head_and_labels_at_the_edges_only(layers: int, count: int, tmp_path: Path) -> None:
    path = draw_heads(grid(layers, count, SOURCE, TARGET), tmp_path / "heads.svg", title="all heads")
    found = Counter(texts(path))
    for layer in range(1, layers + 1):
        for head in range(1, count + 1):
            assert found[f"layer {layer} · head {head}"] == 1
    assert sum(text.startswith("layer ") for text in found) == layers * count
    assert [found[label] for label in TARGET] == [layers] * 3
    assert [found[label] for label in SOURCE] == [count] * 5
    assert found["all heads"] == found["cross-attention"] == 1
    assert found["attention weight, one scale for all panels; rows attend to columns"] == 1


def test_each_kind_has_a_block_of_its_own(tmp_path: Path) -> None:
    panels = [
        *grid(2, 3, SOURCE, SOURCE, "encoder"),
        *grid(2, 3, TARGET, TARGET, "decoder"),
        *grid(2, 3, SOURCE, TARGET),
    ]
    found = Counter(texts(draw_heads(panels, tmp_path / "heads.svg", title="")))
    assert [found[f"{kind}-attention"] for kind in ("encoder self", "decoder self", "cross")] == [1, 1, 1]
    assert found["layer 2 · head 3"] == 3
    assert found["red"] == 2 + 3 + 3  # rows and columns of the encoder, columns of the crossing
    assert found["maison"] == 2 + 3 + 2


def cells(panels: list[HeadAttention]) -> dict[str, np.ndarray]:
    """The numbers that were colored, by the title of their panel."""
    figure = heads._figure(heads._grids(panels), "", ["DejaVu Sans"])
    drawn = {axes.get_title(loc="left"): axes.collections[0] for axes in figure.axes if axes.get_title(loc="left")}
    assert {tuple(mesh.get_clim()) for mesh in drawn.values()} == {(0.0, heads._peak(heads._grids(panels)))}
    return {title: np.asarray(mesh.get_array()).reshape(len(panels[0].target), -1) for title, mesh in drawn.items()}


def test_every_weight_lands_in_its_panel_on_one_scale() -> None:
    random = np.random.default_rng(0)
    panels = [panel._replace(weights_TS=random.random((3, 5))) for panel in grid(2, 3, SOURCE, TARGET)]
    found = cells(panels[::-1])  # their order does not matter
    assert len(found) == 6
    for panel in panels:
        assert np.array_equal(found[f"layer {panel.layer} · head {panel.head}"], panel.weights_TS)


def test_panels_are_ordered_by_layer_and_head() -> None:
    figure = heads._figure(heads._grids(grid(2, 3, SOURCE, TARGET)[::-1]), "", ["DejaVu Sans"])
    boxes = {axes.get_title(loc="left"): axes.get_position() for axes in figure.axes}
    first, right, below = (boxes[f"layer {name}"] for name in ("1 · head 1", "1 · head 2", "2 · head 1"))
    assert right.x0 > first.x1 and right.y0 == pytest.approx(first.y0)
    assert below.y1 < first.y0 and below.x0 == pytest.approx(first.x0)


def test_missing_heads_leave_a_gap_and_no_panel_without_labels(tmp_path: Path) -> None:
    panels = [panel for panel in grid(2, 3, SOURCE, TARGET) if (panel.layer, panel.head) not in ((1, 1), (2, 3))]
    found = Counter(texts(draw_heads(panels, tmp_path / "heads.svg", title="")))
    assert sum(text.startswith("layer ") for text in found) == 4
    assert found["maison"] == 2
    assert found["red"] == 3


def test_text_stays_text(tmp_path: Path) -> None:
    source = ["日本語", "हिन्दी", "مرحبا", "🙂", "$x^2$", "<s> & co"]
    target = [" ", "\n", "\x1b", "_a_{b}", "\\frac", "", "$", "incomprehensibilities"]
    path = draw_heads(grid(1, 2, source, target, "a & b"), tmp_path / "heads.svg", title="cost $5 and $6")
    found = set(texts(path))
    assert {"日本語", "हिन्दी", "مرحبا", "🙂", "$x^2$", "<s>␣&␣co", "cost $5 and $6", "a & b attention"} <= found
    assert {"␣", "⏎", "⟨1B⟩", "_a_{b}", "\\frac", "∅", "$", "incomprehensibili…"} <= found


def test_labels_of_large_maps_are_thinned_with_a_note(tmp_path: Path) -> None:
    source, target = [f"s{index}" for index in range(67)], [f"t{index}" for index in range(61)]
    found = texts(draw_heads(grid(2, 8, source, target), tmp_path / "heads.svg", title="long"))
    note = next(text for text in found if text.startswith("attention weight"))
    assert "at least 1 token in 4 is labeled" in note
    assert found.count("s0") == found.count("s64") == 8
    assert found.count("t60") == 2
    assert found.count("s1") == found.count("t1") == 0


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (2, 60), (60, 2), (31, 37)])
def test_nothing_leaves_the_picture_and_labels_do_not_touch(rows: int, columns: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    source = [f"{'W' * (index % 17)}{index}"[:18] for index in range(columns)]
    target = [f"{'M' * (index % 13)}{index}"[:18] for index in range(rows)]
    figure = heads._figure(heads._grids(grid(2, 3, source, target)), "a title " * 9, ["DejaVu Sans"])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in figure.texts]
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    for axes in panels:
        rows_drawn = [label.get_window_extent() for label in axes.get_yticklabels()]
        columns_drawn = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert all(one.y0 >= two.y1 - 1 for one, two in pairwise(rows_drawn))
        assert all(one.x1 <= two.x0 + 1 for one, two in pairwise(columns_drawn))
        boxes += [*rows_drawn, *columns_drawn, axes.get_window_extent()]
        assert axes.get_window_extent().width > 20 and axes.get_window_extent().height > 20
    assert len(panels) == 6
    for box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height


PANEL = HeadAttention("cross", 2, 1, np.ones((3, 5)), SOURCE, TARGET)


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([], "no attention maps to draw; expected at least 1"),
        (
            [PANEL._replace(weights_TS=np.ones((5, 3)))],
            "cross layer 2 head 1: attention weights are 5 × 3, expected 3 target × 5 source tokens",
        ),
        (
            [PANEL._replace(weights_TS=np.ones((0, 5)), target=[])],
            "cross layer 2 head 1: attention map has no cells; expected at least 1 source and 1 target token",
        ),
        (
            [PANEL._replace(weights_TS=np.full((3, 5), np.nan))],
            "cross layer 2 head 1: attention weights are not all finite and at least 0",
        ),
        ([PANEL._replace(layer=0)], "cross layer 0 head 1: layers and heads are counted from 1"),
        ([PANEL._replace(head=0)], "cross layer 2 head 0: layers and heads are counted from 1"),
        ([PANEL, PANEL], "cross layer 2 head 1: given twice; expected one map for each head"),
        (
            [PANEL, PANEL._replace(head=2, target=["le", "chat", "noir"])],
            "cross layer 2 head 2: its tokens are not those of layer 2 head 1; maps of one kind share their labels",
        ),
    ],
)
def test_maps_that_cannot_be_drawn(panels: list[HeadAttention], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        draw_heads(panels, tmp_path / "heads.svg", title="")
    assert str(error.value) == message
    with pytest.raises(DataError) as error:
        terminal_heads(panels)
    assert str(error.value) == message
    assert list(tmp_path.iterdir()) == []


def test_the_overview_in_plain_text() -> None:
    panels = grid(2, 2, SOURCE, TARGET)
    panels[1] = panels[1]._replace(weights_TS=np.array([[0.2] * 5, [0.4] * 5, [0.6] * 5]))
    lines = printed(terminal_heads(panels, title="a title"), color_system=None).splitlines()
    assert [line.rstrip() for line in lines] == [
        "a title",
        "cross-attention",
        "1.1         1.2",
        "██· · · ·   ░░░░░░░░░░",
        "· ██· · ·   ▒▒▒▒▒▒▒▒▒▒",
        "· · ██· ·   ▓▓▓▓▓▓▓▓▓▓",
        "",
        "2.1         2.2",
        "██· · · ·   · ██· · ·",
        "· ██· · ·   · · ██· ·",
        "· · ██· ·   · · · ██·",
        "",
        "░ 0.1+  ▒ 0.3+  ▓ 0.5+  █ 0.75+",
        "layer.head; rows attend to columns",
    ]


def test_large_maps_are_pooled_to_their_largest_weights() -> None:
    weights_TS = np.zeros((24, 48))
    weights_TS[5, 7] = weights_TS[23, 47] = 1.0
    panel = HeadAttention("cross", 1, 1, weights_TS, ["s"] * 48, ["t"] * 24)
    lines = printed(terminal_heads([panel]), color_system=None).splitlines()
    rows = lines[2:14]
    assert {len(row) for row in rows} == {24}
    assert [(row, line.index("█")) for row, line in enumerate(rows) if "█" in line] == [(2, 3), (11, 23)]
    assert "a character covers up to 2 by 2 weights and shows the largest" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [9, 20, 37, 80, 200])
@pytest.mark.parametrize("tokens", [1, 12, 61])
def test_the_overview_fits_and_shows_every_head(width: int, tokens: int) -> None:
    panels = grid(6, 8, ["日本語"] * tokens, ["x"] * tokens)
    text = printed(terminal_heads(panels), width, color_system=None)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    captions = [word for word in text.split() if re.fullmatch(r"\d\.\d", word)]
    assert captions == [f"{layer}.{head}" for layer in range(1, 7) for head in range(1, 9)]
    assert "日" not in text


def test_the_overview_takes_a_width() -> None:
    view = terminal_heads(grid(2, 8, SOURCE, TARGET), width=30)
    assert max(map(cell_len, printed(view, 100, color_system=None).splitlines())) <= 30


def test_heads_of_a_layer_stand_side_by_side_where_they_fit() -> None:
    lines = printed(terminal_heads(grid(6, 8, ["s"] * 12, ["t"] * 12)), 80, color_system=None).splitlines()
    assert sum(line[:1].isdigit() for line in lines) == 6


def test_colors_and_ascii() -> None:
    view = terminal_heads(grid(1, 2, SOURCE, TARGET))
    colored = printed(view, force_terminal=True, color_system="truecolor")
    assert "48;2;8;48;107" in colored and "48;2;255;255;255" in colored
    assert "█" not in colored
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=out, width=80, _environ={}).print(view)
    out.flush()
    assert "##. . . . " in out.buffer.getvalue().decode("ascii")
