"""Training a model that copies: resumed, with its own predictions as inputs, and on sources of several columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.small_corpora import recipe_of, weights_of, write_tsv
from weft.errors import RecipeError
from weft.recipe import Recipe
from weft.training.events import Step
from weft.training.train import train
from weft.translation.load import load

ROWS = [(f"a n{row} b", f"n{row} x") for row in range(30)]
pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")


def recipe(folder: Path, **changes: Any) -> Recipe:
    write_tsv(folder / "pairs.tsv", ROWS)
    training = {"save_every": 1, **changes.pop("training", {})}
    tokenizer = {"minimum_count": 2, **changes.pop("tokenizer", {})}
    model = {"copy": True, **changes.pop("model", {})}
    return recipe_of("pairs.tsv", folder, tokenizer=tokenizer, model=model, training=training, **changes)


@pytest.mark.parametrize("forcing", ["teacher", "scheduled"])
def test_a_resumed_run_ends_as_if_never_stopped(tmp_path: Path, forcing: str) -> None:
    given = recipe(tmp_path, training={"forcing": forcing, "sampling": 0.9, "label_smoothing": 0.0})
    list(train(given, tmp_path / "straight"))
    events = train(given, tmp_path / "stopped")
    for event in events:
        if isinstance(event, Step) and event.step == 2:
            break
    events.close()
    list(train(given, tmp_path / "stopped", resume=True))
    assert weights_of(tmp_path / "stopped") == weights_of(tmp_path / "straight")


@pytest.mark.parametrize("sources", [{"count": 2}, {"count": 2, "attention": "flat"}], ids=["parallel", "flat"])
def test_sources_of_several_columns(tmp_path: Path, sources: dict[str, Any]) -> None:
    (tmp_path / "table.tsv").write_text("".join(f"a n{row}\tq{row} b\tq{row} x\n" for row in range(30)), "utf-8")
    table = {"file": "table.tsv", "source": [1, 2], "target": 3}
    given = recipe_of(table, tmp_path, tokenizer={"minimum_count": 2}, model={"copy": True, "sources": sources})
    list(train(given, tmp_path / "run"))
    run = load(tmp_path / "run", device="cpu")
    [forced] = run.force_decode([("a n1\tnew b", "new x n1")])
    assert forced.tokens == ["new", "x", "n1"]
    assert forced.source_tokens == ["a", "n1", "</s>", "new", "b", "</s>"]
    size = run.tokenizers.target.size
    assert [id - size for id in forced.ids if id >= size] == [3, 1]
    assert run.translate("a n1\tnew b", max_length=4).source_tokens == forced.source_tokens
    copied = run.copied_tokens(forced)
    assert copied is not None and copied.copied[0] == copied.copied[2] == 1.0


def test_vocabularies_without_a_common_token(tmp_path: Path) -> None:
    given = recipe(tmp_path, tokenizer={"kind": "bpe", "target_kind": "word", "size": 60, "joint": False})
    with pytest.raises(RecipeError) as caught:
        list(train(given, tmp_path / "run"))
    assert str(caught.value) == (
        "model.copy: no source token is in the target vocabulary, so none can be copied; "
        "set tokenizer.joint = true, or the same kind of tokenizer for both sides"
    )
