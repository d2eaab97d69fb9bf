"""*It* and the noun that it stands for: which head of a Transformer links the two   (Vaswani et al. 2017, figure 4).

The sources are those of the task `coreference` ("the animal did not cross the street because it was too tired"), whose
referent is known. From the position of *it*, every head of the encoder puts some weight on the referent and some on
the other noun. A head is right in a sentence if the referent has more; by chance, in half of them. The head with the
largest mean difference of the two weights is chosen on one half of the sentences and judged on the other, so that the
best of many heads is not best by chance.

A model can be right without such a head: the decoder may look at the noun itself, or the noun may be marked where the
word that decides is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.probes.layer_states import word_ends
from weft.apps.probes.result import ProbeResult
from weft.errors import DataError, SearchError
from weft.evaluation.statistics import Estimate, binomial
from weft.pictures.charts import Chart, Series, Table
from weft.tasks import generate
from weft.tasks.coreference import Mention, find_mention

if TYPE_CHECKING:
    from weft.translation.results import HeadAttention
    from weft.translation.translator import Translator

SHOWN_HEADS = 8


class HeadCount(NamedTuple):
    """The weights of one head, from *it*, in all sentences."""

    layer: int
    head: int
    on_referent: list[float]
    on_other: list[float]

    def right(self, part: slice) -> list[bool]:
        pairs = zip(self.on_referent[part], self.on_other[part], strict=True)
        return [referent > other for referent, other in pairs]

    def difference(self, part: slice) -> float:
        return fmean(self.on_referent[part]) - fmean(self.on_other[part])


def coreference(run: Translator | Path | str, *, limit: int = 200) -> ProbeResult:
    """How often each head of the encoder puts more weight on the noun that *it* stands for than on the other noun.

        weft.probes.coreference("runs/coreference").data["best"]

    ``run``: a run of `weft.load`, or its folder; an encoder-decoder Transformer that reads English. ``limit``: number
    of sentences.
    """
    if limit < 4:
        raise DataError(f"limit: {limit}; expected at least 4 sentences, half of them to choose a head")
    from weft.evaluation.evaluate import loaded_run

    run = loaded_run(run)
    pairs = list(generate("coreference", "test", limit))
    counts: dict[tuple[int, int], HeadCount] = {}
    used = []
    for pair in pairs:
        heads = [head for head in run.heads(pair.source, pair.target) if head.kind == "encoder"]
        if not heads:
            raise SearchError(f"{run.recipe.name}: its encoder has no attention heads; expected a Transformer")
        positions = _token_positions(heads[0].source, pair.source)
        if positions is None:
            continue
        used.append(pair.source)
        for head in heads:
            _add(counts, head, positions)
    if len(used) < 4:
        raise SearchError(f"{run.recipe.name}: its tokens do not spell the English sources of this probe")
    return _result(list(counts.values()), used)


def _token_positions(tokens: Sequence[str], source: str) -> Mention | None:
    """The mention in tokens: the last token of each word. None if the tokens do not spell the source."""
    ends = word_ends(tokens, source)
    return None if ends is None else Mention(*(ends[word] for word in find_mention(source)))


def _add(counts: dict[tuple[int, int], HeadCount], head: HeadAttention, positions: Mention) -> None:
    key = head.layer, head.head
    count = counts.setdefault(key, HeadCount(*key, [], []))
    row = head.weights_TS[positions.pronoun]
    count.on_referent.append(float(row[positions.referent]))
    count.on_other.append(float(row[positions.other]))


def _result(counts: list[HeadCount], sources: list[str]) -> ProbeResult:
    half = len(sources) // 2
    choosing, judging = slice(0, half), slice(half, None)
    ranked = sorted(counts, key=lambda count: (-count.difference(choosing), count.layer, count.head))
    best = ranked[0]
    data = {
        "sentences": len(sources),
        "best": {"layer": best.layer, "head": best.head, **_figures(best, judging)},
        "heads": [{"layer": count.layer, "head": count.head, **_figures(count, judging)} for count in ranked],
        "example": sources[-1],
    }
    rows = [
        (
            f"layer {count.layer}, head {count.head}",
            _share(count, judging),
            fmean(count.on_referent[judging]),
            fmean(count.on_other[judging]),
        )
        for count in ranked[:SHOWN_HEADS]
    ]
    table = Table(("", "referent above other noun (%)", "weight on referent", "weight on other noun"), rows)
    command = f"weft attend RUN {sources[-1]!r} --kind encoder --layer {best.layer} --head {best.head}"
    notes = (
        f"Heads are ranked by the first {half} sentences; all figures are of the other {len(sources) - half}.",
        f"The map of the best: {command}",
    )
    return ProbeResult("coreference", data, (table,), _chart(ranked, judging), notes)


def _share(count: HeadCount, part: slice) -> Estimate:
    """In percent, with a binomial interval."""
    right = count.right(part)
    return binomial(sum(right), len(right)).scaled(100)


def _figures(count: HeadCount, part: slice) -> dict[str, Any]:
    share = _share(count, part)
    return {
        "share": share.mean / 100,
        "interval": [share.low / 100, share.high / 100],
        "on_referent": fmean(count.on_referent[part]),
        "on_other": fmean(count.on_other[part]),
    }


def _chart(ranked: list[HeadCount], part: slice) -> Chart:
    """By layer: the share of the head that ranks first in it, and the mean over its heads."""
    layers = sorted({count.layer for count in ranked})
    heads = {layer: [count for count in ranked if count.layer == layer] for layer in layers}
    first = Series("best head", tuple((layer, _share(heads[layer][0], part)) for layer in layers))
    means = tuple((layer, fmean(_share(count, part).mean for count in heads[layer])) for layer in layers)
    best, share = ranked[0], _share(ranked[0], part)
    title = f"Layer {best.layer}, head {best.head}: more weight on the noun of “it” in {share.mean:.0f} % of sentences"
    labels = "layer of the encoder", "referent above other noun (%)"
    return Chart("coreference", title, *labels, (first, Series("mean of heads", means)), references=(("chance", 50.0),))
