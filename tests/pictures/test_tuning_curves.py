"""The curves of a tuning run."""

import math

import pytest

from weft.apps.tuning.result import CandidateResult, TuningResult
from weft.errors import DataError
from weft.pictures.tuning_curves import ASCII_BARS, BARS, curve_lines, draw_curves, score_limits, sparkline


def candidate(name, values, state="stopped"):
    curve = tuple((10 * number, value) for number, value in enumerate(values, 1))
    return CandidateResult(name, "", "", state, step=10 * len(values), value=max(values, default=None), curve=curve)


RESULT = TuningResult(
    metric="bleu",
    better="higher",
    candidates=[
        candidate("wide <&>", [1.0, 20.0, 30.0, 41.0], "finished"),
        candidate("deep", [2.0, 10.0]),
        candidate("broken", []),
    ],
    ensemble=None,
    steps=40,
    rungs=[20, 40],
    pairs=0,
    signature="",
)


def test_bars_share_one_scale_and_end_where_training_was_stopped():
    lines = [line.plain for line in curve_lines(RESULT, 80, ascii_only=False)]
    assert lines == [
        "wide <&>  ▁▁▃▃▆▆██        41  finished",
        "deep      ▁▁▁▁            10  stopped at step 20",
        "validation bleu from 10.00 to 41.00; steps 1 to 40, halvings at 20",
    ]
    [first, *_] = curve_lines(RESULT, 80, ascii_only=True)
    assert first.plain.startswith("wide <&>  ..--**##  ") and first.plain.isascii()


def test_a_higher_bar_is_better():
    assert sparkline([(1, 5.0), (2, 3.0), (3, 1.0)], 3, 3, (5.0, 1.0), BARS) == "▁▅█"
    assert sparkline([(1, 1.0), (2, 3.0), (3, 5.0)], 3, 3, (1.0, 5.0), ASCII_BARS) == ".+#"
    assert sparkline([(1, 1.0)], 2, 2, (1.0, 1.0), BARS) == "█ "
    assert sparkline([(1, math.nan), (2, 1.0)], 2, 2, (0.0, 1.0), BARS) == " █"


def test_the_first_validation_does_not_stretch_the_scale():
    assert score_limits(RESULT) == (10.0, 41.0)


def test_a_narrow_terminal_has_fewer_columns():
    assert max(len(line.plain) for line in curve_lines(RESULT, 20, ascii_only=False) if line.style != "dim") < 60


def test_the_picture(tmp_path):
    path = draw_curves(RESULT, tmp_path / "curves.svg", title="tuning")
    text = path.read_text("utf-8")
    for word in ("wide &lt;&amp;&gt;", "deep", "halving 1", "validation bleu (higher is better)", "tuning"):
        assert word in text
    assert "broken" not in text
    assert draw_curves(RESULT, tmp_path / "again.svg", title="tuning").read_bytes() == path.read_bytes()


def test_nothing_to_draw(tmp_path):
    empty = TuningResult("bleu", "higher", [candidate("a", [])], None, 40, [40], 0, "")
    with pytest.raises(DataError, match="no candidate of this tuning run was validated; there is nothing to draw"):
        draw_curves(empty, tmp_path / "curves.svg")
    assert list(curve_lines(empty, 80, ascii_only=False)) == []
