"""Search errors and model errors told apart   Stahlberg and Byrne 2019 ("On NMT search errors and model errors").

A wrong output has one of two causes. Let s be what hypotheses are ranked by (`weft.search.Ranking`), ŷ what a search
found, y* the best there is and y the reference:

    search error   s(ŷ) < s(y*)    the model rates something higher than what was found: a better search helps
    model error    s(y) < s(y*)    the model rates something higher than the reference: no search helps

y* takes an exact search, which may give up. Even then something is certain, for nothing but three scores:

    s(y) > s(ŷ), or anything else that is known scores above ŷ     a search error
    s(ŷ) > s(y), or anything else that is known scores above y     a model error

Everything is judged within the space of the exact search: sequences that end by themselves within the length limit. An
output that the limit cut off is not in it, and counts as a search error; a reference that is too long for it says
nothing about the search. Outputs are the same where their ids or their texts are: what a tokenizer can cut in two ways
is still one text. Scores that differ by less than `TOLERANCE` · (1 + |s|) are equal: more is not known of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from weft.errors import DataError
from weft.search.ranking import Ranking

TOLERANCE = 1e-5
"""The rounding of float32 that depends on who else is in a batch."""

Fate = Literal["best", "error", "unknown"]
Want = Literal["reference", "error", "unknown"]


@dataclass(frozen=True)
class Said:
    """One output, or a reference, as the model sees it."""

    text: str
    ids: tuple[int, ...]
    log_probability: float
    """log p(y|x), end mark included where it ended by itself."""
    ended: bool = True
    """False where the length limit cut it off."""

    @property
    def length(self) -> int:
        """Tokens, the end mark not counted."""
        return len(self.ids)

    def score(self, ranking: Ranking) -> float:
        """What it is ranked by."""
        return ranking.score(self.log_probability, self.length + self.ended)

    def same(self, other: Said) -> bool:
        """Whether both are one output."""
        return self.ended == other.ended and (self.ids == other.ids or self.text == other.text)


@dataclass(frozen=True)
class Judged:
    """One sentence: what was found, what could have been, what should have been."""

    source: str
    found: Said
    best: Said | None
    """The best of all where it is `proven`, else the best that the exact search saw before it gave up, if any."""
    proven: bool
    reference: Said
    reachable: bool
    """Whether the reference lies within the length limit."""
    search: Fate
    """"best": what was found is the best there is; "error": something better is known; "unknown": neither."""
    model: Want
    """"reference": the reference is the best there is; "error": something is rated above it; "unknown": neither."""
    gap: float | None
    """By how much the best that is known scores above what was found, where that is an error and both ended."""
    cheap: bool
    """Whether the reference alone shows the search error: no exact search was needed."""


def judge(
    source: str, found: Said, best: Said | None, reference: Said, *, proven: bool, limit: int, ranking: Ranking
) -> Judged:
    """What one sentence shows. ``best``: of the exact search; ``limit``: the longest output, end mark included."""
    if proven and best is None:
        raise DataError("search errors: nothing was found, and yet it is proven to be the best")
    reachable = reference.length + 1 <= limit
    known = [one for one in (best, found) if one is not None and one.ended]
    known += [reference] if reachable else []
    top = max(known, key=lambda one: one.score(ranking), default=None)
    cheap = reachable and (not found.ended or _above(reference, found, ranking))
    missed = top is not None and (not found.ended or (_above(top, found, ranking) and not top.same(found)))
    search: Fate = "error" if missed else "best" if proven else "unknown"
    beaten = top is not None and _above(top, reference, ranking) and not top.same(reference)
    right = proven and best is not None and (best.same(reference) or not _above(best, reference, ranking))
    model: Want = "error" if beaten else "reference" if right and reachable else "unknown"
    gap = top.score(ranking) - found.score(ranking) if missed and top is not None and found.ended else None
    return Judged(source, found, best, proven, reference, reachable, search, model, gap, cheap and missed)


def _above(one: Said, other: Said, ranking: Ranking) -> bool:
    left, right = one.score(ranking), other.score(ranking)
    return left - right > TOLERANCE * (1.0 + abs(right))


@dataclass(frozen=True)
class SearchErrors:
    """What a corpus shows."""

    sentences: list[Judged]
    ranking: Ranking
    signature: str

    def __post_init__(self) -> None:
        if not self.sentences:
            raise DataError("search errors: no sentences to judge; expected at least 1 that is not empty")

    @property
    def proven(self) -> list[Judged]:
        """Sentences whose best output is known."""
        return [one for one in self.sentences if one.proven]

    @property
    def errors(self) -> list[Judged]:
        """Sentences with a search error."""
        return [one for one in self.sentences if one.search == "error"]

    def searched(self, fate: Fate) -> int:
        """How many sentences the search fared so with."""
        return sum(one.search == fate for one in self.sentences)

    def wanted(self, want: Want) -> int:
        """How many sentences the model wants so."""
        return sum(one.model == want for one in self.sentences)

    @property
    def gaps(self) -> list[float]:
        """What the search errors cost, by score."""
        return [one.gap for one in self.errors if one.gap is not None]

    @property
    def empty(self) -> int:
        """How many of the proven best outputs are empty: the model would rather say nothing."""
        return sum(one.best is not None and not one.best.ids for one in self.proven)

    def lengths(self) -> dict[str, float] | None:
        """The mean length, in tokens, of the sentences whose best is known; None where there are none."""
        best = [one.best.length for one in self.proven if one.best is not None]
        if not best:
            return None
        found, reference = ([getattr(one, side).length for one in self.proven] for side in ("found", "reference"))
        return {"found": fmean(found), "best": fmean(best), "reference": fmean(reference)}

    def record(self) -> dict[str, Any]:
        """For ``--json``."""
        gaps = self.gaps
        return {
            "sentences": len(self.sentences),
            "search": {
                "best": self.searched("best"),
                "error": self.searched("error"),
                "unknown": self.searched("unknown"),
                "error, shown by the reference alone": sum(one.cheap for one in self.sentences),
                "error, cut off by the limit": sum(not one.found.ended for one in self.errors),
                "mean gap": fmean(gaps) if gaps else None,
                "largest gap": max(gaps, default=None),
            },
            "model": {
                "reference": self.wanted("reference"),
                "error": self.wanted("error"),
                "unknown": self.wanted("unknown"),
            },
            "best": {"proven": len(self.proven), "empty": self.empty, "mean lengths": self.lengths()},
            "signature": self.signature,
            "each": [self._one(one) for one in self.sentences],
        }

    def _one(self, one: Judged) -> dict[str, Any]:
        sides = {"found": one.found, "best": one.best, "reference": one.reference}
        return {
            "source": one.source,
            "search": one.search,
            "model": one.model,
            "proven": one.proven,
            "gap": one.gap,
            **{name: None if said is None else self._said(said) for name, said in sides.items()},
        }

    def _said(self, said: Said) -> dict[str, Any]:
        return {
            "text": said.text,
            "score": said.score(self.ranking),
            "log_probability": said.log_probability,
            "tokens": said.length,
            "ended": "end" if said.ended else "length",
        }


def summary(found: SearchErrors) -> list[str]:
    """The same in words, line by line."""
    total = len(found.sentences)

    def row(label: str, count: int, note: str = "") -> str:
        return f"  {label:<44}{count:6}{100.0 * count / total:8.1f} %{note and '   ' + note}".rstrip()

    cheap = sum(one.cheap for one in found.sentences)
    cut = sum(not one.found.ended for one in found.errors)
    lines = [
        f"{total} sentences; the best output there is proven for {len(found.proven)} of them",
        "",
        "Did the search find what the model rates highest?",
        row("yes: the best there is, proven", found.searched("best")),
        row("no: search error", found.searched("error"), "a wider beam or another search finds it"),
        row("not known: the exact search gave up", found.searched("unknown"), "raise search.max_nodes to know"),
    ]
    if found.errors:
        notes = [f"the reference itself scores higher in {cheap}"] + [f"{cut} were cut off by the length limit"] * (
            cut > 0
        )
        if gaps := found.gaps:
            notes.append(f"score lost {fmean(gaps):.4f} on average, {max(gaps):.4f} at most")
        lines.append(f"  Of the search errors: {'; '.join(notes)}")
    lines += [
        "",
        "Is what the model rates highest the reference?",
        row("yes", found.wanted("reference")),
        row("no: model error", found.wanted("error"), "something else scores above it; no search mends that"),
        row("not known", found.wanted("unknown")),
    ]
    if (lengths := found.lengths()) is not None:
        lines += [
            "",
            f"Where the best is known ({len(found.proven)} sentences)",
            f"  mean length in tokens: found {lengths['found']:.1f}, best {lengths['best']:.1f}, "
            f"reference {lengths['reference']:.1f}",
            f"  the best is to say nothing: {found.empty} of {len(found.proven)}",
        ]
    return [*lines, "", found.signature]


def worst(found: SearchErrors, count: int = 3) -> Sequence[Judged]:
    """The sentences that lost the most by their search, the worst first."""
    return sorted((one for one in found.errors if one.gap is not None), key=lambda one: -(one.gap or 0.0))[:count]
