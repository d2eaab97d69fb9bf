"""Edited attention: each edit against a model that was changed by hand, and stepping that gives what forward gives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from weft.attention.edits import AttentionEdits, AttentionRow, Head
from weft.attention.ragged_attention import alignment_weights
from weft.errors import SearchError
from weft.models.build import build_model
from weft.models.edited import edit_attention
from weft.models.ensemble import Ensemble
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.search.beam import beam_search
from weft.search.interface import SearchRequest

SOURCE, INPUTS = [3, 7, 5, 4, 2], [1, 5, 8, 6, 9, 4, 10]
STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 7}
KINDS: dict[str, dict[str, Any]] = {
    "before": {"encoder": {"hidden": 6}, "decoder": {"hidden": 5}, "attention": {"placement": "before"}},
    "after": {"encoder": {"hidden": 6}, "decoder": {"hidden": 6}, "attention": {"score": "dot"}},
    "feeding": {
        "encoder": {"hidden": 6, "kind": "lstm"},
        "decoder": {"hidden": 5, "kind": "lstm", "input_feeding": True},
    },
    "coverage": {
        "encoder": {"hidden": 6},
        "decoder": {"hidden": 5},
        "attention": {"score": "additive", "coverage": "sum", "placement": "before"},
    },
    "recurrent copying": {"encoder": {"hidden": 6}, "decoder": {"hidden": 5}, "copy": True},
    "transformer": {"encoder": STACK, "decoder": STACK},
    "shared heads": {"encoder": STACK, "decoder": {**STACK, "key_value_heads": 1, "positions": "rotary"}},
    "copying": {"encoder": STACK, "decoder": STACK, "copy": True},
    "prefix": {"kind": "prefix_lm", "decoder": STACK},
    "sparse": {"encoder": STACK, "decoder": STACK, "attention": {"normalizer": "entmax15"}},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
ROW = AttentionRow(2, (0.0, 0.5, 0.25, 0.25, 0.0))
EDITS = {
    "blocked": AttentionEdits(blocked=(1, 3)),
    "row": AttentionEdits(rows=(ROW, AttentionRow(4, (2.0, 0.0, 0.0, 2.0, 0.0)))),
    "both": AttentionEdits(blocked=(0,), rows=(ROW,)),
}


def make(settings: dict[str, Any], seed: int = 3) -> Model:
    """In double precision, and decided."""
    checked = ModelSettings.model_validate({"embedding": 6, "dropout": 0.0, **settings})
    model = build_model(checked, source_size=13, target_size=13, seed=seed).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def forward(model: Model) -> tuple[torch.Tensor, torch.Tensor]:
    source = Ragged.of([SOURCE])
    output = model(source, Ragged.of([INPUTS]), return_attention=True)
    weights_BTS = alignment_weights(output.attention, source.layout)
    return output.logits_NV.log_softmax(-1), weights_BTS[0]


def stepped(model: Model, hypotheses: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    from weft.tree import repeat

    memory = model.encode(Ragged.of([SOURCE]))
    state = repeat(model.start(memory), hypotheses)
    logits, weights = [], []
    for token in INPUTS:
        logits_RV, state, weights_RS = model.step(torch.full((hypotheses,), token), state, memory)
        logits.append(logits_RV[-1].log_softmax(-1))
        weights.append(weights_RS[-1])
    return torch.stack(logits), torch.stack(weights)


@torch.no_grad()
@every_kind
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_steps_give_what_forward_gives(kind: str, edits: AttentionEdits) -> None:
    edited = edit_attention(make(KINDS[kind]), edits)
    for by_steps, whole in zip(stepped(edited), forward(edited), strict=True):
        torch.testing.assert_close(by_steps, whole[:, : by_steps.shape[1]])


@torch.no_grad()
@every_kind
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_the_edited_weights_are_those_that_are_read(kind: str, edits: AttentionEdits) -> None:
    model = make(KINDS[kind])
    log_probs, weights = stepped(edit_attention(model, edits))
    assert not torch.allclose(log_probs[2:], stepped(model)[0][2:])
    torch.testing.assert_close(weights.sum(1), torch.ones(len(INPUTS)).double())
    for row in edits.rows:
        torch.testing.assert_close(weights[row.step], torch.tensor(row.weights).double() / sum(row.weights))
    kept = [step for step in range(len(INPUTS)) if step not in {row.step for row in edits.rows}]
    assert not weights[kept][:, list(edits.blocked)].any()
    torch.testing.assert_close(stepped(model), stepped(make(KINDS[kind])), rtol=0, atol=0)  # untouched


@torch.no_grad()
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("sparse", "coverage", "copying", "prefix")])
def test_blocked_positions_are_as_if_masked(kind: str) -> None:
    """Softmax over the other positions alone."""
    model, source = make(KINDS[kind]), Ragged.of([SOURCE])
    memory = model.encode(source)
    of_decoder = getattr(memory, "decoder", memory)
    mask = of_decoder.mask_B11S if hasattr(of_decoder, "mask_B11S") else of_decoder.keys.mask_BS
    mask[..., [1, 3]] = float("-inf")
    request = SearchRequest(memory=memory, max_lengths=[9], begin=1, end=2, n_best=3, return_attention=True)
    expected = beam_search(model, request)[0]
    edited = edit_attention(model, EDITS["blocked"])
    found = beam_search(edited, SearchRequest(**{**vars(request), "memory": edited.encode(source)}))[0]
    for one, other in zip(found, expected, strict=True):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score)
        torch.testing.assert_close(one.attention_TS, other.attention_TS)


@torch.no_grad()
def test_a_row_is_as_if_every_query_were_zero() -> None:
    """Equal scores give equal weights."""
    model = make(KINDS["transformer"])
    even = AttentionEdits(rows=tuple(AttentionRow(step, (1.0,) * len(SOURCE)) for step in range(len(INPUTS))))
    zeroed = copy.deepcopy(model)
    for layer in zeroed.decoder.stack.layers:
        for parameter in layer.cross_attention.query.parameters():
            parameter.zero_()
    torch.testing.assert_close(stepped(edit_attention(model, even)), stepped(zeroed))
    of_a_layer = AttentionEdits(rows=tuple(row._replace(layer=2) for row in even.rows))
    zeroed.decoder.stack.layers[0].load_state_dict(model.decoder.stack.layers[0].state_dict())
    torch.testing.assert_close(stepped(edit_attention(model, of_a_layer)), stepped(zeroed))


@torch.no_grad()
@pytest.mark.parametrize("head", [Head("encoder", 1, 2), Head("decoder", 2, 3), Head("cross", 1, 1)], ids=str)
def test_a_head_that_is_off_adds_nothing(head: Head) -> None:
    """As if the rows of the output projection that read it were zero."""
    model = make(KINDS["transformer"])
    zeroed = copy.deepcopy(model)
    stack = zeroed.encoder.stack if head.kind == "encoder" else zeroed.decoder.stack
    layer = stack.layers[head.layer - 1]
    attention = layer.cross_attention if head.kind == "cross" else layer.self_attention
    width = attention.head_width
    attention.output.weight[:, (head.head - 1) * width : head.head * width] = 0.0
    edited = edit_attention(model, AttentionEdits(heads_off=(head,)))
    torch.testing.assert_close(stepped(edited)[0], stepped(zeroed)[0])
    torch.testing.assert_close(forward(edited)[0], forward(zeroed)[0])
    assert not torch.allclose(stepped(model)[0], stepped(zeroed)[0])
    source = Ragged.of([SOURCE])
    for record in edited(source, Ragged.of([INPUTS]), return_attention=True).attention:
        silent = [not weights.any() for weights in record.weights_BHTS[0]]
        is_of_head = (record.kind, record.layer + 1) == (head.kind, head.layer)
        assert silent == [is_of_head and number == head.head for number in (1, 2, 3)]


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "head"),
    [("before", Head("cross", 1, 1)), ("feeding", Head("cross", 1, 1)), ("copying", Head("copy", 1, 1))],
)
def test_an_attention_without_heads_is_one_head(kind: str, head: Head) -> None:
    model = make(KINDS[kind])
    edited = edit_attention(model, AttentionEdits(heads_off=(head,)))
    for by_steps, whole in zip(stepped(edited), forward(edited), strict=True):
        torch.testing.assert_close(by_steps, whole)
    assert not stepped(edited)[1].any()
    assert stepped(model)[1].any()


@torch.no_grad()
@pytest.mark.parametrize("number", [1, 4, 6])
def test_every_head_of_several_source_columns_can_be_off(number: int) -> None:
    """Three heads for each of two columns."""
    model = make({**KINDS["transformer"], "sources": {"count": 2}})
    zeroed = copy.deepcopy(model)
    attention = zeroed.decoder.stack.layers[0].cross_attention
    width = attention.head_width
    attention.output.weight[:, (number - 1) * width : number * width] = 0.0
    edited = edit_attention(model, AttentionEdits(heads_off=(Head("cross", 1, number),)))
    torch.testing.assert_close(stepped(edited)[0], stepped(zeroed)[0])


def test_what_cannot_be_edited() -> None:
    blocked = AttentionEdits(blocked=(1,))
    transformer = make(KINDS["transformer"])
    without = make({"encoder": {"hidden": 6}, "decoder": {"hidden": 6}, "attention": {"score": "none"}})
    hard = make({"encoder": {"hidden": 6}, "decoder": {"hidden": 5}, "attention": {"hard": "first"}})
    for model, edits, words in (
        (without, blocked, "no attention to a source"),
        (make({"kind": "language_model", "decoder": STACK}), blocked, "no attention to a source"),
        (hard, blocked, "hard attention"),
        (Ensemble([transformer, transformer]), blocked, "ensemble"),
        (transformer, AttentionEdits(heads_off=(Head("cross", 3, 1),)), "no cross layer 3, head 1"),
        (transformer, AttentionEdits(heads_off=(Head("cross", 1, 4),)), "no cross layer 1, head 4"),
        (transformer, AttentionEdits(rows=(ROW._replace(layer=3),)), "layer 3; this model has 2 layers"),
        (transformer, AttentionEdits(rows=(ROW._replace(head=4),)), "head 4; this model has 3 heads"),
    ):
        with pytest.raises(SearchError, match=words):
            edit_attention(model, edits)
    edited = edit_attention(transformer, AttentionEdits(blocked=(5,)))
    with pytest.raises(SearchError, match="position 5; the source has 5 tokens"):
        edited.encode(Ragged.of([SOURCE]))
    with pytest.raises(SearchError, match="leave at least one"):
        edit_attention(transformer, AttentionEdits(blocked=(0, 1, 2, 3, 4))).encode(Ragged.of([SOURCE]))
    edited = edit_attention(transformer, AttentionEdits(rows=(AttentionRow(0, (1.0,)),)))
    with pytest.raises(SearchError, match="1 weights at step 0; the source has 5 tokens"):
        edited.encode(Ragged.of([SOURCE]))
    for row in (AttentionRow(-1, (1.0,)), AttentionRow(0, (-1.0, 2.0)), AttentionRow(0, (0.0,))):
        with pytest.raises(SearchError, match="attention: "):
            AttentionEdits(rows=(row,))
    with pytest.raises(SearchError, match="count from 0"):
        AttentionEdits(blocked=(-1,))
    assert edit_attention(transformer, AttentionEdits()) is transformer
