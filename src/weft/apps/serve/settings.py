"""The settings of a service: where it listens, who may use it, and how much a request may ask for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from weft.errors import RecipeError, nearest
from weft.recipe.base import Count, Settings

FEWEST_BYTES = 100_000_000


def _check_memory(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (0 < value <= 1 or FEWEST_BYTES <= value < 2**62):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"a share of the machine's memory, above 0 and up to 1, or bytes, at least {FEWEST_BYTES:,}")


Memory = Annotated[float, BeforeValidator(_check_memory)]
Seconds = Annotated[float, Field(gt=0.0, le=86_400.0)]


class ServeSettings(Settings):
    """Settings of `weft serve`. The command line changes them with --set NAME=VALUE."""

    host: str = Field("127.0.0.1", description="address to listen on; any other needs keys or --open-to-all")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(8000, description="port to listen on; 0: any that is free")
    hosts: list[str] = Field(
        [],
        description="host names by which the service may be addressed, beside those of this machine; behind a reverse "
        "proxy, its public name",
    )
    origins: list[str] = Field(
        [], description="origins of other web pages and browser extensions that may use the service"
    )
    languages: list[str] = Field(
        [],
        description="languages of the runs, SOURCE-TARGET, in their order, or one for all; by default those that a run "
        "names",
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    precision: str = Field("auto", description="auto, fp32, bf16 or int8")
    engine: str = Field("auto", description="auto, torch or ctranslate2")
    threads: Annotated[int, Field(ge=0, le=1024)] = Field(
        0, description="threads of each model on a CPU; 0: one per core"
    )
    parallel_searches: Annotated[int, Field(ge=0, le=64)] = Field(
        0,
        description="batches that a CPU searches at once, each with its share of the threads; 0: two",
    )
    log: Literal["errors", "requests", "texts"] = Field(
        "errors", description="what is logged; only texts includes the texts that are sent"
    )

    memory: Memory = Field(
        0.5,
        description="memory of the service and its workers: a share of the machine's, or above 1 a number of bytes",
    )
    max_connections: Count = Field(
        1_000, description="open connections; beyond them, those of the client that has the most are closed, idle first"
    )
    max_client_streams: Count = Field(8, description="streams that one client may have open at once")
    max_head: Count = Field(65_536, description="bytes of the head of a request: its address and header fields")
    max_body: Count = Field(2_000_000, description="bytes of a request")
    max_lines: Count = Field(1_000, description="texts of a request")
    max_characters: Count = Field(5_000, description="characters of a text")
    max_document: Count = Field(
        200_000, description="characters of the documents of a request, or of its texts of several sentences"
    )
    max_beam: Count = Field(64, description="the largest search.size")
    max_n_best: Count = Field(64, description="outputs for each text")
    max_samples: Count = Field(128, description="the largest search.samples")
    max_output: Count = Field(1_000, description="tokens of an output")
    max_nodes: Count = Field(20_000, description="the largest search.max_nodes of an exact search")
    max_space: Count = Field(100_000, description="the largest search.max_space of an exhaustive search")
    max_exact_tokens: Count = Field(200, description="source tokens of an exact or exhaustive search")
    max_weights: Count = Field(
        5_000_000, description="attention weights of a request: of all heads, or of all outputs with attention"
    )
    max_required: Count = Field(10, description="phrases of search.required; 500 characters together")
    max_waiting: Count = Field(256, description="requests that wait for a model; more are refused")
    max_wait: Seconds = Field(
        2.0,
        description="seconds; a request whose search would begin later is refused; under lasting overload, less",
    )
    max_waiting_long: Count = Field(
        16, description="exact searches, and others that take long, that wait for a model; more are refused"
    )
    max_streams: Count = Field(64, description="streams that are open at once")
    deadline: Seconds = Field(60.0, description="seconds after which a request is given up")
    body_timeout: Seconds = Field(20.0, description="seconds in which a request must arrive")
    read_timeout: Seconds = Field(
        5.0, description="seconds after which a connection is closed whose client reads nothing"
    )
    hang_timeout: Seconds = Field(
        8.0, description="seconds after which a worker that does not answer is ended and started again"
    )
    close_delay: Annotated[float, Field(ge=0.0, le=600.0)] = Field(
        1.0, description="seconds after SIGTERM in which /ready answers 503 before the port closes"
    )
    drain_timeout: Seconds = Field(
        30.0, description="seconds that running requests have to finish when the service ends"
    )

    batch_tokens: Count = Field(4_096, description="source tokens that are searched together, at most")
    batch_seconds: Seconds = Field(
        0.6, description="a batch is kept so small that it takes about this long: short requests wait no longer"
    )
    batch_wait: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.005, description="seconds that a request waits for others to be searched together with"
    )

    @field_validator("languages")
    @classmethod
    def _check_languages(cls, values: list[str]) -> list[str]:
        for value in values:
            if not all(part.strip() for part in split_languages(value)):
                raise ValueError(f"{value}: SOURCE-TARGET, such as en-fr (zh-Hans:en where a name has a hyphen)")
        return values

    def limits(self) -> dict[str, Any]:
        """Limits of a request, as reported to clients."""
        return {
            "body_bytes": self.max_body,
            "lines": self.max_lines,
            "characters": self.max_characters,
            "document_characters": self.max_document,
            "beam": self.max_beam,
            "n_best": self.max_n_best,
            "samples": self.max_samples,
            "output_tokens": self.max_output,
            "exact_nodes": self.max_nodes,
            "exact_space": self.max_space,
            "exact_tokens": self.max_exact_tokens,
            "weights": self.max_weights,
            "required": self.max_required,
            "waiting": self.max_waiting,
            "deadline_s": self.deadline,
        }


def split_languages(pair: str) -> tuple[str, str]:
    """en and fr of en-fr, or of en:fr; one of them is empty if it is no pair."""
    parts = pair.split(":" if ":" in pair else "-")
    return (parts[0], parts[1]) if len(parts) == 2 else (pair, "")


LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def make_settings(changes: dict[str, Any]) -> ServeSettings:
    """Settings with some of them changed; a `RecipeError` names the first that is wrong."""
    try:
        return ServeSettings.model_validate(changes)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise RecipeError(f"serve: {name}: unknown setting; {nearest(name, ServeSettings.model_fields)}") from None
        message = str(first["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
        if first["type"] == "list_type":
            message = f"""a list, for example --set '{name}=["{first["input"]}"]'"""
        raise RecipeError(f"serve: {name}: {first['input']!r} was given; expected {message}") from None
