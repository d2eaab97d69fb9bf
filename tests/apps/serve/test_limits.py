"""What a request may ask for: the longest output, whatever the model has learned and the request says."""

from __future__ import annotations

from typing import Any

import pytest

from apps.serve.servers import settings
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.limits import KINDS, OutputLimits, check_n_best, check_texts, describe_settings, search_settings
from weft.recipe.search import SearchSettings
from weft.runs.length_limits import LengthLimits

LEARNED = LengthLimits(max_ratio=2.0, max_extra=10, loops=True)


@pytest.mark.parametrize(
    ("source", "request_", "expected"),
    [
        (0, {}, 10),  # ratio × source + extra, as learned
        (7, {}, 24),
        (45, {}, 100),  # what the service allows
        (46, {}, 100),
        (1_000_000, {}, 100),
        (7, {"max_ratio": 3.0}, 31),  # what the request says
        (7, {"max_extra": 1}, 15),
        (7, {"max_ratio": 0.0, "max_extra": 3}, 3),
        (7, {"max_ratio": 20.0}, 100),  # but no more than the service allows
        (7, {"max_extra": 99}, 100),
        (1, {"max_ratio": 1e6, "max_extra": 10**6}, 100),
    ],
)
def test_the_longest_output(source: int, request_: dict[str, Any], expected: int) -> None:
    limits = OutputLimits.of(LEARNED, 100)
    assert limits.limit(source, **request_) == expected == min(LEARNED.limit(source, **request_), 100)
    assert limits.loops


def test_a_model_that_has_learned_more_than_the_service_allows() -> None:
    limits = OutputLimits.of(LengthLimits(max_ratio=1000.0, max_extra=1000), 100)
    assert (limits.limit(0), limits.limit(1), limits.max_extra) == (100, 100, 100)


@pytest.mark.parametrize("name", ["max_length", "max_extra", "min_length", "size", "samples", "max_ratio"])
def test_settings_above_the_limit(name: str) -> None:
    """Of a request they are refused; of the run's own recipe they are lowered."""
    service = settings(max_output=50, max_beam=4, max_samples=6)
    limit = {"size": 4, "samples": 6, "max_ratio": 20.0}.get(name, 50)
    own = SearchSettings().model_dump()
    value = float(limit) if name == "max_ratio" else limit
    assert search_settings(own, {name: value}, service)[name] == limit
    with pytest.raises(ServiceError) as caught:
        search_settings(own, {name: value + 1}, service)
    assert caught.value.message == f"search.{name}: {value + 1:g}; at most {limit:g} is accepted"
    assert search_settings({**own, name: value + 1}, {}, service)[name] == limit


def refusal(act: Any, *arguments: Any) -> tuple[int, str]:
    """The status and the sentence with which something is refused."""
    with pytest.raises(ServiceError) as caught:
        act(*arguments)
    return caught.value.status, caught.value.message


def test_texts_at_their_limits() -> None:
    service = settings(max_lines=3, max_characters=5)
    check_texts(["a" * 5] * 3, service)
    assert refusal(check_texts, ["a"] * 4, service) == (413, "text: 4 texts; at most 3 are accepted at once")
    long = "pairs: a text of 6 characters; at most 5 are accepted; split it"
    assert refusal(check_texts, ["a", "b" * 6], service, "pairs") == (413, long)
    check_texts(["data:image/png;base64,AAAA"], service, reads_arrays=True)  # the size of the request limits it
    assert refusal(check_texts, ["data:image/png;base64,AAAA"], service)[0] == 413  # a model of texts would read it
    half = "text: U+D800 at character 2 is half of a surrogate pair, which is not text"
    assert refusal(check_texts, ["a\ud800"], service) == (422, half)


@pytest.mark.parametrize("name", ["banned", "required"])
def test_phrases_at_their_limits(name: str) -> None:
    own = SearchSettings().model_dump()
    service = settings(max_lines=1_000, max_characters=5, max_required=100)
    assert len(search_settings(own, {name: ["a" * 5] * 100}, service)[name]) == 100
    many = refusal(search_settings, own, {name: ["a"] * 101}, service)
    assert many == (422, f"search.{name}: 101 phrases; at most 100 are accepted")
    assert refusal(search_settings, own, {name: ["a" * 6]}, service)[1].startswith(f"search.{name}: a text of 6")
    assert refusal(search_settings, own, {"prefix": "a" * 6}, service)[1].startswith("search.prefix: a text of 6")


def test_ids_and_weights_at_their_limits() -> None:
    own, service = SearchSettings().model_dump(), settings()
    ids = [[5, 6]] * 50
    assert search_settings(own, {"banned_ids": ids}, service)["banned_ids"] == ids
    many = refusal(search_settings, own, {"banned_ids": [*ids, [7]]}, service)
    assert many == (422, "search.banned_ids: too many ids; at most 100 are accepted")
    assert search_settings({**own, "banned_ids": [*ids, [7]]}, {}, service)["banned_ids"] == [*ids, [7]], "its own"
    for name in ("length_penalty", "coverage_penalty", "diversity", "repetition_penalty"):
        given = {name: 50.0} if name != "diversity" else {name: 50.0, "size": 4, "groups": 2}
        assert search_settings(own, given, service)[name] == 50.0
        assert refusal(search_settings, own, {**given, name: 50.5}, service)[1].startswith(f"search.{name}: 50.5; at")


def test_other_settings_of_a_search() -> None:
    own, service = SearchSettings(required=["a"], max_nodes=7, max_space=7).model_dump(), settings(batch_tokens=333)
    assert search_settings(own, {}, service) == {**own, "batch_tokens": 333}
    assert search_settings(own, {"kind": "greedy"}, service)["required"] == ["a"]
    assert search_settings(own, {"kind": "sample"}, service)["required"] == [], "sampling refuses them"
    assert refusal(search_settings, own, {"kind": "sample", "required": ["b"]}, service)[0] == 422
    message = refusal(search_settings, own, {"x" * 99: 1}, service)[1]
    assert message.startswith(f"search.{'x' * 60}: unknown setting; ")


@pytest.mark.parametrize(
    ("n_best", "kind", "message"),
    [
        (7, "beam", None),
        (1, "greedy", None),
        (8, "beam", "n_best: 8; at most 7 outputs of a text are returned"),
        (2, "greedy", "n_best: 2; greedy search finds one output; use beam or sample"),
    ],
)
def test_the_number_of_outputs(n_best: int, kind: str, message: str | None) -> None:
    if message is None:
        check_n_best(n_best, {"kind": kind}, settings(max_n_best=7))
    else:
        assert refusal(check_n_best, n_best, {"kind": kind}, settings(max_n_best=7)) == (422, message)


def test_settings_are_described() -> None:
    service = settings(max_beam=9, max_output=77)
    described = {entry["name"]: entry for entry in describe_settings(service)}
    assert set(described) == set(SearchSettings.model_fields) - {"batch_tokens", "memory"}
    assert described["size"]["maximum"] == 9 and described["max_length"]["maximum"] == 77
    types = {"size": "integer", "length_penalty": "number", "banned": "texts", "prefix": "text", "kind": "choice"}
    assert {name: described[name]["type"] for name in types} == types
    assert described["no_loops"]["type"] == "boolean"
    assert described["temperature"]["exclusive_minimum"] == 0 and described["top_p"]["maximum"] == 1
    assert described["no_loops"]["kinds"] == ["greedy", "beam", "sample", "mbr"], "not of exact searches"
    assert described["max_length"]["kinds"] == list(KINDS)


def test_required_phrases() -> None:
    """A beam with constraints takes as many times longer as they have tokens."""
    own = SearchSettings().model_dump()
    for phrases, message in (
        (["a"] * 11, "search.required: 11 phrases; at most 10 are accepted"),
        (["a" * 300] * 2, "search.required: 600 characters together; at most 500 are accepted"),
    ):
        with pytest.raises(ServiceError) as caught:
            search_settings(own, {"required": phrases}, settings())
        assert (caught.value.status, caught.value.message) == (422, message)
    assert search_settings(own, {"required": ["a"] * 10}, settings())
    assert search_settings({**own, "required": ["a"] * 20}, {}, settings()), "chosen by the owner of the run"
