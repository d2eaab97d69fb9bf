"""The model for a task: a profile on each side of every threshold."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.profiles import made_up_profile
from weft.data.columns.columns import ColumnLayout
from weft.pairs.recommendation.choices import as_tree
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.kinds import Kind, TaskProfile, Unit
from weft.pairs.recommendation.network import choose_model


def _model(
    kind: Kind,
    units: tuple[Unit, Unit],
    changes: dict[str, Any],
    device: Device = "cuda",
    few_epochs: str | None = None,
) -> dict[str, Any]:
    sides = {"symbol": "symbols", "character": "words", "bpe": "text", "word": "text"}
    profile = made_up_profile(sides[units[0]], sides[units[1]], changes)
    model: dict[str, Any] = as_tree(choose_model(profile, TaskProfile(kind, *units, "", "", ""), device, few_epochs))[
        "model"
    ]
    return model


def _described(model: dict[str, Any]) -> str:
    """gru 256 128, or transformer 4+4 256 1024 4 for layers, width, inner width and heads; dropout; further parts."""
    encoder, decoder = model["encoder"], model["decoder"]
    if encoder["kind"] == "transformer":
        size = (
            f"{encoder['layers']}+{decoder['layers']} {decoder['hidden']} {decoder['feed_forward']} {decoder['heads']}"
        )
    else:
        size = f"{decoder['hidden']} {model['embedding']}"
    parts = [f"{encoder['kind']} {size}", f"dropout {model['dropout']}"]
    parts += ["hard"] if model.get("attention", {}).get("hard") == "first" else []
    parts += ["sparse"] if model.get("attention", {}).get("normalizer") == "entmax15" else []
    parts += ["location"] if model.get("attention", {}).get("location") else []
    parts += ["feeding"] if decoder.get("input_feeding") else []
    parts += ["copy"] if model.get("copy") else []
    return ", ".join(parts)


WORDS, PHONES, TEXT, SYMBOLS = ("character", "character"), ("character", "symbol"), ("bpe", "bpe"), ("symbol", "symbol")
SPELLED = {"pairs": 2_999, "target.tokens.mean": 4.0}
"""Words of 8 characters become 4 symbols."""
FOLLOWS = {"pairs": 8_000, "relations.aligned": 0.31, "relations.aligned_by_chance": 0.1}
"""The units of a target follow the characters of its source."""
SPARSE, HARD = "sparse, feeding", "gru 512 256, dropout 0.5, hard"
LARGE, MEDIUM = "transformer 6+6 512 2048 8", "transformer 4+4 256 1024 4"

CASES: list[tuple[Kind, Any, dict[str, Any], str]] = [
    ("spelling", WORDS, {"pairs": 2_999}, f"gru 256 128, dropout 0.4, {SPARSE}"),
    ("spelling", WORDS, {"pairs": 3_000}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", WORDS, {"pairs": 2_000_000}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", WORDS, {"source.digits": 0.41, "target.digits": 0.41}, f"lstm 512 256, dropout 0.1, {SPARSE}"),
    ("spelling", WORDS, {"source.digits": 0.4, "target.digits": 0.41}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, SPELLED, HARD),
    ("spelling", WORDS, SPELLED, f"gru 256 128, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, SPELLED | {"pairs": 3_000}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, FOLLOWS | {"pairs": 20_000}, HARD),
    ("spelling", WORDS, FOLLOWS | {"pairs": 20_000}, HARD),
    ("spelling", PHONES, FOLLOWS | {"pairs": 20_001}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, FOLLOWS | {"relations.aligned": 0.29}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, FOLLOWS | {"relations.units_per_character": 0.4}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, FOLLOWS | {"relations.units_per_character": 2.1}, f"lstm 512 256, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, FOLLOWS | {"source.digits": 0.41, "target.digits": 0.41},
     f"lstm 512 256, dropout 0.1, {SPARSE}"),
    ("spelling", PHONES, SPELLED | {"source.tokens.median": 2}, HARD),
    ("spelling", PHONES, SPELLED | {"source.tokens.median": 3}, f"gru 256 128, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, SPELLED | {"target.tokens.mean": 3.9}, f"gru 256 128, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, SPELLED | {"target.tokens.mean": 16.0}, HARD),
    ("spelling", PHONES, SPELLED | {"target.tokens.mean": 16.1}, f"gru 256 128, dropout 0.4, {SPARSE}"),
    ("spelling", PHONES, SPELLED | {"target.tokens.mean": 0.5, "source.characters.mean": 0.2}, HARD),
    ("inflection", WORDS, {"relations.common_characters": 0.61}, "gru 256 128, dropout 0.4, hard"),
    ("inflection", WORDS, {"relations.common_characters": 0.6}, "gru 256 128, dropout 0.4"),
    ("inflection", WORDS, {"relations.common_characters": 0.61, "relations.length_ratio": 0.5},
     "gru 256 128, dropout 0.4, hard"),
    ("inflection", WORDS, {"relations.common_characters": 0.31, "relations.length_ratio": 2.0},
     "gru 256 128, dropout 0.4, hard"),
    ("summary", TEXT, {"pairs": 100_000}, "lstm 512 256, dropout 0.3, feeding, copy"),
    ("copying", TEXT, {}, f"{MEDIUM}, dropout 0.3, copy"),
    ("text", TEXT, {"pairs": 4_999}, "lstm 256 256, dropout 0.4, feeding"),
    ("text", TEXT, {"pairs": 5_000}, f"{MEDIUM}, dropout 0.4"),
    ("correction", TEXT, {"pairs": 4_999}, f"{MEDIUM}, dropout 0.3"),
    ("text", TEXT, {"pairs": 40_000}, f"{MEDIUM}, dropout 0.4"),
    ("text", TEXT, {"pairs": 40_001}, f"{MEDIUM}, dropout 0.3"),
    ("text", TEXT, {"pairs": 400_000}, f"{MEDIUM}, dropout 0.3"),
    ("text", TEXT, {"pairs": 400_001}, f"{LARGE}, dropout 0.2"),
    ("text", TEXT, {"pairs": 2_000_000}, f"{LARGE}, dropout 0.2"),
    ("text", TEXT, {"pairs": 2_000_001}, f"{LARGE}, dropout 0.1"),
    ("text", TEXT, {"targets_per_source": 3.0}, "transformer 3+3 256 1024 4, dropout 0.1"),
    ("text", TEXT, {"targets_per_source": 2.9}, f"{MEDIUM}, dropout 0.4"),
    ("answer", TEXT, {}, "transformer 3+1 128 512 4, dropout 0.1"),
    ("formal", ("bpe", "symbol"), {"pairs": 29_999}, "transformer 3+3 256 1024 4, dropout 0.3"),
    ("formal", ("bpe", "symbol"), {"pairs": 30_000}, "transformer 4+4 256 1024 8, dropout 0.3"),
    ("formal", ("bpe", "symbol"), {"target.tokens.p95": 40, "pairs": 4_999},
     "transformer 3+3 256 1024 4, dropout 0.3"),
    ("formal", ("bpe", "symbol"), {"target.tokens.p95": 40, "pairs": 5_000},
     "transformer 3+3 256 1024 4, dropout 0.1"),
    ("formal", ("bpe", "symbol"), {"target.tokens.p95": 39}, "transformer 3+3 256 1024 4, dropout 0.3"),
    ("formal", ("bpe", "symbol"), {"target.tokens.p95": 40}, "transformer 3+3 256 1024 4, dropout 0.1"),
    ("copying", TEXT, {"target.tokens.p95": 40}, f"{MEDIUM}, dropout 0.3, copy"),
    ("formal", SYMBOLS, {"source.spaced.size": 50}, "gru 128 128, dropout 0.3, location"),
    ("formal", SYMBOLS, {"source.tokens.p95": 20}, "gru 128 128, dropout 0.3, location"),
    ("formal", SYMBOLS, {"source.tokens.p95": 21}, "transformer 3+3 256 1024 4, dropout 0.1"),
    ("formal", SYMBOLS, {"source.spaced.size": 51}, "transformer 3+3 256 1024 4, dropout 0.3"),
    ("formal", SYMBOLS, {"target.spaced.size": 51}, "transformer 3+3 256 1024 4, dropout 0.3"),
    ("correction", SYMBOLS, {}, f"{MEDIUM}, dropout 0.3"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "units", "changes", "expected"), CASES)
def test_a_profile_on_each_side_of_a_threshold(
    kind: Kind, units: tuple[Unit, Unit], changes: dict[str, Any], expected: str
) -> None:
    assert _described(_model(kind, units, changes)) == expected


def test_on_a_cpu_words_get_a_smaller_model() -> None:
    assert _described(_model("spelling", WORDS, {}, "cpu")) == f"gru 256 128, dropout 0.4, {SPARSE}"
    assert _described(_model("spelling", PHONES, SPELLED, "cpu")) == "gru 256 128, dropout 0.5, hard"


def test_a_transformer_for_few_epochs_is_small_but_for_answers() -> None:
    assert _described(_model("text", TEXT, {}, "cpu", "8 min")) == "transformer 2+2 256 1024 4, dropout 0.1"
    assert _described(_model("answer", TEXT, {}, "cpu", "8 min")) == "transformer 3+1 128 512 4, dropout 0.1"


def test_commands_may_become_twice_as_long_as_in_training() -> None:
    profile = made_up_profile("symbols", "symbols", {"source.tokens.median": 7, "target.tokens.p99": 22})
    tree = as_tree(choose_model(profile, TaskProfile("formal", "symbol", "symbol", "", "", ""), "cuda"))
    assert tree["search"] == {"max_ratio": 7}
    attention = {"score": "additive", "location": True, "placement": "before"}
    assert tree["model"]["attention"] == attention and tree["model"]["tie"] == "target"


def test_the_details_of_a_model() -> None:
    transformer = _model("text", TEXT, {})
    assert transformer["tie"] == "target" and transformer["embedding"] == 256
    for side in ("encoder", "decoder"):
        expected = {"kind": "transformer", "hidden": 256, "norm_placement": "pre", "positions": "sinusoidal"}
        assert expected.items() <= transformer[side].items()
    for kind, positions in (("formal", "rotary"), ("copying", "rotary"), ("answer", "sinusoidal")):
        model = _model(kind, SYMBOLS, {"target.spaced.size": 51})  # type: ignore[arg-type]
        assert model["encoder"]["positions"] == model["decoder"]["positions"] == positions
    summary = _model("summary", TEXT, {})
    assert summary["attention"] == {"score": "additive", "coverage": "sum"} and summary["tie"] == "all"
    columns = ColumnLayout((0, 1, 2), (3,), features=(1, 2))
    assert _model("inflection", WORDS, {"columns": columns})["sources"] == {"count": 3}
