"""From a recipe to a run folder. `weft.train` (weft.pairs.train) adds what comes before a recipe and after training."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from weft.data.batching.streaming import StreamedCorpus
from weft.data.batching.word_dropout import protected_ids
from weft.data.fingerprints import DataRecord, check_outside, check_unchanged, record_data_files
from weft.data.pairs import Pair
from weft.data.preparation import (
    PreparedCorpus,
    Transform,
    check_files,
    drop_reasons,
    find_corpora,
    has_corpus,
    prepare,
)
from weft.data.preparation.corpora import example_sources
from weft.data.reading.corpora import reads_standard_input
from weft.data.store.block_tokenizer import KEPT
from weft.errors import DataError, RecipeError, nearest, option, warn
from weft.evaluation.metrics import METRICS, check_metrics
from weft.files import save_text
from weft.models.build import build_model, check_training_memory
from weft.models.interface import HasOutputLayer, Model
from weft.recipe import Recipe, load_recipe
from weft.recipe.toml import leading_comments, write_toml
from weft.runs.layout import RunFolder, write_examples
from weft.runs.load import set_copy_table
from weft.runs.locks import lock_run
from weft.runs.model_card import TrainingStatus, model_card
from weft.runs.weights import Tensors, WeightsOrigin
from weft.runtime.devices import choose_device, start_device
from weft.text.tokenizer import Tokenizers, load_tokenizers
from weft.training.diagnostics import Diagnostics
from weft.training.distillation import check_teacher, freeze_teacher
from weft.training.distributed import SINGLE_PROCESS, Workers
from weft.training.events import Event, Finished, Fitted, Started, Step
from weft.training.fine_tuning import initialize, initialize_languages, prepare_weights
from weft.training.interruption import explain_write_errors, saved_if_out_of_memory
from weft.training.trainer import Trainer
from weft.training.update import TrainingContext
from weft.training.validation import RecipeValidation, read_validation_pairs

Events = Generator[Event, None, None]

CHANGEABLE = (
    *("clip", "compile", "device", "learning_rate", "log_every", "patience", "precision", "save_every"),
    *("save_minutes", "shard", "start", "steps"),
)
"""Settings of [training] that may differ when a run is resumed."""


def train(
    recipe: Recipe,
    out: Path | str | None = None,
    *,
    model: Model | None = None,
    resume: bool = False,
    accept_new_data: bool = False,
    transforms: Transform | Sequence[Transform] = (),
) -> Events:
    """Train a model; every event is logged to the run folder and yielded.

    Ctrl-C, SIGTERM and SIGHUP take effect after the current step, when a checkpoint is saved; so does closing this
    generator (a ``break`` in the loop over it). ``resume=True`` continues from there.

    ``model``: your own, trained in place of the one that the recipe's [model] describes; see docs/extending.md.
    ``accept_new_data``: resume even if the data files have changed since.
    ``transforms``: functions that every training pair goes through after data.pipeline; None for a pair drops it.
    """
    yield from train_with(recipe, out, TrainingOptions(model, resume, transforms, accept_new_data=accept_new_data))


class NewRun(NamedTuple):
    """A run before its first update."""

    recipe: Recipe
    model: Model
    prepared: PreparedCorpus
    validation_pairs: list[Pair] | None
    device: torch.device
    teacher: Model | None = None


class FittedRun(NamedTuple):
    """The recipe that a run is trained with instead, the event that reports it, and when to end."""

    recipe: Recipe
    event: Fitted
    deadline: float
    """The last moment for an update, by `time.monotonic`."""


class TrainingOptions(NamedTuple):
    """Options of training that are not in the recipe."""

    model: Model | None = None
    resume: bool = False
    transforms: Transform | Sequence[Transform] = ()
    workers: Workers = SINGLE_PROCESS
    fit: Callable[[NewRun], FittedRun] | None = None
    """Called once the data and the model of a new run exist; it may change settings of [training]."""
    accept_new_data: bool = False
    teacher: Model | None = None
    """The teacher of training.distillation, with the vocabularies of the run. No recipe names one."""
    tokenizers: Tokenizers | None = None
    """For a new run, in place of those that its recipe names or that are learned."""
    prepare: Callable[..., PreparedCorpus] = prepare
    """Reads and tokenizes the training data; several runs of a process may share the result."""


def train_with(recipe: Recipe, out: Path | str | None, options: TrainingOptions) -> Events:
    """`train` with options of every kind."""
    _check_recipe(recipe)
    if recipe.training.distillation:
        check_teacher(recipe, options.teacher)
    if options.resume and not options.accept_new_data:
        check_outside(recipe)
    recipe = recipe.accepting_new_data()  # to train on the data of a recipe is to ask for them
    folder, workers = RunFolder(out or Path("runs") / recipe.name), options.workers
    _check_standard_input(recipe, workers)
    if options.resume:
        folder.check().check_resumable()
    elif workers.is_main:
        folder.check_new(folder.path)
    with explain_write_errors(folder), lock_run(folder.path, is_main=workers.is_main):
        yield from _train(recipe, folder, options)


def _train(recipe: Recipe, folder: RunFolder, options: TrainingOptions) -> Iterator[Event]:
    """Train in a run folder that this process has locked."""
    workers = options.workers
    device = choose_device(recipe.training.device)
    if workers.world_size > 1:
        device = workers.device(device)
        workers.wait_for_main()
    start_device(device, is_idle=True)
    resume = options.resume or not workers.is_main  # the main process has created the run folder
    if resume:
        recipe = _resumed_recipe(folder, recipe)
    else:
        folder.check_new(folder.path)
        check_files(recipe)
    if options.resume and not options.accept_new_data:
        check_unchanged(recipe, folder.path)
    data_files = record_data_files(recipe)
    row_errors: Counter[str] = Counter()
    validation_pairs = read_validation_pairs(recipe, row_errors)  # errors in it are reported before a long preparation
    start = None if resume or recipe.training.start is None else RunFolder(recipe.training.start).check()
    prepared = options.prepare(
        recipe,
        tokenizers=load_tokenizers(folder.tokenizer_paths()) if resume else options.tokenizers,
        start=() if start is None else start.tokenizer_paths(),
        transforms=options.transforms,
    )
    dropped = _dropped(recipe, (counts.dropped for counts in prepared.counts))
    _check_pairs(prepared.pairs, dropped)
    model = build_initial_model(recipe, prepared.tokenizers, device) if options.model is None else options.model
    _check_output_layer(model, recipe.training.loss)
    if start is not None:
        initialize(model, start)
        initialize_languages(model, prepared.tokenizers, recipe.tokenizer.new_languages)
    is_partial = recipe.training.freeze or recipe.training.lora.rank or options.model is not None
    base: Tensors = prepare_weights(model, recipe, folder if resume else None) if is_partial else {}
    teacher = None if options.teacher is None else freeze_teacher(options.teacher, device)
    fitted: FittedRun | None = None
    if options.fit is not None:
        fitted = options.fit(NewRun(recipe, model, prepared, validation_pairs, device, teacher))
        recipe = fitted.recipe
    validation = None if validation_pairs is None else RecipeValidation(recipe, validation_pairs, prepared, device)
    begin = prepared.tokenizers.frame.begin
    protected = protected_ids(prepared.tokenizers, recipe.tokenizer.symbols) if recipe.training.word_dropout else ()
    context = TrainingContext(recipe.training, recipe.seed, device, workers, begin, frozenset(protected), teacher)
    deadline = math.inf if fitted is None else fitted.deadline
    trainer = Trainer(model, prepared.data, context, folder=folder, validate=validation, deadline=deadline)
    if resume:
        trainer.restore()
        if workers.is_main:
            _update_folder(folder, recipe, prepared, data_files, accept_new_data=options.accept_new_data)
    else:
        _create_folder(trainer, recipe, prepared, base, data_files)
    if workers.is_main:
        folder.truncate_log(trainer.progress.step)
        if workers.world_size > 1:
            workers.record_run(str(folder.path.resolve()))
            workers.signal_ready()
    dropped |= {f"of data.valid ({kind})": count for kind, count in row_errors.items()}
    events = _events(trainer, recipe, prepared, dropped, None if fitted is None else fitted.event)
    yield from _logged(Diagnostics(recipe, prepared.data).watch(events), trainer)


def build_initial_model(recipe: Recipe, tokenizers: Tokenizers, device: torch.device) -> Model:
    """The model of a recipe as training starts with it, if there is memory for its training."""
    source_size, target_size = tokenizers.source.size, tokenizers.target.size
    check_training_memory(recipe, source_size=source_size, target_size=target_size, device=device)
    model = build_model(
        recipe.model,
        source_size=source_size,
        target_size=target_size,
        loss=recipe.training.loss,
        ctc=recipe.training.ctc > 0,
        seed=recipe.seed,
    )
    if recipe.model.copies:
        set_copy_table(model, recipe.model, tokenizers)
    return model


def _check_pairs(pairs: int, dropped: dict[str, int]) -> None:
    """Fail if there is nothing to train on."""
    if not pairs:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items()) or "there were none"
        raise DataError(f"data.train: no pair is left to train on ({reasons})")


def _check_output_layer(model: Model, loss: str) -> None:
    """A model that a user made must have the output layer that the recipe's loss trains."""
    trained_by = model.output_layer().loss if isinstance(model, HasOutputLayer) else "cross_entropy"
    if loss != trained_by:
        raise RecipeError(
            f"training.loss: {loss!r} was given, but the output layer of this model is trained by {trained_by!r}; "
            "change one of them"
        )


def _events(
    trainer: Trainer, recipe: Recipe, prepared: PreparedCorpus, dropped: dict[str, int], fitted: Fitted | None
) -> Events:
    """The events of the loop, with `Started` before them, and the result written before `Finished`."""
    settings = recipe.training
    validations = settings.steps // settings.validate_every if trainer.validator and settings.validate_every else 0
    weights = [(parameter.numel(), parameter.requires_grad) for parameter in trainer.model.parameters()]
    parameters, trained = sum(size for size, _ in weights), sum(size for size, is_trained in weights if is_trained)
    yield Started(
        step=trainer.progress.step,
        pairs=0 if recipe.data.streaming else prepared.pairs,
        dropped=dropped,
        source_vocabulary=prepared.tokenizers.source.size,
        target_vocabulary=prepared.tokenizers.target.size,
        parameters=parameters,
        device=str(trainer.context.device),
        steps=settings.steps,
        path=str(trainer.folder.path),
        validations=validations,
        stops_early=bool(validations and settings.patience),
        trained_parameters=trained if trained < parameters else None,
    )
    if fitted is not None:
        yield fitted
    with closing(saved_if_out_of_memory(trainer)) as events:
        for event in events:
            if isinstance(event, Finished):
                if isinstance(prepared.data, StreamedCorpus):
                    event = replace(event, dropped=_dropped(recipe, [prepared.data.drop_reasons]))
                if trainer.workers.is_main:
                    _write_result(trainer, recipe, prepared.tokenizers, event)
            yield event


def _logged(events: Events, trainer: Trainer) -> Iterator[Event]:
    """Pass the events on, and write them to the log of the run folder; every ``training.log_every``-th of the steps."""

    def log(event: Event) -> None:
        if not isinstance(event, Step) or event.step % trainer.settings.log_every == 0:
            trainer.folder.append_log(event.record())

    with closing(events):
        for event in events:
            if trainer.workers.is_main:
                log(event)
            try:
                yield event
            except GeneratorExit:
                events.close()
                for unread in trainer.unread:
                    log(unread)
                raise


def _check_recipe(recipe: Recipe) -> None:
    """Report wrong metrics before anything is read."""
    if not isinstance(recipe, Recipe):
        raise RecipeError(f"train: a {type(recipe).__name__} was given; expected a recipe: weft.load_recipe(NAME)")
    metric, several = recipe.training.metric, recipe.evaluation.references == "grouped"
    if several or not METRICS.keys() >= {*recipe.evaluation.metrics}:
        check_metrics(recipe.evaluation.metrics, several_references=several, setting="evaluation.metrics")
    if metric != "loss":
        if metric not in METRICS or not METRICS[metric].single_score:
            names = ["loss", *(name for name, known in METRICS.items() if known.single_score)]
            raise RecipeError(f"training.metric: unknown metric {metric!r}; {nearest(metric, names)}")
        check_metrics([metric], several_references=several)
        if recipe.source_role == "none":
            raise RecipeError(f"training.metric: {metric!r} needs translations; a language model is judged by 'loss'")


def _check_standard_input(recipe: Recipe, workers: Workers) -> None:
    """Every worker reads the corpora, unless they are prepared; standard input can be read only once."""
    if workers.world_size == 1:
        return
    for split in ("train", "valid"):
        if not has_corpus(recipe, split) or (split == "train" and recipe.data.prepared is not None):
            continue
        if any(reads_standard_input(entry.corpus) for entry in find_corpora(recipe, split, allow_missing=True)):
            raise DataError(f"data.{split}: several workers cannot all read standard input (-); give them a file")


def _dropped(recipe: Recipe, counters: Iterable[Counter[int]]) -> dict[str, int]:
    """The number of dropped rows of all corpora, by drop reason."""
    reasons = drop_reasons(recipe)
    dropped: dict[str, int] = {}
    for code, count in sorted(sum(counters, Counter()).items()):
        if code != KEPT:
            reason = reasons.get(code, "a function")
            dropped[reason] = dropped.get(reason, 0) + count
    return dropped


def _create_folder(
    trainer: Trainer, recipe: Recipe, prepared: PreparedCorpus, base: Tensors, data_files: DataRecord
) -> None:
    """Create the run folder; it can be loaded and resumed from the beginning.

    ``base``: the weights that adapters are trained on, if any are.
    """

    def fill(temporary: RunFolder) -> None:
        save_text(temporary.recipe, write_toml(recipe.with_absolute_folder()))
        prepared.save(temporary.path)
        data_files.save(temporary.path)
        write_examples(temporary.path, example_sources(recipe))
        status = TrainingStatus(trainer.folder.path, trainer.delivered)
        save_text(temporary.card, model_card(recipe, prepared.tokenizers, status))
        if base:
            temporary.write_model(base, WeightsOrigin("base", (0,)))
        trainer.save(to=temporary)

    RunFolder.create(trainer.folder.path, fill)


def _update_folder(
    folder: RunFolder, recipe: Recipe, prepared: PreparedCorpus, data_files: DataRecord, *, accept_new_data: bool
) -> None:
    """Write the settings and, if they are accepted, the data of a run that is resumed into its folder."""
    comments = leading_comments(folder.recipe.read_text("utf-8"))
    # so that the next resumption needs no --set
    save_text(folder.recipe, write_toml(recipe.with_absolute_folder(), comments))
    if accept_new_data or DataRecord.load(folder.path) is None:
        data_files.save(folder.path)
        prepared.add_fingerprints(folder.path)


def _resumed_recipe(folder: RunFolder, recipe: Recipe) -> Recipe:
    """The recipe of the resumed run, with [serve] and the `CHANGEABLE` settings of the given one; others must agree."""
    saved = load_recipe(folder.check().recipe).accepting_new_data()  # `check_unchanged` compares them
    folder.check_no_links()
    changed = recipe.training.model_dump(include=set(CHANGEABLE))
    resumed = saved.model_copy(update={"training": saved.training.model_copy(update=changed), "serve": recipe.serve})
    given = recipe.with_absolute_folder().model_copy(update={"name": saved.name})
    for section in ("seed", "data", "tokenizer", "model", "training", "search", "evaluation"):
        if getattr(given, section) != getattr(resumed, section):
            raise RecipeError(
                f"{option('resume', True)}: {section} differs from {folder.recipe}; a resumed run keeps its own "
                f"settings (only [serve] and training.{', training.'.join(CHANGEABLE)} may change)"
            )
    return resumed


def _write_result(trainer: Trainer, recipe: Recipe, tokenizers: Tokenizers, finished: Finished) -> None:
    """Write the result for programs (metrics.json) and for people (README.md)."""
    folder, progress, delivered = trainer.folder, trainer.progress, trainer.delivered
    result = {
        "steps": finished.step,
        "seconds": finished.seconds,
        "best_step": finished.best_step,
        "weights": delivered.kind,
        "weight_steps": delivered.steps,
        "validation": delivered.validation,
        "last_validation": progress.last_validation,
        "validation_sample": progress.validation_sample,
    }
    if delivered.diverged:
        warn(f"{folder.path}: training diverged: no validation loss was finite")
    status = TrainingStatus(folder.path, delivered, finished, progress.validation_sample)
    save_text(folder.metrics, json.dumps(result, indent=1) + "\n")
    save_text(folder.card, model_card(recipe, tokenizers, status))
