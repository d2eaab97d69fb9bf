"""From a recipe to a run folder: what ``weft train`` and `weft.train` do.

for event in weft.train(weft.load_recipe("grammar"), "runs/grammar"):
    print(event)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from weft import preparation as corpus
from weft.data.batching.streaming import StreamedCorpus
from weft.data.pairs import Pair
from weft.data.reading.corpora import reads_standard_input
from weft.data.store.block_tokenizer import KEPT
from weft.data.store.encode import encode_pairs
from weft.errors import DataError, RecipeError, nearest
from weft.evaluation.metrics import METRICS, check_metrics, compute_metrics, perplexity
from weft.evaluation.references import GROUPINGS
from weft.files import save_text
from weft.models import AnyModel
from weft.models.build import build_model, choose_device
from weft.preparation import (
    Transform,
    find_corpora,
    has_corpus,
    read_corpus,
    sources_of,
)
from weft.recipe import Recipe, load_recipe, write_toml
from weft.runs.layout import RunFolder
from weft.runs.model_card import model_card
from weft.runs.weights import initialize_from
from weft.text import specials
from weft.text.tokenizer_pair import Tokenizers, load_tokenizers
from weft.training.distributed import SINGLE_PROCESS, Workers
from weft.training.events import Event, Finished, Started, Step
from weft.training.trainer import Scores, Trainer, Validate
from weft.translation.forced_decoding import likelihood
from weft.translation.translator import Translator


def train(
    recipe: Recipe,
    out: Path | str | None = None,
    *,
    resume: bool = False,
    transforms: Sequence[Transform] = (),
    workers: Workers = SINGLE_PROCESS,
) -> Iterator[Event]:
    """Train a model; every event is logged to the run folder and yielded.

    ``workers``: this process among several that train together; they must be connected (`Workers.connected`).
    ``transforms``: functions that every training pair goes through after data.pipeline; None for a pair drops it.
    """
    folder = RunFolder(out or Path("runs") / recipe.name)
    _check(recipe)
    if workers.world_size > 1:
        _check_shared(recipe)
    device = workers.device(choose_device(recipe.training.device))
    workers.wait_for_main()
    resume = resume or not workers.is_main  # the first one has made the run folder
    if resume:
        recipe = _resumed(folder, recipe)
        tokenizers: Tokenizers | None = load_tokenizers(folder.tokenizer_paths())
    else:
        tokenizers = None
        if folder.path.exists():
            RunFolder.create(folder.path, lambda _: None)  # says what to do about it
    problems: Counter[str] = Counter()
    held_out = _held_out(recipe, problems)  # what is wrong with it is said before hours of preparing
    start = None if resume or recipe.training.start is None else RunFolder(recipe.training.start).check()
    prepared = corpus.prepare(
        recipe, tokenizers=tokenizers, start=() if start is None else start.tokenizer_paths(), transforms=transforms
    )
    tokenizers = prepared.tokenizers
    left_out = _left_out(recipe, (counts.dropped for counts in prepared.counts))
    if not prepared.pairs:
        reasons = ", ".join(f"{count:,} {what}" for what, count in left_out.items()) or "there were none"
        raise DataError(f"data.train: no pair is left to train on ({reasons})")
    model = build_model(
        recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size, seed=recipe.seed
    )
    if start is not None:
        initialize_from(model, start.read_model().tensors, where=str(start.path))
    trainer = Trainer(
        model,
        prepared.data,
        recipe.training,
        folder=folder,
        seed=recipe.seed,
        begin=specials.BEGIN,
        validate=_validation(recipe, held_out, tokenizers, device),
        device=device,
        workers=workers,
    )
    if resume:
        trainer.restore()
    else:
        _create(trainer, recipe, tokenizers)
    if workers.is_main:
        folder.truncate_log(trainer.progress.step)
        workers.record_run(str(folder.path.resolve()))
        workers.signal_ready()
    log = _logged if workers.is_main else _not_logged
    yield log(
        folder,
        Started(
            step=trainer.progress.step,
            pairs=0 if recipe.data.streaming else prepared.pairs,
            dropped={**left_out, **{f"of data.valid ({kind})": count for kind, count in problems.items()}},
            source_vocabulary=tokenizers.source.size,
            target_vocabulary=tokenizers.target.size,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            device=str(device),
            steps=recipe.training.steps,
            path=str(folder.path),
        ),
    )
    for event in trainer.events():
        if isinstance(event, Finished) and isinstance(prepared.data, StreamedCorpus):
            event = replace(event, dropped=_left_out(recipe, [prepared.data.drop_reasons]))
        if isinstance(event, Finished) and workers.is_main:
            _conclude(folder, recipe, tokenizers, event, trainer.progress.last_validation)
        if not isinstance(event, Step) or event.step % recipe.training.log_every == 0:
            log(folder, event)
        yield event


def _logged(folder: RunFolder, event: Event) -> Event:
    folder.append_log(event.record())
    return event


def _not_logged(folder: RunFolder, event: Event) -> Event:
    return event


def _check(recipe: Recipe) -> None:
    """What can be known to be wrong before anything is read."""
    metric, several = recipe.training.metric, recipe.evaluation.references == "grouped"
    check_metrics(recipe.evaluation.metrics, several_references=several, setting="evaluation.metrics")
    if metric != "loss":
        if metric not in METRICS or not METRICS[metric].single_score:
            names = ["loss", *(name for name, known in METRICS.items() if known.single_score)]
            raise RecipeError(f"training.metric: unknown metric {metric!r}; {nearest(metric, names)}")
        check_metrics([metric], several_references=several)
        if sources_of(recipe) == "none":
            raise RecipeError(f"training.metric: {metric!r} needs translations; a language model is judged by 'loss'")


def _check_shared(recipe: Recipe) -> None:
    """Every worker reads the pairs by itself, unless they are prepared; the first would leave no standard input."""
    for split in ("train", "valid"):
        if not has_corpus(recipe, split) or (split == "train" and recipe.data.prepared is not None):
            continue
        if any(reads_standard_input(one.corpus) for one in find_corpora(recipe, split, allow_missing=True)):
            raise DataError(f"data.{split}: several workers cannot all read standard input (-); give them a file")


def _left_out(recipe: Recipe, drop_reasons: Iterable[Counter[int]]) -> dict[str, int]:
    """How many rows of all corpora were left out, by reason."""
    reasons = corpus.reasons_of(recipe)
    found: dict[str, int] = {}
    for drop_reason, times in sorted(sum(drop_reasons, Counter()).items()):
        if drop_reason != KEPT:
            reason = reasons.get(drop_reason, "a function")
            found[reason] = found.get(reason, 0) + times
    return found


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
    free |= {"device", "precision", "compile", "start", "shard"}
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


def _held_out(recipe: Recipe, problems: Counter[str]) -> list[Pair] | None:
    """The pairs to validate on, if that is done."""
    if not (recipe.training.validate_every and has_corpus(recipe, "valid")):
        return None
    return list(read_corpus(recipe, "valid", problems))


def _validation(
    recipe: Recipe, pairs: list[Pair] | None, tokenizers: Tokenizers, device: torch.device
) -> Validate | None:
    """What is measured now and then: the loss and, if the recipe asks, a metric of decoded text."""
    if pairs is None:
        return None
    encoded = encode_pairs(pairs, tokenizers, sources=sources_of(recipe), max_length=recipe.data.max_length)
    if not len(encoded):
        raise DataError("data.valid: no pair is left to validate on")
    items = GROUPINGS[recipe.evaluation.references](pairs)
    sources = items.sources[: recipe.training.valid_sentences]
    references = items.references[: recipe.training.valid_sentences]
    metric = recipe.training.metric

    def validate(model: AnyModel) -> Scores:
        found = likelihood(model, encoded, begin=specials.BEGIN, device=device)
        value = perplexity(found.log_probability, found.tokens).value
        if metric == "loss":
            return Scores(found.loss, value, {}, -found.loss)
        translator = Translator(model, tokenizers, recipe, device=device)
        outputs = translator.translate(sources, return_attention=False)
        [result] = compute_metrics([metric], [output.text for output in outputs], references)
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
