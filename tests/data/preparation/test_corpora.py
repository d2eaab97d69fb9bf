"""Every form of data.train reaches the right pairs; what cannot be read is reported in one line."""

import gzip
import json
import os
from collections import Counter

import pytest

from fixtures.small_corpora import PAIRS, recipe_of, refusal, texts, write_tsv
from weft.data.pairs import Pair
from weft.data.preparation import check_test_pairs, find_corpora, has_corpus, prepare, read_corpus
from weft.data.store.block_tokenizer import BLANK
from weft.errors import DataError, RecipeError
from weft.recipe import make_recipe
from weft.runtime.activity import observing


class TestForms:
    """Every form of data.train reaches the right pairs."""

    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "pairs.tsv", PAIRS)
        with gzip.open(tmp_path / "packed.tsv.gz", "wt", encoding="utf-8") as file:
            file.write("a b\tx\nc\ty z\nd e\tw\n")
        for name, rows in (("one", PAIRS[:2]), ("two", PAIRS[2:])):
            write_tsv(tmp_path / f"part-{name}.tsv", rows)
            (tmp_path / f"{name}.src").write_text("".join(source + "\n" for source, _ in rows), "utf-8")
            (tmp_path / f"{name}.tgt").write_text("".join(target + "\n" for _, target in rows), "utf-8")
        (tmp_path / "all.src").write_text("a b\nc\nd e\n", "utf-8")
        (tmp_path / "all.tgt").write_text("x\ny z\nw\n", "utf-8")
        (tmp_path / "table.tsv").write_text("a\tx\tb\nc\ty z\t\nd\tw\te\n", "utf-8")
        (tmp_path / "table.csv").write_text('de,en\nx,a b\n"y z",c\nw,"d e"\n', "utf-8")
        (tmp_path / "semicolons.csv").write_text("x;a b\ny z;c\nw;d e\n", "utf-8")
        rows = [{"t": {"en": source, "de": target}} for source, target in PAIRS]
        (tmp_path / "nested.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        asked = [
            {"instruction": "a", "input": "b", "output": "x"},
            {"instruction": "c", "input": "", "output": "y z"},
            {"instruction": "d", "input": "e", "output": "w"},
        ]
        (tmp_path / "instructions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked), "utf-8")
        (tmp_path / "dialogues.tsv").write_text("a b\tx\nc\ty z\nd e\tw\n", "utf-8")
        (tmp_path / "dialogues.csv").write_text("first;then\na b;x\nc;y z\nd e;w\n", "utf-8")
        return tmp_path

    @pytest.mark.parametrize(
        "form",
        [
            "pairs.tsv",
            "packed.tsv.gz",
            "part-*.tsv",
            {"name": "pairs.tsv"},
            {"source": "all.src", "target": "all.tgt"},
            {"source": ["one.src", "two.src"], "target": ["one.tgt", "two.tgt"]},
            {"source": "[ot]*.src", "target": "[ot]*.tgt"},
            {"file": "pairs.tsv", "source": 1, "target": 2},
            {"file": "table.tsv", "source": [1, 3], "target": 2},
            {"file": "part-*.tsv", "source": 1, "target": 2},
            {"file": ["part-one.tsv", "part-two.tsv"], "source": 1, "target": 2},
            {"file": "table.csv", "source": "en", "target": "de"},
            {"file": "semicolons.csv", "source": 2, "target": 1, "delimiter": ";"},
            {"file": "nested.jsonl", "source": "t.en", "target": "t.de"},
            {"instructions": "instructions.jsonl", "template": "{instruction} {input}"},
            {"dialogues": "dialogues.tsv"},
            {"dialogues": "dialogues.csv", "header": True, "delimiter": ";"},
            ["part-one.tsv", {"source": "two.src", "target": "two.tgt"}],
        ],
        ids=str,
    )
    def test_of_text(self, folder, form):
        recipe = recipe_of(form, folder)
        assert [(pair.source, pair.target) for pair in read_corpus(recipe, "train")] == PAIRS
        done = prepare(recipe)
        assert texts(done) == PAIRS
        assert [(one.rows, one.kept) for one in done.counts] == (
            [(2, 2), (1, 1)] if isinstance(form, list) else [(3, 3)]
        )

    def test_of_parquet(self, folder):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(
            pa.table({"en": [one for one, _ in PAIRS], "de": [one for _, one in PAIRS]}), folder / "t.parquet"
        )
        assert texts(prepare(recipe_of({"file": "t.parquet", "source": "en", "target": "de"}, folder))) == PAIRS

    def test_of_a_saved_data_set(self, folder):
        datasets = pytest.importorskip("datasets")
        rows = [{"translation": {"en": source, "de": target}} for source, target in PAIRS]
        datasets.Dataset.from_list(rows).save_to_disk(str(folder / "saved"))
        form = {"dataset": "saved", "source": "translation.en", "target": "translation.de"}
        assert texts(prepare(recipe_of(form, folder))) == PAIRS

    def test_of_a_built_in_corpus(self):
        options = {"length": 4, "symbols": 5}
        by_name = recipe_of("copy", train_size=9, options=options)
        named = recipe_of({"name": "copy", "size": 9, "options": options})
        assert texts(prepare(by_name)) == texts(prepare(named))
        assert len(texts(prepare(named))) == 9
        assert all(source == target for source, target in texts(prepare(named)))

    def test_a_split_of_its_own(self, folder):
        recipe = recipe_of("copy", folder, valid="pairs.tsv", valid_size=4, test_size=5)
        assert [tuple(pair[:2]) for pair in read_corpus(recipe, "valid")] == PAIRS
        assert len(list(read_corpus(recipe, "test"))) == 5
        message = "data.test: the recipe names no test pairs; set data.test, or give a file"
        assert refusal(find_corpora, recipe_of("pairs.tsv", folder), "test") == message

    @pytest.mark.parametrize(
        ("form", "message"),
        [
            ("pears.tsv", "{0}/pears.tsv: no such file, and no built-in corpus of that name; "),
            ("coppy", "{0}/coppy: no such file, and no built-in corpus of that name; did you mean 'copy'?"),
            ("*.none", "{0}/*.none: no file has a name like that"),
            ({"source": "all.src", "target": "none.tgt"}, "{0}/none.tgt: no such file"),
            ({"source": ["one.src", "two.src"], "target": "all.tgt"}, "{0}/one.src, {0}/two.src and {0}/all.tgt: 2 "),
            ({"file": "table.csv", "source": "fr", "target": "de"}, "{0}/table.csv"),
            ({"file": "none.jsonl", "source": "a", "target": "b"}, "{0}/none.jsonl: no such file"),
            ({"instructions": "instructions.jsonl", "template": "{output}"}, "template: {{output}} is the target"),
            ("x" * 300, "{0}/" + "x" * 300 + ": File name too long"),
            ("x" * 300 + "*", "{0}/" + "x" * 300 + "*: File name too long"),
            ("pairs\0.tsv", "{0}/pairs\0.tsv: no such file, and no built-in corpus of that name; "),
        ],
        ids=str,
    )
    def test_what_cannot_be_read_is_one_line(self, folder, form, message):
        assert refusal(prepare, recipe_of(form, folder)).startswith(message.format(folder))

    def test_a_name_that_cannot_be_is_one_line_where_the_tokenizer_is_given(self, folder):
        """Then files are counted before any is opened."""
        prepare(recipe_of("pairs.tsv", folder)).tokenizers.save(folder)
        form = {"file": "x" * 300, "source": 1, "target": 2}
        message = refusal(prepare, recipe_of(form, folder, tokenizer={"file": "tokenizer.json"}))
        assert message == f"{folder}/{'x' * 300}: File name too long"

    def test_wrong_options_of_a_corpus_are_one_line(self):
        with pytest.raises(RecipeError, match=r"^task copy: unknown option 'lenght'; did you mean 'length'\?$"):
            prepare(recipe_of({"name": "copy", "options": {"lenght": 3}}))


def test_rows_of_a_split_that_are_skipped_are_counted(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(b"a\tb\nc\n\xff\td\ne\tf\n")
    problems = Counter()
    recipe = recipe_of("pairs.tsv", tmp_path, bad_rows="skip", valid="pairs.tsv")
    assert [pair.source for pair in read_corpus(recipe, "valid", problems)] == ["a", "e"]
    assert problems == {"columns": 1, "encoding": 1}


def test_held_out_pairs_are_looked_for(tmp_path):
    """Of a corpus of gigabytes there are few, so that their number hardly grows: the status says what is done."""
    activities = []

    class Observer:
        def begin(self, activity):
            activities.append(activity)

        def end(self, activity): ...

    (tmp_path / "pairs.tsv").write_text("".join(f"{number}\tb\n" for number in range(200)))
    recipe = recipe_of("pairs.tsv", tmp_path, holdout={"valid": 0.2})
    with observing(Observer()):
        pairs = list(read_corpus(recipe, "valid"))
    assert [(reading.what, reading.done) for reading in activities] == [
        ("looking for held-out pairs (valid) in pairs.tsv", len(pairs))
    ]


def test_rows_of_a_split_that_are_too_long_to_be_tokenized_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.data.pairs.MAX_TEXT_CHARACTERS", 5)
    (tmp_path / "pairs.tsv").write_text("a\tb\naaaaaa\tb\nb\taaaaaa\naaaaa\tbbbbb\n")
    problems = Counter()
    recipe = recipe_of("pairs.tsv", tmp_path, valid="pairs.tsv")
    assert [pair.source for pair in read_corpus(recipe, "valid", problems)] == ["a", "aaaaa"]
    assert problems == {"length": 2}


def test_a_file_has_no_size_to_draw(tmp_path):
    write_tsv(tmp_path / "pairs.tsv", PAIRS)
    message = refusal(prepare, recipe_of({"name": "pairs.tsv", "size": 3}, tmp_path))
    assert message == "data.train: size and options are for built-in corpora; 'pairs.tsv' is a file"


def test_a_language_model_reads_plain_lines(tmp_path):
    (tmp_path / "lines.txt").write_text("a b\n\nignored\tc d\n", "utf-8")
    recipe = recipe_of("lines.txt", tmp_path, model={"kind": "language_model"})
    done = prepare(recipe)
    assert texts(done) == [("", "a b"), ("", "c d")] and dict(done.counts[0].dropped) == {BLANK: 1}
    recipe = recipe_of("lines.txt", tmp_path, model={"kind": "language_model"}, blank_rows="error")
    assert refusal(prepare, recipe).startswith(f"{tmp_path}/lines.txt:2: the target is blank; ")


@pytest.mark.parametrize(
    ("corpus", "pairs"),
    [
        ("two.tsv", [Pair("gehen", "geht")]),
        ({"source": "two.tsv", "target": "three.tsv"}, [Pair("gehen\tgeht", "gehen\tV;PRS\tgeht")]),
        ({"file": "three.tsv", "source": [1, 2], "target": [3]}, [Pair("gehen V;PRS", "geht")]),
        ({"file": "three.tsv", "source": [1, 2], "target": [3], "tags": [2]}, [Pair("gehen <V><PRS>", "geht")]),
    ],
)
def test_files_columns_and_tags(tmp_path, corpus, pairs):
    (tmp_path / "two.tsv").write_text("gehen\tgeht\n", "utf-8")
    (tmp_path / "three.tsv").write_text("gehen\tV;PRS\tgeht\n", "utf-8")
    recipe = make_recipe({"data": {"train": corpus, "test": corpus, "folder": str(tmp_path)}})
    assert list(read_corpus(recipe, "train")) == list(read_corpus(recipe, "test")) == pairs
    assert has_corpus(recipe, "test") and not has_corpus(recipe, "valid")


ROWS = "en,de\na b,x\nc,y\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "test.csv: is empty, expected a header with the names of the columns"),
        ("en,de\n", "data.test: no pairs in test.csv"),
        ("en,de\n ,x\ny,\n", "data.test: no pairs in test.csv"),
        ("en,fr\na,b\n", "test.csv:1: no column 'de'; "),
        ("en,de\na\n", "test.csv:2: 1 column, expected 2 as in the header; fix it, or set data.bad_rows = 'skip'"),
        (ROWS.encode("utf-16"), "test.csv: is UTF-16 text, expected UTF-8; convert it"),
    ],
)
def test_files_that_cannot_be_tested_on_are_found_before_training(tmp_path, content, message):
    (tmp_path / "train.csv").write_text(ROWS)
    (tmp_path / "test.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    named = {part: {"file": f"{part}.csv", "source": "en", "target": "de"} for part in ("train", "test")}
    data = {**named, "folder": str(tmp_path)}
    with pytest.raises(DataError) as caught:
        check_test_pairs(make_recipe({"data": data}))
    assert message in str(caught.value)
    (tmp_path / "test.csv").write_text(ROWS)
    check_test_pairs(make_recipe({"data": data}))


def test_pipes_are_not_read_to_check_them(tmp_path):
    write_tsv(tmp_path / "train.tsv", PAIRS)
    os.mkfifo(tmp_path / "test.tsv")
    check_test_pairs(make_recipe({"data": {"train": "train.tsv", "test": "test.tsv", "folder": str(tmp_path)}}))
    check_test_pairs(make_recipe({"data": {"train": "train.tsv", "test": "-", "folder": str(tmp_path)}}))
