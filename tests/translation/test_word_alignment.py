"""Attention over words, and the links that are read off it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.translation.results import Translation, WordAttention, empty_translation
from weft.translation.word_alignment import align_words, attention_view, links_from_weights, merge_weights, word_indices

# Three target words over five source positions, the last of them the end token.
WEIGHTS_TS = np.array(
    [
        [0.50, 0.30, 0.10, 0.05, 0.05],
        [0.05, 0.05, 0.10, 0.10, 0.70],
        [0.00, 0.10, 0.40, 0.39, 0.11],
    ]
)


def test_each_target_word_links_to_its_largest_weight() -> None:
    assert links_from_weights(WEIGHTS_TS) == [(0, 0), (2, 2), (4, 1)]


def test_null_column_makes_no_link() -> None:
    assert links_from_weights(WEIGHTS_TS, null_column=4) == [(0, 0), (2, 2)]
    assert links_from_weights(WEIGHTS_TS, null_column=-1) == [(0, 0), (2, 2)]
    many = links_from_weights(WEIGHTS_TS, null_column=4, fraction=0.1)
    assert many == [(0, 0), (1, 0), (1, 2), (2, 0), (2, 2), (3, 0), (3, 2)]


def test_threshold() -> None:
    assert links_from_weights(WEIGHTS_TS, threshold=0.45) == [(0, 0), (4, 1)]
    assert links_from_weights(np.zeros((3, 2))) == []
    assert links_from_weights(np.full((1, 3), 1 / 3)) == [(0, 0)]


def test_one_to_many() -> None:
    assert links_from_weights(WEIGHTS_TS, fraction=0.6) == [(0, 0), (1, 0), (2, 2), (3, 2), (4, 1)]
    assert links_from_weights(WEIGHTS_TS, fraction=0.6, threshold=0.395) == [(0, 0), (2, 2), (4, 1)]
    assert links_from_weights(np.array([[0.4, 0.4, 0.2]]), fraction=1.0) == [(0, 0), (1, 0)]


def test_links_of_an_empty_matrix() -> None:
    assert links_from_weights(np.zeros((0, 3))) == links_from_weights(np.zeros((3, 0))) == []


@pytest.mark.parametrize(
    ("weights_TS", "options", "message"),
    [
        (np.zeros((2, 3, 5)), {}, "attention weights have 3 axes, expected 2: target × source"),
        (np.array([[np.nan]]), {}, "attention weights are not all finite"),
        (WEIGHTS_TS, {"null_column": 5}, "null column 5 is outside the weights, which have 5 source positions"),
        (WEIGHTS_TS, {"fraction": 0}, "fraction of the largest weight is 0, expected more than 0 and at most 1"),
    ],
)
def test_weights_that_cannot_be_read(weights_TS: np.ndarray, options: dict, message: str) -> None:
    with pytest.raises(DataError) as error:
        links_from_weights(weights_TS, **options)
    assert str(error.value) == message


def test_merging_sums_over_source_tokens_and_averages_over_target_tokens() -> None:
    weights_TS = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.2, 0.1], [0.6, 0.1, 0.1, 0.2]])
    merged = merge_weights(weights_TS, [0, 0, 1, -1], [0, 0, 1])
    np.testing.assert_allclose(merged, [[(0.3 + 0.7) / 2, (0.3 + 0.2) / 2], [0.7, 0.1]])


@given(st.integers(0, 2**32 - 1))
def test_merging_is_the_loop_and_keeps_rows_summing_to_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    weights_TS = random.dirichlet(np.ones(7), size=5)
    source_groups, target_groups = random.integers(-1, 4, size=7).tolist(), random.integers(-1, 3, size=5).tolist()
    merged = merge_weights(weights_TS, source_groups, target_groups, source_words=4, target_words=3)
    for word in range(3):
        members = [i for i, group in enumerate(target_groups) if group == word]
        for other in range(4):
            total = sum(weights_TS[i, j] for i in members for j, group in enumerate(source_groups) if group == other)
            assert merged[word, other] == pytest.approx(total / max(len(members), 1))
    whole = merge_weights(weights_TS, [abs(group) for group in source_groups], [0] * 5)
    np.testing.assert_allclose(whole.sum(axis=1), 1)


def test_an_end_token_with_a_group_of_its_own_stays_the_null_column() -> None:
    merged = merge_weights(WEIGHTS_TS, [0, 0, 1, 1, 2], [0, 1, 2])
    assert links_from_weights(merged, null_column=2) == [(0, 0), (1, 2)]


def test_merging_refuses_groups_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="3 target and 5 source positions, but there are groups for 3 and 4"):
        merge_weights(WEIGHTS_TS, [0, 0, 1, 1], [0, 1, 2])
    with pytest.raises(DataError, match="a token belongs to word 2, but there are only 2 words"):
        merge_weights(WEIGHTS_TS, [0, 0, 1, 1, 2], [0, 1, 2], source_words=2)


def test_a_token_belongs_to_the_word_of_largest_overlap() -> None:
    words = [(0, 3), (4, 9)]  # "the zebra"
    assert word_indices(words, [(0, 3), (3, 6), (6, 9), (9, 9), (3, 4)]) == [0, 1, 1, -1, -1]
    assert word_indices(words, [(2, 5)]) == [0]  # one character of each: the first
    assert word_indices(words, [(2, 6)]) == [1]
    assert word_indices([], [(0, 1)]) == [-1]
    assert word_indices(words, []) == []


def test_words_with_weak_weights_are_not_linked() -> None:
    """Below 0.15, as where attention is spread over many words."""
    weights_TS = np.array(
        [[0.14, 0.13, 0.14, 0.14], [0.16, 0.1, 0.1, 0.1], [0.1, 0.1, 0.15, 0.1], [0.2, 0.1, 0.1, 0.5]]
    )
    attention = WordAttention(weights_TS, ["a", "b", "c", "</s>"], ["w", "x", "y", "z"])
    assert align_words(attention) == [(0, 1), (2, 2)]
    assert links_from_weights(weights_TS, null_column=3) == [(0, 0), (0, 1), (2, 2)]


class TestAttentionView:
    def translation(self, source: list[str], target: list[str], words: WordAttention | None) -> Translation:
        attention = np.eye(len(target), len(source) + 1)
        tokens = [*source, "</s>"]
        links = [] if words is None else [(0, 0)]
        found = replace(empty_translation("x"), tokens=target, source_tokens=tokens, attention=attention)
        return replace(found, word_attention=words, links=links)

    def test_a_single_word_is_shown_by_its_tokens(self) -> None:
        """Words would make one cell of it."""
        words = WordAttention(np.ones((1, 2)), ["ab", "</s>"], ["xyz"])
        view = attention_view(self.translation(["a", "b"], ["x", "y", "z"], words))
        assert view is not None and view.unit == "tokens"
        assert view.attention.source == ["a", "b", "</s>"] and view.attention.target == ["x", "y", "z"]
        assert view.links == [(0, 0), (1, 1)], "the third token attends to the end token"

    def test_one_such_side_is_enough(self) -> None:
        words = WordAttention(np.ones((2, 2)), ["ab", "</s>"], ["x", "y"])
        assert attention_view(self.translation(["a", "b"], ["x", "y"], words)).unit == "tokens"  # type: ignore[union-attr]

    def test_words_otherwise(self) -> None:
        words = WordAttention(np.ones((1, 2)), ["a", "</s>"], ["x"])
        view = attention_view(self.translation(["a"], ["x"], words))
        assert view == (words, [(0, 0)], "words")
        assert attention_view(self.translation(["a"], ["x"], words), tokens=True).unit == "tokens"  # type: ignore[union-attr]
        assert attention_view(empty_translation("x")) is None
