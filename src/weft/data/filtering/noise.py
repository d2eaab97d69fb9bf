"""Noise on text: words or characters dropped, blanked, replaced and shuffled.

As in denoising autoencoders (Lample et al. 2018, "Unsupervised Machine Translation Using Monolingual Corpora Only",
2.3) and noised back-translation (Edunov et al. 2018). The draws are a function of the seed and the pair's text alone:
they do not depend on the pair's position or on the process that handles it, and they are the same in every epoch,
since a corpus is prepared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from weft.data.filtering.sides import Side, side_phrase, with_texts
from weft.data.filtering.steps import Kept, Step, Unit
from weft.data.pairs import Pair, pair_hashes
from weft.recipe.base import CountOrNone, Probability


class Noise(Step):
    """Drop, blank or replace each unit with the given probabilities, then shuffle locally.

    A unit is a word (separated by white space) or a character; noise on characters stays inside each word. A replaced
    unit becomes one drawn from the same text. At least one unit of a text, or of a word, is left. After shuffling, no
    unit is more than `shuffle_distance` positions from where it was.
    """

    is_random: ClassVar[bool] = True
    kind: Literal["noise"] = Field("noise", description="drop, blank, replace and shuffle words or characters")
    drop: Probability = Field(0.0, description="probability that a unit is dropped")
    blank: Probability = Field(0.0, description="probability that it becomes blank_text")
    blank_text: str = Field("<blank>", description="what a blanked unit becomes")
    replace: Probability = Field(0.0, description="probability that it becomes another unit of the same text")
    shuffle_distance: CountOrNone = Field(0, description="positions that a unit may move; 0: no shuffling")
    unit: Unit = Field("words", description="words, or the characters inside each word")
    side: Side = Field("source", description="which side")

    @model_validator(mode="after")
    def _check(self) -> Noise:
        total = self.drop + self.blank + self.replace
        if total > 1:
            raise ValueError(f"data.pipeline: noise: drop, blank and replace sum to {total:g}; at most 1 is allowed")
        if not total and not self.shuffle_distance:
            raise ValueError("data.pipeline: noise: all are 0; set drop, blank, replace or shuffle_distance")
        if self.blank_text.split() != [self.blank_text]:
            raise ValueError(f"data.pipeline: noise: blank_text = {self.blank_text!r}; it must be one word")
        return self

    def __str__(self) -> str:
        shares = {"dropped": self.drop, f"as {self.blank_text!r}": self.blank, "replaced": self.replace}
        parts = [f"{share:.3g} {what}" for what, share in shares.items() if share]
        parts += [f"shuffled by up to {self.shuffle_distance}"] if self.shuffle_distance else []
        return f"noise: {self.unit} of {side_phrase(self.side)} {', '.join(parts)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        random = Random()
        noisy: Kept = []
        for pair, seed in zip(pairs, pair_hashes(pairs, key), strict=True):
            random.seed(seed)
            source = self._noisy(pair.source, random) if self.side != "target" else pair.source
            target = self._noisy(pair.target, random) if self.side != "source" else pair.target
            if source == pair.source and target == pair.target:
                noisy.append(pair)
            elif self.unit == "words":
                noisy.append(Pair(source, target))
            else:
                noisy.append(with_texts(pair, source, target))
        return noisy

    def _noisy(self, text: str, random: Random) -> str:
        words = text.split()
        if self.unit == "words":
            changed = self._changed(words, words, random)
        else:
            letters = "".join(words)
            changed = ["".join(self._changed(word, letters, random)) for word in words]
        return text if changed == words else " ".join(changed)

    def _changed(self, units: Sequence[str], replacements: Sequence[str], random: Random) -> list[str]:
        """The units after one draw each for dropping, blanking or replacing, and one each for the new order.

        The order sorts unit i by i + U(0, shuffle_distance + 1), so that none overtakes one further away than that.
        """
        draw, kept = random.random, []
        blank_below = self.drop + self.blank
        replace_below = blank_below + self.replace
        for unit in units:
            u = draw()
            if u >= replace_below:
                kept.append(unit)
            elif u >= blank_below:
                kept.append(replacements[int(draw() * len(replacements))])
            elif u >= self.drop:
                kept.append(self.blank_text)
        if units and not kept:
            kept = [units[int(draw() * len(units))]]
        if self.shuffle_distance:
            sort_keys = [index + draw() * (self.shuffle_distance + 1) for index in range(len(kept))]
            kept = [kept[index] for index in sorted(range(len(kept)), key=sort_keys.__getitem__)]
        return kept
