"""The model card of a run folder: model, data and training in a few lines of Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from weft.recipe import Recipe, RecurrentEncoderSettings, RecurrentSettings, TransformerSettings
from weft.recipe.data import Corpora, DialogueFile, HubDataset, InstructionFile, ParallelFiles, TableFile, as_list
from weft.runs.weights import STRUCTURAL, WeightsOrigin, resume_command
from weft.text.tokenizer import Tokenizers


class TrainingResult(Protocol):
    """The result of training (`weft.training.events.Finished`)."""

    @property
    def step(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def reason(self) -> str: ...


class TrainingStatus(NamedTuple):
    """The training status of a run."""

    run: Path
    """The run folder, as the user named it."""
    weights: WeightsOrigin
    finished: TrainingResult | None = None
    """None: training has started."""
    sample: tuple[int, int] | None = None
    """The numbers of sentences used for the validation metric, and in the validation set."""


def model_card(recipe: Recipe, tokenizers: Tokenizers, status: TrainingStatus) -> str:
    """README.md of a run folder."""
    model, run = recipe.model, status.run
    name = {"prefix_lm": "prefix language model", "language_model": "language model"}.get(model.kind, "decoder")
    parts = [f"{model.decoder.kind} {name} {_stack(model.decoder)}"]
    if model.kind == "seq2seq":
        parts.insert(0, f"{model.encoder.kind} encoder {_stack(model.encoder)}")
    if model.sources.count > 1:
        parts.append(f"{model.sources.count} sources, {model.sources.encoders} encoders")
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
        f"- data: {_corpus(recipe.data.train)}{_held_out(recipe)}",
        f"- seed: {recipe.seed}",
    ]
    if recipe.training.start is not None:
        lines.append(f"- started from: {recipe.training.start}{_trained_part(recipe)}")
    if recipe.serve.source or recipe.serve.target:
        lines.append(f"- languages: {recipe.serve.source or 'source'} → {recipe.serve.target or recipe.name}")
    if (finished := status.finished) is None:
        lines.append(f"- state: training has started; after an interruption, continue it with `{resume_command(run)}`")
    else:
        lines.append(f"- trained: {finished.step} steps in {finished.seconds:.0f} s (stopped by {finished.reason})")
        lines.append(f"- weights: {status.weights.describe()}; {_validation(status)}")
    use = f"weft {'sample' if recipe.source_role == 'none' else 'translate'} {shlex.quote(str(run))}"
    lines += ["", f"All settings: `recipe.toml`. Use it: `{use}`, or `weft.load({str(run)!r})` in Python.", ""]
    return "\n".join(lines)


def with_facts(card: str, facts: Sequence[str], prefixes: tuple[str, ...]) -> str:
    """A model card with these lines after its list of facts, in place of those that begin with one of the prefixes."""
    marked = tuple(f"- {prefix}" for prefix in prefixes)
    lines = [line for line in card.split("\n") if not line.startswith(marked)]
    numbers = [number for number, line in enumerate(lines) if line.startswith("- ")]
    position = numbers[-1] + 1 if numbers else len(lines)
    return "\n".join([*lines[:position], *(f"- {fact}" for fact in facts), *lines[position:]])


def _trained_part(recipe: Recipe) -> str:
    """The trained part of another run's weights; empty if all were trained."""
    lora, frozen = recipe.training.lora, recipe.training.freeze
    if lora.rank:
        scale = f"rank {lora.rank}, alpha {lora.scale * lora.rank:g}"
        targets = ", ".join(lora.targets) or "the default projections"
        return f"; trained: the adapter {lora.name!r} (LoRA of {scale}, on {targets})"
    return f"; frozen: {', '.join(frozen)}" if frozen else ""


def _held_out(recipe: Recipe) -> str:
    """The shares of the data that were held out."""
    purposes = {"valid": "validation", "test": "testing", "structure": "validation by structure, at most"}
    shares = {purposes[split]: share for split, share in recipe.data.holdout.model_dump().items() if share}
    text = " and ".join(f"{share:.2%} for {purpose}" for purpose, share in shares.items())
    return f"; held out: {text}" if text else ""


def _validation(status: TrainingStatus) -> str:
    """The validation scores of the weights."""
    weights, sample = status.weights, status.sample
    if weights.validation is None:
        return "never validated"
    ordinary = [name for name in weights.validation if not name.startswith(STRUCTURAL)]
    structural = [name for name in weights.validation if name.startswith(STRUCTURAL)]
    text = "validation " + ", ".join(f"{name} {weights.validation[name]:.3f}" for name in ordinary)
    if weights.diverged:
        return f"{text}: training diverged"
    if sample is not None and sample[0] < sample[1]:
        text += f" ({ordinary[-1]} on a sample of {sample[0]:,} of {sample[1]:,} sentences)"
    if structural:
        numbers = (f"{name.removeprefix(STRUCTURAL)} {weights.validation[name]:.3f}" for name in structural)
        text += f"; pairs held out for their structure: {', '.join(numbers)}"
    return text


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
