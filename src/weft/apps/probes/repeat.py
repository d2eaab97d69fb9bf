"""A phrase that is repeated: the probability of each of its tokens, copy by copy   (Holtzman et al. 2020, figure 4).

The model is given *n* copies of the phrase, separated by spaces, and log p(y_t | y_<t) of each token is computed:
for a language model as the continuation of the first tokens, for a translation model as the target of a source. In
most models the probability rises with each copy, which is why searches loop.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from weft.apps.probes.result import ProbeResult
from weft.errors import DataError
from weft.evaluation.statistics import number
from weft.pictures.charts import Chart, Series, Table
from weft.pictures.charts.chart import MAX_SERIES
from weft.pictures.labels import visible

if TYPE_CHECKING:
    from weft.translation.translator import Translator

MAX_TIMES = 10_000
MAX_POINTS = 50
"""Copies that a chart shows; of more, equally spaced ones."""


def repeat(run: Translator | Path | str, phrase: str, *, times: int = 200, source: str | None = None) -> ProbeResult:
    """log p of every token of ``times`` copies of a phrase, the end token not counted.

        weft.probes.repeat("runs/lm", "I don't know.", times=200).data["copies"]      # mean log p of a token, by copy

    ``run``: a run of `weft.load`, or its folder. ``source``: the source of a translation model, or the prompt of a
    language model that has prompts.
    """
    if not phrase.strip():
        raise DataError("PHRASE is empty: there is nothing to repeat")
    if not 2 <= times <= MAX_TIMES:
        raise DataError(f"times: {times}; expected 2 to {MAX_TIMES:,} copies")
    from weft.evaluation.evaluate import loaded_run

    run = loaded_run(run)
    if run.source_role == "text" and not (source or "").strip():
        raise DataError("source: none was given; this model translates, and scores a phrase as the target of a source")
    if run.source_role == "none" and source:
        raise DataError("source: this language model has no source; leave it out")
    source = source or ""
    text = " ".join([phrase.strip()] * times)
    ids = run.encode_target(text, source)
    first = len(run.encode_target(phrase.strip(), source))
    period = len(run.encode_target(f"{phrase.strip()} {phrase.strip()}", source)) - first
    if not first or first + (times - 1) * period != len(ids):
        raise DataError(f"{phrase!r}: its copies are not split into the same tokens; choose another phrase")
    [score] = run.score([(source, text)])
    scores = score.token_scores[: len(ids)]
    tokens = [visible(token) for token in run.tokenizers_for(source).target.tokens(ids)]
    rows = [scores[:first], *(scores[start : start + period] for start in range(first, len(ids), period))]
    copies = [fmean(row) for row in rows]
    data = {
        "phrase": phrase.strip(),
        "times": times,
        "source": source or None,
        "tokens": tokens,
        "token_scores": scores,
        "log_probability": math.fsum(scores),
        "copies": copies,
    }
    return ProbeResult("repeat", data, (_table(copies),), _chart(phrase, rows, tokens[-period:]))


def _table(copies: list[float]) -> Table:
    """The first copies, and then each time twice as many, up to the last."""
    shown = sorted({2**power for power in range(len(copies).bit_length())} | {len(copies)})
    rows = [(str(copy), copies[copy - 1], math.exp(copies[copy - 1])) for copy in shown]
    return Table(("copy", "mean log p of a token", "p (geometric mean)"), rows)


def _chart(phrase: str, rows: list[list[float]], tokens: list[str]) -> Chart:
    """The probability of each token of the phrase; of a long one, their geometric mean."""
    step = -(-len(rows) // MAX_POINTS)
    shown = sorted({*range(0, len(rows), step), len(rows) - 1})
    mean = Series("geometric mean", tuple((copy + 1, math.exp(fmean(rows[copy]))) for copy in shown))
    series = [mean]
    if 1 < len(tokens) < MAX_SERIES:
        for index in range(-len(tokens), 0):  # from the end: the first copy may have fewer tokens, such as no space
            points = tuple((copy + 1, math.exp(rows[copy][index])) for copy in shown if -index <= len(rows[copy]))
            series.append(Series(f"p({tokens[index]})", points))
    change = fmean(rows[-1]) - fmean(rows[0])
    title = f"“{phrase.strip()}”: from copy 1 to copy {len(rows)}, log p of a token changes by {number(change)}"
    return Chart("repeat", title, "copy of the phrase", "probability of a token", tuple(series))
