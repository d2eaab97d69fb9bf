"""Required terms: their banks by the definition, and what is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.search_requests import beam
from fixtures.table_model import BEGIN, END, script
from weft.errors import SearchError
from weft.search.interface import SearchRequest
from weft.search.ranking import Ranking
from weft.search.required import RequiredTerms
from weft.tree import map_tree

quick = settings(deadline=None, max_examples=15)


def literal_met(tokens: list[int], terms: list[list[list[int]]]) -> int:
    """The bank of a hypothesis by its definition; no term is listed twice."""
    met = longest = 0
    for variants in terms:
        cost = min(map(len, variants))
        if any(f" {variant} "[2:-2] in str(tokens) for variant in variants):
            met += cost
            continue
        for variant in variants:
            matched = [size for size in range(1, len(variant)) if tokens[-size:] == variant[:size]]
            longest = max([longest, *(cost - (len(variant) - size) for size in matched)])
    return met + longest


@quick
@given(
    st.lists(
        st.lists(st.lists(st.integers(3, 4), min_size=1, max_size=4), min_size=1, max_size=3), min_size=1, max_size=3
    ),
    st.lists(st.integers(3, 5), min_size=1, max_size=9),
)
def test_banks_are_those_of_the_definition(terms: list[list[list[int]]], tokens: list[int]) -> None:
    terms = [variants for index, variants in enumerate(terms) if variants not in terms[:index]]
    request = SearchRequest(memory=None, max_lengths=[9], begin=BEGIN, end=END, required=[terms])
    required = RequiredTerms.of(request)
    progress = map_tree(lambda leaf: leaf.flatten(0, 1), required.start(1))
    for length, token in enumerate(tokens, start=1):
        wanted = [one for part in required.next_tokens(progress) for one in part[0].tolist() if one >= 0]
        assert bool(wanted) == bool(progress.is_missing_R) == bool((progress.occurred_RC < required.times_BC).any())
        [[met]] = required.banks(progress, torch.tensor([[token]])).tolist()
        progress = required.take(progress, torch.tensor([token]))
        assert met == literal_met(tokens[:length], terms)


# Errors


@pytest.mark.parametrize(
    ("required", "options", "message"),
    [
        ([[]], {"size": 0}, "search.size: 0; a beam holds at least 1 hypothesis"),
        ([[[3]], []], {}, "required phrases for 2 sentences, expected 1: a list for each"),
        ([[[3], []]], {}, "sentence 1: a required phrase is empty; expected at least 1 token"),
        ([[[3, END]]], {}, "sentence 1: a required phrase contains the end token, which cannot be generated"),
        ([[[3, -4]]], {}, "sentence 1: a required phrase contains the id -4, which cannot be generated"),
        ([[[3]]], {"ranking": Ranking(beta=0.2)}, "search.coverage_penalty: this model has no attention"),
    ],
)
def test_errors(required, options, message: str) -> None:
    model = script({(): {3: 0.5, 4: 0.5}}, vocabulary=6)
    terms = [[[phrase] for phrase in phrases] for phrases in required]
    with pytest.raises(SearchError, match=message):
        beam(model, model.memory(), [4], required=terms, **options)
