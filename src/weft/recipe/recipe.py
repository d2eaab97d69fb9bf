"""The recipe: all sections, the two smallest of them, and the checks that span several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from weft.recipe.base import Seed, Settings
from weft.recipe.data import DataSettings, HubDataset, NamedCorpus, TableFile, TokenizerSettings, as_list
from weft.recipe.model import ModelSettings, TransformerSettings
from weft.recipe.search import SearchSettings
from weft.recipe.training import TrainingSettings


class ServingSettings(Settings):
    """[serve]: what a service shows of a run."""

    source: str = Field(
        "", description="language of the sources, as `weft serve` names it to LibreTranslate's clients, such as en"
    )
    target: str = Field("", description="language of the targets, such as fr")
    examples: bool = Field(
        True, description="keep a few sources of the validation or test set in the run folder, as examples for the page"
    )
    states: int = Field(
        0,
        ge=0,
        le=20_000,
        description="training pairs whose decoder states are kept in the run folder, for the page to find the nearest; "
        "0: none",
    )


class EvaluationSettings(Settings):
    """[evaluation]: the report of `weft evaluate`."""

    metrics: list[str] = Field(["bleu", "chrf", "exact_match"], description="metrics that `weft evaluate` reports")
    former: str | None = Field(
        None,
        description="a TSV file of pairs of the former task, to measure what is forgotten; not set: the test set of "
        "training.start",
    )
    references: Literal["each", "grouped"] = Field(
        "each", description="grouped: pairs with the same source are one item with several references"
    )


class Recipe(Settings):
    """All settings of a run."""

    name: str = Field("unnamed", description="name of the recipe and, under runs/, of its run folder")
    summary: str = Field("", description="one-line description")
    seed: Seed = Field(1, description="random seed of weights, data order, dropout and sampling")
    data: DataSettings = DataSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    search: SearchSettings = SearchSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    serve: ServingSettings = ServingSettings()
    _run: Path | None = PrivateAttr(None)
    _accepted: frozenset[str] = PrivateAttr(frozenset())

    def __repr__(self) -> str:
        return f"<Recipe {self.name!r}: {self.model.kind}, {self.training.steps:,} steps, seed {self.seed}>"

    __str__ = __repr__

    def of_run(self, folder: Path | None, accepted: frozenset[str] = frozenset()) -> Recipe:
        """This recipe as that of a run folder: the files it names are read only if the run was trained with them.

        ``accepted``: the settings of [data] that the user gave himself; their files are read in any case.
        """
        recipe = self.model_copy()
        recipe._run, recipe._accepted = folder, accepted
        return recipe

    def accepting_new_data(self) -> Recipe:
        """This recipe as the user's own: the files it names are read, whatever is in them."""
        return self.of_run(None)

    def with_absolute_folder(self) -> Recipe:
        """This recipe with an absolute data.folder, as a run folder has it: it names the same data wherever it is."""
        data = self.data.model_copy(update={"folder": str(Path(self.data.folder).resolve())})
        return self.model_copy(update={"data": data})

    def run_of(self, split: str) -> Path | None:
        """The run folder that has the record of the files of a split, of "terms" or of "fuzzy"; None if they are the
        user's own choice. A folder is none: the names in it may be absolute, or lead out of it."""
        return None if split in self._accepted else self._run

    @property
    def source_role(self) -> Literal["text", "prompt", "none"]:
        """The role of a source: a separate sequence, the beginning of the target's sequence, or none."""
        if self.model.has_source:
            return "text"
        return "prompt" if self.data.prompts else "none"

    @property
    def longest_side(self) -> int:
        """The most ids of a side that a pair is trained on: data.max_length or, of an array, the bytes it may have."""
        bytes_of_array = 4 * self.tokenizer.channels * self.tokenizer.max_values if self.tokenizer.reads_arrays else 0
        return max(self.data.max_length, bytes_of_array)

    @property
    def given_columns(self) -> int:
        """The source columns that a user gives: without that of data.fuzzy."""
        return self.model.sources.count - (self.data.fuzzy.file is not None)

    @property
    def feature_columns(self) -> list[int]:
        """The source columns, counted from 0, that list features in the training data; empty if they are joined."""
        tables = [corpus for corpus in as_list(self.data.train) if isinstance(corpus, TableFile)]
        if not tables or self.model.sources.count == 1:
            return []
        return [index for index, column in enumerate(tables[0].source) if column in tables[0].tags]

    @field_validator("name")
    @classmethod
    def _is_folder_name(cls, name: str) -> str:
        if not re.fullmatch(r"\w[\w .+-]*", name):
            raise ValueError(f"name: {name!r} was given; it names a folder: letters, digits, space and . + - _ only")
        return name

    @model_validator(mode="after")
    def _agree(self) -> Recipe:
        if contradictions := list(self._contradictions()):
            raise ValueError("\n".join(contradictions))
        return self

    def _contradictions(self) -> Iterator[str]:
        """A line for each pair of settings that exclude each other."""
        if self.model.ties_inputs and not self.tokenizer.joint:
            yield f"model.tie: '{self.model.tie}' shares one embedding of both sides; it needs tokenizer.joint = true"
        for side, stack in (("encoder", self.model.encoder), ("decoder", self.model.decoder)):
            longest, formula = self.data.max_length + 1, "data.max_length + 1"
            prompted = self.model.kind == "language_model" and self.data.prompts
            if (self.model.kind == "prefix_lm" or prompted) and side == "decoder":  # one stack holds both sides
                longest, formula = 2 * longest, f"2 * ({formula})"
            if (
                isinstance(stack, TransformerSettings)
                and stack.positions == "learned"
                and stack.max_positions < longest
            ):
                yield (
                    f"model.{side}.max_positions: {stack.max_positions} is below {formula} = {longest}; "
                    "raise one or lower the other"
                )
        yield from self._column_contradictions()
        if self.training.precision == "bf16" and self.model.recurs:
            yield "training.precision: 'bf16' is for Transformers; recurrent models train in fp32 or tf32"
        if self.data.prompts and self.model.kind == "language_model" and self.training.forcing != "teacher":
            yield "data.prompts: prompts need training.forcing = 'teacher'"
        if self.training.loss == "entmax15":
            if self.training.label_smoothing:
                yield (
                    f"training.label_smoothing: {self.training.label_smoothing:g} would give every token probability, "
                    "which training.loss = 'entmax15' does not; set it to 0"
                )
            if self.model.attention.hard != "none":
                yield (
                    f"model.attention.hard: {self.model.attention.hard!r} sums probabilities over alignments; it needs "
                    "training.loss = 'cross_entropy'"
                )
            if self.model.copies:
                yield "model.copy: mixes two distributions; it needs training.loss = 'cross_entropy'"
        if self.training.coverage_loss:
            if not (self.model.attends and self.model.has_source):
                yield "training.coverage_loss: this model has no attention to a source; set it to 0"
            if self.training.forcing != "teacher":
                yield "training.coverage_loss: needs training.forcing = 'teacher'"
        yield from self._distillation_contradictions()
        if self.model.copies and self.training.forcing != "teacher" and self.training.label_smoothing:
            yield "training.label_smoothing: with model.copy it needs training.forcing = 'teacher'; set it to 0"
        yield from self._regularization_contradictions()
        if self.tokenizer.extend and self.training.start is None:
            yield "tokenizer.extend: there is no tokenizer to extend; start from a run (--from RUN)"
        if self.tokenizer.new_languages and self.training.start is None:
            yield "tokenizer.new_languages: there is no tokenizer to add languages to; start from a run (--from RUN)"
        yield from self._adapter_contradictions()
        yield from self._array_contradictions()
        yield from self._ctc_contradictions()
        if self.training.metric != "loss" and not self.training.validate_every:
            yield "training.metric: a metric needs validations; set training.validate_every"

    def _adapter_contradictions(self) -> Iterator[str]:
        """A line for each setting that training.lora excludes."""
        if not self.training.lora.rank:
            return
        if self.training.start is None:
            yield "training.lora: adapters are trained on the weights of another run; start from one (--from RUN)"
        if self.tokenizer.new_languages or self.tokenizer.extend:
            name = "extend" if self.tokenizer.extend else "new_languages"
            yield f"tokenizer.{name}: adapters do not train the embeddings of new tokens; leave out training.lora"
        if self.training.freeze:
            yield "training.freeze: with training.lora, only adapters are trained; leave it out"
        if self.training.shard != "none":
            yield f"training.shard: {self.training.shard!r} is not for adapters, which are small; set it to 'none'"

    def _ctc_contradictions(self) -> Iterator[str]:
        """A line for each setting that CTC excludes."""
        training, alone = self.training, self.model.kind == "ctc"
        if not (training.ctc or alone):
            return
        where = "model.kind: 'ctc'" if alone else f"training.ctc: {training.ctc:g}"
        excluded = {
            f"training.ctc = {training.ctc:g}": alone and training.ctc > 0,
            f"model.kind = {self.model.kind!r}": not alone and self.model.kind != "seq2seq",
            f"model.attention.hard = {self.model.attention.hard!r}": self.model.attention.hard != "none",
            "model.copy = true": self.model.copies,
            f"training.loss = {training.loss!r}": training.loss != "cross_entropy",
            f"training.forcing = {training.forcing!r}": training.forcing != "teacher",
            f"training.consistency = {training.consistency:g}": training.consistency > 0,
            f"training.coverage_loss = {training.coverage_loss:g}": training.coverage_loss > 0,
            f"training.distillation = {training.distillation:g}": training.distillation > 0,
        }
        for setting in (setting for setting, is_given in excluded.items() if is_given):
            yield f"{where} does not go with {setting}"

    def _array_contradictions(self) -> Iterator[str]:
        """A line for each setting that does not fit a source that is an array, or not."""
        tokenizer, stem = self.tokenizer, self.model.stem
        kinds = {"picture": ("columns", "grid"), "frames": ("frames",)}.get(tokenizer.kind, ("none",))
        if stem.kind not in kinds:
            expected = " or ".join(map(repr, kinds))
            yield (
                f"model.stem.kind: {stem.kind!r} does not read tokenizer.kind = {tokenizer.kind!r}; "
                f"set it to {expected}"
            )
        augmentation = self.training.augmentation
        changes = augmentation.changes_pictures, augmentation.changes_frames
        for name, is_given in zip(("picture", "frames"), changes, strict=True):
            if is_given and tokenizer.kind != name:
                yield f"training.augmentation: changes of {name}, but tokenizer.kind = {tokenizer.kind!r}; leave it out"
        if not tokenizer.reads_arrays:
            return
        if stem.inputs != tokenizer.channels:
            yield f"model.stem.inputs: {stem.inputs}, but tokenizer.channels = {tokenizer.channels}; make them agree"
        excluded = {
            f"model.kind = {self.model.kind!r}": self.model.kind not in ("seq2seq", "ctc"),
            "model.copy = true": self.model.copies,
            f"model.sources.count = {self.model.sources.count}": self.model.sources.count > 1,
            f"training.word_dropout = {self.training.word_dropout:g}": self.training.word_dropout > 0,
            f"training.coverage_loss = {self.training.coverage_loss:g}": self.training.coverage_loss > 0,
            f"search.coverage_penalty = {self.search.coverage_penalty:g}": self.search.coverage_penalty != 0,
            "data.streaming = true": self.data.streaming,
            f"tokenizer.dropout = {tokenizer.dropout:g}": tokenizer.dropout > 0,
        }
        for setting in (setting for setting, is_given in excluded.items() if is_given):
            yield f"tokenizer.kind: {tokenizer.kind!r} is a source of pictures or frames; not with {setting}"

    def _regularization_contradictions(self) -> Iterator[str]:
        """A line for each setting of regularization that does not fit the model or the training."""
        training = self.training
        if training.consistency:
            where = f"training.consistency: {training.consistency:g}"
            if training.forcing != "teacher":
                yield f"{where} compares two passes over the same inputs; it needs training.forcing = 'teacher'"
            if training.loss != "cross_entropy":
                yield f"{where} needs probabilities above zero; set training.loss = 'cross_entropy'"
            if not (self.model.dropout or self._other_dropout()):
                yield f"{where} compares two passes that without dropout are the same; set model.dropout"
        if training.word_dropout:
            where = f"training.word_dropout: {training.word_dropout:g}"
            if self.source_role == "none":
                yield f"{where} is of source tokens, which this model has none of; set it to 0"
            if self.model.copies:
                yield f"{where} would leave tokens that cannot be copied; with model.copy set it to 0"
        if self.data.variants > 1 and self.tokenizer.dropout:
            yield f"data.variants: {self.data.variants}, but tokenizer.dropout has variants of its own; set one of them"
        for name in ("consistency", "ema") if training.shard != "none" else ():
            if value := getattr(training, name):
                yield f"training.{name}: {value:g} is not for sharded weights; set training.shard = 'none'"

    def _other_dropout(self) -> bool:
        """Whether there is dropout that is not model.dropout."""
        names = ("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout")
        stacks = (self.model.encoder, self.model.decoder)
        return bool(self.training.lora.dropout) or any(getattr(stack, name, 0) for stack in stacks for name in names)

    def _distillation_contradictions(self) -> Iterator[str]:
        """A line for each setting that word-level distillation excludes."""
        if not self.training.distillation:
            return
        excluded = {
            f"training.loss = {self.training.loss!r}": self.training.loss != "cross_entropy",
            f"training.forcing = {self.training.forcing!r}": self.training.forcing != "teacher",
            f"training.coverage_loss = {self.training.coverage_loss:g}": self.training.coverage_loss > 0,
            f"training.consistency = {self.training.consistency:g}": self.training.consistency > 0,
            "model.copy = true": self.model.copies,
            f"model.kind = {self.model.kind!r}": self.model.kind == "language_model",
        }
        for setting in (setting for setting, is_given in excluded.items() if is_given):
            yield f"training.distillation: needs cross-entropy, teacher forcing and one vocabulary; not for {setting}"

    def _column_contradictions(self) -> Iterator[str]:
        """A line for each corpus that does not have the source columns of the model."""
        count = self.given_columns
        if self.data.fuzzy.file is not None and count != 1:
            yield (
                f"data.fuzzy: the most similar pair is a second source column; set model.sources.count = 2, "
                f"not {self.model.sources.count}"
            )
            return
        if (self.data.terms.file or self.data.fuzzy.file) and self.source_role != "text":
            name = "terms" if self.data.terms.file else "fuzzy"
            yield f"data.{name}: this model has no separate source; leave it out"
        for split in ("train", "valid", "test") if count > 1 else ():
            for corpus in as_list(getattr(self.data, split)):
                if isinstance(corpus, TableFile | HubDataset):
                    if len(corpus.source) != count:
                        given = ", ".join(map(str, corpus.source))
                        yield f"data.{split}: source names {given}, but model.sources.count = {count}; make them agree"
                elif corpus is not None and not isinstance(corpus, str | NamedCorpus):
                    columns = f"source = {[*range(1, count + 1)]}, target = {count + 1}"
                    yield f"data.{split}: model.sources.count = {count} needs a table: {{file = FILE, {columns}}}"


def only_in_weft(settings: ModelSettings, library: str, *, loss: str) -> str | None:
    """The reason why a library of encoder–decoders has no such model, in a line that names the setting; None if it may.

    ``loss``: the recipe's training.loss.
    """
    if loss != "cross_entropy":
        return f"training.loss: {library} has no output layer for {loss!r}; only for 'cross_entropy'"
    if settings.kind != "seq2seq":
        return f"model.kind: {settings.kind!r} is not exported to {library}; only 'seq2seq' is"
    if settings.stem.kind != "none":
        return f"model.stem.kind: {settings.stem.kind!r}, pictures or frames as sources, are not known to {library}"
    if settings.sources.count > 1:
        return f"model.sources.count: {settings.sources.count} sources are not known to {library}; it has one"
    if settings.attention.normalizer != "softmax":
        return f"model.attention.normalizer: {settings.attention.normalizer!r} is not known to {library}"
    if settings.copies:
        return f"model.copy: copying is not known to {library}"
    return None
