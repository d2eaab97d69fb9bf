"""The token store on disk and in memory: what was put in, without its duplicates, and nothing else; or one line."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.pairs import Pair
from weft.data.store import prepared
from weft.data.store.block_tokenizer import BLANK, KEPT, TOO_LONG, UNREADABLE, FlatSequences, TokenizedBlock
from weft.data.store.prepared import PreparedFolder, RowCounts, StoreWriter, count_rows
from weft.errors import DataError

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"


def ids(rows):
    return FlatSequences(
        np.array([one for row in rows for one in row], dtype=np.int32), np.array([len(row) for row in rows], np.int64)
    )


def block(sources, targets, drop_reasons=None, hashes=None):
    """A block of rows that are all kept, unless their drop_reasons are given."""
    drop_reasons = [KEPT] * len(targets) if drop_reasons is None else drop_reasons
    found = {step: np.array(one, dtype=np.uint64) for step, one in (hashes or {}).items()}
    return TokenizedBlock(np.array(drop_reasons, dtype=np.int16), ids(sources), ids(targets), found)


def rows_of(store):
    return [store.values[start:end].tolist() for start, end in zip(store.offsets, store.offsets[1:], strict=False)]


@pytest.fixture(params=["memory", "folder"])
def folder(request, tmp_path):
    """Where a store is written."""
    return None if request.param == "memory" else tmp_path


class TestAStore:
    def test_has_what_was_put_in(self, folder):
        writer = StoreWriter(folder, (100, 70_000))
        first = writer.write([block([[3], [4, 5]], [[6, 7], [69_999]]), block([], []), block([[9, 9, 9]], [[8]])])
        second = writer.write([block([[1]], [[2]])])
        pairs = writer.finish()
        assert rows_of(pairs.source) == [[3], [4, 5], [9, 9, 9], [1]]
        assert rows_of(pairs.target) == [[6, 7], [69_999], [8], [2]]
        assert (first.rows, first.kept, second.kept) == (3, 3, 1)
        assert pairs.source.values.dtype == np.uint16 and pairs.target.values.dtype == np.int32
        assert tuple(pairs.corpus_size) == (4, 7, 5, 3, 2)

    def test_of_nothing(self, folder):
        writer = StoreWriter(folder, (9, 9))
        assert writer.write([]).rows == 0
        pairs = writer.finish()
        assert len(pairs) == 0 and rows_of(pairs.source) == [] and pairs.corpus_size.pairs == 0

    def test_of_empty_sources(self, folder):
        writer = StoreWriter(folder, (9, 9))
        writer.write([block([[], []], [[1], [2, 3]])])
        pairs = writer.finish()
        assert rows_of(pairs.source) == [[], []] and rows_of(pairs.target) == [[1], [2, 3]]

    def test_an_error_in_a_piece_is_raised(self, folder):
        spoilt = block([], [])
        spoilt.fatal = "corpus.tsv:7: spoilt"
        with pytest.raises(DataError, match=r"^corpus.tsv:7: spoilt$"):
            StoreWriter(folder, (9, 9)).write([block([[1]], [[1]]), spoilt])

    @pytest.mark.parametrize("chunk", [1, 2, 3, 1 << 20])
    def test_loses_its_duplicates(self, folder, monkeypatch, chunk):
        """In each corpus by itself, whatever is read at a time."""
        monkeypatch.setattr(prepared, "CHUNK_ROWS", chunk)
        writer = StoreWriter(folder, (100, 100))
        corpus = [
            block([[1], [2, 2], [1]], [[11], [12], [13]], hashes={0: [5, 6, 5]}),
            block([[3, 3, 3], [4]], [[14], [15]], drop_reasons=[KEPT, 0, KEPT], hashes={0: [6, 0, 7]}),
        ]
        counts = [writer.write(corpus), writer.write(corpus), writer.write([block([[8]], [[18]])])]
        pairs = writer.finish()
        assert rows_of(pairs.source) == [[1], [2, 2], [4]] * 2 + [[8]]
        assert rows_of(pairs.target) == [[11], [12], [15]] * 2 + [[18]]
        assert [(one.rows, one.kept, dict(one.dropped)) for one in counts] == [(6, 3, {0: 3})] * 2 + [(1, 1, {})]
        assert pairs.corpus_size.pairs == 7 and pairs.corpus_size.source_tokens == 9


def slow_settling(drop_reasons, hashes):
    """Fates after duplicates: row by row, step by step, with a set for each."""
    final = list(drop_reasons)
    for step in sorted(hashes):
        seen = set()
        for row, number in enumerate(hashes[step]):
            if number and (final[row] in (KEPT, TOO_LONG, BLANK) or final[row] > step):
                if number in seen:
                    final[row] = step
                seen.add(number)
    return final


@st.composite
def settled_rows(draw):
    """Rows of a pipeline whose steps 1 and 3 look for duplicates, cut into blocks."""
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        reason = draw(st.sampled_from([KEPT, KEPT, KEPT, TOO_LONG, UNREADABLE, BLANK, 0, 2, 4]))
        reached = -1 if reason == UNREADABLE else 9 if reason < 0 else reason
        if reason == BLANK and draw(st.booleans()):
            reached = -1
        hashes = [draw(st.integers(1, 4)) if reached > step else 0 for step in (1, 3)]
        rows.append((reason, *hashes))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    return rows, [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@given(settled_rows())
def test_counts_and_rows_against_a_plain_set(drawn):
    rows, blocks = drawn
    tokenized = []
    for part in blocks:
        kept = [[7]] * sum(reason == KEPT for reason, _, _ in part)
        hashes = {1: [value for _, value, _ in part], 3: [value for _, _, value in part]}
        tokenized.append(block(kept, kept, [reason for reason, _, _ in part], hashes))
    written = []
    counts, keep = count_rows(tokenized, written.append)
    reasons = [reason for reason, _, _ in rows]
    final = slow_settling(reasons, {1: [value for _, value, _ in rows], 3: [value for _, _, value in rows]})
    assert written == tokenized
    assert keep.tolist() == [final[row] == KEPT for row, reason in enumerate(reasons) if reason == KEPT]
    expected = Counter(final)
    assert counts.kept == expected.pop(KEPT, 0) == int(keep.sum())
    assert counts.dropped == expected
    assert counts.rows == len(rows) == counts.kept + sum(counts.dropped.values())


def test_counts_survive_being_written():
    counts = RowCounts(9, 4, Counter({UNREADABLE: 2, 0: 1, TOO_LONG: 2}), Counter({"json": 2}))
    assert RowCounts.from_record(json.loads(json.dumps(counts.record()))) == counts


def test_counts_keep_the_first_messages_and_some_examples():
    first, second = block([], [], [UNREADABLE]), block([], [], [UNREADABLE])
    first.first_errors, second.first_errors = {"json": "f:1: bad"}, {"json": "f:2: bad", "columns": "f:3: few"}
    first.examples, second.examples = {0: [("f:4", Pair("a", "b"))]}, {0: [("f:5", Pair("c", "d"))] * 3}
    counts, _ = count_rows([first, second], lambda _: None, examples=2)
    assert counts.first_errors == {"json": "f:1: bad", "columns": "f:3: few"}
    assert counts.examples == {0: [("f:4", Pair("a", "b")), ("f:5", Pair("c", "d"))]}


def fill(path: Path, writer: StoreWriter):
    writer.write([block([[1], [2, 3]], [[4, 5], [6]])])
    return {"more": "said"}


@pytest.fixture
def made(tmp_path):
    PreparedFolder.create(tmp_path / "deep" / "made", (9, 70_000), fill)
    return tmp_path / "deep" / "made"


class TestAFolder:
    def test_opens_as_it_was_made(self, made):
        opened = PreparedFolder.open(made)
        assert rows_of(opened.pairs.source) == [[1], [2, 3]] and rows_of(opened.pairs.target) == [[4, 5], [6]]
        assert opened.about["more"] == "said" and tuple(opened.pairs.corpus_size) == (2, 3, 3, 2, 2)
        assert all(isinstance(one.base, np.memmap) for one in (opened.pairs.source.values, opened.pairs.source.offsets))
        names = {path.name for path in made.iterdir()}
        assert names == {"about.json", "source.ids", "source.starts", "target.ids", "target.starts"}
        assert [path.name for path in made.parent.iterdir()] == ["made"]

    def test_of_nothing(self, tmp_path):
        PreparedFolder.create(tmp_path / "made", (9, 9), lambda *_: {})
        assert len(PreparedFolder.open(tmp_path / "made").pairs) == 0

    @pytest.mark.parametrize(
        "error", [DataError("spoilt"), KeyboardInterrupt(), OSError(28, "No space left on device")]
    )
    def test_that_cannot_be_finished_is_not_there(self, tmp_path, error):
        def spoilt(path, writer):
            fill(path, writer)
            raise error

        with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else DataError) as caught:
            PreparedFolder.create(tmp_path / "made", (9, 9), spoilt)
        assert list(tmp_path.iterdir()) == []
        if isinstance(error, OSError):
            assert str(caught.value) == f"{tmp_path / 'made'}: cannot write: No space left on device; nothing was kept"

    def refusal(self, function, *arguments):
        with pytest.raises(DataError) as caught:
            function(*arguments)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_an_error_of_the_corpus_stays_what_it_is(self, tmp_path):
        def unreadable(path, writer):
            raise FileNotFoundError(2, "No such file or directory", str(tmp_path / "train.tsv"))

        with pytest.raises(FileNotFoundError):
            PreparedFolder.create(tmp_path / "made", (9, 9), unreadable)

    def test_what_killed_processes_left_is_removed(self, tmp_path):
        for name in (".made.part", ".made.4711.part"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "source.ids").write_bytes(b"half")
        PreparedFolder.create(tmp_path / "made", (9, 9), fill)
        assert [path.name for path in tmp_path.iterdir()] == ["made"]

    def test_that_exists_is_not_overwritten(self, made):
        message = self.refusal(PreparedFolder.create, made, (9, 9), fill)
        assert message == f"{made}: already exists; remove it, or choose another folder"

    def test_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "made"
        assert self.refusal(PreparedFolder.create, path, (9, 9), fill).startswith(f"{path}: cannot write: ")

    def test_that_is_none(self, tmp_path):
        wanted = "not a prepared corpus (it has no about.json); see `weft data prepare`"
        assert self.refusal(PreparedFolder.open, tmp_path) == f"{tmp_path}: {wanted}"
        (tmp_path / "file").write_text("")
        assert self.refusal(PreparedFolder.open, tmp_path / "file") == f"{tmp_path / 'file'}: {wanted}"

    @pytest.mark.parametrize("name", ["source.ids", "source.starts", "target.ids", "target.starts"])
    def test_with_a_file_missing_or_cut_short(self, made, name):
        file = made / name
        size = file.stat().st_size
        file.write_bytes(file.read_bytes()[:-1])
        found = self.refusal(PreparedFolder.open, made)
        assert found == f"{file}: damaged: {size - 1} bytes, expected {size}; remove {made} and prepare it again"
        file.unlink()
        assert self.refusal(PreparedFolder.open, made) == f"{file}: missing; remove {made} and prepare it again"

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda text: "",
            lambda text: text[: len(text) // 2],
            lambda text: "[]",
            lambda text: "{}",
            lambda text: text.replace('"weft_prepared": 2', '"weft_prepared": "one"'),
            lambda text: text.replace('"pairs"', '"pears"'),
            lambda text: text.replace('"uint16"', '"word"'),
            lambda text: "\udc80",
        ],
    )
    def test_with_a_damaged_description(self, made, spoil):
        about = made / "about.json"
        about.write_bytes(spoil(about.read_text("utf-8")).encode("utf-8", "surrogateescape"))
        assert self.refusal(PreparedFolder.open, made) == f"{about}: damaged; remove {made} and prepare it again"

    def test_of_a_newer_weft(self, made):
        about = json.loads((made / "about.json").read_text("utf-8"))
        (made / "about.json").write_text(json.dumps({**about, "weft_prepared": 7}), "utf-8")
        message = self.refusal(PreparedFolder.open, made)
        assert message == f"{made}: prepared by a newer weft (format 7, this one reads 2)"


def test_a_store_in_memory_is_bounded():
    writer = StoreWriter(None, (100, 100))
    writer.max_bytes = 50
    block = TokenizedBlock()
    block.source = block.target = FlatSequences(np.arange(8, dtype=np.int32), np.array([4, 4]))
    writer._write_block(block)
    with pytest.raises(
        DataError, match=r"^data\.train: 4 tokenized pairs take over 50 bytes, half of the memory; keep"
    ):
        writer._write_block(block)


def test_every_flipped_bit_of_a_store_is_noticed(tmp_path):
    store = shutil.copytree(FORMATS / "checksums" / "store", tmp_path / "store")
    PreparedFolder.open(store)
    for file in sorted(store.iterdir()):
        content = file.read_bytes()
        for position in range(0, len(content), 7):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 7
            file.write_bytes(damaged)
            try:
                opened = PreparedFolder.open(store)
            except DataError as error:
                assert "\n" not in str(error)
            else:  # a letter of the word itself: then it is a store without a checksum
                assert file.name == "about.json" and "crc32" not in opened.about and b'"crc32"' not in damaged
        file.write_bytes(content)


def test_every_missing_file_of_a_store_is_noticed(tmp_path):
    """A tokenizer too: the other one alone would look like a joint vocabulary."""
    for name in sorted(path.name for path in (FORMATS / "checksums" / "store").iterdir()):
        store = shutil.copytree(FORMATS / "checksums" / "store", tmp_path / name)
        (store / name).unlink()
        with pytest.raises(DataError) as refused:
            PreparedFolder.open(store)
        assert "\n" not in str(refused.value) and str(refused.value).startswith(str(store))
