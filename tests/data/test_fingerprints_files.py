"""Fingerprints of data files: what changes them, what does not, and damaged records."""

import os
import shutil

import pytest

from weft.data import fingerprints as data_record
from weft.data.fingerprints import DATA_FILES, DataRecord, FileFingerprint
from weft.errors import CheckpointError


def test_contents_alone_count(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_bytes(b"a\tb\n")
    fingerprint = FileFingerprint.of(file)
    (tmp_path / "folder").mkdir()
    shutil.copy(file, tmp_path / "folder" / "copy.tsv")
    os.utime(tmp_path / "folder" / "copy.tsv", (1, 1))
    assert fingerprint.is_of(tmp_path / "folder" / "copy.tsv")
    file.write_bytes(b"a\tc\n")
    assert not fingerprint.is_of(file)
    file.write_bytes(b"a\tb\nc\td\n")
    assert not fingerprint.is_of(file)
    assert not fingerprint.is_of(tmp_path / "gone")
    assert not fingerprint.is_of(tmp_path)


def test_a_change_of_a_moment_is_noticed(tmp_path):
    """Of the same size and, where a clock is coarse, of the same time: the hash is not that of another version."""
    file = tmp_path / "pairs.tsv"
    for text in (b"a\tb\n", b"a\tc\n"):
        file.unlink(missing_ok=True)
        file.write_bytes(text)
        fingerprint = FileFingerprint.of(file)
    other = tmp_path / "other.tsv"
    other.write_bytes(b"a\tc\n")
    assert fingerprint.is_of(other)


def noticed(fingerprint, content, tmp_path):
    """The positions at which a changed byte is noticed."""
    positions = []
    for position in range(len(content)):
        other = tmp_path / f"changed-{position}"
        other.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        if not fingerprint.is_of(other):
            positions.append(position)
    return positions


def test_pieces_of_large_files(tmp_path, monkeypatch):
    """The first and the last byte, and the size, are among what is hashed."""
    monkeypatch.setattr(data_record, "WHOLE_BYTES", 400)
    monkeypatch.setattr(data_record, "PIECE_BYTES", 10)
    monkeypatch.setattr(data_record, "ALL_PIECES", 8)
    content = bytes(range(200)) * 2
    paths = [tmp_path / name for name in ("a", "b", "small", "gone")]
    for path, size in zip(paths[:3], (400, 400, 25), strict=True):
        path.write_bytes(content[:size])
    [whole] = FileFingerprint.of_all(paths[:1])
    assert whole.pieces == 0 and noticed(whole, content, tmp_path) == [*range(400)]
    first, second = FileFingerprint.of_all(paths[:2])  # together they are large
    assert first.pieces == 4
    assert noticed(first, content, tmp_path) == [*range(10), *range(130, 140), *range(260, 270), *range(390, 400)]
    assert first.sha256 == second.sha256 != whole.sha256
    (tmp_path / "longer").write_bytes(content[:50] + b"x" + content[50:])
    assert not first.is_of(tmp_path / "longer")
    *_, small = FileFingerprint.of_all(paths)  # three pieces would overlap
    assert small.pieces == 3 and noticed(small, content[:25], tmp_path) == [*range(25)]
    monkeypatch.setattr(data_record, "ALL_PIECES", 1 << 20)
    assert FileFingerprint.of_all(paths[:2])[0].pieces == 1024


def test_saved_and_loaded(tmp_path):
    assert DataRecord.load(tmp_path) is None
    record = DataRecord({"train": [FileFingerprint("ä.tsv", 3, "00", 4)], "valid": []})
    record.save(tmp_path)
    assert DataRecord.load(tmp_path) == record


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "damaged; remove it"),
        ("{", "damaged; it is not valid JSON (line 1, column 2)"),
        ('{"weft_data_files": 1, "files": {"train": [{}]}}', "damaged; remove it"),
        (
            '{"weft_data_files": 1, "files": {"train": [{"name": "a", "size": 1, "sha256": "", "pieces": 2}]}}',
            "damaged; remove it",
        ),
        ('{"weft_data_files": 1, "files": []}', "damaged; remove it"),
        ('{"weft_data_files": 9, "files": {}}', "written by another version of weft; remove it"),
    ],
)
def test_damaged(tmp_path, content, reason):
    (tmp_path / DATA_FILES).write_text(content, "utf-8")
    with pytest.raises(CheckpointError) as caught:
        DataRecord.load(tmp_path)
    assert str(caught.value) == f"{tmp_path / DATA_FILES}: {reason}"
