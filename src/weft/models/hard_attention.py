"""Hard attention: every target token is emitted from one source position, and all alignments are summed over.

    p(y_t | y_<t, x) = Σ_j p(a_t = j | y_<t, x) p(y_t | a_t = j, y_<t, x)         Wu et al. 2018; Wu & Cotterell 2019
    p(y_t | a_t = j, y_<t, x) = softmax(W tanh(R [s_t; h_j] + b))

s_t is the state of a recurrent decoder that has read y_<t alone: nothing of the attention enters it, so that in
training it runs over whole targets in parallel, and only the distributions over alignments (`weft.attention.
hard_alignment`) are computed step by step. Their weights p(a_t = j | y_<t, x), before y_t is known, are the attention
that is returned. The logits are log-probabilities.

Where a source has several columns, the first is aligned with the target. The final states of the encoders of all
columns are an input of every step of the decoder, as Wu & Cotterell 2019 feed it the features of an inflected form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from weft.attention.edits import AttentionRole
from weft.attention.hard_alignment import AlignmentSizes, HardAlignment, condition, first_position, logsumexp
from weft.attention.initialization import initialize
from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.models.architecture import Architecture, AttentionShape, part_architecture_of
from weft.models.interface import Encoded, Encoder, ModelOutput, StepOutput, TargetLogProbabilities
from weft.models.layers import Embedding, Output, dropout
from weft.models.recurrent_decoder import DecoderState, Memory, RecurrentDecoder
from weft.ragged import Ragged
from weft.recipe import AttentionSettings, ModelSettings
from weft.recipe.choices import HARD_ALIGNMENTS, resolve
from weft.runtime.replaceable import replaceable

if TYPE_CHECKING:
    from weft.models.copying import CopyColumns
    from weft.models.stems import Stem

CHUNK_VALUES = 1 << 26
"""Values of hidden layers and logits that exist at a time; those of a larger batch are recomputed for gradients."""


@replaceable
def chunk_values(states_ND: Tensor) -> int:
    """`CHUNK_VALUES` for such states."""
    return CHUNK_VALUES


class StateDecoder(RecurrentDecoder):
    """A recurrent decoder without attention whose outputs are its states s_t themselves."""

    def __init__(self, settings: ModelSettings) -> None:
        decoder = settings.decoder.model_copy(update={"feed_summary": settings.sources.count > 1})
        without = settings.model_copy(update={"attention": AttentionSettings(score="none"), "decoder": decoder})
        super().__init__(without, size=settings.decoder.hidden)
        initialize(self)

    def _make_readout(self, inputs: int, size: int) -> None:
        """None: the states s_t themselves are read."""
        self._unused_numbers = (inputs + 1) * size if inputs != size else 0

    def reset_parameters(self) -> None:
        """Draw as many random numbers as the readout of a `RecurrentDecoder` would, and use none of them.

        Earlier versions made that readout. The alignment and the emission come after this decoder in the stream of
        random numbers: without this, a seed would give other weights than it always has.
        """
        torch.rand(self._unused_numbers)

    def read(
        self, context_ND: Tensor | None, summary_ND: Tensor | None, output_ND: Tensor, embedded_NE: Tensor
    ) -> Tensor:
        return output_ND


class SourceMemory(NamedTuple):
    """The source as every step reads it. First axis of every tensor: the source row."""

    decoder: Memory
    alignment_BSD: Tensor
    """The source states as the alignment reads them."""
    emission_BSD: Tensor
    """The source states as the emission reads them."""
    masked_BS: Tensor
    """True at padding, and at all source columns but the first."""
    copies: CopyColumns | None = None
    """The target token of each source token, if the model copies."""


class EmissionState(NamedTuple):
    """The last step's terms that condition its alignment on the chosen token. 0 at padding."""

    log_weights_RS: Tensor
    """log p(a_t = j | y_<t, x)"""
    queries_RD: Tensor
    """The decoder state's term in the hidden layer of the emission."""
    normalizers_RS: Tensor
    """The log-sum-exp of the logits of each source position."""


class HardAttentionState(NamedTuple):
    """The state of a hypothesis."""

    decoder: DecoderState
    emission: EmissionState | None
    """State of the emissions; None if an alignment does not depend on the one before."""


class PositionLogits(NamedTuple):
    """The logits of the tokens from every source position."""

    logits_NSV: Tensor
    normalizers_NS: Tensor
    """Their log-sum-exp."""
    gates_NS: Tensor | None = None
    """Logit of generating rather than copying a token, for a model that copies."""

    def mixture(self, log_weights_NS: Tensor) -> Tensor:
        """log p(v) (N, V) = log Σ_j exp(log w(j) + log p(v | j))."""
        return torch.logsumexp(self.logits_NSV + (log_weights_NS - self.normalizers_NS)[..., None], 1)


class Emission(nn.Module):
    """p(y_t | a_t = j, y_<t, x) = softmax(W tanh(R_s s_t + R_h h_j + b)).

    Dropout of the hidden layer is the same for all positions j of a target position t.
    """

    def __init__(self, output: Output, sizes: AlignmentSizes, *, dropout: float) -> None:
        super().__init__()
        self.queries = nn.Linear(sizes.queries, output.width)
        self.keys = nn.Linear(sizes.states, output.width, bias=False)
        self.output = output
        self.dropout = dropout

    def hidden(self, query_ND: Tensor, keys_NSD: Tensor, factors_ND: Tensor | None = None) -> Tensor:
        """tanh(…) (N, S, D), times the factors of dropout."""
        hidden_NSD = torch.tanh(keys_NSD + query_ND[:, None])
        return hidden_NSD if factors_ND is None else hidden_NSD * factors_ND[:, None]

    def logits(self, hidden_NSD: Tensor) -> PositionLogits:
        """Logits of all tokens from all positions, in float32 at least."""
        logits_NSV: Tensor = self.output(hidden_NSD)
        logits_NSV = logits_NSV.to(torch.promote_types(logits_NSV.dtype, torch.float32))
        return PositionLogits(logits_NSV, logits_NSV.logsumexp(-1))

    def token_logits(self, hidden_NSD: Tensor, tokens_N: Tensor) -> Tensor:
        """The logits (N, S) of one token for each row."""
        weight_ND = functional.embedding(tokens_N, self.output.weight_VD)
        logits_NS = torch.einsum("nsd,nd->ns", hidden_NSD, weight_ND) + self.output.bias_V[tokens_N][:, None]
        return logits_NS.to(torch.promote_types(logits_NS.dtype, torch.float32))


class Emissions:
    """The emissions of the N target positions of a batch from all S positions of their sources, a chunk at a time."""

    def __init__(self, emission: Emission, states_ND: Tensor, keys_BSD: Tensor, row_ids: Tensor) -> None:
        """``row_ids``: the source of each target position."""
        self.emission, self.keys_BSD, self.row_ids = emission, keys_BSD, row_ids
        self.query_ND: Tensor = emission.queries(states_ND)
        ones_ND = torch.ones_like(self.query_ND)
        drops = emission.training and emission.dropout > 0.0
        self.factors_ND = dropout(ones_ND, emission.dropout, True) if drops else None
        values = keys_BSD.shape[1] * (2 * emission.output.width + len(emission.output.bias_V))
        if torch.compiler.is_exporting():  # its graph is that of any size
            self.chunk = row_ids.shape[0]
        else:
            self.chunk = max(chunk_values(states_ND) // max(values, 1), 1)
        self._whole: PositionLogits | None = None

    def targets(self, tokens_N: Tensor) -> Tensor:
        """log p(y_t | a_t = j) (N, S)."""

        def of_chunk(logits: PositionLogits, tokens_N: Tensor) -> Tensor:
            index_NS1 = tokens_N[:, None, None].expand(-1, logits.logits_NSV.shape[1], 1)
            return logits.logits_NSV.gather(2, index_NS1)[..., 0] - logits.normalizers_NS

        return self._map(of_chunk, tokens_N)

    def mixture(self, log_weights_NS: Tensor) -> Tensor:
        """log p(v) (N, V) of the tokens, given log w_t(j) of the positions."""
        return self._map(PositionLogits.mixture, log_weights_NS)

    def mean_log_p(self, log_weights_NS: Tensor) -> Tensor:
        """(N,) the mean of log p(v) over the vocabulary."""
        return self._map(lambda logits, weights_NS: logits.mixture(weights_NS).mean(-1), log_weights_NS)

    def normalizers(self) -> Tensor:
        """(N, S) the log-sum-exp of the logits of each position."""
        return self._map(lambda logits, _: logits.normalizers_NS, self.row_ids)

    def _map(self, function: Callable[[PositionLogits, Tensor], Tensor], values_N: Tensor) -> Tensor:
        """``function`` of the logits and of other values of every target position."""
        if self.row_ids.shape[0] <= self.chunk:
            if self._whole is None:
                self._whole = self._logits(self.query_ND, self.factors_ND, self.row_ids)
            return function(self._whole, values_N)

        def of_chunk(query_ND: Tensor, factors_ND: Tensor | None, row_ids: Tensor, values_N: Tensor) -> Tensor:
            return function(self._logits(query_ND, factors_ND, row_ids), values_N)

        results: list[Tensor] = []
        for start in range(0, len(self.row_ids), self.chunk):
            rows = slice(start, start + self.chunk)
            factors_ND = None if self.factors_ND is None else self.factors_ND[rows]
            parts = (self.query_ND[rows], factors_ND, self.row_ids[rows], values_N[rows])
            if torch.is_grad_enabled():
                results.append(checkpoint(of_chunk, *parts, use_reentrant=False, preserve_rng_state=False))
            else:
                results.append(of_chunk(*parts))
        return torch.cat(results)

    def _logits(self, query_ND: Tensor, factors_ND: Tensor | None, row_ids: Tensor) -> PositionLogits:
        # As an embedding, because its gradient is deterministic on a GPU, too
        keys_NSD = functional.embedding(row_ids, self.keys_BSD.flatten(1)).view(-1, *self.keys_BSD.shape[1:])
        return self.emission.logits(self.emission.hidden(query_ND, keys_NSD, factors_ND))


class Aligned(NamedTuple):
    """The alignments of a batch under teacher forcing."""

    emissions: Emissions
    log_weights_NS: Tensor
    """log p(a_t = j | y_<t, x)"""
    log_emissions_NS: Tensor | None
    """log p(y_t | a_t = j, y_<t, x) of the targets, if they are known."""
    attention: tuple[AttentionRecord, ...]


class HardAttentionSeq2Seq(nn.Module):
    """Embeddings, any encoder, a recurrent decoder, a distribution over alignments and emissions."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        source_embedding: Embedding | Stem,
        target_embedding: Embedding,
        encoder: Encoder,
        output: Output,
    ) -> None:
        super().__init__()
        sizes = AlignmentSizes(queries=settings.decoder.hidden, states=settings.encoder.hidden)
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = StateDecoder(settings)
        self.alignment: HardAlignment = resolve(HARD_ALIGNMENTS, settings.attention.hard)(settings.attention, sizes)
        self.emission = self._make_emission(output, sizes, settings.dropout)

    def _make_emission(self, output: Output, sizes: AlignmentSizes, dropout: float) -> Emission:
        return Emission(output, sizes, dropout=dropout)

    @property
    def output(self) -> Output:
        return self.emission.output

    def architecture(self) -> Architecture:
        encoder, decoder = part_architecture_of(self.encoder, "encoder"), self.decoder.part_architecture("decoder")
        hard = AttentionShape("alignment", AttentionRole("hard", 0, multihead=False))
        return Architecture(
            "hard_attention",
            encoders=encoder.stacks,
            decoder=decoder.stacks[0],
            source_embedding=self.source_embedding.shape("source_embedding"),
            target_embedding=self.target_embedding.shape("target_embedding"),
            attentions=(*encoder.attentions, hard),
            source_columns=self.source_embedding.columns,
            subclassed=type(self) is not HardAttentionSeq2Seq,
        )

    # Search

    def encode(self, source: Ragged) -> SourceMemory:
        return self._build_memory(self.encoder(self._embed_source(source)), source)

    def _embed_source(self, source: Ragged) -> Ragged:
        return self.source_embedding.ragged(source)

    def _embed_target(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.target_embedding(tokens)
        return embedded

    def _build_memory(self, encoded: Encoded, source: Ragged) -> SourceMemory:
        states_BSD, masked_BS = encoded.states.to_padded(), encoded.states.layout.masked_BS
        if encoded.columns_N is not None:
            masked_BS = masked_BS | (encoded.states.like(encoded.columns_N).to_padded() > 0)
        return SourceMemory(
            self.decoder.build_memory(encoded),
            self.alignment.project(states_BSD),
            self.emission.keys(states_BSD),
            masked_BS,
        )

    def start(self, memory: SourceMemory) -> HardAttentionState:
        """Before the first token the alignment is at the first position, whatever is emitted from it."""
        decoder = self.decoder.start(memory.decoder)
        if not self.alignment.is_stepwise:
            return HardAttentionState(decoder, None)
        keys_BSD, masked_BS = memory.emission_BSD, memory.masked_BS
        dtype = torch.promote_types(keys_BSD.dtype, torch.float32)
        zeros_BS = torch.zeros(masked_BS.shape, dtype=dtype, device=masked_BS.device)
        start_BS = first_position(zeros_BS).masked_fill(masked_BS, 0.0)
        return HardAttentionState(decoder, EmissionState(start_BS, torch.zeros_like(keys_BSD[:, 0]), zeros_BS))

    def step(self, tokens_R: Tensor, state: HardAttentionState, memory: SourceMemory) -> StepOutput:
        states_RD, decoder, _ = self.decoder.step(self._embed_target(tokens_R), state.decoder, memory.decoder)
        sources, count = memory.masked_BS.shape[0], tokens_R.shape[0]
        rows = torch.arange(count, device=tokens_R.device) // (count // sources)
        emissions = self._emissions(states_RD, memory, rows)
        queries_BTD = states_RD.view(sources, -1, states_RD.shape[-1])
        transitions = self.alignment.transitions(queries_BTD, memory.alignment_BSD, memory.masked_BS)
        transitions = tuple(part.flatten(0, 1) for part in transitions)
        if state.emission is None:
            log_weights_RS, emission = transitions[0], None
        else:
            masked_RS = memory.masked_BS.index_select(0, rows)
            before_RS = state.emission.log_weights_RS.masked_fill(masked_RS, float("-inf"))
            filtered_RS = condition(before_RS, self._emitted(tokens_R, state.emission, memory, rows))
            log_weights_RS = self.alignment.predict(filtered_RS, transitions)
            emission = EmissionState(
                log_weights_RS.masked_fill(masked_RS, 0.0),
                emissions.query_ND,
                emissions.normalizers().masked_fill(masked_RS, 0.0),
            )
        logits_RV = emissions.mixture(log_weights_RS)
        return StepOutput(logits_RV, HardAttentionState(decoder, emission), log_weights_RS.exp())

    def _emissions(self, states_ND: Tensor, memory: SourceMemory, row_ids: Tensor) -> Emissions:
        """The emissions of target positions with these states; ``row_ids``: the source of each."""
        return Emissions(self.emission, states_ND, memory.emission_BSD, row_ids)

    def _emitted(self, tokens_R: Tensor, state: EmissionState, memory: SourceMemory, rows: Tensor) -> Tensor:
        """log p(y_t | a_t = j, y_<t, x) (R, S), where ``tokens_R`` are the y_t that followed ``state``."""
        hidden_RSD = self.emission.hidden(state.queries_RD, memory.emission_BSD.index_select(0, rows))
        return self.emission.token_logits(hidden_RSD, tokens_R) - state.normalizers_RS

    # Whole targets

    def target_log_probabilities(
        self,
        source: Ragged,
        inputs: Ragged,
        targets_N: Tensor,
        *,
        smoothing: float,
        return_attention: ReturnAttention = False,
    ) -> TargetLogProbabilities:
        """log p(y_t | y_<t, x): their sum is log p(y | x), marginalized over all alignments."""
        aligned = self._align(source, inputs, targets_N.clamp(min=0), return_attention)
        assert aligned.log_emissions_NS is not None
        log_p_N = logsumexp(aligned.log_weights_NS + aligned.log_emissions_NS, -1)
        uniform_N = aligned.emissions.mean_log_p(aligned.log_weights_NS) if smoothing else None
        return TargetLogProbabilities(
            log_p_N, uniform_N, aligned.attention, lambda: aligned.emissions.mixture(aligned.log_weights_NS)
        )

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        # Row by row the targets are the inputs shifted back; the last one of a row conditions nothing.
        targets_N = inputs.values.roll(-1) if self.alignment.is_stepwise else None
        aligned = self._align(source, inputs, targets_N, return_attention)
        return ModelOutput(aligned.emissions.mixture(aligned.log_weights_NS), aligned.attention)

    def _align(
        self, source: Ragged, inputs: Ragged, targets_N: Tensor | None, return_attention: ReturnAttention
    ) -> Aligned:
        """Under teacher forcing; ``targets_N`` may be None if an alignment does not depend on the one before."""
        encoded = self.encoder(self._embed_source(source), return_attention=return_attention)
        memory = self._build_memory(encoded, source)
        states = self.decoder(inputs.map(self._embed_target), encoded).states
        emissions = self._emissions(states.values, memory, inputs.layout.row_ids)
        transitions = self.alignment.transitions(states.to_padded(), memory.alignment_BSD, memory.masked_BS)
        emissions_NS = None if targets_N is None else emissions.targets(targets_N)
        emissions_BTS = None if emissions_NS is None else inputs.like(emissions_NS).to_padded()
        log_weights_BTS: Tensor = self.alignment(transitions, emissions_BTS)
        attention = encoded.attention
        if return_attention:
            attention += (AttentionRecord("cross", 0, log_weights_BTS.exp()[:, None]),)
        return Aligned(emissions, inputs.from_padded(log_weights_BTS).values, emissions_NS, attention)
