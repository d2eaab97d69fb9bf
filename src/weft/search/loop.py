"""The loop that takes the steps of a search, and all that a search knows between two of them: a `SearchState`.

The state is a tree of tensors. Finished sentences leave the batch after every step. Letters: B sentences, R rows
(hypotheses; those of a sentence stand side by side), W the window of the history.

An `ObservedLoop` reports every step to an observer, and drops sentences whose output is no longer needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from weft.runtime.replaceable import replaceable
from weft.search.interface import NO_TOKEN, SearchRequest, StepModel
from weft.tree import Tree, keep, leaves, map_tree, repeat, select

if TYPE_CHECKING:
    from weft.search.required import RequiredTerms


@replaceable
def steps_for(model: StepModel, request: SearchRequest, *, rows: int, return_attention: bool) -> StepModel:
    """The model that a search of a request steps, with ``rows`` hypotheses of each sentence: the model itself.

    Each state is stepped once, and the steps are taken in order: a faster version may rely on that.
    """
    return model


class Limits(NamedTuple):
    """The limits of each sentence, which hold from the start."""

    max_lengths_B: Tensor
    """The most tokens, the end token counted."""
    min_lengths_B: Tensor | None
    """The fewest tokens before the end token; None: no sentence has a minimum."""
    prefixes_BP: Tensor | None
    """Forced first tokens, followed by at least one `NO_TOKEN`; None: no sentence has any."""
    required: RequiredTerms | None = None
    """Terms that the outputs contain; None: no sentence has any."""

    @classmethod
    def of(cls, request: SearchRequest) -> Limits:
        """The limits of a request, on the CPU."""
        prefixes_BP = min_lengths_B = required = None
        if any(request.prefixes):
            width = max(map(len, request.prefixes)) + 1
            padded = [[*prefix, *[NO_TOKEN] * (width - len(prefix))] for prefix in request.prefixes]
            prefixes_BP = torch.tensor(padded)
        if any(request.min_lengths):
            min_lengths_B = torch.as_tensor(request.min_lengths)
        if any(request.required):
            from weft.search.required import RequiredTerms

            required = RequiredTerms.of(request)
        max_lengths_B = torch.from_numpy(np.asarray(request.max_lengths, dtype=np.int64))  # faster than of a list
        return cls(max_lengths_B, min_lengths_B, prefixes_BP, required)


class SearchInputs(NamedTuple):
    """The inputs of a search, with a row for every sentence. They stay the same from the first step to the last."""

    memory: Tree
    """The encoder output."""
    limits: Limits
    rng_keys_B: Tensor | None
    """Keys of the random numbers; None: nothing is drawn."""
    source_lengths_B: Tensor | None
    """Source lengths for a coverage penalty: attention weights beyond them are padding; None: there is no padding."""

    @classmethod
    def of(cls, request: SearchRequest, *, draws: bool = False, covers: bool = False) -> SearchInputs:
        """The inputs of a request, all but the memory on the CPU.

        ``draws``: whether random numbers are drawn; ``covers``: whether there is a coverage penalty.
        """
        keys = None
        if draws:
            keys = torch.as_tensor(request.rng_keys) if request.rng_keys else torch.arange(len(request.max_lengths))
        source_lengths_B = torch.as_tensor(request.source_lengths) if covers and request.source_lengths else None
        return cls(request.memory, Limits.of(request), keys, source_lengths_B)

    def on(self, device: torch.device) -> SearchInputs:
        """The inputs on a device, where the memory is already."""
        _, *others = self
        return SearchInputs(self.memory, *map_tree(lambda leaf: to_device(leaf, device), tuple(others)))


@replaceable
def to_device(values: Sequence[int] | np.ndarray | Tensor, device: torch.device | str) -> Tensor:
    """Values as a tensor on a device, where they may be already."""
    return torch.as_tensor(values).to(device)


@replaceable
def longest_output(max_lengths: Sequence[int], device: torch.device) -> int:
    """The most tokens that any output of a batch may have."""
    return max(max_lengths, default=0)


def history_window(request: SearchRequest) -> int:
    """The number of latest tokens that the constraints read."""
    longest = longest_output(request.max_lengths, request.device)
    windows = [longest if one.window is None else min(one.window, longest) for one in request.constraints]
    return max(windows, default=0)


class SearchState(NamedTuple):
    """A search between two steps."""

    tokens_R: Tensor
    """The last token of each row."""
    model_state: Tree
    """(R, …)"""
    history_RW: Tensor | None
    """The latest tokens, the newest last, which constraints read; None where there are no constraints."""
    inputs: SearchInputs
    """(B, …)"""
    sentences_B: Tensor
    """The positions of these sentences in the batch that was given."""
    done_B: Tensor
    extra: Any
    """(B, …) whatever else the search keeps."""
    length_1: Tensor
    """The number of tokens of every row."""

    @property
    def memory(self) -> Tree:
        return self.inputs.memory

    @property
    def limits(self) -> Limits:
        return self.inputs.limits

    @classmethod
    def start(cls, request: SearchRequest, model_state: Tree, *, rows: int = 1, extra: Any = None) -> SearchState:
        """The state before the first token. ``model_state``: ``rows`` rows for every sentence."""
        inputs, window = SearchInputs.of(request).on(request.device), history_window(request)
        return cls.of(inputs, model_state, begin=request.begin, rows=rows, window=window)._replace(extra=extra)

    @classmethod
    def of(cls, inputs: SearchInputs, model_state: Tree, *, begin: int, rows: int, window: int) -> SearchState:
        """The state before the first token, from inputs on a device; without extra."""
        count, device = len(inputs.limits.max_lengths_B), inputs.limits.max_lengths_B.device
        return cls(
            tokens_R=torch.full((count * rows,), begin, device=device),
            model_state=model_state,
            history_RW=torch.full((count * rows, window), NO_TOKEN, device=device) if window else None,
            inputs=inputs,
            sentences_B=torch.arange(count, device=device),
            done_B=torch.zeros(count, dtype=torch.bool, device=device),
            extra=None,
            length_1=torch.zeros(1, dtype=torch.int64, device=device),
        )

    def advance(self, model_state: Tree, parents_R: Tensor | None, tokens_R: Tensor) -> SearchState:
        """One token further. ``parents_R``: the row that each row continues; None: itself."""
        history_RW = self.history_RW
        if parents_R is not None:
            model_state = select(model_state, parents_R)
            history_RW = None if history_RW is None else history_RW.index_select(0, parents_R)
        if history_RW is not None:
            history_RW = torch.cat([history_RW[:, 1:], tokens_R[:, None]], 1)
        return self._replace(
            model_state=model_state, history_RW=history_RW, tokens_R=tokens_R, length_1=self.length_1 + 1
        )

    def keep_sentences(self, indices: Tensor) -> SearchState:
        """These sentences alone, with all their rows."""
        rows_per_sentence = len(self.tokens_R) // len(self.sentences_B)
        rows = indices
        if rows_per_sentence > 1:
            offsets = torch.arange(rows_per_sentence, device=indices.device)
            rows = (indices[:, None] * rows_per_sentence + offsets).flatten()
        tokens_R, model_state, history_RW = keep((self.tokens_R, self.model_state, self.history_RW), rows)
        by_sentence = (self.inputs, self.sentences_B, self.done_B, self.extra)
        inputs, sentences_B, done_B, extra = select(by_sentence, indices)
        return SearchState(tokens_R, model_state, history_RW, inputs, sentences_B, done_B, extra, self.length_1)


@dataclass(frozen=True)
class SearchStart:
    """Makes the first state of a search. Starts that compare equal make equal states of equal inputs."""

    model: StepModel
    begin: int
    rows: int
    """Hypotheses of every sentence."""
    window: int
    """Window of the history; see `history_window`."""
    device: torch.device

    def __call__(self, inputs: SearchInputs) -> SearchState:
        """``inputs``: inputs on the device."""
        model_state = self.model.start(inputs.memory)
        if self.rows > 1:
            model_state = repeat(model_state, self.rows)
        state = SearchState.of(inputs, model_state, begin=self.begin, rows=self.rows, window=self.window)
        return state._replace(extra=self.extra(inputs))

    def extra(self, inputs: SearchInputs) -> Any:
        """`SearchState.extra` before the first step. Its values depend on nothing but the shapes of the inputs."""
        raise NotImplementedError


Step = Callable[[SearchState], tuple[SearchState, Tree]]
"""One step of a search: the state after it, and a record of what was done, tensors (B, …).

Steps that compare equal do the same: a loop may keep what it has prepared for one and use it for the other.
"""


class StepRecords(NamedTuple):
    """Consecutive steps of the same sentences."""

    sentences: Tensor
    """Their positions in the batch that was given, (n,)."""
    records: Tree
    """The records that the steps returned: tensors (T, n, …)."""


class StepLoop:
    """Takes one step after the other until all sentences are done."""

    is_observed: ClassVar[bool] = False
    """Whether the record of each step is read as it is taken: `BeamRecord` or `PathRecord`."""

    def search(
        self, step: Step, start: SearchStart, inputs: SearchInputs, *, return_attention: bool = False
    ) -> list[StepRecords]:
        """The records of all steps of a search. ``inputs``: all but the memory on the CPU."""
        return self.run(step, start(inputs.on(start.device)), return_attention=return_attention)

    def run(self, step: Step, state: SearchState, *, return_attention: bool = False) -> list[StepRecords]:
        """The records of all steps. ``return_attention``: whether the steps need attention weights of the model."""
        steps: list[StepRecords] = []
        records: list[Tree] = []
        while sentences := len(state.sentences_B):  # none at all for an empty batch
            sentences_B = state.sentences_B
            state, record = step(state)
            records.append(record)
            state = self._after_step(state, sentences_B, record)
            running = int((~state.done_B).sum())
            if running < sentences:
                steps += _step_records(sentences_B, records)
                records = []
                if not running:
                    break
                state = state.keep_sentences((~state.done_B).nonzero()[:, 0])
        return steps

    def _after_step(self, state: SearchState, sentences_B: Tensor, record: Tree) -> SearchState:
        """The state to continue with; ``sentences_B``: those that took the step."""
        return state

    def of_sentences(self, sentences: Sequence[int]) -> StepLoop:
        """The loop of a batch of some of the sentences."""
        return self

    def is_abandoned(self, sentence: int) -> bool:
        """Whether the output of a sentence is no longer needed; for searches that take their own steps."""
        return False


def _step_records(sentences_B: Tensor, records: Sequence[Tree]) -> list[StepRecords]:
    """Records of steps of the same sentences: one, unless their shapes differ (attention to a history that grows)."""
    columns = list(zip(*map(leaves, records), strict=True))
    if len(records) > 1 and all(leaf.shape == column[0].shape for column in columns for leaf in column):
        stacked = (torch.stack(column) for column in columns)
        return [StepRecords(sentences_B, map_tree(lambda _: next(stacked), records[0]))]
    return [StepRecords(sentences_B, map_tree(lambda leaf: leaf[None], record)) for record in records]


class StepObserver(Protocol):
    """Sees the steps of a search while it runs. An exception that it raises ends the search."""

    def on_step(self, sentences: Sequence[int], record: Any) -> None:
        """A step was taken: the positions of its sentences in the batch, and what it did, tensors (B, …)."""

    def is_abandoned(self, sentence: int) -> bool:
        """Whether the output of a sentence is no longer needed: it leaves the batch, and its output has no meaning."""


class ObservedLoop(StepLoop):
    """A loop that reports every step to an observer."""

    is_observed = True

    def __init__(self, observer: StepObserver, sentences: Sequence[int] | None = None) -> None:
        """``sentences``: their positions in the batch that the observer knows; None: it is this one."""
        self.observer = observer
        self.sentences = sentences

    def of_sentences(self, sentences: Sequence[int]) -> ObservedLoop:
        return ObservedLoop(self.observer, [self._position(sentence) for sentence in sentences])

    def is_abandoned(self, sentence: int) -> bool:
        return self.observer.is_abandoned(self._position(sentence))

    def _position(self, sentence: int) -> int:
        return sentence if self.sentences is None else self.sentences[sentence]

    def _after_step(self, state: SearchState, sentences_B: Tensor, record: Tree) -> SearchState:
        sentences = [self._position(sentence) for sentence in sentences_B.tolist()]
        self.observer.on_step(sentences, record)
        abandoned = [self.observer.is_abandoned(sentence) for sentence in sentences]
        if not any(abandoned):
            return state
        return state._replace(done_B=state.done_B | torch.tensor(abandoned, device=state.done_B.device))


def steps_of(steps: Sequence[StepRecords], sentence: int) -> list[tuple[Any, tuple[int, int]]]:
    """Every step that a sentence took part in: the records it is in, and its position (step, row) in them."""
    positions: list[tuple[Any, tuple[int, int]]] = []
    for sentences, records in steps:
        rows = (sentences == sentence).nonzero()[:, 0].tolist()
        if rows:
            positions += [(records, (step, rows[0])) for step in range(len(next(leaves(records))))]
    return positions


def stack_attention(rows: Sequence[Tensor]) -> Tensor:
    """The attention weights of all steps (T, S); shorter rows (over a history that grows) are padded with zeros."""
    return pad_sequence(list(rows), batch_first=True)


def attention_of(
    outputs: Sequence[Sequence[int]], model: StepModel, request: SearchRequest
) -> list[Tensor] | list[None]:
    """The attention weights of outputs of one sentence, by stepping them again, for a search that does not keep them.

    An output is its tokens and, if it ended by itself, the end token. None: the model has no attention.
    """
    lengths = [len(output) for output in outputs]
    inputs = [[request.begin, *output, *[request.end] * max(lengths)][: max(lengths)] for output in outputs]
    state = repeat(model.start(request.memory), len(outputs))
    steps: list[Tensor] = []
    for tokens_R in torch.tensor(inputs, device=request.device).unbind(1):
        _, state, attention_RS = model.step(tokens_R, state, request.memory)
        if attention_RS is None:
            return [None] * len(outputs)
        steps.append(attention_RS.cpu())
    widths = [weights_RS.shape[1] for weights_RS in steps]  # they grow, where a model attends to its own history
    attention_RTS = torch.stack([pad(step_RS, (0, widths[-1] - step_RS.shape[1])) for step_RS in steps], 1)
    return [attention_RTS[row, :length, : widths[length - 1]] for row, length in enumerate(lengths)]
