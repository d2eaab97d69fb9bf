"""The loop that takes the steps of a search. Finished sentences leave the batch after every step.

An `ObservedLoop` reports every step to an observer, and drops sentences whose output is no longer needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from weft.search.state import SearchInputs, SearchStart, SearchState
from weft.tree import Tree, leaves, map_tree

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
