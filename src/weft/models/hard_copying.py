"""Hard attention that copies: a transducer over edit actions, summed over all edit sequences.

    p(y_t | a_t = j, y_<t, x) = g_tj softmax(W r_tj)_{y_t} + (1 − g_tj) [y_t = x_j]        g_tj = σ(w·r_tj + b)
    r_tj = tanh(R [s_t; h_j] + c)

A step to the next source position that copies its token is the edit action *copy*, one that generates a token a
*substitution*; to generate another token from the same position is an *insertion*, and to pass over a position a
*deletion*. Transducers over such actions are usually trained to imitate an oracle that knows one good sequence of them
(Makarov & Clematide 2018, 2020). Here the likelihood is the exact sum over all sequences of actions: with an alignment
that is monotonic or of first order, by the dynamic program of `weft.attention.hard_alignment`.

See `weft.models.copying` for the id of a source token in the target vocabulary, for the ids of tokens that are in no
vocabulary, and for label smoothing: here of log Σ_j p(a_t = j | y_<t, x) g_tj softmax(W r_tj)_v over all tokens v.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from weft.attention.hard_alignment import AlignmentSizes, logsumexp
from weft.models.architecture import Architecture
from weft.models.copying import CopyColumns, CopySource, CopyWeights, Gate, add_copies, known_ids
from weft.models.hard_attention import (
    Emission,
    Emissions,
    EmissionState,
    HardAttentionSeq2Seq,
    PositionLogits,
    SourceMemory,
)
from weft.models.interface import CopyProbabilities, Encoded, Encoder
from weft.models.layers import Embedding, Output
from weft.ragged import Ragged
from weft.recipe import ModelSettings


class CopyEmission(Emission):
    """Emissions with a gate g_tj for every target and source position."""

    def __init__(self, output: Output, sizes: AlignmentSizes, *, dropout: float) -> None:
        super().__init__(output, sizes, dropout=dropout)
        self.gate = Gate(output.width)

    def logits(self, hidden_NSD: Tensor) -> PositionLogits:
        return super().logits(hidden_NSD)._replace(gates_NS=self.gate(hidden_NSD))


class CopyEmissions(Emissions):
    """Emissions from source positions whose tokens can be copied."""

    def __init__(
        self, emission: Emission, states_ND: Tensor, memory: SourceMemory, row_ids: Tensor, *, own_ids: bool
    ) -> None:
        super().__init__(emission, states_ND, memory.emission_BSD, row_ids)
        assert memory.copies is not None
        self.own_ids = own_ids
        self.columns = CopyColumns(*(part_BS.index_select(0, row_ids) for part_BS in memory.copies))

    def targets(self, tokens_N: Tensor) -> Tensor:
        size = len(self.emission.output.bias_V)
        generated_NS = super().targets(known_ids(tokens_N, size))
        return emitted(generated_NS, self.gates(), tokens_N, self.columns.columns_BS, size)

    def mixture(self, log_weights_NS: Tensor) -> Tensor:
        """log p of the tokens and, with ``own_ids``, of those that only the sentence has."""
        gates_NS = self.gates()
        log_NV = super().mixture(log_weights_NS + functional.logsigmoid(gates_NS))
        copied_NS = (log_weights_NS + functional.logsigmoid(-gates_NS)).exp()
        return add_copies(log_NV, CopyWeights(copied_NS, self.columns), own_ids=self.own_ids)

    def mean_log_p(self, log_weights_NS: Tensor) -> Tensor:
        """(N,) the mean of log p(v) over the vocabulary, without copies."""
        return super().mean_log_p(log_weights_NS + functional.logsigmoid(self.gates()))

    def gates(self) -> Tensor:
        """(N, S) the logit of g."""

        def of_chunk(logits: PositionLogits, _: Tensor) -> Tensor:
            assert logits.gates_NS is not None
            return logits.gates_NS

        return self._map(of_chunk, self.row_ids)


def emitted(generated_NS: Tensor, gates_NS: Tensor, tokens_N: Tensor, columns_NS: Tensor, size: int) -> Tensor:
    """log(g p(y_t) + (1 − g) [y_t = x_j]) (N, S) from log p(y_t) of the vocabulary, which has ``size`` tokens.

    A token that is neither in the vocabulary nor x_j has the smallest positive probability, so that all that follows
    stays finite.
    """
    smallest = math.log(torch.finfo(generated_NS.dtype).tiny)
    generated_NS = (generated_NS + functional.logsigmoid(gates_NS)).masked_fill((tokens_N >= size)[:, None], smallest)
    copied_NS = torch.logaddexp(generated_NS, functional.logsigmoid(-gates_NS))
    return torch.where(columns_NS == tokens_N[:, None], copied_NS, generated_NS)


class HardCopyingSeq2Seq(HardAttentionSeq2Seq, CopySource):
    """Hard attention from whose source position a token is generated or copied."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: Encoder,
        output: Output,
    ) -> None:
        super().__init__(
            settings,
            source_embedding=source_embedding,
            target_embedding=target_embedding,
            encoder=encoder,
            output=output,
        )
        self._init_copying(len(source_embedding.weight_VE), len(output.bias_V))

    def architecture(self) -> Architecture:
        return replace(super().architecture(), copies=True, subclassed=type(self) is not HardCopyingSeq2Seq)

    def _make_emission(self, output: Output, sizes: AlignmentSizes, dropout: float) -> Emission:
        return CopyEmission(output, sizes, dropout=dropout)

    def _embed_source(self, source: Ragged) -> Ragged:
        return super()._embed_source(source.map(lambda ids: known_ids(ids, self.source_size)))

    def _embed_target(self, tokens: Tensor) -> Tensor:
        return super()._embed_target(known_ids(tokens, self.target_size))

    def _build_memory(self, encoded: Encoded, source: Ragged) -> SourceMemory:
        return super()._build_memory(encoded, source)._replace(copies=self._columns(source))

    def _emissions(self, states_ND: Tensor, memory: SourceMemory, row_ids: Tensor) -> Emissions:
        return CopyEmissions(self.emission, states_ND, memory, row_ids, own_ids=self.own_ids)

    def _emitted(self, tokens_R: Tensor, state: EmissionState, memory: SourceMemory, rows: Tensor) -> Tensor:
        assert memory.copies is not None and isinstance(self.emission, CopyEmission)
        hidden_RSD = self.emission.hidden(state.queries_RD, memory.emission_BSD.index_select(0, rows))
        logits_RS = self.emission.token_logits(hidden_RSD, known_ids(tokens_R, self.target_size))
        columns_RS = memory.copies.columns_BS.index_select(0, rows)
        return emitted(
            logits_RS - state.normalizers_RS, self.emission.gate(hidden_RSD), tokens_R, columns_RS, self.target_size
        )

    def copy_probabilities(self, source: Ragged, inputs: Ragged, targets_N: Tensor) -> CopyProbabilities:
        """See `HasCopyProbabilities`. The gate of a step is Σ_j p(a_t = j | y_<t, x) g_tj."""
        aligned = self._align(source, inputs, targets_N, False)
        emissions, weights_NS = aligned.emissions, aligned.log_weights_NS
        assert isinstance(emissions, CopyEmissions) and aligned.log_emissions_NS is not None
        gates_NS = emissions.gates()
        matches_NS = emissions.columns.columns_BS == targets_N[:, None]
        copied_NS = (weights_NS + functional.logsigmoid(-gates_NS)).masked_fill(~matches_NS, -math.inf)
        log_p_N = logsumexp(weights_NS + aligned.log_emissions_NS, -1)
        return CopyProbabilities(
            (weights_NS.exp() * gates_NS.sigmoid()).sum(-1), (logsumexp(copied_NS, -1) - log_p_N).exp()
        )
