"""generation_config.json as search settings: what each entry becomes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import CheckpointError
from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.generation import NEUTRAL, alignment_heads, search_settings
from weft.recipe import make_recipe

IDS = {10: 4, 11: 3, 12: 1}
PLAIN = {
    "kind": "greedy",
    "no_loops": False,
    "length_penalty": 1.0,
    "min_length": 0,
    "no_repeat_ngram": 0,
    "repetition_penalty": 1.0,
    "banned_ids": [],
}


def settings(started: int = 1, **entries: Any) -> dict[str, Any]:
    return search_settings(Configuration(entries, "generation_config.json"), IDS, started)


BEAM = {"kind": "beam", "size": 4, "stop": "outranked_by_all"}
SAMPLE = {"kind": "sample", "temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "typical": 1.0, "top_k": 50}
MAPPINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "null": ({"num_beams": None, "max_length": None, "early_stopping": None, "bad_words_ids": None}, {}),
    "a beam": ({"num_beams": 4}, BEAM),
    "early stopping": ({"num_beams": 4, "early_stopping": True}, {**BEAM, "stop": "finished"}),
    "never stopping early": ({"num_beams": 4, "early_stopping": "never"}, {**BEAM, "stop": "provable"}),
    "early stopping without a beam": ({"early_stopping": True}, {}),
    "length penalty": ({"length_penalty": 0.8}, {"length_penalty": 0.8}),
    "maximum length": ({"max_length": 512}, {"max_length": 511}),
    "new tokens before all": ({"max_length": 512, "max_new_tokens": 7}, {"max_length": 7}),
    "a maximum of the start": ({"max_length": 1}, {"max_length": 1}),
    "minimum length": ({"min_length": 5}, {"min_length": 4}),
    "minimum above maximum": ({"min_length": 50, "max_length": 10}, {"min_length": 9, "max_length": 9}),
    "new tokens at least": ({"min_length": 3, "min_new_tokens": 6}, {"min_length": 6}),
    "n-grams": ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram": 3}),
    "repetition": ({"repetition_penalty": 1.2}, {"repetition_penalty": 1.2}),
    "banned": ({"bad_words_ids": [[12], [10, 11]]}, {"banned_ids": [[1], [4, 3]]}),
    "sampling": ({"do_sample": True}, SAMPLE),
    "sampling with filters": (
        {"do_sample": True, "temperature": 0.7, "top_k": 0, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.95},
        {"kind": "sample", "temperature": 0.7, "top_k": 0, "top_p": 0.9, "min_p": 0.05, "typical": 0.95},
    ),
    "filters without sampling": ({"temperature": 0.7, "top_k": 5}, {}),
    "not about search": ({"transformers_version": "4.45", "use_cache": True, "forced_eos_token_id": 0}, {}),
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_entries(case: str) -> None:
    """And the result is a valid [search]."""
    entries, changes = MAPPINGS[case]
    found = settings(**entries)
    assert found == PLAIN | changes
    make_recipe({"search": found})


def test_the_tokens_that_a_decoder_starts_with() -> None:
    assert settings(2, max_length=20, min_length=5) == PLAIN | {"max_length": 18, "min_length": 3}


OWN = "import it with weft's own search settings: --default-search"
REFUSALS = {
    "groups": ({"num_beam_groups": 2}, f"num_beam_groups: 2 has no counterpart in weft; {OWN}"),
    "a beam that samples": (
        {"num_beams": 2, "do_sample": True},
        f"do_sample: sampling in a beam has no counterpart in weft; {OWN}",
    ),
    "early stopping": (
        {"num_beams": 2, "early_stopping": "soon"},
        "early_stopping: 'soon' was found, expected true, false or 'never'",
    ),
    "a list": ({"num_beams": 2, "early_stopping": [1]}, "early_stopping: [1] was found, expected true"),
    "no beam": ({"num_beams": 0}, "num_beams: 0 was found, expected a whole number of at least 1"),
    "a reward for length": (
        {"length_penalty": -1.0},
        f"length_penalty: -1.0 has no counterpart in weft, whose least is 0; {OWN}",
    ),
    "a reward for repetition": ({"repetition_penalty": 0.9}, "repetition_penalty: 0.9 has no counterpart in weft"),
    "an id": ({"bad_words_ids": [[99]]}, "bad_words_ids: expected lists of ids of the vocabulary"),
    "no lists": ({"bad_words_ids": [3]}, "bad_words_ids: expected lists of ids"),
    "empty": ({"bad_words_ids": [[]]}, "bad_words_ids: expected lists of ids"),
    "text": ({"max_length": "long"}, "max_length: 'long' was found, expected a whole number"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    entries, line = REFUSALS[case]
    with pytest.raises(CheckpointError) as caught:
        settings(**entries)
    assert str(caught.value).startswith(f"generation_config.json: {line}")


WITHOUT_EFFECT: dict[str, list[Any]] = {
    "begin_suppress_tokens": [[]],
    "constraints": [[]],
    "diversity_penalty": [0, 0.0],
    "encoder_no_repeat_ngram_size": [0],
    "encoder_repetition_penalty": [1, 1.0],
    "epsilon_cutoff": [0, 0.0],
    "eta_cutoff": [0, 0.0],
    "exponential_decay_length_penalty": [],
    "force_words_ids": [[]],
    "forced_decoder_ids": [[]],
    "guidance_scale": [1, 1.0],
    "num_beam_groups": [1],
    "penalty_alpha": [0, 0.0],
    "renormalize_logits": [False],
    "sequence_bias": [{}, []],
    "suppress_tokens": [[]],
    "top_h": [],
    "watermarking_config": [],
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_entries_without_a_counterpart(name: str) -> None:
    """Refused where they change outputs; values that change nothing are not."""
    with pytest.raises(CheckpointError, match=f"{name}: 17 has no counterpart in weft"):
        settings(**{name: 17})
    for value in (None, *WITHOUT_EFFECT[name]):
        assert settings(**{name: value}) == PLAIN


def test_every_entry_without_a_counterpart_is_tested() -> None:
    assert set(WITHOUT_EFFECT) == set(NEUTRAL)


def test_alignment_heads() -> None:
    """Are kept; anything else is refused."""
    assert alignment_heads(Configuration({}, "g")) == []
    assert alignment_heads(Configuration({"alignment_heads": [[2, 0], [1, 3]]}, "g")) == [[2, 0], [1, 3]]
    for value in (3, [3], [[1]], [[1, -1]], [["a", "b"]], [[True, 0]]):
        with pytest.raises(CheckpointError, match="g: alignment_heads: expected pairs of a layer and a head"):
            alignment_heads(Configuration({"alignment_heads": value}, "g"))
