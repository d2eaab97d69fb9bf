"""The data of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.apps.reporting import data as module
from weft.apps.reporting.data import data_section
from weft.data.pairs import Pair
from weft.runs.training_log import TrainingLog
from weft.translation.translator import Translator


def changed(run: Translator, **data: object) -> Translator:
    """The same model in a recipe with other data, in the same folder."""
    settings = run.recipe.data.model_copy(update=data)
    recipe = run.recipe.model_copy(update={"data": settings}).accepting_new_data()
    return Translator(run.model, run.tokenizers, recipe, folder=run.folder)


def test_sizes_overlap_and_frequencies(copier: Translator, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a b\ta b\nb\tb\nb\tb\n", "utf-8")
    started = {"pairs": 3, "dropped": {"<b>": 2}}
    run = changed(copier, train="train.tsv", folder=str(tmp_path))
    section = data_section(run, TrainingLog([], [], started), {"test": [Pair("b", "b"), Pair("x y z", "q")]})
    assert [split.name for split in section.splits] == ["training"]  # the recipe names no test set
    assert section.frequencies is not None and section.frequencies.source == {"a": 1, "b": 3}
    record = section.record()
    assert (record["trained_pairs"], record["dropped"]) == (3, {"<b>": 2})
    assert record["training"]["duplicates"]["pairs"] == 1 and "33.33%" in section.html()
    assert "&lt;b&gt;" in section.html() and "<b>" not in section.html()


def test_pairs_that_were_read_before_are_not_read_again(copier: Translator) -> None:
    section = data_section(copier, None, {"test": [Pair("a", "a")]})
    names = {split.name: split for split in section.splits}
    statistics, overlap = names["test"].statistics, names["test"].overlap
    assert statistics is not None and statistics.pairs == 1 and overlap is not None and overlap.total == 1


def test_large_data_is_read_in_part(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAIRS", 7)
    training = data_section(copier, None).splits[0]
    assert training.statistics is not None and training.statistics.pairs == 7
    assert training.problem == "the figures are those of the first 7 pairs"


def test_data_that_cannot_be_read_is_no_error(copier: Translator, tmp_path: Path) -> None:
    section = data_section(changed(copier, train="gone.tsv", valid="-", folder=str(tmp_path)), None)
    training, validation = section.splits
    assert training.problem.startswith("cannot be read: ") and "gone.tsv" in training.problem
    assert validation.problem == "was read from standard input"
    assert "training data: cannot be read" in section.html() and section.frequencies is None
