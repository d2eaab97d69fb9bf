"""Training on text as it is read: shares, stages, the same again from any position, and an end where nothing comes."""

from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from weft.data.batching.batches import Part, Position
from weft.data.batching.streaming import WINDOW_BLOCKS, StreamedCorpus, StreamedPart
from weft.data.preparation import prepare
from weft.data.reading import text_files
from weft.data.store.block_tokenizer import FlatSequences, TokenizedBlock
from weft.errors import DataError
from weft.recipe import make_recipe
from weft.runs.weights import read_tensors
from weft.training.events import Finished, Step
from weft.training.train import train


def ids(rows):
    return FlatSequences(
        np.array([one for row in rows for one in row], dtype=np.int32), np.array([len(row) for row in rows], np.int64)
    )


def encode(numbered):
    """A block is a list of lengths: each row becomes its corpus, its turn and its place, and something more."""
    for corpus, turn, (place, lengths) in numbered:
        rows = [[corpus, turn, place, *[9] * length] for length in lengths]
        yield TokenizedBlock(np.full(len(rows), -1, np.int16), ids(rows), ids(rows))


def part(*rows, size=1, name="a corpus", **mixture):
    """A corpus of blocks with that many rows each."""
    blocks = [(index, [index % 3] * count) for index, count in enumerate(rows)]
    return StreamedPart(name, lambda: iter(blocks), Part(0, size, **mixture))


def streamed(*parts, **more):
    return StreamedCorpus(parts, encode, max_length=9, **more)


def rows_of(planned):
    return [tuple(row.tolist()) for row in planned.make().target.split()]


def first_window(data, stage_steps=1, budget=10_000):
    """(corpus, turn, block) of every row of the first window."""
    [planned] = data.batches(budget, seed=1).take(stage_steps, 1)
    return sorted(row[:3] for row in rows_of(planned))


def test_a_corpus_is_read_again_and_again():
    found = first_window(streamed(part(1, 1, 1, 1, 1)))
    assert found == sorted((0, number // 5, number % 5) for number in range(WINDOW_BLOCKS))


@pytest.mark.parametrize(
    ("shares", "temperature", "counts"),
    [
        ([{}, {}], 1.0, [8, 8]),
        ([{"size": 300}, {"size": 100}], 1.0, [12, 4]),
        ([{"size": 900}, {"size": 100}], 2.0, [12, 4]),
        ([{"size": 900, "weight": 1.0}, {"size": 100, "weight": 3.0}], 1.0, [4, 12]),
        ([{"size": 900, "weight": 3.0}, {"size": 100}], 1.0, [12, 4]),
    ],
)
def test_shares_are_those_of_a_store(shares, temperature, counts):
    """Weights where there are any, else sizes by the temperature."""
    found = first_window(streamed(*(part(*[1] * 50, **one) for one in shares), temperature=temperature))
    assert [sum(row[0] == number for row in found) for number in range(2)] == counts


SHARE = 2.7182818


def test_shares_hold_over_many_windows():
    data = streamed(part(1, 1, 1, weight=1.0), part(*[1] * 7, weight=SHARE))
    rows = [row for planned in data.batches(64, seed=1).take(1, 400) for row in rows_of(planned)]
    share = sum(row[0] == 1 for row in rows) / len(rows)
    assert share == pytest.approx(SHARE / (1 + SHARE), abs=0.01)


def test_more_corpora_than_blocks_in_a_window():
    """Some windows are then larger, some are empty; all goes on."""
    data = streamed(*(part(1) for _ in range(3 * WINDOW_BLOCKS + 2)))
    rows = [row[0] for planned in data.batches(30, seed=1).take(1, 200) for row in rows_of(planned)]
    assert set(rows) == set(range(3 * WINDOW_BLOCKS + 2))


def test_every_pair_of_a_window_once_and_within_the_budget():
    data = streamed(part(3, 5, 2, 7))
    planned = data.batches(12, seed=1).take(1, 60)
    assert all(one.target_tokens <= 12 for one in planned)
    rows, sizes = [], [3, 5, 2, 7]
    for one in planned:
        found = rows_of(one)
        assert sum(map(len, found)) == one.target_tokens
        rows += found
    once = sum(sizes) * WINDOW_BLOCKS // 4  # rows of a window
    wanted = sorted((0, turn, place) for turn in range(4) for place in range(4) for _ in range(sizes[place]))
    assert sorted(row[:3] for row in rows[:once]) == wanted


def test_from_any_position_as_if_never_stopped():
    data = streamed(part(2, 1, 3, weight=2.0), part(1, 1), part(2, first_step=8), part(1, 1, last_step=11))
    stream = data.batches(11, seed=3)
    taken, positions = [], [stream.position]
    for step in range(1, 40):
        taken.append([rows_of(one) for one in stream.take(step, 2)])
        positions.append(stream.position)
    assert len({position.stage for position in positions}) == 3 and max(position.pool for position in positions) > 1
    for stop in range(0, 39, 3):
        again = data.batches(11, seed=3, start=Position(*positions[stop]))
        assert [[rows_of(one) for one in again.take(step, 2)] for step in range(stop + 1, stop + 4)] == taken[
            stop : stop + 3
        ]


def test_seeds_order_otherwise():
    data = streamed(part(*[2] * 20))
    found = [[rows_of(one) for one in data.batches(10, seed=seed).take(1, 8)] for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


def test_a_stage_has_only_its_corpora():
    data = streamed(part(1, 1, last_step=2), part(1, 1, first_step=3))
    stream = data.batches(10, seed=1)
    for step in range(1, 7):
        assert {row[0] for planned in stream.take(step, 1) for row in rows_of(planned)} == {0 if step < 3 else 1}


def test_its_extent_is_of_the_first_window_that_has_pairs():
    data = streamed(part(*[0] * (2 * WINDOW_BLOCKS), *[2] * WINDOW_BLOCKS))
    assert data.corpus_size.pairs == 2 * WINDOW_BLOCKS
    assert data.corpus_size.max_source_length == data.corpus_size.max_target_length == 10


def test_a_corpus_without_rows_is_one_line():
    for data in (streamed(part()), streamed(part(1), part())):
        with pytest.raises(DataError, match=r"^data\.train: a corpus has no rows$"):
            data.batches(10, seed=1).take(1, 1)


def test_a_corpus_of_which_nothing_is_left_is_one_line():
    with pytest.raises(DataError, match=r"^data\.train: no pair is left to train on in \d+ blocks of text$"):
        streamed(part(0, 0)).batches(10, seed=1).take(1, 1)


def test_only_as_much_is_read_as_is_trained_on():
    read = []

    def endless():
        for place in range(1_000_000):
            read.append(place)
            yield place, [1]

    StreamedCorpus((StreamedPart("endless", endless, Part(0, 1)),), encode, 9).batches(10_000, seed=1).take(1, 2)
    assert len(read) <= 3 * WINDOW_BLOCKS


# Whole runs.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two corpora in pieces of three lines."""
    monkeypatch.setattr(text_files, "CHUNK_RECORDS", 3)
    for name, count in (("a", 70), ("b", 11)):
        lines = [f"{name} w{n % 7}{' q' * (n % 4)}\tx{n % 5}{' z' * (n % 3)}\n" for n in range(count)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines), "utf-8")
    return tmp_path


def recipe_of(train, folder, *, training=None, tokenizer=None, **data):
    return make_recipe(
        {
            "data": {"train": train, "folder": str(folder), "streaming": True, **data},
            "tokenizer": {"kind": "word", **(tokenizer or {})},
            "model": {"embedding": 7, "encoder": {"hidden": 8}, "decoder": {"hidden": 8}},
            "training": {
                "steps": 6,
                "batch_tokens": 60,
                "validate_every": 0,
                "save_every": 1,
                "log_every": 1,
                "device": "cpu",
                **(training or {}),
            },
        }
    )


def weights_of(path):
    return {
        (str(file.relative_to(path)), name): one.numpy().tobytes()
        for file in sorted(Path(path).rglob("*.safetensors"))
        for name, one in read_tensors(file).tensors.items()
        if name != "random.cuda"
    }


def children():
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            found |= {int(name) for name in (task / "children").read_text().split()}
    return found


MIXED = [
    {"name": "a.tsv", "weight": 2.0},
    {"name": "b.tsv", "weight": 1.0, "tag": "<b>"},
    {"name": "a.tsv", "first_step": 4},
]


def test_a_run_stopped_anywhere_and_resumed_ends_as_if_never_stopped(folder):
    recipe = recipe_of(MIXED, folder)
    events = list(train(recipe, folder / "straight"))
    assert events[0].pairs == 0 and isinstance(events[-1], Finished)
    wanted = weights_of(folder / "straight")
    for stop in (1, 3, 4):
        path = folder / f"stopped{stop}"
        events = train(recipe, path)
        for event in events:
            if event.step == stop:
                break
        events.close()
        list(train(recipe, path, resume=True))
        assert weights_of(path) == wanted, f"stopped at step {stop}"


def test_processes_change_nothing_and_are_gone_afterwards(folder):
    before = children()
    short = {"steps": 5, "save_every": 0}
    list(train(recipe_of(MIXED, folder, training=short), folder / "alone"))
    list(train(recipe_of(MIXED, folder, training=short, workers=2), folder / "together"))
    assert weights_of(folder / "alone") == weights_of(folder / "together")
    assert children() <= before
    events = train(recipe_of(MIXED, folder, workers=2), folder / "stopped")
    for event in events:
        if isinstance(event, Step):
            break
    assert children() - before
    events.close()
    del events
    assert children() <= before


def test_several_batches_a_step(folder):
    """Each step reads as many batches as it is made of: three at a time, the same ones as one at a time."""
    tokens = {}
    for accumulate, steps in ((1, 9), (3, 3)):
        recipe = recipe_of("a.tsv", folder, training={"accumulate": accumulate, "steps": steps})
        events = train(recipe, folder / f"run{accumulate}")
        tokens[accumulate] = [event.target_tokens for event in events if isinstance(event, Step)]
    assert tokens[3] == [sum(tokens[1][start : start + 3]) for start in (0, 3, 6)] and len(set(tokens[1])) > 1


def test_dropout_cuts_otherwise_in_every_turn(folder):
    (folder / "c.tsv").write_text("tower flower power\tlower slower\n" * 3 + "rower mower\tshower\n", "utf-8")
    tokenizer = {"kind": "bpe", "size": 40, "dropout": 0.5}
    data = prepare(recipe_of("c.tsv", folder, tokenizer=tokenizer)).data
    rows = [row for planned in data.batches(10_000, seed=1).take(1, 1) for row in rows_of(planned)]
    assert len({row for row in rows if len(row) > 3}) > 4


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_row_ends_it_in_one_line(folder, workers):
    (folder / "b.tsv").write_text("a\tb\n" * 5 + "one column\n", "utf-8")
    tokenizers = prepare(recipe_of("a.tsv", folder)).tokenizers
    with pytest.raises(DataError) as caught:
        prepare(recipe_of("b.tsv", folder, workers=workers), tokenizers=tokenizers).data.corpus_size  # noqa: B018
    message = str(caught.value)
    assert message.startswith(f"{folder}/b.tsv:6: 1 column") and "\n" not in message
    assert message.endswith("; fix it, or set data.bad_rows = 'skip'")


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("", {}, "data.train: no pair is left to train on; "),
        ("a\ta\n" * 9, {"pipeline": [{"kind": "identical"}]}, "data.train: no pair is left to train on; "),
        ("a b c\tx\n" * 9, {"max_length": 2}, "data.train: no pair is left to train on in "),
    ],
)
def test_nothing_to_train_on_is_one_line(folder, text, data, message):
    (folder / "none.tsv").write_text(text, "utf-8")
    with pytest.raises(DataError) as caught:
        list(train(recipe_of("none.tsv", folder, **data), folder / "run"))
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
    assert not (folder / "run").exists()


def test_a_corpus_without_rows_beside_others_is_one_line(folder):
    (folder / "none.tsv").write_text("", "utf-8")
    with pytest.raises(DataError, match=r"^data\.train: none\.tsv has no rows$"):
        list(train(recipe_of(["a.tsv", "none.tsv"], folder), folder / "run"))


def test_built_in_corpora_have_equal_shares(folder):
    data = prepare(recipe_of([{"name": "copy", "size": 50}, {"name": "reverse", "size": 50}], folder)).data
    assert [streamed.part.pairs for streamed in data.parts] == [1, 1]
    stream = data.batches(60, seed=1)
    assert all(one.target_tokens for one in islice((one for step in range(1, 4) for one in stream.take(step, 1)), 3))


def test_rows_that_a_stream_leaves_out_are_told_at_the_end(tmp_path):
    """Every turn counts again: two bad and one blank row, read at least once."""
    (tmp_path / "pairs.tsv").write_text("a b\tb a\nbad\n\tx\nc\td\nworse\n", "utf-8")
    changes = ["training.steps=2", "training.validate_every=0", "data.streaming=true", "data.bad_rows=skip"]
    small = ["model.embedding=4", "model.encoder.hidden=4", "model.decoder.hidden=4", "tokenizer.kind=character"]
    recipe = make_recipe({"data": {"train": "pairs.tsv", "folder": str(tmp_path)}}, [*changes, *small])
    *_, last = train(recipe, tmp_path / "run")
    assert last.dropped["cannot be read"] == 2 * last.dropped["a blank side"] > 0
