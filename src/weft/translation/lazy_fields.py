"""Fields of translations that few callers read, computed for a whole batch when one of them is first read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.search.ranking import ENDED, HypothesisArrays
from weft.text import specials
from weft.text.id_rows import IdRows, Sentence, Sentences
from weft.translation.flags import NO_RULES, FlagRules, all_flags, flags_of_batch

if TYPE_CHECKING:
    from weft.translation.pipeline import TextProcessor


class BatchDetails:
    """Fields of the translations of a batch, without attention, that few callers read."""

    def __init__(
        self, hypotheses: HypothesisArrays, sources: Sequence[Sentence], text: TextProcessor, texts: Sequence[str] = ()
    ) -> None:
        self.texts = texts
        self.hypotheses, self.sources, self.tokenizers, self.text = hypotheses, sources, text.tokenizers, text
        self.confidence = text.confidence

    def compute(self, name: str, row: int) -> Any:
        hypotheses = self.hypotheses
        match name:
            case "confidence":
                return None if self.confidence is None else self.confidences[row]
            case "flags":
                return self._flags[row]
            case "source":
                return self.sources.text(row) if isinstance(self.sources, Sentences) else self.sources[row].text
            case "ended":
                return ENDED[int(hypotheses.ended_BN[row, 0])]
            case "ids":
                return hypotheses.tokens(row)
            case "tokens":
                return self.tokenizers.target.tokens(hypotheses.tokens(row))
            case "source_tokens":
                return self.text.source_tokens(self.tokenizers, self.sources[row])
            case "score":
                return float(hypotheses.scores_BN[row, 0])
            case "log_probability":
                return float(hypotheses.log_probabilities_BN[row, 0])
            case "token_scores":
                return hypotheses.token_scores(row)
            case "gap":
                gap = float(hypotheses.gaps_BN[row, 0])
                return None if np.isnan(gap) else gap
            case "flag_rules":
                return None if self.confidence is None else self.confidence.flag_rules
            case "flags_of_tokens":
                return self._flags_of_tokens[row]
            case "attention" | "word_attention" | "trace":
                return None
            case "links":
                return []
            case "alternatives" | "terms":
                return ()
        raise AttributeError(f"'Translation' object has no attribute {name!r}")

    @cached_property
    def confidences(self) -> list[float]:
        assert self.confidence is not None
        return self.confidence.of_batch(self.hypotheses, self._source_ids)

    @property
    def _rules(self) -> FlagRules:
        return NO_RULES if self.confidence is None else self.confidence.flag_rules

    @cached_property
    def _flags_of_tokens(self) -> list[tuple[str, ...]]:
        return flags_of_batch(self.hypotheses, self._source_ids, self.tokenizers.source.tokens, self._rules)

    @cached_property
    def _flags(self) -> list[tuple[str, ...]]:
        rows, rules = enumerate(zip(self.texts, self._flags_of_tokens, strict=True)), self._rules
        return [all_flags(self.compute("source", row), text, rules, others) for row, (text, others) in rows]

    @cached_property
    def _source_ids(self) -> IdRows:
        """The ids of the sources; of arrays, an end token for each state."""
        sources = self.sources
        if self.tokenizers.reads_arrays:
            counts = [len(self.text.source_tokens(self.tokenizers, source)) for source in sources]
            return IdRows.of([[specials.END] * count for count in counts])
        return sources.id_rows if isinstance(sources, Sentences) else IdRows.of([source.ids for source in sources])
