"""[data] and [tokenizer]: where pairs come from, what is done to them, and what a token is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from weft.settings.base import Count, CountOrNone, Settings, Share
from weft.settings.pipeline import StepSettings


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
    pipeline: list[StepSettings] = Field([], description="filters and transforms, in their order: see docs/data.md")
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
        if self.streaming and any(step.kind == "duplicates" for step in self.pipeline):
            raise ValueError("data.streaming: duplicates are only known when all was read; leave out that step")
        return self


Unit = Literal["bpe", "unigram", "word", "character", "byte"]


class TokenizerSettings(Settings):
    """[tokenizer]: what a token is."""

    kind: Unit = Field("bpe", description="the unit")
    target_kind: Literal["same", "bpe", "unigram", "word", "character", "byte"] = Field(
        "same", description="the target's unit, where it is another; needs joint = false"
    )
    file: str | None = Field(None, description="take this tokenizer (tokenizer.json, SentencePiece), learn none")
    target_file: str | None = Field(None, description="the target's, where it is another; needs joint = false")
    size: Count = Field(8_000, description="number of ids, marks included (bpe, unigram, word)")
    joint: bool = Field(True, description="one vocabulary for both sides")
    minimum_count: Count = Field(1, description="leave out what is seen less often (word, character)")
    normalise: Literal["none", "nfc", "nfkc"] = Field("none", description="Unicode form that all text is brought to")
    lowercase: bool = Field(False, description="all text in lower case")
    symbols: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="text that is always one token, such as <2de>"
    )
    protect: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="regular expressions: what matches is cut from its neighbours, and kept whole if frequent"
    )
    end_of_word: bool = Field(True, description="bpe, unigram: mark the end of a word with </w>; else its beginning")
    byte_level: bool = Field(False, description="bpe: over bytes, so that nothing is unknown")
    byte_fallback: bool = Field(False, description="bpe, unigram: characters never seen are cut into bytes")
    split_punctuation: bool = Field(True, description="punctuation and elided articles are words (word, bpe, unigram)")
    tags: bool = Field(False, description="character: a tag such as <ACC(PL)> is one token")
    extend: bool = Field(False, description="training.start: give ids to what the run's tokenizer does not know")
    decompose: bool = Field(False, description="character: of decomposed text (NFD), a Korean syllable as its letters")
    dropout: Share = Field(0.0, description="bpe: leave out merges with this probability in training (BPE-dropout)")
    variants: Count = Field(8, description="dropout: so many ways of cutting each pair are kept, one an epoch in turn")
    sample: Count = Field(50_000_000, description="characters to learn from; of a larger corpus, a random sample")

    @property
    def target_unit(self) -> str:
        """The target's kind, by name."""
        return self.kind if self.target_kind == "same" else self.target_kind

    @model_validator(mode="after")
    def _agree(self) -> TokenizerSettings:
        if self.joint and self.target_unit != self.kind:
            raise ValueError(
                f"tokenizer.target_kind: {self.target_kind!r} beside tokenizer.kind = {self.kind!r} "
                "needs two vocabularies; set tokenizer.joint = false"
            )
        if self.target_file is not None and (self.joint or self.file is None):
            raise ValueError("tokenizer.target_file: needs tokenizer.file beside it and tokenizer.joint = false")
        if self.file is not None and self.target_file is None and not self.joint:
            raise ValueError("tokenizer.joint: false needs two tokenizers; set tokenizer.target_file too")
        if self.tags and "character" not in (self.kind, self.target_unit):
            raise ValueError("tokenizer.tags: only characters know tags; set tokenizer.kind = 'character'")
        if self.dropout and self.file is None and (self.kind, self.target_unit) != ("bpe", "bpe"):
            raise ValueError("tokenizer.dropout: only merges of bpe can be left out; set tokenizer.kind = 'bpe'")
        return self
