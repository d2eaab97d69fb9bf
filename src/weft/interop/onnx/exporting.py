"""From a run to a folder of ONNX graphs, with the files that transformers.js and optimum look for."""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from weft.errors import RecipeError, SearchError, nearest
from weft.files import save_text
from weft.interop.export_folder import check_replaceable, write_export
from weft.interop.onnx.description import describe
from weft.interop.onnx.graphs import Exportable, Graph, make_graphs
from weft.interop.onnx.support import unsupported
from weft.models.hard_attention import HardAttentionSeq2Seq
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer_decoder import TransformerDecoder
from weft.recipe.toml import write_toml
from weft.runs.load import LoadedRun
from weft.runs.weights import hash_tensors, model_tensors
from weft.runtime.activity import activity

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
QUANTIZATIONS = ("float32", "int8")
GRAPHS = "onnx"
"""The folder in which transformers.js looks for graphs; optimum looks in all."""
LARGEST = 1_800_000_000
"""Bytes of weights in one file; a protocol buffer has at most 2 GiB."""


def export_onnx(run: LoadedRun, folder: Path, *, quantization: str = "float32") -> Path:
    """Write the folder; an earlier export in it is replaced. ``quantization``: float32, or int8 weights."""
    model = check_exportable(run, quantization)
    check_replaceable(folder, "onnx")
    described = describe(run, model)

    def fill(temporary: Path) -> dict[str, Any]:
        (temporary / GRAPHS).mkdir()
        suffix = "_quantized" if quantization == "int8" else ""
        for name, graph in traced_graphs(described.model, quantization):
            save_graph(graph, temporary / GRAPHS / f"{name}{suffix}.onnx")
        described.write(temporary)
        save_text(temporary / "recipe.toml", write_toml(run.recipe))
        run.length_limits.write(temporary)
        return {"quantization": quantization, "weights": hash_tensors(model_tensors(run.model))}

    return write_export(folder, "onnx", fill)


def traced_graphs(model: Exportable, quantization: str) -> Iterator[tuple[str, Any]]:
    """Names of files, without suffix, and their graphs."""
    from weft.interop.onnx.merging import merge_decoder

    graphs = make_graphs(model)
    parts = {}
    for name, graph in graphs.items():
        with activity(f"exporting {name}"):
            traced = trace(graph)
            parts[name] = quantize(traced) if quantization == "int8" else traced
    yield "encoder_model", parts["encoder_model"]
    if "source_keys_values" in parts:
        fixed_width = has_usual_width(model)
        decoder, source = parts["decoder_model"], parts["source_keys_values"]
        yield "decoder_model_merged", merge_decoder(decoder, source, fixed_width=fixed_width)
    else:
        yield "decoder_model", parts["decoder_model"]


def has_usual_width(model: Exportable) -> bool:
    """Whether the width of a head is hidden size / heads; not in some models of the T5 family."""
    assert isinstance(model.decoder, TransformerDecoder)
    attention = model.decoder.stack.layers[0].self_attention
    return model.decoder.stack.width // attention.heads == attention.head_width


def check_exportable(run: LoadedRun, quantization: str) -> Exportable:
    """The model of a run, if it can be exported; else one line that says why not."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise SearchError(f"ONNX needs packages that are not installed; `pip install {' '.join(missing)}`")
    if quantization not in QUANTIZATIONS:
        raise SearchError(f"--quantization {quantization}: not for onnx; {nearest(quantization, QUANTIZATIONS)}")
    name, settings = run.recipe.name, run.recipe.model
    if reason := unsupported(settings):
        raise RecipeError(f"{name}: {reason}")
    if type(run.model) not in (Seq2Seq, HardAttentionSeq2Seq):
        kind = type(run.model).__name__
        raise RecipeError(f"{name}: a model of class {kind} is not exported to ONNX; only a plain encoder-decoder is")
    assert isinstance(run.model, Seq2Seq | HardAttentionSeq2Seq)
    return run.model


def trace(graph: Graph) -> Any:
    """The module of a graph as a model of ONNX."""
    dims = {name: torch.export.Dim(name) for axes in graph.dynamic.values() for name in axes.values()}
    shapes = {name: {axis: dims[dim] for axis, dim in axes.items()} for name, axes in graph.dynamic.items()}
    names = list(graph.inputs)
    listed = [name for name in names if name.partition(".")[0] in ("past_key_values", "past", "memory")]
    plain = [name for name in names if name not in listed]
    arguments: list[Any] = [graph.inputs[name] for name in plain]
    dynamic: list[Any] = [shapes[name] for name in plain]
    if listed:  # the last parameter of a step is a tuple
        arguments.append(tuple(graph.inputs[name] for name in listed))
        dynamic.append(tuple(shapes[name] for name in listed))
    with _quiet(), torch.no_grad():
        exported = torch.export.export(graph.module, tuple(arguments), dynamic_shapes=tuple(dynamic), strict=False)
        program = torch.onnx.export(
            exported, dynamo=True, input_names=[*plain, *listed], output_names=graph.outputs, verbose=False
        )
    assert program is not None
    model = program.model_proto
    _name_axes(model, graph)
    return model


def _name_axes(model: Any, graph: Graph) -> None:
    """Give axes of variable size the names that programs look for; the exporter numbers them."""
    del model.graph.value_info[:]  # the exporter leaves shapes of weights before they were transposed
    names = {}
    for value in model.graph.input:
        for axis, name in graph.dynamic[value.name].items():
            dim = value.type.tensor_type.shape.dim[axis]
            names[dim.dim_param] = name
            dim.dim_param = name
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(r"\bs\d+\b", lambda found: names.get(found[0], found[0]), dim.dim_param)


def save_graph(model: Any, path: Path) -> None:
    """Write one file, or two where weights are larger than a protocol buffer may be."""
    import onnx

    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size > LARGEST:
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}_data")
    else:
        onnx.save(model, path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress log messages and warnings of the exporter about itself."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def quantize(model: Any) -> Any:
    """Weights of matrix products as 8-bit integers; activations are quantized as they come (dynamic quantization).

    Weights use 7 bits: on CPUs without VNNI, sums of products of 8-bit integers saturate, and outputs are wrong.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet(), tempfile.TemporaryDirectory(prefix="weft-onnx-") as folder:
        path = str(Path(folder) / "model.onnx")
        quantize_dynamic(model, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
        return onnx.load(path)
