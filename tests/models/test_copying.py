"""Copying against its equation, its loss against its logits, and the columns that source positions have."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import copying as oracle
from weft.attention.ragged_attention import alignment_weights
from weft.data.store.token_store import Batch
from weft.errors import SearchError
from weft.models.build import build_model
from weft.models.copying import CopyingSeq2Seq, CopyTable, first_positions
from weft.models.ensemble import Ensemble
from weft.models.interface import HasOutputLayer, HasTargetLogProbabilities
from weft.models.seq2seq import Seq2Seq
from weft.ragged import FixedLayout, Ragged
from weft.recipe import ModelSettings
from weft.text.specials import BEGIN, END
from weft.training.loss import IGNORE_INDEX, batch_loss, cross_entropy

SOURCE_WORDS = ["<unk>", "<s>", "</s>", "the", "cat", "sees", "Ann", "old"]
TARGET_WORDS = ["<unk>", "<s>", "</s>", "Ann", "voit", "chat", "le", "Bob", "vieux", "Eve", "trop"]
VS, VT = len(SOURCE_WORDS), len(TARGET_WORDS)
TABLE = CopyTable([TARGET_WORDS.index(word) if word in ("</s>", "Ann") else -1 for word in SOURCE_WORDS], own_ids=True)
TEXTS = ["Ann Zoe cat Bob Zoe cat </s>", "Kim sees Kim </s>", "Eve </s>"]
OUTPUTS = ["Zoe le chat Ann </s>", "Kim </s>", "Eve Eve Eve Eve trop </s>"]

TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 2, "feed_forward": 7}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "after": {"decoder": {"hidden": 5}},
    "feeding": {"decoder": {"hidden": 5, "input_feeding": True}},
    "before": {"decoder": {"hidden": 5}, "attention": {"placement": "before"}},
    "sparsemax": {"decoder": {"hidden": 5}, "attention": {"normalizer": "sparsemax"}},
    "transformer": {"encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "recurrent-to-transformer": {"decoder": TRANSFORMER},
    "tied": {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "tie": "target"},
}
architectures = pytest.mark.parametrize("name", ARCHITECTURES)


def source_ids(text: str) -> list[int]:
    """Ids as `weft.text.copying` defines them."""
    own: list[str] = []
    ids = []
    for word in text.split():
        if word in SOURCE_WORDS:
            ids.append(SOURCE_WORDS.index(word))
        elif word in TARGET_WORDS:
            ids.append(VS + TARGET_WORDS.index(word))
        else:
            own += [] if word in own else [word]
            ids.append(VS + VT + own.index(word))
    return ids


def target_ids(text: str, source: str) -> list[int]:
    words = source.split()
    return [TARGET_WORDS.index(word) if word in TARGET_WORDS else VT + words.index(word) for word in text.split()]


SOURCE = Ragged.of([source_ids(text) for text in TEXTS])
TARGET = Ragged.of([target_ids(output, text) for output, text in zip(OUTPUTS, TEXTS, strict=True)])
INPUTS = TARGET.shifted(BEGIN)


def build(name: str, *, table: CopyTable = TABLE, **changes: Any) -> CopyingSeq2Seq:
    content = {"embedding": 5, "dropout": 0.0, "copy": True, "encoder": {"hidden": 6}, **ARCHITECTURES[name], **changes}
    settings = ModelSettings.model_validate(content)
    model = build_model(settings, source_size=VS, target_size=VT, seed=5).double()
    assert isinstance(model, CopyingSeq2Seq)
    model.set_table(table)
    with torch.no_grad():
        model.gate.weight_D.mul_(5)
        model.gate.bias.fill_(0.3)
    return model


def literal(model: CopyingSeq2Seq, row: int) -> list[dict[str, float]]:
    """The distributions of every position of a row, by the equation; states and weights are those of the network."""
    network = Seq2Seq(
        source_embedding=model.source_embedding,
        target_embedding=model.target_embedding,
        encoder=model.encoder,
        decoder=model.decoder,
        output=model.output,
    )
    source = Ragged.of([[id if id < VS else 0 for id in source_ids(TEXTS[row])]])
    inputs = Ragged.of([[id if id < VT else 0 for id in INPUTS.split()[row].tolist()]])
    hidden = network.hidden_states(source, inputs, return_attention=True)
    logits_TV = network.output(hidden.states.values).tolist()
    distributions = []
    for time, state in enumerate(hidden.states.values.tolist()):
        if model.copy_attention is None:
            weights = hidden.attention[-1].weights_BHTS[0, 0, time].tolist()
        else:
            states = model.encoder(model.source_embedding.ragged(source)).states.values.tolist()
            query, key = model.copy_attention.query_projection, model.copy_attention.key_projection
            weights = oracle.attention(state, states, query.weight.tolist(), key.weight.tolist())
        gate = oracle.gate(state, model.gate.weight_D.tolist(), model.gate.bias.item())
        logits = dict(zip(TARGET_WORDS, logits_TV[time], strict=True))
        distributions.append(oracle.mixed(logits, weights, TEXTS[row].split(), gate))
    return distributions


@architectures
def test_the_equation(name: str) -> None:
    model = build(name).eval()
    with torch.no_grad():
        logits_NV = model(SOURCE, INPUTS).logits_NV
        for row, logits_TV in enumerate(INPUTS.like(logits_NV).split()):
            words = TEXTS[row].split()
            for found_V, expected in zip(logits_TV, literal(model, row), strict=True):
                named = dict(zip(TARGET_WORDS, found_V.exp().tolist(), strict=False))
                named |= {
                    word: found_V[VT + words.index(word)].exp().item() for word in words if word not in TARGET_WORDS
                }
                assert named == pytest.approx(expected, abs=1e-12)
                assert sum(named.values()) == pytest.approx(1.0), "no other token has any probability"
                assert found_V.logsumexp(-1).item() == pytest.approx(0.0, abs=1e-12)


@architectures
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_logits(name: str, smoothing: float) -> None:
    """Value and gradient; smoothing is of the mixture without copies, log (g · p_vocabulary)."""
    model = build(name)
    assert isinstance(model, HasTargetLogProbabilities) and not isinstance(model, HasOutputLayer)
    output = model(SOURCE, INPUTS)
    plain = cross_entropy(output.logits_NV, TARGET.values)
    smoothed = plain.smoothed
    if smoothing:
        states = model._decode(SOURCE, INPUTS, False).states.values
        uniform = (model.gate(states).sigmoid()[:, None] * model.output(states).softmax(-1)).log().mean(-1).sum()
        smoothed = (1 - smoothing) * smoothed - smoothing * uniform
    loss = batch_loss(model, Batch(SOURCE, TARGET), smoothing=smoothing)
    torch.testing.assert_close(loss.negative_log_likelihood, plain.negative_log_likelihood)
    torch.testing.assert_close(loss.smoothed, smoothed)
    parameters = list(model.parameters())
    found = torch.autograd.grad(loss.smoothed, parameters)
    torch.testing.assert_close(found, torch.autograd.grad(smoothed, parameters))


@pytest.mark.parametrize("name", ["feeding", "transformer"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    model = build(name)
    inputs = [model.gate.weight_D, model.output.bias_V]

    def loss(*parameters: Tensor) -> Tensor:
        return batch_loss(model, Batch(SOURCE, TARGET), smoothing=0.1).smoothed

    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize("name", ["after", "transformer"])
def test_the_loss_without_gradients_is_the_same(name: str) -> None:
    """Though its output layer is computed differently."""
    model = build(name).eval()
    expected = model.target_log_probabilities(SOURCE, INPUTS, TARGET.values, smoothing=0.1)
    with torch.no_grad():
        found = model.target_log_probabilities(SOURCE, INPUTS, TARGET.values, smoothing=0.1)
    assert expected.uniform_N is not None
    torch.testing.assert_close(found.log_p_N, expected.log_p_N.detach())
    torch.testing.assert_close(found.uniform_N, expected.uniform_N.detach())


def test_smoothing_leaves_a_probability_to_generate_what_could_be_copied() -> None:
    """One state alone: a token that is always copied with α = 1. The best gate is g = ε, and not 0."""
    model = build("transformer")
    source, target = Ragged.of([[END]]), Ragged.of([[END]])
    with torch.no_grad():
        model.gate.weight_D.zero_()
        model.output.weight_VD.zero_()
        model.output.bias_V.zero_().index_fill_(0, torch.tensor([END]), -50.0)
    losses = []
    for gate in (0.01, 0.1, 0.3):
        with torch.no_grad():
            model.gate.bias.fill_(math.log(gate / (1 - gate)))
        losses.append(batch_loss(model, Batch(source, target), smoothing=0.1).smoothed.item())
    assert losses[1] < min(losses[0], losses[2])


@pytest.mark.parametrize("normalizer", ["softmax", "entmax15"])
def test_the_weights_of_copies_are_in_float32_under_autocast(normalizer: str) -> None:
    model = build("transformer", attention={"normalizer": normalizer}).float().eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        memory = model.encode(SOURCE)
        weights_RS = model.step(torch.full((len(TEXTS),), BEGIN), model.start(memory), memory).attention_RS
        weights_BTS = model._decode(SOURCE, INPUTS, False).weights_BTS
    assert weights_RS is not None and weights_RS.dtype == torch.float32
    torch.testing.assert_close(weights_RS.sum(-1), torch.ones(len(TEXTS)))
    torch.testing.assert_close(weights_BTS[:, 0].sum(-1), torch.ones(len(TEXTS)))


@pytest.mark.parametrize(("normalizer", "is_sparse"), [("softmax", False), ("sparsemax", True)])
@torch.no_grad()
def test_the_normalizer_of_the_copy_attention(normalizer: str, is_sparse: bool) -> None:
    model = build("transformer", attention={"normalizer": normalizer}).eval()
    assert model.copy_attention is not None
    model.copy_attention.query_projection.weight.mul_(20.0)
    weights_TS = model._decode(SOURCE, INPUTS, False).weights_BTS[0]
    assert bool((weights_TS == 0).any()) == is_sparse


def test_ignored_targets_have_no_loss() -> None:
    model = build("transformer")
    inputs, source = INPUTS.select(torch.tensor([0, 1])), SOURCE.select(torch.tensor([0, 1]))
    targets_N = TARGET.select(torch.tensor([0, 1])).values.clone()
    targets_N[-2:] = IGNORE_INDEX
    found = model.target_log_probabilities(source, inputs, targets_N, smoothing=0.1)
    assert found.log_p_N.isfinite().all() and found.uniform_N is not None and found.uniform_N.isfinite().all()


def test_a_target_that_cannot_be_copied_has_a_finite_loss() -> None:
    """With a sparse attention the weight of the one token that could be copied may be exactly zero."""
    model = build("sparsemax")
    with torch.no_grad():
        for parameter in model.decoder.attention.parameters():  # type: ignore[union-attr]
            parameter.mul_(100.0)
    weights_BTS = alignment_weights(model(SOURCE, INPUTS, return_attention=True).attention, SOURCE.layout)
    assert weights_BTS is not None
    zero = int(weights_BTS[0, 0].argmin())
    assert weights_BTS[0, 0, zero] == 0
    targets_N = TARGET.values.clone()
    targets_N[0] = VT + zero
    found = model.target_log_probabilities(SOURCE, INPUTS, targets_N, smoothing=0.0).log_p_N
    gradients = torch.autograd.grad(found.sum(), list(model.parameters()))
    assert found.isfinite().all() and all(gradient.isfinite().all() for gradient in gradients)


def test_without_own_ids_a_token_without_counterpart_counts_as_unknown() -> None:
    model = build("after", table=TABLE._replace(own_ids=False)).eval()
    with torch.no_grad():
        logits_NV = model(SOURCE, INPUTS).logits_NV
        assert logits_NV.shape[1] == VT
        for row, logits_TV in enumerate(INPUTS.like(logits_NV).split()):
            for found_V, by_word in zip(logits_TV, literal(model, row), strict=True):
                expected = dict.fromkeys(TARGET_WORDS, 0.0)
                for word, p in by_word.items():
                    expected[word if word in TARGET_WORDS else "<unk>"] += p
                assert dict(zip(TARGET_WORDS, found_V.exp().tolist(), strict=True)) == pytest.approx(expected)


def test_a_window_that_reduces_the_weights_still_gives_probabilities() -> None:
    model = build("after", attention={"window": "predictive", "window_size": 2}).eval()
    output = model(SOURCE, INPUTS, return_attention=True)
    assert output.attention[-1].weights_BHTS.sum(-1).max() < 0.999
    torch.testing.assert_close(output.logits_NV.exp().sum(-1), torch.ones(len(INPUTS.values), dtype=torch.float64))


def test_the_alignment_is_what_is_copied_from() -> None:
    """Of a Transformer, the weights of its copy attention and not those of a layer."""
    model = build("transformer").eval()
    records = model(SOURCE, INPUTS, return_attention=True).attention
    assert [record.kind for record in records].count("cross") == 2 and records[-1].kind == "copy"
    [alignment] = model(SOURCE, INPUTS, return_attention="alignment").attention
    weights_BTS = alignment_weights(records, SOURCE.layout)
    assert weights_BTS is not None
    torch.testing.assert_close(weights_BTS, alignment.weights_BHTS[:, 0])
    memory = model.encode(SOURCE)
    step = model.step(torch.full((3,), BEGIN), model.start(memory), memory)
    torch.testing.assert_close(step.attention_RS, weights_BTS[:, 0])


@pytest.mark.parametrize("name", ["after", "transformer"])
def test_where_probabilities_come_from(name: str) -> None:
    """The gate, and the share of p(y) that is copied: 1 for a token outside the vocabulary, 0 for one not in the
    source; with and without gradients, whose output layers are computed differently."""
    model = build(name).eval()
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            gates, copied = model.copy_probabilities(SOURCE, INPUTS, TARGET.values)
        shares = TARGET.like(copied).split()
        for row, output in enumerate(OUTPUTS):
            words = TEXTS[row].split()
            for word, share in zip(output.split(), shares[row].tolist(), strict=True):
                expected = 1.0 if word not in TARGET_WORDS else 0.0 if word not in words else None
                assert 0 < share < 1 if expected is None else share == expected
        states = model._decode(SOURCE, INPUTS, False).states.values.tolist()
        expected_gates = [oracle.gate(state, model.gate.weight_D.tolist(), model.gate.bias.item()) for state in states]
        assert gates.tolist() == pytest.approx(expected_gates)


def test_columns() -> None:
    """The target id; for a token that the target vocabulary lacks, Vt + the first position of that token."""
    columns_BS, first_BS = build("after")._columns(SOURCE)
    [row, *_] = columns_BS.tolist()
    ann, bob = TARGET_WORDS.index("Ann"), TARGET_WORDS.index("Bob")
    assert row == [ann, VT + 1, VT + 2, bob, VT + 1, VT + 2, END]
    assert first_BS[0].tolist() == [0, 1, 2, 3, 1, 2, 6]


def test_first_positions() -> None:
    torch.manual_seed(2)
    keys_BS = torch.randint(5, (7, 11))
    assert first_positions(keys_BS).tolist() == [[row.index(key) for key in row] for row in keys_BS.tolist()]


def test_a_fixed_layout_gives_the_same_loss() -> None:
    """As in updates that are captured as CUDA graphs: more rows and larger maximum lengths, padded targets ignored."""
    for name in ("before", "transformer"):
        model = build(name)
        expected = batch_loss(model, Batch(SOURCE, TARGET), smoothing=0.1).smoothed
        sides = []
        for side, longest, padding in ((SOURCE, 9, BEGIN), (INPUTS, 8, BEGIN), (TARGET, 8, IGNORE_INDEX)):
            layout = FixedLayout(torch.cat([side.lengths, torch.tensor([3, 0])]), longest=longest)
            sides.append(Ragged(torch.cat([side.values, torch.full((3,), padding)]), layout))
        source, inputs, target = sides
        found = model.target_log_probabilities(source, inputs, target.values, smoothing=0.1)
        assert found.uniform_N is not None
        real_N = target.values != IGNORE_INDEX
        smoothed = -(0.9 * found.log_p_N + 0.1 * found.uniform_N)[real_N].sum()
        torch.testing.assert_close(smoothed, expected)


def test_copying_changes_no_other_weight() -> None:
    settings = ModelSettings.model_validate({"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 5}})
    plain = build_model(settings, source_size=VS, target_size=VT)
    copying = build_model(settings.model_copy(update={"copies": True}), source_size=VS, target_size=VT)
    weights = dict(copying.named_parameters())
    assert set(weights) - {name for name, _ in plain.named_parameters()} == {"gate.weight_D", "gate.bias"}
    for name, parameter in plain.named_parameters():
        assert torch.equal(weights[name], parameter)


def test_an_ensemble_of_models_that_copy() -> None:
    members = [build("after").eval(), build("transformer").eval()]
    ensemble = Ensemble(members)
    plain = build_model(ModelSettings(embedding=4), source_size=VS, target_size=VT)
    with pytest.raises(SearchError) as caught:
        Ensemble([plain, *members])
    assert str(caught.value) == (
        "ensemble: model 2 copies from the source (model.copy), model 1 does not; use models that all do"
    )
    with torch.no_grad():
        mean = sum(member(SOURCE, INPUTS).logits_NV.exp() for member in members) / 2
        torch.testing.assert_close(ensemble(SOURCE, INPUTS).logits_NV.exp(), mean)


@pytest.mark.parametrize("source_size", [4, 6, 9])
def test_the_table_of_one_vocabulary(source_size: int) -> None:
    """The same ids from the end token on; tokens that the target does not have are copied as ids of their own."""
    table = CopyTable.joint(source_size, 6)
    assert table.own_ids
    assert END == 2 and list(table.target_ids) == [-1, -1, 2, 3, 4, 5, -1, -1, -1][:source_size]
