"""The model card of a run folder: model, data and training in a few lines of Markdown."""

from __future__ import annotations

from typing import Protocol

from weft.recipe import Recipe, RecurrentEncoderSettings, RecurrentSettings, TransformerSettings
from weft.recipe.corpus import Corpora, DialogueFile, HubDataset, InstructionFile, ParallelFiles, TableFile, as_list
from weft.text.tokenizer import Tokenizers


class TrainingResult(Protocol):
    """How training ended (`weft.training.events.Finished`)."""

    @property
    def step(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def reason(self) -> str: ...
    @property
    def best_step(self) -> int: ...


def model_card(
    recipe: Recipe, tokenizers: Tokenizers, *, finished: TrainingResult | None, validation: dict[str, float] | None
) -> str:
    """README.md of a run folder."""
    model = recipe.model
    name = {"prefix_lm": "prefix language model", "language_model": "language model"}.get(model.kind, "decoder")
    parts = [f"{model.decoder.kind} {name} {_stack(model.decoder)}"]
    if model.kind == "seq2seq":
        parts.insert(0, f"{model.encoder.kind} encoder {_stack(model.encoder)}")
    if isinstance(model.decoder, RecurrentSettings):
        score = model.attention.score
        parts.append("no attention" if score == "none" else f"{score} attention")
    sizes = (
        f"{tokenizers.target.size}, shared"
        if tokenizers.joint
        else f"{tokenizers.source.size} source, {tokenizers.target.size} target"
    )
    lines = [
        f"# {recipe.name}",
        "",
        recipe.summary or "A model trained with weft.",
        "",
        f"- model: {'; '.join(parts)}",
        f"- units: {_units(recipe)} ({sizes})",
        f"- data: {_corpus(recipe.data.train)}",
        f"- seed: {recipe.seed}",
    ]
    if finished is None:
        lines.append("- state: training has started; resume it with `weft train … --resume`")
    else:
        lines.append(
            f"- trained: {finished.step} steps in {finished.seconds:.0f} s (stopped by {finished.reason}); "
            f"weights of step {finished.best_step}"
        )
    if validation is not None:
        lines.append("- last validation: " + ", ".join(f"{name} {value:.3f}" for name, value in validation.items()))
    lines += ["", "All settings: `recipe.toml`. Use it: `weft translate FOLDER`, or `weft.load(FOLDER)` in Python.", ""]
    return "\n".join(lines)


def _stack(stack: RecurrentSettings | TransformerSettings) -> str:
    """The size of an encoder or decoder in a few words."""
    size = f"{stack.layers} × {stack.hidden}"
    if isinstance(stack, TransformerSettings):
        return f"{size}, {stack.heads} heads, {stack.positions} positions"
    bidirectional = isinstance(stack, RecurrentEncoderSettings) and stack.bidirectional
    return f"{size}, bidirectional" if bidirectional else size


def _units(recipe: Recipe) -> str:
    source, target = recipe.tokenizer.kind, recipe.tokenizer.target_unit
    if not recipe.model.has_source or source == target:
        return target
    return f"{source} → {target}"


def _corpus(corpus: Corpora) -> str:
    """The training data in a few words."""
    if isinstance(corpus, list):
        return "; ".join(map(_corpus, corpus))
    if isinstance(corpus, str):
        return corpus
    if isinstance(corpus, ParallelFiles):
        return f"{_names(corpus.source)} → {_names(corpus.target)}"
    if isinstance(corpus, TableFile):
        return f"{_names(corpus.file)}, columns {_names(corpus.source)} → {_names(corpus.target)}"
    if isinstance(corpus, InstructionFile):
        return f"instructions of {_names(corpus.instructions)}"
    if isinstance(corpus, DialogueFile):
        return f"dialogues of {_names(corpus.dialogues)}, {corpus.context} turns before each"
    if isinstance(corpus, HubDataset):
        return f"dataset {corpus.dataset}, columns {_names(corpus.source)} → {_names(corpus.target)}"
    return corpus.name


def _names(value: object) -> str:
    return ", ".join(map(str, as_list(value)))
