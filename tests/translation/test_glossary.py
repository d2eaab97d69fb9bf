"""Outputs that contain the terms of a glossary."""

from __future__ import annotations

import pytest

from weft.errors import SearchError
from weft.translation.load import load


@pytest.fixture(scope="module")
def trained(finished):
    return load(finished)


@pytest.mark.parametrize("kind", ["beam", "greedy"])
def test_outputs_contain_the_terms(trained, kind: str) -> None:
    sources = ["a b c", "d a", "b"]
    plain = trained.translate(sources, kind=kind, max_length=9, return_attention=False)
    found = trained.translate(sources, kind=kind, glossary={"c": "d e|e e", "d": ""}, max_length=9)
    assert [one.terms for one in found] == [(("d e", "e e"),), (("d",),), ()]
    for one in found[:2]:
        assert one.ended != "end" or "term-missing" not in one.flags
    assert found[2].text == plain[2].text, "a source without terms is translated as ever"


def test_terms_that_cannot_be_placed_are_flagged(trained) -> None:
    [found] = trained.translate(["a b c"], glossary={"c": "‽unknown‽"})
    assert "term-missing" in found.flags
    [found] = trained.translate(["a b c"], glossary={"c": "e"}, banned=["e"], max_length=5)
    assert "term-missing" in found.flags


def test_other_searches_refuse_a_glossary(trained) -> None:
    with pytest.raises(SearchError, match=r"glossary: cannot be used with search\.kind = 'sample'; use beam or greedy"):
        trained.translate("a", kind="sample", glossary={"a": "b"})
