"""Floating-point operations of training, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.apps.bench.flops import COPIED_FLOATS, attention_flops, peak_bandwidth, peak_flops, training_flops
from weft.models.build import build_model
from weft.recipe import ModelSettings

TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 8, "heads": 2, "feed_forward": 12}
SOURCE, TARGET = 7, 19


def counted(*, source_size: int = 13, target_size: int = 11, **model: Any) -> float:
    built = build_model(ModelSettings.model_validate(model), source_size=source_size, target_size=target_size)
    return training_flops(built, source=SOURCE, target=TARGET)


class TestTrainingFlops:
    """6 for every weight that a token is multiplied by; biases, norms and tables that are looked up count nothing."""

    own = 8 * 24 + 8 * 8
    """Self-attention of width 8: queries, keys and values, then out."""
    across_target = 8 * 8 + 8 * 8
    across_source = 8 * 16
    feed_forward = 8 * 12 + 12 * 8

    def test_a_transformer(self) -> None:
        source = 2 * (self.own + self.feed_forward + self.across_source)
        target = 2 * (self.own + self.across_target + self.feed_forward) + 8 * 11
        wanted = 6 * (source * SOURCE + target * TARGET)
        assert counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER) == wanted

    def test_a_tied_output_is_multiplied_like_any_other(self) -> None:
        stacks = {"embedding": 8, "encoder": TRANSFORMER, "decoder": TRANSFORMER, "source_size": 11}
        assert counted(**stacks, tie="all") == counted(**stacks, tie="target") == counted(**stacks)

    def test_embeddings_of_another_width_are_mapped(self) -> None:
        plain = counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER)
        found = counted(embedding=5, encoder=TRANSFORMER, decoder=TRANSFORMER)
        assert found - plain == 6 * 5 * 8 * (SOURCE + TARGET)

    def test_an_encoder_of_attention_alone(self) -> None:
        whole = counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER)
        bare = counted(embedding=8, encoder={**TRANSFORMER, "kind": "attention"}, decoder=TRANSFORMER)
        assert whole - bare == 6 * 2 * self.feed_forward * SOURCE

    def test_a_gated_network_has_a_matrix_more(self) -> None:
        plain = counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER)
        gated = counted(embedding=8, encoder={**TRANSFORMER, "activation": "swiglu"}, decoder=TRANSFORMER)
        assert gated - plain == 6 * 2 * 8 * 12 * SOURCE

    def test_shared_keys_and_values(self) -> None:
        plain = counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER)
        shared = counted(embedding=8, encoder={**TRANSFORMER, "key_value_heads": 1}, decoder=TRANSFORMER)
        assert plain - shared == 6 * 2 * 8 * 8 * SOURCE

    def test_copying_has_an_attention_of_its_own(self) -> None:
        plain = counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER)
        copying = counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER, copy=True)
        assert copying - plain == 6 * 8 * 8 * (SOURCE + TARGET)

    def test_an_lstm(self) -> None:
        source = 2 * (12 * 5 + 12 * 3)  # four gates of three units, both directions
        target = 24 * 5 + 24 * 6 + 12 * 6 + 6 * 11  # the step, the attentional vector, the output
        found = counted(embedding=5, encoder={"hidden": 6}, decoder={"hidden": 6}, attention={"score": "dot"})
        assert found == 6 * (source * SOURCE + target * TARGET)

    def test_an_additive_score_has_a_matrix_for_each_side(self) -> None:
        stacks = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}}
        found = counted(**stacks, attention={"score": "additive", "size": 4})
        plain = counted(**stacks, attention={"score": "dot"})
        assert found - plain == 6 * 4 * 6 * (SOURCE + TARGET)

    def test_hard_attention_reads_source_states_once(self) -> None:
        sizes: dict[str, Any] = {"embedding": 4, "encoder": {"hidden": 6}, "decoder": {"hidden": 5}}
        soft = counted(**sizes)
        keys, queries = 6 * 5 * SOURCE, 5 * 5 * TARGET
        assert counted(**sizes, attention={"hard": "monotonic"}) - soft == 6 * (keys + queries - (6 + 5) * 5 * TARGET)

    def test_a_language_model(self) -> None:
        found = counted(embedding=5, kind="language_model", decoder={"hidden": 6}, attention={"score": "none"})
        assert found == 6 * (24 * 5 + 24 * 6 + 6 * 11) * TARGET
        found = counted(embedding=8, kind="language_model", decoder=TRANSFORMER)
        assert found == 6 * (2 * (self.own + self.feed_forward) + 8 * 11) * TARGET

    @pytest.mark.parametrize("positions", ["learned", "relative"])
    def test_positions_are_looked_up(self, positions: str) -> None:
        plain = counted(embedding=8, encoder=TRANSFORMER, decoder=TRANSFORMER)
        encoder = {**TRANSFORMER, "positions": positions}
        assert counted(embedding=8, encoder=encoder, decoder=TRANSFORMER) == plain

    def test_one_stack_reads_both_sides(self) -> None:
        found = counted(embedding=8, kind="prefix_lm", decoder=TRANSFORMER)
        assert found == 6 * (2 * (self.own + self.feed_forward) * (SOURCE + TARGET) + 8 * 11 * TARGET)

    @pytest.mark.parametrize(
        ("attention", "weights"), [({"score": "general"}, 6 * 6), ({"score": "dot", "project": True}, 2 * 6 * 6)]
    )
    def test_keys_and_values_are_made_once_for_a_source(self, attention: dict[str, Any], weights: int) -> None:
        stacks = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}}
        found = counted(**stacks, attention=attention) - counted(**stacks, attention={"score": "dot"})
        assert found == 6 * weights * SOURCE

    def test_a_matrix_over_query_and_key_is_used_in_two_parts(self) -> None:
        stacks = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 10}}
        found = counted(**stacks, attention={"score": "concat", "size": 4})
        plain = counted(**stacks, attention={"score": "additive", "size": 4})
        assert found == pytest.approx(plain)

    @pytest.mark.parametrize(
        ("attention", "weights"),
        [
            ({"score": "general"}, 6 * 6),
            ({"score": "additive", "size": 4}, 2 * 4 * 6),
            ({"score": "concat", "size": 4}, 2 * 4 * 6),
        ],
    )
    def test_a_language_model_looks_at_its_own_words(self, attention: dict[str, Any], weights: int) -> None:
        stack = {"embedding": 5, "kind": "language_model", "decoder": {"hidden": 6}}
        assert (
            counted(**stack, attention=attention) - counted(**stack, attention={"score": "dot"}) == 6 * weights * TARGET
        )

    def test_what_is_done_once_a_sentence_is_left_out(self) -> None:
        stacks = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}}
        assert counted(**stacks, bridge="project") == counted(**stacks, bridge="zero")


class TestAttentionFlops:
    """2 for every component of a score and 2 for every component of a weighted sum, counted query by query."""

    def literal(self, queries_keys: list[int], *, width: int, layers: int) -> float:
        """``queries_keys``: for every query, the number of its keys."""
        return sum((2 + 2) * width * keys for _ in range(layers) for keys in queries_keys)

    @pytest.mark.parametrize("head_size", [0, 3])
    def test_a_transformer(self, head_size: int) -> None:
        width = 2 * head_size or 8
        stack = {**TRANSFORMER, "head_size": head_size}
        settings = ModelSettings.model_validate({"embedding": 8, "encoder": stack, "decoder": stack})
        encoder = self.literal([SOURCE] * SOURCE, width=width, layers=2)
        history = self.literal([step + 1 for step in range(TARGET)], width=width, layers=2)
        across = self.literal([SOURCE] * TARGET, width=width, layers=2)
        assert attention_flops(settings, source=SOURCE, target=TARGET) == encoder + history + across
        assert attention_flops(settings, source=SOURCE, target=0) == encoder

    def test_one_stack_for_both_sides(self) -> None:
        settings = ModelSettings.model_validate({"embedding": 8, "kind": "prefix_lm", "decoder": TRANSFORMER})
        keys = [SOURCE] * SOURCE + [SOURCE + step + 1 for step in range(TARGET)]
        assert attention_flops(settings, source=SOURCE, target=TARGET) == self.literal(keys, width=8, layers=2)

    @pytest.mark.parametrize(("score", "layers"), [("dot", 1), ("none", 0)])
    def test_recurrent_decoders(self, score: str, layers: int) -> None:
        stacks = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}, "attention": {"score": score}}
        found = attention_flops(ModelSettings.model_validate(stacks), source=SOURCE, target=TARGET)
        assert found == self.literal([SOURCE] * TARGET, width=6, layers=layers)
        found = attention_flops(
            ModelSettings.model_validate({**stacks, "kind": "language_model"}), source=0, target=TARGET
        )
        assert found == self.literal([step + 1 for step in range(TARGET)], width=6, layers=layers)


def test_the_peak_of_one_product() -> None:
    assert 1e8 < peak_flops(torch.device("cpu"), "fp32") < 1e14


def test_the_peak_of_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COPIED_FLOATS, "cpu", 2**20)
    assert 1e8 < peak_bandwidth(torch.device("cpu")) < 1e14
