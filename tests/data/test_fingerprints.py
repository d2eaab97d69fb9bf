"""Fingerprints of pairs: which test pairs a run was trained on, within bounded memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from weft.data import fingerprints as module
from weft.data.fingerprints import (
    FINGERPRINTS,
    FingerprintCollector,
    Fingerprints,
    Overlap,
    fingerprint,
    length_divisor_for,
)
from weft.data.pairs import Pair
from weft.errors import CheckpointError

PAIRS = [Pair(f"source {number % 700}", f"target {number}") for number in range(1000)]


def collected(pairs: list[Pair], **options: int) -> Fingerprints:
    collector = FingerprintCollector(**options)
    for start in range(0, len(pairs), 37):
        part = pairs[start : start + 37]
        collector.add(fingerprint(part, length_divisor=collector.length_divisor))
    return collector.finish()


def test_source_alone_and_with_its_target() -> None:
    known = collected(PAIRS)
    test = [PAIRS[3], Pair("source 3", "another"), Pair("source", "target 3"), Pair("target 3", "source 3"), PAIRS[999]]
    assert known.overlap(test) == Overlap(sources=3, pairs=2, compared=5, total=5)
    assert known.overlap([]) == Overlap(0, 0, 0, 0)
    assert collected([]).overlap(test) == Overlap(0, 0, 5, 5)


def test_a_pair_is_eight_bytes_and_counts_once() -> None:
    known = collected(PAIRS * 3)
    assert known.values.nbytes == 8 * 1000 and (np.diff(known.values.astype(object)) > 0).all()


def test_a_large_corpus_is_sampled_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has a limit; what is compared is then a sample, for which the counts are exact."""
    known = collected(PAIRS, max_pairs=100)
    assert 0 < len(known.values) <= 100 and known.hash_bits >= 3
    overlap = known.overlap([*PAIRS, *(Pair(f"new {number}", "") for number in range(1000))])
    assert overlap.pairs == len(known.values)
    assert overlap.sources == overlap.pairs and overlap.total == 2000
    assert overlap.pairs < overlap.compared < 400


def test_a_huge_corpus_is_sampled_by_length() -> None:
    known = collected(PAIRS, length_divisor=2)
    kept = [pair for pair in PAIRS if len(pair.source) % 2 == 0]
    assert len(known.values) == len(kept) < 1000
    assert known.overlap(PAIRS) == Overlap(len(kept), len(kept), len(kept), 1000)
    sizes = [0, 1, module.WHOLE_BYTES, module.WHOLE_BYTES + 1, 5 * module.WHOLE_BYTES, 1 << 40]
    assert [length_divisor_for(size) for size in sizes] == [1, 1, 1, 2, 8, 4096]


def test_a_language_model_compares_its_texts() -> None:
    collector = FingerprintCollector(sources=False)
    collector.add(fingerprint([Pair("", "a b"), Pair("ignored", "c")], sources=False))
    overlap = collector.finish().overlap([Pair("", "c"), Pair("x", "a b"), Pair("", "d")])
    assert overlap.describe() == "2 of 3 texts are in the training data"


def test_the_sentence() -> None:
    assert Overlap(37, 12, 280, 280).describe() == (
        "37 of 280 pairs have a source in the training data, 12 with the same target"
    )
    assert Overlap(1, 0, 12, 2800).describe() == (
        "1 of 12 pairs (a sample of 2,800) has a source in the training data, 0 with the same target"
    )


def test_a_folder_keeps_them(tmp_path: Path) -> None:
    assert Fingerprints.load(tmp_path) is None
    for known in (collected(PAIRS, max_pairs=100, length_divisor=2), collected([]), collected(PAIRS)):
        known.save(tmp_path)
        loaded = Fingerprints.load(tmp_path)
        assert loaded is not None and loaded[1:] == known[1:] and np.array_equal(loaded.values, known.values)
    assert (tmp_path / FINGERPRINTS).stat().st_size < 8 * 1000 + 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]\n",
        b'{"weft_fingerprints": 2}\n',
        b'{"weft_fingerprints": 1}\n',
        b'{"weft_fingerprints": 1, "hash_bits": 0, "length_divisor": 0}\n',
        b'{"weft_fingerprints": 1, "hash_bits": 99, "length_divisor": 1}\n',
        b'{"weft_fingerprints": 1, "hash_bits": 0, "length_divisor": 1}\n1234567',
        b'{"weft_fingerprints": 1, "hash_bits": 0, "length_divisor": 1}\n' + bytes(8 * module.MAX_PAIRS + 1001),
    ],
    ids=range(9),
)
def test_a_damaged_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FINGERPRINTS).write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        Fingerprints.load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / FINGERPRINTS}: ") and "\n" not in str(caught.value)


def test_the_header_is_json(tmp_path: Path) -> None:
    collected(PAIRS).save(tmp_path)
    header = json.loads((tmp_path / FINGERPRINTS).read_bytes().split(b"\n")[0])
    assert header == {"weft_fingerprints": 1, "hash_bits": 0, "length_divisor": 1, "sources": True}


def test_which_sources_are_known() -> None:
    test = [PAIRS[3], Pair("source", ""), Pair("source 4", "another")]
    assert collected(PAIRS).known_sources(test) == [True, False, True]
    assert collected(PAIRS).known_sources([]) == []
    by_length = collected(PAIRS, length_divisor=2).known_sources(test)  # of 8, 6 and 8 characters
    assert by_length == [True, False, True]
    assert collected(PAIRS, length_divisor=2).known_sources([Pair("source 12", "")]) == [None]
    sampled = collected(PAIRS, max_pairs=100)
    known = sampled.known_sources(PAIRS)
    assert known.count(True) == sampled.overlap(PAIRS).sources and known.count(None) == 1000 - known.count(True)


def test_those_of_two_corpora() -> None:
    """A run that went on with other data was trained on both."""
    both = collected(PAIRS[:600]).merged(collected(PAIRS[400:]))
    assert both.values.tolist() == collected(PAIRS).values.tolist()
    whole, sampled = collected(PAIRS[:600]), collected(PAIRS[400:], max_pairs=100)
    for merged in (whole.merged(sampled), sampled.merged(whole)):
        known = merged.known_sources(PAIRS)
        assert merged.hash_bits == sampled.hash_bits > 0 and True in known and False not in known
    other = collected(PAIRS[:10], length_divisor=2)
    assert whole.merged(other) is other
