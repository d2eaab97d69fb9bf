"""data.variants: the random steps of data.pipeline are drawn anew for each variant of a pair."""

import numpy as np
import pytest

from weft.data.preparation.prepare import prepare
from weft.errors import RecipeError
from weft.recipe import make_recipe
from weft.runtime.activity import observing

LINES = [f"{verb} {number}\t{verb.upper()} {number}\n" for verb in ("walk", "run") for number in range(20)]
STEPS = [{"kind": "exchange", "groups": [[["walk", "WALK"], ["run", "RUN"]]]}]


def recipe_of(folder, **data):
    (folder / "pairs.tsv").write_text("".join(LINES), "utf-8")
    data = {"train": str(folder / "pairs.tsv"), "pipeline": STEPS, **data}
    return make_recipe({"name": "test", "data": data, "tokenizer": {"kind": "word", "joint": False}})


def texts_of(recipe):
    corpus = prepare(recipe)
    pairs = corpus.data.pairs
    rows = [pairs.source.values_of(np.array([row])).tolist() for row in range(len(pairs))]
    return corpus, [corpus.tokenizers.source.decode(ids[:-1]) for ids in rows]


def test_every_variant_is_drawn_anew_and_a_pair_counts_once(tmp_path):
    corpus, once = texts_of(recipe_of(tmp_path))
    repeated, texts = texts_of(recipe_of(tmp_path, variants=4))
    assert len(texts) == 4 * len(LINES) and texts[: len(LINES)] == once
    assert corpus.pairs == repeated.pairs == len(LINES)
    drawn = [tuple(texts[start : start + len(LINES)]) for start in range(0, len(texts), len(LINES))]
    assert len({*drawn}) == 4
    assert {*texts} <= {f"{verb} {number}" for verb in ("walk", "run") for number in range(20)}


def test_the_progress_names_the_variant(tmp_path):
    begun = []

    class Observer:
        def begin(self, activity):
            begun.append(activity.what)

        def end(self, activity):
            pass

    with observing(Observer()):
        prepare(recipe_of(tmp_path, variants=2))
    file = tmp_path / "pairs.tsv"
    assert [what for what in begun if what.startswith("tokenizing")] == [
        f"tokenizing {file}, variant {number} of 2" for number in (1, 2)
    ]


def test_a_prepared_folder_of_other_variants_is_refused(tmp_path):
    prepare(recipe_of(tmp_path, prepared=str(tmp_path / "ready"), variants=2))
    assert prepare(recipe_of(tmp_path, prepared=str(tmp_path / "ready"), variants=2)).pairs == len(LINES)
    with pytest.raises(Exception, match=r"prepared with another data\.variants"):
        prepare(recipe_of(tmp_path, prepared=str(tmp_path / "ready"), variants=3))


def test_variants_of_the_tokenizer_exclude_these(tmp_path):
    with pytest.raises(RecipeError, match=r"data\.variants: 2, but tokenizer\.dropout has variants of its own"):
        make_recipe({"name": "test", "data": {"variants": 2}, "tokenizer": {"dropout": 0.1}})
