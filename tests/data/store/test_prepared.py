"""A token store in a folder: opened as it was written, or refused in one line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fixtures.tokenized_blocks import block, rows_of
from weft.data.store.prepared import PreparedFolder
from weft.data.store.token_store import StoreWriter
from weft.errors import DataError

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"


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
