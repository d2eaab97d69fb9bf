"""Noise on text: words or characters lost, blanked out, replaced and moved.

As in denoising autoencoders (Lample et al. 2018, "Unsupervised Machine Translation Using Monolingual Corpora Only",
2.3) and in noised back-translation (Edunov et al. 2018). What is drawn is a function of the seed and of the pair's
text alone: it does not depend on where the pair stands or which process handles it, and it is the same every epoch,
since a corpus is prepared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal

from weft.data.filtering.sides import Side, check_choice, choices, on_sides, with_texts
from weft.data.hashing import pair_hashes
from weft.data.pairs import Pair
from weft.errors import DataError


@dataclass(frozen=True)
class Noise:
    """Lose, blank out or replace units with the given chances, then move each by at most `swap` places.

    A unit is a word (between white space) or a character; noise on characters stays inside each word. A replaced
    unit becomes one drawn from the same text. At least one unit of a text, or of a word, is left.
    """

    kind: ClassVar[str] = "noise"
    training_only: ClassVar[bool] = True
    drop: float = 0.0
    blank: float = 0.0
    blank_text: str = "<blank>"
    replace: float = 0.0
    swap: int = 0
    unit: Literal["words", "characters"] = "words"
    side: Side = "source"

    def __post_init__(self) -> None:
        check_choice(self.kind, "unit", self.unit, ("words", "characters"))
        check_choice(self.kind, "side", self.side, choices(Side))
        chances = (self.drop, self.blank, self.replace)
        if min(chances) < 0 or sum(chances) > 1 or self.swap < 0:
            raise DataError("noise: drop, blank and replace are chances that sum to 1 at most, and swap is 0 or more")
        if not sum(chances) and not self.swap:
            raise DataError("noise: there is none; set drop, blank, replace or swap")
        if self.blank_text.split() != [self.blank_text]:
            raise DataError(f"noise: blank_text must be one word, and {self.blank_text!r} was given")

    def __str__(self) -> str:
        shares = {"lost": self.drop, f"as {self.blank_text!r}": self.blank, "replaced": self.replace}
        parts = [f"{share:.3g} {what}" for what, share in shares.items() if share]
        parts += [f"moved by up to {self.swap}"] if self.swap else []
        return f"noise: {self.unit} of {on_sides(self.side)} {', '.join(parts)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> list[Pair | None]:
        draws = Random()
        noisy: list[Pair | None] = []
        for pair, number in zip(pairs, pair_hashes(pairs, key), strict=True):
            draws.seed(number)
            source = self._noisy(pair.source, draws) if self.side != "target" else pair.source
            target = self._noisy(pair.target, draws) if self.side != "source" else pair.target
            if source == pair.source and target == pair.target:
                noisy.append(pair)
            elif self.unit == "words":
                noisy.append(Pair(source, target))
            else:
                noisy.append(with_texts(pair, source, target))
        return noisy

    def _noisy(self, text: str, draws: Random) -> str:
        words = text.split()
        if self.unit == "words":
            changed = self._changed(words, words, draws)
        else:
            letters = "".join(words)
            changed = ["".join(self._changed(word, letters, draws)) for word in words]
        return text if changed == words else " ".join(changed)

    def _changed(self, units: Sequence[str], others: Sequence[str], draws: Random) -> list[str]:
        """The units after one draw each for loss, blank or replacement, and one each for the new order.

        The order sorts by i + U(0, swap + 1), i being the place: no unit overtakes one more than `swap` places off.
        """
        draw, kept = draws.random, []
        to_blank = self.drop + self.blank
        to_replace = to_blank + self.replace
        for unit in units:
            chance = draw()
            if chance >= to_replace:
                kept.append(unit)
            elif chance >= to_blank:
                kept.append(others[int(draw() * len(others))])
            elif chance >= self.drop:
                kept.append(self.blank_text)
        if units and not kept:
            kept = [units[int(draw() * len(units))]]
        if self.swap:
            places = [place + draw() * (self.swap + 1) for place in range(len(kept))]
            kept = [kept[place] for place in sorted(range(len(kept)), key=places.__getitem__)]
        return kept
