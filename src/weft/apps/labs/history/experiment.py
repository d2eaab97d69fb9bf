"""Training and measuring the models: the same pairs, the same number of updates, the same test sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.labs.history import task
from weft.apps.labs.history.models import BY_KEY
from weft.apps.labs.history.result import HistoryResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.errors import RecipeError, nearest
from weft.evaluation.ibm1 import diagonal_links

if TYPE_CHECKING:
    import weft
    from weft.training.events import Event


class Condition(NamedTuple):
    """A model and its budget."""

    key: str
    steps: int
    sentences: int
    """Test sentences per length."""


OnResult = Callable[[Condition, int, dict[str, Any]], None]


def history(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    steps: int = 1000,
    sentences: int = 60,
    models: Sequence[str] = tuple(BY_KEY),
    on_result: OnResult | None = None,
) -> HistoryResult:
    """Train and measure every model with every seed.

    ``steps``: updates of each training; ``sentences``: test sentences per length; ``models``: keys of those to
    train. ``on_result`` is called with each result, in order.
    """
    for key in models:
        if key not in BY_KEY:
            raise RecipeError(f"models: no model {key!r}; {nearest(key, BY_KEY)}")
    steps, sentences = (min(steps, 10), min(sentences, 5)) if quick else (steps, sentences)
    conditions = [Condition(key, steps, sentences) for key in models]
    trials = run_trials(trial, conditions, seeds, on_result=on_result)
    diagonal = []
    for seed in trials.seeds:
        test = task.aligned_pairs(seed, sentences)
        diagonal.append(task.error_rate([diagonal_links(pair) for pair in test], test))
    results = {condition.key: trials.results[condition] for condition in conditions}
    return HistoryResult(results, diagonal, trials.seeds, steps, sentences, quick)


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Exact match by length, alignment error rate, size, one attention map, and the speed of training."""
    model = BY_KEY[condition.key]
    tokens = 0

    def count(event: Event) -> None:
        nonlocal tokens
        tokens += getattr(event, "source_tokens", 0) + getattr(event, "target_tokens", 0)

    start = process_time()
    run = train_model(task.settings(model, condition.steps), seed=seed, watch=count)
    seconds = process_time() - start
    return {
        "exact": _exact(run, task.unseen_pairs(seed, condition.sentences), condition.sentences),
        "error": _error(run, task.aligned_pairs(seed, condition.sentences)) if model.attends else None,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "map": _map(run),
        "seconds": seconds,
        "tokens": tokens,
    }


def _exact(run: weft.Translator, test: list[weft.Pair], sentences: int) -> list[float]:
    """Exact match of greedy translations in percent, by length."""
    outputs = run.translate([pair.source for pair in test], kind="greedy", return_attention=False)
    right = [output.text == pair.target for output, pair in zip(outputs, test, strict=True)]
    return [100 * sum(right[start : start + sentences]) / sentences for start in range(0, len(right), sentences)]


def _error(run: weft.Translator, test: list[weft.Pair]) -> float:
    """The alignment error rate of the attention in percent, while the model produces the references."""
    return task.error_rate([output.links for output in run.force_decode(test)], test)


def _map(run: weft.Translator) -> dict[str, Any]:
    """The translation of one sentence, with its attention over words where there is one."""
    output = run.translate(task.SENTENCE, kind="greedy")
    if output.word_attention is None:
        return {"text": output.text, "source": [], "target": [], "weights": []}
    weights, source, target = output.word_attention
    return {"text": output.text, "source": source, "target": target, "weights": weights.round(3).tolist()}
