"""The profile of tables whose sources name pictures, frames or sound."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fixtures.kinds_of_pictures import frames, lines, write_table
from weft.data.arrays.files import ArrayFiles
from weft.data.columns.rows import PairInput
from weft.errors import DataError
from weft.pairs.profiling.arrays import ArraySample, NamedArray, profile_arrays
from weft.pairs.profiling.profile import profile_pairs, profile_parts


def test_pictures_by_their_sizes_ink_and_files_that_cannot_be_read(tmp_path: Path) -> None:
    table = lines(30)
    path = write_table(tmp_path, table)
    (tmp_path / table[3][0]).unlink()
    (tmp_path / table[8][0]).write_bytes(b"no picture")
    arrays = profile_pairs(PairInput(str(path))).arrays
    assert arrays is not None and (arrays.kind, arrays.sampled, arrays.unreadable) == ("picture", 30, 2)
    read = [picture for number, (_, picture, _) in enumerate(table) if number not in (3, 8)]
    widths = sorted(picture.shape[1] for picture in read)
    assert arrays.heights == (24, 24, 24) and (arrays.widths[0], arrays.widths[2]) == (widths[0], widths[-1])
    assert arrays.values == pytest.approx(np.mean([picture.size for picture in read]))
    assert 0.05 < arrays.ink < 0.4 and arrays.colored == arrays.latex == 0
    assert arrays.follows_width is not None and arrays.follows_width > 0.8
    assert arrays.errors[0] == f"{path}:4: {table[3][0]}: no such file"
    assert arrays.errors[1].startswith(f"{path}:9: {table[8][0]}: not a picture")
    assert json.dumps(arrays.record()) and arrays.describe().startswith("24 × ")


def test_frames(tmp_path: Path) -> None:
    arrays = profile_pairs(PairInput(str(write_table(tmp_path, frames(20))))).arrays
    assert arrays is not None and (arrays.kind, arrays.widths) == ("frames", (24, 24, 24))
    assert arrays.describe().split(",")[0].endswith("frames of 24 values") and arrays.frames_per_character > 3


def test_texts_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"open image {n}.png\tx {n}\nplease read {n}\ty\n" for n in range(40)))
    assert profile_pairs(PairInput(str(tmp_path / "a.tsv"))).arrays is None


def test_a_table_without_its_files_is_refused(tmp_path: Path) -> None:
    table = lines(10)
    path = write_table(tmp_path, table)
    for name, *_ in table[2:]:
        (tmp_path / name).unlink()
    with pytest.raises(DataError, match=r"pairs\.tsv:3: .*: no such file; of 10 files looked at, 2 can be read$"):
        profile_pairs(PairInput(str(path)))


def test_names_may_not_leave_the_folder(tmp_path: Path) -> None:
    write_table(tmp_path, lines(4))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.tsv").write_text("".join(f"../{line}\n" for line in (tmp_path / "pairs.tsv").open()))
    with pytest.raises(DataError, match="outside the folder of its table"):
        profile_pairs(PairInput(str(tmp_path / "inner/a.tsv")))


def test_the_sample_is_even_and_bounded() -> None:
    sample = ArraySample(max_rows=8)
    for line in range(100):
        sample.add("a.tsv", line, f"{line}.png", "x")
    assert len(sample.rows) <= 8 and [row.line for row in sample.rows] == list(range(0, 100, 16))
    assert sample.named == 100


def test_pixels_that_are_read_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lines(20)
    path = write_table(tmp_path, table)
    monkeypatch.setattr("weft.pairs.profiling.arrays.READ_VALUES", 3_000)
    arrays = profile_pairs(PairInput(str(path))).arrays
    assert arrays is not None and 2 <= arrays.sampled < 10


def test_other_parts_are_looked_at_too(tmp_path: Path) -> None:
    table = lines(30)
    train = write_table(tmp_path, table[:20], "train.tsv")
    valid = write_table(tmp_path, table[20:], "valid.tsv")
    (tmp_path / table[25][0]).unlink()
    profile = profile_parts({"train": PairInput(str(train)), "valid": PairInput(str(valid))})
    assert "1 row that cannot be read is left out" in profile.part_errors["valid"]
    assert f"{valid}:6" in profile.part_errors["valid"]


def test_texts_that_parts_share(tmp_path: Path) -> None:
    table = [(name, array, f"text {number % 5}") for number, (name, array, *_) in enumerate(lines(12))]
    new = [(name, array, f"new {name}") for name, array, *_ in lines(16)[12:]]
    parts = {"train": table[:8], "valid": [*table[8:], *new], "test": new}
    inputs = {part: PairInput(str(write_table(tmp_path, rows, f"{part}.tsv"))) for part, rows in parts.items()}
    assert profile_parts(inputs).target_overlaps == {"valid": 0.5, "test": 0.0}


def test_another_reader(tmp_path: Path) -> None:
    table = lines(3)
    write_table(tmp_path, table)
    with ArrayFiles(tmp_path) as files:
        rows = [NamedArray("a.tsv", 1, name, text) for name, _, text in table]
        assert profile_arrays(rows, lambda row: files.read(row.name)).sampled == 3
