"""A model as graphs over padded batches.

With a Transformer decoder there are three; the last two become one file (merging.py):

    encoder_model       input_ids, attention_mask -> last_hidden_state
    source_keys_values  encoder_hidden_states -> keys and values of the source
    decoder_model       tokens, and keys and values of the source and of the tokens so far -> logits

With a recurrent decoder there are two: ``encoder_model`` gives what every step reads of the source (memory.*) and the
first state (present.*), ``decoder_model`` advances the state by one token.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.hard_alignment import First, Monotonic
from weft.attention.multihead import KeysValues
from weft.attention.source_attention import SeparateAttention, SeparateKeys, mask_columns
from weft.interop.onnx.encoding import EncoderStates, encode, with_mask
from weft.interop.onnx.padded import Layers, PlainFirst, PlainMonotonic, PositionTable, run_transformer
from weft.models.hard_attention import HardAttentionSeq2Seq, SourceMemory
from weft.models.recurrent_decoder import Memory, RecurrentDecoder
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerStack
from weft.models.transformer_decoder import TransformerDecoder
from weft.ragged import additive_mask
from weft.tree import leaves, map_tree

Exportable = Seq2Seq | HardAttentionSeq2Seq
BATCH, SOURCE = "batch_size", "encoder_sequence_length"
TARGET, PAST = "decoder_sequence_length", "past_decoder_sequence_length"


class Graph(NamedTuple):
    """A module to be exported."""

    module: nn.Module
    inputs: dict[str, Tensor]
    """Examples, by name."""
    outputs: list[str]
    dynamic: dict[str, dict[int, str]]
    """The names of the dynamic axes of each input."""


def make_graphs(model: Exportable) -> dict[str, Graph]:
    """The graphs of a model, by the name of their files."""
    model = prepare(model)
    tokens_BS = torch.ones(2, 3, dtype=torch.int64)
    mask_BS = torch.tensor([[1, 1, 1], [1, 1, 0]])
    encoder_inputs = {"input_ids": tokens_BS, "attention_mask": mask_BS}
    decoder = model.decoder
    make = _transformer_graphs if isinstance(decoder, TransformerDecoder) else _recurrent_graphs
    return make(model, encoder_inputs)


def prepare(model: Exportable) -> Exportable:
    """A copy without anything that grows or depends on lengths."""
    model = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
    for module in model.modules():
        if isinstance(module, TransformerStack) and module.positions is not None:
            module.positions = PositionTable(module.positions)  # type: ignore[assignment]
        if isinstance(module, Monotonic | First):
            module.__class__ = PlainMonotonic if isinstance(module, Monotonic) else PlainFirst
    return model


# A Transformer decoder


class EncoderGraph(nn.Module):
    """input_ids, attention_mask -> last_hidden_state."""

    def __init__(self, model: Exportable) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return encode(self.model, input_ids, attention_mask.bool()).states_BSD


class SourceGraph(nn.Module):
    """encoder_hidden_states -> keys and values (B, H, S, D) of the source, layer by layer."""

    def __init__(self, model: Exportable) -> None:
        super().__init__()
        self.model = model

    def forward(self, encoder_hidden_states: Tensor) -> tuple[Tensor, ...]:
        tensors: list[Tensor] = []
        for layer in _decoder_stack(self.model).layers:
            assert layer.cross_attention is not None
            tensors += layer.cross_attention.keys_values(encoder_hidden_states)
        return tuple(part_BSHD.transpose(1, 2) for part_BSHD in tensors)


class DecoderGraph(nn.Module):
    """Tokens (B, T) and the past -> logits (B, T, V), and the longer keys and values of the target."""

    def __init__(self, model: Exportable) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """``past``: keys and values of target and source, layer by layer."""
        model, stack = self.model, _decoder_stack(self.model)
        own = [KeysValues(*past[start : start + 2]) for start in range(0, len(past), 4)]
        source = [KeysValues(*past[start + 2 : start + 4]) for start in range(0, len(past), 4)]
        before = past[0].shape[2]
        positions_S = torch.arange(before + input_ids.shape[1])
        positions_T = positions_S[before:]
        causal_TS = additive_mask(positions_S > positions_T[:, None], past[0].dtype)
        biases = with_mask(stack.position_biases(positions_T, positions_S), causal_TS)
        mask_B11S = additive_mask(~encoder_attention_mask.bool(), past[0].dtype)[:, None, None]
        inputs = Layers(positions_T, biases, own, source, mask_B11S)
        states_BTD, longer = run_transformer(stack, model.target_embedding(input_ids), inputs)
        assert isinstance(model.decoder, TransformerDecoder)
        return (model.output(model.decoder.readout(states_BTD)), *leaves(longer))


def _decoder_stack(model: Exportable) -> TransformerStack:
    assert isinstance(model.decoder, TransformerDecoder)
    return model.decoder.stack


def _transformer_graphs(model: Exportable, encoder_inputs: dict[str, Tensor]) -> dict[str, Graph]:
    stack = _decoder_stack(model)
    encoder, source, decoder = EncoderGraph(model), SourceGraph(model), DecoderGraph(model)
    states_BSD, mask_BS = encoder(**encoder_inputs), encoder_inputs["attention_mask"]
    tokens_BT = torch.ones(mask_BS.shape[0], 2, dtype=torch.int64)
    sources = source(states_BSD)
    own_BHPD = sources[0][:, :, :2]
    names = cache_names("past_key_values", len(stack.layers), "decoder", "encoder")
    parts = iter(sources)
    tensors = {name: own_BHPD.clone() if ".decoder." in name else next(parts) for name in names}
    rows_and_source = {0: BATCH, 1: SOURCE}
    past_axes = {name: {0: BATCH, 2: PAST if ".decoder." in name else SOURCE} for name in names}
    return {
        "encoder_model": Graph(
            encoder, encoder_inputs, ["last_hidden_state"], dict.fromkeys(encoder_inputs, rows_and_source)
        ),
        "source_keys_values": Graph(
            source,
            {"encoder_hidden_states": states_BSD},
            cache_names("present", len(stack.layers), "encoder"),
            {"encoder_hidden_states": rows_and_source},
        ),
        "decoder_model": Graph(
            decoder,
            {"input_ids": tokens_BT, "encoder_attention_mask": mask_BS, **tensors},
            ["logits", *cache_names("present", len(stack.layers), "decoder")],
            {"input_ids": {0: BATCH, 1: TARGET}, "encoder_attention_mask": rows_and_source, **past_axes},
        ),
    }


# A recurrent decoder


class RecurrentEncoderGraph(nn.Module):
    """input_ids, attention_mask -> what each step reads of the source, and the first state."""

    def __init__(self, model: Exportable) -> None:
        super().__init__()
        self.model = model

    def trees(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Any, Any]:
        """Memory and state."""
        model, tokens_BS = self.model, attention_mask.bool()
        decoder = model.decoder
        assert isinstance(decoder, RecurrentDecoder)
        encoded = encode(model, input_ids, tokens_BS)
        summary_BD = encoded.final[-1][0] if decoder.feeds_summary else None
        memory = Memory(_keys(decoder, encoded, tokens_BS), summary_BD, decoder.bridge(encoded.final))
        kept = memory._replace(initial=())
        if not isinstance(model, HardAttentionSeq2Seq):
            return kept, decoder.start(memory)
        masked_BS = ~tokens_BS if encoded.columns_BS is None else ~tokens_BS | (encoded.columns_BS > 0)
        states_BSD = encoded.states_BSD
        source = SourceMemory(memory, model.alignment.project(states_BSD), model.emission.keys(states_BSD), masked_BS)
        return source._replace(decoder=kept), model.start(source)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.clone() for tensor in leaves(self.trees(input_ids, attention_mask)))


def _keys(decoder: RecurrentDecoder, encoded: EncoderStates, tokens_BS: Tensor) -> Any:
    """The source as the attention of the decoder reads it, if it has one."""
    attention: Any = decoder.attention
    states_BSD = encoded.states_BSD
    if isinstance(attention, SeparateAttention):
        assert encoded.columns_BS is not None
        masks_BKS = mask_columns(encoded.columns_BS, ~tokens_BS, len(attention.attentions), states_BSD.dtype)
        pairs = zip(attention.attentions, masks_BKS.unbind(1), strict=True)
        return SeparateKeys(tuple(one.project_masked(states_BSD, mask_BS) for one, mask_BS in pairs))
    if attention is None:
        return None
    return attention.project_masked(states_BSD, additive_mask(~tokens_BS, states_BSD.dtype))


class RecurrentStepGraph(nn.Module):
    """One token, memory and state -> logits (B, 1, V) and the next state."""

    def __init__(self, model: Exportable, memory: Any, state: Any) -> None:
        """``memory``, ``state``: examples, whose structure counts."""
        super().__init__()
        self.model = model
        self._trees = map_tree(lambda tensor: tensor[:0], (memory, state))

    def forward(self, input_ids: Tensor, past: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """``past``: the tensors of memory and state, in order."""
        tensors = iter(past)
        memory, state = map_tree(lambda _: next(tensors), self._trees)
        step = self.model.step(input_ids[:, 0], state, memory)
        return (step.logits_RV[:, None], *(tensor.clone() for tensor in leaves(step.state)))


def _recurrent_graphs(model: Exportable, encoder_inputs: dict[str, Tensor]) -> dict[str, Graph]:
    encoder = RecurrentEncoderGraph(model)
    memory, state = encoder.trees(**encoder_inputs)
    longest = encoder_inputs["input_ids"].shape[1]
    step = RecurrentStepGraph(model, memory, state)
    memory_names, state_names = list(tree_names(memory, "memory")), list(tree_names(state, "present"))
    past_names = [*memory_names, *(name.replace("present", "past", 1) for name in state_names)]
    past = [tensor.clone() for tensor in leaves((memory, state))]
    has_source = [tensor.dim() > 1 and tensor.shape[1] == longest for tensor in past]
    axes = [{0: BATCH, 1: SOURCE} if found else {0: BATCH} for found in has_source]
    return {
        "encoder_model": Graph(
            encoder,
            encoder_inputs,
            [*memory_names, *state_names],
            {name: {0: BATCH, 1: SOURCE} for name in encoder_inputs},
        ),
        "decoder_model": Graph(
            step,
            {"input_ids": torch.ones(len(past[0]), 1, dtype=torch.int64), **dict(zip(past_names, past, strict=True))},
            ["logits", *state_names],
            {"input_ids": {0: BATCH}, **dict(zip(past_names, axes, strict=True))},
        ),
    }


def tree_names(tree: Any, prefix: str) -> Iterator[str]:
    """A name for each tensor of a tree (`weft.tree`), by its place: state.layers.0.0."""
    if tree is None:
        return
    if not isinstance(tree, tuple):
        yield prefix
        return
    fields = getattr(tree, "_fields", range(len(tree)))
    for name, branch in zip(fields, tree, strict=True):
        yield from tree_names(branch, f"{prefix}.{re.sub(r'_[A-Z0-9]+$', '', str(name))}")


def cache_names(prefix: str, layers: int, *sides: str) -> list[str]:
    """present.0.decoder.key, present.0.decoder.value, …: layer by layer."""
    return [f"{prefix}.{layer}.{side}.{part}" for layer in range(layers) for side in sides for part in ("key", "value")]
