"""Hard attention that copies: likelihoods against the sum over all alignments and both origins of each token."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from oracles import hard_attention as oracle
from weft.models.build import build_model
from weft.models.copying import CopyTable
from weft.models.hard_copying import HardCopyingSeq2Seq, emitted
from weft.models.interface import HasCopyProbabilities
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import HARD_ALIGNMENTS
from weft.tree import repeat

TABLE = [-1, -1, 2, 3, 4, -1, 5, 6, 7]
"""Source id 5 is in no target vocabulary; 6, 7 and 8 have other ids there."""
SOURCE_SIZE, TARGET_SIZE = 9, 8
SOURCES = [[3, 6, 5, 2], [4, 2], [5, SOURCE_SIZE + TARGET_SIZE, 3, 3, 2]]
"""In the last one a token that neither vocabulary has."""
TARGETS = [[3, 5, TARGET_SIZE + 2, 2], [6, 2], [TARGET_SIZE + 1, 3, 3, 2]]
every_alignment = pytest.mark.parametrize("name", HARD_ALIGNMENTS)


def model_of(name: str, *, own_ids: bool = True) -> HardCopyingSeq2Seq:
    settings = ModelSettings.model_validate(
        {
            "embedding": 5,
            "dropout": 0.0,
            "copy": True,
            "encoder": {"hidden": 6},
            "decoder": {"hidden": 5},
            "attention": {"hard": name, "max_jump": 2},
        }
    )
    model = build_model(settings, source_size=SOURCE_SIZE, target_size=TARGET_SIZE, seed=3).double()
    assert isinstance(model, HardCopyingSeq2Seq)
    model.set_table(CopyTable(TABLE, own_ids=own_ids))
    torch.manual_seed(3)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


def copied_id(source: list[int], position: int) -> int:
    """What is written when a position is copied."""
    token = source[position]
    target = TABLE[token] if token < SOURCE_SIZE else token - SOURCE_SIZE
    return target if 0 <= target < TARGET_SIZE else TARGET_SIZE + source.index(token)


@torch.no_grad()
def likelihoods(model: HardCopyingSeq2Seq, source: list[int], target: list[int]) -> list[float]:
    """p(y_1 … y_t | x) for every t: g softmax + (1 − g) [y_t = x_j], summed over all alignments."""
    encoded = model.encoder(model._embed_source(Ragged.of([source])))
    states_TD = model.decoder(Ragged.of([target]).shifted(1).map(model._embed_target), encoded).states.values
    source_SD = encoded.states.values
    emission, gate = model.emission, model.emission.gate
    emissions = []
    for state, token in zip(states_TD, target, strict=True):
        emissions.append([])
        for position, source_state in enumerate(source_SD):
            read = torch.tanh(emission.queries(state) + emission.keys(source_state))
            g = 1 / (1 + math.exp(-float(read @ gate.weight_D + gate.bias)))
            words = (model.output.weight_VD @ read + model.output.bias_V).softmax(-1).tolist()
            generated = g * words[token] if token < TARGET_SIZE else 0.0
            emissions[-1].append(generated + (1 - g) * (copied_id(source, position) == token))
    alignment = model.alignment
    if alignment.is_stepwise and hasattr(alignment, "jumps"):
        hidden_TSA = torch.tanh(alignment.query_projection(states_TD)[:, None] + alignment.key_projection(source_SD))
        transition = oracle.first(alignment.jumps(hidden_TSA).tolist())
    else:
        scores = (states_TD @ alignment.score.weight_QK @ source_SD.T).tolist()
        transition = (oracle.monotonic if alignment.is_stepwise else oracle.zeroth)(scores)
    return [oracle.likelihood(transition, emissions, steps) for steps in range(1, len(target) + 1)]


def inputs_of(targets: list[list[int]]) -> Ragged:
    return Ragged.of(targets).shifted(1)


@every_alignment
@torch.no_grad()
def test_likelihoods_are_sums_over_alignments_and_origins(name: str) -> None:
    model = model_of(name)
    source, target = Ragged.of(SOURCES), Ragged.of(TARGETS)
    found = model.target_log_probabilities(source, inputs_of(TARGETS), target.values, smoothing=0.1)
    logits = target.like(model(source, inputs_of(TARGETS)).logits_NV).split()
    for row, log_p_T in enumerate(target.like(found.log_p_N).split()):
        expected = likelihoods(model, SOURCES[row], TARGETS[row])
        assert log_p_T.cumsum(0).exp().tolist() == pytest.approx(expected, rel=1e-9)
        assert logits[row].shape[1] == TARGET_SIZE + max(map(len, SOURCES))
        assert logits[row].exp().sum(-1).tolist() == pytest.approx([1.0] * len(TARGETS[row]))
        torch.testing.assert_close(logits[row].gather(1, torch.tensor(TARGETS[row])[:, None])[:, 0], log_p_T)
        memory = repeat(model.encode(Ragged.of([SOURCES[row]])), 2)
        state = model.start(memory)
        for time, token in enumerate([1, *TARGETS[row][:-1]]):
            logits_RV, state, _ = model.step(torch.tensor([token, token]), state, memory)
            width = logits_RV.shape[1]
            torch.testing.assert_close(logits_RV[1], logits[row][time, :width])
            assert (logits[row][time, width:] == -math.inf).all()


@every_alignment
@torch.no_grad()
def test_smoothing_is_that_of_the_logits_where_no_token_of_the_vocabulary_can_be_copied(name: str) -> None:
    model = model_of(name)
    source, target = Ragged.of([[5, 5, 5]]), Ragged.of([[3, TARGET_SIZE, 2]])
    inputs = target.shifted(1)
    found = model.target_log_probabilities(source, inputs, target.values, smoothing=0.1).uniform_N
    torch.testing.assert_close(found, model(source, inputs).logits_NV[:, :TARGET_SIZE].mean(-1))


@every_alignment
def test_gradients(name: str) -> None:
    """By finite differences along a direction; of the loss and of the logits."""
    model = model_of(name)
    parameters = list(model.parameters())
    source, target = Ragged.of(SOURCES), Ragged.of(TARGETS)

    def values() -> tuple[Tensor, Tensor]:
        found = model.target_log_probabilities(source, inputs_of(TARGETS), target.values, smoothing=0.1)
        assert found.uniform_N is not None
        logits_NV = model(source, inputs_of(TARGETS)).logits_NV
        return found.log_p_N.sum() + 0.1 * found.uniform_N.sum(), logits_NV.exp().square().sum()

    gradients = [torch.autograd.grad(value, parameters, allow_unused=True) for value in values()]
    assert all(gradient is not None and gradient.any() for gradient in gradients[0])
    directions = [torch.randn_like(parameter) for parameter in parameters]
    shifted = []
    for shift in (1e-6, -2e-6):
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter += shift * direction
            shifted.append(values())
    for which, gradient in enumerate(gradients):
        along = sum((one * other).sum().item() for one, other in zip(gradient, directions, strict=True))
        assert (shifted[0][which] - shifted[1][which]).item() / 2e-6 == pytest.approx(along, rel=1e-5)


def test_a_token_that_cannot_be_written_stays_finite() -> None:
    """Copied from a position that a monotonic alignment has passed, for certain."""
    generated_NS = torch.tensor([[-1.0, -2.0]])
    gates_NS = torch.tensor([[0.0, 3.0]])
    found = emitted(generated_NS, gates_NS, torch.tensor([9]), torch.tensor([[9, 4]]), size=8)
    assert found[0, 0].item() == pytest.approx(math.log(0.5)) and -100 < found[0, 1].item() < -80
    known = emitted(generated_NS, gates_NS, torch.tensor([4]), torch.tensor([[9, 4]]), size=8)
    half, share = math.log(0.5), 1 / (1 + math.exp(-3))
    assert known[0].tolist() == pytest.approx([-1 + half, math.log(share * math.exp(-2) + 1 - share)])


@pytest.mark.parametrize(("token", "generated"), [(7, True), (8, False), (9, False)])
def test_tokens_of_the_vocabulary_are_generated(token: int, generated: bool) -> None:
    """Of 8 tokens: log(g p(y_t)), where nothing can be copied; what is not in the vocabulary is not generated."""
    for gate in (-2.0, 0.0, 3.0):
        gates_NS = torch.full((1, 2), gate, dtype=torch.float64)
        log_p_NS = torch.tensor([[-1.0, -2.5]], dtype=torch.float64)
        found = emitted(log_p_NS, gates_NS, torch.tensor([token]), torch.tensor([[3, 4]]), size=8)[0].tolist()
        share = math.log(1 / (1 + math.exp(-gate)))
        assert found == pytest.approx([-1.0 + share, -2.5 + share]) if generated else max(found) < -700


def test_without_own_ids_an_unknown_token_is_copied_as_the_unknown_token() -> None:
    model = model_of("first", own_ids=False)
    logits_NV = model(Ragged.of([[3, 5, 2]]), inputs_of([[3, 0, 2]])).logits_NV
    assert logits_NV.shape[1] == TARGET_SIZE
    assert logits_NV.exp().sum(-1).tolist() == pytest.approx([1.0] * 3)


@every_alignment
@torch.no_grad()
def test_the_share_that_was_copied(name: str) -> None:
    """What is left of p(y_t) when nothing is copied, where all tokens before were the same."""
    model = model_of(name)
    source, target = Ragged.of(SOURCES), Ragged.of(TARGETS)
    found = model.copy_probabilities(source, inputs_of(TARGETS), target.values)
    assert isinstance(model, HasCopyProbabilities)
    aligned = model._align(source, inputs_of(TARGETS), target.values, False)
    weights_NS, gates_NS = aligned.log_weights_NS.exp(), aligned.emissions.gates().sigmoid()
    log_p_N = model.target_log_probabilities(source, inputs_of(TARGETS), target.values, smoothing=0.0).log_p_N
    for index, (row, token) in enumerate((row, token) for row, tokens in enumerate(TARGETS) for token in tokens):
        positions = range(len(SOURCES[row]))
        expected = sum(
            weights_NS[index, j].item() * (1 - gates_NS[index, j].item())
            for j in positions
            if copied_id(SOURCES[row], j) == token
        )
        assert found.copied_N[index].item() == pytest.approx(expected / log_p_N[index].exp().item(), rel=1e-9)
        mean = sum(weights_NS[index, j].item() * gates_NS[index, j].item() for j in positions)
        assert found.gates_N[index].item() == pytest.approx(mean, rel=1e-9)
    only_copied = target.values >= TARGET_SIZE
    assert found.copied_N[only_copied].tolist() == pytest.approx([1.0] * int(only_copied.sum()))
