"""Corpora of arrays: names relative to their table, blocks of few rows, and rows that cannot be read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fixtures.archives import write_zip
from weft.data.arrays import files
from weft.data.arrays.archives import open_archive
from weft.data.arrays.corpus import BLOCK_ARRAYS, ArrayBlock, ArrayCorpus, array_corpus, check_source, read_source
from weft.data.arrays.png import png_bytes
from weft.data.arrays.tokenizer import PictureTokenizer
from weft.data.pairs import Pair, RowError
from weft.data.preparation import prepare, read_corpus
from weft.data.reading.corpora import pair_file
from weft.errors import DataError, RecipeError
from weft.packed import shape_of
from weft.recipe import Recipe


def table(folder: Path, names: list[str]) -> Path:
    """A table of pictures in a folder, each with its number as its text."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        if name.startswith("pictures/") and not (folder / name).exists():
            Image.fromarray(np.full((5, 7 + number % 3), number % 256, np.uint8)).save(folder / name)
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{name}\t{number}\n" for number, name in enumerate(names)))
    return file


def recipe(file: Path, **data: object) -> Recipe:
    return Recipe.model_validate(
        {
            "data": {"train": str(file), "valid": str(file), **data},
            "tokenizer": {"kind": "picture", "target_kind": "character", "joint": False},
            "model": {"stem": {"kind": "columns"}},
        }
    )


def rows_of(file: Path, *, outside: bool = False) -> list[Pair | RowError]:
    corpus = array_corpus(pair_file(str(file), sources=1), str(file), outside=outside)
    return [row for block in corpus.blocks() for _, row in block.rows()]


def test_names_are_relative_to_the_table(tmp_path: Path) -> None:
    rows = rows_of(table(tmp_path, ["pictures/a.png", "data:image/png;base64,", " "]))
    assert [row.source for row in rows if isinstance(row, Pair)] == [
        str(tmp_path / "pictures/a.png"), "data:image/png;base64,", " "
    ]  # fmt: skip


def test_blocks_hold_few_arrays_and_keep_line_numbers(tmp_path: Path) -> None:
    file = table(tmp_path, [f"pictures/{number}.png" for number in range(BLOCK_ARRAYS + 3)])
    corpus = array_corpus(pair_file(str(file), sources=1), str(file), outside=False)
    blocks = list(corpus.blocks())
    assert [len(list(block.rows())) for block in blocks] == [BLOCK_ARRAYS, 3]
    assert [number for number, _ in blocks[1].rows()] == [BLOCK_ARRAYS + 1, BLOCK_ARRAYS + 2, BLOCK_ARRAYS + 3]
    assert corpus.files() == [file] and corpus.paths() == (str(file),)


def test_names_outside_of_the_folder(tmp_path: Path) -> None:
    [row] = rows_of(table(tmp_path / "inner", ["../secret.png"]))
    assert isinstance(row, RowError)
    assert row.message.startswith(f"{tmp_path}/inner/pairs.tsv:1: ../secret.png: outside the folder of its table")
    (tmp_path / "secret.png").touch()
    [row] = rows_of(table(tmp_path / "inner", ["../secret.png"]), outside=True)
    assert isinstance(row, Pair)


def test_archives_outside_of_the_folder_are_not_searched(tmp_path: Path) -> None:
    """Neither through a link nor in the parent: the tokenizer, which may read anything, is given no other name."""
    file = table(tmp_path / "home" / "inner", ["a.png"])
    (tmp_path / "other").mkdir()
    for archive, member in (("other/secret.zip", "a.png"), ("home/secret.zip", "inner/a.png")):
        write_zip(tmp_path / archive, {member: png_bytes(np.zeros((3, 4), np.uint8))})
    [row] = rows_of(file)
    assert isinstance(row, RowError) and row.message.endswith("pairs.tsv:1: a.png: no such file")
    (file.parent / "linked.zip").symlink_to(tmp_path / "other" / "secret.zip")
    [row] = rows_of(file)
    assert isinstance(row, RowError) and "a link that leaves the folder of its table" in row.message


def test_members_of_archives_beside_the_table_are_read(tmp_path: Path) -> None:
    file = table(tmp_path, ["a.png", "pictures.zip/a.png", "pictures/a.png", "b.png"])
    (tmp_path / "pictures" / "a.png").unlink()
    (tmp_path / "pictures").rmdir()
    write_zip(tmp_path / "pictures.zip", {"a.png": png_bytes(np.zeros((3, 4), np.uint8))})
    *rows, missing = rows_of(file)
    assert [row.source for row in rows if isinstance(row, Pair)] == [str(tmp_path / "pictures.zip/a.png")] * 3
    assert PictureTokenizer(channels=1).read(rows[0].source).shape == (3, 4, 1)
    assert isinstance(missing, RowError) and missing.message.endswith("b.png: no such file")


def test_an_archive_is_opened_once_for_all_blocks_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = table(tmp_path, ["a.png"] * 3)
    write_zip(tmp_path / "pictures.zip", {"a.png": png_bytes(np.zeros((3, 4), np.uint8))})
    whole = pair_file(str(file), sources=1)
    blocks = [ArrayBlock(str(file), (row,)) for block in whole.blocks() for row in block.rows()]
    opened: list[Path] = []

    def counted(path: Path, name: str) -> Any:
        opened.append(path)
        return open_archive(path, name)

    monkeypatch.setattr(files, "open_archive", counted)
    corpus: Any = SimpleNamespace(blocks=lambda: iter(blocks))
    rows = [row for block in ArrayCorpus(corpus).blocks() for _, row in block.rows()]
    assert [row.source for row in rows if isinstance(row, Pair)] == [str(tmp_path / "pictures.zip/a.png")] * 3
    assert opened == [tmp_path / "pictures.zip"]


def test_drawings_of_a_built_in_corpus_have_its_name(tmp_path: Path) -> None:
    corpus = array_corpus(pair_file(str(table(tmp_path, ["a"])), sources=1), "drawn-digits", outside=False)
    [(_, row)] = [row for block in corpus.blocks() for row in block.rows()]
    assert isinstance(row, Pair) and row.source == "drawn-digits:a"


def test_a_source_is_read_or_is_an_error(tmp_path: Path) -> None:
    table(tmp_path, ["pictures/a.png"])
    tokenizer = PictureTokenizer(channels=1)
    name = str(tmp_path / "pictures/a.png")
    assert isinstance(read_source(tokenizer, name, "x:1"), np.ndarray) and check_source(tokenizer, name, "x:1") is None
    assert check_source(tokenizer, "b.png", "x.tsv:7") == RowError("array", "x.tsv:7: b.png: no such file")


class TestPreparing:
    def test_drawings_are_not_read_as_texts(self) -> None:
        with pytest.raises(RecipeError) as error:
            prepare(Recipe.model_validate({"data": {"train": "drawn-digits", "train_size": 3}}))
        expected = "tokenizer.kind: 'bpe' would read the names of the pictures of 'drawn-digits'; set it to 'picture'"
        assert str(error.value) == expected

    def test_drawings(self) -> None:
        drawn = {"train": "drawn-digits", "train_size": 7}
        tokenizer = {"kind": "picture", "target_kind": "character", "joint": False}
        stem = {"stem": {"kind": "columns"}}
        corpus = prepare(Recipe.model_validate({"data": drawn, "tokenizer": tokenizer, "model": stem}))
        store = corpus.data.pairs.source  # type: ignore[attr-defined]
        assert [shape_of(store.values_of(np.array([row]))).height for row in range(7)] == [24] * 7

    def test_pictures_of_every_size(self, tmp_path: Path) -> None:
        names = [f"pictures/{number}.png" for number in range(BLOCK_ARRAYS + 3)]
        corpus = prepare(recipe(table(tmp_path, names)))
        store = corpus.data.pairs.source  # type: ignore[attr-defined]
        assert store.values.dtype == np.uint8 and len(store) == corpus.pairs == len(names)
        assert corpus.length_limits.max_ratio == 0.0

    def test_a_row_that_cannot_be_read_is_an_error_with_its_line(self, tmp_path: Path) -> None:
        file = table(tmp_path, ["pictures/a.png", "missing.png", "pictures/b.png"])
        message = rf"{file}:2: missing.png: no such file; fix it, or set data.bad_rows = 'skip'"
        with pytest.raises(DataError) as error:
            prepare(recipe(file))
        assert str(error.value) == message
        with pytest.raises(DataError) as error:
            list(read_corpus(recipe(file), "valid"))
        assert str(error.value) == message

    def test_or_it_is_skipped_and_counted(self, tmp_path: Path) -> None:
        file = table(tmp_path, ["pictures/a.png", "missing.png", "../b.png", "pictures/b.png"])
        skipping = recipe(file, bad_rows="skip")
        corpus = prepare(skipping)
        assert corpus.pairs == 2 and corpus.counts[0].row_errors == {"array": 2}
        assert [pair.target for pair in read_corpus(skipping, "valid")] == ["0", "3"]

    def test_a_prepared_folder_is_mapped(self, tmp_path: Path) -> None:
        file = table(tmp_path, ["pictures/a.png", "pictures/b.png"])
        stored = recipe(file, prepared=str(tmp_path / "prepared"))
        first, second = prepare(stored).data.pairs, prepare(stored).data.pairs  # type: ignore[attr-defined]
        assert second.source.values.dtype == np.uint8
        batch, again = (pairs.batch(np.array([1, 0])) for pairs in (first, second))
        assert batch.source.values.tolist() == again.source.values.tolist()
