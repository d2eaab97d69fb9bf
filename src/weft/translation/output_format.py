"""Translations as lines of a file: plain, n-best with scores, with word links, or as JSON."""

from __future__ import annotations

import json
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

    @property
    def needs_attention(self) -> bool:
        return self.align or self.as_json

    def skipped(self, message: str) -> str:
        """The line of a source line that was skipped: all columns are empty."""
        if self.as_json:
            return json.dumps({"source": None, "text": "", "error": message}, ensure_ascii=False) + "\n"
        return "\t" * ((self.n_best > 1) + self.align) + "\n"

    def lines(self, translation: Translation) -> str:
        """The line or lines of one source line."""
        if self.as_json:
            return json.dumps(record(translation), ensure_ascii=False) + "\n"
        if self.n_best == 1 and not self.align:
            return in_one_line(translation.text) + "\n"
        text = ""
        for hypothesis in (translation, *translation.alternatives):
            columns = [in_one_line(hypothesis.text)]
            columns += [f"{hypothesis.score:.4f}"] if self.n_best > 1 else []
            columns += [_links(hypothesis)] if self.align else []
            text += "\t".join(columns) + "\n"
        return text


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
    }
    if translation.alternatives:
        result["alternatives"] = [record(hypothesis) for hypothesis in translation.alternatives]
    return result
