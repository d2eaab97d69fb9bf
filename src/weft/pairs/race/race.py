"""The rungs of a race: all candidates train to half of their probes, the better ones to the end; the best one wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing

from weft.errors import WeftError, is_out_of_memory
from weft.interop.portability import export_lines, portability
from weft.pairs.halving import Standing, next_size, ranked, rung_sizes
from weft.pairs.race.events import Eliminated, RaceEvent, RaceStarted, RaceWon, shown
from weft.pairs.race.plan import opens_too_long, race_seconds, rung_ends
from weft.pairs.race.probe import Probe
from weft.pairs.race.record import RaceRecord
from weft.pairs.time_limit.budget import TimeLimit
from weft.training.progress import ALL_WRONG
from weft.training.train import Events

PROPORTIONS = ("exact_match", "token_match")
"""Metrics that are the percentage of outputs that are right."""
MARGIN = 0.5
"""Standard deviations of a difference by which another candidate must be ahead of the recommended one.

Rules that many sets of pairs have taught are evidence, too. A validation loss is none between networks of different
kinds: an LSTM with 49 % right had a lower one than a Transformer with 55 %.
"""
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
        with ExitStack() as opened:
            opened.callback(self._save)
            opening: list[float] = []
            running = yield from self._open(running, opened, opening)
            seconds = self.probes[0].seconds
            ends = rung_ends(len(self.probes), shortened=opens_too_long(opening, len(running), self._planned))
            yield RaceStarted(0, self._networks(running), seconds * (ends[-1] if ends else 1.0), self.continued)
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
        exports = () if probe is self.probes[0] else tuple(export_lines(probe.candidate.recipe))
        yield RaceWon(probe.step, winner, probe.metric, values, self._elapsed() - self.start, exports)

    @property
    def _planned(self) -> float:
        """Seconds for the training of all candidates."""
        return race_seconds(self.probes[0].seconds, len(self.probes))

    def _networks(self, running: Sequence[Probe]) -> dict[str, str]:
        """The network of each candidate, with its batches if they are smaller than those of its recipe, and with the
        formats of export that are not those of the recommended one."""
        networks, recommended = {}, _formats(self.probes[0])
        for probe in running:
            formats = _formats(probe)
            exports = "" if formats == recommended else f"; exports to: {', '.join(formats) or 'no format'}"
            batch = "" if probe.batch_tokens is None else f", batches of {probe.batch_tokens:,} tokens"
            networks[probe.name] = f"{probe.candidate.summary}{batch}{exports}"
        return networks

    def _open(
        self, probes: list[Probe], opened: ExitStack, opening: list[float]
    ) -> Generator[RaceEvent, None, list[Probe]]:
        """Prepare all candidates, and add to ``opening`` how long that took; those that cannot be trained are out.

        So is one that there is no time for, since preparing those before it took so long.
        """
        running = list(probes)
        for probe in probes:
            if opens_too_long(opening, len(opening), self._planned):
                took = f"preparing one more candidate takes {opening[-1]:.0f} s"
                reason = f"{took} of the {self._planned:.0f} s for the training of all"
                running = yield from self._out(running, probe, reason)
                continue
            opened.callback(probe.close)
            resumed = (probe.folder / "recipe.toml").is_file()
            if resumed:
                self.record.restore(probe)
            start = self._elapsed()
            try:
                probe.open(self.train(probe, resumed))
            except (WeftError, RuntimeError, MemoryError) as error:
                if len(running) == 1 or not _is_survivable(error):
                    raise
                running = yield from self._out(running, probe, _reason(error))
            opening.append(self._elapsed() - start)
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
            elif probe.standing.score > best.standing.score:
                reason += "; that may be chance, and the recommended one stays"
            running = yield from self._out(running, probe, reason)
        return [probe for probe in running if probe in kept]

    def _order(self, running: list[Probe]) -> list[str]:
        """Names, the best first, then in the order of the recommendation.

        The recommended candidate is the first one unless another is ahead of it (`is_ahead`), and as long as no output
        of any candidate is right; then the loss decides between the others.
        """
        probes = [probe for probe in self.probes if probe in running]
        order = [standing.name for standing in ranked([_without_loss(probe.standing) for probe in probes])]
        by_name = {probe.name: probe for probe in probes}
        recommended = self.probes[0].name
        stays = recommended in order and (by_loss(running) or not is_ahead(by_name[order[0]], by_name[recommended]))
        return [recommended, *(name for name in order if name != recommended)] if stays else order

    def _out(self, running: list[Probe], probe: Probe, reason: str) -> Generator[RaceEvent, None, list[Probe]]:
        self._note(probe)
        probe.close()
        self.record.eliminate(probe.name, reason)
        self._save()
        yield Eliminated(probe.step, probe.name, reason)
        return [other for other in running if other is not probe]

    def _note(self, probe: Probe) -> None:
        numbers = {"value": probe.value, "step": probe.step, "steps": probe.steps, "seconds": probe.used}
        numbers |= {"outputs": probe.outputs, "step_seconds": probe.step_seconds}
        numbers |= {"batch_tokens": probe.batch_tokens}
        self.record.note(probe.standing, **numbers, speed=probe.speed)
        self._save()

    def _save(self) -> None:
        self.record.save(self._elapsed())

    def _elapsed(self) -> float:
        """Seconds of the time limit that have passed."""
        return 60 * self.limit.minutes - self.limit.remaining()


def _formats(probe: Probe) -> list[str]:
    """Names of the formats to which a candidate can be exported."""
    return [entry.name for entry in portability(probe.candidate.recipe) if entry.refusal is None]


def by_loss(running: Sequence[Probe]) -> bool:
    """Whether no candidate has an output that is right, or none was validated."""
    return all(probe.standing.score in (0.0, ALL_WRONG, -math.inf) for probe in running)


def is_ahead(best: Probe, recommended: Probe) -> bool:
    """Whether the best score is higher than that of the recommended candidate by more than the margin.

    A share of right outputs of n has the variance p (1 − p) / n; a difference of `MARGIN` standard deviations
    counts. Other metrics are compared as they are.
    """
    score, highest = recommended.standing.score, best.standing.score
    if best.metric not in PROPORTIONS or not math.isfinite(score):
        return score < highest
    shares = [(each.standing.score / 100, max(each.outputs, 1)) for each in (best, recommended)]
    return highest - score > 100 * MARGIN * math.sqrt(sum(share * (1 - share) / outputs for share, outputs in shares))


def _without_loss(standing: Standing) -> Standing:
    return standing if standing.score in (0.0, ALL_WRONG) else standing._replace(loss=0.0)


def _is_survivable(error: BaseException) -> bool:
    """Whether other candidates may do better: a network that is too large, or a loss that is not finite."""
    return isinstance(error, WeftError) or is_out_of_memory(error)


def _reason(error: BaseException) -> str:
    return "not enough memory" if is_out_of_memory(error) else " ".join(str(error).split())
