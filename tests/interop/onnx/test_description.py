"""Configuration and tokenizers beside the graphs: those of a Hugging Face export where there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import onnx_models
from fixtures.tokenizers import learn
from weft.interop.onnx.description import describe
from weft.models.build import build_model
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.runs.load import LoadedRun
from weft.text.tokenizer import Tokenizers

STACK = {"kind": "transformer", "hidden": 12, "layers": 1, "heads": 3, "feed_forward": 20}


def make_run(tie: str = "all", **stack: Any) -> LoadedRun:
    model = {"embedding": 12, "tie": tie, "encoder": {**STACK, **stack}, "decoder": {**STACK, "heads": 2, **stack}}
    recipe = make_recipe({"name": "tiny", "tokenizer": {"kind": "bpe"}, "model": model})
    tokenizer = learn("bpe", ["the old king reads", "a book to his son"], size=40)
    torch.manual_seed(3)
    network = build_model(recipe.model, source_size=tokenizer.size, target_size=tokenizer.size)
    return LoadedRun(network.eval(), Tokenizers(tokenizer, tokenizer), recipe)


def written(run: LoadedRun, folder: Path) -> dict[str, Any]:
    assert isinstance(run.model, Seq2Seq)
    describe(run, run.model).write(folder)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def test_of_a_hugging_face_export(tmp_path: Path) -> None:
    """transformers.js knows no Pegasus; keys and values of the source have the heads of the decoder."""
    pytest.importorskip("transformers")
    from transformers import AutoConfig, AutoTokenizer

    run = make_run()
    config = written(run, tmp_path)
    size = run.tokenizers.source.size
    assert (config["model_type"], config["architectures"]) == ("bart", ["BartForConditionalGeneration"])
    assert (config["encoder_attention_heads"], config["decoder_attention_heads"], config["d_model"]) == (2, 2, 12)
    assert (config["pad_token_id"], config["vocab_size"]) == (size, size + 1)
    assert (config["source_before"], config["source_after"], config["target_before"]) == ([], [2], [])
    theirs = AutoConfig.from_pretrained(tmp_path)
    assert (theirs.num_attention_heads, theirs.hidden_size, theirs.decoder_start_token_id) == (2, 12, 1)
    text = "the old son"
    assert AutoTokenizer.from_pretrained(tmp_path)(text).input_ids == [*run.tokenizers.source.encode(text), 2]
    assert json.loads((tmp_path / "generation_config.json").read_text())["eos_token_id"] == 2


@pytest.mark.parametrize("tie", ["all", "inputs"])
def test_ids_of_the_export(tie: str) -> None:
    """The graphs have a row for the padding token, which is never an output."""
    run = make_run(tie)
    assert isinstance(run.model, Seq2Seq)
    model, size = describe(run, run.model).model, run.tokenizers.source.size
    sources, targets = Ragged.of([[5, 9, 2]]), Ragged.of([[1, 7, 8]])
    with torch.no_grad():
        ours_NV, theirs_NV = (network(sources, targets).logits_NV.log_softmax(-1) for network in (run.model, model))
    assert theirs_NV.shape[1] == size + 1 and theirs_NV[:, size].max() < -1000
    torch.testing.assert_close(theirs_NV[:, :size], ours_NV)


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_of_other_runs(kind: str, tmp_path: Path) -> None:
    """Recurrent, or with a tokenizer that transformers does not have."""
    config = written(onnx_models.make(kind), tmp_path)
    assert config["model_type"] == "weft" and (tmp_path / "tokenizer.source.json").exists()
    assert (config["decoder_start_token_id"], config["eos_token_id"], config["source_after"]) == (1, 2, [2])
    assert config["decoder"] == ("transformer" if kind == "transformer" else "recurrent")
    assert "source_columns" not in config


@pytest.mark.parametrize(("kind", "count"), [("columns", 2), ("parallel columns", 3)])
def test_source_columns(kind: str, count: int, tmp_path: Path) -> None:
    assert written(onnx_models.make(kind), tmp_path)["source_columns"] == count
