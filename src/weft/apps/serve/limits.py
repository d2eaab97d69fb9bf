"""Limits of requests: texts, search settings and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from weft.apps.serve.errors import ServiceError
from weft.apps.serve.settings import ServeSettings
from weft.errors import nearest
from weft.recipe.search import SearchSettings, irrelevant_settings
from weft.runs.length_limits import LengthLimits

KINDS = ("greedy", "beam", "sample", "mbr", "exact", "exhaustive")
EXACT = ("exact", "exhaustive")
OF_SCORES = frozenset(
    (
        "coverage_penalty",
        "min_length",
        "min_ratio",
        "prefix",
        "banned",
        "banned_ids",
        "no_repeat_ngram",
        "repetition_penalty",
        "no_loops",
    )
)
"""Settings that change the scores of outputs, which exact searches do not support."""
MAX_RATIO = 20.0
MAX_PHRASES = 100
MAX_REQUIRED_CHARACTERS = 500
"""Characters of the required phrases together: a beam keeps hypotheses for every number of tokens that it has met."""
MAX_WEIGHT = 50.0
WEIGHTS = ("length_penalty", "coverage_penalty", "diversity", "repetition_penalty")
"""Settings that would overflow a score if they were huge."""


class OutputLimits(LengthLimits):
    """The limits that a model has learned, but no output is longer than a service allows."""

    longest: int

    @classmethod
    def of(cls, learned: LengthLimits, longest: int) -> OutputLimits:
        limits = cls(learned.max_ratio, min(learned.max_extra, longest), learned.loops)
        limits.longest = longest
        return limits

    def limit(self, source_length: int, *, max_ratio: float | None = None, max_extra: int | None = None) -> int:
        return min(super().limit(source_length, max_ratio=max_ratio, max_extra=max_extra), self.longest)


def check_texts(
    texts: Sequence[str], settings: ServeSettings, name: str = "text", *, reads_arrays: bool = False
) -> None:
    """Fail if there are too many texts, or if one is too long or not valid text.

    ``reads_arrays``: whether the model may read the URL of a picture or of frames, which only ``max_body`` limits.
    """
    check_number(texts, settings, name)
    for text in texts:
        if len(text) > settings.max_characters and not (reads_arrays and text.startswith("data:")):
            limit = f"at most {settings.max_characters:,} are accepted"
            raise ServiceError(413, f"{name}: a text of {len(text):,} characters; {limit}; split it")
        check_unicode(text, name)


def check_number(texts: Sequence[str], settings: ServeSettings, name: str) -> None:
    if len(texts) > settings.max_lines:
        raise ServiceError(413, f"{name}: {len(texts):,} texts; at most {settings.max_lines:,} are accepted at once")


def check_documents(texts: Sequence[str], settings: ServeSettings, name: str) -> None:
    """Fail if there are too many documents, if they are too long together, or if one is not valid text."""
    check_number(texts, settings, name)
    if (size := sum(map(len, texts))) > settings.max_document:
        limit = f"at most {settings.max_document:,} are accepted at once"
        raise ServiceError(413, f"{name}: {size:,} characters together; {limit}; split it")
    for text in texts:
        check_unicode(text, name)


def check_unicode(text: str, name: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"{name}: U+{code:04X} at character {error.start + 1} is half of a surrogate pair, which is not text"
        raise ServiceError(422, message) from None


def search_settings(own: dict[str, Any], given: dict[str, Any], settings: ServeSettings) -> dict[str, Any]:
    """All settings of a search: those of the run, with what a request changes; checked, and within the limits."""
    unknown = [name for name in given if name not in SearchSettings.model_fields]
    if unknown:
        suggestion = nearest(unknown[0], SearchSettings.model_fields)
        raise ServiceError(422, f"search.{unknown[0][:60]}: unknown setting; {suggestion}")
    merged = {**own, **given, "batch_tokens": settings.batch_tokens}
    kind = merged["kind"]
    if kind not in ("beam", "greedy") and "required" not in given:
        merged["required"] = []  # which other searches refuse
    try:
        checked = SearchSettings.model_validate(merged)
    except ValidationError as error:
        raise ServiceError(422, first_problem(error, "search")) from None
    for name, limit in (limits_of(settings) | dict.fromkeys(WEIGHTS, MAX_WEIGHT)).items():
        value = getattr(checked, name)
        if value is not None and value > limit:
            if name in given:
                raise ServiceError(422, f"search.{name}: {value:g}; at most {limit:g} is accepted")
            merged[name] = limit
    for name in ("banned", "required"):
        phrases = getattr(checked, name)
        if len(phrases) > MAX_PHRASES:
            raise ServiceError(422, f"search.{name}: {len(phrases)} phrases; at most {MAX_PHRASES} are accepted")
        check_texts(phrases, settings, f"search.{name}")
    if "required" in given:
        check_required(checked.required, settings)
    if "banned_ids" in given and sum(map(len, checked.banned_ids)) > MAX_PHRASES:
        raise ServiceError(422, f"search.banned_ids: too many ids; at most {MAX_PHRASES} are accepted")
    check_texts([checked.prefix], settings, "search.prefix")
    return merged


def check_required(phrases: Sequence[str], settings: ServeSettings) -> None:
    """Fail if a request requires too much of its outputs; what a run requires by itself was chosen by its owner."""
    if len(phrases) > settings.max_required:
        limit = f"at most {settings.max_required} are accepted"
        raise ServiceError(422, f"search.required: {len(phrases)} phrases; {limit}")
    if (size := sum(map(len, phrases))) > MAX_REQUIRED_CHARACTERS:
        limit = f"at most {MAX_REQUIRED_CHARACTERS} are accepted"
        raise ServiceError(422, f"search.required: {size:,} characters together; {limit}")


def limits_of(settings: ServeSettings) -> dict[str, float]:
    """The largest values of search settings."""
    return {
        "size": settings.max_beam,
        "finish": settings.max_beam,
        "samples": settings.max_samples,
        "max_length": settings.max_output,
        "max_extra": settings.max_output,
        "min_length": settings.max_output,
        "max_ratio": MAX_RATIO,
        "min_ratio": MAX_RATIO,
        "max_nodes": settings.max_nodes,
        "max_space": settings.max_space,
        "no_repeat_ngram": settings.max_output,
    }


def check_n_best(n_best: int, search: dict[str, Any], settings: ServeSettings) -> None:
    if n_best > settings.max_n_best:
        raise ServiceError(422, f"n_best: {n_best}; at most {settings.max_n_best} outputs of a text are returned")
    if n_best > 1 and search["kind"] == "greedy":
        raise ServiceError(422, f"n_best: {n_best}; greedy search finds one output; use beam or sample")


def first_problem(error: ValidationError, name: str = "") -> str:
    """The first thing that is wrong with a value, in one sentence."""
    first = error.errors()[0]
    where = ".".join([*([name] if name else []), *(str(part) for part in first["loc"])])
    message = " ".join(str(first["msg"]).removeprefix("Value error, ").split())
    return message if first["type"] == "value_error" else f"{where}: {message[:1].lower()}{message[1:]}"


def describe_settings(settings: ServeSettings) -> list[dict[str, Any]]:
    """Every search setting: its type, range, and the kinds of search to which it applies."""
    schema = SearchSettings.model_json_schema()
    largest = limits_of(settings)
    described = []
    for name, field in SearchSettings.model_fields.items():
        if name in ("batch_tokens", "memory"):  # of the service
            continue
        value = schema["properties"][name]
        value = {**next((one for one in value.get("anyOf", ()) if one.get("type") != "null"), {}), **value}
        kinds = [
            kind for kind in KINDS if name not in irrelevant_settings(kind) | (OF_SCORES if kind in EXACT else set())
        ]
        entry: dict[str, Any] = {
            "name": name,
            "type": _type_of(value),
            "default": field.get_default(),
            "description": field.description,
            "kinds": kinds,
        }
        for key, keyword in (
            ("minimum", "minimum"),
            ("exclusive_minimum", "exclusiveMinimum"),
            ("maximum", "maximum"),
            ("choices", "enum"),
        ):
            if keyword in value:
                entry[key] = value[keyword]
        if name in largest:
            entry["maximum"] = largest[name]
        described.append(entry)
    return described


def _type_of(value: dict[str, Any]) -> str:
    if "enum" in value:
        return "choice"
    if value.get("type") == "array":
        return "texts"
    return {"string": "text"}.get(value["type"], value["type"])
