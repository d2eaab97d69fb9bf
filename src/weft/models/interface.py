"""The model interface: everything that training, search, evaluation and views require of a model.

    encode(source) -> memory                          once per source; never reordered
    start(memory) -> state                            the state of a hypothesis before its first token
    step(tokens, state, memory) -> StepOutput         one token further for every hypothesis
    forward(source, inputs) -> ModelOutput            teacher forcing: all target positions

``memory`` and ``state`` are trees (see `weft.tree`): tensors, None, or (named) tuples of trees. The first axis of every
tensor of ``memory`` is the source sentence, that of ``state`` the hypothesis. The hypotheses of one sentence are
adjacent, so R is a multiple of B. `forward` and repeated `step` must give the same logits.

A model may have more, which callers detect with ``isinstance``: `HasOutputLayer`, `HasTargetLogProbabilities`,
`HasCopyProbabilities`, `HasCTC`, `HasMaxTargetLength` and `ReadsPrompts`. Its parts are described by its
`weft.models.architecture.Architecture`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.models.layers import Output
from weft.ragged import Ragged

if TYPE_CHECKING:
    from weft.models.recurrent import StackState


class ModelOutput(NamedTuple):
    """The result of teacher forcing."""

    logits_NV: Tensor
    """Logits of every target position."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights that ``return_attention`` asks for."""


class StepOutput(NamedTuple):
    """The result of one search step."""

    logits_RV: Tensor
    """Logits of the next token of every hypothesis."""
    state: Any
    attention_RS: Tensor | None
    """Alignment weights over the source (a recurrent language model: over its history); None without attention."""


class HiddenStates(NamedTuple):
    """The result of teacher forcing before the output layer."""

    states: Ragged
    """(N, D), the input of the output layer."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights that ``return_attention`` asks for."""


class Encoded(NamedTuple):
    """The output of an encoder."""

    states: Ragged
    """(N, D) one state for every source token: h_1 … h_S."""
    final: StackState | None
    """Every layer's last state, both directions concatenated; None for an encoder without recurrence."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights of every layer and head, if ``return_attention``."""
    columns_N: Tensor | None = None
    """The source column of every state, if there are several."""


class Encoder(Protocol):
    """The encoder interface that decoders require."""

    def __call__(self, embedded: Ragged, *, return_attention: ReturnAttention = False) -> Encoded: ...


class TargetLogProbabilities(NamedTuple):
    """The log-probabilities of given targets."""

    log_p_N: Tensor
    """log p(y_t), in float32 at least; finite where a target is ``IGNORE_INDEX``."""
    uniform_N: Tensor | None = None
    """The mean of log p(v) over the vocabulary, for label smoothing; None without it. A model that copies leaves the
    copies out of it."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights that ``return_attention`` asks for, with gradient."""
    log_probabilities: Callable[[], Tensor] | None = None
    """Computes log p(v) of all tokens (N, V) in the same pass, for training.consistency; −∞ where a token has none."""


class CTCPass(NamedTuple):
    """The result of `HasCTC.ctc_pass`."""

    logits: Ragged
    """Logits (N, V) of labels and blank at every state of the encoder."""
    decoded: HiddenStates | None
    """The decoder's states under teacher forcing; None without a decoder."""


class Model(Protocol):
    """The interface of every model: these four methods, as methods of a `torch.nn.Module`."""

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
    """A model whose loss can be computed in chunks, without all logits in memory together."""

    def output_layer(self) -> Output:
        """The layer that gives the logits: ``forward`` is this layer of `hidden_states`."""

    def hidden_states(
        self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False
    ) -> HiddenStates:
        """The hidden states that `forward` passes to the output layer."""


@runtime_checkable
class HasTargetLogProbabilities(Protocol):
    """A model whose probabilities are not simply a softmax of its output layer: it computes the log-probabilities of
    given targets itself, without storing all logits. Preferred to `HasOutputLayer` if a model has both."""

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


@runtime_checkable
class HasCTC(Protocol):
    """A model whose encoder has a CTC output layer."""

    def ctc_pass(self, source: Ragged, inputs: Ragged) -> CTCPass:
        """One pass through the encoder and, if there is one, the decoder."""


class CopyProbabilities(NamedTuple):
    """The generated and copied shares of the probabilities of given targets."""

    gates_N: Tensor
    """g_t: how much of the distribution is generated; 1 − g_t is copied."""
    copied_N: Tensor
    """The share of p(y_t) that was copied."""


@runtime_checkable
class HasCopyProbabilities(Protocol):
    """A model that copies tokens of its source."""

    def copy_probabilities(self, source: Ragged, inputs: Ragged, targets_N: Tensor) -> CopyProbabilities:
        """Copy probabilities of every target under teacher forcing."""


@runtime_checkable
class HasMaxTargetLength(Protocol):
    """A model that cannot produce targets of every length."""

    def max_target_length(self, source_length: int) -> int | None:
        """The longest target for a source of this length; None: unlimited."""


@runtime_checkable
class ReadsPrompts(Protocol):
    """A language model that reads the tokens of a prompt in parallel."""

    def read_prompts(self, tokens: Ragged, memory: Any) -> Any:
        """The state after rows of one length, which is that after as many steps."""
