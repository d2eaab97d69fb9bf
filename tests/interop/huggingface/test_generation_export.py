"""generation_config.json of search settings: the entry that each becomes, and those that have none."""

from __future__ import annotations

from typing import Any

import pytest

from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.generation import search_settings
from weft.interop.huggingface.generation_export import TokenIds, differences, generation_config
from weft.recipe import SearchSettings

IDS = TokenIds(begin=7, end=2, padding=9, unknown=3)
PLAIN = {"decoder_start_token_id": 7, "eos_token_id": 2, "pad_token_id": 9, "max_length": 40}
BEAM = {**PLAIN, "num_beams": 4, "early_stopping": True, "length_penalty": 1.0}
GREEDY = {**PLAIN, "num_beams": 1}
SAMPLE = {**GREEDY, "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0}
ENTRIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a beam": ({"size": 4}, BEAM),
    "a beam of one": ({"size": 1}, GREEDY),
    "greedy": ({"kind": "greedy", "size": 4}, GREEDY),
    "no counterpart": ({"kind": "mbr", "size": 4}, GREEDY),
    "finished": ({"size": 4, "stop": "finished"}, BEAM),
    "outranked": ({"size": 4, "stop": "outranked"}, {**BEAM, "early_stopping": False}),
    "outranked by all": ({"size": 4, "stop": "outranked_by_all"}, {**BEAM, "early_stopping": False}),
    "provable": ({"size": 4, "stop": "provable"}, {**BEAM, "early_stopping": "never"}),
    "steps": ({"size": 4, "stop": "steps"}, {**BEAM, "early_stopping": "never"}),
    "length penalty": ({"size": 4, "length_penalty": 0.6}, {**BEAM, "length_penalty": 0.6}),
    "without normalization": (
        {"size": 4, "length_penalty": 0.6, "normalization": "none"},
        {**BEAM, "length_penalty": 0.0},
    ),
    "maximum length": ({"kind": "greedy", "max_length": 20}, {**GREEDY, "max_length": 21}),
    "more than there are positions": ({"kind": "greedy", "max_length": 41}, GREEDY),
    "minimum length": ({"kind": "greedy", "min_length": 5}, {**GREEDY, "min_length": 6}),
    "a minimum above the positions": ({"kind": "greedy", "min_length": 50}, {**GREEDY, "min_length": 40}),
    "n-grams": ({"kind": "greedy", "no_repeat_ngram": 3}, {**GREEDY, "no_repeat_ngram_size": 3}),
    "repetition": ({"kind": "greedy", "repetition_penalty": 1.2}, {**GREEDY, "repetition_penalty": 1.2}),
    "sampling": ({"kind": "sample"}, SAMPLE),
    "temperature": ({"kind": "sample", "temperature": 0.7}, {**SAMPLE, "temperature": 0.7}),
    "top k": ({"kind": "sample", "top_k": 6}, {**SAMPLE, "top_k": 6}),
    "top p": ({"kind": "sample", "top_p": 0.9}, {**SAMPLE, "top_p": 0.9}),
    "min p": ({"kind": "sample", "min_p": 0.05}, {**SAMPLE, "min_p": 0.05}),
    "typical": ({"kind": "sample", "typical": 0.8}, {**SAMPLE, "typical_p": 0.8}),
}


def config_of(*, ids: TokenIds = IDS, vocabulary: int = 1000, **settings: Any) -> dict[str, Any]:
    return generation_config(SearchSettings(**settings), ids, max_length=40, vocabulary=vocabulary, banned=[])


@pytest.mark.parametrize("case", ENTRIES)
def test_entries(case: str) -> None:
    settings, entries = ENTRIES[case]
    assert config_of(**settings) == entries


@pytest.mark.parametrize("case", [case for case, (given, _) in ENTRIES.items() if given.get("kind") != "mbr"])
def test_read_again(case: str) -> None:
    """Every search that `generate` has is the one that an import of the folder finds."""
    _, entries = ENTRIES[case]
    again = SearchSettings(**search_settings(Configuration(entries, "generation_config.json"), {}, 1))
    assert generation_config(again, IDS, max_length=40, vocabulary=1000, banned=[]) == entries


def test_a_token_that_every_output_begins_with() -> None:
    """It counts in the lengths of transformers."""
    forced = IDS._replace(forced=5)
    config = config_of(ids=forced, kind="greedy", max_length=20, min_length=4)
    assert config == {**GREEDY, "forced_bos_token_id": 5, "max_length": 22, "min_length": 6}


def test_banned_phrases() -> None:
    search = SearchSettings(kind="greedy")
    config = generation_config(search, IDS, max_length=40, vocabulary=1000, banned=[[4], [5, 6]])
    assert config == {**GREEDY, "bad_words_ids": [[4], [5, 6]]}


def test_stop_by_the_size_of_the_vocabulary() -> None:
    """If search.stop is not set: outranked below 1,000 tokens."""
    assert config_of(size=4, vocabulary=999) == {**BEAM, "early_stopping": False}
    assert config_of(size=4, vocabulary=1000) == BEAM


LOOPS = "search.no_loops: left out; outputs may loop"
UNLIMITED = "the maximum length: that of the positions, whatever the length of the source"
EXPRESSIBLE = {"no_loops": False, "max_length": 20}
LINES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "none": ({}, []),
    "as is default": ({"no_loops": None, "max_length": 0}, [LOOPS, UNLIMITED]),
    "loops": ({"no_loops": True}, [LOOPS]),
    "kind": ({"kind": "mbr"}, ["search.kind = 'mbr': `generate` searches greedily"]),
    "outranked": ({"stop": "outranked"}, ["search.stop = 'outranked': the nearest is early_stopping = False"]),
    "steps": ({"stop": "steps"}, ["search.stop = 'steps': the nearest is early_stopping = 'never'"]),
    "outranked by all": ({"stop": "outranked_by_all"}, []),
    "gnmt": ({"normalization": "gnmt"}, ["search.normalization = 'gnmt': `generate` divides by length^α"]),
    "finish": ({"size": 4, "finish": 3}, ["search.finish = 3: `generate` finishes as many as the beam has"]),
    "finish with a beam of five": ({"finish": 5}, []),
    "finish with a beam of four": ({"size": 4, "finish": 4}, []),
    "groups": ({"size": 4, "groups": 2}, ["search.groups = 2: left out"]),
    "coverage": ({"coverage_penalty": 0.2}, ["search.coverage_penalty = 0.2: left out"]),
    "prefix": ({"prefix": "a"}, ["search.prefix: left out"]),
    "banned": ({"banned": ["a"]}, ["search.banned: left out"]),
    "required": ({"required": ["a"]}, ["search.required: left out"]),
    "minimum": ({"min_ratio": 0.5}, ["search.min_ratio: left out"]),
    "settings of a beam, without a beam": (
        {"kind": "greedy", "stop": "steps", "normalization": "gnmt", "finish": 3, "size": 4, "groups": 2},
        [],
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_differences(case: str) -> None:
    settings, lines = LINES[case]
    assert differences(SearchSettings(**{**EXPRESSIBLE, **settings}), 1000) == lines


def test_difference_of_a_small_vocabulary() -> None:
    (line,) = differences(SearchSettings(**EXPRESSIBLE), 999)
    assert line == "search.stop = 'outranked': the nearest is early_stopping = False"
