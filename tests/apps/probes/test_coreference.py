"""The probe of *it*: positions of words in tokens, heads that are made up, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft.apps.probes.coreference import HeadCount, _result, _token_positions
from weft.errors import DataError, SearchError
from weft.tasks.coreference import Mention
from weft.translation.results import HeadAttention
from weft.translation.translator import Translator

SOURCE = "the animal did not cross the street because it was too tired"


@pytest.mark.parametrize(
    "tokens",
    [
        [*SOURCE.split(), "</s>"],
        [f"▁{word}" for word in SOURCE.split()],
        [f"{word}</w>" for word in SOURCE.split()],
        ["Ġthe", *(f"Ġ{word}" for word in SOURCE.split()[1:])],
    ],
)
def test_words_that_are_tokens(tokens: list[str]) -> None:
    assert _token_positions(tokens, SOURCE) == Mention(8, 1, 6)


def test_words_of_several_tokens() -> None:
    """The last token of a word has read all of it."""
    tokens = [
        "▁the",
        "▁ani",
        "mal",
        "▁did",
        "▁not",
        "▁cross",
        "▁the",
        "▁st",
        "re",
        "et",
        "▁because",
        "▁it",
        "▁was",
        "▁too",
        "▁tired",
    ]
    assert _token_positions(tokens, SOURCE) == Mention(11, 2, 9)


def test_tokens_that_do_not_spell_the_source() -> None:
    assert _token_positions(["the", "<unk>", "did"], SOURCE) is None


def test_the_head_is_chosen_on_one_half_and_judged_on_the_other() -> None:
    """The head that is right in the first half only is chosen, and its figures are those of the second half."""
    lucky = HeadCount(1, 1, [0.9] * 10 + [0.1] * 10, [0.0] * 10 + [0.2] * 10)
    good = HeadCount(2, 1, [0.6] * 20, [0.1] * 20)
    result = _result([good, lucky], [SOURCE] * 20)
    assert result.data["best"] | {"interval": None} == {
        "layer": 1, "head": 1, "share": 0.0, "interval": None,
        "on_referent": pytest.approx(0.1), "on_other": pytest.approx(0.2),
    }  # fmt: skip
    assert [(head["layer"], head["share"]) for head in result.data["heads"]] == [(1, 0.0), (2, 1.0)]
    assert result.chart.title.startswith("Layer 1, head 1: more weight on the noun of “it” in 0 % of sentences")
    assert "--kind encoder --layer 1 --head 1" in result.notes[1]


def fake_heads(run: Translator, monkeypatch: pytest.MonkeyPatch, right: bool) -> None:
    """Heads of which head 2 looks from *it* at its noun (or at the other one), and head 1 nowhere in particular."""

    def heads(source: str, target: str | None = None) -> list[HeadAttention]:
        tokens = [*source.split(), "</s>"]
        position = _token_positions(tokens, source)
        assert position is not None
        uniform = np.full((len(tokens), len(tokens)), 1 / len(tokens))
        pointing = uniform.copy()
        pointing[position.pronoun] = 0.0
        pointing[position.pronoun, position.referent if right else position.other] = 1.0
        return [HeadAttention("encoder", 1, number, weights, tokens, tokens) for number, weights in
                ((1, uniform), (2, pointing))]  # fmt: skip

    monkeypatch.setattr(run, "heads", heads)


@pytest.mark.parametrize("right", [True, False])
def test_a_head_that_points(copier: Translator, monkeypatch: pytest.MonkeyPatch, right: bool) -> None:
    fake_heads(copier, monkeypatch, right)
    data = weft.probes.coreference(copier, limit=12).data
    shares = {head["head"]: head["share"] for head in data["heads"]}
    assert data["sentences"] == 12 and shares == {1: 0.0, 2: float(right)}
    assert data["best"]["head"] == (2 if right else 1)


def test_a_real_model(tmp_path: Path) -> None:
    stack = {"kind": "transformer", "layers": 2, "hidden": 16, "heads": 2, "feed_forward": 24}
    settings = {
        "data": {"train": "coreference", "train_size": 200, "valid_size": 4},
        "tokenizer": {"kind": "word"},
        "model": {"embedding": 16, "encoder": stack, "decoder": stack},
        "training": {"steps": 2, "device": "cpu"},
        "search": {"max_length": 6},
    }
    list(weft.train(weft.make_recipe(settings), tmp_path / "run"))
    data = weft.probes.coreference(tmp_path / "run", limit=8).data
    assert data["sentences"] == 8 and len(data["heads"]) == 4
    assert all(0 <= head["on_referent"] <= 1 for head in data["heads"])


def test_refusals(copier: Translator) -> None:
    with pytest.raises(DataError, match="limit: 3; expected at least 4 sentences, half of them to choose a head"):
        weft.probes.coreference(copier, limit=3)
    with pytest.raises(SearchError, match="its encoder has no attention heads; expected a Transformer"):
        weft.probes.coreference(copier)
