"""The lines of a race."""

from __future__ import annotations

import json

import pytest

from weft.files import json_text
from weft.pairs.race.events import (
    Distilled,
    EnsembleScored,
    FurtherModelStarted,
    ModelScored,
    ProbeKept,
    RaceEvent,
    RaceSkipped,
    RaceStarted,
    RaceWon,
    TimeUsed,
)

LINES: list[tuple[RaceEvent, str]] = [
    (RaceSkipped(0, "4 s are too few"), "no race: 4 s are too few"),
    (RaceStarted(0, {"a": "GRU 256", "b": "LSTM"}, 14.4), "race: a (GRU 256); b (LSTM); 14 s each"),
    (
        RaceWon(9, "a", "bleu", {"a": 1.5, "b": None}, 30.0),
        "race: a wins with bleu 1.50 over b unknown, in 30 s; it is trained again from its first step with the rest of "
        "the time",
    ),
    (
        RaceWon(9, "b", "bleu", {"b": 1.5, "a": 1.0}, 30.0, ("exports to: ONNX", "no export to X: y")),
        "race: b wins with bleu 1.50 over a 1.00, in 30 s; it is trained again from its first step with the rest of "
        "the time; exports to: ONNX; no export to X: y",
    ),
    (ModelScored(9, 2, "bleu", 30.126, True, 61.2), "model of seed 2: bleu 30.13 (the best so far), 61 s"),
    (ModelScored(9, 3, "bleu", None, False, 61.2), "model of seed 3: bleu unknown (not better), 61 s"),
    (
        ProbeKept(9, "bleu", 30.126, None),
        "the machine has become slower; the model of the race is kept: bleu 30.13, after fewer steps unknown",
    ),
    (FurtherModelStarted(9, 2, 150.0), "2.5 min are left: training a further model, of seed 2"),
    (FurtherModelStarted(9, 2, 90.0, True), "1.5 min are left: training a further model, of seed 2, with more steps"),
    (
        EnsembleScored(9, "bleu", 31.0, 30.0, ("a", "b"), True),
        "ensemble of 2 models: bleu 31.00, better than their mean of 30.00",
    ),
    (
        Distilled(9, "bleu", 30.5, 30.0, True),
        "distilled into one model: bleu 30.50, better than 30.00 that the best model promises",
    ),
    (
        Distilled(9, "bleu", None, 30.0, False),
        "distilled into one model: bleu unknown, not better than 30.00 that the best model promises",
    ),
    (TimeUsed(9, 10.0, 9.26, "done"), "9.3 of 10 min used before the evaluation; done"),
]


@pytest.mark.parametrize(("event", "line"), LINES, ids=[type(event).__name__ for event, _ in LINES])
def test_each_is_one_line_and_one_record(event: RaceEvent, line: str) -> None:
    assert str(event) == line
    assert json.loads(json_text(event.record()))["event"] == type(event).__name__.lower()
