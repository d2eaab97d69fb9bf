"""Nonsense: how probable a model finds its own outputs for sources that mean nothing, beside those for real ones.

Each real source becomes three that mean nothing: one syllable as often as the source has words, its words in a random
order, and its letters in another script. The number of an output is its mean log p per token; a source with a low
number can be reported. The area under the ROC curve (AUROC) is the probability that a real source has a higher number
than a nonsensical one: 0.5 by chance, 1 if the two can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from weft.apps.labs.detection import area_under_curve, mean_log_probability
from weft.apps.labs.professions import CYRILLIC, LATIN
from weft.apps.probes.result import ProbeResult
from weft.errors import DataError
from weft.evaluation.statistics import Estimate, t_interval
from weft.pictures.charts import Chart, Series, Table
from weft.pictures.charts.table import Row

if TYPE_CHECKING:
    from weft.translation.translator import Translator

SYLLABLE = "ag"
REAL = "real sources"
LONGEST_EXAMPLE = 80


def nonsense(
    run: Translator | Path | str,
    sources: Iterable[str] | Path | None = None,
    *,
    limit: int = 200,
    seed: int = 1,
    **search: Any,
) -> ProbeResult:
    """Mean log p of the outputs for real sources and for nonsense, and how well it tells them apart.

        weft.probes.nonsense("runs/try").data["kinds"]["shuffled words"]["auroc"]

    ``run``: a run of `weft.load`, or its folder. ``sources``: real sources, or a file of lines; by default those of the
    validation set of the run's recipe. ``limit``: the number of sources to use, the first of them. ``seed``: the seed
    of the random orders. ``search`` changes search settings, e.g. ``size=8``.
    """
    from weft.evaluation.evaluate import loaded_run

    run = loaded_run(run)
    if run.source_columns > 1:
        raise DataError(f"a model with {run.source_columns} source columns; expected a model with 1")
    if run.source_role == "none":
        raise DataError("a language model has no source; expected a model that translates")
    real = _real_sources(run, sources, limit)
    numbers: dict[str, list[float]] = {}
    kinds: dict[str, dict[str, Any]] = {}
    for kind, texts in {REAL: real, **make_nonsense(real, Random(seed))}.items():
        outputs = run.translate(texts, return_attention=False, **search)
        numbers[kind] = [mean_log_probability(output) for output in outputs]
        kinds[kind] = {
            "auroc": None if kind == REAL else area_under_curve(numbers[REAL], numbers[kind]),
            "outputs": [
                {"source": text, "output": output.text, "mean_log_probability": value}
                for text, output, value in zip(texts, outputs, numbers[kind], strict=True)
            ],
        }
    estimates = [t_interval(values) for values in numbers.values()]
    data = {"sources": len(real), "seed": seed, "kinds": kinds}
    notes = [f"{kind}: {_example(values['outputs'][0])}" for kind, values in kinds.items()]
    notes.append("Intervals of 95 % over sources. AUROC: probability that a real source has the higher log p.")
    return ProbeResult("nonsense", data, (_table(kinds, estimates),), _chart(kinds, estimates), tuple(notes))


def make_nonsense(sources: list[str], random: Random) -> dict[str, list[str]]:
    """Meaningless sources by kind, one for each source. If a source is one word, its letters are shuffled."""
    return {
        f"{SYLLABLE} {SYLLABLE} {SYLLABLE} …": [
            " ".join([SYLLABLE] * max(len(source.split()), 2)) for source in sources
        ],
        "shuffled words": [_shuffled(source, random) for source in sources],
        "another script": [_in_another_script(source) for source in sources],
    }


def _shuffled(source: str, random: Random) -> str:
    words = source.split()
    if len(words) == 1:
        return "".join(random.sample(words[0], len(words[0])))
    return " ".join(random.sample(words, len(words)))


def _in_another_script(source: str) -> str:
    """Letters in Cyrillic, or in Latin if most of them are not Latin; everything else stays."""
    letters = [character for character in source.lower() if character.isalpha()]
    is_latin = 2 * sum(letter < "\u0250" for letter in letters) >= len(letters)
    known = dict(zip(LATIN, CYRILLIC, strict=True))
    script = CYRILLIC if is_latin else LATIN
    return "".join(
        known[letter]
        if is_latin and letter in known
        else script[ord(letter) % len(script)]
        if letter.isalpha()
        else letter
        for letter in source.lower()
    )


def _real_sources(run: Translator, sources: Iterable[str] | Path | None, limit: int) -> list[str]:
    """The first real sources that are not blank; at least two, so that there is an interval."""
    if limit < 2:
        raise DataError(f"limit: {limit}; expected at least 2 sources")
    if sources is None:
        from weft.evaluation.pairs import find_pairs

        texts: Iterable[str] = (pair.source for pair in find_pairs(run.recipe, None, split="valid").pairs)
    elif isinstance(sources, Path):
        from weft.data.reading.lines import read_lines

        texts = read_lines(sources)
    elif isinstance(sources, str):
        raise DataError("sources: a text was given; expected a list of texts, or the path of a file of lines")
    else:
        texts = sources
    real = [text for text in texts if text.strip()][:limit]
    if len(real) < 2:
        raise DataError(f"{len(real)} real sources that are not blank; expected at least 2")
    return real


def _example(output: dict[str, Any]) -> str:
    text = f"{output['source']} → {output['output']}"
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[: LONGEST_EXAMPLE - 1]}…"


def _table(kinds: dict[str, dict[str, Any]], estimates: list[Estimate]) -> Table:
    rows: list[Row] = [
        (kind, estimate, values["auroc"]) for (kind, values), estimate in zip(kinds.items(), estimates, strict=True)
    ]
    return Table(("source", "mean log p of a token of the output", "AUROC"), rows)


def _chart(kinds: dict[str, dict[str, Any]], estimates: list[Estimate]) -> Chart:
    areas = {kind: values["auroc"] for kind, values in kinds.items() if kind != REAL}
    hardest = min(areas, key=lambda kind: areas[kind])
    title = f"AUROC of mean log p from {areas[hardest]:.2f} ({hardest}) to {max(areas.values()):.2f}"
    series = Series("mean log p", tuple(enumerate(estimates)))
    return Chart("nonsense", title, "source", "mean log p of a token of the output", (series,), categories=tuple(kinds))
