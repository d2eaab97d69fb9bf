"""Runs as models of Marian: imported again, and by the literal reading of Marian's formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from fixtures import pretrained_models
from fixtures.marian_models import PRE_NORM, MarianModel
from interop.marian.test_importing import UNTIED, differences, make
from weft.errors import RecipeError, SearchError
from weft.interop.export import export_run
from weft.interop.importing import import_model
from weft.interop.marian.exporting import export_marian
from weft.interop.options import ImportOptions
from weft.ragged import Ragged
from weft.runs.load import LoadedRun, load_run

SOURCES, TARGETS = [[5, 9, 30, 2], [7, 2]], [[1, 8, 12], [1, 40]]
LINES = ["the old king reads", "le vieux roi lit un livre", "zzz дом"]
VARIANTS: dict[str, dict[str, Any]] = {
    "as trained by default": {},
    "pre-norm with trained positions": {**PRE_NORM, "positions": 30, "transformer-train-position-embeddings": True},
    "RMSNorm": {"transformer-postprocess": "dar", "transformer-ffn-activation": "relu"},
    "a norm of the embeddings": {"transformer-postprocess-emb": "nd", "transformer-ffn-activation": "gelu"},
    "wider decoder": {"transformer-decoder-dim-ffn": 17},
    "tied layers": {"transformer-tied-layers": [1, 2, 1]},
    "tied inputs": {**UNTIED, "tied-embeddings-src": True},
    "tied target": {**UNTIED, "tied-embeddings": True},
    "untied": UNTIED,
}


@torch.no_grad()
def log_probabilities(run: LoadedRun) -> torch.Tensor:
    return run.model.eval()(Ragged.of(SOURCES), Ragged.of(TARGETS)).logits_NV.log_softmax(-1)


def literal(path: Path) -> MarianModel:
    """The reading of an exported file."""
    with np.load(path) as file:
        arrays = dict(file)
    options = yaml.safe_load(arrays.pop("special:model.yml").tobytes().rstrip(b"\0"))
    model = MarianModel(tuple(options["dim-vocabs"]), **options)
    model.parameters = arrays
    return model


QUICK = ("as trained by default", "pre-norm with trained positions", "untied")


@pytest.mark.parametrize(
    "variant", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
)
def test_there_and_back(tmp_path: Path, variant: str) -> None:
    two = variant in ("tied target", "untied")
    make(tmp_path / "marian", two=two, **VARIANTS[variant])
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    folder = export_marian(run, tmp_path / "export")
    assert differences(literal(folder / "model.npz"), run) < 1e-5
    again = load_run(import_model(folder, tmp_path / "again"))
    assert again.recipe.model == run.recipe.model
    torch.testing.assert_close(log_probabilities(again), log_probabilities(run), rtol=0, atol=0)
    for ours, theirs in zip(again.tokenizers, run.tokenizers, strict=True):
        assert ours.encode_batch(LINES) == theirs.encode_batch(LINES)
    assert (folder / ("vocab.src.spm" if two else "vocab.spm")).exists()


def test_other_positions(tmp_path: Path) -> None:
    """Sinusoids of Hugging Face become trained positions; so embeddings are not scaled, and the output is untied."""
    make(tmp_path / "marian")
    options = ImportOptions(numerics="huggingface")
    run = load_run(import_model(tmp_path / "marian" / "model.npz", tmp_path / "run", options))
    folder = export_marian(run, tmp_path / "export")
    again = load_run(import_model(folder, tmp_path / "again"))
    decoder = again.recipe.model.decoder
    assert (decoder.positions, decoder.max_positions, decoder.scale_embedding) == ("learned", 1024, False)
    assert again.recipe.model.tie == "inputs"
    torch.testing.assert_close(log_probabilities(again), log_probabilities(run), rtol=0, atol=1e-3)  # ε is Marian's
    with torch.no_grad():
        for module in run.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6
    torch.testing.assert_close(log_probabilities(again), log_probabilities(run), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_opus_mt(tmp_path: Path) -> None:
    """A folder of Hugging Face: vocab.json becomes vocab.yml, beside source.spm and target.spm."""
    pytest.importorskip("transformers")
    pretrained_models.make("marian", tmp_path / "original", encoder_attention_heads=2)
    run = load_run(import_model(tmp_path / "original", tmp_path / "run"))
    with torch.no_grad():
        run.model.target_embedding.weight_VE[1] = 0  # as in every model of OPUS-MT
    folder = export_marian(run, tmp_path / "export")
    assert sorted(path.name for path in folder.iterdir() if path.suffix in (".spm", ".yml")) == [
        *("decoder.yml", "source.spm", "target.spm", "vocab.yml")
    ]
    again = load_run(import_model(folder, tmp_path / "again"))
    assert again.tokenizers.source.encode_batch(LINES) == run.tokenizers.source.encode_batch(LINES)
    assert again.tokenizers.target.encode_batch(LINES) == run.tokenizers.target.encode_batch(LINES)
    others = [0, *range(2, run.tokenizers.target.size)]  # <pad>, of the begin token, is an output in Hugging Face only
    ours_NV, theirs_NV = (log_probabilities(one)[:, others].log_softmax(-1) for one in (run, again))
    torch.testing.assert_close(theirs_NV, ours_NV, rtol=0, atol=1e-3)  # ε is Marian's


def test_decoder_settings(tmp_path: Path) -> None:
    make(tmp_path / "marian")
    content = "beam-size: 6\nnormalize: 0.6\nmax-length-factor: 2.5\nallow-unk: true\nvocabs: [vocab.spm, vocab.spm]\n"
    (tmp_path / "marian" / "decoder.yml").write_text(content)
    run = import_model(tmp_path / "marian", tmp_path / "run")
    folder = export_run(run, to="marian")
    assert folder == run / "marian-float32"
    written = yaml.safe_load((folder / "decoder.yml").read_text())
    assert {**written, **yaml.safe_load(content)} == written
    again = load_run(import_model(folder, tmp_path / "again"))
    assert again.recipe.search == load_run(run).recipe.search
    assert json.loads((folder / "weft.json").read_text())["weft_export"] == "marian"


REFUSED = {
    "rotary": ({"positions": "rotary"}, "model.encoder.positions: 'rotary' are not known to Marian"),
    "gated": ({"activation": "swiglu"}, "model.encoder.activation: 'swiglu' is not known to Marian"),
    "groups": ({"key_value_heads": 1}, "model.encoder.key_value_heads, model.encoder.head_size: "),
    "epsilon": ({"norm_epsilon": 1e-3}, "model.encoder.norm_epsilon: 0.001; Marian has 1e-06"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_settings(tmp_path: Path, case: str) -> None:
    changes, message = REFUSED[case]
    make(tmp_path / "marian")
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    model = run.recipe.model
    changed = model.model_copy(update={"encoder": model.encoder.model_copy(update=changes)})
    with pytest.raises(RecipeError) as error:
        export_marian(run._replace(recipe=run.recipe.model_copy(update={"model": changed})), tmp_path / "export")
    assert str(error.value).startswith(f"{run.recipe.name}: {message}") and not (tmp_path / "export").exists()


def test_refused_runs(tmp_path: Path) -> None:
    make(tmp_path / "marian")
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    with torch.no_grad():
        run.model.target_embedding.weight_VE[1, 3] = 0.1
    with pytest.raises(RecipeError, match="the embedding of its begin token is not zero"):
        export_marian(run, tmp_path / "export")
    with pytest.raises(SearchError, match=r"^--quantization int8: not for marian"):
        export_marian(run, tmp_path / "export", quantization="int8")
