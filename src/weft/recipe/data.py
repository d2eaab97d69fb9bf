"""[data] and [tokenizer]: where the pairs come from, what is done to them, and what a token of them is.

`Corpora` is every form in which [data] can name the source of pairs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from weft.recipe.base import Count, CountOrNone, Settings, Share
from weft.recipe.choices import ARRAY_SOURCES, FORMATS, Choice, TargetTokenizerKind, TokenizerKind
from weft.recipe.pipeline import AnyStep, FuzzySettings, NonEmpty, TermsSettings


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
    variants: int = Field(
        1,
        ge=1,
        le=1_000,
        description="drawings of the random steps of data.pipeline (noise, exchange, substitute, splice) that are kept "
        "for each pair; an epoch has all of them",
    )
    terms: TermsSettings = TermsSettings()
    fuzzy: FuzzySettings = FuzzySettings()
    max_length: Count = Field(250, description="drop training pairs with more tokens than this on a side")
    bad_rows: Literal["error", "skip"] = Field(
        "error", description="rows that cannot be read (encoding, columns, …): stop, or skip and count them"
    )
    outside: bool = Field(False, description="pictures and frames: a table may name files outside of its folder")
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
        for split in ("valid", "test"):  # pairs held out for their structure have no files
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


class TokenizerSettings(Settings):
    """[tokenizer]: what a token is."""

    kind: TokenizerKind = Field(
        "bpe",
        description="bpe, unigram, word, character or byte; picture or frames: the source names a file with an array",
    )
    target_kind: TargetTokenizerKind = Field(
        "same", description="kind of the target's tokenizer, if different; needs joint = false"
    )
    file: str | None = Field(
        None, description="use this tokenizer (tokenizer.json, SentencePiece) instead of learning one"
    )
    target_file: str | None = Field(None, description="the target's tokenizer, if different; needs joint = false")
    size: int = Field(
        8_000, ge=1, le=10_000_000, description="vocabulary size, special tokens included (bpe, unigram, word)"
    )
    joint: bool = Field(True, description="one vocabulary for both sides")
    minimum_count: Count = Field(1, description="drop symbols that are rarer than this (word, character)")
    normalize: Literal["none", "nfc", "nfkc"] = Field("none", description="Unicode normalization form")
    lowercase: bool = Field(False, description="lowercase all text")
    symbols: list[NonEmpty] = Field([], description="strings that are always one token, such as <2de>")
    protect: list[NonEmpty] = Field(
        [],
        description="regular expressions whose matches are never joined with their neighbors; frequent ones get an id",
    )
    end_of_word: bool = Field(True, description="bpe, unigram: mark the end of a word (</w>), not its beginning")
    byte_level: bool = Field(False, description="bpe: operate on bytes, so that nothing is unknown")
    byte_fallback: bool = Field(False, description="bpe, unigram: encode unknown characters as bytes")
    split_punctuation: bool = Field(
        True, description="word, bpe, unigram: punctuation and elided articles are separate words"
    )
    tags: bool = Field(False, description="character: a tag such as <ACC(PL)> is one token")
    source_language: str | None = Field(
        None, description="language of the sources, for a tokenizer of an imported model that has several"
    )
    target_language: str | None = Field(
        None, description="language of the targets, for a tokenizer of an imported model that has several"
    )
    new_languages: dict[str, NonEmpty] = Field(
        {},
        description="with training.start: languages to add to an imported model, each with the language whose "
        "embedding it starts with",
    )
    extend: bool = Field(False, description="with training.start: add ids for symbols that the tokenizer does not know")
    decompose: bool = Field(
        False, description="character: decompose text (NFD), e.g. a Korean syllable into its letters"
    )
    dropout: Share = Field(0.0, description="bpe: probability of skipping a merge in training (BPE-dropout)")
    variants: int = Field(
        8, ge=1, le=1_000, description="dropout: number of tokenizations kept for each pair; epochs cycle through them"
    )
    sample: Count = Field(50_000_000, description="characters to learn from; a larger corpus is sampled at random")
    channels: Count = Field(1, description="picture: 1 (gray) or 3 (red, green, blue); frames: values of a frame")
    height: CountOrNone = Field(0, description="picture: scale to this height in pixels; 0: pictures keep their sizes")
    max_values: Count = Field(
        4_194_304, description="picture, frames: refuse files with more pixels or values than this, unread"
    )

    @property
    def target_unit(self) -> str:
        """The target's kind, by name."""
        return self.kind if self.target_kind == "same" else self.target_kind

    @property
    def reads_arrays(self) -> bool:
        """Whether a source is an array, not a text."""
        return self.kind in ARRAY_SOURCES

    @model_validator(mode="after")
    def _agree(self) -> TokenizerSettings:
        if self.reads_arrays and (self.joint or self.target_unit == self.kind):
            raise ValueError(
                f"tokenizer.kind: {self.kind!r} is for sources; set tokenizer.joint = false and tokenizer.target_kind"
            )
        if self.kind == "picture" and self.channels not in (1, 3):
            raise ValueError(f"tokenizer.channels: {self.channels}; pictures have 1 (gray) or 3 (red, green, blue)")
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
