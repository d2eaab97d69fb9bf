"""Connectionist temporal classification as models: an encoder alone, or beside a decoder.

An output layer gives log p_t(v) of every label and of a blank at each state of the encoder (`weft.training.ctc` is the
loss). `CTCPrefixModel` gives the probability of the next label given those before it:

    ψ(h) = p(labels begin with h) = Σ_t φ_{t−1}(g, c) p_t(c)                h = g·c    Graves 2012, 7.5.2
    φ_t(g, c) = β_t(g) + [c ≠ last label of g] ν_t(g)                       Watanabe et al. 2017, algorithm 2
    ν_t(h) = (ν_{t−1}(h) + φ_{t−1}(g, c)) p_t(c)                            paths to frame t that give h, end in c
    β_t(h) = (β_{t−1}(h) + ν_{t−1}(h)) p_t(blank)                           … and end in a blank
    p(c | g) = ψ(g·c) / ψ(g),   p(end | g) = (ν_T(g) + β_T(g)) / ψ(g)

Since these are probabilities of a next token like those of any model, beam search, exact search, sampling and
constraints work with them, and a mean of both logarithms is the joint CTC/attention score of a beam.

`CTCModel` (model.kind = "ctc") is nothing else; its blank is the begin token, which no output has. `CTCSeq2Seq`
(training.ctc) has a decoder, too, and `JointModel` (search.ctc) is the mean of both.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import ReturnAttention
from weft.errors import SearchError
from weft.models.architecture import Architecture, architecture_of, part_architecture_of
from weft.models.interface import CTCPass, Encoded, Encoder, Model, ModelOutput, StepOutput
from weft.models.layers import Output
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.text.specials import BEGIN, END

FORBIDDEN = float("-inf")
"""The logarithm of the probability of what cannot be."""
NO_LABEL = -1
"""The last label of an empty prefix."""
BLANK = BEGIN
LEAST = -1e4
"""The least log p of a label: where no alignment is left, an infinite loss would say nothing of the other rows."""


class CTCMemory(NamedTuple):
    """Log-probabilities of the frames of a batch, padded, and how many frames each row has."""

    log_p_BTV: Tensor
    lengths_B: Tensor


class CTCPrefix(NamedTuple):
    """The labels of each hypothesis so far; probabilities as logarithms, by the number of frames from 0 to T."""

    label_RT: Tensor
    """ν_t: of paths of t frames that give these labels and end in the last of them."""
    blank_RT: Tensor
    """β_t: of those that end in a blank."""
    last_R: Tensor
    """The last label; `NO_LABEL` of no labels."""
    total_R: Tensor
    """ψ: of all outputs that begin with these labels."""
    has_begun_R: Tensor
    """Whether the begin token has been passed."""


class CTCPrefixModel:
    """CTC as a model that a search steps (`weft.search.interface.StepModel`)."""

    def __init__(self, *, blank: int, end: int) -> None:
        """``blank``: a token that no output has, for example the begin token; ``end``: the end token."""
        self.blank = blank
        self.end = end

    def start(self, memory: CTCMemory) -> CTCPrefix:
        """The prefix of no labels: its paths are all blank."""
        blank_BT = memory.log_p_BTV[:, :, self.blank].cumsum(1)
        blank_BT = torch.cat([torch.zeros_like(blank_BT[:, :1]), blank_BT], 1)
        first_B = torch.zeros_like(memory.lengths_B)
        return CTCPrefix(
            torch.full_like(blank_BT, FORBIDDEN),
            blank_BT,
            first_B + NO_LABEL,
            torch.zeros_like(blank_BT[:, 0]),
            first_B.bool(),
        )

    def step(self, tokens_R: Tensor, state: CTCPrefix, memory: CTCMemory) -> tuple[Tensor, CTCPrefix, None]:
        """log p(next token | labels, x), and the prefix with these tokens; a first token is that of the beginning."""
        copies = len(tokens_R) // len(memory.lengths_B)
        log_p_RTV = memory.log_p_BTV.repeat_interleave(copies, 0)
        lengths_R = memory.lengths_B.repeat_interleave(copies)
        longer = self._extended(tokens_R, state, log_p_RTV, lengths_R)
        state = CTCPrefix(*(_where(state.has_begun_R, new, old) for new, old in zip(longer, state, strict=True)))
        state = state._replace(has_begun_R=torch.ones_like(state.has_begun_R))
        log_RV = self._begins(state, log_p_RTV, lengths_R)
        whole_RT = torch.logaddexp(state.label_RT, state.blank_RT)
        log_RV[:, self.end] = whole_RT.gather(1, lengths_R[:, None])[:, 0]
        log_RV[:, self.blank] = FORBIDDEN
        impossible_R1 = state.total_R.isneginf()[:, None]  # no path gives these labels: nothing may follow
        return (log_RV - state.total_R[:, None]).masked_fill(impossible_R1, FORBIDDEN), state, None

    def _begins(self, state: CTCPrefix, log_p_RTV: Tensor, lengths_R: Tensor) -> Tensor:
        """(R, V) log ψ(g·c) = log Σ_t φ_{t−1}(g, c) p_t(c) of every next label c."""
        any_RT = torch.logaddexp(state.label_RT, state.blank_RT)[:, :-1]
        blank_RT = state.blank_RT[:, :-1]
        padding_RT = torch.arange(any_RT.shape[1], device=any_RT.device) >= lengths_R[:, None]
        log_p_RTV = log_p_RTV.masked_fill(padding_RT[:, :, None], FORBIDDEN)
        scores_RV = (any_RT[:, :, None] + log_p_RTV).logsumexp(1)
        last_R1 = state.last_R.clamp(min=0)[:, None]
        log_p_RT = log_p_RTV.gather(2, last_R1[:, None].expand(-1, log_p_RTV.shape[1], 1))[:, :, 0]
        repeated_R1 = (blank_RT + log_p_RT).logsumexp(1, keepdim=True)
        repeated_R1 = torch.where(state.last_R[:, None] == NO_LABEL, scores_RV.gather(1, last_R1), repeated_R1)
        return scores_RV.scatter(1, last_R1, repeated_R1)

    def _extended(self, tokens_R: Tensor, state: CTCPrefix, log_p_RTV: Tensor, lengths_R: Tensor) -> CTCPrefix:
        """The prefixes with one more label: ν and β of every frame, and ψ."""
        any_RT = torch.logaddexp(state.label_RT, state.blank_RT)
        entering_RT = torch.where((tokens_R == state.last_R)[:, None], state.blank_RT, any_RT)[:, :-1]  # φ_{t−1}
        log_label_RT = log_p_RTV.gather(2, tokens_R[:, None, None].expand(-1, log_p_RTV.shape[1], 1))[:, :, 0]
        label_RT = path_sums(entering_RT, log_label_RT)
        blank_RT = path_sums(label_RT[:, :-1], log_p_RTV[:, :, self.blank])
        padding_RT = torch.arange(entering_RT.shape[1], device=tokens_R.device) >= lengths_R[:, None]
        total_R = (entering_RT + log_label_RT).masked_fill(padding_RT, FORBIDDEN).logsumexp(1)
        return CTCPrefix(label_RT, blank_RT, tokens_R, total_R, state.has_begun_R)


def path_sums(entering_RT: Tensor, log_p_RT: Tensor) -> Tensor:
    """(R, T + 1) log a_t,  a_t = (a_{t−1} + e_t) p_t,  a_0 = 0: of paths that enter at a frame and then stay.

    With P_t = p_1 ⋯ p_t, a_t = P_t Σ_{s≤t} e_s / P_{s−1}; in double precision, since P_t may be tiny.
    """
    log_p_RT = log_p_RT.double().clamp(min=LEAST)
    products_RT = log_p_RT.cumsum(1)
    sums_RT = products_RT + (entering_RT.double() - products_RT + log_p_RT).logcumsumexp(1)
    none_R1 = torch.full_like(sums_RT[:, :1], FORBIDDEN)
    return torch.cat([none_R1, sums_RT], 1).to(entering_RT.dtype)


def joint_scores(attention_RV: Tensor, ctc_RV: Tensor, weight: float) -> Tensor:
    """(1 − λ) log p_attention + λ log p_CTC of the next token: Watanabe et al. 2017, eq. 15."""
    return (1 - weight) * attention_RV.log_softmax(-1) + weight * ctc_RV if weight else attention_RV.log_softmax(-1)


def _where(chosen_R: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(chosen_R.view(-1, *[1] * (old.dim() - 1)), new, old)


def label_logits(output: Output, states_ND: Tensor) -> Tensor:
    """Logits of labels and blank at each state; the end token, which ends an output, is no label."""
    return output(states_ND).index_fill(-1, torch.tensor([END], device=states_ND.device), LEAST)


def padded_log_p(logits: Ragged) -> CTCMemory:
    """log p_t(v) of all states, padded."""
    log_p = logits.map(lambda values: values.log_softmax(-1, dtype=torch.promote_types(values.dtype, torch.float32)))
    return CTCMemory(log_p.to_padded(), logits.layout.device_lengths)


class CTCModel(nn.Module):
    """An encoder and an output layer: p(y | x) is the sum over all alignments of labels with states."""

    def __init__(self, *, source_embedding: nn.Module, encoder: Encoder, output: Output) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.encoder = encoder
        self.output = output
        self.prefixes = CTCPrefixModel(blank=BLANK, end=END)

    def architecture(self) -> Architecture:
        encoder = part_architecture_of(self.encoder, "encoder")
        embedding: Any = self.source_embedding
        return Architecture(
            "ctc",
            encoders=encoder.stacks,
            source_embedding=embedding.shape("source_embedding"),
            attentions=encoder.attentions,
            has_ctc=True,
        )

    def ctc_pass(self, source: Ragged, inputs: Ragged) -> CTCPass:
        """The logits of labels and blank at every state; there is no decoder that would read the inputs."""
        embedding: Any = self.source_embedding
        return CTCPass(self.encoder(embedding.ragged(source)).states.map(partial(label_logits, self.output)), None)

    def encode(self, source: Ragged) -> CTCMemory:
        return padded_log_p(self.ctc_pass(source, source).logits)

    def start(self, memory: CTCMemory) -> CTCPrefix:
        return self.prefixes.start(memory)

    def step(self, tokens_R: Tensor, state: CTCPrefix, memory: CTCMemory) -> StepOutput:
        """log p(next label | labels, x)"""
        log_p_RV, state, _ = self.prefixes.step(tokens_R, state, memory)
        return StepOutput(log_p_RV.clamp(min=LEAST), state, None)

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        """`step` for each position of given labels."""
        memory = self.encode(source)
        state, steps = self.start(memory), []
        for tokens_B in inputs.to_padded().T:
            logits_BV, state, _ = self.step(tokens_B, state, memory)
            steps.append(logits_BV)
        return ModelOutput(inputs.from_padded(torch.stack(steps, 1)).values)


class CTCSeq2Seq(Seq2Seq):
    """An encoder–decoder whose encoder has a CTC output layer."""

    def __init__(self, *, ctc_output: Output, **parts: Any) -> None:
        super().__init__(**parts)
        self.ctc_output = ctc_output

    def architecture(self) -> Architecture:
        return replace(super().architecture(), subclassed=type(self) is not CTCSeq2Seq, has_ctc=True)

    def encode_source(self, source: Ragged) -> Encoded:
        """The states of the encoder."""
        return self.encoder(self.source_embedding.ragged(source))

    def ctc_pass(self, source: Ragged, inputs: Ragged) -> CTCPass:
        """The logits of labels and blank at every state, and the decoder's states under teacher forcing."""
        encoded = self.encode_source(source)
        decoded = self.decoder(self.target_embedding.ragged(inputs), encoded)
        return CTCPass(encoded.states.map(partial(label_logits, self.ctc_output)), decoded)


class JointModel:
    """(1 − λ) log p of the decoder + λ log p of CTC, as a model that a search steps."""

    def __init__(self, model: CTCSeq2Seq, weight: float) -> None:
        self.model, self.weight = model, weight
        self.prefixes = CTCPrefixModel(blank=BLANK, end=END)

    def encode(self, source: Ragged) -> tuple[Any, CTCMemory]:
        encoded = self.model.encode_source(source)
        return self.model.decoder.build_memory(encoded), padded_log_p(
            encoded.states.map(partial(label_logits, self.model.ctc_output))
        )

    def start(self, memory: tuple[Any, CTCMemory]) -> tuple[Any, CTCPrefix]:
        return self.model.start(memory[0]), self.prefixes.start(memory[1])

    def step(self, tokens_R: Tensor, state: tuple[Any, CTCPrefix], memory: tuple[Any, CTCMemory]) -> StepOutput:
        attention = self.model.step(tokens_R, state[0], memory[0])
        ctc_RV, prefix, _ = self.prefixes.step(tokens_R, state[1], memory[1])
        logits_RV = joint_scores(attention.logits_RV, ctc_RV.clamp(min=LEAST), self.weight)
        return StepOutput(logits_RV, (attention.state, prefix), attention.attention_RS)


def joint_model(model: Model, weight: float) -> JointModel:
    """A model with CTC beside its decoder, to be searched by the mean of both; ``weight``: λ."""
    described = architecture_of(model)
    if not described.has_ctc or described.kind != "seq2seq":
        raise SearchError(f"search.ctc: {weight:g} was given, but this model has no CTC beside a decoder; set it to 0")
    return JointModel(cast(CTCSeq2Seq, model), weight)
