"""Sources of several columns: split at the end tokens, encoded column by column, and searched like any other model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from weft.errors import ColumnCountError
from weft.models.build import build_model, make_single_encoder
from weft.models.ensemble import Ensemble
from weft.models.recurrent import final_state
from weft.models.source_columns import ColumnEncoders, ColumnRagged, SourceColumnLayout, columns_of
from weft.ragged import FixedLayout, Layout, Ragged
from weft.recipe import ModelSettings, make_recipe
from weft.text.tokenizer import Tokenizers, learn
from weft.translation.translator import Translator

SOURCES = [[3, 7, 2, 5, 2], [2, 11, 4, 2], [4, 9, 3, 2, 12, 2], [8, 2, 2]]
TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 7}
RECURRENT = {"kind": "lstm", "layers": 2, "hidden": 6}


def settings(encoders: str = "separate", encoder: dict[str, Any] = RECURRENT, **more: Any) -> ModelSettings:
    sources = {"count": 2, "encoders": encoders}
    content = {"embedding": 5, "dropout": 0.0, "encoder": encoder, "sources": sources, **more}
    return ModelSettings.model_validate(content)


def embedded(source: Ragged, count: int = 2) -> ColumnRagged:
    torch.manual_seed(1)
    values = torch.randn(len(source.values), 5, dtype=torch.float64)
    return ColumnRagged(values, source.layout, columns_of(source, count))


def slow_columns(ids: list[int], count: int) -> list[int]:
    """The column of every token, one token after the other."""
    columns, column = [], 0
    for id in ids:
        columns.append(column)
        if id == 2 and column < count - 1:
            column += 1
    return columns


@pytest.mark.parametrize("count", [2, 3, 5])
def test_columns_end_with_their_end_tokens(count: int) -> None:
    rows = [*SOURCES, [3, 4], [], [2, 2, 2, 2, 7]]
    source = Ragged.of(rows)
    expected = [slow_columns(ids, count) for ids in rows]
    assert [row.tolist() for row in source.like(columns_of(source, count)).split()] == expected
    layout = SourceColumnLayout(source.layout, columns_of(source, count), count)
    lengths = [row.count(column) for row in expected for column in range(count)]
    plain = Layout(torch.tensor(lengths), longest=source.layout.longest)
    for name in ("device_lengths", "device_offsets", "row_ids", "positions", "padded_indices", "masked_BS"):
        assert torch.equal(getattr(layout, name), getattr(plain, name)), name
    assert (layout.rows, layout.total, layout.longest) == (plain.rows, plain.total, plain.longest)


@pytest.mark.parametrize("encoder", [RECURRENT, TRANSFORMER], ids=["lstm", "transformer"])
@pytest.mark.parametrize("encoders", ["separate", "shared"])
def test_every_column_is_encoded_by_itself(encoders: str, encoder: dict[str, Any]) -> None:
    """The states stay in the place of their tokens; the final state is that of both columns, side by side."""
    torch.manual_seed(2)
    column_encoders = ColumnEncoders(settings(encoders, encoder)).double().eval()
    assert len(column_encoders.encoders) == (2 if encoders == "separate" else 1)
    source = Ragged.of(SOURCES)
    inputs = embedded(source)
    whole = column_encoders(inputs, return_attention=True)
    for row, (ids, values_SE) in enumerate(zip(SOURCES, inputs.split(), strict=True)):
        start, states, finals = 0, [], []
        for column in range(2):
            end = ids.index(2) + 1 if column == 0 else len(ids)
            alone = Ragged(values_SE[start:end], Layout(torch.tensor([end - start])))
            encoded = column_encoders.encoders[column % len(column_encoders.encoders)](alone, return_attention=True)
            states.append(encoded.states.values)
            finals.append(final_state(encoded))
            for record, merged in zip(encoded.attention, whole.attention, strict=True):
                place = merged.weights_BHTS[row, :, start:end]
                torch.testing.assert_close(place[..., start:end], record.weights_BHTS[0])
                assert not place[..., :start].any() and not place[..., end:].any()
            start = end
        torch.testing.assert_close(whole.states.split()[row], torch.cat(states))
        for layer, (left, right) in enumerate(zip(*finals, strict=True)):
            for part, tensors in enumerate(zip(left, right, strict=True)):
                torch.testing.assert_close(whole.final[layer][part][row], torch.cat(tensors, -1)[0])
    assert whole.columns_N is inputs.columns_N


@pytest.mark.parametrize("encoder", [RECURRENT, TRANSFORMER], ids=["lstm", "transformer"])
def test_one_encoder_may_read_all_columns(encoder: dict[str, Any]) -> None:
    torch.manual_seed(2)
    joint = ColumnEncoders(settings("joint", encoder)).double().eval()
    inputs = embedded(Ragged.of(SOURCES))
    encoded, plain = joint(inputs), joint.encoders[0](Ragged(inputs.values, inputs.layout))
    torch.testing.assert_close(encoded.states.values, plain.states.values)
    torch.testing.assert_close(final_state(encoded), final_state(plain))
    assert encoded.columns_N is inputs.columns_N


@pytest.mark.parametrize("encoder", [RECURRENT, TRANSFORMER], ids=["lstm", "transformer"])
@pytest.mark.parametrize("encoders", ["separate", "shared"])
def test_a_fixed_layout_gives_the_same(encoders: str, encoder: dict[str, Any]) -> None:
    """The path of captured updates, whose shapes do not depend on where a column ends."""
    torch.manual_seed(2)
    column_encoders = ColumnEncoders(settings(encoders, encoder)).double().eval()
    source = Ragged.of(SOURCES)
    inputs = embedded(source)
    fixed = ColumnRagged(inputs.values, FixedLayout(source.lengths, longest=9), inputs.columns_N)
    one, other = column_encoders(inputs), column_encoders(fixed)
    torch.testing.assert_close(one.states.values, other.states.values)
    torch.testing.assert_close(final_state(one), final_state(other))


def test_encoders_of_their_own_differ() -> None:
    separate, shared = settings("separate"), settings("shared")
    count = sum(parameter.numel() for parameter in make_single_encoder(separate).parameters())
    assert sum(parameter.numel() for parameter in ColumnEncoders(separate).parameters()) == 2 * count
    assert sum(parameter.numel() for parameter in ColumnEncoders(shared).parameters()) == count
    first, second = ColumnEncoders(separate).encoders
    assert not torch.equal(first.stack.weights(0).input_GD, second.stack.weights(0).input_GD)


def make_translator(
    decoder: str, *, scale: float = 3.0, hard: str = "none", copy: bool = False, **sources: Any
) -> Translator:
    """An untrained model, with weights large enough that its outputs depend on the source."""
    stacks = {"hidden": 8, "layers": 1, **({"heads": 2, "feed_forward": 9} if decoder == "transformer" else {})}
    model = {
        "embedding": 8,
        "dropout": 0.0,
        "tie": "all",
        "encoder": {"kind": decoder, **stacks},
        "decoder": {"kind": decoder, **stacks},
        "attention": {"hard": hard, "max_jump": 2},
        "copy": copy,
        "sources": {"count": 2, **sources},
    }
    tokenizer = learn("character", ["abcde "])
    recipe = make_recipe({"model": model, "search": {"max_length": 4, "normalization": "none"}})
    network = build_model(recipe.model, source_size=tokenizer.size, target_size=tokenizer.size, seed=3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
    return Translator(network, Tokenizers(tokenizer, tokenizer).with_columns(2), recipe)


every_translator = pytest.mark.parametrize(
    ("decoder", "options"),
    [
        ("transformer", {}),
        ("transformer", {"attention": "flat", "encoders": "joint"}),
        ("gru", {"encoders": "shared"}),
        ("lstm", {"hard": "first"}),
        ("transformer", {"copy": True}),
    ],
)


@every_translator
def test_every_search(decoder: str, options: dict[str, Any]) -> None:
    """Searches agree with exhaustive search, in company and alone, and in an ensemble."""
    translator = make_translator(decoder, **options)
    lines = ["ab\tcd", "\tabc", "eeee\t", "a\tb"]
    exhaustive = translator.translate(lines, kind="exhaustive")
    exact = translator.translate(lines, kind="exact")
    for search in (exact, translator.translate(lines, kind="beam", size=200)):
        assert [one.text for one in search] == [one.text for one in exhaustive]
    for one, line in zip(exact, lines, strict=True):
        assert one.proven and translator.translate(line, kind="exact").text == one.text
        assert one.source == line and len(one.source_tokens) == len(line) + 1
        assert one.attention.shape[1] == len(one.source_tokens)
    assert len(translator.translate(lines, kind="sample", seed=4)) == 4
    tokenizers, recipe = translator.tokenizers, translator.recipe
    ensemble = Translator(Ensemble([translator.model, translator.model]), tokenizers, recipe)
    assert [one.text for one in ensemble.translate(lines, kind="exact")] == [one.text for one in exact]


@every_translator
def test_a_search_and_a_score_give_the_same_log_p(decoder: str, options: dict[str, Any]) -> None:
    """In float64: log p of models with such weights changes 3,000 times as much as a weight does, relatively."""
    translator = make_translator(decoder, **options)
    translator.model.double()
    lines = ["ab\tcd", "\tabc", "eeee\t", "a\tb"]
    compared = 0
    for line, one in zip(lines, translator.translate(lines, kind="exact"), strict=True):
        if translator.tokenizers.target.encode(one.text) == one.ids:  # else there are special tokens among them
            scores = translator.score([(line, one.text)])[0].token_scores
            assert scores[: len(one.token_scores)] == pytest.approx(one.token_scores, abs=1e-5)
            compared += 1
    assert compared


@pytest.mark.parametrize(("decoder", "hard"), [("transformer", "none"), ("gru", "none"), ("gru", "monotonic")])
def test_eight_bits(decoder: str, hard: str) -> None:
    translator = make_translator(decoder, scale=1.0, hard=hard)
    pairs = [("ab\tcd", "a"), ("\tabc", "bca"), ("eeee\t", "")]
    quantize = pytest.importorskip("weft.fast.steps.quantization").quantize
    eight_bits = Translator(quantize(translator.model), translator.tokenizers, translator.recipe)
    for one, other in zip(eight_bits.score(pairs), translator.score(pairs), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, rel=0.05)
    assert len(eight_bits.translate([source for source, _ in pairs])) == 3


def test_the_second_column_matters() -> None:
    translator = make_translator("transformer")
    [one, other] = translator.score([("ab\tcd", "abc"), ("ab\tdc", "abc")])
    assert one.log_probability != pytest.approx(other.log_probability, abs=1e-3)
    [swapped] = translator.score([("cd\tab", "abc")])
    assert one.log_probability != pytest.approx(swapped.log_probability, abs=1e-3)


def test_columns_that_users_give() -> None:
    """As tuples or as texts with tabs; words and links are those of all columns."""
    translator = make_translator("gru")
    [one, other] = translator.translate([("ab", "cd e"), "ab\tcd e"])
    assert one.source == other.source == "ab\tcd e" and one.text == other.text
    attended, words = translator.attend(("ab", "cd e"), "abc")
    assert attended.source_tokens == ["a", "b", "</s>", "c", "d", "␣", "e", "</s>"]
    assert words.source == ["ab", "cd", "e", "</s>"] and words.weights_TS.shape == (1, 4)
    assert len(translator.heads(("ab", "cd e"), "abc")) == 1
    with pytest.raises(ColumnCountError, match=r"^source 'ab': 1 column, expected 2, separated by tabs$"):
        translator.translate("ab")
    assert translator.translate(["", "\t"])[1].text == ""


def test_weights_of_a_column_are_not_changed_by_another() -> None:
    """Attended separately: half of the weight is on each column."""
    [separate] = make_translator("gru").force_decode([("ab\tcd", "abc")])
    torch.testing.assert_close(Tensor(separate.attention[:, :3].sum(1)), torch.full((3,), 0.5))
    [flat] = make_translator("gru", attention="flat").force_decode([("ab\tcd", "abc")])
    assert abs(flat.attention[:, :3].sum(1) - 0.5).max() > 1e-3
