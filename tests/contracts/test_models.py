"""The contracts of every model, whatever its parts: `weft.models.interface`.

Each contract runs over the models that can be built: cell × connections × where the attention enters,
score × projection, normalizer, window, features of earlier weights, hard attention, encoder × decoder × bridge,
sources of several columns, sparse outputs, copying, and the language models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from oracles.recurrent import CONNECTIONS
from oracles.transformer import POSITIONS
from weft.attention.ragged_attention import alignment_weights
from weft.models.build import build_model, build_on_meta, parameter_shapes, reset_buffers
from weft.models.interface import Model
from weft.packed import pack, shape_of
from weft.ragged import FixedLayout, Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import CELLS, HARD_ALIGNMENTS, NORMALIZERS, SCORES, STEMS, WINDOWS, resolve
from weft.runs.weights import load_weights, model_tensors
from weft.tree import Tree, leaves, map_tree, repeat, select

SOURCES = [[3, 7, 5], [11, 4], [4, 9, 3, 12, 6], [8, 5, 10]]
INPUTS = [[1, 5, 8], [1, 9, 4, 6, 10], [1, 7], [1, 3, 7]]
SOURCE_SIZE, TARGET_SIZE = 13, 11
COLUMN_SOURCES = [[3, 7, 2, 5, 2], [2, 11, 4, 2], [4, 9, 2, 3, 2, 12, 2], [8, 2, 2]]
"""Two columns or three, some of them empty; for a model of three columns some are missing."""

PLACEMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "none": {"attention": {"score": "none"}},
    "none+summary": {"attention": {"score": "none"}, "decoder": {"feed_summary": True}},
    "after": {"attention": {"placement": "after"}},
    "after+feeding": {"attention": {"placement": "after"}, "decoder": {"input_feeding": True}},
    "before": {"attention": {"placement": "before"}},
    "before+summary": {"attention": {"placement": "before"}, "decoder": {"feed_summary": True}},
}


def settings(
    placement: str = "after", *, encoder: Any = (), decoder: Any = (), attention: Any = (), **model: Any
) -> dict[str, Any]:
    """Embedding and decoder of one width, so that residual connections act in the first layer too."""
    placed = PLACEMENTS[placement]
    return {
        "embedding": 5,
        "dropout": 0.0,
        "encoder": {"hidden": 6, **dict(encoder)},
        "decoder": {"hidden": 5, **placed.get("decoder", {}), **dict(decoder)},
        "attention": {"score": "general", "size": 7, **dict(attention), **placed["attention"]},
        **model,
    }


TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 7}
OPTIONS: dict[str, dict[str, Any]] = {
    "post": {"norm_placement": "post"},
    "rms": {"norm": "rms"},
    "gelu": {"activation": "gelu"},
    "swiglu": {"activation": "swiglu"},
    "shared-heads": {"key_value_heads": 1},
    "unscaled": {"scale_embedding": False},
    "of-other-toolkits": {
        **{"head_size": 5, "norm_epsilon": 1e-3, "embedding_norm": True, "activation": "geglu_tanh"},
        **{"sinusoids": "tensor2tensor", "first_position": 2},
    },
    "bias-per-layer": {"positions": "relative", "relative_per_layer": True, "relative_buckets": 8},
    **{positions: {"positions": positions} for positions in POSITIONS},
}


def transformer_cases() -> dict[str, dict[str, Any]]:
    """Every option on both sides, every encoder with every decoder, and the one-stack models."""
    cases: dict[str, dict[str, Any]] = {}
    plain: dict[str, Any] = {"embedding": 6, "dropout": 0.0}
    for name, option in OPTIONS.items():
        stack = {**TRANSFORMER, **option}
        cases[f"transformer-{name}"] = {**plain, "encoder": stack, "decoder": stack}
        cases[f"prefix-{name}"] = {**plain, "kind": "prefix_lm", "decoder": stack}
        cases[f"lm-transformer-{name}"] = {**plain, "kind": "language_model", "decoder": stack}
    for normalizer in NORMALIZERS:
        heads = {**plain, "decoder": {**TRANSFORMER, "positions": "alibi"}, "attention": {"normalizer": normalizer}}
        cases[f"transformer-{normalizer}"] = {**heads, "encoder": TRANSFORMER}
        cases[f"prefix-{normalizer}"] = {**heads, "kind": "prefix_lm"}
        cases[f"lm-transformer-{normalizer}"] = {**heads, "kind": "language_model"}
    encoders = {
        **{kind: {"kind": kind, "hidden": 8} for kind in CELLS},
        "attention": {**TRANSFORMER, "kind": "attention"},
        "transformer": TRANSFORMER,
    }
    decoders = {**{kind: {"kind": kind, "hidden": 5, "layers": 2} for kind in CELLS}, "transformer": TRANSFORMER}
    for (encoder, encoder_settings), (decoder, decoder_settings) in product(encoders.items(), decoders.items()):
        pairing = {**plain, "encoder": encoder_settings, "decoder": decoder_settings}
        cases[f"{encoder}-with-{decoder}"] = pairing
        if decoder in CELLS and encoder not in CELLS:
            for placement, placed in PLACEMENTS.items():
                attending = {"attention": placed["attention"]}
                feeding = {"decoder": {**decoder_settings, **placed.get("decoder", {})}}
                cases[f"{encoder}-with-{decoder}-{placement}"] = {**pairing, **attending, **feeding}
    for normalizer in NORMALIZERS:
        copying = {**plain, "copy": True, "attention": {"normalizer": normalizer}}
        cases[f"transformer-copy-{normalizer}"] = {**copying, "encoder": TRANSFORMER, "decoder": TRANSFORMER}
    cases["copy-lstm-with-transformer"] = {**plain, "copy": True, "encoder": encoders["lstm"], "decoder": TRANSFORMER}
    uneven = {"encoder": {**TRANSFORMER, "layers": 3}, "decoder": {**TRANSFORMER, "layers": 1, "hidden": 9}}
    cases["transformer-uneven"] = {**plain, **uneven, "embedding": 5}
    for tie in ("target", "inputs", "all"):
        sizes = {"embedding": 5, "tie": tie}
        cases[f"transformer-tied-{tie}"] = {**plain, "encoder": TRANSFORMER, "decoder": TRANSFORMER, **sizes}
        cases[f"prefix-tied-{tie}"] = {**plain, "kind": "prefix_lm", "decoder": TRANSFORMER, **sizes}
    return cases


def plain_transformer() -> dict[str, Any]:
    return {"embedding": 6, "dropout": 0.0, "decoder": TRANSFORMER}


def column_cases() -> dict[str, dict[str, Any]]:
    """Sources of several columns, with every kind of encoder and decoder and every place of the attention."""
    cases: dict[str, dict[str, Any]] = {}
    for encoders, attention, decoder in (
        ("separate", "parallel", "transformer"),
        ("separate", "parallel", "lstm"),
        ("separate", "parallel", "gru"),
        ("separate", "flat", "transformer"),
        ("shared", "parallel", "lstm"),
        ("shared", "flat", "gru"),
        ("joint", "parallel", "transformer"),
    ):
        sources = {"sources": {"count": 2, "encoders": encoders, "attention": attention}}
        stacks = {"encoder": TRANSFORMER, "decoder": TRANSFORMER}
        stacks |= {} if decoder == "transformer" else {"decoder": {"kind": decoder, "hidden": 5}}
        case = settings("after+feeding", **sources) if decoder == "lstm" else {"embedding": 6, **stacks, **sources}
        cases[f"columns-{encoders}-{attention}-{decoder}"] = {**case, "dropout": 0.0}
    three = {"sources": {"count": 3}}
    for placement in ("none+summary", "after", "before"):
        cases[f"columns-3-{placement}"] = settings(placement, **three)
    options = {**TRANSFORMER, "heads": 6, "key_value_heads": 3, "positions": "relative", "norm_placement": "post"}
    sparse = {"attention": {"normalizer": "entmax15"}}
    cases["columns-3-transformer"] = {**three, **sparse, "embedding": 5, "encoder": options, "decoder": options}
    coverage = {"score": "additive", "coverage": "fertility", "location": True, "location_width": 3}
    for hard in ("zeroth", "monotonic", "first"):
        attention = {"hard": hard, "max_jump": 2}
        cases[f"columns-hard-{hard}"] = settings(attention=attention, sources={"count": 2, "encoders": "shared"})
    copying = {"copy": True, "sources": {"count": 2}}
    stacks = {"encoder": TRANSFORMER, "decoder": TRANSFORMER}
    cases["columns-copy-transformer"] = {"embedding": 6, "dropout": 0.0, **stacks, **copying}
    cases["columns-copy-hard"] = settings(attention={"hard": "first"}, **copying)
    cases["columns-copy-before"] = settings("before", copy=True, sources={"count": 2, "attention": "flat"})
    cases["columns-copy-parallel"] = settings(copy=True, sources={"count": 2})
    cases["columns-coverage"] = settings(attention=coverage, sources={"count": 2})
    return cases


STEMS_OF_CASES: dict[str, dict[str, Any]] = {
    "columns": {"inputs": 3, "widths": [4, 5], "bins": 3},
    "grid": {"inputs": 3, "widths": [5], "blocks": 2},
    "frames": {"inputs": 3, "widths": [5, 4], "strides": [[1, 2], [1, 1]]},
}
ARRAY_SIZES = [(7, 11), (5, 3), (2, 13), (1, 1)]


def array_cases() -> dict[str, dict[str, Any]]:
    """Pictures and frames, with encoders and decoders of each family, coverage and hard attention."""
    cases: dict[str, dict[str, Any]] = {}
    for name, stem in STEMS_OF_CASES.items():
        with_stem = {"stem": {"kind": name, **stem}}
        stacks = {"encoder": {**TRANSFORMER, "positions": "none"}, "decoder": TRANSFORMER}
        cases[f"arrays-{name}-transformer"] = {**with_stem, "embedding": 6, "dropout": 0.0, **stacks}
        cases[f"arrays-{name}-lstm"] = settings("before", **with_stem)
        cases[f"arrays-{name}-lstm-with-transformer"] = {**with_stem, **plain_transformer(), "encoder": {"hidden": 8}}
        coverage = {"score": "additive", "coverage": "fertility", "location": True, "location_width": 3}
        cases[f"arrays-{name}-coverage"] = settings(attention=coverage, **with_stem)
        cases[f"arrays-{name}-hard"] = settings(attention={"hard": "monotonic"}, **with_stem)
    return cases


def packed_array(case: str, row: int) -> list[int]:
    """The bytes of a picture of three colors, or of frames of three features."""
    height, width = ARRAY_SIZES[row]
    random = np.random.default_rng([row])
    if case.startswith("arrays-frames"):
        return cast("list[int]", pack(random.normal(size=(width, 3)).astype(np.float16)).tolist())
    return cast("list[int]", pack(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).tolist())


def states_of(case: str, row: int) -> int:
    """The number of source states that a row has."""
    if not case.startswith("arrays"):
        return len(source_of(case, row))
    shape = shape_of(np.array(packed_array(case, row)))
    return math.prod(ModelSettings.model_validate(CASES[case]).stem.output_shape(shape.height, shape.width))


def every_case() -> dict[str, dict[str, Any]]:
    cases: dict[str, dict[str, Any]] = {}
    stacks = [("plain", 1), *((connections, 3) for connections in CONNECTIONS)]
    for kind, (connections, layers) in product(CELLS, stacks):
        stack = {"kind": kind, "connections": connections, "layers": layers}
        for placement in PLACEMENTS:
            cases[f"{kind}-{connections}-{layers}-{placement}"] = settings(placement, encoder=stack, decoder=stack)
        cases[f"lm-{kind}-{connections}-{layers}"] = settings("none", decoder=stack, kind="language_model")
    for score in SCORES:
        for project in (False, True):
            if score == "parameter_free" and project:
                continue
            name = f"{score}{'-project' if project else ''}"
            attention = {"score": score, "project": project}
            decoder = {"hidden": 6 if resolve(SCORES, score).same_size and not project else 5}
            placement = "before" if project else "after+feeding"
            cases[f"{name}-{placement}"] = settings(placement, attention=attention, decoder=decoder)
            cases[f"lm-{name}"] = settings(attention=attention, kind="language_model")
    for normalizer in NORMALIZERS:
        attention = {"normalizer": normalizer}
        for placement in ("after+feeding", "before"):
            cases[f"{normalizer}-{placement}"] = settings(placement, attention=attention)
        cases[f"lm-{normalizer}"] = settings(attention=attention, kind="language_model")
    alignments: dict[str, dict[str, Any]] = {
        **{f"{window}-window": {"window": window, "window_size": 1} for window in WINDOWS},
        "coverage": {"coverage": "fertility"},
        "location": {"location": True, "location_width": 3},
        "coverage+predictive": {"coverage": "sum", "normalizer": "entmax15", "window": "predictive"},
    }
    for name, alignment in alignments.items():
        for placement in ("after", "before"):
            attention = {"score": "additive", **alignment}
            cases[f"{name}-{placement}"] = settings(placement, attention=attention)
    hard: dict[str, dict[str, Any]] = {
        **{name: settings(attention={"hard": name, "max_jump": 2}) for name in HARD_ALIGNMENTS},
        "monotonic-additive": settings(attention={"hard": "monotonic", "score": "additive"}, tie="target"),
        "first-stack": settings(
            attention={"hard": "first", "max_jump": 1}, encoder=TRANSFORMER, decoder={"layers": 2, "kind": "gru"}
        ),
    }
    cases |= {f"hard-{name}": case for name, case in hard.items()}
    pairs = [(encoder, decoder, "auto") for encoder in CELLS for decoder in CELLS]
    pairs += [(kind, kind, bridge) for kind in CELLS for bridge in ("project", "zero")]
    for encoder, decoder, bridge in pairs:
        cases[f"{encoder}-to-{decoder}-{bridge}"] = settings(
            encoder={"kind": encoder}, decoder={"kind": decoder, "hidden": 6}, bridge=bridge
        )
    for placement in PLACEMENTS:
        cases[f"tied-{placement}"] = settings(placement, decoder={"hidden": 7}, tie="target")
    normalized = {"layers": 2, "layer_norm": True}
    for placement in PLACEMENTS:
        looks = not placement.startswith("none")  # else nothing reads the encoder's normalized states
        cases[f"norm-{placement}"] = settings(placement, encoder=normalized if looks else (), decoder=normalized)
    cases["lm-norm"] = settings(decoder=normalized, kind="language_model")
    cases |= transformer_cases() | column_cases() | array_cases()
    cases["entmax15-outputs"] = settings("before", decoder={"hidden": 7}, tie="target")
    cases["transformer-entmax15-outputs"] = {**plain_transformer(), "encoder": TRANSFORMER}
    cases["prefix-entmax15-outputs"] = {**plain_transformer(), "kind": "prefix_lm"}
    cases["lm-entmax15-outputs"] = settings("after", kind="language_model")
    for placement in ("after", "after+feeding", "before"):
        cases[f"copy-{placement}"] = settings(placement, copy=True)
    cases["copy-coverage"] = settings(attention={"score": "additive", "coverage": "sum"}, copy=True)
    for name in HARD_ALIGNMENTS:
        cases[f"copy-hard-{name}"] = settings(attention={"hard": name, "max_jump": 2}, copy=True)
    cases["copy-predictive"] = settings(attention={"window": "predictive"}, copy=True)
    cases["ctc-lstm"] = settings("none", kind="ctc")
    cases["ctc-transformer"] = {**plain_transformer(), "kind": "ctc", "encoder": TRANSFORMER}
    columns = {"stem": {"kind": "columns", **STEMS_OF_CASES["columns"]}}
    cases["arrays-columns-ctc"] = {**settings("none", kind="ctc"), **columns}
    cases["back-to-front"] = settings(encoder={"bidirectional": False, "reverse_source": True, "hidden": 7})
    return cases


CASES = every_case()
every_model = pytest.mark.parametrize("case", CASES)
every_model_but_ctc = pytest.mark.parametrize("case", [case for case in CASES if "ctc" not in case])
"""CTC is trained by its own recursion, not through the steps of a search (tests/models/test_ctc.py)."""


@cache
def model_of(case: str) -> Model:
    """In double precision, so that a difference is never rounding."""
    checked = ModelSettings.model_validate(CASES[case])
    source_size = TARGET_SIZE if CASES[case].get("tie") in ("all", "inputs") else SOURCE_SIZE
    sizes = {"source_size": source_size, "target_size": TARGET_SIZE}
    model = build_model(checked, **sizes, loss=loss_of(case), seed=11).double().eval()
    torch.manual_seed(12)
    for name, parameter in model.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.1)
    return model


def loss_of(case: str) -> str:
    return "entmax15" if case.endswith("entmax15-outputs") else "cross_entropy"


def sources_of(case: str, rows: Sequence[int]) -> Ragged:
    """The sources of some rows; a language model has none."""
    limit = TARGET_SIZE if CASES[case].get("tie") in ("all", "inputs") else SOURCE_SIZE
    if case.startswith("arrays"):
        limit = 256
    return Ragged.of(
        [[] if case.startswith("lm") else [token % limit for token in source_of(case, row)] for row in rows]
    )


def source_of(case: str, row: int) -> list[int]:
    if case.startswith("arrays"):
        return packed_array(case, row)
    return COLUMN_SOURCES[row] if case.startswith("columns") else SOURCES[row]


def width_of(case: str, source_length: int) -> int:
    """The number of logits; with copying, each source position may have a token of its own."""
    return TARGET_SIZE + (source_length if CASES[case].get("copy") else 0)


def close(one: Tree, other: Tree) -> None:
    """`assert_close`, which is asked only if a quick look says that something differs: it takes most of the time."""
    mine, theirs = list(leaves(one)), list(leaves(other))
    if len(mine) != len(theirs) or not all(
        first.shape == second.shape and torch.allclose(first, second, rtol=1e-9, atol=1e-9)
        for first, second in zip(mine, theirs, strict=True)
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@cache
@torch.no_grad()
def forward(case: str, rows: tuple[int, ...]) -> list[tuple[Tensor, Tensor | None]]:
    """Logits (T, V) and weights (T, S) of every row, truncated to the lengths of the row."""
    inputs = Ragged.of([INPUTS[row] for row in rows])
    output = model_of(case)(sources_of(case, rows), inputs, return_attention=True)
    weights_BTS = alignment_weights(output.attention, sources_of(case, rows).layout)
    results = []
    for index, (row, logits_TV) in enumerate(zip(rows, inputs.like(output.logits_NV).split(), strict=True)):
        length = len(INPUTS[row]) if case.startswith("lm") else states_of(case, row)
        weights = None if weights_BTS is None else weights_BTS[index, : len(logits_TV), :length]
        width = width_of(case, length)
        assert logits_TV[:, width:].isneginf().all()
        results.append((logits_TV[:, :width], weights))
    return results


@every_model
def test_stepping_gives_what_forward_gives(case: str) -> None:
    model = model_of(case)
    with torch.no_grad():
        for row in (1, 2):  # the shortest source with the longest target, and the other way round
            logits_TV, weights_TS = forward(case, (0, 1, 2, 3))[row]
            memory = model.encode(sources_of(case, [row]))
            state = model.start(memory)
            for time, token in enumerate(INPUTS[row]):
                logits_RV, state, weights_RS = model.step(torch.tensor([token]), state, memory)
                close(logits_RV[0], logits_TV[time])
                assert (weights_RS is None) == (weights_TS is None)
                if weights_RS is not None:
                    length = weights_RS.shape[1]  # the history of a language model grows
                    close(weights_RS[0], weights_TS[time, :length])
                    assert not weights_TS[time, length:].any()
                    total = weights_RS.sum().item()
                    assert total <= 1 + 1e-9
                    if "predictive" not in case:  # its weights fade with the distance, as published
                        assert total == pytest.approx(1, abs=1e-9)


@every_model
def test_batch_order_and_company_change_nothing(case: str) -> None:
    together = forward(case, (0, 1, 2, 3))
    for row, moved in zip((2, 0, 3, 1), forward(case, (2, 0, 3, 1)), strict=True):
        close(moved, together[row])
    for row in (1, 2):
        [alone] = forward(case, (row,))
        close(alone, together[row])


@every_model_but_ctc
def test_every_parameter_receives_a_gradient(case: str) -> None:
    model = model_of(case)
    inputs = Ragged.of(INPUTS)
    logits_NV = model(sources_of(case, [0, 1, 2, 3]), inputs).logits_NV
    targets_N = torch.arange(len(logits_NV)) % TARGET_SIZE
    names, parameters = zip(*model.named_parameters(), strict=True)
    loss = nn.functional.cross_entropy(logits_NV, targets_N)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    without = [
        name
        for name, gradient in zip(names, gradients, strict=True)
        if gradient is None or not gradient.isfinite().all() or not gradient.abs().max() > 1e-12
    ]
    assert not without


@every_model_but_ctc
def test_gradients_of_stepping_are_those_of_forward(case: str) -> None:
    model = model_of(case)
    parameters = list(model.parameters())
    source, inputs = sources_of(case, [2, 2]), torch.tensor([INPUTS[1], INPUTS[1][::-1]])
    whole_NV = model(source, Ragged.of(inputs)).logits_NV
    memory = model.encode(source)
    state = model.start(memory)
    steps = []
    for time in range(inputs.shape[1]):
        logits_RV, state, _ = model.step(inputs[:, time], state, memory)
        steps.append(logits_RV)
    stepped = torch.stack(steps, 1).flatten(0, 1)
    probe = torch.linspace(-1, 1, whole_NV.numel(), dtype=torch.float64).view_as(whole_NV)
    gradients = torch.autograd.grad((stepped * probe).sum(), parameters)
    close(gradients, torch.autograd.grad((whole_NV * probe).sum(), parameters))


@every_model
@torch.no_grad()
def test_hypotheses_of_one_source_adjacent_equal_separate_rows(case: str) -> None:
    """R = B × K rows in a step; rows of the state are reordered within a source, as a search does."""
    model = model_of(case)
    rows, beam = [0, 2], 3
    firsts = torch.tensor([1, 4, 9, 2, 6, 3])
    seconds = torch.tensor([7, 5, 1, 8, 10, 3])
    parents = torch.tensor([2, 0, 0, 3, 5, 4])
    memory = model.encode(sources_of(case, rows))
    _, state, _ = model.step(firsts, repeat(model.start(memory), beam), memory)
    logits_RV, state, weights_RS = model.step(seconds, select(state, parents), memory)
    for index in (0, 1, 5):  # of both sources, of parents before and after
        parent, row = int(parents[index]), rows[index // beam]
        memory_1 = model.encode(sources_of(case, [row]))
        _, alone, _ = model.step(firsts[parent : parent + 1], model.start(memory_1), memory_1)
        logits_1V, alone, weights_1S = model.step(seconds[index : index + 1], alone, memory_1)
        close(logits_RV[index, : logits_1V.shape[1]], logits_1V[0])
        for mine, theirs in zip(leaves(select(state, torch.tensor([index]))), leaves(alone), strict=True):
            close(mine[..., : theirs.shape[-1]], theirs)
            is_ctc = "ctc" in case  # whose sums go on behind the end of a row
            assert is_ctc or not mine[..., theirs.shape[-1] :].any()  # earlier weights at the padding of the source
        if weights_RS is not None:
            length = weights_1S.shape[1]
            close(weights_RS[index, :length], weights_1S[0])
            assert not weights_RS[index, length:].any()


@every_model
@torch.no_grad()
def test_state_and_memory_are_values(case: str) -> None:
    """A step changes none of its arguments, and gives the same result again."""
    model = model_of(case)
    memory = model.encode(sources_of(case, [1, 2]))
    tokens = torch.tensor([5, 3])
    _, state, _ = model.step(tokens, model.start(memory), memory)
    arguments = (tokens, state, memory)
    copies = map_tree(Tensor.clone, arguments)
    once = model.step(tokens, state, memory)
    model.step(tokens, once[1], memory)
    torch.testing.assert_close(arguments, copies, rtol=0, atol=0)
    torch.testing.assert_close(model.step(tokens, state, memory), once, rtol=0, atol=0)


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.startswith(("lm", "prefix", "back", "arrays", "ctc"))]
)
def test_a_fixed_layout_changes_nothing(case: str) -> None:
    """Captured updates have a fixed shape: more rows and a larger maximum length than the batch needs."""
    model = model_of(case)
    source, inputs = sources_of(case, [0, 1, 2, 3]), Ragged.of(INPUTS)
    whole_NV = model(source, inputs).logits_NV
    probe = torch.linspace(-1, 1, whole_NV.numel(), dtype=torch.float64).view_as(whole_NV)
    expected = torch.autograd.grad((whole_NV * probe).sum(), list(model.parameters()))
    batch = []
    for side, extra_lengths, longest in ((source, [2, 0, 0], 7), (inputs, [0, 3, 0], 6)):
        lengths = torch.cat([side.lengths, torch.tensor(extra_lengths)])
        layout = FixedLayout(lengths, longest=longest)
        batch.append(Ragged(torch.cat([side.values, torch.ones(sum(extra_lengths), dtype=torch.int64)]), layout))
    padded_NV = model(*batch).logits_NV[: len(whole_NV), : whole_NV.shape[1]]
    close(padded_NV, whole_NV)
    close(torch.autograd.grad((padded_NV * probe).sum(), list(model.parameters())), expected)


@every_model
def test_shapes_are_known_without_weights(case: str) -> None:
    """A model on the meta device becomes the model whose weights it is assigned: buffers, shared weights, modules."""
    settings, built = ModelSettings.model_validate(CASES[case]), model_of(case)
    sizes = {"source_size": TARGET_SIZE if settings.ties_inputs else SOURCE_SIZE, "target_size": TARGET_SIZE}
    expected = {name: tuple(parameter.shape) for name, parameter in built.named_parameters()}
    assert parameter_shapes(settings, **sizes) == expected
    loaded = build_on_meta(settings, **sizes, loss=loss_of(case))
    assert all(tensor.is_meta for tensor in (*loaded.parameters(), *loaded.buffers())) and str(loaded) == str(built)
    reset_buffers(loaded)
    load_weights(loaded.double(), model_tensors(built), where=case, assign=True)
    for tensors in (nn.Module.named_parameters, nn.Module.named_buffers):
        mine, theirs = (dict(tensors(model, remove_duplicate=False)) for model in (loaded, cast(nn.Module, built)))
        assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in theirs)
        assert [name for name, _ in tensors(loaded)] == [name for name, _ in tensors(cast(nn.Module, built))]


def test_every_table_entry_is_in_a_case() -> None:
    """A score, normalizer, window, hard alignment, cell or kind of connection that is added joins by itself."""
    for name in (*CELLS, *SCORES, *NORMALIZERS, *WINDOWS, *HARD_ALIGNMENTS, *CONNECTIONS, *STEMS):
        assert any(name in case for case in CASES)
    assert len(CASES) > 200
