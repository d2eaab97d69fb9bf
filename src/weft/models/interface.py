"""The model interface: everything that training, search, evaluation and views require of a model.

    encode(source) -> memory                          once per source; never reordered
    start(memory) -> state                            the state of a hypothesis before its first token
    step(tokens, state, memory) -> StepOutput         one token further for every hypothesis
    forward(source, inputs) -> ModelOutput            teacher forcing: all target positions

``memory`` and ``state`` are trees (see `weft.tree`): tensors, None, or (named) tuples of trees. The first axis of every
tensor of ``memory`` is the source sentence, that of ``state`` the hypothesis. The hypotheses of one sentence are
adjacent, so R is a multiple of B. `forward` and repeated `step` must give the same logits.

A model may have more, which callers detect with ``isinstance``: `HasOutputLayer`, `HasTargetLogProbabilities`,
`HasCopyProbabilities`, `HasMaxTargetLength` and `ReadsPrompts`. What it is made of it says in its
`weft.models.architecture.Architecture`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.models.layers import Output
from weft.ragged import Layout, Ragged


class ModelOutput(NamedTuple):
    """The result of teacher forcing."""

    logits_NV: Tensor
    """For every target position."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights that ``return_attention`` asks for."""


class StepOutput(NamedTuple):
    """The result of one search step."""

    logits_RV: Tensor
    """For the next token of every hypothesis."""
    state: Any
    attention_RS: Tensor | None
    """Alignment weights over the source (a recurrent language model: over its history); None without attention."""


class HiddenStates(NamedTuple):
    """The result of teacher forcing before the output layer."""

    states: Ragged
    """(N, D), the input of the output layer."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights that ``return_attention`` asks for."""


class TargetLogProbabilities(NamedTuple):
    """The log-probabilities of given targets."""

    log_p_N: Tensor
    """log p(y_t), in float32 at least; finite where a target is ``IGNORE_INDEX``."""
    uniform_N: Tensor | None = None
    """The mean of log p(v) over the vocabulary, for label smoothing; None without it. A model that copies leaves the
    copies out of it."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights that ``return_attention`` asks for, with gradient."""


class Model(Protocol):
    """What every model has: the four methods of this interface, as methods of a `torch.nn.Module`."""

    def encode(self, source: Ragged) -> Any:
        """The memory of a batch of sources. For a language model the rows of ``source`` are empty."""

    def start(self, memory: Any) -> Any:
        """The state before the first token."""

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> StepOutput:
        """Logits for the token after ``tokens_R``, and the new state."""

    def __call__(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        """Logits for every target position; ``inputs`` are the targets shifted right."""

    # Of `torch.nn.Module`, which implements `__call__` by ``forward``

    training: bool

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def modules(self) -> Iterator[nn.Module]: ...

    def train(self, mode: bool = True) -> Self: ...

    def eval(self) -> Self: ...

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Self: ...


@runtime_checkable
class HasOutputLayer(Protocol):
    """A model whose loss can be computed in chunks, without all logits in memory at once."""

    def output_layer(self) -> Output:
        """The layer that gives the logits: ``forward`` is this layer of `hidden_states`."""

    def hidden_states(
        self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False
    ) -> HiddenStates:
        """What `forward` computes before the output layer."""


@runtime_checkable
class HasTargetLogProbabilities(Protocol):
    """A model whose probabilities are more than a softmax of its output layer, and which computes those of given
    targets itself, without all logits in memory at once. Preferred to `HasOutputLayer` if a model has both."""

    def target_log_probabilities(
        self,
        source: Ragged,
        inputs: Ragged,
        targets_N: Tensor,
        *,
        smoothing: float,
        return_attention: ReturnAttention = False,
    ) -> TargetLogProbabilities:
        """log p(y_t) under teacher forcing, with gradient; with ``smoothing`` > 0 also the mean of log p(v)."""


class CopyProbabilities(NamedTuple):
    """Where the probabilities of given targets come from, in a model that copies."""

    gates_N: Tensor
    """g_t: how much of the distribution is generated; 1 − g_t is copied."""
    copied_N: Tensor
    """The share of p(y_t) that was copied."""


@runtime_checkable
class HasCopyProbabilities(Protocol):
    """A model that copies tokens of its source."""

    def copy_probabilities(self, source: Ragged, inputs: Ragged, targets_N: Tensor) -> CopyProbabilities:
        """Of every target under teacher forcing."""


@runtime_checkable
class HasMaxTargetLength(Protocol):
    """A model that cannot produce targets of every length."""

    def max_target_length(self, source_length: int) -> int | None:
        """The longest target for a source of this length; None: unlimited."""


@runtime_checkable
class ReadsPrompts(Protocol):
    """A language model that reads the tokens of a prompt at once."""

    def read_prompts(self, tokens: Ragged, memory: Any) -> Any:
        """The state after rows of one length, which is that after as many steps."""


def alignment_weights(records: Sequence[AttentionRecord], source: Layout) -> Tensor | None:
    """(B, T, S) one weight for every target and source position: the mean over the heads of one layer.

    If a Transformer copies, those of the attention by which it does: they explain the output. Else the heads that
    model.decoder.alignment_heads names or, if it names none, those of the layer below the top one, which aligns best
    (Garg et al. 2019, 4.2). Without cross-attention these are the decoder's weights over the source
    tokens, renormalized; for a recurrent language model, the weights over its own history. None if there are no such
    weights. Rows past the end of a target have no meaning.
    """
    copying = [record for record in records if record.kind == "copy"]
    aligned = copying or [record for record in records if record.kind in ("cross", "history")]
    if not aligned and source.longest:
        aligned = [record for record in records if record.kind == "decoder"]
    if not aligned:
        return None
    if heads := {record.layer: record.alignment_heads for record in aligned if record.alignment_heads}:
        return mean_of_heads({record.layer: record.weights_BHTS for record in aligned}, heads)
    record = aligned[alignment_layer(len(aligned))]
    weights_BTS = record.weights_BHTS.mean(1)
    if record.kind != "decoder":
        return weights_BTS
    return renormalize(weights_BTS[:, :, : source.longest].masked_fill(source.masked_BS[:, None], 0.0))


AlignmentHeads = Mapping[int, tuple[int, ...] | None]
"""The heads that are the word alignment, by layer; None: all heads of the layer."""


def mean_of_heads(weights: Mapping[int, Tensor], heads: AlignmentHeads) -> Tensor:
    """The mean over heads, the second axis of the weights of each layer."""
    parts = [
        weights[layer] if numbers is None else torch.stack([weights[layer][:, number] for number in numbers], 1)
        for layer, numbers in heads.items()
    ]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).mean(1)


def alignment_layer(layers: int) -> int:
    """The number of the layer whose attention counts as the alignment   Garg et al. 2019, 4.2."""
    return max(layers - 2, 0)


def renormalize(weights: Tensor) -> Tensor:
    """Weights scaled so that they sum to one."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
