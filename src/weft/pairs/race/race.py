"""The rungs of a race: all candidates train to half of their probes, the better ones to the end; the best one wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing

from weft.errors import WeftError, is_out_of_memory
from weft.pairs.halving import Standing, next_size, ranked, rung_sizes
from weft.pairs.race.events import Eliminated, RaceEvent, RaceStarted, RaceWon, shown
from weft.pairs.race.plan import rung_lengths
from weft.pairs.race.probe import Probe
from weft.pairs.race.record import RaceRecord
from weft.pairs.time_limit.budget import TimeLimit
from weft.training.progress import ALL_WRONG
from weft.training.train import Events

PROPORTIONS = ("exact_match", "token_match")
"""Metrics that are the percentage of outputs that are right."""
SIGNIFICANT = 1.64
"""Standard deviations: a difference that chance exceeds once in twenty cases."""
TrainProbe = Callable[[Probe, bool], Events]
"""The training of a probe; whether it resumes."""


class TooShortError(Exception):
    """There is no time for a race; the message says why."""


class Race:
    """A race between probes, which may be the continuation of an interrupted one."""

    def __init__(self, probes: Sequence[Probe], train: TrainProbe, record: RaceRecord, limit: TimeLimit) -> None:
        self.probes = list(probes)
        self.train = train
        self.record = record
        self.limit = limit
        self.continued = "elapsed" in record.content
        self.start = self._elapsed() - record.content.get("elapsed", 0.0)
        """When the race began, in seconds of the limit."""

    def events(self) -> Generator[RaceEvent, None, None]:
        """Train the candidates in turns; the last event, `RaceWon`, names the winner.

        An error in the first candidate is raised if no other one is left; `TooShortError` if there is no time.
        """
        eliminated = self.record.content["eliminated"]
        running = [probe for probe in self.probes if probe.name not in eliminated]
        sizes = rung_sizes(len(self.probes), finalists=1)[:-1]
        ends = [sum(rung_lengths(len(sizes))[: rung + 1]) for rung in range(len(sizes))]
        with ExitStack() as opened:
            opened.callback(self._save)
            running = yield from self._open(running, opened)
            networks = {probe.name: probe.candidate.summary for probe in running}
            yield RaceStarted(0, networks, self.probes[0].seconds, self.continued)
            for rung, end in enumerate(ends):
                if rung < self.record.content["rung"] or len(running) == 1:
                    continue
                for probe in list(running):
                    if (reason := (yield from self._train(probe, end))) is not None:
                        running = yield from self._out(running, probe, reason)
                running = yield from self._eliminate(running, next_size(sizes[rung], finalists=1))
                self.record.content["rung"] = rung + 1
                self._save()
        winner = self._order(running)[0]
        self.record.content["winner"] = winner
        self._save()
        values = {probe.name: probe.value for probe in self.probes}
        [probe] = [probe for probe in running if probe.name == winner]
        yield RaceWon(probe.step, winner, probe.metric, values, self._elapsed() - self.start)

    def _open(self, probes: list[Probe], opened: ExitStack) -> Generator[RaceEvent, None, list[Probe]]:
        """Prepare all candidates; those that cannot be trained are out."""
        running = list(probes)
        for probe in probes:
            opened.callback(probe.close)
            resumed = (probe.folder / "recipe.toml").is_file()
            if resumed:
                self.record.restore(probe)
            try:
                probe.open(self.train(probe, resumed))
            except (WeftError, RuntimeError, MemoryError) as error:
                if len(running) == 1 or not _is_survivable(error):
                    raise
                running = yield from self._out(running, probe, _reason(error))
        self._save()
        return running

    def _train(self, probe: Probe, share: float) -> Generator[RaceEvent, None, str | None]:
        """Train a candidate to the end of a rung; why it is out, if it failed."""
        try:
            with closing(probe.train_to(share)) as events:
                for event in events:
                    self._note(probe)
                    yield event
        except (WeftError, RuntimeError, MemoryError) as error:
            if not _is_survivable(error) or len(self.record.content["eliminated"]) == len(self.probes) - 1:
                raise
            return _reason(error)
        return None

    def _eliminate(self, running: list[Probe], size: int) -> Generator[RaceEvent, None, list[Probe]]:
        """The best ``size`` candidates; the others are out."""
        order = self._order(running)
        by_name = {probe.name: probe for probe in running}
        best = by_name[order[0]]
        kept = [probe for probe in running if probe.name in order[:size]]
        for name in order[size:]:
            probe = by_name[name]
            reason = f"{probe.metric} {shown(probe.value)}, {best.name} has {shown(best.value)} at step {best.step:,}"
            if by_loss([probe, best]):
                reason = f"no output is right yet, validation loss {probe.standing.loss:.2f}"
            elif not is_lower(probe, best) and _comparable(probe, best):
                reason += f"; that may be chance, validation loss {probe.lowest_loss:.3f} and {best.lowest_loss:.3f}"
            running = yield from self._out(running, probe, reason)
        return [probe for probe in running if probe in kept]

    def _order(self, running: list[Probe]) -> list[str]:
        """Names, the best first. Among equal scores the recommended recipe comes first, then the others in their order.

        Scores that differ by chance do not decide: between the best candidate and those whose scores are not
        significantly lower (`is_lower`), the lowest validation loss does, if their losses are comparable. As long as
        no output of any candidate is right, the recommended one stays, and the loss decides between the others.
        """
        probes = [probe for probe in self.probes if probe in running]
        order = [standing.name for standing in ranked([_without_loss(probe.standing) for probe in probes])]
        by_name = {probe.name: probe for probe in probes}
        first = self.probes[0].name
        if by_loss(running):
            return [first, *(name for name in order if name != first)] if first in order else order
        best = by_name[order[0]]
        leaders = [name for name in order if not is_lower(by_name[name], best) and _comparable(by_name[name], best)]
        leaders.sort(key=lambda name: by_name[name].lowest_loss)
        return [*leaders, *(name for name in order if name not in leaders)]

    def _out(self, running: list[Probe], probe: Probe, reason: str) -> Generator[RaceEvent, None, list[Probe]]:
        self._note(probe)
        probe.close()
        self.record.eliminate(probe.name, reason)
        self._save()
        yield Eliminated(probe.step, probe.name, reason)
        return [other for other in running if other is not probe]

    def _note(self, probe: Probe) -> None:
        numbers = {"value": probe.value, "step": probe.step, "steps": probe.steps, "seconds": probe.used}
        numbers |= {"lowest_loss": probe.lowest_loss, "outputs": probe.outputs, "step_seconds": probe.step_seconds}
        self.record.note(probe.standing, **numbers)
        self._save()

    def _save(self) -> None:
        self.record.save(self._elapsed())

    def _elapsed(self) -> float:
        """Seconds of the time limit that have passed."""
        return 60 * self.limit.minutes - self.limit.remaining()


def by_loss(running: Sequence[Probe]) -> bool:
    """Whether no candidate has an output that is right, or none was validated."""
    return all(probe.standing.score in (0.0, ALL_WRONG, -math.inf) for probe in running)


def is_lower(probe: Probe, best: Probe) -> bool:
    """Whether a score is significantly lower than the best one.

    A share of right outputs of n has the variance p (1 − p) / n; a difference of `SIGNIFICANT` standard deviations
    counts. Other metrics are compared as they are.
    """
    score, highest = probe.standing.score, best.standing.score
    if probe.metric not in PROPORTIONS or not math.isfinite(score):
        return score < highest
    variances = ((share := each.standing.score / 100) * (1 - share) / max(each.outputs, 1) for each in (probe, best))
    return highest - score > 100 * SIGNIFICANT * math.sqrt(sum(variances))


def _comparable(probe: Probe, other: Probe) -> bool:
    """Whether validation losses can be compared: label smoothing raises the loss without worse outputs."""
    settings, others = probe.candidate.recipe.training, other.candidate.recipe.training
    return settings.label_smoothing == others.label_smoothing and settings.loss == others.loss


def _without_loss(standing: Standing) -> Standing:
    return standing if standing.score in (0.0, ALL_WRONG) else standing._replace(loss=0.0)


def _is_survivable(error: BaseException) -> bool:
    """Whether other candidates may do better: a network that is too large, or a loss that is not finite."""
    return isinstance(error, WeftError) or is_out_of_memory(error)


def _reason(error: BaseException) -> str:
    return "not enough memory" if is_out_of_memory(error) else " ".join(str(error).split())
