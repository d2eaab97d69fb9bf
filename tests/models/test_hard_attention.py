"""Hard attention: likelihoods against the sum over all alignments, for training, whole targets and single steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles import hard_attention as oracle
from weft.data.store.token_store import Batch
from weft.models import hard_attention
from weft.models.build import build_model
from weft.models.hard_attention import HardAttentionSeq2Seq, StateDecoder
from weft.models.interface import HasOutputLayer, HasTargetLogProbabilities
from weft.models.recurrent_decoder import RecurrentDecoder
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import HARD_ALIGNMENTS
from weft.text.specials import END
from weft.training.loss import IGNORE_INDEX, batch_loss, cross_entropy

SOURCES = [[3, 7, 5], [11, 4], [4, 9, 3, 12]]
TARGETS = [[5, 8, 2], [9, 4, 6, 2], [7, 2]]
COLUMN_SOURCES = [[3, 7, END, 5, END], [END, 4, END], [4, END, 9, 3, 12, END]]
every_alignment = pytest.mark.parametrize("name", HARD_ALIGNMENTS)


def model_of(name: str, *, dropout: float = 0.0, **changes: Any) -> HardAttentionSeq2Seq:
    settings = {
        "embedding": 5,
        "dropout": dropout,
        "encoder": {"hidden": 6},
        "decoder": {"hidden": 5},
        "attention": {"hard": name, "max_jump": 2},
        **changes,
    }
    model = build_model(ModelSettings.model_validate(settings), source_size=13, target_size=11, seed=11).double()
    assert isinstance(model, HardAttentionSeq2Seq)
    torch.manual_seed(12)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


def batch() -> Batch:
    return Batch(Ragged.of(SOURCES), Ragged.of(TARGETS))


def transition_of(model: HardAttentionSeq2Seq, states_TD: Tensor, source_SD: Tensor) -> oracle.Transition:
    alignment = model.alignment
    if isinstance(alignment, nn.Module) and hasattr(alignment, "jumps"):
        projected_TSA = alignment.query_projection(states_TD)[:, None] + alignment.key_projection(source_SD)
        return oracle.first(alignment.jumps(torch.tanh(projected_TSA)).tolist())
    scores = (states_TD @ alignment.score.weight_QK @ source_SD.T).tolist()
    return (oracle.monotonic if alignment.is_stepwise else oracle.zeroth)(scores)


@torch.no_grad()
def expected_likelihood(model: HardAttentionSeq2Seq, source: list[int], target: list[int]) -> float:
    """p(y | x), by enumeration of all alignments; of several source columns, with the first."""
    encoded = model.encoder(model.source_embedding.ragged(Ragged.of([source])))
    aligned_SD = encoded.states.values
    if encoded.columns_N is not None:
        aligned_SD = aligned_SD[: source.index(END) + 1]
    inputs = Ragged.of([target]).shifted(1)
    states_TD = model.decoder(model.target_embedding.ragged(inputs), encoded).states.values
    weights = {
        "queries": model.emission.queries.weight.tolist(),
        "bias": model.emission.queries.bias.tolist(),
        "keys": model.emission.keys.weight.tolist(),
        "output": model.output.weight_VD.tolist(),
    }
    bias = model.output.bias_V.tolist()
    emissions = [
        [oracle.emission(state, source_state, weights, bias)[token] for source_state in aligned_SD.tolist()]
        for state, token in zip(states_TD.tolist(), target, strict=True)
    ]
    return oracle.likelihood(transition_of(model, states_TD, aligned_SD), emissions, len(target))


@every_alignment
@pytest.mark.parametrize("encoders", [None, "separate", "joint"])
@torch.no_grad()
def test_likelihoods_are_sums_over_all_alignments(name: str, encoders: str | None) -> None:
    """``encoders``: of two source columns; None: one source."""
    sources = SOURCES if encoders is None else COLUMN_SOURCES
    columns = {} if encoders is None else {"sources": {"count": 2, "encoders": encoders}}
    model = model_of(name, **columns)
    expected = [expected_likelihood(model, source, target) for source, target in zip(sources, TARGETS, strict=True)]
    source, target = Ragged.of(sources), Ragged.of(TARGETS)
    inputs = target.shifted(1)
    found = model.target_log_probabilities(source, inputs, target.values, smoothing=0.1)
    assert [math.exp(row.sum()) for row in target.like(found.log_p_N).split()] == pytest.approx(expected, rel=1e-9)
    logits_NV = model(source, inputs).logits_NV
    assert logits_NV.exp().sum(-1).tolist() == pytest.approx([1.0] * len(logits_NV))  # they are log-probabilities
    torch.testing.assert_close(found.log_p_N, logits_NV.gather(1, target.values[:, None])[:, 0])
    torch.testing.assert_close(found.uniform_N, logits_NV.mean(-1))
    for row, (tokens, memory) in enumerate(
        (target, model.encode(Ragged.of([source]))) for source, target in zip(sources, TARGETS, strict=True)
    ):
        state, total = model.start(memory), 0.0
        for before, token in zip([1, *tokens], tokens, strict=False):
            output = model.step(torch.tensor([before]), state, memory)
            state, total = output.state, total + output.logits_RV[0, token].item()
        assert math.exp(total) == pytest.approx(expected[row], rel=1e-9)


@every_alignment
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_logits(name: str, smoothing: float) -> None:
    model = model_of(name, tie="target")
    source, target = batch()
    loss = batch_loss(model, batch(), smoothing=smoothing)
    expected = cross_entropy(model(source, target.shifted(1)).logits_NV, target.values, smoothing=smoothing)
    parameters = list(model.parameters())
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        torch.autograd.grad(loss.smoothed, parameters), torch.autograd.grad(expected.smoothed, parameters)
    )


@every_alignment
def test_gradients_by_finite_differences(name: str) -> None:
    """Of all parameters, along a few directions."""
    model = model_of(name)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(batch_loss(model, batch(), smoothing=0.1).smoothed, parameters)
    for _ in range(3):
        directions = [torch.randn_like(parameter) for parameter in parameters]
        losses = []
        for shift in (1e-6, -2e-6):
            with torch.no_grad():
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter += shift * direction
                losses.append(batch_loss(model, batch(), smoothing=0.1).smoothed.item())
        along = sum((one * other).sum().item() for one, other in zip(gradients, directions, strict=True))
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter += 1e-6 * direction
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(along, rel=1e-5)


@every_alignment
def test_chunks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither values nor gradients, with dropout too: its factors are drawn once, before any chunk."""
    model = model_of(name, dropout=0.3).train()
    parameters = list(model.parameters())
    results = []
    for values in (1 << 24, 200):
        monkeypatch.setattr(hard_attention, "CHUNK_VALUES", values)
        torch.manual_seed(7)
        loss = batch_loss(model, batch(), smoothing=0.1)
        results.append((loss, torch.autograd.grad(loss.smoothed, parameters)))
        with torch.no_grad():
            model.eval()
            results[-1] += (model(batch().source, batch().target.shifted(1)).logits_NV,)
            memory = model.encode(batch().source)
            results[-1] += (model.step(torch.tensor([1, 1, 1]), model.start(memory), memory),)
            model.train()
    torch.testing.assert_close(results[0], results[1])


def test_dropout_is_shared_by_the_positions_of_a_step() -> None:
    emission = model_of("zeroth", dropout=0.5).emission.train()
    torch.manual_seed(1)
    emissions = hard_attention.Emissions(
        emission, torch.randn(4, 5).double(), torch.randn(2, 3, 5).double(), torch.tensor([0, 1, 1, 0])
    )
    assert emissions.factors_ND is not None and set(emissions.factors_ND.unique().tolist()) == {0.0, 2.0}
    hidden_NSD = emission.hidden(emissions.query_ND, emissions.keys_BSD[emissions.row_ids], emissions.factors_ND)
    assert ((hidden_NSD == 0) == (emissions.factors_ND == 0)[:, None]).all()
    emission.eval()
    assert (
        hard_attention.Emissions(
            emission, torch.zeros(4, 5).double(), torch.zeros(1, 3, 5).double(), torch.zeros(4, dtype=torch.int64)
        ).factors_ND
        is None
    )


def test_padding_targets_do_not_count() -> None:
    model = model_of("first")
    source, target = batch()
    ignored_N = target.values.masked_fill(target.layout.row_ids == 1, IGNORE_INDEX)
    found = model.target_log_probabilities(source, target.shifted(1), ignored_N, smoothing=0.0)
    whole = model.target_log_probabilities(source, target.shifted(1), target.values, smoothing=0.0)
    assert found.log_p_N.isfinite().all() and found.uniform_N is None
    kept = target.layout.row_ids != 1
    torch.testing.assert_close(found.log_p_N[kept], whole.log_p_N[kept])


def test_the_loss_is_computed_without_an_output_layer() -> None:
    model = model_of("monotonic")
    assert isinstance(model, HasTargetLogProbabilities) and not isinstance(model, HasOutputLayer)


def test_attention_with_the_loss_has_a_gradient() -> None:
    model = model_of("monotonic")
    plain, covered = (batch_loss(model, batch(), coverage=coverage).smoothed for coverage in (0.0, 1.0))
    assert covered > plain and torch.autograd.grad(covered - plain, model.alignment.score.weight_QK)[0].any()


@torch.no_grad()
def test_the_other_columns_are_an_input_of_every_step() -> None:
    """The weights are on the first column; another feature changes the state after any number of steps."""
    model = model_of("first", sources={"count": 2})
    assert model.decoder.feeds_summary and model.decoder.readout is None
    memories = [model.encode(Ragged.of([source])) for source in ([3, 7, END, 5, END], [3, 7, END, 9, END])]
    initial = model.start(memories[0])
    outputs = [model.step(torch.tensor([4]), initial, memory) for memory in memories]
    for output in outputs:
        assert output.attention_RS[0, :3].sum().item() == pytest.approx(1) and not output.attention_RS[0, 3:].any()
    difference = outputs[0].state.decoder.layers[0][0] - outputs[1].state.decoder.layers[0][0]
    assert difference.abs().max() > 1e-3


@pytest.mark.parametrize("columns", [1, 2])
def test_initial_weights_follow_the_random_numbers_of_a_readout(columns: int) -> None:
    """The decoder has no readout, but the weights that are made after it are those of a decoder that has one."""
    settings = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 7}, "sources": {"count": columns}}
    hard = ModelSettings.model_validate({**settings, "attention": {"hard": "first"}})
    summary = {"decoder": {"hidden": 7, "feed_summary": columns > 1}}
    soft = ModelSettings.model_validate({**settings, **summary, "attention": {"score": "none"}})
    torch.manual_seed(3)
    readout = RecurrentDecoder(soft, size=7).readout
    expected = torch.rand(1)
    torch.manual_seed(3)
    decoder = StateDecoder(hard)
    assert (readout is None) == (columns == 1) and decoder.readout is None
    assert torch.rand(1) == expected
