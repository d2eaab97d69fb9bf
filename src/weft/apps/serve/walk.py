"""A walk through one step of a decoder: the numbers on the way of a token from its embedding to the softmax.

    stages    embedding → layers (gates; scores → weights → context; residual connections and norms) → logits

The stages of a step are computed by the modules of the model itself, in the order of its `step`, in
walk_recurrent.py and walk_transformer.py. tests/apps/serve/test_walk.py compares their results for every model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.apps.serve.observation import Abandoned
from weft.apps.serve.records import number
from weft.errors import SearchError
from weft.models.architecture import Architecture, architecture_of
from weft.ragged import Ragged
from weft.runtime.processes import to_json
from weft.runtime.replaceable import plain_only
from weft.text import specials
from weft.translation.inspection import tokens_of_pair

if TYPE_CHECKING:
    from weft.models.interface import Model
    from weft.translation.translator import Translator

DIGITS = 4
MOST_VALUES = 1024
"""Values of a vector that are sent."""
MOST_POSITIONS = 48
"""Positions of an attention that are sent: those with the largest weights."""
LISTED = 12
"""Most likely tokens that are sent."""
NEIGHBORS = 8
"""Training pairs with the nearest states that are sent."""
TEMPERATURES = [round(0.1 * number, 1) for number in range(1, 31)]
WALKED = ("seq2seq", "language_model", "prefix_lm")
"""Kinds of models that have a walk."""


class AttentionNumbers(NamedTuple):
    """One query over S positions: the query (D,), keys and values (S, D), scores and weights (S,), the context (D,)."""

    query: Tensor
    keys_SD: Tensor
    values_SD: Tensor
    scores: Tensor | None
    """None where they are no single number for each position, as of several attentions together."""
    weights: Tensor
    context: Tensor
    side: str
    """The tokens at its positions: source, history or both."""


class Stage(NamedTuple):
    """A part of the way."""

    title: str
    equation: str
    vectors: dict[str, Tensor]
    """Each vector by its symbol in the equation."""
    help: str = ""
    attention: AttentionNumbers | None = None


class Choice(NamedTuple):
    """The layer and the head, from 0, whose numbers are wanted."""

    layer: int
    head: int


class Walked(NamedTuple):
    """A step, stage by stage."""

    stages: list[Stage]
    output_RD: Tensor
    """The state that the output layer reads."""
    logits_RV: Tensor


def walk(translator: Translator, payload: dict[str, Any], is_abandoned: Callable[[], bool] = lambda: False) -> bytes:
    """The way of a token of a text's own translation, or of a given target, as JSON."""
    translator, search = translator.in_languages(payload["search"])
    [source] = payload["texts"]
    described = architecture_of(translator.model)
    check_walkable(described)
    given = payload.get("target_ids")
    if given and max(given) >= (size := translator.tokenizers_for(source).target.size):
        raise SearchError(f"target_ids: {max(given)}; the tokens of this output have ids below {size}")
    source_tokens, target, begin = tokens_of_pair(
        translator, source, payload.get("target") if given is None else given, search
    )
    step = payload["step"]
    if step >= len(target.ids):
        raise SearchError(f"step: {step}; this output has {len(target.ids)} tokens, which are counted from 0")
    inputs = [begin.ids[0], *target.ids[:step]]
    choice = Choice(payload["layer"] - 1, payload["head"] - 1)
    check_choice(described, choice)
    with torch.no_grad(), plain_only():
        walked = walk_step(translator.model, source_tokens.ids, inputs, choice, is_abandoned)
    history = [*begin.names, *target.names[:step]]
    names = {
        "source": source_tokens.names,
        "history": history,
        "zero": ["0", *history[:-1]],
        "both": [*source_tokens.names, *history],
    }
    return to_json(
        {
            "source_tokens": source_tokens.names,
            "target_tokens": target.names,
            "target_ids": ids_to_give(target.ids, len(translator.tokenizers.frame.target_before)),
            "begin": begin.names[0],
            "step": step,
            "layers": described.decoder.layers if described.decoder else 1,
            "heads": max((attention.heads for attention in described.attentions), default=1),
            "stages": [stage_record(stage, names) for stage in walked.stages],
            "output": output_record(translator, source, walked.logits_RV[0], target.ids[step]),
            "neighbors": neighbor_records(translator.calibrated_folder, walked.output_RD[0]),
        }
    )


def ids_to_give(target_ids: Sequence[int], before: int) -> list[int]:
    """Target ids as a request gives them: without those that the model puts before a target, and the end token."""
    ids = list(target_ids[before:])
    return ids[:-1] if ids[-1:] == [specials.END] else ids


def has_walk(described: Architecture) -> bool:
    """Whether the steps of a model are those of one network whose parts are known."""
    return described.kind in WALKED and not described.edited and not described.members


def check_walkable(described: Architecture) -> None:
    """Fail for a model that has none."""
    if described.members:
        raise SearchError("walk: this is an ensemble; walk through one of its models at a time")
    if not has_walk(described):
        kind = described.kind.replace("_", " ")
        raise SearchError(f"walk: there is none for a model of this kind ({kind}); see its attention in Heads")


def check_choice(described: Architecture, choice: Choice) -> None:
    """Fail if there is no such layer or head."""
    layers = described.decoder.layers if described.decoder else 1
    heads = max((attention.heads for attention in described.attentions), default=1)
    for name, value, most in (("layer", choice.layer, layers), ("head", choice.head, heads)):
        if value >= most:
            raise SearchError(f"{name}: {value + 1}; the decoder of this model has {most}")


def walk_step(
    model: Model,
    source: Sequence[int],
    inputs: Sequence[int],
    choice: Choice,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> Walked:
    """The step that reads the last of the inputs; to be called in `plain_only` and without gradients."""
    from weft.apps.serve.walk_recurrent import walk_decoder, walk_language_model
    from weft.apps.serve.walk_transformer import walk_prefix_lm, walk_transformer_decoder

    described = architecture_of(model)
    device = next(cast(nn.Module, model).parameters()).device
    memory = model.encode(Ragged.of([source], device))
    state = model.start(memory)
    for token in inputs[:-1]:
        if is_abandoned():
            raise Abandoned
        state = model.step(torch.tensor([token], device=device), state, memory).state
    token_R = torch.tensor([inputs[-1]], device=device)
    logits_RV = model.step(token_R, state, memory).logits_RV
    network: Any = model
    if described.kind == "seq2seq":
        embedded_RE = network.target_embedding(known(token_R, network.target_embedding))
        of_decoder = memory.decoder if described.copies else memory
        if described.is_transformer:
            stages, output_RD = walk_transformer_decoder(network.decoder, embedded_RE, state, of_decoder, choice)
        else:
            stages, output_RD = walk_decoder(network.decoder, embedded_RE, state, of_decoder)
    elif described.is_transformer:
        stages, output_RD = walk_prefix_lm(network, network.target_embedding(token_R), state, memory, choice)
    else:
        stages, output_RD = walk_language_model(network, network.embedding(token_R), state)
    if described.copies:
        gate_R = torch.sigmoid(network.gate(output_RD))
        stages.append(
            Stage(
                "Generate or copy",
                "g = σ(w·s + b);  p(y) = g · p_vocabulary(y) + (1 − g) · Σ_{i: x_i = y} α_i",
                {"g": gate_R},
                "g near 1: the token is generated from the vocabulary; near 0: it is copied from the source.",
            )
        )
    return Walked(stages, output_RD, logits_RV)


def known(token_R: Tensor, embedding: Any) -> Tensor:
    """A copied token, which no vocabulary has, as the unknown token."""
    from weft.models.copying import known_ids

    return known_ids(token_R, len(embedding.weight_VE))


def stage_record(stage: Stage, names: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "title": stage.title,
        "equation": stage.equation,
        "help": stage.help,
        "vectors": [vector_record(symbol, vector) for symbol, vector in stage.vectors.items()],
        "attention": None if stage.attention is None else attention_record(stage.attention, names),
    }


def values(vector: Tensor) -> list[float | None]:
    """As JSON has them; None for infinities."""
    listed = vector.flatten().double().cpu().tolist()
    return [round(value, DIGITS) if math.isfinite(value) else None for value in listed]


def vector_record(symbol: str, vector: Tensor) -> dict[str, Any]:
    """``width``: the number of values, of which the first are sent."""
    return {"symbol": symbol, "width": vector.numel(), "values": values(vector.flatten()[:MOST_VALUES])}


def attention_record(attention: AttentionNumbers, names: dict[str, list[str]]) -> dict[str, Any]:
    """The positions with the largest weights, in their order."""
    weights = attention.weights.flatten()
    largest = weights.topk(min(MOST_POSITIONS, len(weights))).indices.sort().values
    labels = names[attention.side]
    scores = attention.scores
    return {
        "query": values(attention.query),
        "context": values(attention.context),
        "count": len(weights),
        "positions": [
            {
                "position": position,
                "token": labels[position],
                "score": None if scores is None else values(scores.flatten()[position])[0],
                "weight": number(float(weights[position])),
                "key": values(attention.keys_SD[position]),
                "value": values(attention.values_SD[position]),
            }
            for position in largest.tolist()
        ],
    }


def output_record(translator: Translator, source: str, logits_V: Tensor, chosen: int) -> dict[str, Any]:
    """The largest logits and, for every temperature τ, log Σ_v exp(z_v / τ): p(v) = exp(z_v / τ − that)."""
    tokenizer = translator.tokenizers_for(source).target
    logits_V = logits_V.double().cpu()
    ids = logits_V.topk(min(LISTED, len(logits_V))).indices.tolist()
    if chosen not in ids:
        ids = [*ids[: LISTED - 1], chosen]
    listed = [index for index in ids if math.isfinite(logits_V[index])]
    names = tokenizer.tokens(listed)
    return {
        "vocabulary": len(logits_V),
        "chosen": chosen,
        "tokens": [
            {"token": name, "id": index, "logit": number(float(logits_V[index]))}
            for name, index in zip(names, listed, strict=True)
        ],
        "temperatures": TEMPERATURES,
        "log_normalizers": [number(float((logits_V / value).logsumexp(-1))) for value in TEMPERATURES],
    }


def neighbor_records(folder: Path | None, state_D: Tensor) -> list[dict[str, Any]] | None:
    """The training pairs with the nearest states; None if the run keeps none."""
    from weft.pairs.state_index import read_index

    index = None if folder is None else read_index(folder)
    if index is None or index.states_ND.shape[1] != len(state_D):
        return None
    return [
        {
            "source": pair.source,
            "target_tokens": pair.target,
            "position": position,
            "similarity": number(similarity),
        }
        for pair, position, similarity in index.nearest(state_D, NEIGHBORS)
    ]
