"""What the weights of a run are: told in its metadata, and refused or warned of when it is loaded."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest

from weft.errors import CheckpointError, WeftWarning
from weft.runs.layout import RunFolder
from weft.runs.load import load_run
from weft.runs.weights import WeightsOrigin, read_tensors, resume_command, write_tensors

ORIGINS = [
    WeightsOrigin("initial", (0,)),
    WeightsOrigin("last", (7,), {"loss": math.inf, "perplexity": math.inf}),
    WeightsOrigin("best", (300,), {"loss": 1.25, "perplexity": 3.5, "bleu": 31.0}),
    WeightsOrigin("mean", (100, 300), {"loss": 1.25, "perplexity": 3.5}),
]


@pytest.mark.parametrize("origin", ORIGINS, ids=lambda origin: origin.kind)
def test_metadata_come_back(origin: WeightsOrigin) -> None:
    assert WeightsOrigin.from_metadata({"tokenizer": "abc", **origin.metadata()}) == origin


@pytest.mark.parametrize(
    "metadata",
    [
        {"step": "3"},
        {"weights": "best"},
        {"weights": "worst", "step": "3"},
        {"weights": "best", "step": "x"},
        {"weights": "best", "step": "3", "validation": "{"},
        {"weights": "best", "step": "3", "validation": "[1]"},
        {"weights": "best", "step": "3", "validation": '{"loss": "low"}'},
    ],
)
def test_damaged_metadata_say_nothing(metadata: dict[str, str]) -> None:
    assert WeightsOrigin.from_metadata(metadata) is None


def messages(origin: WeightsOrigin, **more: bool) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        origin.check(Path("runs/x"), steps=400, target_vocabulary=50, **{"initialized": False, **more})
    assert all(warning.category is WeftWarning for warning in caught)
    return [str(warning.message) for warning in caught]


def refusal(origin: WeightsOrigin) -> str:
    with pytest.raises(CheckpointError) as caught:
        messages(origin)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestCheck:
    def test_trained_weights_pass_in_silence(self) -> None:
        for origin in (*ORIGINS[2:], WeightsOrigin("last", (400,)), WeightsOrigin("last", (500,))):
            assert messages(origin) == []

    def test_initial_weights_are_refused(self) -> None:
        assert refusal(ORIGINS[0]) == (
            "runs/x: not trained yet: it holds the initial weights (step 0 of 400); "
            "continue with: weft train runs/x --resume"
        )

    def test_unless_they_are_those_of_another_run(self) -> None:
        [message] = messages(ORIGINS[0], initialized=True)
        assert message.startswith("runs/x: training is at step 0 of 400, and these weights were never validated; ")

    @pytest.mark.parametrize("loss", [math.inf, math.nan])
    def test_a_loss_that_is_not_finite_is_refused(self, loss: float) -> None:
        assert refusal(WeightsOrigin("last", (7,), {"loss": loss, "perplexity": loss})) == (
            "runs/x: training diverged: the validation loss was not finite (step 7); "
            "train again with a lower training.learning_rate"
        )

    @pytest.mark.parametrize("perplexity", [50.1, 1e30, math.inf])
    def test_worse_than_chance(self, perplexity: float) -> None:
        [message] = messages(WeightsOrigin("best", (300,), {"loss": 800.0, "perplexity": perplexity}))
        start = "runs/x: has learned nothing: its validation perplexity"
        assert message.startswith(
            f"{start}, {perplexity:.4g}, is worse than a uniform guess from the vocabulary of 50; "
        )

    def test_never_validated(self) -> None:
        [message] = messages(WeightsOrigin("last", (399,)))
        assert message == (
            "runs/x: training is at step 399 of 400, and these weights were never validated; "
            "continue with: weft train runs/x --resume"
        )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused(run: RunFolder, value: float) -> None:
    found = read_tensors(run.model)
    name = sorted(found.tensors)[3]
    found.tensors[name].view(-1)[2] = value
    write_tensors(run.model, found.tensors, found.metadata)
    with pytest.raises(CheckpointError) as caught:
        load_run(run.path)
    message = str(caught.value)
    assert message.startswith(f"{run.model}: tensor {name!r} has values that are not finite, ") and "\n" not in message


def test_a_warning_names_the_line_that_loads(run: RunFolder) -> None:
    from weft.translation.load import load

    last, found = WeightsOrigin("last", (1,)).metadata(), read_tensors(run.model)
    write_tensors(run.model, found.tensors, {"tokenizer": found.metadata["tokenizer"], **last})
    run.recipe.write_text(run.recipe.read_text("utf-8").replace("steps = 2\n", "steps = 9\n"), "utf-8")
    with pytest.warns(WeftWarning, match="is at step 1 of 9") as caught:
        load(run.path)
    assert [warning.filename for warning in caught] == [__file__]


def test_the_command_to_resume_can_be_pasted() -> None:
    assert resume_command("runs/x") == "weft train runs/x --resume"
    assert resume_command("my runs/$x") == "weft train 'my runs/$x' --resume"
