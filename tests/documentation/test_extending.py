"""docs/extending.md: its code runs as it stands, and the model in it learns, is resumed, searched and drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.models.ensemble import Ensemble
from weft.ragged import Ragged
from weft.training.events import Finished, Started
from weft.tree import repeat

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything that the page defines, after all of its code was run in an empty folder."""
    torch.manual_seed(1)
    found: dict[str, Any] = {"__name__": "extending", "events": []}
    folder = tmp_path_factory.mktemp("extending")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in BLOCKS:
            exec(compile(block.replace("print(event)", "events.append(event)"), str(PAGE), "exec"), found)
    return {**found, "folder": folder}


def test_the_model_is_short() -> None:
    [model] = [block for block in BLOCKS if "class TinyModel" in block]
    assert len([line for line in model[model.index("class") :].splitlines() if line.strip()]) <= 42


def test_it_is_trained_and_resumed(names: dict[str, Any]) -> None:
    starts = [event.step for event in names["events"] if isinstance(event, Started)]
    ends = [event.step for event in names["events"] if isinstance(event, Finished)]
    assert (starts, ends) == ([0, 200], [200, 300])


def test_it_has_learned(names: dict[str, Any]) -> None:
    assert names["best"].text == "b c a" and len(names["best"].alternatives) == 2
    [score] = names["report"].scores
    assert names["report"].pairs == 100 and score.value > 80  # 97 to 100 with eight seeds


def test_its_attention_is_drawn(names: dict[str, Any]) -> None:
    assert (names["folder"] / "attention.svg").stat().st_size > 1000
    assert names["translation"].links == [(0, 2), (1, 1), (2, 0)]


def test_steps_give_what_forward_gives(names: dict[str, Any]) -> None:
    model, source, inputs = names["model"].eval(), Ragged.of([[3, 4, 5], [6]]), Ragged.of([[1, 3, 4], [1, 5, 6]])
    with torch.no_grad():
        logits_BTV = inputs.like(model(source, inputs).logits_NV).to_padded()
        memory = model.encode(source)
        state = repeat(model.start(memory), 2)
        for time in range(3):
            tokens_R = inputs.to_padded()[:, time].repeat_interleave(2)
            logits_RV, state, _ = model.step(tokens_R, state, memory)
            torch.testing.assert_close(logits_RV, logits_BTV[:, time].repeat_interleave(2, 0))


def test_every_search_takes_it_and_an_ensemble_too(names: dict[str, Any]) -> None:
    translator, weft = names["translator"], names["weft"]
    for kind in ("greedy", "beam", "sample", "exact"):
        assert translator.translate("a c b", kind=kind, temperature=0.1).text == "b c a"
    ensemble = weft.Translator(Ensemble([translator.model, names["model"]]), names["tokenizers"], names["recipe"])
    assert ensemble.translate("a c b").text == "b c a"
    [head] = translator.heads("a c b")
    assert (head.kind, head.layer, head.head) == ("cross", 1, 1)
