"""Packed files, pipes, and what can be wrong with them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.pairs import Pair
from weft.data.reading.compression import compression_of, inner_name
from weft.data.reading.corpora import TextPairs, read
from weft.data.reading.lines import read_lines
from weft.data.reading.pair_files import read_pairs, write_pairs
from weft.data.reading.text_files import open_rereadable
from weft.errors import DataError

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}
every = pytest.mark.parametrize("suffix", PACK)


def contents(path: Path) -> bytes:
    with open_rereadable(path) as file:
        return file.read()


def failure(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(read(TextPairs((str(path),))))
    with pytest.raises(DataError) as again:
        list(read_lines(path))
    assert str(again.value) == str(caught.value) or "(after line" in str(caught.value)
    return str(caught.value)


@every
@settings(max_examples=30)
@given(pieces=st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_archives_end_to_end_are_all_read(
    suffix: str, pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"ends{suffix}"
    path.write_bytes(b"".join(map(PACK[suffix], pieces)))
    assert contents(path) == b"".join(pieces)


@every
def test_large_archives_end_to_end(suffix: str, tmp_path: Path) -> None:
    piece = os.urandom(300_000) + bytes(700_000)
    (tmp_path / f"large{suffix}").write_bytes(PACK[suffix](piece) * 2)
    assert contents(tmp_path / f"large{suffix}") == piece * 2


@every
def test_what_is_no_archive(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    called = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}[suffix]
    for content in (b"", b"a\tb\n"):
        path.write_bytes(content)
        assert failure(path) == f"{path}: not a {called} file, though its name ends in {suffix}"


@every
@pytest.mark.parametrize("lines", [3, 100_000])
def test_a_cut_off_archive_says_after_which_line(tmp_path: Path, suffix: str, lines: int) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    whole = PACK[suffix](b"".join(b"%d\tb\n" % number for number in range(lines)))
    called = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}[suffix]
    for left in (len(whole) - 1, len(whole) * 2 // 3, 7):
        path.write_bytes(whole[:left])
        given = []
        with pytest.raises(DataError) as caught:
            for pair in read_pairs(path):
                given.append(int(pair.source))
        assert str(caught.value) == f"{path}: damaged {called} file (after line {len(given)})"
        assert given == list(range(len(given)))


@every
def test_what_stands_after_an_archive_is_not_passed_over(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    whole = PACK[suffix](b"a\tb\n")
    for rest in (b"plain text", whole[:-2], whole[:3]):
        path.write_bytes(whole + rest)
        assert ": damaged " in failure(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_padding_is_no_damage(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = PACK[suffix](b"a\n")
    path.write_bytes(whole + bytes(512) + whole + bytes(300_000))
    assert contents(path) == b"a\na\n"


@every
def test_a_changed_byte_is_an_error_or_changes_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    content = b"some\ttext\n" * 5
    whole = PACK[suffix](content)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = [f"{pair.source}\t{pair.target}\n" for pair in read_pairs(path)]
        except DataError as error:
            assert "\n" not in str(error)
        else:
            # pyarrow writes zstd frames without a checksum, so there a byte of the text may change
            assert "".join(found).encode() == content or suffix == ".zst"


def test_names() -> None:
    assert inner_name("x/data.tsv.gz") == "data.tsv" and inner_name("data.csv") == "data.csv"
    assert compression_of("A.GZ") and compression_of("-") is None and compression_of("a.gz.tsv") is None


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_written_pairs_are_packed_as_the_name_says(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p.tsv{suffix}"
    pairs = [Pair("a b", "c", ((0, 0),)), Pair("é", "", None)] * 100
    assert write_pairs(path, pairs) == 200
    packing = compression_of(path)
    assert packing is None or path.read_bytes().startswith(packing.magics)
    assert list(read_pairs(path)) == pairs and [*tmp_path.iterdir()] == [path]
    before = path.read_bytes()
    write_pairs(path, pairs)
    assert path.read_bytes() == before, "the same pairs make the same bytes"


@pytest.mark.parametrize("suffix", PACK)
def test_a_pair_that_cannot_be_written_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p.tsv{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(DataError, match=r"pair 2: a tab in the text"):
        write_pairs(path, [Pair("x", "y"), Pair("\t", "")])
    assert path.read_bytes() == b"old" and [*tmp_path.iterdir()] == [path]


def test_pyarrow_is_asked_for_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(PACK[".zst"](b"a\tb\n"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"a\.zst: needs pyarrow; pip install pyarrow$"):
        list(read_pairs(path))
