"""The schemas of requests and responses, published at `/api/openapi.json`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Position = Annotated[int, Field(ge=0, le=100_000)]
Number = Annotated[int, Field(ge=1, le=10_000)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Side = Literal["source", "target"]
Format = Literal["sentence", "text", "html", "xml", "markdown", "docx", "srt", "vtt", "po", "xliff", "json"]


class Request(BaseModel):
    """A request body: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class HeadName(Request):
    """A head of a layer, counted from 1."""

    kind: Literal["encoder", "decoder", "cross", "copy"]
    layer: Number
    head: Number


class EditedRow(Request):
    """The weights over the source tokens with which one output token is made."""

    step: Position
    weights: list[Annotated[float, Field(ge=0.0, le=1e6)]] = Field(min_length=1, max_length=100_000)
    layer: Number | None = None
    head: Number | None = None


class Edits(Request):
    """Edits of the attention of a model."""

    blocked: list[Position] = Field([], max_length=100_000, description="source tokens that are not attended to")
    attention: list[EditedRow] = Field([], max_length=10_000)
    heads_off: list[HeadName] = Field([], max_length=10_000)


class ModelRequest(Request):
    """Fields common to all requests."""

    model: str | None = Field(None, description="a name of /api/models; the first of them by default")
    search: dict[str, Any] = Field({}, description="search settings to change; see /api/settings")
    edits: Edits | None = None


class TranslateRequest(ModelRequest):
    """Texts to translate, or prompts to continue."""

    text: str | list[str]
    n_best: Number = 1
    attention: bool = False
    trace: bool = False
    format: Format = Field(
        "sentence",
        description="of each text: one sentence, a text of several, or a document, which keeps its markup; docx: its "
        "bytes as a data URL, and so is the translation",
    )
    prefix: str = Field("", description="what every output begins with")
    prefix_ids: list[TokenId] = Field([], max_length=10_000, description="the same as token ids")
    glossary: str = Field(
        "", max_length=100_000, description="terms to use: lines of a source term, a tab and a target term"
    )
    memory: str = Field(
        "", max_length=1_000_000, description="pairs translated before: lines of a source, a tab and its translation"
    )

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class HeadsRequest(ModelRequest):
    """A text whose attention heads are wanted."""

    text: str
    target: str | None = None
    target_ids: list[TokenId] | None = Field(None, max_length=10_000)


class WalkRequest(ModelRequest):
    """A step of the decoder whose numbers are wanted: that of a token of the text's translation, or of a target."""

    text: str
    target: str | None = None
    target_ids: list[TokenId] | None = Field(None, max_length=10_000)
    step: Position = Field(0, description="the token, from 0")
    layer: Number = Field(1, description="of a Transformer, the layer that is shown in detail")
    head: Number = 1


class ScoreRequest(ModelRequest):
    """Pairs of a source and a target."""

    pairs: list[tuple[str, str]]


class Problem(BaseModel):
    """Any answer but a result."""

    error: str


class Translations(BaseModel):
    """The answer to a `TranslateRequest`."""

    model: str
    translations: list[dict[str, Any]]


class Heads(BaseModel):
    """The answer to a `HeadsRequest`."""

    model: str
    target_tokens: list[str]
    heads: list[dict[str, Any]]


class Walk(BaseModel):
    """The answer to a `WalkRequest`."""

    model: str
    source_tokens: list[str]
    target_tokens: list[str]
    target_ids: list[int]
    begin: str
    step: int
    layers: int
    heads: int
    stages: list[dict[str, Any]]
    output: dict[str, Any]
    neighbors: list[dict[str, Any]] | None
    """Training pairs with the states nearest to that of this step; null if the run keeps none (serve.states)."""


class Scores(BaseModel):
    """The answer to a `ScoreRequest`."""

    model: str
    scores: list[dict[str, Any]]


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "not JSON, or more than one Host",
        401: "a key is needed",
        403: "the host or the origin is not allowed",
        404: "no such model, token or page",
        405: "another method is needed",
        408: "the request did not arrive in time",
        413: "more than the service takes at once",
        415: "another content type is needed",
        422: "a value is wrong",
        429: "too many requests; see Retry-After",
        431: "the head of the request is too large",
        500: "an internal error",
        503: "not ready; see Retry-After",
    }.items()
}
"""The answers that every path may give."""
