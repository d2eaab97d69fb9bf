"""Warnings about sources that were probably not meant for the model, and about outputs that were cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import warn

if TYPE_CHECKING:
    from pathlib import Path

    from weft.recipe import SearchSettings
    from weft.translation.translator import Translator

CHECKED_LINES = 100
UNKNOWN_SHARE = 0.05
"""A warning is given from this share of unknown tokens on."""
EXAMPLES = 3


def warn_of_sources(model: Translator, run: Path, file: str, lines: Sequence[str]) -> None:
    """Warnings about the first of these lines, if there is reason for any; none about names of pictures or frames."""
    checked = [line for line in lines[:CHECKED_LINES] if line.strip()]
    if not checked or model.tokenizers.reads_arrays:
        return
    first = f"the first {len(checked)} lines" if len(checked) > 1 else "the line"
    tabs = sum("\t" in line for line in checked)
    if model.source_columns == 1 and 2 * tabs > len(checked):
        where, name = ("standard input", "") if file == "-" else (file, f" {file}")
        warn(
            f"{where}: the lines have tabs and are translated as a whole; to translate the first column: "
            f"cut -f 1{name} | weft translate {run}"
        )
    elif (share := _unknown_share(model, checked)) >= UNKNOWN_SHARE:
        words = ", ".join(map(repr, _unknown_words(model, checked)))
        warn(
            f"{share:.0%} of the tokens of {first} are unknown to the model{f' ({words})' if words else ''}; "
            "text must have the language, case and punctuation of the training data"
        )


def _unknown_share(model: Translator, lines: Sequence[str]) -> float:
    """The share of tokens that are in no vocabulary; none of a model that copies them."""
    from weft.text.specials import UNKNOWN

    if model.recipe.model.copies:
        return 0.0
    tokens = [token for ids in model.encode_sources(lines) for token in ids]
    return tokens.count(UNKNOWN) / max(1, len(tokens))


def _unknown_words(model: Translator, lines: Sequence[str]) -> list[str]:
    """A few words that have unknown tokens, the most frequent first."""
    from collections import Counter

    from weft.text.specials import UNKNOWN
    from weft.text.words import words

    counts = Counter(word for line in lines for word in words(line))
    unknown = (word for word, _ in counts.most_common() if UNKNOWN in list(model.encode_sources([word])[0]))
    return [word for word, _ in zip(unknown, range(EXAMPLES), strict=False)]


def cut_off_outputs(count: int, outputs: int) -> str:
    """A phrase with the number of outputs that reached the length limit; empty if none did."""
    if not count:
        return ""
    return f"{count:,} of {outputs:,} {'output' if outputs == 1 else 'outputs'} reached the length limit"


def warn_of_cut_off(count: int, outputs: int, settings: SearchSettings, option: str | None = None) -> None:
    """A warning on stderr that says what to raise: a setting, or ``option``; none if no output reached the limit."""
    if count:
        setting = option or "search.max_ratio or search.max_extra"
        setting = "search.max_length" if settings.max_length else setting
        warn(f"{cut_off_outputs(count, outputs)}; raise {setting}")


def warn_of_unproven(count: int, outputs: int, settings: SearchSettings) -> None:
    """A warning that an exact search gave up on some outputs; none if it did not."""
    if settings.kind == "exact" and count:
        warn(
            f"{count:,} of {outputs:,} {'output is' if outputs == 1 else 'outputs are'} not proven to be the best; "
            f"raise search.max_nodes = {settings.max_nodes:,}"
        )
