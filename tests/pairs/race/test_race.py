"""The rungs of a race, with made-up trainings and a made-up clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.made_up_races import Clock, MadeUpTraining, make_candidate
from weft.errors import TrainingError
from weft.files import read_json
from weft.pairs.race import probe as probe_module
from weft.pairs.race.events import Eliminated, ProbeScored, RaceEvent, RaceStarted, RaceWon
from weft.pairs.race.probe import Probe
from weft.pairs.race.race import Race, TooShortError
from weft.pairs.race.record import RaceRecord
from weft.pairs.time_limit import budget
from weft.pairs.time_limit.budget import TimeLimit
from weft.recipe import make_recipe

SCORES = {"hard": [10.0, 30.0, 40.0, 50.0], "soft": [20.0, 40.0, 45.0, 45.0], "wide": [0.0, 5.0, 60.0, 90.0]}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(probe_module, "time", clock)
    monkeypatch.setattr(budget, "time", clock)
    return clock


def make_race(training: MadeUpTraining, out: Path, *, seconds: float = 20.0) -> Race:
    record, names = RaceRecord(out), list(training.scores)
    candidates = [make_candidate(name) for name in names]
    record.begin(candidates, 10.0, seconds)
    probes = [Probe(candidate, record.folder / candidate.name, seconds) for candidate in candidates]
    train: Any = lambda probe, resumed: training(probe.name, probe.folder, 20 if resumed else 0)  # noqa: E731
    return Race(probes, train, record, TimeLimit(10.0, training.clock.now))


def with_positions(race: Race, name: str, positions: str) -> None:
    """Give the model of a candidate other position encodings, and all candidates the sizes of Transformers."""
    for probe in race.probes:
        stack = {"kind": "transformer", "positions": positions if probe.name == name else "sinusoidal"}
        tree = {"model": {"embedding": 512, "tie": "all", "encoder": stack, "decoder": stack}}
        recipe = probe.candidate.recipe
        probe.candidate = replace(probe.candidate, recipe=recipe.model_copy(update={"model": make_recipe(tree).model}))


def decisions(events: list[RaceEvent]) -> list[str]:
    return [str(event) for event in events if not isinstance(event, ProbeScored)]


def test_the_worst_is_out_at_half_and_the_best_wins_at_the_end(tmp_path: Path, clock: Clock) -> None:
    """The third would have won in the end; half of a probe is what a candidate has to show something in."""
    training = MadeUpTraining(clock, SCORES)
    events = [*make_race(training, tmp_path / "run").events()]
    assert isinstance(events[0], RaceStarted) and isinstance(events[-1], RaceWon)
    assert decisions(events)[1:] == [
        "race: wide is out at step 20: exact_match 5.00, soft has 40.00 at step 20",
        "race: soft is out at step 40: exact_match 45.00, hard has 50.00 at step 40",
        "race: hard wins with exact_match 50.00 over soft 45.00, wide 5.00, in 50 s; it is trained again from its "
        "first step with the rest of the time",
    ]
    assert {name: len(steps) for name, steps in training.trained.items()} == {"hard": 40, "soft": 40, "wide": 20}
    record = read_json(tmp_path / "run.race/race.json")
    assert record["winner"] == "hard" and set(record["eliminated"]) == {"wide", "soft"}
    assert record["probes"]["wide"]["value"] == 5.0 and record["elapsed"] == 50.0
    assert not (tmp_path / "run.race/wide").exists(), "its folder is removed"


@pytest.mark.parametrize(("outputs", "winner"), [(100, "recommended"), (100_000, "other")])
def test_the_recommended_one_stays_where_scores_differ_by_chance(
    tmp_path: Path, clock: Clock, outputs: int, winner: str
) -> None:
    """73 and 74 of 100 right outputs are the same; 73 and 74 % of 100,000 are not (√(2 · 0.73 · 0.27 / n))."""
    losses = {"recommended": 0.40, "other": 0.33}
    training = MadeUpTraining(clock, {"recommended": [73.0] * 4, "other": [74.0] * 4}, outputs=outputs, losses=losses)
    *_, out, won = make_race(training, tmp_path / "run").events()
    assert isinstance(won, RaceWon) and won.name == winner and isinstance(out, Eliminated)
    assert out.reason.endswith("; that may be chance, and the recommended one stays") == (winner == "recommended")


def test_the_loss_does_not_decide(tmp_path: Path, clock: Clock) -> None:
    """A Transformer with 49 % right had a lower loss than an LSTM with 55 %, and the other way around."""
    training = MadeUpTraining(clock, {"a": [55.0] * 4, "b": [49.0] * 4}, outputs=49, losses={"a": 1.2, "b": 0.9})
    *_, won = make_race(training, tmp_path / "run").events()
    assert isinstance(won, RaceWon) and won.name == "a"


def test_a_slow_candidate_is_validated_before_it_is_judged(tmp_path: Path, clock: Clock) -> None:
    """At two seconds a step, the first validation comes after 20 s, twice its share of the first rung."""
    training = MadeUpTraining(clock, SCORES, step_seconds=2.0)
    events = [*make_race(training, tmp_path / "run", seconds=20.0).events()]
    assert {event.name for event in events if isinstance(event, ProbeScored)} == set(SCORES)
    assert isinstance(events[-1], RaceWon) and None not in events[-1].values.values()
    never = MadeUpTraining(clock, SCORES, step_seconds=60.0)
    assert not [event for event in make_race(never, tmp_path / "stuck").events() if isinstance(event, ProbeScored)]
    assert sum(map(len, never.trained.values())) <= 6, "after three times its share it ends all the same"


@pytest.mark.parametrize(("opening", "steps", "seconds"), [(8.0, 40, 50), (9.0, 20, 25)])
def test_candidates_that_took_long_to_open_race_for_half_as_long(
    tmp_path: Path, clock: Clock, opening: float, steps: int, seconds: int
) -> None:
    """Three probes of 20 s take 50 s, and 25 s are three openings of 8.3 s."""
    training = MadeUpTraining(clock, SCORES, opening_seconds=opening)
    start, *_, won = make_race(training, tmp_path / "run", seconds=20.0).events()
    assert isinstance(start, RaceStarted) and start.seconds == (20.0 if steps == 40 else 10.0)
    assert isinstance(won, RaceWon) and won.step == steps and won.seconds == seconds + 3 * opening
    assert {name: len(taken) for name, taken in training.trained.items()} == {
        "hard": steps,
        "soft": steps,
        "wide": steps // 2,
    }


@pytest.mark.parametrize(("opening", "left_out"), [(12.0, False), (13.0, True)])
def test_candidates_that_there_is_no_time_to_prepare_are_left_out(
    tmp_path: Path, clock: Clock, opening: float, left_out: bool
) -> None:
    """Three probes of 20 s take 50 s, and 25 s are two openings of 12.5 s."""
    training = MadeUpTraining(clock, SCORES, opening_seconds=opening)
    events = [*make_race(training, tmp_path / "run", seconds=20.0).events()]
    out = [event for event in events if isinstance(event, Eliminated)]
    assert ("wide" not in training.trained) == left_out and (out[0].step == 0) == left_out
    reason = "preparing one more candidate takes 13 s of the 50 s for the training of all"
    assert (out[0].name, out[0].reason == reason) == ("wide", left_out)
    [started] = [event for event in events if isinstance(event, RaceStarted)]
    assert ("wide" not in started.candidates) == left_out and started.seconds == 10.0
    assert isinstance(events[-1], RaceWon) and set(training.trained) | {"wide"} == {*SCORES}


def test_they_train_in_turns(tmp_path: Path, clock: Clock) -> None:
    training = MadeUpTraining(clock, SCORES)
    scored = [event for event in make_race(training, tmp_path / "run").events() if isinstance(event, ProbeScored)]
    turns = [event.name for event in scored]
    assert turns == [name for name in ("hard", "soft", "wide", "hard", "soft") for _ in range(2)]
    assert str(scored[1]) == "race: hard, step 20 of 40: exact_match 30.00  (its best)"


def test_two_candidates_race_to_the_end(tmp_path: Path, clock: Clock) -> None:
    training = MadeUpTraining(clock, {"a": [90.0, 10.0], "b": [20.0, 80.0]})
    *_, won = make_race(training, tmp_path / "run").events()
    assert isinstance(won, RaceWon) and won.name == "a", "by its best validation"


def test_equal_scores(tmp_path: Path, clock: Clock) -> None:
    race = make_race(MadeUpTraining(clock, {"first": [0.0], "second": [0.0]}), tmp_path / "run")
    first, second = race.probes
    first.standing, second.standing = (
        first.standing._replace(score=0.0, loss=2.0),
        second.standing._replace(score=0.0, loss=1.0),
    )
    assert race._order([first, second]) == ["first", "second"], "the rules decide"
    first.standing, second.standing = first.standing._replace(score=7.0), second.standing._replace(score=7.0)
    assert race._order([second, first]) == ["first", "second"], "label smoothing raises the loss"


def test_the_recommended_one_stays_while_no_output_is_right(tmp_path: Path, clock: Clock) -> None:
    """It would be out by its loss."""
    training = MadeUpTraining(clock, {"first": [0.0] * 4, "second": [0.0] * 4, "third": [0.0, 0.0, 0.0, 1.0]})
    race = make_race(training, tmp_path / "run")
    for probe, loss in zip(race.probes, (3.0, 1.0, 2.0), strict=True):
        probe.standing = probe.standing._replace(score=0.0, loss=loss)
    events = [*race._eliminate(list(race.probes), 2)]
    assert [str(event) for event in events] == [
        "race: third is out at step 0: no output is right yet, validation loss 2.00"
    ]


@pytest.mark.parametrize("step", [0, 7])
@pytest.mark.parametrize(
    ("error", "reason"),
    [(TrainingError("the loss\nwas not finite"), "the loss was not finite"), (MemoryError(), "not enough memory")],
)
def test_a_candidate_that_fails_is_out(
    tmp_path: Path, clock: Clock, step: int, error: BaseException, reason: str
) -> None:
    training = MadeUpTraining(clock, SCORES, failures={"soft": (step, error)})
    events = [*make_race(training, tmp_path / "run").events()]
    out = [event for event in events if isinstance(event, Eliminated)]
    assert (out[0].name, out[0].reason) == ("soft", reason)
    assert isinstance(events[-1], RaceWon) and events[-1].name in ("hard", "wide")


def test_other_errors_end_the_race(tmp_path: Path, clock: Clock) -> None:
    training = MadeUpTraining(clock, SCORES, failures={"soft": (3, RuntimeError("a bug"))})
    with pytest.raises(RuntimeError, match="a bug"):
        [*make_race(training, tmp_path / "run").events()]
    assert sorted(training.closed) == ["hard", "soft", "wide"], "all are closed, and so saved"
    failures: dict[str, Any] = {name: (0, TrainingError("no")) for name in SCORES}
    with pytest.raises(TrainingError, match="no"):
        [*make_race(MadeUpTraining(clock, SCORES, failures=failures), tmp_path / "other").events()]


def test_no_time_for_a_race(tmp_path: Path, clock: Clock) -> None:
    training = MadeUpTraining(clock, SCORES, failures={"hard": (0, TooShortError("3 steps"))})
    with pytest.raises(TooShortError, match="3 steps"):
        [*make_race(training, tmp_path / "run").events()]


def test_a_candidate_that_becomes_slow_is_ended(tmp_path: Path, clock: Clock) -> None:
    """After one and a quarter times its share it stands with what it has."""
    training = MadeUpTraining(clock, {"a": [10.0] * 4, "b": [20.0] * 4}, step_seconds=1.0)
    events = [*make_race(training, tmp_path / "run", seconds=20.0).events()]
    assert len(training.trained["a"]) == len(training.trained["b"]) == 26 and isinstance(events[-1], RaceWon)


def test_an_interrupted_race_continues(tmp_path: Path, clock: Clock) -> None:
    """From the checkpoints of its candidates, and with their best validations."""
    training = MadeUpTraining(clock, SCORES, failures={"hard": (30, KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        [*make_race(training, tmp_path / "run").events()]
    record = read_json(tmp_path / "run.race/race.json")
    assert record["rung"] == 1 and [*record["eliminated"]] == ["wide"] and record["elapsed"] == 34.5
    again = MadeUpTraining(clock, {**SCORES, "hard": [0.0, 0.0, 0.0, 1.0]})
    events = [*make_race(again, tmp_path / "run").events()]
    assert isinstance(events[0], RaceStarted) and events[0].continued and str(events[0]).startswith("race goes on: ")
    assert set(again.trained) == {"hard", "soft"} and again.trained["hard"][0] == 21
    assert isinstance(events[-1], RaceWon) and events[-1].name == "soft" and events[-1].values["hard"] == 30.0


def test_closing_it_saves(tmp_path: Path, clock: Clock) -> None:
    training = MadeUpTraining(clock, SCORES)
    events = make_race(training, tmp_path / "run").events()
    while not isinstance(next(events), ProbeScored):
        pass
    events.close()
    assert sorted(training.closed) == sorted(SCORES) and (tmp_path / "run.race/race.json").is_file()


def test_other_formats_of_export_are_named_at_the_start_and_when_their_model_wins(tmp_path: Path, clock: Clock) -> None:
    scores = {"hard": [10.0, 30.0, 40.0, 50.0], "soft": [20.0, 60.0, 70.0, 90.0]}
    race = make_race(MadeUpTraining(clock, scores), tmp_path / "run")
    with_positions(race, "soft", "rotary")
    started, *_, won = race.events()
    assert isinstance(started, RaceStarted) and isinstance(won, RaceWon)
    assert "exports" not in started.candidates["hard"]
    assert started.candidates["soft"].endswith("; exports to: CTranslate2, ONNX")
    assert won.name == "soft" and won.exports[0] == "exports to: CTranslate2, ONNX"
    assert "; no export to Hugging Face: model.encoder.positions: 'rotary'" in str(won)
