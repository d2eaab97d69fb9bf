"""decoder.yml: the search setting that each option becomes."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import CheckpointError
from weft.interop.huggingface.configuration import Configuration
from weft.interop.marian.files import search_settings
from weft.text.specials import BEGIN, UNKNOWN

DEFAULT = {
    "kind": "beam",
    "size": 12,
    "length_penalty": 0.0,
    "max_ratio": 3.0,
    "max_extra": 0,
    "no_loops": False,
    "banned_ids": [[UNKNOWN], [BEGIN]],
}
GREEDY = {name: value for name, value in DEFAULT.items() if name != "size"} | {"kind": "greedy"}
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none": ({}, DEFAULT),
    "a beam of two": ({"beam-size": 2}, {**DEFAULT, "size": 2}),
    "greedy": ({"beam-size": 1}, GREEDY),
    "normalized": ({"normalize": 0.6}, {**DEFAULT, "length_penalty": 0.6}),
    "normalized by the length": ({"normalize": True}, {**DEFAULT, "length_penalty": 1.0}),
    "not normalized": ({"normalize": False}, DEFAULT),
    "length": ({"max-length-factor": 1.5}, {**DEFAULT, "max_ratio": 1.5}),
    "unknown words": ({"allow-unk": True}, {**DEFAULT, "banned_ids": [[BEGIN]]}),
    "no penalty": ({"word-penalty": 0}, DEFAULT),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options(case: str) -> None:
    options, settings = OPTIONS[case]
    assert search_settings(Configuration(options, "decoder.yml")) == settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam-size": 0}, "beam-size: 0 was found, expected a whole number of at least 1"),
        ({"normalize": "yes"}, "normalize: 'yes' was found, expected a number of at least 0"),
        ({"word-penalty": 0.5}, "word-penalty: 0.5 has no counterpart in weft; import it with weft's own search sett"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=f"^decoder.yml: {message}"):
        search_settings(Configuration(options, "decoder.yml"))
