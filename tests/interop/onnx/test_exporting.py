"""Exported graphs in ONNX Runtime: the same numbers, and the same outputs of the searches in docs/export.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from fixtures import onnx_models, pretrained_models
from fixtures.pretrained_models import KINDS
from weft.errors import RecipeError, SearchError
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.interop.onnx import exporting
from weft.interop.onnx.exporting import check_exportable, export_onnx
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.runs.load import LoadedRun, load_run
from weft.text.specials import END
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import TorchEngine

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
DOCUMENT = Path(__file__).parents[3] / "docs" / "export.md"
LONGEST = 15


def documented() -> dict[str, Any]:
    """`Model`, `greedy_search` and `beam_search` of the document."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "def beam_search" in block), names)
    return names


def sources(count: int, columns: int = 1) -> list[list[int]]:
    """Ids; those of several columns with an end token after each but the last."""
    random = Random(3)
    drawn = [random.choices(range(3, 17), k=random.randint(1, 9)) for _ in range(count * columns)]
    rows = [drawn[row::count] for row in range(count)]
    return [[id for column in row for id in (END, *column)][1:] for row in rows]


def own_outputs(run: LoadedRun, **search: Any) -> list[list[int]]:
    settings = make_recipe({"search": {"no_loops": False, "max_length": LONGEST, **search}}).search
    frame = run.tokenizers.frame
    framed = [frame.source(ids) for ids in sources(12, run.recipe.model.sources.count)]
    found = TorchEngine(run.model, run.tokenizers.target).search(TranslationRequest(sources=framed, settings=settings))
    return [best.tokens for best, *_ in found]


@pytest.mark.slow
@pytest.mark.parametrize("kind", onnx_models.KINDS)
def test_in_onnx_runtime(kind: str, tmp_path: Path) -> None:
    run = onnx_models.make(kind)
    names = documented()
    model = names["Model"](export_onnx(run, tmp_path / "export"))
    columns = run.recipe.model.sources.count
    source, target = sources(1, columns)[0], [3, 4, 5, 6]
    frame = run.tokenizers.frame
    with torch.no_grad():
        inputs = Ragged.of([[*frame.start, *target]])
        expected = run.model(Ragged.of([frame.source(source)]), inputs).logits_NV.log_softmax(-1).numpy()
    log_p, past = model.start(source)
    rows = [log_p]
    for token in target:
        log_p, past = model.step([token], past)
        rows.append(log_p)
    np.testing.assert_allclose(np.concatenate(rows), expected, atol=1e-4, rtol=0)
    greedy = [names["greedy_search"](model, source, LONGEST) for source in sources(12, columns)]
    assert greedy == own_outputs(run, kind="greedy")
    beams = [names["beam_search"](model, source, 5, LONGEST) for source in sources(12, columns)]
    assert beams == own_outputs(run, kind="beam", size=5, stop="finished")


@pytest.mark.slow
def test_sparse_outputs(tmp_path: Path) -> None:
    """The logits of entmax are log p: what a search makes of them by a softmax is p."""
    run = onnx_models.make("gru", loss="entmax15")
    model = documented()["Model"](export_onnx(run, tmp_path / "export"))
    source, frame = sources(1)[0], run.tokenizers.frame
    with torch.no_grad():
        logits_NV = run.model(Ragged.of([frame.source(source)]), Ragged.of([[*frame.start]])).logits_NV
    assert (logits_NV == -np.inf).any()
    np.testing.assert_allclose(np.exp(model.start(source)[0]), logits_NV.exp().numpy(), atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t5", "nllb"])
def test_ids_of_the_original(kind: str, tmp_path: Path) -> None:
    """Graphs of an imported model have the ids of its tokenizer; the first call is that of optimum."""
    pytest.importorskip("transformers")
    options = ImportOptions(*KINDS[kind].languages)
    pretrained_models.make(kind, tmp_path / "original", end=3.0)
    run = load_run(import_model(tmp_path / "original", tmp_path / "run", options))
    names = documented()
    model = names["Model"](export_onnx(run, tmp_path / "export"))
    source, target = run.tokenizers
    ids = [Random(2).choices(range(3, 40), k=5) for _ in range(4)]
    outputs = [names["greedy_search"](model, [source.external_ids[id] for id in row], LONGEST) for row in ids]
    settings = make_recipe({"search": {"kind": "greedy", "no_loops": False, "max_length": LONGEST}}).search
    frame = run.tokenizers.frame
    request = TranslationRequest(sources=[frame.source(row) for row in ids], settings=settings, frame=frame)
    found = TorchEngine(run.model, target).search(request)
    assert outputs == [[target.external_ids[id] for id in best.tokens] for best, *_ in found]
    config = json.loads((tmp_path / "export" / "config.json").read_text())
    assert config["model_type"] == {"t5": "t5", "nllb": "m2m_100"}[kind]
    decoder = model.sessions["decoder_model_merged"]
    shapes = {tuple(tensor.shape) for tensor in decoder.get_inputs() if ".decoder." in tensor.name}
    heads = config["num_heads"] if kind == "t5" else config["decoder_attention_heads"]
    width = config["d_kv"] if kind == "t5" else config["d_model"] // heads
    assert shapes == {("batch_size", heads, "past_decoder_sequence_length", width)}


@pytest.mark.slow
@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_weights_in_files_of_their_own(quantization: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where they are larger than a protocol buffer may be: the same outputs."""
    run, source = onnx_models.make("transformer"), sources(1)[0]
    expected = documented()["Model"](export_onnx(run, tmp_path / "one", quantization=quantization)).start(source)[0]
    monkeypatch.setattr(exporting, "LARGEST", 100)
    folder = export_onnx(run, tmp_path / "two", quantization=quantization)
    suffix = "" if quantization == "float32" else "_quantized"
    names = {f"{name}{suffix}.onnx" for name in ("encoder_model", "decoder_model_merged")}
    assert {path.name for path in (folder / "onnx").iterdir()} == names | {f"{name}_data" for name in names}
    assert {f"onnx/{name}_data" for name in names} < set(json.loads((folder / "weft.json").read_text())["files"])
    np.testing.assert_array_equal(documented()["Model"](folder).start(source)[0], expected)


@pytest.mark.slow
def test_int8(tmp_path: Path) -> None:
    """Smaller files, with outputs near those in single precision."""
    run = onnx_models.make("transformer")
    model = documented()["Model"](export_onnx(run, tmp_path / "export", quantization="int8"))
    source = sources(1)[0]
    frame = run.tokenizers.frame
    with torch.no_grad():
        logits_NV = run.model(Ragged.of([frame.source(source)]), Ragged.of([[*frame.start]])).logits_NV
    np.testing.assert_allclose(model.start(source)[0], logits_NV.log_softmax(-1).numpy(), atol=0.2, rtol=0)
    operators = {
        node.op_type for node in _load(tmp_path / "export" / "onnx" / "decoder_model_merged_quantized.onnx").graph.node
    }
    assert "MatMulInteger" in operators or "DynamicQuantizeMatMul" in operators
    info = json.loads((tmp_path / "export" / "weft.json").read_text())
    assert info["quantization"] == "int8" and not [name for name in info["files"] if "float32" in name]


def _load(path: Path) -> Any:
    import onnx

    return onnx.load(path)


REFUSED = {
    "language model": ({"kind": "language_model"}, "model.kind: 'language_model' is not exported to ONNX: it has no"),
    "prefix LM": ({"kind": "prefix_lm"}, "model.kind: 'prefix_lm' is not exported to ONNX: it has no encoder"),
    "copying": ({"copies": True}, "model.copy: copying is not exported to ONNX: it gives probability"),
    "columns": (
        {"sources": {"count": 2}, "decoder": {"kind": "transformer"}},
        "model.sources.attention: 'parallel' is not exported to ONNX with a Transformer decoder",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    settings, message = REFUSED[case]
    run = onnx_models.make("lstm")
    recipe = run.recipe.model_copy(update={"model": run.recipe.model.model_copy(update=_values(settings, run))})
    with pytest.raises(RecipeError, match=f"^tiny: {re.escape(message)}"):
        check_exportable(run._replace(recipe=recipe), "float32")


def _values(settings: dict[str, Any], run: LoadedRun) -> dict[str, Any]:
    return {
        name: getattr(run.recipe.model, name).model_copy(update=value) if isinstance(value, dict) else value
        for name, value in settings.items()
    }


def test_an_unknown_quantization() -> None:
    with pytest.raises(SearchError, match=r"^--quantization int4: not for onnx; did you mean 'int8'\?$"):
        check_exportable(onnx_models.make("gru"), "int4")
