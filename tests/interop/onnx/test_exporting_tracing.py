"""A graph as a model of ONNX: names of inputs, outputs and axes; and the files of an export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fixtures import onnx_models
from weft.interop.onnx import exporting
from weft.interop.onnx.exporting import export_onnx, has_usual_width, quantize, save_graph, trace, traced_graphs
from weft.interop.onnx.graphs import Graph, make_graphs
from weft.recipe import load_recipe
from weft.runs.length_limits import FILE_NAME, LengthLimits

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")


class Longer(nn.Module):
    """One token after those of the past."""

    def forward(self, input_ids: Tensor, past: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (past_BP,) = past
        longer_BP = torch.cat([past_BP, input_ids.float()], 1)
        return longer_BP.sum(1, keepdim=True), longer_BP


def test_names_and_axes(tmp_path: Path) -> None:
    """An input of the past is an element of a tuple; axes have the names that programs look for."""
    inputs = {"past.0": torch.ones(2, 3), "input_ids": torch.ones(2, 1, dtype=torch.int64)}
    dynamic = {"past.0": {0: "batch_size", 1: "past_length"}, "input_ids": {0: "batch_size"}}
    model = trace(Graph(Longer(), inputs, ["logits", "present.0"], dynamic))
    save_graph(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    shapes = {tensor.name: tensor.shape for tensor in (*session.get_inputs(), *session.get_outputs())}
    assert shapes == {
        "input_ids": ["batch_size", 1],
        "past.0": ["batch_size", "past_length"],
        "logits": ["batch_size", 1],
        "present.0": ["batch_size", "past_length + 1"],
    }
    past = np.arange(20, dtype=np.float32).reshape(4, 5)
    logits, longer = session.run(None, {"past.0": past, "input_ids": np.array([[7]] * 4)})
    np.testing.assert_array_equal(longer, np.concatenate([past, np.full((4, 1), 7)], 1))
    np.testing.assert_array_equal(logits[:, 0], past.sum(1) + 7)


def small_graph(kind: str = "first") -> Any:
    """A model of ONNX that names its weights, 1,600 bytes."""
    from onnx import TensorProto, helper

    weights = helper.make_tensor(kind, TensorProto.FLOAT, [400], np.arange(400, dtype=np.float32).tobytes(), raw=True)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [400])
    node = helper.make_node("Identity", [kind], ["y"])
    return helper.make_model(helper.make_graph([node], kind, [], [output], [weights]), ir_version=10)


@pytest.mark.parametrize(("largest", "files"), [(1600, ["m.onnx"]), (1599, ["m.onnx", "m.onnx_data"])])
def test_large_weights(largest: int, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file of their own if one file would be too large."""
    monkeypatch.setattr(exporting, "LARGEST", largest)
    save_graph(small_graph(), tmp_path / "m.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == files


@pytest.mark.parametrize(("quantization", "suffix"), [("float32", ""), ("int8", "_quantized")])
def test_files(quantization: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "traced_graphs", lambda model, _: iter([("encoder_model", small_graph())]))
    run = onnx_models.make("gru")
    folder = export_onnx(run, tmp_path / "export", quantization=quantization)
    assert (folder / "onnx" / f"encoder_model{suffix}.onnx").is_file()
    assert load_recipe(folder / "recipe.toml").model == run.recipe.model
    assert json.loads((folder / "config.json").read_text())["decoder"] == "recurrent"
    info = json.loads((folder / "weft.json").read_text())
    assert (info["weft_export"], info["quantization"]) == ("onnx", quantization)
    assert LengthLimits.read(folder) == run.length_limits and FILE_NAME in info["files"]


@pytest.mark.parametrize("quantization", ["float32", "int8"])
@pytest.mark.parametrize("kind", ["gru", "transformer", "rotary"])
def test_graphs_of_a_model(kind: str, quantization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Transformer decoder is merged with its source's keys and values; each graph is quantized before that."""
    monkeypatch.setattr(exporting, "trace", lambda graph: "traced")
    monkeypatch.setattr(exporting, "quantize", lambda traced: f"{traced}, quantized")
    monkeypatch.setattr("weft.interop.onnx.merging.merge_decoder", lambda *graphs, fixed_width: (*graphs, fixed_width))
    model: Any = onnx_models.make(kind).model
    each = "traced, quantized" if quantization == "int8" else "traced"
    decoder = {"decoder_model": each} if kind == "gru" else {"decoder_model_merged": (each, each, kind != "rotary")}
    assert dict(traced_graphs(model, quantization)) == {"encoder_model": each, **decoder}
    assert ("source_keys_values" in make_graphs(model)) == (kind != "gru")
    assert kind == "gru" or has_usual_width(model) == (kind != "rotary")


def product(weights_IO: np.ndarray) -> Any:
    """A graph of one matrix product."""
    from onnx import TensorProto, helper, numpy_helper

    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
        for name, width in zip(("inputs", "outputs"), weights_IO.shape, strict=True)
    ]
    node = helper.make_node("MatMul", ["inputs", "weights"], ["outputs"])
    weights = numpy_helper.from_array(weights_IO.astype(np.float32), "weights")
    graph = helper.make_graph([node], "product", ends[:1], ends[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_quantization() -> None:
    """Seven bits, and a scale for each column: a large column does not make the others coarse."""
    from onnx import numpy_helper

    random = np.random.default_rng(3)
    weights_IO = random.normal(size=(11, 5)) * np.array([1000.0, 1.0, 1.0, 1.0, 0.01])
    model = quantize(product(weights_IO))
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (integers,) = (array for array in stored.values() if array.shape == (11, 5))
    assert integers.dtype == np.int8 and np.abs(integers).max() <= 64
    inputs = random.normal(size=(7, 11)).astype(np.float32)
    (outputs,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"inputs": inputs})
    expected = inputs @ weights_IO
    errors = np.abs(outputs - expected).max(0) / np.abs(expected).max(0)
    assert (errors < 0.1).all()
