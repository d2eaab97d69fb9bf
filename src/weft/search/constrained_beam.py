"""Lexically constrained beam search: required phrases by dynamic beam allocation. Post & Vilar 2018; Hokamp & Liu 2017

Every finished hypothesis contains every required phrase of its sentence, each as consecutive tokens. Different phrases
may share tokens ("a b c" contains "a b" and "b c"); a phrase that is listed twice must occur twice without sharing any,
as ``str.count`` counts.

The policy, in full. A hypothesis tracks, for each phrase, how often it occurred and how many of its tokens the last
ones match: a phrase that is interrupted falls back to the longest prefix that still matches (after "a a a", two tokens
of "a a b" match), by the failure function of Knuth, Morris & Pratt 1977. Its *bank* is the number of required tokens
met: those of all completed phrases, and those of the phrase with the longest match.

At each step the candidates of a sentence are the 2k best extensions of each hypothesis, and every token that begins or
continues a phrase it has not completed. The end token is allowed only where everything required occurred. From each
bank, the endings among its first k candidates are set aside as finished (only the last bank has any). The k slots of
the beam are dealt like cards: one to each bank in turn, the last bank first, until k are dealt; a bank with no
candidates left is skipped. So the fullest bank gains a token a step, however unlikely, unless a constraint or the model
forbids it (−∞). A sentence is done when ``finish`` hypotheses (never fewer than requested) have been set aside, at its
length limit, or when no token may follow. With nothing required there is one bank, and this is `beam_search` with its
stop "finished".

The search compares and ranks by scores (log-probabilities after the constraints); ``log_probability`` stays the
model's. Finished hypotheses come first, best first. Those cut off come after them (``ended == "length"``), the ones
with the most required tokens met first; they alone may lack a phrase: so it shows that a limit is too short. The
bookkeeping is Python, a sentence at a time; the model steps all sentences together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from weft.errors import SearchError
from weft.search.beam import BeamOptions
from weft.search.constraints import apply_constraints, forbid, top_k
from weft.search.interface import FORBIDDEN, NO_TOKEN, Hypothesis, SearchRequest, StepModel
from weft.search.loop import SearchState, StepLoop, StepRecords, stack_attention, steps_of
from weft.search.ranking import NO_ATTENTION, Ranking, coverage_score
from weft.tree import map_tree, repeat

Progress = tuple[tuple[int, int], ...]
"""Number of occurrences and matching tokens of the next occurrence, for each distinct phrase."""


class PhraseTracker:
    """The required phrases of one sentence, as one automaton a phrase."""

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        counts = Counter(tuple(phrase) for phrase in phrases)
        self.phrases = list(counts)
        self.times = list(counts.values())
        self.failures = [failure_function(phrase) for phrase in self.phrases]
        self.total = sum(len(phrase) * times for phrase, times in counts.items())
        self.start: Progress = ((0, 0),) * len(counts)
        self._next: dict[tuple[Progress, int], Progress] = {}

    def advance(self, progress: Progress, token: int) -> Progress:
        """The progress after one more token."""
        key = (progress, token)
        if key not in self._next:
            advanced = (self._advance(number, *one, token) for number, one in enumerate(progress))
            self._next[key] = tuple(advanced)
        return self._next[key]

    def _advance(self, number: int, completed: int, matched: int, token: int) -> tuple[int, int]:
        if completed == self.times[number]:
            return completed, 0
        phrase, failure = self.phrases[number], self.failures[number]
        while matched and phrase[matched] != token:
            matched = failure[matched - 1]
        matched += phrase[matched] == token
        return (completed + 1, 0) if matched == len(phrase) else (completed, matched)

    def met(self, progress: Progress) -> int:
        """The number of required tokens met: of completed phrases, and of the longest match."""
        completed = sum(len(phrase) * times for phrase, (times, _) in zip(self.phrases, progress, strict=True))
        return completed + max((matched for _, matched in progress), default=0)

    def next_tokens(self, progress: Progress) -> list[int]:
        """Every token that begins, continues or completes a phrase that is still required."""
        tokens: dict[int, None] = {}
        for number, (completed, matched) in enumerate(progress):
            if completed < self.times[number]:
                while matched:
                    tokens[self.phrases[number][matched]] = None
                    matched = self.failures[number][matched - 1]
                tokens[self.phrases[number][0]] = None
        return list(tokens)


def failure_function(phrase: Sequence[int]) -> list[int]:
    """The length of the longest proper prefix that is also a suffix, for each prefix of a phrase."""
    failure = [0] * len(phrase)
    for index in range(1, len(phrase)):
        length = failure[index - 1]
        while length and phrase[length] != phrase[index]:
            length = failure[length - 1]
        failure[index] = length + (phrase[length] == phrase[index])
    return failure


class HypothesisNode(NamedTuple):
    """A hypothesis: one token more than its parent."""

    parent: HypothesisNode | None
    token: int
    slot: int
    """The slot of the parent."""
    log_probability: float
    """log p of the token alone, as the model gives it."""
    score: float
    """Score of all tokens, after the constraints, by which the search compares."""
    progress: Progress
    met: int

    def path(self) -> list[HypothesisNode]:
        """The nodes of all its tokens, the first token first."""
        nodes: list[HypothesisNode] = []
        node: HypothesisNode = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class SentenceBeam:
    """The hypotheses of one sentence."""

    def __init__(self, phrases: Sequence[Sequence[int]], max_length: int) -> None:
        self.tracker = PhraseTracker(phrases)
        self.max_length = max_length
        progress = self.tracker.start
        self.nodes = [HypothesisNode(None, NO_TOKEN, 0, 0.0, 0.0, progress, self.tracker.met(progress))]
        self.finished: list[HypothesisNode] = []

    def extend(self, candidates: list[HypothesisNode], *, size: int, end: int) -> bool:
        """Set the endings aside and choose the next beam; whether it has any hypothesis."""
        banks: dict[int, list[HypothesisNode]] = {}
        for node in sorted(candidates, key=lambda node: -node.score):
            banks.setdefault(node.met, []).append(node)
        for bank in banks.values():
            self.finished += [node for node in bank[:size] if node.token == end]
        fullest_first = [banks[met] for met in sorted(banks, reverse=True)]
        nodes = list(deal([[node for node in bank if node.token != end] for bank in fullest_first], size))
        if nodes or self.finished:  # otherwise the last beam is all there is to return
            self.nodes = nodes
        return bool(nodes)

    def slots(self, size: int) -> list[HypothesisNode]:
        """A node for every slot; empty slots hold a copy of the first, which is never read."""
        return self.nodes + self.nodes[:1] * (size - len(self.nodes))

    def candidates(self, scored: list[list[tuple[int, float, float]]], end: int) -> list[HypothesisNode]:
        """Each hypothesis by the tokens considered; ``scored``: for every slot (token, score, log-probability)."""
        candidates: list[HypothesisNode] = []
        for slot, (parent, tokens) in enumerate(zip(self.nodes, scored, strict=False)):
            seen: set[int] = set()
            for token, score, log_probability in tokens:
                if token not in seen and score > FORBIDDEN:
                    seen.add(token)
                    progress = parent.progress if token == end else self.tracker.advance(parent.progress, token)
                    met = self.tracker.met(progress)
                    candidates.append(
                        HypothesisNode(parent, token, slot, log_probability, parent.score + score, progress, met)
                    )
        return candidates


def deal(banks: list[list[HypothesisNode]], slots: int) -> Iterator[HypothesisNode]:
    """One of each bank in turn, its best first, until all slots are taken or the banks are empty."""
    for turn in range(max(map(len, banks), default=0)):
        for bank in banks:
            if turn < len(bank) and slots:
                slots -= 1
                yield bank[turn]


class ConstrainedRecord(NamedTuple):
    """One step."""

    attention_BKS: Tensor | None
    """The weights with which each slot was extended."""


@torch.no_grad()
def constrained_beam_search(
    model: StepModel, request: SearchRequest, options: BeamOptions = BeamOptions()
) -> list[list[Hypothesis]]:
    """The best hypotheses of every sentence, best first, each containing the phrases ``request.required``."""
    _check(request)
    if not request.max_lengths:
        return []
    pairs = zip(request.required, request.max_lengths, strict=True)
    beams = [SentenceBeam(phrases, max_length) for phrases, max_length in pairs]
    step = ConstrainedBeamStep(model, request, options, beams)
    state = SearchState.start(request, repeat(model.start(request.memory), options.size), rows=options.size)
    steps = [map_tree(Tensor.cpu, some) for some in StepLoop().run(step, state)]
    return [_hypotheses(beam, steps, row, request, options.ranking) for row, beam in enumerate(beams)]


class ConstrainedBeamStep:
    """One step of all sentences."""

    def __init__(
        self, model: StepModel, request: SearchRequest, options: BeamOptions, beams: list[SentenceBeam]
    ) -> None:
        self.model, self.request, self.options, self.beams = model, request, options, beams

    def __call__(self, state: SearchState) -> tuple[SearchState, ConstrainedRecord]:
        size, end = self.options.size, self.request.end
        logits_RV, model_state, attention_RS = self.model.step(state.tokens_R, state.model_state, state.memory)
        length = int(state.length_1) + 1
        if length == 1:
            _check_first_step(self.request.required, vocabulary=logits_RV.shape[1])
            if self.options.ranking.beta and attention_RS is None:
                raise SearchError(NO_ATTENTION)
        log_probs_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
        scores_RV = apply_constraints(log_probs_RV, state, self.request.constraints, end)
        beams = [self.beams[sentence] for sentence in state.sentences_B.tolist()]
        scored = self._score_tokens(log_probs_RV, scores_RV, beams)
        needed = self.options.finished_needed(self.request.n_best)
        parents: list[int] = []
        tokens: list[int] = []
        done: list[bool] = []
        for index, beam in enumerate(beams):
            first = index * size
            continues = beam.extend(beam.candidates(scored[first : first + size], end), size=size, end=end)
            done.append(not continues or len(beam.finished) >= needed or length >= beam.max_length)
            nodes = beam.slots(size)
            parents += [first + node.slot for node in nodes] or [first] * size
            tokens += [node.token for node in nodes] or [end] * size
        parents_R, tokens_R = torch.tensor([parents, tokens], device=state.tokens_R.device)
        after = state.advance(model_state, parents_R, tokens_R)
        attention_BKS = None
        if attention_RS is not None and (self.request.return_attention or self.options.ranking.beta):
            attention_BKS = attention_RS.view(len(beams), size, -1)
        return after._replace(done_B=torch.tensor(done, device=parents_R.device)), ConstrainedRecord(attention_BKS)

    def _score_tokens(
        self, log_probs_RV: Tensor, scores_RV: Tensor, beams: list[SentenceBeam]
    ) -> list[list[tuple[int, float, float]]]:
        """The tokens to consider in every row, each with its score and log-probability: the 2k best, and those that
        continue its phrases."""
        size, end, device = self.options.size, self.request.end, log_probs_RV.device
        required: list[list[int]] = []
        incomplete: list[bool] = []
        for beam in beams:
            for node in beam.slots(size):
                required.append(beam.tracker.next_tokens(node.progress))
                incomplete.append(node.met < beam.tracker.total)
        most = max(map(len, required))
        required_RX = torch.tensor([tokens + [0] * (most - len(tokens)) for tokens in required], device=device).long()
        end_R1 = torch.full((len(required), 1), end, device=device)
        # In place: the log-probability of a forbidden token is never read.
        scores_RV = forbid(scores_RV, end_R1, torch.tensor(incomplete, device=device)[:, None], in_place=True)
        best_RX = top_k(scores_RV, 2 * size)[1]
        tokens_RX = torch.cat((best_RX, required_RX), 1)
        columns = [
            tokens_RX.tolist(),
            scores_RV.gather(1, tokens_RX).tolist(),
            log_probs_RV.gather(1, tokens_RX).tolist(),
        ]
        counts = [best_RX.shape[1] + len(tokens) for tokens in required]
        rows = zip(*columns, counts, strict=True)
        return [list(zip(*(values[:count] for values in row), strict=True)) for *row, count in rows]


def _check(request: SearchRequest) -> None:
    if len(request.required) != len(request.max_lengths):
        raise SearchError(
            f"required phrases for {len(request.required)} sentences, expected {len(request.max_lengths)}: "
            "a list for each"
        )
    for number, phrases in enumerate(request.required, 1):
        for phrase in phrases:
            if not len(phrase):
                raise SearchError(f"sentence {number}: a required phrase is empty; expected at least 1 token")
            if min(phrase) < 0 or request.end in phrase:
                wrong = "the end token" if request.end in phrase else f"the id {min(phrase)}"
                raise SearchError(f"sentence {number}: a required phrase contains {wrong}, which cannot be generated")


def _check_first_step(required: Sequence[Sequence[Sequence[int]]], *, vocabulary: int) -> None:
    """Refuse ids beyond the vocabulary, whose size only a step of the model shows."""
    for number, phrases in enumerate(required, 1):
        largest = max(map(max, phrases), default=0)
        if largest >= vocabulary:
            raise SearchError(
                f"sentence {number}: a required phrase has the id {largest}; the vocabulary has {vocabulary}"
            )


def _hypotheses(
    beam: SentenceBeam, steps: Sequence[StepRecords], row: int, request: SearchRequest, ranking: Ranking
) -> list[Hypothesis]:
    """The finished, best first; then those cut off, the ones with the most required tokens met first."""
    attention = []
    if steps[0].records.attention_BKS is not None:
        attention = [record.attention_BKS[position] for record, position in steps_of(steps, row)]

    def hypothesis(node: HypothesisNode) -> Hypothesis:
        path = node.path()
        weights = [weights_KS[one.slot] for one, weights_KS in zip(path, attention, strict=False)]
        attention_TS = stack_attention(weights) if weights else None
        coverage = 0.0
        if attention_TS is not None and ranking.beta:
            coverage = float(coverage_score(attention_TS.sum(0)[: request.source_length(row)]))
        finished = node.token == request.end
        return Hypothesis(
            tokens=[one.token for one in path[: len(path) - finished]],
            score=ranking.score(node.score, len(path), coverage),
            log_probability=sum(one.log_probability for one in path),
            token_scores=[one.log_probability for one in path],
            ended="end" if finished else "length",
            attention_TS=attention_TS if request.return_attention else None,
        )

    ended = sorted(map(hypothesis, beam.finished), key=lambda one: -one.score)
    cut_off = [(node.met, hypothesis(node)) for node in beam.nodes]
    cut_off.sort(key=lambda pair: (-pair[0], -pair[1].score))
    return [*ended, *(one for _, one in cut_off)][: request.n_best]
