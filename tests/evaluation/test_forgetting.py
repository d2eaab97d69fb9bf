"""What training from a run has cost on its task."""

import json

import pytest

from weft.errors import DataError
from weft.evaluation.evaluate import evaluate
from weft.evaluation.forgetting import measure_forgetting
from weft.training.train import train
from weft.translation.load import load

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """A run, and one that goes on from it with other data."""
    folder = tmp_path_factory.mktemp("runs")
    metrics = {"evaluation.metrics": ["exact_match", "chrf"]}
    list(train(tiny({"name": "first", **metrics}), folder / "first"))
    (folder / "pairs.tsv").write_text("a b\tb a\nc d\td c\n", "utf-8")
    changes = {"data.train": str(folder / "pairs.tsv"), "training.start": str(folder / "first")}
    list(train(tiny({"name": "second", **changes}), folder / "second"))
    (folder / "former.tsv").write_text("a b c\ta b c\n", "utf-8")
    changes |= {"evaluation.former": str(folder / "former.tsv"), "training.steps": 1}
    list(train(tiny({"name": "third", **changes}), folder / "third"))
    return folder


def test_scores_before_and_after(runs):
    result = measure_forgetting(runs / "second")
    assert result.pairs == 20 and result.start == str(runs / "first")
    first, pairs = load(runs / "first"), 20
    before = evaluate(first)
    assert before.pairs == pairs
    assert result.before == {score.name: score.value for score in (*before.scores, before.perplexity)}
    assert result.before.keys() == result.after.keys() and result.before != result.after


def test_they_stand_in_the_card_once(runs):
    for _ in range(2):
        result = measure_forgetting(runs / "second", limit=5)
    card = (runs / "second/README.md").read_text("utf-8").split("\n")
    [line] = [line for line in card if line.startswith("- former task: ")]
    description = f"5 pairs of the former test set, before and after training from {runs / 'first'}"
    assert line == f"- former task: {description}: {result.changes()}"
    assert card[card.index(line) - 1].startswith("- weights: ") and "All settings:" in card[card.index(line) + 2]
    record = json.loads((runs / "second/forgetting.json").read_text("utf-8"))
    assert record["before"] == result.before and record["after"] == result.after
    name, value = next(iter(result.before.items()))
    assert f"{name} {value:.2f} → {result.after[name]:.2f} (" in str(result)


def test_given_pairs(runs):
    assert measure_forgetting(runs / "third").pairs == 1
    (runs / "former.tsv").rename(runs / "gone.tsv")
    with pytest.raises(DataError) as caught:
        measure_forgetting(runs / "third")
    assert str(caught.value) == f"evaluation.former: {runs / 'former.tsv'}: no such file"


def test_nothing_to_compare_with(runs):
    assert measure_forgetting(runs / "first") is None and not (runs / "first/forgetting.json").exists()
