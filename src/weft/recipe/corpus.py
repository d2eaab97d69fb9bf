"""Corpora in a recipe: every form in which [data] can name the source of pairs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from weft.recipe.base import Count, Settings
from weft.recipe.choices import FORMATS, Choice


def _files(value: Any) -> list[str]:
    names = as_list(value)
    if not names or not all(isinstance(name, str) and name and "\0" not in name for name in names):
        raise PydanticCustomError("files", "expected a file's name, or a list of them")
    return names


def _columns(value: Any) -> list[int | str]:
    columns = as_list(value)
    if not columns:
        raise PydanticCustomError("columns", "expected a column's name or number, or a list of them")
    return [_column(column) for column in columns]


def _column(value: Any) -> Any:
    is_name = isinstance(value, str) and value != ""
    if not is_name and not (type(value) is int and value >= 1):
        raise PydanticCustomError("column", "expected a column's name, or its number from 1 on")
    return value


def as_list(value: Any) -> list[Any]:
    """One or several, as a list."""
    return list(value) if isinstance(value, list) else [value]


Files = Annotated[list[str], BeforeValidator(_files)]
Column = Annotated[int | str, BeforeValidator(_column)]
Columns = Annotated[list[int | str], BeforeValidator(_columns)]
FormatName = Annotated[str, Choice(FORMATS, besides=("auto",))]


class CorpusSettings(Settings):
    """Settings that every corpus has: its share in a mixture, its tag, when it is trained on."""

    weight: float | None = Field(None, gt=0, description="share of this corpus in the mixture; not set: by size")
    tag: str | None = Field(None, description="put before every source, with a space")
    first_step: Count = Field(1, description="train on it from this step on")
    last_step: Count | None = Field(None, description="train on it up to this step; not set: to the end")

    @model_validator(mode="after")
    def _check(self) -> CorpusSettings:
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
    """Two files, or lists of them, that correspond line by line."""

    source: Files = Field(description="file with a source on every line; a list or a glob for several")
    target: Files = Field(description="file with the target on the same line")


class TableSettings(CorpusSettings):
    """The format of a table's records."""

    format: FormatName = Field("auto", description=f"{', '.join(FORMATS)}; auto: by the file's name")
    header: bool | None = Field(None, description="whether the first row names columns; not set: where names are used")
    delimiter: str | None = Field(None, min_length=1, max_length=1, description="between the columns of a tsv or csv")

    @field_validator("delimiter")
    @classmethod
    def _separates(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and delimiter in '\n\r"':
            raise PydanticCustomError("delimiter", "a line end or a quote cannot separate columns")
        return delimiter


class TableFile(TableSettings):
    """Columns of a table, by name or counted from 1; several that make up a side are joined by one space."""

    file: Files = Field(description="file with a pair in every row; a list or a glob for several")
    source: Columns = Field(description="columns of the source")
    target: Columns = Field(description="columns of the target")
    tags: Annotated[list[int | str], BeforeValidator(lambda value: _columns(value) if value != [] else [])] = Field(
        [], description="those of them that list features, N;ACC(PL), to be read as <N><ACC(PL)>"
    )
    links: Column | None = Field(None, description="column of word links, 0-0 1-2")

    @field_validator("tags")
    @classmethod
    def _are_columns(cls, tags: list[int | str], fields: ValidationInfo) -> list[int | str]:
        known = (*fields.data.get("source", tags), *fields.data.get("target", tags))
        for column in tags:
            if column not in known:
                raise PydanticCustomError("tags", "column {column} is in neither source nor target", {"column": column})
        return tags


class InstructionFile(TableSettings):
    """Rows of instruction, input and output; a template makes the source of the first two."""

    instructions: Files = Field(description="file with an instruction in every row; a list or a glob for several")
    instruction: Column = Field("instruction", description="column of the instruction")
    input: Column | None = Field("input", description="column of its input; may be empty")
    output: Column = Field("output", description="column of the target")
    template: str = Field("{instruction}\n{input}", description="the source of a row with an input")
    template_without_input: str = Field("{instruction}", description="the source of a row without one")


class DialogueFile(TableSettings):
    """A conversation per row; every turn but the first is a target, the turns before it are its source."""

    dialogues: Files = Field(description="file with the turns of a conversation in every row, separated by tabs")
    turns: Column | None = Field(None, description="jsonl, parquet: the column that lists the turns")
    context: Count = Field(3, description="how many turns before it are the source of a turn")
    separator: str = Field(" <turn> ", description="between turns")


class HubDataset(CorpusSettings):
    """A dataset of the `datasets` library: by its name, or a folder that it was saved to."""

    dataset: str = Field(description="its name, or a folder")
    config: str | None = Field(None, description="which of its configurations")
    split: str = Field("train", description="which of its splits")
    source: Columns = Field(description="columns of the source; a.b for a column inside a column")
    target: Columns = Field(description="columns of the target")

    @field_validator("source", "target")
    @classmethod
    def _are_names(cls, columns: list[int | str]) -> list[int | str]:
        if any(isinstance(column, int) for column in columns):
            raise PydanticCustomError("names", "columns of a data set have names, not numbers")
        return columns


FORMS: dict[str, type[CorpusSettings]] = {
    "<named>": NamedCorpus,
    "<files>": ParallelFiles,
    "<table>": TableFile,
    "<instructions>": InstructionFile,
    "<dialogues>": DialogueFile,
    "<dataset>": HubDataset,
}


def _form(value: object) -> str:
    """The tag of the form that is meant, valid or not: by the key that only this form has."""
    if isinstance(value, dict):
        for tag, key in (("dialogues",) * 2, ("instructions",) * 2, ("dataset",) * 2, ("named", "name")):
            if key in value:
                return f"<{tag}>"
        sides = [value[side] for side in ("source", "target") if side in value]
        numbers = (bool(sides) and all(isinstance(side, int) for side in sides)) or any(
            isinstance(item, int) for side in sides if isinstance(side, list) for item in side
        )
        return "<table>" if "file" in value or numbers else "<files>"
    return next((tag for tag, form in FORMS.items() if isinstance(value, form)), "<name>")


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
"""One corpus. The tags in angle brackets restrict error messages to the form that is meant."""


def _one_or_several(value: object) -> str:
    return "<several>" if isinstance(value, list) else "<one>"


Corpora = Annotated[
    Annotated[Corpus, Tag("<one>")] | Annotated[list[Corpus], Field(min_length=1), Tag("<several>")],
    Discriminator(_one_or_several),
]
