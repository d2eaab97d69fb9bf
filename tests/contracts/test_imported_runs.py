"""An imported run is a run: whatever a trained one can do, it does."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

import weft
from fixtures import pretrained_models
from fixtures.pretrained_models import KINDS
from weft.apps.probes.bias import Templates
from weft.errors import CheckpointError, SearchError
from weft.interop.export import export_run
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.recipe import load_recipe, make_recipe
from weft.runs.load import load_run
from weft.runs.weights import WeightsOrigin, read_metadata
from weft.training.train import train
from weft.translation.engines.ctranslate2.specification import token_names

pytest.importorskip("transformers")
TEXT, TARGET = "the old king reads", "le vieux roi lit"


@pytest.fixture(scope="module", params=["marian", "nllb", "t5-1.1", "bart"])
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("imported")
    pretrained_models.make(request.param, folder / "original")
    options = ImportOptions(*KINDS[request.param].languages)
    return request.param, import_model(folder / "original", folder / "run", options)


def test_translation_and_inspection(imported: tuple[str, Path]) -> None:
    kind, path = imported
    run: Any = weft.load(path)
    result = run.translate(TEXT, kind="beam", size=2, max_length=5, return_trace=True)
    assert result.attention is not None and result.trace is not None
    assert result.attention.shape[1] == len(result.source_tokens)
    [score] = run.score([(TEXT, TARGET)])
    [forced] = run.force_decode([(TEXT, TARGET)])
    assert forced.log_probability == pytest.approx(score.log_probability, abs=1e-4)
    heads = run.heads(TEXT, TARGET)
    layers = KINDS[kind].config.get("decoder_layers") or KINDS[kind].config["num_decoder_layers"]
    assert len({head.layer for head in heads if head.kind == "cross"}) == layers
    assert run.attend(TEXT, TARGET)[1].weights_TS.shape[1] == 5  # four words and the end


TEMPLATES = """
templates = ["the {profession}", "the old {profession}"]
feminine = ["la", "le"]
masculine = ["roi"]
[professions]
king = "king"
queen = "queen"
"""


def test_probes(imported: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (templates := tmp_path / "toy.toml").write_text(TEMPLATES, "utf-8")
    monkeypatch.setattr(Templates, "gender", lambda _, output: "feminine")  # weights are random
    run = weft.load(imported[1])
    counts = weft.probes.bias(run, templates, kind="greedy", max_length=4).data["total"]
    assert counts["feminine"] == sum(counts.values()) == 4
    assert weft.probes.nonsense(run, [TEXT, "the king"], kind="greedy", max_length=4).data["sources"] == 2
    scores = weft.probes.repeat(run, "roi", source="king", times=3).data["token_scores"]
    assert len(scores) % 3 == 0 and all(map(math.isfinite, scores))


def test_learned_positions_of_several_models(
    imported: tuple[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from weft.apps.cli.commands.positions import command

    kind, path = imported
    if load_recipe(path / "recipe.toml").model.encoder.positions != "learned":
        pytest.skip(f"{kind} has no table of positions")
    shutil.copytree(path, tmp_path / "other")
    command([path, tmp_path / "other"], count=3)
    assert "run encoder" in (text := capsys.readouterr().out) and "other decoder" in text and "sinusoidal" in text


def test_eight_bits(imported: tuple[str, Path]) -> None:
    full, small = (weft.load(imported[1], precision=precision) for precision in ("fp32", "int8"))
    text = full.translate(TEXT, kind="greedy", max_length=4)
    assert small.force_decode([(TEXT, TARGET)])[0].ended == "end"
    assert small.translate(TEXT, kind="greedy", max_length=4).score == pytest.approx(text.score, abs=0.5)


def test_it_is_not_taken_for_untrained(imported: tuple[str, Path]) -> None:
    origin = WeightsOrigin.from_metadata(read_metadata(imported[1] / "model.safetensors"))
    assert origin is not None and origin.describe() == "the imported weights"
    with pytest.raises(CheckpointError, match="was imported, so there is no training to resume; train from it: start="):
        list(train(load_recipe(imported[1] / "recipe.toml"), imported[1], resume=True))


def test_training_further(imported: tuple[str, Path], tmp_path: Path) -> None:
    """Two steps, an interruption, and the third."""
    (tmp_path / "pairs.tsv").write_text(f"{TEXT}\t{TARGET}\nthe book\tle livre\n" * 4, "utf-8")
    changes = ["training.steps=2", "training.validate_every=0", "training.device=cpu", "training.warmup=0"]
    changes += [f"data.train={tmp_path / 'pairs.tsv'}", f"training.start={imported[1]}"]
    recipe = load_recipe(imported[1] / "recipe.toml", changes)
    list(train(recipe, tmp_path / "further"))
    longer = make_recipe(recipe.model_dump() | {"training": recipe.training.model_dump() | {"steps": 3}})
    list(train(longer, tmp_path / "further", resume=True))
    before, after = (weft.load(path).score([(TEXT, TARGET)])[0] for path in (imported[1], tmp_path / "further"))
    assert after.log_probability > before.log_probability


def test_ctranslate2(imported: tuple[str, Path], tmp_path: Path) -> None:
    """The engine where the frame is weft's own; else the export, with the first tokens of the decoder as its prefix."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    kind, path = imported
    folder = export_run(path, out=tmp_path / "exported")
    search = {"kind": "beam", "size": 3, "stop": "finished", "max_length": 6, "banned_ids": []}
    ours = weft.load(path, engine="torch").translate(TEXT, return_attention=False, **search)
    if kind not in ("nllb", "bart"):
        theirs = weft.load(path, engine="ctranslate2").translate(TEXT, return_attention=False, **search)
        assert theirs.ids == ours.ids and theirs.score == pytest.approx(ours.score, abs=1e-4)
        return
    with pytest.raises(SearchError, match="its outputs start with other tokens than <s> or </s>"):
        weft.load(path, engine="ctranslate2").translate(TEXT, return_attention=False, **search)
    run = load_run(path)
    frame, names = run.tokenizers.frame, token_names(run.tokenizers.target.size)
    start = json.loads((folder / "weft.json").read_text())["export"]["start"]
    assert start == [names[id] for id in frame.start]
    source = [names[id] for id in frame.source(run.tokenizers.source.encode(TEXT))]
    translator = ctranslate2.Translator(str(folder), intra_threads=1, compute_type="float32")
    options = {"beam_size": 1, "max_decoding_length": 6 + len(frame.target_before), "min_decoding_length": 0}
    [result] = translator.translate_batch([source], [start], return_scores=True, length_penalty=0, **options)
    greedy = weft.load(path, engine="torch").translate(TEXT, kind="greedy", max_length=6, banned_ids=[], no_loops=False)
    assert result.hypotheses[0][len(frame.target_before) :] == [names[id] for id in greedy.ids]
    assert result.scores[0] == pytest.approx(greedy.log_probability, abs=1e-4)


def test_a_service(imported: tuple[str, Path]) -> None:
    """With the languages of a model that has several."""
    from apps.serve.servers import running_server, settings
    from weft.apps.serve import create_app

    kind, path = imported
    if kind != "nllb":
        pytest.skip("one is enough")
    search = {"kind": "greedy", "max_length": 4}
    with running_server(create_app({"model": path}, settings())) as server:
        answer = server.post("/api/translate", text=TEXT, search=search)
        wrong = server.post("/api/translate", text=TEXT, search={"target_language": "fra"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["translations"][0]["text"] == weft.load(path).translate(TEXT, **search).text
    assert 400 <= wrong.status_code < 500 and "fra_Latn" in wrong.text
