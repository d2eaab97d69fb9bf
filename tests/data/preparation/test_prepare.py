"""From settings to a training corpus: each row counted once, the same however it is prepared."""

import importlib
import os
import re
import shutil
import threading
import warnings
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.small_corpora import PAIRS, many, recipe_of, refusal, rows_of, texts, write_tsv
from weft.data.pairs import Pair
from weft.data.preparation import prepare, read_corpus
from weft.data.reading import corpora
from weft.data.store.block_tokenizer import BLANK, TOO_LONG, UNREADABLE
from weft.data.store.token_store import encode_pairs
from weft.runs.locks import lock_folder
from weft.runtime.activity import observing
from weft.text import specials
from weft.training.events import Finished
from weft.training.train import train


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
    def test_the_first_bad_row_is_an_error_with_its_line(self, folder, workers):
        recipe = recipe_of("pairs.tsv", folder, workers=workers)
        message = refusal(prepare, recipe)
        assert message.startswith(f"{folder}/pairs.tsv:6: 1 column") and message.endswith(
            "; fix it, or set data.bad_rows = 'skip'"
        )
        (folder / "only.tsv").write_text("a\tb\n" * 3, "utf-8")  # the same where no tokenizer is learned from it
        tokenizers = prepare(recipe_of("only.tsv", folder)).tokenizers
        assert refusal(prepare, recipe, tokenizers=tokenizers) == message

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_blank_row_can_be_an_error(self, folder, workers):
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

    def test_training_reports_dropped_rows(self, folder):
        events = train(recipe_of("pairs.tsv", folder, bad_rows="skip"), folder / "run")
        first = next(events)
        assert first.pairs == 10 and first.dropped == {"cannot be read": 3, "a blank side": 2}
        assert isinstance(list(events)[-1], Finished)

    def test_training_refuses_a_bad_row_before_a_folder_is_made(self, folder):
        message = refusal(next, train(recipe_of("pairs.tsv", folder), folder / "run"))
        assert message.startswith(f"{folder}/pairs.tsv:6: ") and not (folder / "run").exists()

    def test_evaluation_has_the_same_policy(self, folder):
        recipe = recipe_of("copy", folder, valid="pairs.tsv")
        assert refusal(list, read_corpus(recipe, "valid")).startswith(f"{folder}/pairs.tsv:6: 1 column")
        recipe = recipe_of("copy", folder, valid="pairs.tsv", bad_rows="skip")
        left_out = Counter()
        assert len(list(read_corpus(recipe, "valid", left_out))) == 10
        assert left_out["blank"] == 2
        recipe = recipe_of("copy", folder, valid="pairs.tsv", bad_rows="skip", blank_rows="error")
        message = refusal(list, read_corpus(recipe, "valid"))
        assert re.fullmatch(
            rf"{folder}/pairs.tsv:\d+: the (source|target) is blank; fix it, or set data.blank_rows = 'skip'", message
        )

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
            *("about.json", "fingerprints.bin", "tokenizer.json"),
            *("source.ids", "source.starts", "target.ids", "target.starts"),
        }

    def test_noise_depends_on_the_seed(self, folder):
        tokenizers = prepare(recipe_of("pairs.tsv", folder)).tokenizers
        recipes = [
            recipe_of("pairs.tsv", folder, workers=1, pipeline=[{"kind": "noise", "drop": 0.5}], seed=seed)
            for seed in (1, 2, 1)
        ]
        stores = [prepare(recipe, tokenizers=tokenizers).data.pairs.source for recipe in recipes]
        first, second, again = map(rows_of, stores)
        assert first == again != second

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


def test_a_large_corpus_is_prepared_by_every_core(tmp_path, monkeypatch):
    write_tsv(tmp_path / "pairs.tsv", PAIRS)
    module = importlib.import_module("weft.data.preparation.prepare")
    counts = []
    original = module.parallel_map
    monkeypatch.setattr(
        module, "parallel_map", lambda *given, workers: counts.append(workers) or original(*given, workers=0)
    )
    prepare(recipe_of("pairs.tsv", tmp_path))
    monkeypatch.setattr(module, "PARALLEL_BYTES", 10)
    prepare(recipe_of("pairs.tsv", tmp_path))
    prepare(recipe_of("pairs.tsv", tmp_path, workers=5))
    assert counts == [len(os.sched_getaffinity(0)), 5], "a small corpus takes no process"


def test_progress_is_observed(tmp_path):
    write_tsv(tmp_path / "pairs.tsv", PAIRS)
    ended = []

    class Observer:
        def begin(self, activity):
            pass

        def end(self, activity):
            ended.append((activity.what, activity.done, activity.unit))

    with observing(Observer()):
        prepare(recipe_of("pairs.tsv", tmp_path))
    assert ended[0] == ("reading pairs.tsv", len(PAIRS), "pairs")
    assert "learning the tokenizer" in [what for what, _, _ in ended]
    assert ended[-1] == ("tokenizing pairs.tsv", len(PAIRS), "rows")


class TestTwoProcesses:
    """Of one data.prepared: the second waits for the first, and then uses what that has prepared."""

    def test_the_second_waits(self, tmp_path):
        write_tsv(tmp_path / "pairs.tsv", many(20))
        recipe = recipe_of("pairs.tsv", tmp_path, prepared="out")
        started = []

        def prepare_second(message, *_, **__):
            started.append(str(message))
            release.set()

        release, results = threading.Event(), []
        with warnings.catch_warnings():
            warnings.showwarning = prepare_second
            warnings.simplefilter("always")
            with lock_folder(tmp_path / "out", "preparing"):
                second = threading.Thread(target=lambda: results.append(prepare(recipe)))
                second.start()
                assert release.wait(60)
                assert not results and not (tmp_path / "out").exists()
                shutil.copytree(self.prepared_elsewhere(tmp_path), tmp_path / "out")
            second.join(60)
        assert len(started) == 1 and started[0].startswith(f"waiting: {tmp_path / 'out'}: in use by this process")
        assert texts(results[0]) == texts(prepare(recipe))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "out", "pairs.tsv"]

    def prepared_elsewhere(self, folder):
        prepare(recipe_of("pairs.tsv", folder, prepared="elsewhere"))
        return folder / "elsewhere"

    def test_an_empty_folder_is_filled(self, tmp_path):
        write_tsv(tmp_path / "pairs.tsv", many(20))
        (tmp_path / "out").mkdir()
        prepare(recipe_of("pairs.tsv", tmp_path, prepared="out"))
        assert (tmp_path / "out" / "about.json").is_file() and not (tmp_path / "out" / ".lock").exists()
