"""From a recipe to a run folder: what ``weft train`` and `weft.train` do.

for event in weft.train(weft.load_recipe("grammar"), "runs/grammar"):
    print(event)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch

from weft.build import (
    Tokenizers,
    build_model,
    choose_device,
    encode_pairs,
    has_corpus,
    learn_tokenizers,
    load_tokenizers,
    read_corpus,
    start_tokenizers,
)
from weft.card import model_card
from weft.data.pairs import Pair
from weft.data.store import PairStore
from weft.errors import DataError, RecipeError, nearest
from weft.evaluation.likelihood import likelihood
from weft.evaluation.metrics import FAMILIES, METRICS, measure, perplexity
from weft.files import save_text
from weft.models import AnyModel
from weft.recipe import load_recipe, write_toml
from weft.settings import Recipe
from weft.text import specials
from weft.training.checkpoint import RunFolder
from weft.training.events import Event, Finished, Prepared, Step
from weft.training.loop import Scores, Trainer, Validate, start_weights
from weft.translator import Translator


def train(recipe: Recipe, out: Path | str | None = None, *, resume: bool = False) -> Iterator[Event]:
    """Train a model; every event is logged to the run folder and yielded."""
    folder = RunFolder(out or Path("runs") / recipe.name)
    _check(recipe)
    device = choose_device(recipe.training.device)
    if resume:
        recipe = _resumed(folder, recipe)
        tokenizers: Tokenizers | None = load_tokenizers(folder.tokenizers())
    else:
        tokenizers = None
        if folder.path.exists():
            RunFolder.create(folder.path, lambda _: None)  # says what to do about it
    pairs = _read(recipe, "train")
    start = None if resume or recipe.training.start is None else RunFolder(recipe.training.start).check()
    if start is not None:
        tokenizers = start_tokenizers(recipe, pairs, start.tokenizers())
    tokenizers = tokenizers or learn_tokenizers(recipe, pairs)
    encoded = encode_pairs(pairs, tokenizers, sources=recipe.model.has_source, max_length=recipe.data.max_length)
    if not len(encoded.pairs):
        raise DataError(
            f"data.train: no pair is left to train on ({encoded.blank} blank, {encoded.long} over "
            f"data.max_length = {recipe.data.max_length})"
        )
    model = build_model(
        recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size, seed=recipe.seed
    )
    if start is not None:
        start_weights(model, start.read_model().tensors, where=str(start.path))
    trainer = Trainer(
        model,
        encoded.pairs,
        recipe.training,
        folder=folder,
        seed=recipe.seed,
        begin=specials.BEGIN,
        validate=_validation(recipe, tokenizers, device),
        device=device,
    )
    if resume:
        trainer.restore()
        folder.cut_log(trainer.progress.step)
    else:
        _create(trainer, recipe, tokenizers)
    yield _logged(
        folder,
        Prepared(
            step=trainer.progress.step,
            pairs=len(encoded.pairs),
            blank=encoded.blank,
            long=encoded.long,
            source_vocabulary=tokenizers.source.size,
            target_vocabulary=tokenizers.target.size,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            device=str(device),
            steps=recipe.training.steps,
            path=str(folder.path),
        ),
    )
    for event in trainer.events():
        if isinstance(event, Finished):
            _conclude(folder, recipe, tokenizers, event, trainer.progress.last_validation)
        if not isinstance(event, Step) or event.step % recipe.training.log_every == 0:
            _logged(folder, event)
        yield event


def _logged(folder: RunFolder, event: Event) -> Event:
    folder.append_log(event.record())
    return event


def _check(recipe: Recipe) -> None:
    """What can be known to be wrong before anything is read."""
    metric = recipe.training.metric
    for name in [*recipe.evaluation.metrics, *([] if metric == "loss" else [metric])]:
        if name not in METRICS and not (name in FAMILIES and name in recipe.evaluation.metrics):
            where = "evaluation.metrics" if name in recipe.evaluation.metrics else "training.metric"
            raise RecipeError(f"{where}: unknown metric {name!r}; {nearest(name, METRICS)}")
    if metric != "loss" and recipe.model.kind == "language_model":
        raise RecipeError(f"training.metric: {metric!r} needs translations; a language model is judged by 'loss'")


def _read(recipe: Recipe, split: str) -> list[Pair]:
    return list(read_corpus(recipe, split))


def _create(trainer: Trainer, recipe: Recipe, tokenizers: Tokenizers) -> None:
    """A run folder that can be loaded and resumed from its first moment on."""
    final = trainer.folder

    def fill(new: RunFolder) -> None:
        absolute = recipe.data.model_copy(update={"folder": str(Path(recipe.data.folder).resolve())})
        save_text(new.recipe, write_toml(recipe.model_copy(update={"data": absolute})))
        tokenizers.save(new.path)
        save_text(new.card, model_card(recipe, tokenizers, finished=None, validation=None))
        trainer.folder = new
        trainer.save()

    try:
        RunFolder.create(final.path, fill)
    finally:
        trainer.folder = final


def _resumed(folder: RunFolder, recipe: Recipe) -> Recipe:
    """The recipe of the run that goes on; only how long it trains and where may differ from the one given."""
    saved = load_recipe(folder.check().recipe)
    free = {"steps", "save_every", "log_every", "patience", "learning_rate", "clip"}
    free |= {"device", "precision", "compile", "start"}
    given = recipe.training.model_dump(include=free)
    going = saved.model_copy(update={"training": saved.training.model_copy(update=given)})
    same = recipe.model_copy(
        update={
            "name": saved.name,
            "data": recipe.data.model_copy(update={"folder": str(Path(recipe.data.folder).resolve())}),
        }
    )
    for group in ("seed", "data", "tokenizer", "model", "training"):
        if getattr(same, group) != getattr(going, group):
            raise RecipeError(
                f"--resume: {group} differs from {folder.recipe}; a resumed run goes on with its own settings "
                f"(only training.{', training.'.join(sorted(free))} may change)"
            )
    return going


def _validation(recipe: Recipe, tokenizers: Tokenizers, device: torch.device) -> Validate | None:
    """What is measured now and then: the loss and, if the recipe asks, a metric of decoded text."""
    if not (recipe.training.validate_every and has_corpus(recipe, "valid")):
        return None
    pairs = _read(recipe, "valid")
    encoded: PairStore = encode_pairs(
        pairs, tokenizers, sources=recipe.model.has_source, max_length=recipe.data.max_length
    ).pairs
    if not len(encoded):
        raise DataError("data.valid: no pair is left to validate on")
    chosen = pairs[: recipe.training.valid_sentences]
    metric = recipe.training.metric

    def validate(model: AnyModel) -> Scores:
        found = likelihood(model, encoded, begin=specials.BEGIN, device=device)
        value = perplexity(found.log_probability, found.tokens).value
        if metric == "loss":
            return Scores(found.loss, value, {}, -found.loss)
        translator = Translator(model, tokenizers, recipe, device=device)
        outputs = translator.translate([pair.source for pair in chosen], attention=False)
        [result] = measure([metric], [output.text for output in outputs], [pair.target for pair in chosen])
        worth = result.value if result.better == "higher" else -result.value
        return Scores(found.loss, value, {metric: result.value}, worth)

    return validate


def _conclude(
    folder: RunFolder, recipe: Recipe, tokenizers: Tokenizers, event: Finished, last: dict[str, float] | None
) -> None:
    """Write the result for programs (metrics.json) and for people (README.md)."""
    result = {"steps": event.step, "seconds": event.seconds, "best_step": event.best_step, "last_validation": last}
    save_text(folder.metrics, json.dumps(result, indent=1) + "\n")
    save_text(folder.card, model_card(recipe, tokenizers, finished=event, validation=last))
