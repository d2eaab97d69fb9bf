"""What `weft data show` and `weft data check` print: plain text, for a terminal of any width.

Sample texts stand alone at the ends of lines, so that right-to-left scripts and wide characters cannot push a column
out of place; they are cut by the cells they take and hold nothing a terminal would obey.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from weft.data.reading.length_histogram import PERCENTILES, Lengths
from weft.data.reading.statistics import Description, Sample, SideDescription
from weft.views.histogram import histogram
from weft.views.labels import shorten, visible

SCRIPTS_SHOWN = 5
MARGIN = 2
LEFT_TO_RIGHT = "\u200e"
UNSPACED = {"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"}
"""Scripts without spaces between words: their lengths are shown in characters."""


@dataclass(frozen=True)
class StepCount:
    """A step of a pipeline, how many pairs it dropped, and some of them."""

    description: str
    dropped: int
    examples: Sequence[Sample] = ()


def describe(description: Description, *, title: str = "", width: int = 80, ascii_only: bool = False) -> str:
    """All that is known of a corpus, as text."""
    sides = {"source": description.source, "target": description.target}
    parts = [_facts(description, title)]
    if description.pairs:
        parts += [_lengths(description, sides), _scripts(sides, width)]
        parts += [_histogram(name, side, width, ascii_only) for name, side in sides.items()]
    if samples := description.samples():
        parts.append("\n".join(["samples", *(_sample(sample, width, MARGIN) for sample in samples)]))
    text = "\n\n".join(parts)
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


def check(steps: Sequence[StepCount], *, pairs: int, width: int = 80, ascii_only: bool = False) -> str:
    """What a pipeline would do to so many pairs: a table of the steps, then examples of what each drops."""
    numbered = [line_of(f"{place}. {step.description}", width - len(" drops")) for place, step in enumerate(steps, 1)]
    counts = [f"{count:,}" for count in (pairs, *(step.dropped for step in steps))]
    number = max(map(len, (*counts, "pairs in")))
    label = min(max(map(cell_len, (*numbered, "kept")), default=0), max(width - 2 * number - len("  100.00%") - 4, 20))
    lines = [f"{'':{label}}  {'pairs in':>{number}}  {'dropped':>{number}}  {'share':>7}".rstrip()]
    left = pairs
    for name, step in zip(numbered, steps, strict=True):
        lines.append(_row(shorten(name, label), label, number, left, step.dropped))
        left -= step.dropped
    lines.append(_row("kept", label, number, left, None, pairs))
    for name, step in zip(numbered, steps, strict=True):
        if step.examples:
            lines += ["", f"{name} drops"]
            lines += [_sample(sample, width, MARGIN) for sample in step.examples]
    text = "\n".join(lines)
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


def line_of(text: str, cells: int) -> str:
    """A sentence in so many cells of a terminal: spaces as they are, all else that has no look of its own as a sign."""
    if not text.strip():
        return visible(text)
    shown = " ".join(visible(part) if part else "" for part in text[: 4 * cells + 4].split(" "))
    return shorten(shown if len(text) <= 4 * cells + 4 else f"{shown}…", cells)


def percent(count: int, total: int) -> str:
    """A share that is never rounded to nothing or to all: ``0.41%``, ``<0.01%``."""
    if not total:
        return "-"
    share = 100 * count / total
    if 0 < share < 0.01:
        return "<0.01%"
    if 99.99 < share < 100:
        return ">99.99%"
    return f"{share:.2f}%"


def _row(name: str, label: int, number: int, left: int, dropped: int | None, total: int = 0) -> str:
    start = f"{name}{' ' * (label - cell_len(name))}  {left:>{number},}"
    if dropped is None:
        return f"{start}  {'':>{number}}  {percent(left, total):>7}"
    return f"{start}  {dropped:>{number},}  {percent(dropped, left):>7}"


def _facts(description: Description, title: str) -> str:
    pairs, compared = description.pairs, description.compared
    duplicates, sources = description.duplicate_pairs(), description.duplicate_sources()
    among = "" if compared == pairs else f" among the first {compared:,}"
    blank = (description.source.blank, description.target.blank)
    rows = [
        ("pairs", f"{pairs:,}"),
        ("blank sides", f"source {blank[0]:,}, target {blank[1]:,}"),
        ("identical sides", f"{description.identical:,} ({percent(description.identical, pairs)})"),
        (
            "duplicates",
            f"pair {duplicates:,} ({percent(duplicates, compared)}), "
            f"source {sources:,} ({percent(sources, compared)}){among}",
        ),
    ]
    if not pairs:
        rows = rows[:1]
    lines = [f"{name:<15}  {value}" for name, value in rows]
    return "\n".join([title, *lines] if title else lines)


def _lengths(description: Description, sides: dict[str, SideDescription]) -> str:
    header = ["", "mean", *(f"{p}%" for p in PERCENTILES), "longest"]
    table = [header]
    for name, side in sides.items():
        kinds: dict[str, Lengths | None] = {"words": side.words, "characters": side.characters, "tokens": side.tokens}
        for kind, lengths in kinds.items():
            if lengths is not None:
                percentiles = [f"{lengths.percentile(p):,}" for p in PERCENTILES]
                table.append([f"{name} {kind}", f"{lengths.mean:,.1f}", *percentiles, f"{lengths.largest:,}"])
    ratios = (description.mean_ratio, *map(description.ratio, PERCENTILES), description.largest_ratio)
    table.append(["longer / shorter", *(f"{ratio:,.2f}" for ratio in ratios)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  " + "  ".join(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))
        for row in table
    )


def _scripts(sides: dict[str, SideDescription], width: int) -> str:
    lines = []
    for name, side in sides.items():
        shares = side.scripts()
        shown = [f"{script} {_share(share)}" for script, share in list(shares.items())[:SCRIPTS_SHOWN]]
        more = f", {len(shares) - SCRIPTS_SHOWN} more" if len(shares) > SCRIPTS_SHOWN else ""
        lines.append(f"{name} letters   {', '.join(shown) or 'none'}{more}")
        if foreign := side.foreign():
            letters = "  ".join(f"{_in_line(letter)} {count:,}" for letter, count in foreign.items())
            lines.append(shorten(f"{'  of others':<17}{letters}", width))
    return "\n".join(lines)


def _in_line(letter: str) -> str:
    """A letter that leaves the numbers beside it in their places: one of Hebrew or Arabic goes between marks."""
    shown = visible(letter)
    return f"{LEFT_TO_RIGHT}{shown}{LEFT_TO_RIGHT}" if unicodedata.bidirectional(letter) in ("R", "AL") else shown


def _share(share: float) -> str:
    return percent(round(share * 10**9), 10**9)


def _histogram(name: str, side: SideDescription, width: int, ascii_only: bool) -> str:
    lengths, unit = side.words, "words"
    if side.tokens is not None:
        lengths, unit = side.tokens, "tokens"
    elif next(iter(side.scripts()), "") in UNSPACED:
        lengths, unit = side.characters, "characters"
    return f"{name} {unit}\n" + histogram(lengths.counts, width=width, ascii_only=ascii_only)


def _sample(sample: Sample, width: int, indent: int) -> str:
    """A pair on three lines: where it stands, its source, its target; on two if that is not known."""
    where, pair = sample
    lines = [f"{'':{indent}}{line_of(where, max(width - indent, 10))}"] if where else []
    indent += MARGIN if where else 0
    for name, text in (("source", pair.source), ("target", pair.target)):
        lines.append(f"{'':{indent}}{name}  {line_of(text, max(width - indent - 8, 10))}")
    return "\n".join(lines)
