"""[data]: where the pairs come from, and what is done to them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from weft.recipe.base import Count, CountOrNone, Settings
from weft.recipe.corpus import Corpora
from weft.recipe.pipeline import AnyStep


class DataSettings(Settings):
    """[data]: where the pairs come from."""

    train: Corpora = Field(
        "grammar",
        description="a built-in corpus, a TSV file, {source = FILE, target = FILE}, columns of a table: "
        "{file = FILE, source = [1, 2], target = [3]}, {instructions = FILE}, {dialogues = FILE}, {dataset = NAME}; "
        "or a list of these, to be mixed: see docs/data.md",
    )
    valid: Corpora | None = Field(None, description="the same; a built-in corpus brings its own")
    test: Corpora | None = Field(None, description="the same; used by `weft evaluate`")
    folder: str = Field(".", description="where relative file names start")
    train_size: Count = Field(100_000, description="pairs drawn from a built-in corpus for training")
    valid_size: Count = Field(1_000, description="pairs drawn for validation")
    test_size: Count = Field(1_000, description="pairs drawn for testing")
    options: dict[str, Any] = Field({}, description="options of a built-in corpus")
    pipeline: list[AnyStep] = Field([], description="filters and transforms, in their order: see docs/data.md")
    max_length: Count = Field(250, description="drop training pairs with more tokens than this on a side")
    bad_rows: Literal["error", "skip"] = Field(
        "error", description="rows that cannot be read (encoding, columns, …): stop, or skip and count them"
    )
    blank_rows: Literal["error", "skip"] = Field("skip", description="rows with a blank side: the same choice")
    temperature: float = Field(1.0, ge=1, description="several corpora: 1 mixes by size, more draws small ones more")
    prompts: bool = Field(False, description="language model: read the source first; the loss is of the target alone")
    prepared: str | None = Field(None, description="folder of the prepared corpus; made if it is not there")
    streaming: bool = Field(False, description="train on the text as it is read, with nothing prepared")
    workers: CountOrNone = Field(0, description="processes that prepare; 0: one a core where the corpus is large")

    @field_validator("options")
    @classmethod
    def _plain(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name, value in given.items():
            if not isinstance(value, int | float | str) or value in (float("inf"), float("-inf")) or value != value:
                raise ValueError(f"data.options.{name}: {value!r} was given; expected a number, a text, true or false")
        return given

    @model_validator(mode="after")
    def _agree(self) -> DataSettings:
        if self.streaming and self.prepared is not None:
            raise ValueError("data.streaming: nothing is prepared then; leave out data.prepared")
        if self.streaming and any(step.needs_whole_corpus for step in self.pipeline):
            raise ValueError("data.streaming: duplicates are only known when all was read; leave out that step")
        return self
