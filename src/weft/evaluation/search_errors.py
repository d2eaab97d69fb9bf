"""Search errors and model errors   Stahlberg and Byrne 2019 ("On NMT search errors and model errors").

A wrong output has one of two causes. Let s be the score that hypotheses are ranked by (`weft.search.Ranking`), ŷ the
output of a search, y* the best of all outputs and y the reference:

    search error   s(ŷ) < s(y*)    the model scores something above the output: a better search helps
    model error    s(y) < s(y*)    the model scores something above the reference: no search helps

Finding y* takes an exact search, which may give up. Even then some errors are certain:

    s(y) > s(ŷ), or any other known output scores above ŷ     a search error
    s(ŷ) > s(y), or any other known output scores above y     a model error

Only sequences that end within the length limit count, as in the exact search. An output that reached the limit without
ending is a search error; a reference beyond the limit says nothing about the search. Outputs are the same if their ids
or their texts are, since a text may have several tokenizations. Scores that differ by less than `TOLERANCE` · (1 + |s|)
count as equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from weft.errors import DataError, plural
from weft.search.ranking import Ranking

TOLERANCE = 1e-5
"""The rounding of float32 that depends on the other rows of a batch."""

SearchOutcome = Literal["best", "error", "unknown"]
ModelOutcome = Literal["reference", "error", "unknown"]


@dataclass(frozen=True)
class ScoredOutput:
    """An output or a reference with its probability."""

    text: str
    ids: tuple[int, ...]
    log_probability: float
    """log p(y|x), including the end token if it ended."""
    ended: bool = True
    """False if it reached the length limit."""

    @property
    def length(self) -> int:
        """Tokens, without the end token."""
        return len(self.ids)

    def score(self, ranking: Ranking) -> float:
        """The score that the search ranks by."""
        return ranking.score(self.log_probability, self.length + self.ended)

    def equals(self, other: ScoredOutput) -> bool:
        return self.ended == other.ended and (self.ids == other.ids or self.text == other.text)

    def is_above(self, other: ScoredOutput, ranking: Ranking) -> bool:
        score, bar = self.score(ranking), other.score(ranking)
        return score - bar > TOLERANCE * (1.0 + abs(bar))


@dataclass(frozen=True)
class SentenceErrors:
    """One sentence: the output of the search, the best of all outputs, and the reference."""

    source: str
    output: ScoredOutput
    best: ScoredOutput | None
    """The best of all if `proven`, else the best that the exact search saw before it gave up, if any."""
    proven: bool
    reference: ScoredOutput
    reachable: bool
    """Whether the reference is within the length limit."""
    search: SearchOutcome
    """"best": the output is the best of all; "error": a better one is known; "unknown": neither."""
    model: ModelOutcome
    """"reference": the reference is the best of all; "error": something scores above it; "unknown": neither."""
    gap: float | None
    """The score of the best known output minus that of the output, if that is an error and both ended."""
    shown_by_reference: bool
    """Whether the reference alone shows the search error, without an exact search."""


@dataclass(frozen=True)
class SearchSpace:
    """The ranking that all sentences share, and the length limit of one sentence."""

    ranking: Ranking
    max_length: int
    """The longest output, end token included."""


def classify(
    source: str,
    output: ScoredOutput,
    best: ScoredOutput | None,
    reference: ScoredOutput,
    *,
    proven: bool,
    space: SearchSpace,
) -> SentenceErrors:
    """The errors of one sentence; ``best``: the output of the exact search."""
    if proven and best is None:
        raise DataError("search errors: nothing was found, and yet it is proven to be the best")
    ranking = space.ranking
    reachable = reference.length + 1 <= space.max_length
    known = [candidate for candidate in (best, output) if candidate is not None and candidate.ended]
    known += [reference] if reachable else []
    top = max(known, key=lambda candidate: candidate.score(ranking), default=None)
    missed = top is not None and (not output.ended or (top.is_above(output, ranking) and not top.equals(output)))
    search: SearchOutcome = "error" if missed else "best" if proven else "unknown"
    beaten = top is not None and top.is_above(reference, ranking) and not top.equals(reference)
    is_best = proven and best is not None and (best.equals(reference) or not best.is_above(reference, ranking))
    return SentenceErrors(
        source=source,
        output=output,
        best=best,
        proven=proven,
        reference=reference,
        reachable=reachable,
        search=search,
        model="error" if beaten else "reference" if is_best and reachable else "unknown",
        gap=top.score(ranking) - output.score(ranking) if missed and top is not None and output.ended else None,
        shown_by_reference=missed and reachable and (not output.ended or reference.is_above(output, ranking)),
    )


@dataclass(frozen=True)
class SearchErrors:
    """The errors of a corpus."""

    sentences: list[SentenceErrors]
    ranking: Ranking
    signature: str
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that were not judged, by the kind of error: those with a blank side are "blank"."""

    def __post_init__(self) -> None:
        if not self.sentences:
            raise DataError("search errors: no sentences to judge; expected at least 1 that is not empty")

    @property
    def proven(self) -> list[SentenceErrors]:
        """Sentences whose best output is known."""
        return [sentence for sentence in self.sentences if sentence.proven]

    @property
    def errors(self) -> list[SentenceErrors]:
        """Sentences with a search error."""
        return [sentence for sentence in self.sentences if sentence.search == "error"]

    def count_search(self, outcome: SearchOutcome) -> int:
        return sum(sentence.search == outcome for sentence in self.sentences)

    def count_model(self, outcome: ModelOutcome) -> int:
        return sum(sentence.model == outcome for sentence in self.sentences)

    @property
    def shown_by_reference(self) -> int:
        """Search errors that the reference alone shows."""
        return sum(sentence.shown_by_reference for sentence in self.sentences)

    @property
    def cut_off(self) -> int:
        """Outputs that reached the length limit."""
        return sum(not sentence.output.ended for sentence in self.errors)

    @property
    def gaps(self) -> list[float]:
        """The score lost by each search error."""
        return [sentence.gap for sentence in self.errors if sentence.gap is not None]

    @property
    def empty(self) -> int:
        """Number of proven best outputs that are empty."""
        return sum(sentence.best is not None and not sentence.best.ids for sentence in self.proven)

    def mean_lengths(self) -> dict[str, float] | None:
        """The mean lengths, in tokens, over the sentences whose best output is known; None if there are none."""
        best = [sentence.best.length for sentence in self.proven if sentence.best is not None]
        if not best:
            return None
        return {
            "found": fmean(sentence.output.length for sentence in self.proven),
            "best": fmean(best),
            "reference": fmean(sentence.reference.length for sentence in self.proven),
        }

    def worst(self, count: int = 3) -> Sequence[SentenceErrors]:
        """The sentences that lost the most score by their search, the worst first."""
        ranked = [sentence for sentence in self.errors if sentence.gap is not None]
        return sorted(ranked, key=lambda sentence: -(sentence.gap or 0.0))[:count]

    def record(self) -> dict[str, Any]:
        """The search errors as JSON values, for ``--json``."""
        gaps = self.gaps
        return {
            "sentences": len(self.sentences),
            "left_out": dict(self.left_out),
            "search": {
                "best": self.count_search("best"),
                "error": self.count_search("error"),
                "unknown": self.count_search("unknown"),
                "error, shown by the reference alone": self.shown_by_reference,
                "error, cut off by the limit": self.cut_off,
                "mean gap": fmean(gaps) if gaps else None,
                "largest gap": max(gaps, default=None),
            },
            "model": {
                "reference": self.count_model("reference"),
                "error": self.count_model("error"),
                "unknown": self.count_model("unknown"),
            },
            "best": {"proven": len(self.proven), "empty": self.empty, "mean lengths": self.mean_lengths()},
            "signature": self.signature,
            "each": [self._sentence_record(sentence) for sentence in self.sentences],
        }

    def _sentence_record(self, sentence: SentenceErrors) -> dict[str, Any]:
        outputs = {"found": sentence.output, "best": sentence.best, "reference": sentence.reference}
        return {
            "source": sentence.source,
            "search": sentence.search,
            "model": sentence.model,
            "proven": sentence.proven,
            "gap": sentence.gap,
            **{name: None if output is None else self._output_record(output) for name, output in outputs.items()},
        }

    def _output_record(self, output: ScoredOutput) -> dict[str, Any]:
        return {
            "text": output.text,
            "score": output.score(self.ranking),
            "log_probability": output.log_probability,
            "tokens": output.length,
            "ended": "end" if output.ended else "length",
        }

    def summary(self) -> list[str]:
        """The counts in words, line by line."""
        lines = [
            f"{plural(len(self.sentences), 'sentence')}; the best output there is proven for {len(self.proven)} "
            "of them",
            "",
            "Did the search find what the model rates highest?",
            self._row("yes: the best there is, proven", self.count_search("best")),
            self._row("no: search error", self.count_search("error"), "a wider beam or another search finds it"),
            self._row(
                "not known: the exact search gave up", self.count_search("unknown"), "raise search.max_nodes to know"
            ),
        ]
        if self.errors:
            notes = [f"the reference itself scores higher in {self.shown_by_reference}"]
            notes += [f"{self.cut_off} were cut off by the length limit"] * (self.cut_off > 0)
            if gaps := self.gaps:
                notes.append(f"score lost {fmean(gaps):.4f} on average, {max(gaps):.4f} at most")
            lines.append(f"  Of the search errors: {'; '.join(notes)}")
        lines += [
            "",
            "Is what the model rates highest the reference?",
            self._row("yes", self.count_model("reference")),
            self._row(
                "no: model error", self.count_model("error"), "something else scores above it; no search mends that"
            ),
            self._row("not known", self.count_model("unknown")),
        ]
        if (lengths := self.mean_lengths()) is not None:
            lines += [
                "",
                f"Where the best is known ({plural(len(self.proven), 'sentence')})",
                f"  mean length in tokens: found {lengths['found']:.1f}, best {lengths['best']:.1f}, "
                f"reference {lengths['reference']:.1f}",
                f"  the best is to say nothing: {self.empty} of {len(self.proven)}",
            ]
        return [*lines, "", self.signature]

    def _row(self, label: str, count: int, note: str = "") -> str:
        percent = 100.0 * count / len(self.sentences)
        return f"  {label:<44}{count:6}{percent:8.1f} %{note and '   ' + note}".rstrip()
