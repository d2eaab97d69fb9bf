"""Sources of several columns, from a table to a run that is resumed, loaded, evaluated and searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.training_runs import contents
from weft.evaluation.evaluate import evaluate
from weft.recipe import Recipe, make_recipe
from weft.training.train import train
from weft.translation.load import load

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
ROWS = [("ab", "N;PL", "abs"), ("cd", "V", "cdo"), ("a", "N;PL", "as"), ("", "V", "o"), ("bd", "", "bd")] * 4
STACK = {"kind": "transformer", "layers": 1, "hidden": 8, "heads": 2, "feed_forward": 8}


def recipe_of(folder: Path, **data: Any) -> Recipe:
    for name in ("train.tsv", "valid.tsv", "test.tsv"):
        (folder / name).write_text("".join("\t".join(row) + "\n" for row in ROWS), "utf-8")
    table = {"source": [1, 2], "target": 3, "tags": 2}
    splits = {split: {"file": f"{split}.tsv", **table} for split in ("train", "valid", "test")}
    settings = {
        "data": {**splits, "folder": str(folder), **data},
        "tokenizer": {"kind": "character", "tags": True},
        "model": {"embedding": 8, "encoder": STACK, "decoder": STACK, "sources": {"count": 2}},
        "training": {"steps": 4, "batch_tokens": 60, "save_every": 2, "validate_every": 2, "device": "cpu"},
    }
    return make_recipe(settings)


def test_a_run(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    list(train(recipe, tmp_path / "run"))
    for event in train(recipe, tmp_path / "stopped"):
        if getattr(event, "step", 0) == 3:
            break
    list(train(recipe, tmp_path / "stopped", resume=True))
    assert contents(tmp_path / "stopped") == contents(tmp_path / "run")

    run = load(tmp_path / "run")
    symbols = run.tokenizers.source.column_tokenizer.vocabulary.symbols
    assert run.tokenizers.joint and {"<N>", "<PL>", "<V>"} < set(symbols) and not {"\t", ";"} & set(symbols)
    given, tags = run.score([("ab\tN;PL", "abs"), ("ab\t<N><PL>", "abs")])
    assert given == tags
    report = evaluate(run, split="test")
    assert len(report.outputs) == len(ROWS) and not report.left_out
    assert evaluate(run, str(tmp_path / "test.tsv")).outputs == report.outputs
    assert len(run.translate([row[:2] for row in ROWS])) == len(ROWS)


def test_prepared_and_streamed(tmp_path: Path) -> None:
    """The folder of a prepared corpus is not that of joined columns; a stream is read in the same way."""
    recipe = recipe_of(tmp_path, prepared="prepared")
    list(train(recipe, tmp_path / "run"))
    joined = recipe.model_copy(
        update={"model": recipe.model.model_copy(update={"sources": type(recipe.model.sources)()})}
    )
    with pytest.raises(Exception, match=r"prepared with another sources; remove"):
        list(train(joined, tmp_path / "joined"))
    list(train(recipe_of(tmp_path, streaming=True), tmp_path / "streamed"))
    assert load(tmp_path / "streamed").translate("ab\tN;PL").source_tokens == ["a", "b", "</s>", "<N>", "<PL>", "</s>"]
