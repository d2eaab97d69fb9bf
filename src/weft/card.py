"""The model card of a run folder: what a person who finds it wants to know."""

from __future__ import annotations

from weft.build import Tokenizers
from weft.recipe import Corpus, Recipe, TableFile
from weft.training.events import Finished


def model_card(
    recipe: Recipe, tokenizers: Tokenizers, *, finished: Finished | None, validation: dict[str, float] | None
) -> str:
    """README.md of a run folder."""
    model = recipe.model
    attention = model.attention.score
    looks = "no attention" if attention == "none" else f"{attention} attention"
    parts = [f"{model.decoder.kind} language model, {model.decoder.layers} × {model.decoder.hidden}, {looks}"]
    if model.kind == "seq2seq":
        parts = [
            f"{model.encoder.kind} encoder {model.encoder.layers} × {model.encoder.hidden}"
            + (", both directions" if model.encoder.bidirectional else ""),
            f"{model.decoder.kind} decoder {model.decoder.layers} × {model.decoder.hidden}",
            looks,
        ]
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
        lines.append("- state: training has begun; resume it with `weft train … --resume`")
    else:
        lines.append(
            f"- trained: {finished.step} steps in {finished.seconds:.0f} s (ended by {finished.reason}); "
            f"weights of step {finished.best_step}"
        )
    if validation is not None:
        lines.append("- last validation: " + ", ".join(f"{name} {value:.3f}" for name, value in validation.items()))
    lines += ["", "All settings: `recipe.toml`. Use it: `weft translate FOLDER`, or `weft.load(FOLDER)` in Python.", ""]
    return "\n".join(lines)


def _units(recipe: Recipe) -> str:
    source, target = recipe.tokenizer.kind, recipe.tokenizer.target_unit
    if recipe.model.kind == "language_model" or source == target:
        return target
    return f"{source} → {target}"


def _corpus(corpus: Corpus) -> str:
    if isinstance(corpus, str):
        return corpus
    if isinstance(corpus, TableFile):
        source, target = (", ".join(map(str, columns)) for columns in (corpus.source, corpus.target))
        return f"{corpus.file}, columns {source} → {target}"
    return f"{corpus.source} → {corpus.target}"
