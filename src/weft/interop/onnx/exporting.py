"""From a run to a folder of ONNX graphs, with the files that transformers.js and optimum look for."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from weft.activity import activity
from weft.errors import RecipeError, SearchError, nearest
from weft.files import save_text
from weft.interop.export_folder import check_replaceable, write_export
from weft.interop.onnx.graphs import Graph, make_graphs
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer_decoder import TransformerDecoder
from weft.recipe.toml import write_toml
from weft.runs.load import LoadedRun
from weft.runs.weights import hash_tensors, model_tensors
from weft.text.specials import BEGIN, END

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
QUANTIZATIONS = ("float32", "int8")


def export_onnx(run: LoadedRun, folder: Path, *, quantization: str = "float32") -> Path:
    """Write the folder; an earlier export in it is replaced. ``quantization``: float32, or int8 weights."""
    model = check_exportable(run, quantization)
    check_replaceable(folder, "onnx")

    def fill(temporary: Path) -> dict[str, Any]:
        for name, graph in make_graphs(model).items():
            with activity(f"exporting {name}"):
                path = temporary / f"{name}.onnx"
                write_graph(graph, path)
                if quantization == "int8":
                    quantize(path)
        run.tokenizers.save(temporary)
        save_text(temporary / "recipe.toml", write_toml(run.recipe))
        run.length_limits.write(temporary)
        save_text(temporary / "config.json", json.dumps(_config(run), indent=2) + "\n")
        weights = hash_tensors(model_tensors(run.model))
        return {"quantization": quantization, "weights": weights}

    return write_export(folder, "onnx", fill)


def check_exportable(run: LoadedRun, quantization: str) -> Seq2Seq:
    """The model of a run, if it can be exported; else one line that says why not."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise SearchError(f"ONNX needs packages that are not installed; `pip install {' '.join(missing)}`")
    if quantization not in QUANTIZATIONS:
        raise SearchError(f"--quantization {quantization}: not for onnx; {nearest(quantization, QUANTIZATIONS)}")
    name, settings = run.recipe.name, run.recipe.model
    if settings.kind != "seq2seq":
        raise RecipeError(f"{name}: model.kind: {settings.kind!r} is not exported to ONNX; only 'seq2seq' is")
    if settings.sources.count > 1:
        raise RecipeError(f"{name}: model.sources.count: {settings.sources.count}: only one source is exported to ONNX")
    if settings.copy:
        raise RecipeError(f"{name}: model.copy: models that copy are not exported to ONNX")
    if type(run.model) is not Seq2Seq:
        kind = type(run.model).__name__
        raise RecipeError(f"{name}: a model of class {kind} is not exported to ONNX; only a plain encoder-decoder is")
    return run.model


def write_graph(graph: Graph, path: Path) -> None:
    """Export one module, in one file."""
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
        program.save(str(path), external_data=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter logs and warns of about its own parts."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def quantize(path: Path) -> None:
    """Weights of matrix products as 8-bit integers; activations are quantized as they come (dynamic quantization).

    Weights use 7 bits: on CPUs without VNNI, sums of products of 8-bit integers saturate, and outputs are wrong.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(path)
    del graph.graph.value_info[:]  # the exporter leaves shapes of weights before they were transposed
    with _quiet():
        quantize_dynamic(graph, str(path), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def _config(run: LoadedRun) -> dict[str, Any]:
    """config.json: what a program needs to search with the graphs."""
    frame = run.tokenizers.frame
    transformer = isinstance(run.model, Seq2Seq) and isinstance(run.model.decoder, TransformerDecoder)
    sizes = {"vocab_size": run.tokenizers.target.size, "source_vocab_size": run.tokenizers.source.size}
    ids = {"decoder_start_token_id": frame.begin, "eos_token_id": END, "bos_token_id": BEGIN, "pad_token_id": END}
    around = {
        "source_before": list(frame.source_before),
        "source_after": list(frame.source_after),
        "target_before": list(frame.target_before),
    }
    kind = "transformer" if transformer else "recurrent"
    return {"model_type": "weft", "decoder": kind, "is_encoder_decoder": True, **sizes, **ids, **around}
