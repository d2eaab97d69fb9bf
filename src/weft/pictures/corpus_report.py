"""The output of `weft data show` and `weft data check`: plain text, for a terminal of any width.

Sample texts come last in their lines, so that right-to-left scripts and wide characters cannot displace a column; they
are truncated by terminal cells and contain no control characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from weft.data.filtering.length_histogram import PERCENTILES
from weft.data.filtering.statistics import CorpusStatistics, Sample, SideStatistics
from weft.pictures.histogram import histogram
from weft.pictures.labels import shorten, visible

SCRIPTS_SHOWN = 5
MARGIN = 2
NARROWEST = 3
"""Columns of the table of lengths that stay however narrow the terminal is."""
LEFT_TO_RIGHT = "\u200e"
UNSPACED = {"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"}
"""Scripts without spaces between words: their lengths are shown in characters."""


@dataclass(frozen=True)
class StepCount:
    """A step of a pipeline, how many pairs it dropped, and examples of them."""

    description: str
    dropped: int
    examples: Sequence[Sample] = ()


def describe(
    statistics: CorpusStatistics,
    *,
    title: str = "",
    width: int = 80,
    ascii_only: bool = False,
    reads_arrays: bool = False,
) -> str:
    """The statistics of a corpus as text; ``reads_arrays``: its sources name files, whose names say nothing."""
    sides = (
        {"target": statistics.target} if reads_arrays else {"source": statistics.source, "target": statistics.target}
    )
    parts = [_facts(statistics, title)]
    if statistics.pairs:
        parts += [_lengths(statistics, sides, width), _scripts(sides, width)]
        parts += [_histogram(name, side, width, ascii_only) for name, side in sides.items()]
    if (samples := statistics.samples()) and not reads_arrays:
        parts.append("\n".join(["samples", *(_sample(sample, width, MARGIN) for sample in samples)]))
    text = "\n\n".join(parts)
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


def check(steps: Sequence[StepCount], *, pairs: int, width: int = 80, ascii_only: bool = False) -> str:
    """The effect of a pipeline on ``pairs`` pairs: a table of the steps, then examples of what each drops."""
    numbered = [line_of(f"{number}. {step.description}", width - len(" drops")) for number, step in enumerate(steps, 1)]
    counts = [f"{count:,}" for count in (pairs, *(step.dropped for step in steps))]
    count_width = max(map(len, (*counts, "pairs in")))
    max_label_width = max(width - 2 * count_width - len("  100.00%") - 4, 8)
    label_width = min(max(map(cell_len, (*numbered, "kept")), default=0), max_label_width)

    def row(label: str, *cells: str) -> str:
        pairs_in, dropped, share = cells
        padding = " " * (label_width - cell_len(label))
        return f"{label}{padding}  {pairs_in:>{count_width}}  {dropped:>{count_width}}  {share:>7}"

    lines = [row("", "pairs in", "dropped", "share").rstrip()]
    remaining = pairs
    for name, step in zip(numbered, steps, strict=True):
        share = percent(step.dropped, remaining)
        lines.append(row(shorten(name, label_width), f"{remaining:,}", f"{step.dropped:,}", share))
        remaining -= step.dropped
    lines.append(row("kept", f"{remaining:,}", "", percent(remaining, pairs)))
    for name, step in zip(numbered, steps, strict=True):
        if step.examples:
            lines += ["", f"{name} drops"]
            lines += [_sample(sample, width, MARGIN) for sample in step.examples]
    text = "\n".join(lines)
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


def line_of(text: str, cells: int) -> str:
    """A text in at most that many terminal cells: spaces as they are, other invisible characters as symbols."""
    if not text.strip():
        return visible(text)
    shown = " ".join(visible(part) if part else "" for part in text[: 4 * cells + 4].split(" "))
    return shorten(shown if len(text) <= 4 * cells + 4 else f"{shown}…", cells)


def percent(count: int, total: int) -> str:
    """A share that is never rounded to 0 or 100 %: ``0.41%``, ``<0.01%``."""
    if not total:
        return "-"
    share = 100 * count / total
    if 0 < share < 0.01:
        return "<0.01%"
    if 99.99 < share < 100:
        return ">99.99%"
    return f"{share:.2f}%"


def _facts(statistics: CorpusStatistics, title: str) -> str:
    pairs, compared = statistics.pairs, statistics.compared
    duplicates, sources = statistics.duplicate_pairs(), statistics.duplicate_sources()
    among = "" if compared == pairs else f" among the first {compared:,}"
    blank = (statistics.source.blank, statistics.target.blank)
    rows = [
        ("pairs", f"{pairs:,}"),
        ("blank sides", f"source {blank[0]:,}, target {blank[1]:,}"),
        ("identical sides", f"{statistics.identical:,} ({percent(statistics.identical, pairs)})"),
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


def _lengths(statistics: CorpusStatistics, sides: dict[str, SideStatistics], width: int) -> str:
    header = ["", "mean", *(f"{p}%" for p in PERCENTILES), "longest"]
    table = [header]
    for name, side in sides.items():
        for unit, lengths in (("words", side.words), ("characters", side.characters)):
            percentiles = [f"{lengths.percentile(p):,}" for p in PERCENTILES]
            table.append([f"{name} {unit}", f"{lengths.mean:,.1f}", *percentiles, f"{lengths.max:,}"])
    if "source" not in sides:
        return _table(table, width)
    ratios = (statistics.mean_ratio, *map(statistics.ratio, PERCENTILES), statistics.max_ratio)
    table.append(["longer / shorter", *(f"{ratio:,.2f}" for ratio in ratios)])
    return _table(table, width)


def _table(table: list[list[str]], width: int) -> str:
    """The cells in columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > width and len(widths) > NARROWEST:  # the lower percentiles go first
        table = [[*row[:2], *row[3:]] for row in table]
        del widths[2]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  " + "  ".join(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))
        for row in table
    )


def _scripts(sides: dict[str, SideStatistics], width: int) -> str:
    lines = []
    for name, side in sides.items():
        shares = side.scripts()
        shown = [f"{script} {_share(share)}" for script, share in list(shares.items())[:SCRIPTS_SHOWN]]
        more = f", {len(shares) - SCRIPTS_SHOWN} more" if len(shares) > SCRIPTS_SHOWN else ""
        lines.append(f"{name} letters   {', '.join(shown) or 'none'}{more}")
        if foreign := side.foreign_letters():
            letters = "  ".join(f"{_in_line(letter)} {count:,}" for letter, count in foreign.items())
            lines.append(shorten(f"{'  of others':<17}{letters}", width))
    return "\n".join(lines)


def _in_line(letter: str) -> str:
    """A letter that does not reorder the numbers beside it: right-to-left ones are put between direction marks."""
    shown = visible(letter)
    return f"{LEFT_TO_RIGHT}{shown}{LEFT_TO_RIGHT}" if unicodedata.bidirectional(letter) in ("R", "AL") else shown


def _share(share: float) -> str:
    return percent(round(share * 10**9), 10**9)


def _histogram(name: str, side: SideStatistics, width: int, ascii_only: bool) -> str:
    lengths, unit = side.words, "words"
    if next(iter(side.scripts()), "") in UNSPACED:
        lengths, unit = side.characters, "characters"
    return f"{name} {unit}\n" + histogram(lengths.counts, width=width, ascii_only=ascii_only)


def _sample(sample: Sample, width: int, indent: int) -> str:
    """A pair on three lines: its location, its source, its target; on two if the location is not known."""
    where, pair = sample
    lines = [f"{'':{indent}}{line_of(where, max(width - indent, 10))}"] if where else []
    indent += MARGIN if where else 0
    for name, text in (("source", pair.source), ("target", pair.target)):
        lines.append(f"{'':{indent}}{name}  {line_of(text, max(width - indent - 8, 10))}")
    return "\n".join(lines)
