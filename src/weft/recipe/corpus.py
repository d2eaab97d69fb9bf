"""Corpora in a recipe: every form in which [data] can name where pairs come from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from weft.recipe.base import Count, Settings


def _files(given: Any) -> list[str]:
    names = listed(given)
    if not names or not all(isinstance(name, str) and name and "\0" not in name for name in names):
        raise PydanticCustomError("files", "expected a file's name, or a list of them")
    return names


def _columns(given: Any) -> list[int | str]:
    columns = listed(given)
    if not columns:
        raise PydanticCustomError("columns", "expected a column's name or number, or a list of them")
    return [_column(column) for column in columns]


def _column(given: Any) -> Any:
    named = isinstance(given, str) and given != ""
    if not named and not (type(given) is int and given >= 1):
        raise PydanticCustomError("column", "expected a column's name, or its number from 1 on")
    return given


def listed(given: Any) -> list[Any]:
    """One or several, as a list."""
    return list(given) if isinstance(given, list) else [given]


Files = Annotated[list[str], BeforeValidator(_files)]
Column = Annotated[int | str, BeforeValidator(_column)]
Columns = Annotated[list[int | str], BeforeValidator(_columns)]
Format = Literal["auto", "tsv", "csv", "jsonl", "parquet"]


class CorpusSettings(Settings):
    """What every corpus has: its place among others that are mixed with it."""

    weight: float | None = Field(None, gt=0, description="share of this corpus among those mixed; not set: by size")
    tag: str | None = Field(None, description="put before every source, with a space")
    first_step: Count = Field(1, description="train on it from this step on")
    last_step: Count | None = Field(None, description="… and up to this one")

    @model_validator(mode="after")
    def _agree(self) -> CorpusSettings:
        if self.last_step is not None and self.last_step < self.first_step:
            raise ValueError(f"data.train: last_step {self.last_step} is before first_step {self.first_step}")
        if self.tag is not None and not self.tag.strip():
            raise ValueError("data.train: the tag is blank; give one, such as tag = '<2de>'")
        return self


class NamedCorpus(CorpusSettings):
    """A built-in corpus or a file of pairs, by name."""

    name: str = Field(description="a built-in corpus, or a file with source, tab, target on every line")
    size: Count | None = Field(None, description="pairs to draw from a built-in corpus; not set: data.train_size")
    options: dict[str, Any] = Field({}, description="options of a built-in corpus")


class ParallelFiles(CorpusSettings):
    """Two files, or lists of them, with a line for a line."""

    source: Files = Field(description="file with a source on every line; a list or a glob for several")
    target: Files = Field(description="file with the target of the same line")


class RowSettings(CorpusSettings):
    """How a file of rows is read."""

    format: Format = Field("auto", description="tsv, csv, jsonl or parquet; auto: by the file's name")
    header: bool | None = Field(None, description="whether the first row names columns; not set: where names are used")
    delimiter: str | None = Field(None, min_length=1, max_length=1, description="between columns of a csv file")


class TableFile(RowSettings):
    """Columns of a table, by name or counted from 1; several that make up a side are joined by one space."""

    file: Files = Field(description="file with a pair in every row; a list or a glob for several")
    source: Columns = Field(description="columns of the source")
    target: Columns = Field(description="columns of the target")
    tags: Annotated[list[int | str], BeforeValidator(lambda given: _columns(given) if given != [] else [])] = Field(
        [], description="those of them that list features, N;ACC(PL), to be read as <N><ACC(PL)>"
    )
    links: Column | None = Field(None, description="column of word links, 0-0 1-2")

    @field_validator("tags")
    @classmethod
    def _are_columns(cls, given: list[int | str], others: ValidationInfo) -> list[int | str]:
        known = (*others.data.get("source", given), *others.data.get("target", given))
        for column in given:
            if column not in known:
                raise PydanticCustomError("tags", "column {column} is in neither source nor target", {"column": column})
        return given


class InstructionFile(RowSettings):
    """Rows of instruction, input and output; the source is made of the first two by a template."""

    instructions: Files = Field(description="file with an instruction in every row; a list or a glob for several")
    instruction: Column = Field("instruction", description="column of what is to be done")
    input: Column | None = Field("input", description="column of what it is to be done with; may be empty")
    output: Column = Field("output", description="column of the target")
    template: str = Field("{instruction}\n{input}", description="the source of a row with an input")
    template_without_input: str = Field("{instruction}", description="the source of a row without one")


class DialogueFile(RowSettings):
    """A conversation a row; every turn but the first is a target, the turns before it are its source."""

    dialogues: Files = Field(description="file with the turns of a conversation in every row, separated by tabs")
    turns: Column | None = Field(None, description="jsonl, parquet: the column that lists the turns")
    context: Count = Field(3, description="so many turns before are read")
    separator: str = Field(" <turn> ", description="between turns")


class HubDataset(CorpusSettings):
    """A data set of the `datasets` package: by its name, or a folder that it has saved."""

    dataset: str = Field(description="its name, or a folder")
    config: str | None = Field(None, description="which of its configurations")
    split: str = Field("train", description="which part of it")
    source: Columns = Field(description="columns of the source; a.b for a column inside a column")
    target: Columns = Field(description="columns of the target")

    @field_validator("source", "target")
    @classmethod
    def _are_names(cls, given: list[int | str]) -> list[int | str]:
        if any(isinstance(column, int) for column in given):
            raise PydanticCustomError("names", "columns of a data set have names, not numbers")
        return given


FORMS: dict[str, type[CorpusSettings]] = {
    "<named>": NamedCorpus,
    "<files>": ParallelFiles,
    "<table>": TableFile,
    "<instructions>": InstructionFile,
    "<dialogues>": DialogueFile,
    "<dataset>": HubDataset,
}


def _form(given: object) -> str:
    """Which form of corpus is meant, right or wrong in itself: by the key that only this form has."""
    if isinstance(given, dict):
        for tag, key in (("dialogues",) * 2, ("instructions",) * 2, ("dataset",) * 2, ("named", "name")):
            if key in given:
                return f"<{tag}>"
        sides = [given[side] for side in ("source", "target") if side in given]
        numbers = (bool(sides) and all(isinstance(side, int) for side in sides)) or any(
            isinstance(item, int) for side in sides if isinstance(side, list) for item in side
        )
        return "<table>" if "file" in given or numbers else "<files>"
    return next((tag for tag, form in FORMS.items() if isinstance(given, form)), "<name>")


Corpus = Annotated[
    Annotated[str, Tag("<name>")]
    | Annotated[NamedCorpus, Tag("<named>")]
    | Annotated[ParallelFiles, Tag("<files>")]
    | Annotated[TableFile, Tag("<table>")]
    | Annotated[InstructionFile, Tag("<instructions>")]
    | Annotated[DialogueFile, Tag("<dialogues>")]
    | Annotated[HubDataset, Tag("<dataset>")],
    Discriminator(_form),
]
"""One corpus. The tags in brackets keep error messages to the form meant."""


def _one_or_several(given: object) -> str:
    return "<several>" if isinstance(given, list) else "<one>"


Corpora = Annotated[
    Annotated[Corpus, Tag("<one>")] | Annotated[list[Corpus], Field(min_length=1), Tag("<several>")],
    Discriminator(_one_or_several),
]
