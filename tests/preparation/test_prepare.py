"""From settings to what a run trains on: the right pairs, each row counted once, the same however it is prepared."""

import gzip
import importlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.data.pairs import Pair
from weft.data.reading import blocks, corpora
from weft.data.store.block_tokenizer import BLANK, TOO_LONG, UNREADABLE
from weft.data.store.encode import encode_pairs
from weft.data.store.prepared import PreparedFolder
from weft.errors import DataError, RecipeError, VocabularyError
from weft.preparation import find_corpora, prepare, read_corpus
from weft.recipe import make_recipe
from weft.runs.layout import RunFolder
from weft.runs.weights import read_tensors
from weft.text import specials
from weft.training.events import Finished, Step
from weft.training.train import train

MODEL = {"embedding": 7, "encoder": {"hidden": 8}, "decoder": {"hidden": 8}}
TRAINING = {
    "steps": 4,
    "batch_tokens": 30,
    "learning_rate": 0.01,
    "validate_every": 0,
    "save_every": 0,
    "log_every": 1,
    "device": "cpu",
}


def recipe_of(train, folder=".", *, tokenizer=None, model=None, training=None, seed=1, **data):
    """A recipe that trains in a moment."""
    return make_recipe(
        {
            "seed": seed,
            "data": {"train": train, "folder": str(folder), **data},
            "tokenizer": {"kind": "word", **(tokenizer or {})},
            "model": {**MODEL, **(model or {})},
            "training": {**TRAINING, **(training or {})},
        }
    )


def rows_of(store):
    return [store.values[start:end].tolist() for start, end in zip(store.offsets, store.offsets[1:], strict=False)]


def texts(prepared):
    """The pairs of a store as text."""
    pairs, (source, target) = prepared.data.pairs, prepared.tokenizers
    sides = zip(rows_of(pairs.source), rows_of(pairs.target), strict=True)
    return [(source.decode(left), target.decode(right)) for left, right in sides]


def refusal(function, *arguments, **keywords):
    with pytest.raises(DataError) as caught:
        function(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def weights_of(path):
    """Every tensor that a run has left, as bytes."""
    return {
        (str(file.relative_to(path)), name): one.numpy().tobytes()
        for file in sorted(Path(path).rglob("*.safetensors"))
        for name, one in read_tensors(file).tensors.items()
        if name != "random.cuda"
    }


def write_tsv(path, pairs):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")


def many(count, words="abcdefg"):
    """Different pairs of one to five words."""
    found = []
    for number in range(count):
        source = [words[(number * 3 + place * place) % len(words)] for place in range(1 + number % 5)]
        found.append((" ".join([*source, f"n{number}"]), " ".join(reversed(source))))
    return found


@pytest.fixture
def small_blocks(monkeypatch):
    """Files in pieces of three lines."""
    monkeypatch.setattr(blocks, "CHUNK_RECORDS", 3)


PAIRS = [("a b", "x"), ("c", "y z"), ("d e", "w")]


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
            ({"instructions": "instructions.jsonl", "template": "{output}"}, "template: {{output}} is what the model"),
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


class TestBadAndBlankRows:
    @pytest.fixture
    def folder(self, tmp_path, small_blocks):
        good = [f"{source}\t{target}".encode() for source, target in many(10)]
        rows = [
            *good[:5],
            b"only one",
            b" \tblank source",
            *good[5:],
            b"no utf \xff\tx",
            b"a\tb\tc\td",
            b"blank target\t",
        ]
        (tmp_path / "pairs.tsv").write_bytes(b"\n".join(rows) + b"\n")
        return tmp_path

    @pytest.mark.parametrize("workers", [0, 2])
    def test_the_first_bad_row_is_an_error_with_its_place(self, folder, workers):
        recipe = recipe_of("pairs.tsv", folder, workers=workers)
        message = refusal(prepare, recipe)
        assert message.startswith(f"{folder}/pairs.tsv:6: 1 column") and message.endswith(
            "; fix it, or set data.bad_rows = 'skip'"
        )
        (folder / "only.tsv").write_text("a\tb\n" * 3, "utf-8")  # the same where no tokenizer is learned from it
        tokenizers = prepare(recipe_of("only.tsv", folder)).tokenizers
        assert refusal(prepare, recipe, tokenizers=tokenizers) == message

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_blank_row_is_an_error_if_asked(self, folder, workers):
        recipe = recipe_of("pairs.tsv", folder, workers=workers, bad_rows="skip", blank_rows="error")
        message = f"{folder}/pairs.tsv:7: the source is blank; fix it, or set data.blank_rows = 'skip'"
        assert refusal(prepare, recipe) == message

    @pytest.mark.parametrize("workers", [0, 2])
    def test_skipped_rows_are_counted(self, folder, workers):
        recipe = recipe_of("pairs.tsv", folder, workers=workers, bad_rows="skip")
        done = prepare(recipe)
        [counts] = done.counts
        assert texts(done) == many(10) and done.pairs == 10
        assert (counts.rows, counts.kept, dict(counts.dropped)) == (15, 10, {UNREADABLE: 3, BLANK: 2})
        assert counts.row_errors == {"columns": 2, "encoding": 1, "blank": 2}
        assert counts.first_errors["blank"] == f"{folder}/pairs.tsv:7: the source is blank"
        assert counts.first_errors["encoding"].startswith(f"{folder}/pairs.tsv:13: not valid UTF-8")

    def test_training_says_what_was_left_out(self, folder):
        events = train(recipe_of("pairs.tsv", folder, bad_rows="skip"), folder / "run")
        first = next(events)
        assert first.pairs == 10 and first.dropped == {"cannot be read": 3, "a blank side": 2}
        assert isinstance(list(events)[-1], Finished)

    def test_training_refuses_a_bad_row_before_a_folder_is_made(self, folder):
        message = refusal(next, train(recipe_of("pairs.tsv", folder), folder / "run"))
        assert message.startswith(f"{folder}/pairs.tsv:6: ") and not (folder / "run").exists()

    def test_evaluation_has_the_same_policy_and_keeps_blanks(self, folder):
        recipe = recipe_of("copy", folder, valid="pairs.tsv")
        assert refusal(list, read_corpus(recipe, "valid")).startswith(f"{folder}/pairs.tsv:6: 1 column")
        recipe = recipe_of("copy", folder, valid="pairs.tsv", bad_rows="skip")
        assert len(list(read_corpus(recipe, "valid"))) == 12

    def test_a_json_text_that_is_no_unicode(self, tmp_path):
        """Half a surrogate pair can be written in JSON, and must not end anything in a traceback."""
        (tmp_path / "t.jsonl").write_text('{"s": "a", "t": "b"}\n{"s": "\\ud800", "t": "x"}\n', "utf-8")
        form = {"file": "t.jsonl", "source": "s", "target": "t"}
        assert refusal(prepare, recipe_of(form, tmp_path)).startswith(f"{tmp_path}/t.jsonl:2: ")
        assert len(texts(prepare(recipe_of(form, tmp_path, bad_rows="skip")))) == 1

    def test_nothing_is_left(self, tmp_path):
        (tmp_path / "blank.tsv").write_text("\t\n \tx\n", "utf-8")
        (tmp_path / "empty.tsv").write_text("", "utf-8")
        for name in ("blank.tsv", "empty.tsv"):
            message = refusal(next, train(recipe_of(name, tmp_path), tmp_path / "run"))
            assert message == "data.train: no pair is left to train on; `weft data check` says why they were dropped"
        write_tsv(tmp_path / "long.tsv", [("a b", "x y")] * 3)
        recipe = recipe_of("long.tsv", tmp_path, max_length=1)
        message = refusal(next, train(recipe, tmp_path / "run"))
        assert message == "data.train: no pair is left to train on (3 more than 1 tokens on a side)"


PIPELINE = [{"kind": "length", "max": 5}, {"kind": "duplicates"}, {"kind": "noise", "shuffle_distance": 2}]


class TestWorkers:
    @pytest.fixture
    def folder(self, tmp_path, small_blocks):
        write_tsv(tmp_path / "pairs.tsv", many(20) + many(9))
        return tmp_path

    def test_any_number_prepares_the_same_bytes(self, folder):
        found = []
        for workers in (0, 1, 3):
            out = folder / f"prepared{workers}"
            recipe = recipe_of("pairs.tsv", folder, workers=workers, prepared=out.name, pipeline=PIPELINE)
            prepare(recipe)
            found.append({path.name: path.read_bytes() for path in out.iterdir()})
        assert found[0] == found[1] == found[2]
        assert set(found[0]) == {
            *("about.json", "tokenizer.json"),
            *("source.ids", "source.starts", "target.ids", "target.starts"),
        }

    def test_a_store_is_what_its_pairs_are_encoded_to(self, folder):
        done = prepare(recipe_of("pairs.tsv", folder, workers=1))
        wanted = encode_pairs([Pair(*one) for one in many(20) + many(9)], done.tokenizers, max_length=250)
        for side in ("source", "target"):
            assert rows_of(getattr(done.data.pairs, side)) == rows_of(getattr(wanted, side))
        assert tuple(done.data.corpus_size) == tuple(wanted.corpus_size)

    def test_a_killed_process_leaves_one_line_and_nothing_else(self, folder, monkeypatch):
        original = corpora.TextPairs.blocks
        killing = []

        def blocks_then_kill(self):
            for number, block in enumerate(original(self)):
                if number == 4 and killing:
                    [tasks] = [Path("/proc/self/task") / str(os.getpid()) / "children"]
                    os.kill(int(tasks.read_text().split()[-1]), 9)
                yield block

        monkeypatch.setattr(corpora.TextPairs, "blocks", blocks_then_kill)
        recipe = recipe_of("pairs.tsv", folder, workers=2, prepared="out")
        tokenizers = prepare(recipe_of("pairs.tsv", folder)).tokenizers
        killing.append(True)
        message = refusal(prepare, recipe, tokenizers=tokenizers)
        assert message.startswith("a worker process ended (exit code -9); ")
        assert [path.name for path in folder.iterdir()] == ["pairs.tsv"]

    def test_an_error_in_a_process_leaves_nothing(self, folder):
        with (folder / "pairs.tsv").open("a", encoding="utf-8") as file:
            file.write("one column\n")
        tokenizers = prepare(recipe_of("pairs.tsv", folder, bad_rows="skip")).tokenizers
        recipe = recipe_of("pairs.tsv", folder, workers=2, prepared="out")
        assert ":30: 1 column" in refusal(prepare, recipe, tokenizers=tokenizers)
        assert [path.name for path in folder.iterdir()] == ["pairs.tsv"]


class TestDuplicates:
    def slow(self, pairs, steps, most):
        """Pairs that are left, and how many each step dropped, one pair after the other with Python sets."""
        seen = [set() for _ in steps]
        kept, dropped = [], {}
        for source, target in pairs:
            drop_reason = None
            for number, step in enumerate(steps):
                if step["kind"] == "duplicates":
                    key = {"pair": (source, target), "source": source, "target": target}[step.get("of", "pair")]
                    if key in seen[number]:
                        drop_reason = number
                        break
                    seen[number].add(key)
                elif step["kind"] == "length":
                    if max(len(source.split()), len(target.split())) > step["max"]:
                        drop_reason = number
                        break
                elif step["kind"] == "lowercase":
                    source, target = source.lower(), target.lower()
            if drop_reason is None and max(len(source.split()), len(target.split())) > most:
                drop_reason = TOO_LONG
            if drop_reason is None:
                kept.append((source, target))
            else:
                dropped[drop_reason] = dropped.get(drop_reason, 0) + 1
        return kept, dropped

    @pytest.mark.parametrize(
        "steps",
        [
            [{"kind": "duplicates"}],
            [{"kind": "duplicates", "of": "source"}],
            [{"kind": "duplicates", "of": "target"}, {"kind": "length", "max": 3}],
            [{"kind": "length", "max": 4}, {"kind": "lowercase"}, {"kind": "duplicates"}],
            [
                {"kind": "duplicates", "of": "source"},
                {"kind": "length", "max": 4},
                {"kind": "lowercase"},
                {"kind": "duplicates", "of": "target"},
            ],
        ],
        ids=str,
    )
    def test_against_a_set(self, tmp_path, small_blocks, steps):
        words = ["a", "b", "A"]
        pairs = [
            (
                " ".join(words[(n // 3 + k) % 3] for k in range(1 + n % 5)),
                " ".join(words[(n * n + k) % 3] for k in range(1 + n % 4)),
            )
            for n in range(60)
        ]
        write_tsv(tmp_path / "pairs.tsv", pairs)
        done = prepare(recipe_of("pairs.tsv", tmp_path, pipeline=steps, max_length=3))
        kept, dropped = self.slow(pairs, steps, 3)
        assert texts(done) == kept
        [counts] = done.counts
        assert dict(counts.dropped) == dropped and counts.kept == len(kept)
        assert counts.rows == 60 == counts.kept + sum(counts.dropped.values())

    def test_of_different_corpora_are_none(self, tmp_path):
        write_tsv(tmp_path / "a.tsv", [("a", "x"), ("a", "x")])
        write_tsv(tmp_path / "b.tsv", [("a", "x")])
        done = prepare(recipe_of(["a.tsv", "b.tsv"], tmp_path, pipeline=[{"kind": "duplicates"}]))
        assert texts(done) == [("a", "x")] * 2 and [one.kept for one in done.counts] == [1, 1]


WORD = st.sampled_from(["a", "b", "B", "\u00e9", "e\u0301", "😀", "漢字", "\u200d", "ß", "\x00", "\u2028"])
SIDE = st.lists(WORD, max_size=5).map(" ".join) | st.sampled_from(["", " ", "\u3000", "\x85"])


@given(
    rows=st.lists(st.tuples(SIDE, SIDE), max_size=14), most=st.integers(1, 4), of=st.sampled_from(["pair", "source"])
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_against_plain_python(tmp_path, rows, most, of):
    """Blank, long, duplicate and odd rows, read from a file, filtered, cut: against one loop."""
    path = tmp_path / "any.tsv"
    write_tsv(path, [("a b", "A"), *rows])
    steps = [{"kind": "identical"}, {"kind": "duplicates", "of": of}, {"kind": "lowercase"}]
    done = prepare(recipe_of("any.tsv", tmp_path, pipeline=steps, max_length=most, tokenizer={"kind": "character"}))
    encode = done.tokenizers.source.encode
    kept, drop_reasons, seen = [], {}, set()
    for source, target in [("a b", "A"), *rows]:
        key = (source, target) if of == "pair" else source
        left, right = encode(source.lower()), encode(target.lower())
        if not source.strip() or not target.strip():
            drop_reason = BLANK
        elif source.strip() == target.strip():
            drop_reason = 0
        elif key in seen:
            drop_reason = 1
        else:
            seen.add(key)
            drop_reason = BLANK if not left or not right else TOO_LONG if max(len(left), len(right)) > most else None
        if drop_reason is None:
            kept.append(([*left, specials.END], [*right, specials.END]))
        else:
            drop_reasons[drop_reason] = drop_reasons.get(drop_reason, 0) + 1
    [counts] = done.counts
    pairs = done.data.pairs
    assert list(zip(rows_of(pairs.source), rows_of(pairs.target), strict=True)) == kept
    assert dict(counts.dropped) == drop_reasons and counts.kept == len(kept)
    assert counts.rows == len(rows) + 1 == counts.kept + sum(drop_reasons.values())


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
        about.write_text(json.dumps(record), "utf-8")
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
        assert message.startswith(f"{folder / 'out'}: prepared with another tokenizer than this run's; remove ")

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
        assert (
            message == f"{folder / 'out'}: its tokenizer.json is missing; remove {folder / 'out'} and prepare it again"
        )

    @pytest.mark.parametrize("key", ["parts", "counts"])
    @pytest.mark.parametrize("value", [None, [], 3, [{}, {}]])
    def test_a_damaged_description_is_one_line(self, folder, key, value):
        prepare(self.recipe(folder))
        about = folder / "out" / "about.json"
        record = {**json.loads(about.read_text("utf-8")), key: value}
        if value is None:
            del record[key]
        about.write_text(json.dumps(record), "utf-8")
        if (key, value) != ("counts", []):
            assert refusal(prepare, self.recipe(folder)).startswith(f"{about}: damaged; ")

    def test_a_folder_that_is_none_is_one_line(self, folder):
        (folder / "out").mkdir()
        assert refusal(prepare, self.recipe(folder)).startswith(f"{folder / 'out'}: not a prepared corpus")
        message = refusal(PreparedFolder.create, folder / "out", (9, 9), lambda *_: {})
        assert message == f"{folder / 'out'}: exists already; remove it, or choose another folder"


def test_a_prepared_corpus_knows_its_files_from_anywhere(tmp_path, monkeypatch):
    write_tsv(tmp_path / "a.tsv", PAIRS)
    monkeypatch.chdir(tmp_path)
    prepare(recipe_of("a.tsv", prepared="out"))
    write_tsv(tmp_path / "a.tsv", many(3))
    monkeypatch.chdir("/")
    assert "a.tsv has changed since it was prepared" in refusal(prepare, recipe_of("a.tsv", tmp_path, prepared="out"))


class TestLearningATokenizer:
    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "pairs.tsv", [(f"s{number}", f"t{number}") for number in range(200)])
        return tmp_path

    def known(self, recipe):
        tokenizer = prepare(recipe).tokenizers.source
        return {
            text
            for text in (f"{side}{number}" for side in "st" for number in range(200))
            if 0 not in tokenizer.encode(text)
        }

    def test_a_small_corpus_is_all_learned_from(self, folder):
        recipe = recipe_of("pairs.tsv", folder)
        assert len(self.known(recipe)) == 400
        size = sum(len(pair.source) + len(pair.target) for pair in read_corpus(recipe, "train"))
        assert len(self.known(recipe_of("pairs.tsv", folder, tokenizer={"sample": size}))) == 400
        assert len(self.known(recipe_of("pairs.tsv", folder, tokenizer={"sample": size - 1}))) < 400

    def test_of_a_large_one_a_sample_by_the_seed(self, folder):
        found = [self.known(recipe_of("pairs.tsv", folder, tokenizer={"sample": 400}, seed=seed)) for seed in (1, 1, 2)]
        assert found[0] == found[1] != found[2]
        assert 50 < len(found[0]) < 120
        numbers = sorted(int(text[1:]) for text in found[0])
        assert numbers[0] < 50 and numbers[-1] > 150, "from all over the file"

    def test_functions_never_meet_blank_pairs(self, tmp_path):
        """Neither while a tokenizer is learned nor later: they are dropped before."""
        (tmp_path / "pairs.tsv").write_text("a\tx\n\ty\nb\t \n", "utf-8")
        met = []
        prepare(recipe_of("pairs.tsv", tmp_path), transforms=[lambda pair: met.append(pair) or pair])
        assert {(pair.source, pair.target) for pair in met} == {("a", "x")}

    def test_protected_patterns_are_those_of_the_tokenizers(self, folder):
        """Not Python's: letters by their kind can be asked for. A wrong one is refused before anything is read."""
        recipe = recipe_of("pairs.tsv", folder, tokenizer={"protect": [r"\p{Ll}+"]})
        assert prepare(recipe).tokenizers.source.tokens(prepare(recipe).tokenizers.source.encode("s7"))[0] == "s"
        wrong = recipe_of("none-*.tsv", folder, tokenizer={"protect": ["("]})
        with pytest.raises(VocabularyError, match=r"^protect '\(': not a regular expression: [^\n]+$"):
            prepare(wrong)

    def test_given_files_are_taken(self, folder):
        first = prepare(recipe_of("pairs.tsv", folder)).tokenizers
        first.save(folder)
        recipe = recipe_of("copy", folder, tokenizer={"file": "tokenizer.json"}, train_size=3)
        assert prepare(recipe).tokenizers.source.size == first.source.size


class TestDropout:
    def test_parts_have_variants(self, tmp_path):
        sentences = [
            (f"tower flower power {one}", f"lower slower {one}") for one in ("rower", "mower", "shower", "x " * 30)
        ]
        write_tsv(tmp_path / "a.tsv", sentences)
        write_tsv(tmp_path / "b.tsv", sentences[:2])
        tokenizer = {"kind": "bpe", "size": 60, "dropout": 0.4, "variants": 3}
        recipe = recipe_of(["a.tsv", "b.tsv"], tmp_path, tokenizer=tokenizer, max_length=25)
        done = prepare(recipe)
        assert [(part.start, part.pairs, part.variants) for part in done.data.parts] == [(0, 3, 3), (9, 2, 3)]
        assert texts(done) == sentences[:3] * 3 + sentences[:2] * 3
        assert [(one.rows, one.kept) for one in done.counts] == [(4, 3), (2, 2)] and done.pairs == 5
        rows = rows_of(done.data.pairs.source)
        variants = {str(rows[start : start + 3]) for start in (0, 3, 6)}
        assert len(variants) == 3
        assert rows == rows_of(prepare(recipe).data.pairs.source)
        assert next(train(recipe, tmp_path / "run")).pairs == 5


class TestMixing:
    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "a.tsv", [(f"a {number}", "x") for number in range(40)])
        write_tsv(tmp_path / "b.tsv", [(f"b {number}", "y") for number in range(10)])
        return tmp_path

    def drawn(self, recipe, steps):
        """Which corpus the pairs of each step are of: how many of a, how many of b."""
        done = prepare(recipe)
        decode = done.tokenizers.target.decode
        stream = done.data.batches(recipe.training.batch_tokens, seed=recipe.seed)
        found = []
        for step in range(1, steps + 1):
            [planned] = stream.take(step, 1)
            said = [decode(row.tolist()) for row in planned.make().target.split()]
            found.append((said.count("x"), said.count("y")))
        return found

    @pytest.mark.parametrize(
        ("first", "second", "temperature", "share"),
        [
            ({}, {}, 1.0, 0.8),
            ({"weight": 1.0}, {"weight": 1.0}, 1.0, 0.5),
            ({"weight": 1.0}, {"weight": 3.0}, 1.0, 0.25),
            ({}, {}, 2.0, 2 / 3),
        ],
    )
    def test_shares(self, folder, first, second, temperature, share):
        corpora = [{"name": "a.tsv", **first}, {"name": "b.tsv", **second}]
        found = self.drawn(recipe_of(corpora, folder, temperature=temperature), 100)
        ones, others = (sum(side) for side in zip(*found, strict=True))
        assert ones / (ones + others) == pytest.approx(share, abs=0.03)

    def test_what_is_trained_on_changes_at_the_step(self, folder):
        corpora = [{"name": "a.tsv", "last_step": 6}, {"name": "b.tsv", "first_step": 4}]
        found = self.drawn(recipe_of(corpora, folder), 9)
        assert all(ones and not others for ones, others in found[:3])
        assert sum(ones for ones, _ in found[3:6]) and sum(others for _, others in found[3:6])
        assert all(others and not ones for ones, others in found[6:])

    @pytest.mark.parametrize("streaming", [False, True])
    def test_a_gap_is_one_line_before_anything_is_read(self, folder, streaming):
        corpora = [{"name": "a.tsv", "last_step": 2}, {"name": "b.tsv", "first_step": 4}]
        message = refusal(next, train(recipe_of(corpora, folder, streaming=streaming), folder / "run"))
        assert message == "data.train: at step 3 no corpus is left to train on; see first_step and last_step"
        assert not (folder / "run").exists()
        recipe = recipe_of(corpora, folder, streaming=streaming, training={"steps": 2})
        assert isinstance(list(train(recipe, folder / "run"))[-1], Finished)

    def test_a_tag_is_before_the_source_and_one_token(self, folder):
        corpora = [{"name": "a.tsv", "tag": "<2x>"}, {"name": "b.tsv", "tag": "<2y>"}]
        recipe = recipe_of(corpora, folder, tokenizer={"symbols": ["<2x>", "<2y>"]}, pipeline=[{"kind": "lowercase"}])
        done = prepare(recipe)
        source = done.tokenizers.source
        rows = rows_of(done.data.pairs.source)
        assert [source.tokens(row)[0] for row in rows] == ["<2x>"] * 40 + ["<2y>"] * 10
        assert len({row[0] for row in rows}) == 2 and {len(row) for row in rows} == {4}
        without = prepare(recipe_of(corpora, folder))
        assert {len(row) for row in rows_of(without.data.pairs.source)} == {6}
        assert next(read_corpus(recipe_of("a.tsv", folder, valid=corpora), "valid")).source == "<2x> a 0"

    def test_resumed_at_any_step_as_if_never_stopped(self, folder):
        corpora = [
            {"name": "a.tsv", "last_step": 4, "weight": 2.0},
            {"name": "b.tsv"},
            {"name": "b.tsv", "first_step": 3},
        ]
        recipe = recipe_of(corpora, folder, prepared="out", training={"steps": 6, "save_every": 1})
        list(train(recipe, folder / "straight"))
        wanted = weights_of(folder / "straight")
        for stop in range(6):
            path = folder / f"stopped{stop}"
            events = train(recipe, path)
            for event in events:
                if event.step == stop:
                    break
            events.close()
            list(train(recipe, path, resume=True))
            assert weights_of(path) == wanted, f"stopped at step {stop}"
            assert RunFolder(path).read_checkpoint().state["stage"] == 2


def shout(pair):
    return Pair(pair.source.upper(), pair.target) if pair.source != "c" else None


class TestFunctionsOfOnesOwn:
    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "pairs.tsv", PAIRS)
        return tmp_path

    def test_change_and_drop_after_the_pipeline(self, folder):
        recipe = recipe_of({"name": "pairs.tsv", "tag": "go"}, folder, pipeline=[{"kind": "lowercase"}], workers=2)
        done = prepare(recipe, transforms=[shout])
        assert texts(done) == [("go A B", "x"), ("go D E", "w")]
        assert dict(done.counts[0].dropped) == {1: 1}

    def test_in_training(self, folder):
        events = list(train(recipe_of("pairs.tsv", folder), folder / "run", transforms=[shout, lambda pair: True]))
        assert events[0].pairs == 2 and events[0].dropped == {"a function": 1}
        tokenizer = prepare(recipe_of("pairs.tsv", folder), transforms=[shout]).tokenizers.source
        assert 0 in tokenizer.encode("a") and 0 not in tokenizer.encode("A")

    def test_in_training_on_a_stream(self, folder):
        recipe = recipe_of("pairs.tsv", folder, streaming=True)
        assert isinstance(list(train(recipe, folder / "run", transforms=[shout]))[-1], Finished)

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda pair: 3, "pipeline step '<lambda>': returned int for the pair "),
            (lambda pair: ("a", "b"), "pipeline step '<lambda>': returned tuple for the pair "),
            (lambda pair: Pair("a", None), "pipeline step '<lambda>': returned a Pair of other things than texts for "),
            (lambda pair: pair.sauce, "pipeline step '<lambda>': AttributeError: "),
        ],
    )
    def test_a_wrong_one_is_one_line(self, folder, function, message):
        assert refusal(next, train(recipe_of("pairs.tsv", folder), folder / "run", transforms=[function])).startswith(
            message
        )
        assert not (folder / "run").exists()

    def test_are_not_for_a_prepared_folder(self, folder):
        message = "data.prepared: a folder cannot record Python functions; prepare without a folder"
        assert refusal(prepare, recipe_of("pairs.tsv", folder, prepared="out"), transforms=[shout]) == message


def test_a_language_model_reads_lines_alone(tmp_path):
    (tmp_path / "lines.txt").write_text("a b\n\nignored\tc d\n", "utf-8")
    recipe = recipe_of("lines.txt", tmp_path, model={"kind": "language_model"})
    done = prepare(recipe)
    assert texts(done) == [("", "a b"), ("", "c d")] and dict(done.counts[0].dropped) == {BLANK: 1}
    recipe = recipe_of("lines.txt", tmp_path, model={"kind": "language_model"}, blank_rows="error")
    assert refusal(prepare, recipe).startswith(f"{tmp_path}/lines.txt:2: the target is blank; ")


def test_a_large_corpus_is_prepared_by_every_core(tmp_path, monkeypatch):
    write_tsv(tmp_path / "pairs.tsv", PAIRS)
    module = importlib.import_module("weft.preparation.prepare")
    counts = []
    original = module.parallel_map
    monkeypatch.setattr(
        module, "parallel_map", lambda *given, workers: counts.append(workers) or original(*given, workers=0)
    )
    prepare(recipe_of("pairs.tsv", tmp_path))
    monkeypatch.setattr(module, "PARALLEL_BYTES", 10)
    prepare(recipe_of("pairs.tsv", tmp_path))
    prepare(recipe_of("pairs.tsv", tmp_path, workers=5))
    assert counts == [0, len(os.sched_getaffinity(0)), 5]


def test_rows_of_a_split_that_are_skipped_are_counted(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(b"a\tb\nc\n\xff\td\ne\tf\n")
    problems = Counter()
    recipe = recipe_of("pairs.tsv", tmp_path, bad_rows="skip", valid="pairs.tsv")
    assert [pair.source for pair in read_corpus(recipe, "valid", problems)] == ["a", "e"]
    assert problems == {"columns": 1, "encoding": 1}


def test_a_file_has_no_size_to_draw(tmp_path):
    write_tsv(tmp_path / "pairs.tsv", PAIRS)
    message = refusal(prepare, recipe_of({"name": "pairs.tsv", "size": 3}, tmp_path))
    assert message == "data.train: size and options are for built-in corpora; 'pairs.tsv' is a file"


def test_preparing_tells_how_far_it_is(tmp_path):
    write_tsv(tmp_path / "pairs.tsv", PAIRS)
    told = []
    prepare(recipe_of("pairs.tsv", tmp_path), on_progress=lambda name, rows: told.append((name, rows)))
    assert told[-1] == ("pairs.tsv", len(PAIRS))
