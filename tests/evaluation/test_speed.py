"""The speed of training: operations counted by hand, and sane numbers from a moment of a tiny recipe."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.errors import RecipeError, TrainingError
from weft.evaluation import speed as bench
from weft.evaluation.speed import matrix_peak, operations, training_speed
from weft.models.build import build_model
from weft.recipe import ModelSettings, Recipe
from weft.training.events import Skipped, Started, Step

TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 8, "heads": 2, "feed_forward": 12}
TINY_TRANSFORMER = {
    f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in TRANSFORMER.items()
}
SOURCE, TARGET = 7, 19
Tiny = Callable[..., Recipe]


def counted(*, source_size: int = 13, target_size: int = 11, **model: Any) -> float:
    built = build_model(ModelSettings.model_validate(model), source_size=source_size, target_size=target_size)
    return operations(built, source=SOURCE, target=TARGET)


class TestOperations:
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


class TestTrainingSpeed:
    @pytest.mark.parametrize("model", [{}, TINY_TRANSFORMER], ids=["lstm", "transformer"])
    def test_sane_numbers(self, tiny: Tiny, model: dict[str, Any]) -> None:
        recipe = tiny({"name": "quick", **model, "training.steps": 3})
        found = training_speed(recipe, seconds=0.3, warmup=2)
        assert (found.recipe, found.device, found.precision) == ("quick", "cpu", "fp32")
        built = build_model(recipe.model, source_size=10, target_size=10)
        assert found.parameters == sum(one.numel() for one in built.parameters())
        assert found.steps >= 1 and 0.3 <= found.seconds < 5
        assert found.windows == [], "shorter than a window"
        assert 0 < found.step_milliseconds <= 1000 * found.seconds
        assert found.target_tokens_per_second == pytest.approx(found.source_tokens_per_second), "a copy is as long"
        tokens = found.target_tokens_per_second * found.seconds
        assert tokens == pytest.approx(round(tokens)) and 1 <= tokens / found.steps <= 64
        assert 0 < found.first_step_seconds <= found.warmup_seconds
        assert found.operations_per_second > 0 and 1e8 < found.peak_operations_per_second < 1e14
        assert 0 < found.share_of_peak < 1
        assert 2**20 < found.memory_bytes < 2**40 and found.cores > 0
        each = operations(built, source=1, target=1) / found.seconds * tokens
        assert found.operations_per_second == pytest.approx(each)

    def test_its_record_is_json(self, tiny: Tiny) -> None:
        record = training_speed(tiny(), seconds=0.1, warmup=1).record()
        assert json.loads(json.dumps(record)) == record
        assert {"target_tokens_per_second", "share_of_peak", "torch", "step_milliseconds"} <= record.keys()

    @pytest.mark.parametrize(
        "changes",
        [
            {"training.schedule": "cosine"},
            {"training.schedule": "plateau"},
            {"training.metric": "bleu", "training.validate_every": 1, "training.patience": 1},
            {"training.save_every": 1},
            {"training.accumulate": 2},
            {"model.kind": "language_model"},
        ],
        ids=str,
    )
    def test_of_any_recipe(self, tiny: Tiny, changes: dict[str, Any]) -> None:
        """It neither ends early nor validates nor saves."""
        found = training_speed(tiny({**changes, "training.steps": 1}), seconds=0.1, warmup=1)
        assert found.steps > 1 and found.target_tokens_per_second > 0

    def test_nothing_is_kept(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        training_speed(tiny(), seconds=0.1, warmup=1)
        assert list(tmp_path.iterdir()) == []

    def test_windows(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bench, "WINDOW", 0.1)
        found = training_speed(tiny(), seconds=0.45, warmup=1)
        assert 1 <= len(found.windows) <= 4
        assert min(found.windows) <= found.target_tokens_per_second * 1.5

    def test_a_device_that_is_none(self, tiny: Tiny) -> None:
        with pytest.raises(RecipeError, match=r"^training.device: 'gpu' is no device"):
            training_speed(tiny({"training.device": "gpu"}), seconds=0.1)

    def test_the_peak_of_one_product(self) -> None:
        assert 1e8 < matrix_peak(torch.device("cpu"), "fp32") < 1e14

    def test_cores_are_those_of_training(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        def busy(*_: object) -> float:
            begun = sum(os.times()[:2])
            while sum(os.times()[:2]) - begun < 1.0:
                pass
            return 1e12

        monkeypatch.setattr(bench, "matrix_peak", busy)
        monkeypatch.setattr(bench, "_cpu_seconds", lambda: sum(os.times()[:2]))
        found = training_speed(tiny(), seconds=0.2, warmup=1)
        assert found.cores < torch.get_num_threads() + 1


class TestEventsThatAreNoSteps:
    """The loop's events, made up."""

    prepared = Started(
        step=0,
        pairs=1,
        dropped={},
        source_vocabulary=10,
        target_vocabulary=10,
        parameters=1,
        device="cpu",
        steps=9,
        path="",
    )

    def step(self, number: int) -> Step:
        return Step(
            number,
            loss=1.0,
            learning_rate=1.0,
            grad_norm=1.0,
            source_tokens=3,
            target_tokens=4,
            seconds=0.01,
            data_wait=0.001,
            epoch=0,
        )

    def test_a_run_that_ends_too_soon(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        for events in ([], [self.prepared], [self.prepared, self.step(1), self.step(2)]):
            monkeypatch.setattr(bench, "train", lambda *_, events=events: iter(events))
            with pytest.raises(TrainingError, match=r"^the run ended before anything could be measured$"):
                training_speed(tiny(), warmup=2)

    def test_skipped_updates_are_not_counted(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        events = [self.prepared, self.step(1), self.step(2), Skipped(3, 1), self.step(4), self.step(5)]
        monkeypatch.setattr(bench, "train", lambda *_: iter(events))
        assert training_speed(tiny(), warmup=1).steps == 3

    def test_the_last_of_the_warmup_may_be_skipped(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        events = [self.prepared, self.step(1), Skipped(2, 1), self.step(3), self.step(4)]
        monkeypatch.setattr(bench, "train", lambda *_: iter(events))
        found = training_speed(tiny(), warmup=2)
        assert found.steps == 2 and found.seconds < 5
