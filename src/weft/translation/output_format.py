"""Translations as lines of a file: plain, n-best with scores, with word links, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.evaluation.alignment import write_pharaoh
from weft.translation.results import Translation
from weft.translation.word_alignment import attention_view

LINE_BREAKERS = str.maketrans("\t\r\n", "   ")
"""Characters of an output that would end a column or a line."""


def in_one_line(text: str) -> str:
    """An output as it is written in a file of lines or columns."""
    return text if text.isprintable() else text.translate(LINE_BREAKERS)


class OutputFormat(NamedTuple):
    """Output format of translations: one line each, or several hypotheses with their scores, word links, or JSON."""

    n_best: int = 1
    align: bool = False
    as_json: bool = False
    confidence: bool = False
    """Whether to add a column with the confidence."""
    min_confidence: Sequence[float] | None = None
    """The least confidence of outputs that are not left out: of those with token scores, and of those without."""
    below: str = "blank"
    """The line in place of an output that is left out: "blank", or "source"."""
    flags: bool = False
    """Whether to add a column with the flags."""

    @property
    def needs_attention(self) -> bool:
        return self.align or self.as_json

    def skipped(self, message: str) -> str:
        """The line of a source line that was skipped: all columns are empty."""
        if self.as_json:
            return json.dumps({"source": None, "text": "", "error": message}, ensure_ascii=False) + "\n"
        return "\t" * ((self.n_best > 1) + self.align + self.confidence + self.flags) + "\n"

    def lines(self, translation: Translation) -> str:
        """The line or lines of one source line."""
        accepted = is_accepted(translation, self.min_confidence)
        if self.as_json:
            judged = {} if self.min_confidence is None else {"accepted": accepted}
            return json.dumps(record(translation) | judged, ensure_ascii=False) + "\n"
        if self.n_best == 1 and not (self.align or self.confidence or self.flags):
            return in_one_line(translation.text if accepted else self._replacement(translation)) + "\n"
        text = ""
        for hypothesis in (translation, *translation.alternatives):
            columns = [in_one_line(hypothesis.text if accepted else self._replacement(translation))]
            columns += [_confidence(hypothesis)] if self.confidence else []
            columns += [",".join(hypothesis.flags)] if self.flags else []
            columns += [f"{hypothesis.score:.4f}"] if self.n_best > 1 else []
            columns += [_links(hypothesis)] if self.align else []
            text += "\t".join(columns) + "\n"
        return text

    def _replacement(self, translation: Translation) -> str:
        return translation.source if self.below == "source" else ""


def is_accepted(translation: Translation, least: Sequence[float] | None) -> bool:
    """Whether an output has enough confidence; an empty line has none and needs none.

    ``least``: of outputs with token scores, and of those without; None: any is enough.
    """
    if least is None or translation.confidence is None:
        return True
    same = least[0] == least[1]
    return translation.confidence >= least[0 if same or translation.token_scores else 1]


def _confidence(translation: Translation) -> str:
    return "" if translation.confidence is None else f"{translation.confidence:.3f}"


def _links(translation: Translation) -> str:
    """The links between words; between tokens where a side is a single word of several."""
    view = attention_view(translation)
    return write_pharaoh(translation.links if view is None else view.links)


def record(translation: Translation) -> dict[str, Any]:
    """A translation for ``--json``."""
    result: dict[str, Any] = {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "tokens": translation.tokens,
        "token_scores": translation.token_scores,
        "source_tokens": translation.source_tokens,
        "attention": None if translation.attention is None else translation.attention.round(6).tolist(),
        "links": translation.links,
        "ended": translation.ended,
        "proven": translation.proven,
        "gap": translation.gap,
        "confidence": translation.confidence,
        "flags": list(translation.flags),
    }
    if translation.memory:
        result["memory"] = [match._asdict() for match in translation.memory]
    if translation.alternatives:
        result["alternatives"] = [record(hypothesis) for hypothesis in translation.alternatives]
    return result
