"""Adding one of each kind takes one class or function and one line in a table; CONTRIBUTING.md shows the same."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import pytest
import torch
from pydantic import Field
from torch import Tensor, nn

from weft import tasks
from weft.attention.scores import Dot
from weft.attention.windows import Window
from weft.data.filtering.pipeline import Pipeline
from weft.data.filtering.steps import Kept, Step
from weft.data.pairs import Pair
from weft.data.preparation import read_corpus
from weft.data.reading.json_lines import JsonLines
from weft.evaluation import metrics
from weft.evaluation.metrics import Metric, MetricScore, compute_metrics
from weft.models.build import build_model
from weft.models.interface import Encoded
from weft.models.recurrent import Cell, LayerState
from weft.pictures.trace import VIEWS
from weft.ragged import Ragged
from weft.recipe import ModelSettings, choices, files, load_recipe, make_recipe
from weft.recipe.choices import resolve
from weft.search.trace import Trace
from weft.text.characters import CharacterTokenizer
from weft.text.tokenizer import learn
from weft.text.vocabulary import LearningOptions


def add(monkeypatch: pytest.MonkeyPatch, table: dict[str, str], name: str, attribute: str) -> None:
    """The line in a table of `weft.recipe.choices`."""
    monkeypatch.setitem(table, name, f"{__name__}:{attribute}")


def run_model(changes: dict[str, Any]) -> Tensor:
    """The logits of a small model with these settings."""
    small = {"embedding": 6, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}}
    tree = {
        name: {**small.get(name, {}), **value} if isinstance(value, dict) else value for name, value in changes.items()
    }
    model = build_model(ModelSettings.model_validate({**small, **tree}), source_size=7, target_size=11)
    source, inputs = Ragged.of([[3, 4, 5], [6]]), Ragged.of([[1, 3], [1, 4, 5]])
    return model(source, inputs).logits_NV


class NegativeDistance(Dot):
    """e_j = −‖q − k_j‖²"""

    def forward(self, queries_BTD: Tensor, keys_BSD: Any) -> Tensor:
        products = super().forward(queries_BTD, keys_BSD)
        return 2 * products - queries_BTD.pow(2).sum(-1)[..., None]


def test_attention_score(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, choices.SCORES, "negative_distance", "NegativeDistance")
    assert run_model({"attention": {"score": "negative_distance"}}).shape == (5, 11)


def hardmax(scores: Tensor) -> Tensor:
    """The whole weight on the largest score."""
    return (scores == scores.amax(-1, keepdim=True)).to(scores)


def test_attention_normalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, choices.NORMALIZERS, "hardmax", "hardmax")
    transformer = {"kind": "transformer", "heads": 2, "layers": 1, "feed_forward": 8}
    for sides in ({}, {"encoder": transformer, "decoder": transformer}):
        assert run_model({**sides, "attention": {"normalizer": "hardmax"}}).shape == (5, 11)


class LastPosition(Window):
    """A window around the last source token."""

    def positions(self, queries_BTD: Tensor, steps_BT: Tensor, lengths_B: Tensor) -> Tensor:
        return (lengths_B[:, None] - 1).expand_as(steps_BT)


def test_attention_window(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, choices.WINDOWS, "last", "LastPosition")
    assert run_model({"attention": {"window": "last"}}).shape == (5, 11)


class MinimalGatedUnit(Cell):
    """f = σ(…);  h_t = (1 − f) ⊙ h_{t−1} + f ⊙ tanh(…)   a cell that PyTorch does not have"""

    gates = 2
    sums_gates = True

    @staticmethod
    def step(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> LayerState:
        gate, candidate = (input_BG + state_BG).chunk(2, -1)
        return (torch.lerp(state[0], torch.tanh(candidate), torch.sigmoid(gate)),)


def test_recurrent_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, choices.CELLS, "mgu", "MinimalGatedUnit")
    assert run_model({"encoder": {"kind": "mgu"}, "decoder": {"kind": "mgu", "layers": 2}}).shape == (5, 11)


class BagOfWords(nn.Module):
    """An encoder without order: every state is a projection of its token's embedding."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.projection = nn.Linear(settings.embedding, settings.encoder.hidden)

    def forward(self, embedded: Ragged, *, return_attention: bool = False) -> Encoded:
        return Encoded(embedded.map(self.projection), None)


def test_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, choices.ENCODERS, "bag_of_words", "BagOfWords")
    assert run_model({"encoder": {"kind": "bag_of_words", "heads": 1}}).shape == (5, 11)


class Vowels(Step):
    """Drop pairs whose source has no vowel."""

    kind: Literal["vowels"] = Field("vowels", description="drop sources without a vowel")

    def __str__(self) -> str:
        return "vowels in the source"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return [pair if set(pair.source) & set("aeiou") else None for pair in pairs]


def test_pipeline_step(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, choices.STEPS, "vowels", "Vowels")
    steps: Any = make_recipe({"data": {"pipeline": [{"kind": "vowels"}]}}).data.pipeline
    assert Pipeline(tuple(steps), seed=1).run([Pair("abc", "x"), Pair("xyz", "y")]).pairs == [Pair("abc", "x")]


class Reversed(CharacterTokenizer):
    """Characters from right to left."""

    kind = "reversed"

    @classmethod
    def learn(cls, texts: Iterable[str], options: LearningOptions) -> Self:
        return super().learn(texts, options)

    def encode(self, text: str) -> list[int]:
        return super().encode(text)[::-1]


def test_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, choices.TOKENIZERS, "reversed", "Reversed")
    tokenizer = learn(make_recipe({"tokenizer": {"kind": "reversed"}}).tokenizer.kind, ["abc"])
    assert tokenizer.decode(tokenizer.encode("abc")) == "cba"


class Notes(JsonLines):
    """JSON lines under another name."""

    suffixes = (".notes",)


def test_data_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    add(monkeypatch, choices.FORMATS, "notes", "Notes")
    (tmp_path / "test.notes").write_text('{"a": "x", "b": "y"}\n', "utf-8")
    corpus = {"file": "test.notes", "source": "a", "target": "b"}
    recipe = make_recipe({"data": {"train": corpus, "test": corpus, "folder": str(tmp_path)}})
    assert [(pair.source, pair.target) for pair in read_corpus(recipe, "test")] == [("x", "y")]


def double(generator: random.Random, *, largest: int = 9) -> Pair:
    """``3`` → ``3 3``"""
    digit = str(generator.randint(0, largest))
    return Pair(digit, f"{digit} {digit}")


def test_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tasks.TASKS, "double", tasks.Task("double", "a digit twice", double))
    recipe = make_recipe({"data": {"train": "double", "test_size": 1, "options": {"largest": 500}}})
    assert all(pair.target == f"{pair.source} {pair.source}" for pair in read_corpus(recipe, "test"))


def same_length(hypotheses: Sequence[str], references: Any) -> MetricScore:
    """The percentage of outputs as long as their reference."""
    equal = sum(len(output) == len(reference) for output, reference in zip(hypotheses, references, strict=True))
    return MetricScore("same length", 100 * equal / len(hypotheses), "same-length", "higher")


def test_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(metrics.METRICS, "same_length", Metric(same_length))
    assert [score.value for score in compute_metrics(["same_length"], ["ab", "c"], ["cd", "ef"])] == [50.0]


def test_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('summary = "mine"\n[training]\nsteps = 3\n', "utf-8")
    monkeypatch.setattr(files, "SHIPPED", tmp_path)
    assert files.shipped() == ["mine"] and load_recipe("mine").training.steps == 3


def test_every_kind_of_trace_has_a_view() -> None:
    """A view is looked up by the type of what a search returns, so its line in the table is all that it takes."""
    assert set(VIEWS) == set(get_args(Trace))


@pytest.mark.parametrize("name", [name for name in vars(choices) if name.isupper()])
def test_every_line_of_a_table_names_something(name: str) -> None:
    table = getattr(choices, name)
    assert table and all(callable(resolve(table, key)) for key in table)
