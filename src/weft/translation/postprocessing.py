"""From hypotheses to translations: text, attention over tokens and words, and word alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.errors import SearchError
from weft.search.interface import Hypothesis
from weft.text import specials
from weft.text.tokenizer import Tokenizers
from weft.translation.results import Translation
from weft.translation.word_alignment import Sentence, align_words, merge_to_words, split_words

NO_TOKEN = "∅"
"""The name of the first column of a recurrent language model's attention: before the first token there is no state."""


class Postprocessor:
    """Makes translations of hypotheses."""

    def __init__(self, tokenizers: Tokenizers, *, has_source: bool = True) -> None:
        """``has_source``: whether attention is over a source; a language model's is over its own history."""
        self.tokenizers = tokenizers
        self.has_source = has_source

    def best_of(
        self, source: Sentence, hypotheses: Sequence[Hypothesis], *, replace_unknown: bool = False
    ) -> Translation:
        """The best hypothesis, with the others as its alternatives."""
        best, *others = (
            self.translation(source, hypothesis, text=self._replaced(source, hypothesis) if replace_unknown else None)
            for hypothesis in hypotheses
        )
        return replace(best, alternatives=tuple(others)) if others else best

    def translation(self, source: Sentence, hypothesis: Hypothesis, *, text: str | None = None) -> Translation:
        """A hypothesis as a translation; ``text``: its text, if that is not simply what its tokens decode to."""
        target = self.tokenizers.target
        text = target.decode(hypothesis.tokens) if text is None else text
        tokens = target.tokens(hypothesis.tokens)
        source_tokens = self.tokenizers.source.tokens(source.ids)
        attention = words = None
        if hypothesis.attention_TS is not None:
            attention = hypothesis.attention_TS[: len(hypothesis.tokens)].numpy().astype(np.float64)
            if self.has_source:
                attention = attention[:, : len(source.ids)]
                words = merge_to_words(self.tokenizers, source, Sentence(text, hypothesis.tokens), attention)
            else:
                source_tokens = [NO_TOKEN, specials.SPECIALS[specials.BEGIN], *tokens][: attention.shape[1]]
        return Translation(
            source=source.text,
            text=text,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tokens,
            ids=hypothesis.tokens,
            token_scores=hypothesis.token_scores,
            source_tokens=source_tokens,
            attention=attention,
            word_attention=words,
            links=[] if words is None else align_words(words),
            ended=hypothesis.ended,
            proven=hypothesis.proven,
            trace=hypothesis.trace,
        )

    def _replaced(self, source: Sentence, hypothesis: Hypothesis) -> str | None:
        """The text with every unknown token replaced by the source word of largest weight   Luong et al. 2015b."""
        unknown = [position for position, token in enumerate(hypothesis.tokens) if token == specials.UNKNOWN]
        if not unknown:
            return None
        if hypothesis.attention_TS is None:
            raise SearchError("search.replace_unknown: this model has no attention, so no source word can be found")
        target = self.tokenizers.target
        text, spans = target.decode(hypothesis.tokens), target.spans(hypothesis.tokens)
        words, word_of_token = split_words(self.tokenizers.source, source)
        for position in reversed(unknown):
            column = int(hypothesis.attention_TS[position, : len(source.ids) - 1].argmax())
            start, end = spans[position]
            if 0 <= word_of_token[column] < len(words):
                text = text[:start] + words[word_of_token[column]] + text[end:]
        return text
