"""Catastrophic forgetting: what training from another run has cost on the task of that run.

Both runs translate the same pairs of the former task: those of evaluation.former, or the test set of the run that
training started from, or else its validation set. The scores stand in the model card and in forgetting.json.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.data.fingerprints import check_recorded_files
from weft.data.pairs import Pair
from weft.data.preparation import has_corpus
from weft.errors import DataError, plural
from weft.evaluation.evaluate import evaluate
from weft.evaluation.pairs import find_pairs
from weft.files import save_text
from weft.recipe import Recipe, load_recipe
from weft.runs.layout import RunFolder
from weft.runs.model_card import with_facts
from weft.translation.load import load

FILE = "forgetting.json"
MAX_PAIRS = 1_000
"""Pairs of the former task that are translated, the first ones of a larger set."""
CARD_LINE = "former task: "


@dataclass(frozen=True)
class Forgetting:
    """Scores on the former task before and after training."""

    start: str
    """The run that training started from."""
    corpus: str
    """The pairs of the former task, in words."""
    pairs: int
    before: dict[str, float]
    after: dict[str, float]

    def __str__(self) -> str:
        return f"Former task ({self.description()}): {self.changes()}"

    def description(self) -> str:
        return f"{plural(self.pairs, 'pair')} of {self.corpus}, before and after training from {self.start}"

    def changes(self) -> str:
        """``bleu 31.20 → 28.75 (-2.45), …``"""
        return ", ".join(
            f"{name} {value:.2f} → {self.after[name]:.2f} ({self.after[name] - value:+.2f})"
            for name, value in self.before.items()
        )


def measure_forgetting(run: Path | str, *, device: str = "auto", limit: int = MAX_PAIRS) -> Forgetting | None:
    """Score a run and the run it started from on the former task, and write the result into the run folder.

    None if it did not start from a run, or if nothing is known of the former task: then nothing is written.
    """
    folder = RunFolder(run).check()
    recipe = load_recipe(folder.recipe)
    if recipe.training.start is None:
        return None
    start = RunFolder(recipe.training.start)
    check_recorded_files(folder.path, "training.start", [start.model])
    start.check()
    former = load_recipe(start.recipe)
    given = former_pairs(recipe, former, limit)
    if given is None:
        return None
    corpus, pairs = given
    scores = [_scores(path, pairs, former.evaluation.metrics, device) for path in (start.path, folder.path)]
    result = Forgetting(str(start.path), corpus, len(pairs), *scores)
    save_text(folder.path / FILE, json.dumps(asdict(result), indent=1) + "\n")
    if folder.card.is_file():
        save_text(folder.card, with_card_line(folder.card.read_text("utf-8"), result))
    return result


def former_pairs(recipe: Recipe, former: Recipe, limit: int) -> tuple[str, list[Pair]] | None:
    """Pairs of the former task, and what they are; None if there are none, as for an imported run."""
    if recipe.evaluation.former is not None:
        path = Path(recipe.data.folder) / recipe.evaluation.former
        if not path.is_file():
            raise DataError(f"evaluation.former: {path}: no such file")
        if (run := recipe.run_of("former")) is not None:
            check_recorded_files(run, "evaluation.former", [path])
        return recipe.evaluation.former, find_pairs(recipe, str(path), limit=limit).pairs
    for split, name in (("test", "the former test set"), ("valid", "the former validation set")):
        if has_corpus(former, split):
            return name, find_pairs(former, None, split=split, limit=limit).pairs
    return None


def _scores(run: Path, pairs: list[Pair], metrics: list[str], device: str) -> dict[str, float]:
    report = evaluate(load(run, device=device), pairs, metrics)
    values: dict[str, Any] = {score.name: score.value for score in report.scores}
    return {**values, report.perplexity.name: report.perplexity.value}


def with_card_line(card: str, result: Forgetting) -> str:
    """A model card with the scores on the former task after its list of facts."""
    return with_facts(card, [f"{CARD_LINE}{result.description()}: {result.changes()}"], (CARD_LINE,))
