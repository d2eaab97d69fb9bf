"""data.holdout: the parts of the training corpus, in every form it is read in."""

import json
from collections import Counter

import pytest

from fixtures.small_corpora import recipe_of, refusal, texts, weights_of, write_tsv
from weft.data.preparation import check_corpus, has_corpus, prepare, read_corpus
from weft.data.splitting import SplitShares, parts_of
from weft.errors import RecipeError
from weft.training.train import train

SHARES = {"valid": 0.25, "test": 0.25}
ROWS = [(f"a{number % 40} b", f"x{number}") for number in range(80)]  # every source twice


@pytest.fixture
def folder(tmp_path):
    write_tsv(tmp_path / "pairs.tsv", ROWS)
    (tmp_path / "all.src").write_text("".join(source + "\n" for source, _ in ROWS), "utf-8")
    (tmp_path / "all.tgt").write_text("".join(target + "\n" for _, target in ROWS), "utf-8")
    rows = [{"en": source.split()[0], "more": source.split()[1], "de": target} for source, target in ROWS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def expected(part):
    parts = parts_of([source for source, _ in ROWS], SplitShares(**SHARES))
    return [row for row, name in zip(ROWS, parts, strict=True) if name == part]


@pytest.mark.parametrize(
    "form",
    [
        "pairs.tsv",
        {"source": "all.src", "target": "all.tgt"},
        {"file": "rows.jsonl", "source": ["en", "more"], "target": "de"},
    ],
    ids=["tsv", "parallel", "jsonl"],
)
@pytest.mark.parametrize("streaming", [False, True], ids=["memory", "stream"])
def test_every_pair_is_in_one_part(folder, small_blocks, form, streaming):
    recipe = recipe_of(form, folder, holdout=SHARES, streaming=streaming)
    held_out = {part: [pair[:2] for pair in read_corpus(recipe, part)] for part in ("train", "valid", "test")}
    assert held_out == {part: expected(part) for part in held_out}
    assert has_corpus(recipe, "valid") and has_corpus(recipe, "test")
    if not streaming:
        assert sorted(texts(prepare(recipe))) == sorted(expected("train"))


def test_sources_of_several_columns_are_split_alike(folder):
    form = {"file": "rows.jsonl", "source": ["en", "more"], "target": "de"}
    recipe = recipe_of(form, folder, holdout=SHARES, model={"sources": {"count": 2}})
    assert [pair.target for pair in read_corpus(recipe, "test")] == [target for _, target in expected("test")]


def test_worker_processes_see_the_same_part(folder, small_blocks):
    alone, shared = (recipe_of("pairs.tsv", folder, holdout=SHARES, workers=workers) for workers in (0, 2))
    assert texts(prepare(alone)) == texts(prepare(shared))


def test_a_prepared_folder_knows_its_shares(folder):
    recipe = recipe_of("pairs.tsv", folder, holdout=SHARES, prepared="out")
    assert texts(prepare(recipe)) == texts(prepare(recipe))
    other = recipe_of("pairs.tsv", folder, holdout={"test": 0.25}, prepared="out")
    assert "prepared with another data.holdout" in refusal(lambda: prepare(other))


def test_training_validates_on_the_held_out_part(folder):
    recipe = recipe_of("pairs.tsv", folder, holdout=SHARES, training={"validate_every": 2})
    write_tsv(folder / "train.tsv", expected("train"))
    write_tsv(folder / "valid.tsv", expected("valid"))
    files = recipe_of("train.tsv", folder, valid="valid.tsv", training={"validate_every": 2})
    list(train(recipe, folder / "split"))
    list(train(files, folder / "files"))
    assert weights_of(folder / "split") == weights_of(folder / "files")
    validations = [json.loads((folder / run / "metrics.json").read_text())["validation"] for run in ("split", "files")]
    assert validations[0] == validations[1] is not None


def test_rows_that_cannot_be_read_count_once(folder):
    with (folder / "pairs.tsv").open("a", encoding="utf-8") as file:
        file.write("no target\n")
    recipe = recipe_of("pairs.tsv", folder, holdout=SHARES, bad_rows="skip")
    errors = Counter()
    assert len(list(read_corpus(recipe, "valid", errors))) == len(expected("valid")) and not errors
    [(_, counts)] = check_corpus(recipe)
    assert counts.row_errors == {"columns": 1}


def test_lines_of_a_language_model_are_split_by_their_text(folder):
    (folder / "lines.txt").write_text("".join(f"line {number}\n" for number in range(40)), "utf-8")
    recipe = recipe_of("lines.txt", folder, holdout=SHARES, model={"kind": "language_model"})
    sizes = [len(list(read_corpus(recipe, part))) for part in ("train", "valid", "test")]
    assert sum(sizes) == 40 and min(sizes) > 2


class TestRefused:
    def test_a_part_that_is_named_already(self, folder):
        with pytest.raises(RecipeError, match=r"^data\.holdout\.valid: data\.valid already names these pairs; leave"):
            recipe_of("pairs.tsv", folder, valid="pairs.tsv", holdout=SHARES)

    def test_a_built_in_corpus(self, folder):
        assert refusal(lambda: prepare(recipe_of("copy", folder, holdout=SHARES))) == (
            "data.holdout: the built-in corpus 'copy' has validation and test pairs; leave it out"
        )

    def test_half_of_the_pairs(self, folder):
        with pytest.raises(RecipeError, match=r"^data\.holdout\.valid: "):
            recipe_of("pairs.tsv", folder, holdout={"valid": 0.5})

    def test_nothing_left_to_validate_on(self, folder):
        recipe = recipe_of("pairs.tsv", folder, holdout={"valid": 1e-9}, training={"validate_every": 2})
        message = "data.holdout.valid: no pair is left to validate on"
        assert refusal(lambda: list(train(recipe, folder / "run"))) == message
