"""Pictures and frames the whole way: trained on from a table, resumed, loaded, searched, scored, evaluated, refused."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.training_runs import contents
from weft.data.pairs import Pair
from weft.data.preparation import read_corpus
from weft.data.store.token_store import encode_pairs, length_sorted_batches
from weft.errors import WeftError
from weft.evaluation.evaluate import evaluate
from weft.interop.export import export_run
from weft.recipe import Recipe
from weft.tasks.drawn_digits import draw, sample
from weft.training.events import Finished, Saved
from weft.training.train import train
from weft.training.validation import validation_loss
from weft.translation.forced_decoding import likelihood
from weft.translation.load import load
from weft.translation.translator import Translator

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")

TRANSFORMER = {"kind": "transformer", "layers": 1, "hidden": 12, "heads": 2, "feed_forward": 12}
LSTM = {"kind": "lstm", "hidden": 12}
RECURRENT = {"encoder": LSTM, "decoder": LSTM}
VARIANTS: dict[str, dict[str, Any]] = {
    "columns": {"model": {**RECURRENT, "stem": {"kind": "columns", "widths": [3, 4]}}, "augmentation": {"noise": 0.1}},
    "grid": {"model": {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "stem": {"kind": "grid", "widths": [3, 4]}}},
    "joint": {"model": {**RECURRENT, "stem": {"kind": "columns", "widths": [3]}}, "ctc": 0.3},
    "ctc": {"model": {**RECURRENT, "kind": "ctc", "stem": {"kind": "columns", "widths": [3]}}},
    "frames": {
        "model": {**RECURRENT, "stem": {"kind": "frames", "widths": [4], "inputs": 24}},
        "augmentation": {"time_masks": 1, "time_mask": 3},
        "tokenizer": {"kind": "frames", "channels": 24},
    },
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of pictures, and one of frames: their columns."""
    from random import Random

    from weft.data.arrays.png import png_bytes

    folder, random = tmp_path_factory.mktemp("pictures"), Random(5)
    (folder / "pictures").mkdir()
    lines: dict[str, list[str]] = {"png": [], "npy": []}
    for number in range(24):
        pair = sample(random, length=3)
        picture = draw(pair.source)
        (folder / f"pictures/{number}.png").write_bytes(png_bytes(picture))
        np.save(folder / f"pictures/{number}.npy", picture.T.astype(np.float32))
        for kind, written in lines.items():
            written.append(f"pictures/{number}.{kind}\t{pair.target}\n")
    for kind, written in lines.items():
        (folder / f"{kind}.tsv").write_text("".join(written))
    return folder


def recipe_of(table: Path, name: str) -> Recipe:
    variant = VARIANTS[name]
    tokenizer = {"kind": "picture", "target_kind": "character", "joint": False, **variant.get("tokenizer", {})}
    file = str(table / ("npy.tsv" if name == "frames" else "png.tsv"))
    return Recipe.model_validate(
        {
            "data": {"train": file, "valid": file},
            "tokenizer": tokenizer,
            "model": {"embedding": 12, "dropout": 0.1, **variant["model"]},
            "training": {
                **{"steps": 4, "batch_tokens": 9000, "validate_every": 2, "save_every": 2, "valid_sentences": 3},
                **{"metric": "exact_match", "ctc": variant.get("ctc", 0.0), "device": "cpu"},
                "augmentation": variant.get("augmentation", {}),
            },
        }
    )


@pytest.fixture(scope="module")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    runs: dict[str, Path] = {}
    for name in VARIANTS:
        runs[name] = tmp_path_factory.mktemp(name) / "run"
        assert isinstance(list(train(recipe_of(table, name), runs[name]))[-1], Finished)
    return runs


def sources_of(table: Path, name: str) -> list[str]:
    kind = "npy" if name == "frames" else "png"
    return [str(table / f"pictures/{number}.{kind}") for number in range(5)]


@every_variant
def test_a_resumed_run_is_the_one_that_was_never_stopped(
    name: str, table: Path, trained: dict[str, Path], tmp_path: Path
) -> None:
    events = train(recipe_of(table, name), tmp_path / "run")
    next(event for event in events if isinstance(event, Saved) and event.step == 2)
    events.close()  # type: ignore[attr-defined]
    assert isinstance(list(train(recipe_of(table, name), tmp_path / "run", resume=True))[-1], Finished)
    assert contents(tmp_path / "run") == contents(trained[name])


@every_variant
def test_outputs_do_not_depend_on_their_company(name: str, table: Path, trained: dict[str, Path]) -> None:
    run, sources = load(trained[name]), sources_of(table, name)
    together = run.translate(sources)
    alone = [run.translate(source) for source in sources]
    assert [output.text for output in together] == [output.text for output in alone]
    pairs = [Pair(source, "12") for source in sources]
    for score, pair in zip(run.score(pairs), pairs, strict=True):
        assert score.log_probability == pytest.approx(run.score([pair])[0].log_probability, abs=1e-4)


@every_variant
def test_searches_and_their_scores(name: str, table: Path, trained: dict[str, Path]) -> None:
    run, [source, *_] = load(trained[name]), sources_of(table, name)
    best = run.translate(source, n_best=2, max_length=4)
    assert len(best.alternatives) == 1 and best.source == source
    exact = run.translate(source, kind="exact", normalization="none", max_length=2, max_nodes=500)
    forced = run.score([Pair(source, exact.text)])[0] if exact.ended == "end" else None
    assert forced is None or exact.log_probability == pytest.approx(forced.log_probability, abs=1e-3)
    assert len(run.translate([source, source], kind="greedy")) == 2


@every_variant
def test_attention_is_over_the_states_of_the_stem(name: str, table: Path, trained: dict[str, Path]) -> None:
    run, [source, *_] = load(trained[name]), sources_of(table, name)
    output = run.translate(source, return_attention=True, max_length=3)
    if name == "ctc":
        assert output.attention is None
        return
    assert output.attention is not None and output.word_attention is None
    assert output.attention.shape == (len(output.tokens), len(output.source_tokens))
    np.testing.assert_allclose(output.attention.sum(1), 1, atol=1e-5)
    assert output.source_tokens[0] == ("1,1" if name == "grid" else "1")
    assert all(head.weights_TS.shape[1] == len(head.source) for head in run.heads(source))


def test_a_joint_search(table: Path, trained: dict[str, Path]) -> None:
    run, sources = load(trained["joint"]), sources_of(table, "joint")
    assert [output.text for output in run.translate(sources, ctc=0.5)] == [
        run.translate(source, ctc=0.5).text for source in sources
    ]
    with pytest.raises(WeftError, match=r"search\.ctc: 0\.5 was given, but this model has no CTC beside a decoder"):
        load(trained["columns"]).translate(sources, ctc=0.5)
    with pytest.raises(WeftError, match=r"search\.coverage_penalty: is for sources that are texts; set it to 0"):
        run.translate(sources, coverage_penalty=0.5)


def test_a_data_url_is_translated_like_its_file(table: Path, trained: dict[str, Path]) -> None:
    run, [source, *_] = load(trained["columns"]), sources_of(table, "columns")
    url = f"data:image/png;base64,{base64.b64encode(Path(source).read_bytes()).decode()}"
    assert run.translate(url).text == run.translate(source).text


@pytest.mark.parametrize("name", ["columns", "ctc"])
def test_evaluating(name: str, table: Path, trained: dict[str, Path]) -> None:
    run: Translator = load(trained[name])
    report = evaluate(run, table / "png.tsv", ["exact_match", "character_error_rate"], limit=5)
    assert {score.name for score in report.scores} >= {"exact match", "character error rate"}


@pytest.mark.parametrize("to", ["onnx", "ctranslate2", "huggingface"])
@pytest.mark.parametrize("name", ["columns", "ctc"])
def test_exports_are_refused_with_their_reason(name: str, to: str, trained: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(WeftError) as error:
        export_run(trained[name], out=tmp_path / "out", to=to)
    assert str(error.value).count("\n") == 0 and "model." in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_recipe_of_text_is_not_changed_by_arrays() -> None:
    with pytest.raises(ValueError, match=r"changes of picture, but tokenizer"):
        Recipe.model_validate({"training": {"augmentation": {"noise": 0.1}}})


@pytest.mark.parametrize("name", ["ctc", "columns"])
def test_the_validation_loss_is_that_of_the_steps(name: str, table: Path, trained: dict[str, Path]) -> None:
    run = load(trained[name])
    pairs = encode_pairs([*read_corpus(recipe_of(table, name), "valid")], run.tokenizers)
    begin, device = run.tokenizers.frame.begin, torch.device("cpu")
    loss, per_token = validation_loss(run.model, pairs, device, sparse=False, begin=begin)
    steps = likelihood(run.model, pairs, begin=begin)
    assert loss == pytest.approx(steps.loss, rel=1e-5) and per_token == pytest.approx(np.exp(steps.loss), rel=1e-4)
    assert len(length_sorted_batches(pairs, 4096)) == 1, "pictures are validated together"
