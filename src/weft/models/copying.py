"""Copying: the output distribution mixed with the attention over the source.

    p(y_t) = g_t · p_vocabulary(y_t) + (1 − g_t) · Σ_{i: x_i = y_t} α_ti        g_t = σ(w·s_t + b)

See et al. 2017, eq. 8 and 9, "pointer-generator networks"; also Gu et al. 2016. s_t is the state that the output layer
reads. The weights α of a recurrent decoder are those of its attention, scaled to sum to one where a window has reduced
them. A Transformer decoder, and a decoder that attends to several source columns separately, computes them by an
additional attention with a single head: from s_t over the states of the encoder.

**Ids.** With Vs source and Vt target ids, a source token has

    an id below Vs        where the source vocabulary has it
    Vs + its target id    where only the target vocabulary has it
    Vs + Vt + k           where neither has it: the k-th such token of its sentence

and a target token that the target vocabulary lacks has the id Vt + i if it is in the source, i being the first position
of that token. `weft.text.copying` makes these ids of text. They are embedded as the unknown token. `CopyTable` maps
source ids to target ids.

`step` and `forward` return log p as logits, for Vt tokens and, where sentences have their own ids, for the S
positions of the longest source. A search needs to know nothing of it.

**Label smoothing** is of the mixture, through the part of it that reaches every token:

    loss_t = −(1 − ε) log p(y_t) − ε/Vt Σ_v log (g_t · p_vocabulary(v))

which is that of `weft.training.loss` but for the v that are in the source. Where a token is copied, it leaves a
probability of about ε for generating others. Without g_t, it would cost nothing to be certain of a copy, and
p_vocabulary would be learned to be uniform wherever copying is likely, however useful it is there.

Hard attention copies from the position that it is aligned to: `weft.models.hard_copying`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.edits import AttentionRole
from weft.attention.initialization import initialize
from weft.attention.normalizers import Normalizer, make_normalizer
from weft.attention.ragged_attention import AttentionRecord, ReturnAttention, renormalize
from weft.models.architecture import Architecture, AttentionShape
from weft.models.interface import CopyProbabilities, Encoded, ModelOutput, StepOutput, TargetLogProbabilities
from weft.models.layers import Embedding, Output
from weft.models.seq2seq import EncoderDecoder, Seq2Seq
from weft.models.transformer_decoder import TransformerDecoder
from weft.ragged import Ragged, additive_mask
from weft.recipe import ModelSettings
from weft.runtime.devices import without_autocast
from weft.runtime.replaceable import replaceable
from weft.text.specials import END, UNKNOWN


class CopyTable(NamedTuple):
    """The source's tokens in the target vocabulary."""

    target_ids: Sequence[int]
    """The id of the same token in the target vocabulary, for each source id; −1 if it has none."""
    own_ids: bool
    """Whether a source token that has no target id can be copied, as an id that holds for its sentence alone; if not,
    it counts as the unknown token."""

    @classmethod
    def joint(cls, source_size: int, target_size: int) -> CopyTable:
        """The table of one vocabulary for both sides."""
        return cls([id if END <= id < target_size else -1 for id in range(source_size)], own_ids=True)


class CopyColumns(NamedTuple):
    """The output column of each source position's weight."""

    columns_BS: Tensor
    """The column of the output distribution."""
    first_BS: Tensor
    """The first position with the same column."""


class CopyWeights(NamedTuple):
    """The probability with which each source position is copied."""

    weights_NS: Tensor
    columns: CopyColumns
    """Copy columns of every row."""
    log_factor_N1: Tensor | None = None
    """The logarithm of a factor of all weights of a row."""


class CopyMemory(NamedTuple):
    """The source as every step reads it. First axis of every tensor: the source row."""

    decoder: Any
    """The memory of the decoder."""
    columns: CopyColumns
    keys_BSD: Tensor | None
    """The keys of the copy attention, if the decoder's own attention is not used."""
    mask_BS: Tensor
    """Additive: 0 at a source token, −∞ at padding."""


class Decoded(NamedTuple):
    """The result of teacher forcing before the mixture."""

    states: Ragged
    weights_BTS: Tensor
    """The copy distribution, which sums to one over the source."""
    columns: CopyColumns
    attention: tuple[AttentionRecord, ...]


class TargetParts(NamedTuple):
    """The terms of the probability of every target."""

    gate_N: Tensor
    """The gate before the sigmoid."""
    generated_N: Tensor
    """log (g · p_vocabulary(y)); −∞ if y is not in the vocabulary."""
    copied_N: Tensor
    """log ((1 − g) · Σ_{i: x_i = y} α_i); −∞ if y is in the vocabulary and not copied at all."""


class CopyAttention(nn.Module):
    """α_t = normalize((W s_t)·(U h_i) / √D): the weights for copying, where the decoder's own attention is not used."""

    def __init__(self, *, queries: int, states: int, normalize: Normalizer) -> None:
        """``queries``: width of the decoder's states; ``states``: width of the encoder's."""
        super().__init__()
        self.query_projection = nn.Linear(queries, queries, bias=False)
        self.key_projection = nn.Linear(states, queries, bias=False)
        self.normalize = normalize

    def keys(self, states: Ragged) -> Tensor:
        """(B, S, D)"""
        return states.map(self.key_projection).to_padded()

    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor, mask_BS: Tensor) -> Tensor:
        """The weights (B, T, S): they are probabilities, so scores and weights are in float32 at least."""
        projected_BTD = self.query_projection(queries_BTD)
        dtype = torch.promote_types(projected_BTD.dtype, torch.float32)
        with without_autocast(projected_BTD):
            scores_BTS = projected_BTD.to(dtype) @ keys_BSD.to(dtype).transpose(1, 2) / math.sqrt(keys_BSD.shape[-1])
            return self.normalize(scores_BTS + mask_BS[:, None])


class Gate(nn.Module):
    """w·s + b, before the sigmoid: positive where generating a token is more likely than copying it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight_D = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(1))
        initialize(self)

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(len(self.weight_D))
        nn.init.uniform_(self.weight_D, -bound, bound)
        nn.init.zeros_(self.bias)

    def forward(self, states_ND: Tensor) -> Tensor:
        """(N,), in float32 at least."""
        states_ND = states_ND.to(torch.promote_types(states_ND.dtype, torch.float32))
        with without_autocast(states_ND):
            return states_ND @ self.weight_D.to(states_ND.dtype) + self.bias


class CopySource(nn.Module):
    """The vocabularies of a model that copies."""

    copy_ids_V: Tensor

    def _init_copying(self, source_size: int, target_size: int) -> None:
        """Start with the `CopyTable` of a joint vocabulary; `set_table` sets that of two vocabularies."""
        self.source_size, self.target_size = source_size, target_size
        self.register_buffer("copy_ids_V", torch.empty(source_size, dtype=torch.int64), persistent=False)
        initialize(self)

    def reset_buffers(self) -> None:
        self.copy_ids_V = torch.empty(self.source_size, dtype=torch.int64)
        self.set_table(CopyTable.joint(self.source_size, self.target_size))

    def set_table(self, table: CopyTable) -> None:
        """Set what the source's tokens are in the target vocabulary."""
        self.own_ids = table.own_ids
        self.copy_ids_V.copy_(torch.tensor(table.target_ids, dtype=torch.int64))

    def _columns(self, source: Ragged) -> CopyColumns:
        """The target id of every source token or, if it has none, its own id: Vt + the first position of that token."""
        ids_BS = source.to_padded()
        target_BS = torch.where(
            ids_BS < self.source_size, self.copy_ids_V[known_ids(ids_BS, self.source_size)], ids_BS - self.source_size
        )
        has_target_BS = (target_BS >= 0) & (target_BS < self.target_size)
        if not self.own_ids:
            columns_BS = target_BS.masked_fill(~has_target_BS, UNKNOWN)
            return CopyColumns(columns_BS, first_positions(columns_BS))
        first_BS = first_positions(torch.where(has_target_BS, target_BS, self.target_size + ids_BS))
        return CopyColumns(torch.where(has_target_BS, target_BS, self.target_size + first_BS), first_BS)


class CopyingSeq2Seq(EncoderDecoder, CopySource):
    """The parts of a `Seq2Seq`, with a gate between generating and copying."""

    def __init__(self, network: Seq2Seq, settings: ModelSettings) -> None:
        """Start with the `CopyTable` of a joint vocabulary; `set_table` sets that of two vocabularies."""
        super().__init__(
            source_embedding=network.source_embedding,
            target_embedding=network.target_embedding,
            encoder=network.encoder,
            decoder=network.decoder,
            output=network.output,
        )
        self.gate = Gate(network.output.width)
        self.copy_attention: CopyAttention | None = None
        if isinstance(network.decoder, TransformerDecoder) or settings.sources.separate_attentions > 1:
            self.copy_attention = CopyAttention(
                queries=network.output.width,
                states=settings.encoder.hidden,
                normalize=make_normalizer(settings.attention.normalizer),
            )
        self.has_window = self.copy_attention is None and settings.attention.window != "none"
        self._init_copying(len(cast(Embedding, network.source_embedding).weight_VE), len(network.output.bias_V))

    def architecture(self) -> Architecture:
        described = super().architecture()
        attentions = described.attentions
        if self.copy_attention is not None:
            attentions += (AttentionShape("copy_attention", AttentionRole("copy", 0, multihead=False)),)
        subclassed = type(self) is not CopyingSeq2Seq
        return replace(described, attentions=attentions, copies=True, subclassed=subclassed)

    # Source

    def encode(self, source: Ragged) -> CopyMemory:
        encoded = self.encoder(self._embedded_source(source))
        keys_BSD = None if self.copy_attention is None else self.copy_attention.keys(encoded.states)
        mask_BS = additive_mask(source.layout.masked_BS, encoded.states.values.dtype)
        return CopyMemory(self.decoder.build_memory(encoded), self._columns(source), keys_BSD, mask_BS)

    def start(self, memory: CopyMemory) -> Any:
        return self.decoder.start(memory.decoder)

    def _embedded_source(self, source: Ragged) -> Ragged:
        return self.source_embedding.ragged(source.map(lambda ids: known_ids(ids, self.source_size)))

    # One step

    def step(self, tokens_R: Tensor, state: Any, memory: CopyMemory) -> StepOutput:
        embedded_RE = self.target_embedding(known_ids(tokens_R, self.target_size))
        output_RD, state, weights_RS = self.decoder.step(embedded_RE, state, memory.decoder)
        rows = len(memory.mask_BS)
        if self.copy_attention is not None:
            assert memory.keys_BSD is not None
            queries_BTD = output_RD.view(rows, -1, output_RD.shape[-1])
            weights_RS = self.copy_attention(queries_BTD, memory.keys_BSD, memory.mask_BS).flatten(0, 1)
        assert weights_RS is not None
        columns = CopyColumns(*(part_BS.repeat_interleave(len(tokens_R) // rows, 0) for part_BS in memory.columns))
        return StepOutput(self._mixture(output_RD, self._copied(weights_RS), columns), state, weights_RS)

    def _copied(self, weights: Tensor) -> Tensor:
        """Attention weights as probabilities, in float32 at least."""
        weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
        return renormalize(weights) if self.has_window else weights

    def _mixture(self, states_ND: Tensor, weights_NS: Tensor, columns: CopyColumns) -> Tensor:
        """log p of every token; the columns are those of every row."""
        log_NV = self.output(states_ND).log_softmax(-1, dtype=weights_NS.dtype)
        gate_N1 = self.gate(states_ND)[:, None]
        log_NV = log_NV + functional.logsigmoid(gate_N1)
        copies = CopyWeights(weights_NS, columns, functional.logsigmoid(-gate_N1))
        return add_copies(log_NV, copies, own_ids=self.own_ids)

    # Whole targets

    def _decode(self, source: Ragged, inputs: Ragged, return_attention: ReturnAttention) -> Decoded:
        encoded: Encoded = self.encoder(self._embedded_source(source), return_attention=return_attention)
        embedded = self.target_embedding.ragged(inputs.map(lambda ids: known_ids(ids, self.target_size)))
        if self.copy_attention is None:
            states, attention = self.decoder(embedded, encoded, return_attention=return_attention or "alignment")
            weights_BTS = attention[-1].weights_BHTS[:, 0]
        else:
            states, attention = self.decoder(embedded, encoded, return_attention=return_attention is True)
            mask_BS = additive_mask(source.layout.masked_BS, states.values.dtype)
            keys_BSD = self.copy_attention.keys(encoded.states)
            weights_BTS = self.copy_attention(states.to_padded(), keys_BSD, mask_BS)
            attention = (*attention, AttentionRecord("copy", 0, weights_BTS[:, None]))
        records = (*encoded.attention, *attention) if return_attention else ()
        return Decoded(states, self._copied(weights_BTS), self._columns(source), records)

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        decoded = self._decode(source, inputs, return_attention)
        return ModelOutput(self._log_probabilities(decoded, inputs), decoded.attention)

    def _log_probabilities(self, decoded: Decoded, inputs: Ragged) -> Tensor:
        """log p of every token at every target position (N, V)."""
        columns = CopyColumns(*(part_BS[inputs.layout.row_ids] for part_BS in decoded.columns))
        return self._mixture(decoded.states.values, inputs.from_padded(decoded.weights_BTS).values, columns)

    def target_log_probabilities(
        self,
        source: Ragged,
        inputs: Ragged,
        targets_N: Tensor,
        *,
        smoothing: float,
        return_attention: ReturnAttention = False,
    ) -> TargetLogProbabilities:
        """See `HasTargetLogProbabilities`. Label smoothing takes the mean of log (g_t · p_vocabulary(v)): see above.
        A target that can only be copied, but has no weight at all, gets the smallest positive probability."""
        decoded = self._decode(source, inputs, return_attention)
        parts, uniform_N = self._target_parts(decoded, inputs.like(targets_N), smoothing)
        log_p_N = torch.logaddexp(parts.generated_N, parts.copied_N)
        distribution = partial(self._log_probabilities, decoded, inputs)
        return TargetLogProbabilities(log_p_N, uniform_N, decoded.attention, distribution)

    def copy_probabilities(self, source: Ragged, inputs: Ragged, targets_N: Tensor) -> CopyProbabilities:
        """See `HasCopyProbabilities`."""
        parts, _ = self._target_parts(self._decode(source, inputs, False), inputs.like(targets_N), smoothing=0.0)
        return CopyProbabilities(parts.gate_N.sigmoid(), (parts.copied_N - parts.generated_N).sigmoid())

    def _target_parts(self, decoded: Decoded, targets: Ragged, smoothing: float) -> tuple[TargetParts, Tensor | None]:
        """The two parts of log p(y_t), and with ``smoothing`` the mean of log (g · p_vocabulary)."""
        states, weights_BTS, columns, targets_N = *decoded[:3], targets.values
        copied_N = _copied_probabilities(weights_BTS, columns.columns_BS, targets)
        in_vocabulary_N = targets_N < self.target_size
        known_N = known_ids(targets_N.clamp(min=0), self.target_size)
        generated_N, uniform_N = vocabulary_log_probabilities(self.output, states.values, known_N, mean=bool(smoothing))
        gate_N = self.gate(states.values)
        generated_N = generated_N + functional.logsigmoid(gate_N)
        if uniform_N is not None:
            uniform_N = uniform_N + functional.logsigmoid(gate_N)
        pointed_N = _log(copied_N) + functional.logsigmoid(-gate_N)
        parts = TargetParts(
            gate_N,
            generated_N.masked_fill(~in_vocabulary_N, -math.inf),
            pointed_N.masked_fill((copied_N <= 0) & in_vocabulary_N, -math.inf),
        )
        return parts, uniform_N


@replaceable
def vocabulary_log_probabilities(
    output: Output, states_ND: Tensor, targets_N: Tensor, *, mean: bool
) -> tuple[Tensor, Tensor | None]:
    """log p_vocabulary of targets, and with ``mean`` its mean over the vocabulary; in float32 at least."""
    log_NV = output(states_ND).log_softmax(-1, dtype=torch.promote_types(states_ND.dtype, torch.float32))
    return log_NV.gather(1, targets_N[:, None])[:, 0], log_NV.mean(-1) if mean else None


def add_copies(log_NV: Tensor, copies: CopyWeights, *, own_ids: bool) -> Tensor:
    """log p of every token, from log p of those that are generated and the probabilities of those that are copied.

    ``own_ids``: whether there are columns for tokens that only the sentence has.
    """
    columns_NS, first_NS = copies.columns
    if own_ids:
        log_NV = functional.pad(log_NV, (0, columns_NS.shape[1]), value=-math.inf)
    copied_NS = torch.zeros_like(copies.weights_NS).scatter_add(1, first_NS, copies.weights_NS)
    log_copied_NS = _log(copied_NS)
    if copies.log_factor_N1 is not None:
        log_copied_NS = copies.log_factor_N1 + log_copied_NS
    generated_NS = log_NV.gather(1, columns_NS)
    mixed_NS = torch.logaddexp(generated_NS, log_copied_NS)
    mixed_NS = torch.where(copied_NS > 0, mixed_NS, generated_NS)
    # The other positions of a token write what its first position does, and carry no gradient.
    is_first_NS = first_NS == torch.arange(first_NS.shape[1], device=first_NS.device)
    mixed_NS = torch.where(is_first_NS, mixed_NS, mixed_NS.detach().gather(1, first_NS))
    return log_NV.scatter(1, columns_NS, mixed_NS)


def known_ids(ids: Tensor, size: int) -> Tensor:
    """The ids of a vocabulary of this size; any other is the unknown token."""
    return ids.masked_fill(ids >= size, UNKNOWN)


def first_positions(keys_BS: Tensor) -> Tensor:
    """The first position with the same key in each position's row."""
    sorted_BS, positions_BS = keys_BS.sort(dim=-1, stable=True)
    ranks_S = torch.arange(keys_BS.shape[1], device=keys_BS.device)
    starts_BS = functional.pad(sorted_BS[:, 1:] != sorted_BS[:, :-1], (1, 0), value=True)
    start_BS = (ranks_S * starts_BS).cummax(-1).values
    return torch.empty_like(positions_BS).scatter(1, positions_BS, positions_BS.gather(1, start_BS))


def _copied_probabilities(weights_BTS: Tensor, columns_BS: Tensor, targets: Ragged) -> Tensor:
    """(N,) Σ_{i: x_i = y_t} α_ti."""
    matches_BTS = columns_BS[:, None] == targets.to_padded()[:, :, None]
    return targets.from_padded((weights_BTS * matches_BTS).sum(-1)).values


def _log(probabilities: Tensor) -> Tensor:
    """log p; where p is 0, that of the smallest positive number, without gradient."""
    return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
