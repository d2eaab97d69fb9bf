"""A model as graphs over padded batches: an encoder, and one step of the decoder for each row.

With a Transformer decoder there are three, as optimum has them:

    encoder_model             input_ids, attention_mask -> last_hidden_state
    decoder_model             the first token, and the keys and values of the source
    decoder_with_past_model   every later token, with the keys and values so far

With a recurrent decoder there are two: ``encoder_model`` gives what every step reads of the source (memory.*) and the
first state (present.*), ``decoder_model`` advances the state by one token.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.step_attention import KeysValues
from weft.interop.onnx.padded import PaddedAttention, PlainLSTM, PositionTable, run_stack
from weft.interop.onnx.tensor_names import cache_names, tree_names
from weft.models.cells import LSTM
from weft.models.encoders import RecurrentEncoder
from weft.models.recurrent import RecurrentStack
from weft.models.recurrent_decoder import Memory, RecurrentDecoder
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerStack
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory, TransformerState
from weft.models.transformer_encoder import TransformerEncoder
from weft.ragged import additive_mask
from weft.tree import leaves, map_tree

BATCH, SOURCE, PAST = "batch_size", "encoder_sequence_length", "past_decoder_sequence_length"


class Graph(NamedTuple):
    """A module to be exported."""

    module: nn.Module
    inputs: dict[str, Tensor]
    """Examples, by name."""
    outputs: list[str]
    dynamic: dict[str, dict[int, str]]
    """For each input, the names of its axes of variable size."""


class Encoded(NamedTuple):
    """The output of an encoder, padded."""

    states_BSD: Tensor
    final: Any
    """The last state of every layer; the mean of the states if the encoder is not recurrent."""


def make_graphs(model: Seq2Seq) -> dict[str, Graph]:
    """The graphs of a model, by the name of their files."""
    model = prepare(model)
    tokens_BS = torch.ones(2, 3, dtype=torch.int64)
    mask_BS = torch.tensor([[1, 1, 1], [1, 1, 0]])
    encoder_inputs = {"input_ids": tokens_BS, "attention_mask": mask_BS}
    decoder = model.decoder
    make = _transformer_graphs if isinstance(decoder, TransformerDecoder) else _recurrent_graphs
    return make(model, encoder_inputs)


def prepare(model: Seq2Seq) -> Seq2Seq:
    """A copy without anything that grows or depends on lengths."""
    model = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
    for module in model.modules():
        if isinstance(module, TransformerStack) and module.positions is not None:
            module.positions = PositionTable(module.positions)  # type: ignore[assignment]
        if isinstance(module, RecurrentStack) and module.cell is LSTM:
            module.cell = PlainLSTM
    return model


def encode(model: Seq2Seq, ids_BS: Tensor, tokens_BS: Tensor) -> Encoded:
    """The states of a padded batch of sources; ``tokens_BS``: True at a token."""
    embedded_BSE = model.source_embedding(ids_BS)
    encoder = model.encoder
    if isinstance(encoder, RecurrentEncoder):
        if encoder.reverse_source:
            states_BSD, final = run_stack(encoder.stack, embedded_BSE.flip(1), tokens_BS.flip(1))
            return Encoded(states_BSD.flip(1), final)
        return Encoded(*run_stack(encoder.stack, embedded_BSE, tokens_BS))
    assert isinstance(encoder, TransformerEncoder)
    stack, (rows, longest) = encoder.stack, ids_BS.shape
    positions_N = torch.arange(longest).expand(rows, -1).reshape(-1)
    stream_ND = stack.embed(embedded_BSE.flatten(0, 1), positions_N, longest)
    mask_BS = additive_mask(~tokens_BS, stream_ND.dtype)
    biases = stack.self_attention_biases(longest, stream_ND.device)
    stream_ND = stack(stream_ND, positions_N, [PaddedAttention(mask_BS, bias) for bias in biases])
    states_BSD = stack.normalize(stream_ND).view(rows, longest, -1)
    weights_BS1 = tokens_BS[..., None].to(states_BSD.dtype)
    means_BD = (states_BSD * weights_BS1).sum(1) / weights_BS1.sum(1)
    return Encoded(states_BSD, ((means_BD,),))


# A Transformer decoder


class EncoderGraph(nn.Module):
    """input_ids, attention_mask -> last_hidden_state."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return encode(self.model, input_ids, attention_mask.bool()).states_BSD


class FirstStepGraph(nn.Module):
    """The first token -> logits (B, 1, V), and keys and values of target and source of every layer."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, encoder_hidden_states: Tensor
    ) -> tuple[Tensor, ...]:
        decoder = self.model.decoder
        assert isinstance(decoder, TransformerDecoder)
        layers = []
        for layer in decoder.stack.layers:
            assert layer.cross_attention is not None
            keys_BSHD, values_BSHD = layer.cross_attention.keys_values(encoder_hidden_states)
            layers.append(KeysValues(keys_BSHD.transpose(1, 2), values_BSHD.transpose(1, 2)))
        memory = _memory(tuple(layers), encoder_attention_mask, encoder_hidden_states.dtype)
        step = self.model.step(input_ids[:, 0], decoder.start(memory), memory)
        pairs = zip(step.state.layers, layers, strict=True)
        return (step.logits_RV[:, None], *(tensor for own, source in pairs for tensor in (*own, *source)))


class NextStepGraph(nn.Module):
    """One token and the past -> logits (B, 1, V), and the longer keys and values of the target."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """``past``: keys and values of target and source, layer by layer."""
        own = tuple(KeysValues(*past[start : start + 2]) for start in range(0, len(past), 4))
        source = tuple(KeysValues(*past[start + 2 : start + 4]) for start in range(0, len(past), 4))
        memory = _memory(source, encoder_attention_mask, past[0].dtype)
        step = self.model.step(input_ids[:, 0], TransformerState(own), memory)
        return (step.logits_RV[:, None], *leaves(step.state))


def _memory(layers: tuple[KeysValues, ...], mask_BS: Tensor, dtype: torch.dtype) -> TransformerMemory:
    return TransformerMemory(layers, additive_mask(~mask_BS.bool(), dtype)[:, None, None])


def _transformer_graphs(model: Seq2Seq, encoder_inputs: dict[str, Tensor]) -> dict[str, Graph]:
    assert isinstance(model.decoder, TransformerDecoder)
    layers = len(model.decoder.stack.layers)
    encoder, first, following = EncoderGraph(model), FirstStepGraph(model), NextStepGraph(model)
    states_BSD, mask_BS = encoder(**encoder_inputs), encoder_inputs["attention_mask"]
    start = {"input_ids": torch.ones(len(mask_BS), 1, dtype=torch.int64), "encoder_attention_mask": mask_BS}
    first_inputs = {**start, "encoder_hidden_states": states_BSD}
    _, *past = first(**first_inputs)
    past = [part.repeat(1, 1, 2, 1) if index % 4 < 2 else part for index, part in enumerate(past)]  # a past of two
    past_names = cache_names("past_key_values", layers, "decoder", "encoder")
    rows_and_source = {0: BATCH, 1: SOURCE}
    source_axes = {"encoder_attention_mask": rows_and_source, "encoder_hidden_states": rows_and_source}
    past_axes = {name: {0: BATCH, 2: PAST if ".decoder." in name else SOURCE} for name in past_names}
    return {
        "encoder_model": Graph(
            encoder, encoder_inputs, ["last_hidden_state"], dict.fromkeys(encoder_inputs, rows_and_source)
        ),
        "decoder_model": Graph(
            first,
            first_inputs,
            ["logits", *cache_names("present", layers, "decoder", "encoder")],
            {"input_ids": {0: BATCH}, **source_axes},
        ),
        "decoder_with_past_model": Graph(
            following,
            {**start, **dict(zip(past_names, past, strict=True))},
            ["logits", *cache_names("present", layers, "decoder")],
            {"input_ids": {0: BATCH}, "encoder_attention_mask": rows_and_source, **past_axes},
        ),
    }


# A recurrent decoder


class RecurrentEncoderGraph(nn.Module):
    """input_ids, attention_mask -> what each step reads of the source, and the first state."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def trees(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Any, Any]:
        """Memory and state."""
        decoder, tokens_BS = self.model.decoder, attention_mask.bool()
        assert isinstance(decoder, RecurrentDecoder)
        encoded = encode(self.model, input_ids, tokens_BS)
        keys = None
        if decoder.attention is not None:
            mask_BS = additive_mask(~tokens_BS, encoded.states_BSD.dtype)
            keys = decoder.attention.project_masked(encoded.states_BSD, mask_BS)
        summary_BD = encoded.final[-1][0] if decoder.feeds_summary else None
        memory = Memory(keys, summary_BD, decoder.bridge(encoded.final))
        return memory._replace(initial=()), decoder.start(memory)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.clone() for tensor in leaves(self.trees(input_ids, attention_mask)))


class RecurrentStepGraph(nn.Module):
    """One token, memory and state -> logits (B, 1, V) and the next state."""

    def __init__(self, model: Seq2Seq, memory: Any, state: Any) -> None:
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


def _recurrent_graphs(model: Seq2Seq, encoder_inputs: dict[str, Tensor]) -> dict[str, Graph]:
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
