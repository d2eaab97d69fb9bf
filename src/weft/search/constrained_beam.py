"""Beam search that must say given phrases: dynamic beam allocation.   Post & Vilar 2018; Hokamp & Liu 2017

Every finished hypothesis contains every required phrase of its sentence, each as a row of tokens side by side.
Different phrases may share tokens ("a b c" contains "a b" and "b c"); a phrase that is listed twice must stand twice
without sharing any, as ``str.count`` counts.

The policy, in full. A hypothesis knows, of each phrase, how often it was said and how many of its tokens the last ones
match: a phrase that is interrupted falls back to the longest beginning that still matches (after "a a a", two tokens
of "a a b" are said), by the failure function of Knuth, Morris & Pratt 1977. Its *bank* is the number of required
tokens met: those of all phrases said, and those of the phrase furthest under way.

At each step the candidates of a sentence are the 2k best extensions of each hypothesis, and every token that begins or
continues a phrase it has not said. The end mark is allowed only where everything required was said. Of each bank, the
endings among its first k candidates are set aside as finished (only the last bank has any). The k places for those
that go on are dealt like cards: one to each bank in turn, the last bank first, until k are dealt; a bank with no
candidates left is passed over. So the fullest bank gains a token a step, whatever the model thinks of it, unless a
rule or the model forbids it (−∞). A sentence is done when ``finish`` hypotheses (never fewer than asked for) have been
set aside, at its length limit, or when nothing can be said. With nothing required there is one bank, and this is the
beam of `beam` with its stop "finished".

The search compares and ranks by ratings (log-probabilities after the rules); ``log_probability`` stays the model's own.
Finished hypotheses come first, best first. Those cut off come after them (``ended == "length"``), the ones with the
most required tokens met first; they alone may lack a phrase: that is how a limit that is too short shows. The
bookkeeping is Python, a sentence at a time; the steps of the model are taken together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from weft.errors import SearchError
from weft.search.constraints import NOTHING, LogitsConstraint, forbid
from weft.search.interface import Hypothesis, StepModel
from weft.search.ranking import Ranking, coverage
from weft.search.top_k import best
from weft.tree import repeat, select

Progress = tuple[tuple[int, int], ...]
"""Of each different phrase: how often it was said, and how many tokens of the next saying were."""


class Phrases:
    """What one sentence must say, as one automaton a phrase."""

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
            self._next[key] = tuple(self._advance(place, *one, token) for place, one in enumerate(progress))
        return self._next[key]

    def _advance(self, place: int, said: int, matched: int, token: int) -> tuple[int, int]:
        if said == self.times[place]:
            return said, 0
        phrase, failure = self.phrases[place], self.failures[place]
        while matched and phrase[matched] != token:
            matched = failure[matched - 1]
        matched += phrase[matched] == token
        return (said + 1, 0) if matched == len(phrase) else (said, matched)

    def met(self, progress: Progress) -> int:
        """The number of required tokens met: of the phrases said, and of the one furthest under way."""
        said = sum(len(phrase) * times for phrase, (times, _) in zip(self.phrases, progress, strict=True))
        return said + max((matched for _, matched in progress), default=0)

    def wanted(self, progress: Progress) -> list[int]:
        """Every token after which some phrase not yet said is under way (or said)."""
        tokens: dict[int, None] = {}
        for place, (said, matched) in enumerate(progress):
            if said < self.times[place]:
                while matched:
                    tokens[self.phrases[place][matched]] = None
                    matched = self.failures[place][matched - 1]
                tokens[self.phrases[place][0]] = None
        return list(tokens)


def failure_function(phrase: Sequence[int]) -> list[int]:
    """For each beginning of a phrase, the length of its longest proper beginning that is also its end."""
    failure = [0] * len(phrase)
    for place in range(1, len(phrase)):
        length = failure[place - 1]
        while length and phrase[length] != phrase[place]:
            length = failure[length - 1]
        failure[place] = length + (phrase[length] == phrase[place])
    return failure


class Branch(NamedTuple):
    """A hypothesis: one token more than its parent."""

    parent: Branch | None
    token: int
    slot: int
    """The slot of the parent."""
    log_probability: float
    """Of the token alone, as the model gives it."""
    rating: float
    """Of all tokens, after the rules: what the search compares."""
    progress: Progress
    met: int


class Sentence:
    """One sentence's share of the search."""

    def __init__(self, phrases: Phrases, *, limit: int, minimum: int) -> None:
        self.phrases = phrases
        self.limit = limit
        self.minimum = minimum
        root = Branch(None, NOTHING, 0, 0.0, 0.0, phrases.start, phrases.met(phrases.start))
        self.live = [root]
        self.finished: list[Branch] = []
        self.looks: list[Tensor] = []
        """For every step the attention weights of all slots."""

    def may_end(self, branch: Branch, length: int) -> bool:
        return branch.met == self.phrases.total and length >= self.minimum

    def extend(self, candidates: list[Branch], *, size: int, end: int) -> bool:
        """Set the endings aside and choose what goes on; whether anything does."""
        banks: dict[int, list[Branch]] = {}
        for branch in sorted(candidates, key=lambda branch: -branch.rating):
            banks.setdefault(branch.met, []).append(branch)
        for bank in banks.values():
            self.finished += [branch for branch in bank[:size] if branch.token == end]
        fullest_first = [banks[met] for met in sorted(banks, reverse=True)]
        live = list(deal([[one for one in bank if one.token != end] for bank in fullest_first], size))
        if live or self.finished:  # else what was said so far is all there is to give back
            self.live = live
        return bool(live)


def deal(banks: list[list[Branch]], places: int) -> Iterator[Branch]:
    """One of each bank in turn, its best first, until all places are taken or the banks are empty."""
    for turn in range(max(map(len, banks), default=0)):
        for bank in banks:
            if turn < len(bank) and places:
                places -= 1
                yield bank[turn]


@torch.no_grad()
def constrained_beam(
    model: StepModel,
    memory: Any,
    limits: Sequence[int],
    *,
    begin: int,
    end: int,
    required: Sequence[Sequence[Sequence[int]]],
    size: int = 5,
    ranking: Ranking = Ranking(),
    n_best: int = 1,
    rules: Sequence[LogitsConstraint] = (),
    weights: bool = False,
    device: torch.device | str = "cpu",
    minimums: Sequence[int] | None = None,
    finish: int | None = None,
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of every row, best first, each of at most ``limits[row]`` tokens and, where it ends by
    itself, at least ``minimums[row]``, the end mark not counted; ``required[row]``: the phrases it must contain."""
    _check(required, len(limits), size=size, end=end)
    if not limits:
        return []
    finish = max(finish or size, n_best)
    minimums = [0] * len(limits) if minimums is None else minimums
    sentences = [
        Sentence(Phrases(phrases), limit=limit, minimum=minimum)
        for phrases, limit, minimum in zip(required, limits, minimums, strict=True)
    ]
    going = list(range(len(sentences)))
    state = repeat(model.start(memory), size)
    said_RW = torch.empty((len(sentences) * size, 0), dtype=torch.int64, device=device)
    tokens_R = torch.full((len(sentences) * size,), begin, device=device)
    length = 0
    while going:
        logits_RV, state, weights_RS = model.step(tokens_R, state, memory)
        if length == 0:
            _check_first_step(
                required, vocabulary=logits_RV.shape[1], covers=weights_RS is not None or not ranking.beta
            )
        log_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
        ratings_RV = log_RV
        sentences_R = torch.tensor(going, device=device).repeat_interleave(size)
        for rule in rules:
            ratings_RV = rule(ratings_RV, _window(said_RW, rule.window), sentences_R)
        running = [sentences[sentence] for sentence in going]
        candidates = _candidates(log_RV, ratings_RV, running, length=length, size=size, end=end)
        length += 1

        stay: list[int] = []
        rows: list[int] = []
        for place, (sentence, found) in enumerate(zip(running, candidates, strict=True)):
            if weights_RS is not None and (weights or ranking.beta):
                sentence.looks.append(weights_RS[place * size : (place + 1) * size])
            onward = sentence.extend(found, size=size, end=end)
            if onward and len(sentence.finished) < finish and length < sentence.limit:
                stay.append(place)
                rows += [place * size + branch.slot for branch in _slots(sentence, size)]
        tokens = [branch.token for place in stay for branch in _slots(running[place], size)]
        rows_R, tokens_R = torch.tensor([rows, tokens], dtype=torch.int64, device=device)
        state = select(state, rows_R)
        said_RW = torch.cat((said_RW[rows_R], tokens_R[:, None]), 1)
        if len(stay) < len(going):
            memory = select(memory, torch.tensor(stay, dtype=torch.int64, device=device))
            going = [going[place] for place in stay]
    return [_answers(sentence, ranking, end=end, n_best=n_best, weights=weights) for sentence in sentences]


def _check(required: Sequence[Sequence[Sequence[int]]], sentences: int, *, size: int, end: int) -> None:
    if size < 1:
        raise SearchError(f"search.size: {size}; a beam holds at least 1 hypothesis")
    if len(required) != sentences:
        raise SearchError(f"required phrases for {len(required)} sentences, expected {sentences}: a list for each")
    for place, phrases in enumerate(required):
        for phrase in phrases:
            if not len(phrase):
                raise SearchError(f"sentence {place + 1}: a required phrase is empty; expected at least 1 token")
            if min(phrase) < 0 or end in phrase:
                wrong = "the end mark" if end in phrase else f"the id {min(phrase)}"
                raise SearchError(f"sentence {place + 1}: a required phrase has {wrong} in it, which cannot be said")


def _check_first_step(required: Sequence[Sequence[Sequence[int]]], *, vocabulary: int, covers: bool) -> None:
    """What only the first step of a model shows."""
    if not covers:
        raise SearchError("search.coverage_penalty: this model has no attention, so nothing is known of coverage")
    for place, phrases in enumerate(required):
        largest = max(map(max, phrases), default=0)
        if largest >= vocabulary:
            raise SearchError(
                f"sentence {place + 1}: a required phrase has the id {largest}; the vocabulary has {vocabulary}"
            )


def _window(said_RW: Tensor, window: int | None) -> Tensor:
    """The latest tokens as a rule asks for them: exactly so many columns."""
    if window is None:
        return said_RW
    missing = window - said_RW.shape[1]
    return pad(said_RW, (missing, 0), value=NOTHING) if missing > 0 else said_RW[:, -missing:]


def _slots(sentence: Sentence, size: int) -> list[Branch]:
    """A hypothesis for every slot; empty ones hold a copy of the first, which is never looked at."""
    return sentence.live + sentence.live[:1] * (size - len(sentence.live))


def _candidates(
    log_RV: Tensor, ratings_RV: Tensor, running: list[Sentence], *, length: int, size: int, end: int
) -> list[list[Branch]]:
    """For every sentence, each hypothesis by its 2k best tokens and by those that its phrases want."""
    device = log_RV.device
    wanted: list[list[int]] = []
    forbidden: list[bool] = []
    for sentence in running:
        for branch in _slots(sentence, size):
            wanted.append(sentence.phrases.wanted(branch.progress))
            forbidden.append(not sentence.may_end(branch, length))
    most = max(map(len, wanted))
    wanted_RX = torch.tensor([tokens + [0] * (most - len(tokens)) for tokens in wanted], device=device).long()
    end_R1 = torch.full((len(wanted), 1), end, device=device)
    forbidden_R1 = torch.tensor(forbidden, device=device)[:, None]
    ratings_RV = forbid(ratings_RV, end_R1, forbidden_R1, in_place=True)  # log p of what is forbidden is never read
    best_RX = best(ratings_RV, 2 * size)[1]
    tokens_RX = torch.cat((best_RX, wanted_RX), 1)
    columns = [one.tolist() for one in (tokens_RX, ratings_RV.gather(1, tokens_RX), log_RV.gather(1, tokens_RX))]

    found: list[list[Branch]] = []
    for place, sentence in enumerate(running):
        branches: list[Branch] = []
        for slot, parent in enumerate(sentence.live):
            row = place * size + slot
            count = best_RX.shape[1] + len(wanted[row])
            seen: set[int] = set()
            for token, rating, log_probability in zip(*(column[row][:count] for column in columns), strict=True):
                if token not in seen and rating > float("-inf"):
                    seen.add(token)
                    progress = parent.progress if token == end else sentence.phrases.advance(parent.progress, token)
                    met = sentence.phrases.met(progress)
                    branches.append(Branch(parent, token, slot, log_probability, parent.rating + rating, progress, met))
        found.append(branches)
    return found


def _answers(sentence: Sentence, ranking: Ranking, *, end: int, n_best: int, weights: bool) -> list[Hypothesis]:
    """The finished, best first; then those cut off, the ones with the most required tokens met first."""
    ended = [_write_out(branch, sentence, ranking, end=end, weights=weights) for branch in sentence.finished]
    cut_off = [
        (branch.met, _write_out(branch, sentence, ranking, end=end, weights=weights)) for branch in sentence.live
    ]
    ended.sort(key=lambda hypothesis: -hypothesis.score)
    cut_off.sort(key=lambda pair: (-pair[0], -pair[1].score))
    return [*ended, *(hypothesis for _, hypothesis in cut_off)][:n_best]


def _write_out(branch: Branch, sentence: Sentence, ranking: Ranking, *, end: int, weights: bool) -> Hypothesis:
    path: list[Branch] = []
    here: Branch = branch
    while here.parent is not None:
        path.append(here)
        here = here.parent
    path.reverse()
    looks = [looks_KS[one.slot] for one, looks_KS in zip(path, sentence.looks, strict=False)]
    looks_TS = pad_sequence(looks, batch_first=True).cpu() if looks else None
    covered = float(coverage(looks_TS.sum(0))) if looks_TS is not None and ranking.beta else 0.0
    finished = branch.token == end
    return Hypothesis(
        tokens=[one.token for one in path[: len(path) - finished]],
        score=ranking.score(branch.rating, len(path), covered),
        log_probability=sum(one.log_probability for one in path),
        token_scores=[one.log_probability for one in path],
        ended="end" if finished else "length",
        attention_TS=looks_TS if weights else None,
    )
