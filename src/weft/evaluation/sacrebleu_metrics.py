"""The metrics of sacrebleu that `weft.evaluation.metrics` names, and references in the order in which it takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric


def sacrebleu_metric(name: str) -> SacrebleuMetric:
    """The metric of sacrebleu behind a name of `METRICS`."""
    from sacrebleu.metrics import BLEU, CHRF, TER

    made: dict[str, Callable[[], SacrebleuMetric]] = {
        "bleu": lambda: BLEU(force=True),  # `_warn_of_tokenized` in place of its own warning
        "bleu_lowercase": lambda: BLEU(lowercase=True, force=True),
        "bleu_tokenized": lambda: BLEU(tokenize="none", force=True),
        "chrf": CHRF,
        "ter": TER,
    }
    return made[name]()


def reference_streams(references: Sequence[Sequence[str]]) -> list[list[Any]]:
    """The references as sacrebleu takes them: the first of every line, the second, …; None where there is none."""
    return [list(stream) for stream in zip_longest(*references)]
