"""[data]: where the pairs come from, and what is done to them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from weft.recipe.base import Count, Settings
from weft.recipe.corpus import Corpora
from weft.recipe.pipeline import AnyStep


class HoldoutSettings(Settings):
    """[data.holdout]: training pairs that are kept for validation and testing."""

    valid: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="share of data.train that is held out for validation, chosen by a hash of the source; "
        "in place of data.valid",
    )
    test: float = Field(0.0, ge=0, lt=0.5, description="share of data.train that is held out for testing")
    structure: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="share of data.train, at most, that is held out for its structure: all pairs with some "
        "combinations of source tokens, and those with the longest targets; validated beside the validation set",
    )


class DataSettings(Settings):
    """[data]: where the pairs come from."""

    train: Corpora = Field(
        "grammar",
        description="a built-in corpus, a TSV file, {source = FILE, target = FILE}, columns of a table: "
        "{file = FILE, source = [1, 2], target = [3]}, {instructions = FILE}, {dialogues = FILE}, {dataset = NAME}; "
        "or a list of these for a mixture: see docs/data.md",
    )
    valid: Corpora | None = Field(
        None, description="validation pairs, in the same forms; a built-in corpus has its own"
    )
    test: Corpora | None = Field(None, description="test pairs, in the same forms; used by `weft evaluate`")
    holdout: HoldoutSettings = HoldoutSettings()
    folder: str = Field(
        ".", description="relative file names start here; itself relative to the folder of the recipe file"
    )
    train_size: Count = Field(100_000, description="pairs drawn from a built-in corpus for training")
    valid_size: Count = Field(1_000, description="pairs drawn from it for validation")
    test_size: Count = Field(1_000, description="pairs drawn from it for testing")
    options: dict[str, Any] = Field({}, description="options of a built-in corpus")
    pipeline: list[AnyStep] = Field([], description="filters and transforms of pairs, in order: see docs/data.md")
    max_length: Count = Field(250, description="drop training pairs with more tokens than this on a side")
    bad_rows: Literal["error", "skip"] = Field(
        "error", description="rows that cannot be read (encoding, columns, …): stop, or skip and count them"
    )
    blank_rows: Literal["error", "skip"] = Field(
        "skip", description="rows with a blank side: stop, or skip and count them"
    )
    temperature: float = Field(
        1.0, ge=1, description="mixtures: 1 samples by size; higher values sample small corpora more often"
    )
    prompts: bool = Field(False, description="language model: the source is a prompt; only the target has a loss")
    prepared: str | None = Field(None, description="folder of the prepared corpus; made if it does not exist")
    streaming: bool = Field(False, description="train on the text while it is read, without preparing it")
    workers: int = Field(
        0, ge=0, le=1_024, description="processes that tokenize; 0: one per core if the corpus is large"
    )

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name, value in options.items():
            if not isinstance(value, int | float | str) or value in (float("inf"), float("-inf")) or value != value:
                raise ValueError(f"data.options.{name}: {value!r} was given; expected a number, a text, true or false")
        return options

    @model_validator(mode="after")
    def _has_training_pairs(self) -> DataSettings:
        named = [split for split in ("valid", "test") if getattr(self, split) is not None]
        if named and "train" not in self.model_fields_set:
            raise ValueError(f"data.train: is not set, but data.{named[0]} is; name the training pairs too")
        return self

    @model_validator(mode="after")
    def _check_holdout(self) -> DataSettings:
        for split in ("valid", "test"):  # pairs of a structure have no files of their own
            if getattr(self.holdout, split) and getattr(self, split) is not None:
                raise ValueError(f"data.holdout.{split}: data.{split} already names these pairs; leave out one of them")
        return self

    @model_validator(mode="after")
    def _check_streaming(self) -> DataSettings:
        if self.streaming and self.prepared is not None:
            raise ValueError("data.streaming: a stream is not prepared; leave out data.prepared")
        if self.streaming and any(step.needs_whole_corpus for step in self.pipeline):
            raise ValueError("data.streaming: duplicates are known only after reading everything; leave out that step")
        return self
