"""Training on pairs within a time limit: a race between candidates, the winner, further models with what is left."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from weft.data.preparation import PreparedCorpus, find_corpora, has_corpus, prepare
from weft.data.preparation.provenance import provenance
from weft.pairs.race.events import RaceSkipped, RaceWon, shown
from weft.pairs.race.models import Distill, DistillationInputs, FurtherModels
from weft.pairs.race.plan import RaceTimes, race_times, too_short, too_short_before
from weft.pairs.race.probe import Probe, fit_probe, probe_recipe
from weft.pairs.race.race import Race, TooShortError
from weft.pairs.race.record import RaceRecord
from weft.pairs.recommendation.proposals import CandidateRecipe
from weft.pairs.train import PlannedRun, with_batch
from weft.recipe import Recipe, load_recipe
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_folder
from weft.training import train as core
from weft.training.events import Event, Fitted, Started
from weft.training.train import Events, TrainingOptions

REFERENCES = 0.5
"""The share of reference pairs among those that a student is trained on; the others have outputs of the ensemble."""
MEASUREMENTS = 2
"""Measurements before a speed counts as too slow: the first updates of a process are slow."""


class SharedPreparation:
    """`prepare` that remembers its results, by everything that they depend on.

    The seed is not part of that (`provenance`): a further model of another seed has the tokenizer of the first, and
    where variants of pairs are drawn at random, those of the first. Nor is data.folder, which is absolute in a run.
    """

    def __init__(self) -> None:
        self.corpora: dict[str, PreparedCorpus] = {}

    def __call__(self, recipe: Recipe, **options: Any) -> PreparedCorpus:
        if any(options.values()) or recipe.data.streaming or recipe.data.prepared is not None:
            return prepare(recipe, **options)
        key = json.dumps(
            [provenance(recipe, find_corpora(recipe, "train")), recipe.data.model_dump(mode="json", exclude={"folder"})]
        )
        if key not in self.corpora:
            self.corpora[key] = prepare(recipe, **options)
        return self.corpora[key]


class _Decision(NamedTuple):
    """The candidate to train in OUT, and the reason."""

    candidate: CandidateRecipe
    events: tuple[Event, ...] = ()
    """Events that led to the decision, for the log of the run."""
    comment: str | None = None


def race_run(run: PlannedRun, options: TrainingOptions, distill: Distill | None = None) -> Events:
    """The events of a run on pairs that has candidates and a time limit."""
    RunFolder.check_new(run.folder)
    options = options._replace(prepare=SharedPreparation())
    record = RaceRecord(run.folder)
    decision = yield from _decide(run, options, record)
    chosen = decision.candidate
    comments = chosen.lines if decision.comment is None else (*chosen.lines, decision.comment)
    winner = run._replace(recipe=chosen.recipe, comments=comments, candidates=())
    with closing(FurtherModels(winner, options, record, distill or distill_ensemble).events()) as events:
        for event in events:
            if isinstance(event, Started):
                _log(winner, decision.events)
            yield event


def distill_ensemble(teachers: DistillationInputs) -> Events:
    """Train a model of the same recipe on the outputs of the ensemble and on the references, to the end of the time."""
    from weft.pairs.distillation.distill import distill  # which imports the module that imports this one

    minutes = (teachers.limit.remaining() - teachers.reserved) / 60
    named = {"name": load_recipe(teachers.folders[0] / "recipe.toml").name}
    named["summary"] = f"Distilled from an ensemble of {len(teachers.folders)} models."
    yield from distill(
        teachers.folders,
        out=teachers.out,
        references=REFERENCES,
        changes=["training.patience=0", *(f"{name}={json.dumps(text)}" for name, text in named.items())],
        minutes=minutes,
        use_up_time=True,
        evaluate=False,
        accept_new_data=True,
    )


def _decide(run: PlannedRun, options: TrainingOptions, record: RaceRecord) -> Generator[Event, None, _Decision]:
    """Race the candidates, if there are several and there is time for that."""
    recommended = _Decision(run.candidates[0])
    if len(run.candidates) < 2 or run.limit is None:
        if recommended.candidate.alone is None:
            return recommended
        alone = RaceSkipped(0, recommended.candidate.alone)
        yield alone
        return recommended._replace(events=(alone,))
    times = race_times(run.limit.remaining() + record.elapsed, len(run.candidates))
    reason = too_short_before(times)
    if not has_corpus(run.recipe, "valid") or not run.recipe.training.validate_every:
        reason = "there are no validations to decide it by"
    for _ in range(MEASUREMENTS if reason is None else 0):
        record.folder.mkdir(parents=True, exist_ok=True)
        try:
            with lock_folder(record.folder, "racing"):
                return (yield from _race(run, options, record, times))
        except TooShortError as error:
            reason = str(error)
            record.remove()
            record.content = {}
    assert reason is not None
    skipped = RaceSkipped(0, reason)
    yield skipped
    return recommended._replace(events=(skipped,))


def _race(
    run: PlannedRun, options: TrainingOptions, record: RaceRecord, times: RaceTimes
) -> Generator[Event, None, _Decision]:
    """The winner of the race between the candidates of a run."""
    assert run.limit is not None
    record.begin(run.candidates, run.limit.minutes, times.probe)
    seconds = float(record.content["probe_seconds"])
    probes = [Probe(candidate, record.folder / candidate.name, seconds) for candidate in run.candidates]
    events: list[Event] = []

    def check(fitted: Fitted) -> None:
        if (reason := too_short(times, fitted)) is not None:
            raise TooShortError(reason)

    def train(probe: Probe, resumed: bool) -> Events:
        if resumed:
            recipe = load_recipe(probe.folder / "recipe.toml")
            return core.train_with(recipe, probe.folder, options._replace(resume=True))
        is_first = probe is probes[0]
        batch_seconds = times.winner if run.fits_batch else 0.0
        fit = partial(fit_probe, probe=probe, check=check if is_first else lambda _: None, batch_seconds=batch_seconds)
        return core.train_with(probe_recipe(probe.candidate), probe.folder, options._replace(fit=fit))

    with closing(Race(probes, train, record, run.limit).events()) as race:
        for event in race:
            events.append(event)
            yield event
    won = events[-1]
    assert isinstance(won, RaceWon)
    [winner] = [probe.candidate for probe in probes if probe.name == won.name]
    if (tokens := record.content["probes"][won.name]["batch_tokens"]) is not None:
        training = winner.recipe.training.model_copy(update={"batch_tokens": tokens})
        recipe = winner.recipe.model_copy(update={"training": training})
        winner = replace(winner, recipe=recipe, lines=tuple(with_batch(winner.lines, tokens)))
    others = ", ".join(f"{name} {shown(value)}" for name, value in won.values.items() if name != won.name)
    scores = f"{won.metric} {shown(won.values[won.name])} on the validation set; {others}"
    return _Decision(winner, tuple(events), f"race: {won.name} won ({scores}; {won.seconds:.0f} s)")


def _log(run: PlannedRun, events: tuple[Event, ...]) -> None:
    """Log the decisions made before the first step."""
    for event in events:
        RunFolder(run.folder).append_log({**event.record(), "step": 0, "candidate_step": event.step})
