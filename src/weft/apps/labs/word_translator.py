"""A statistical translator in plain code: words and their translations, a trigram language model, and a beam.

    p(f, a | e) ≈ Π_i p(φ_i | e_i) · Π_t p(f_t | f_{t−2}, f_{t−1})          f = φ_1 φ_2 …: the phrases, in source order

IBM Model 1 (`weft.evaluation.ibm1`) aligns the training pairs. The target words aligned to a source word, if they stand
next to each other, are a translation φ of it; their relative frequencies are p(φ | e). φ may be empty. The decoder is
monotone: it translates word by word from left to right and never reorders, as simple systems did (Brown et al. 1993
have reordering and fertilities; Koehn et al. 2003 have phrases on both sides). Unknown words are copied.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.data.pairs import Pair
from weft.evaluation.ibm1 import fit_ibm1
from weft.text.words import words

Phrase = tuple[str, ...]
BEGIN, END = "<s>", "</s>"
MAX_PHRASE = 3
MAX_CHOICES = 8
"""Translations of a word that the decoder tries."""
BACKOFF = 0.2
"""Share of the shorter history in the probability of a word."""


@dataclass
class TrigramModel:
    """p(f | u v) = (1 − λ) c(u v f) / c(u v) + λ p(f | v), and so on down to 1/V   Jelinek & Mercer 1980."""

    counts: Counter[Phrase] = field(default_factory=Counter)
    contexts: Counter[Phrase] = field(default_factory=Counter)
    vocabulary: set[str] = field(default_factory=lambda: {END})

    def add(self, sentence: Sequence[str]) -> None:
        """Count a sentence of the training data."""
        self.vocabulary.update(sentence)
        padded = (BEGIN, BEGIN, *sentence, END)
        for end in range(2, len(padded)):
            for size in range(3):
                self.counts[padded[end - size : end + 1]] += 1
                self.contexts[padded[end - size : end]] += 1

    def log_p(self, word: str, history: Phrase) -> float:
        """log p(word | the last two words)."""
        p = 1 / (len(self.vocabulary) + 1)
        for size in range(3):
            context = history[len(history) - size :]
            if self.contexts[context]:
                p = (1 - BACKOFF) * self.counts[(*context, word)] / self.contexts[context] + BACKOFF * p
        return math.log(p)


class WordTranslator:
    """Translations of words and a language model, both from the same pairs."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        model = fit_ibm1(pairs)
        self.language = TrigramModel()
        counts: defaultdict[str, Counter[Phrase]] = defaultdict(Counter)
        for pair in pairs:
            source, target = words(pair.source), words(pair.target)
            self.language.add(target)
            aligned: defaultdict[int, list[int]] = defaultdict(list)
            for i, j in model.links(pair):
                aligned[i].append(j)
            for i, word in enumerate(source):
                positions = aligned[i]
                if not positions or positions == list(range(positions[0], positions[-1] + 1)):
                    counts[word][tuple(target[j] for j in positions[:MAX_PHRASE])] += 1
        self.phrases = {
            word: [(phrase, math.log(count / sum(c.values()))) for phrase, count in c.most_common(MAX_CHOICES)]
            for word, c in counts.items()
        }

    def translate(self, source: str, beam: int = 10) -> str:
        """The best translation that a beam finds; hypotheses with the same last two words are merged."""
        hypotheses: dict[Phrase, tuple[float, Phrase]] = {(BEGIN, BEGIN): (0.0, ())}
        for word in [*words(source), END]:
            extended: dict[Phrase, tuple[float, Phrase]] = {}
            choices = [((END,), 0.0)] if word == END else self.phrases.get(word, [((word,), 0.0)])
            for history, (score, output) in hypotheses.items():
                for phrase, log_p in choices:
                    total, last = score + log_p, history
                    for target in phrase:
                        total += self.language.log_p(target, last)
                        last = (last[1], target)
                    if last not in extended or total > extended[last][0]:
                        extended[last] = (total, output + phrase)
            best = sorted(extended.items(), key=lambda item: item[1][0], reverse=True)[:beam]
            hypotheses = dict(best)
        _, output = max(hypotheses.values())
        return " ".join(output[:-1])
