"""Parts by a hash of the source."""

from __future__ import annotations

from collections import Counter

import pytest

from weft.data.splitting import SplitShares, parts_of, split_shares


def test_shares() -> None:
    assert split_shares(9) == SplitShares(0.0, 0.0)
    assert split_shares(10) == SplitShares(1 / 16, 1 / 16)
    assert split_shares(30_000) == SplitShares(1 / 16, 1 / 16)
    assert split_shares(32_000) == SplitShares(1 / 16, 1 / 16), "2,000 pairs each, no more than that"
    assert split_shares(32_016) == SplitShares(1 / 32, 1 / 32), "2,001 would be more"
    assert split_shares(1_000_000) == SplitShares(1 / 512, 1 / 512)
    assert split_shares(1_000, test=False) == SplitShares(1 / 16, 0.0)
    assert split_shares(1_000, valid=False) == SplitShares(0.0, 1 / 16)


def test_parts_have_their_shares() -> None:
    counts = Counter(parts_of((f"source {number}" for number in range(20_000)), SplitShares(0.1, 0.2)))
    assert counts["valid"] == pytest.approx(2_000, rel=0.1)
    assert counts["test"] == pytest.approx(4_000, rel=0.1)


def test_a_source_is_in_one_part_wherever_it_stands() -> None:
    sources = [f"source {number}" for number in range(200)]
    shares = SplitShares(0.25, 0.25)
    expected = dict(zip(sources, parts_of(sources, shares), strict=True))
    for source in reversed(sources):
        assert parts_of([f" {source}\t"], shares) == [expected[source]]


def test_the_same_on_every_machine() -> None:
    """A change of these values would move pairs between the parts of existing runs."""
    sources = ["a", "b", "c", "d", "e", "ü", "日本", ""]
    assert parts_of(sources, SplitShares(0.25, 0.25)) == [
        "train",
        "valid",
        "train",
        "train",
        "train",
        "test",
        "valid",
        "test",
    ]


def test_a_larger_share_keeps_what_was_in_the_test_part() -> None:
    sources = [f"source {number}" for number in range(500)]
    small, large = (parts_of(sources, SplitShares(0.1, share)) for share in (0.1, 0.2))
    assert all(after == "test" for before, after in zip(small, large, strict=True) if before == "test")
