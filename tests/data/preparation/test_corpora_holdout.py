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


COMMANDS = [
    (f"{verb} {way} {other}", " ".join([verb.upper()] * times))
    for verb in ("walk", "run", "look", "jump")
    for way in ("left", "right", "ahead")
    for other in ("now", "soon", "later")
    for times in range(1, 8)
]


class TestStructure:
    """data.holdout.structure: pairs with held-out combinations or lengths, a part of their own."""

    @pytest.fixture
    def commands(self, tmp_path):
        write_tsv(tmp_path / "commands.tsv", COMMANDS)
        return tmp_path

    @pytest.mark.parametrize("streaming", [False, True], ids=["memory", "stream"])
    def test_every_pair_is_in_one_part_and_the_test_part_is_that_of_the_hash(self, commands, small_blocks, streaming):
        recipe = recipe_of("commands.tsv", commands, holdout={**SHARES, "structure": 0.3}, streaming=streaming)
        parts = {
            part: {pair[:2] for pair in read_corpus(recipe, part)} for part in ("train", "valid", "test", "structure")
        }
        assert sum(map(len, parts.values())) == len(COMMANDS) and min(map(len, parts.values())) > 2
        assert set.union(*parts.values()) == set(COMMANDS)
        names = parts_of([source for source, _ in COMMANDS], SplitShares(**SHARES))
        assert parts["test"] == {pair for pair, name in zip(COMMANDS, names, strict=True) if name == "test"}
        if not streaming:
            assert set(texts(prepare(recipe))) == parts["train"]

    def test_several_corpora_have_one_cut(self, commands):
        write_tsv(commands / "more.tsv", COMMANDS[::-1])
        recipe = recipe_of(["commands.tsv", "more.tsv"], commands, holdout={"structure": 0.3})
        held_out = [pair[:2] for pair in read_corpus(recipe, "structure")]
        assert held_out and {*held_out}.isdisjoint(pair[:2] for pair in read_corpus(recipe, "train"))

    def test_worker_processes_and_a_prepared_folder_have_the_same_part(self, commands, small_blocks):
        alone, shared = (
            recipe_of("commands.tsv", commands, holdout={"structure": 0.3}, workers=workers) for workers in (0, 2)
        )
        assert texts(prepare(alone)) == texts(prepare(shared))
        stored = recipe_of("commands.tsv", commands, holdout={"structure": 0.3}, prepared="out")
        assert texts(prepare(stored)) == texts(prepare(stored)) == texts(prepare(alone))
        other = recipe_of("commands.tsv", commands, prepared="out")
        assert "prepared with another data.holdout" in refusal(lambda: prepare(other))

    def test_a_folder_prepared_before_there_was_this_setting_is_accepted(self, commands):
        recipe = recipe_of("commands.tsv", commands, holdout=SHARES, prepared="out")
        prepare(recipe)
        about = json.loads((commands / "out" / "about.json").read_text("utf-8"))
        assert set(about["made_of"]["data"]["holdout"]) == {"valid", "test"}

    def test_a_built_in_corpus_has_one_too(self, tmp_path):
        recipe = recipe_of("dates", tmp_path, holdout={"structure": 0.2}, train_size=200)
        structure, train_pairs = (list(read_corpus(recipe, part)) for part in ("structure", "train"))
        assert structure and len(structure) + len(train_pairs) == 200
        assert has_corpus(recipe, "structure") and not has_corpus(recipe_of("dates", tmp_path), "structure")


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
