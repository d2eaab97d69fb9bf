"""A prepared folder is used for the recipes that would prepare the same, and for no others."""

import json
import os
import shutil

import pytest

from fixtures.small_corpora import PAIRS, many, recipe_of, refusal, texts, weights_of, write_tsv
from weft.data.preparation import prepare
from weft.data.store.prepared import PreparedFolder
from weft.training.events import Step
from weft.training.train import train


class TestAPreparedFolder:
    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "a.tsv", many(12))
        write_tsv(tmp_path / "b.tsv", [("b " + source, target) for source, target in many(5)])
        return tmp_path

    def recipe(self, folder, first=None, second=None, **more):
        corpora = [{"name": "a.tsv", **(first or {})}, {"name": "b.tsv", **(second or {})}]
        return recipe_of(corpora, folder, **{"prepared": "out", **more})

    def test_trains_as_memory_does_without_the_text(self, folder):
        list(train(self.recipe(folder, prepared=None), folder / "memory"))
        list(train(self.recipe(folder), folder / "made"))
        shutil.move(folder / "a.tsv", folder / "gone.tsv")
        (folder / "b.tsv").unlink()
        list(train(self.recipe(folder), folder / "opened"))
        assert weights_of(folder / "memory") == weights_of(folder / "made") == weights_of(folder / "opened")

    def test_opens_without_any_form_of_text(self, folder):
        shutil.copy(folder / "a.tsv", folder / "part1.tsv")
        (folder / "a.src").write_text("a\nb\n", "utf-8")
        forms = ["part*.tsv", {"source": "a.src", "target": "a.src"}, {"file": "b.tsv", "source": 1, "target": 2}]
        recipe = recipe_of(forms, folder, prepared="out")
        wanted = texts(prepare(recipe))
        for name in ("part1.tsv", "a.src", "b.tsv"):
            (folder / name).unlink()
        opened = prepare(recipe)
        assert texts(opened) == wanted
        assert [(one.rows, one.kept) for one in opened.counts] == [(12, 12), (2, 2), (5, 5)]

    def test_a_run_of_it_can_be_resumed(self, folder):
        events = train(self.recipe(folder, training={"save_every": 1}), folder / "run")
        for event in events:
            if isinstance(event, Step) and event.step == 2:
                break
        events.close()
        (folder / "a.tsv").unlink()
        list(train(self.recipe(folder, training={"save_every": 1}), folder / "run", resume=True))
        write_tsv(folder / "a.tsv", many(12))
        list(train(self.recipe(folder, prepared=None, training={"save_every": 1}), folder / "straight"))
        assert weights_of(folder / "run") == weights_of(folder / "straight")

    def test_a_file_that_was_copied(self, folder):
        """It has another time; its contents count."""
        wanted = texts(prepare(self.recipe(folder)))
        os.utime(folder / "a.tsv", (1, 1))
        assert texts(prepare(self.recipe(folder))) == wanted
        content = (folder / "a.tsv").read_bytes()
        (folder / "a.tsv").write_bytes(content[:-2] + b"!\n")
        assert "a.tsv has changed since it was prepared" in refusal(prepare, self.recipe(folder))

    def test_shares_may_change(self, folder):
        prepare(self.recipe(folder, {"weight": 1.0}))
        other = self.recipe(folder, {"first_step": 3}, {"weight": 2.5, "last_step": 7}, temperature=2.0)
        opened = prepare(other)
        assert [(part.weight, part.first_step, part.last_step) for part in opened.data.parts] == [
            (None, 3, None),
            (2.5, 1, 7),
        ]
        assert opened.data.temperature == 2.0
        assert texts(opened) == texts(prepare(self.recipe(folder, prepared=None)))

    @pytest.mark.parametrize(
        ("change", "what"),
        [
            ({"max_length": 9}, "data.max_length"),
            ({"pipeline": [{"kind": "identical"}]}, "data.pipeline"),
            ({"bad_rows": "skip"}, "data.bad_rows"),
            ({"blank_rows": "error"}, "data.blank_rows"),
            ({"first": {"tag": "<a>"}}, "data.train"),
            ({"tokenizer": {"kind": "character"}}, "tokenizer.kind"),
            ({"tokenizer": {"lowercase": True}}, "tokenizer.lowercase"),
            ({"model": {"kind": "language_model"}}, "sources"),
        ],
        ids=lambda given: str(given),
    )
    def test_other_settings_are_refused(self, folder, change, what):
        prepare(self.recipe(folder))
        message = refusal(prepare, self.recipe(folder, **change))
        remedy = f"remove {folder / 'out'}, or set data.prepared to another folder"
        assert message == f"{folder / 'out'}: prepared with another {what}; {remedy}"

    def test_runs_of_other_seeds_share_a_corpus_of_files_but_no_built_in_one(self, folder):
        made = prepare(self.recipe(folder))
        assert texts(prepare(self.recipe(folder, seed=2))) == texts(made)
        prepare(recipe_of("copy", folder, train_size=3, prepared="copied"))
        message = refusal(prepare, recipe_of("copy", folder, train_size=3, prepared="copied", seed=2))
        assert message.startswith(f"{folder / 'copied'}: prepared with another seed; remove ")

    def test_another_corpus_is_refused(self, folder):
        prepare(self.recipe(folder))
        message = refusal(prepare, recipe_of("a.tsv", folder, prepared="out"))
        assert message.startswith(f"{folder / 'out'}: prepared with another data.train; remove ")

    def test_a_setting_that_another_weft_did_not_know_is_refused(self, folder):
        prepare(self.recipe(folder))
        about = folder / "out" / "about.json"
        record = json.loads(about.read_text("utf-8"))
        del record["made_of"]["tokenizer"]["target_file"]  # which is None now
        about.write_text(json.dumps({**record, "crc32": None}), "utf-8")
        message = refusal(prepare, self.recipe(folder))
        assert message.startswith(f"{folder / 'out'}: prepared with another tokenizer.target_file; remove ")

    def test_a_changed_file_is_refused(self, folder):
        prepare(self.recipe(folder))
        write_tsv(folder / "b.tsv", many(6))
        message = refusal(prepare, self.recipe(folder))
        assert message.startswith(f"{folder / 'out'}: {folder}/b.tsv has changed since it was prepared; remove ")

    def test_a_changed_tokenizer_file_is_refused(self, folder):
        prepare(self.recipe(folder, prepared=None)).tokenizers.save(folder)
        recipe = self.recipe(folder, tokenizer={"file": "tokenizer.json"})
        assert texts(prepare(recipe)) == texts(prepare(recipe))
        prepare(recipe_of("b.tsv", folder)).tokenizers.save(folder)
        message = refusal(prepare, recipe)
        assert message.startswith(f"{folder / 'out'}: {folder}/tokenizer.json has changed since it was prepared; ")

    def test_another_tokenizer_is_refused(self, folder):
        prepare(self.recipe(folder))
        other = prepare(recipe_of("b.tsv", folder)).tokenizers
        message = refusal(prepare, self.recipe(folder), tokenizers=other)
        assert message.startswith(f"{folder / 'out'}: prepared with a tokenizer other than this run's; remove ")

    def test_two_tokenizers_are_kept(self, folder):
        recipe = self.recipe(folder, tokenizer={"joint": False, "target_kind": "character"})
        made, opened = prepare(recipe), prepare(recipe)
        assert not opened.tokenizers.joint and texts(made) == texts(opened)
        assert [one.kind for one in opened.tokenizers] == ["word", "character"]

    @pytest.mark.parametrize("damage", ["", "{", "[]"])
    def test_a_damaged_tokenizer_is_one_line(self, folder, damage):
        prepare(self.recipe(folder))
        (folder / "out" / "tokenizer.json").write_text(damage, "utf-8")
        with pytest.raises(Exception, match=rf"^{folder / 'out' / 'tokenizer.json'}: [^\n]*$"):
            prepare(self.recipe(folder))

    def test_a_missing_tokenizer_is_one_line(self, folder):
        prepare(self.recipe(folder))
        (folder / "out" / "tokenizer.json").unlink()
        message = refusal(prepare, self.recipe(folder))
        out = folder / "out"
        assert message == f"{out / 'tokenizer.json'}: missing; remove {out} and prepare it again"

    @pytest.mark.parametrize("key", ["parts", "counts"])
    @pytest.mark.parametrize("value", [None, [], 3, [{}, {}]])
    def test_a_damaged_description_is_one_line(self, folder, key, value):
        prepare(self.recipe(folder))
        about = folder / "out" / "about.json"
        record = {**json.loads(about.read_text("utf-8")), key: value}
        if value is None:
            del record[key]
        about.write_text(json.dumps({**record, "crc32": None}), "utf-8")
        if (key, value) != ("counts", []):
            assert refusal(prepare, self.recipe(folder)).startswith(f"{about}: damaged; ")

    def test_a_folder_that_is_none_is_one_line(self, folder):
        (folder / "out" / "mine").mkdir(parents=True)
        assert refusal(prepare, self.recipe(folder)).startswith(f"{folder / 'out'}: not a prepared corpus")
        message = refusal(PreparedFolder.create, folder / "out", (9, 9), lambda *_: {})
        assert message == f"{folder / 'out'}: already exists; remove it, or choose another folder"


def test_a_prepared_corpus_knows_its_files_from_anywhere(tmp_path, monkeypatch):
    write_tsv(tmp_path / "a.tsv", PAIRS)
    monkeypatch.chdir(tmp_path)
    prepare(recipe_of("a.tsv", prepared="out"))
    write_tsv(tmp_path / "a.tsv", many(3))
    monkeypatch.chdir("/")
    assert "a.tsv has changed since it was prepared" in refusal(prepare, recipe_of("a.tsv", tmp_path, prepared="out"))
