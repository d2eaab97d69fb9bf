"""What the decoder reads: seen by a model that writes down what it is given."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pytest
import torch
from torch import Tensor

from weft.data.store.token_store import Batch
from weft.models.build import build_model
from weft.models.interface import Model, ModelOutput, StepOutput
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TrainingSettings
from weft.training.forcing import forced_logits, sampling_probability

BEGIN, VOCABULARY = 1, 11
SOURCES = [[3, 7], [5, 4, 6], [9], [8, 3]]
TARGETS = [[3, 5, 2], [7, 2], [4, 6, 8, 10, 2], [2]]


@pytest.mark.parametrize(
    ("forcing", "step", "probability"),
    [
        ("teacher", 50, 0.0),
        ("free", 1, 1.0),
        ("free", 100, 1.0),
        ("scheduled", 0, 0.0),
        ("scheduled", 25, 0.1),
        ("scheduled", 100, 0.4),
        ("scheduled", 250, 0.4),
    ],
)
def test_sampling_probability(forcing: Literal["teacher", "scheduled", "free"], step: int, probability: float) -> None:
    settings = TrainingSettings(forcing=forcing, sampling=0.4, steps=100)
    assert sampling_probability(settings, step) == pytest.approx(probability)


class Parrot:
    """Says (token + 1) mod V after every token, loudly; remembers what each source was given to read."""

    def __init__(self) -> None:
        self.read: dict[int, list[int]] = {}

    def encode(self, source: Ragged) -> Tensor:
        return torch.tensor([int(row[0]) for row in source.split()])

    def start(self, memory: Tensor) -> tuple[Tensor]:
        return (torch.zeros(len(memory)),)

    def step(self, tokens_R: Tensor, state: tuple[Tensor], memory: Tensor) -> StepOutput:
        assert len(tokens_R) == len(memory) == len(state[0])
        for name, token in zip(memory.tolist(), tokens_R.tolist(), strict=True):
            self.read.setdefault(name, []).append(token)
        return StepOutput(torch.eye(VOCABULARY)[(tokens_R + 1) % VOCABULARY] * 9, state, None)

    def __call__(self, source: Ragged, inputs: Ragged, *, return_attention: bool = False) -> ModelOutput:
        for name, row in zip(self.encode(source).tolist(), inputs.split(), strict=True):
            self.read[name] = row.tolist()
        return ModelOutput(torch.eye(VOCABULARY)[(inputs.values + 1) % VOCABULARY] * 9)


def batch_of(sources: list[list[int]] = SOURCES, targets: list[list[int]] = TARGETS) -> Batch:
    return Batch(Ragged.of(sources), Ragged.of(targets))


def read(
    probability: float, sources: list[list[int]] = SOURCES, targets: list[list[int]] = TARGETS
) -> dict[int, list[int]]:
    parrot = Parrot()
    forced_logits(parrot, batch_of(sources, targets), probability)
    return parrot.read


UNIQUE = [[3], [5], [9], [8]]


def test_a_teacher_gives_the_true_tokens() -> None:
    assert read(0.0, UNIQUE) == {3: [1, 3, 5], 5: [1, 7], 9: [1, 4, 6, 8, 10], 8: [1]}


def test_free_reads_its_own_predictions() -> None:
    assert read(1.0, UNIQUE) == {3: [1, 2, 3], 5: [1, 2], 9: [1, 2, 3, 4, 5], 8: [1]}


def test_scheduled_reads_either_with_its_share() -> None:
    """From 0 the parrot says 1, 2, … while the true token is always 0: what was read tells which it was."""
    torch.manual_seed(1)
    rows = 400
    sources, targets = [[row] for row in range(rows)], [[0] * 6 for _ in range(rows)]
    seen = read(0.3, sources, targets)
    assert all(tokens[0] == BEGIN for tokens in seen.values())
    own = 0
    for tokens in seen.values():
        for before, token in pairwise(tokens):
            assert token in (0, before + 1)
            own += token != 0
    assert own / (rows * 5) == pytest.approx(0.3, abs=0.04)


def test_chance_is_the_global_seeds() -> None:
    def once(seed: int) -> dict[int, list[int]]:
        torch.manual_seed(seed)
        return read(0.5, UNIQUE)

    assert once(3) == once(3)
    assert any(once(3) != once(seed) for seed in range(4, 12))


STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 1, "feed_forward": 7}
TRANSFORMERS = {
    "transformer": {"encoder": STACK, "decoder": STACK},
    "rotary": {"encoder": STACK, "decoder": {**STACK, "positions": "rotary"}},
    "prefix": {"kind": "prefix_lm", "decoder": {**STACK, "positions": "relative"}},
    "gru to transformer": {"encoder": {"kind": "gru", "hidden": 8}, "decoder": STACK},
}


@pytest.fixture(scope="module", params=["none", "after", "feeding", "before", *TRANSFORMERS])
def model(request: pytest.FixtureRequest) -> Model:
    if request.param in TRANSFORMERS:
        settings = ModelSettings.model_validate({"embedding": 5, "dropout": 0.0, **TRANSFORMERS[request.param]})
        return build_model(settings, source_size=VOCABULARY, target_size=VOCABULARY, seed=3).double()
    settings = ModelSettings.model_validate(
        {
            "embedding": 5,
            "dropout": 0.0,
            "encoder": {"kind": "gru", "hidden": 6},
            "decoder": {"hidden": 7, "input_feeding": request.param == "feeding"},
            "attention": {
                "score": "none" if request.param == "none" else "general",
                "placement": "before" if request.param == "before" else "after",
            },
        }
    )
    return build_model(settings, source_size=VOCABULARY, target_size=VOCABULARY, seed=3).double()


def test_steps_on_true_tokens_give_the_teachers_logits_and_gradients(model: Model) -> None:
    """A share so small that it never comes up takes the road of steps."""
    parameters = list(model.parameters())
    taught = forced_logits(model, batch_of())
    stepped = forced_logits(model, batch_of(), 1e-12)
    torch.testing.assert_close(stepped, taught)
    probe = torch.linspace(-1, 1, taught.numel(), dtype=torch.float64).view_as(taught)
    found = torch.autograd.grad((stepped * probe).sum(), parameters)
    torch.testing.assert_close(found, torch.autograd.grad((taught * probe).sum(), parameters))


def test_free_logits_equal_those_of_forcing_its_predictions(model: Model) -> None:
    batch = batch_of()
    with torch.no_grad():
        free_NV = forced_logits(model, batch, 1.0)
        predicted = batch.target.like(free_NV.argmax(-1))
        torch.testing.assert_close(forced_logits(model, batch._replace(target=predicted)), free_NV)


def test_company_changes_nothing(model: Model) -> None:
    with torch.no_grad():
        together = batch_of().target.like(forced_logits(model, batch_of(), 1.0))
        for source, target, logits_TV in zip(SOURCES, TARGETS, together.split(), strict=True):
            torch.testing.assert_close(forced_logits(model, batch_of([source], [target]), 1.0), logits_TV)
