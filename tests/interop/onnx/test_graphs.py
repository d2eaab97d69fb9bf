"""The graphs before they are exported: over padded batches they compute what the model computes."""

from __future__ import annotations

import pytest
import torch

from fixtures import onnx_models
from weft.interop.onnx.graphs import Graph, make_graphs
from weft.ragged import Ragged

SOURCES = [[5, 6, 2, 7, 8, 3, 2, 4, 2], [3, 2, 2, 5, 2], [9, 4, 2, 4, 2, 2]]
"""For models with several sources: three columns, each closed by the end token."""
TARGETS = [[1, 3, 4, 5, 6, 7], [1, 9, 8, 7, 3, 3], [1, 12, 3, 4, 11, 5]]


def padded() -> dict[str, torch.Tensor]:
    longest = max(map(len, SOURCES))
    ids = [[*source, *[2] * (longest - len(source))] for source in SOURCES]
    mask = [[1] * len(source) + [0] * (longest - len(source)) for source in SOURCES]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def call(graph: Graph, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A module with inputs by name, the past as a tuple."""
    names = list(graph.inputs)
    listed = [name for name in names if name.partition(".")[0] in ("past_key_values", "past", "memory")]
    arguments = {name: tensors[name] for name in names if name not in listed}
    past = {"past": tuple(tensors[name] for name in listed)} if listed else {}
    outputs = graph.module(**arguments, **past)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return dict(zip(graph.outputs, outputs, strict=True))


@torch.no_grad()
def logits_of(graphs: dict[str, Graph], *, together: bool) -> torch.Tensor:
    """(B, T, V) step by step; ``together``: the first three tokens in one call."""
    batch = padded()
    past = call(graphs["encoder_model"], batch)
    past = {name.replace("present", "past", 1): tensor for name, tensor in past.items()}
    prefix = "past"
    if "source_keys_values" in graphs:
        prefix = "past_key_values"
        sources = call(graphs["source_keys_values"], {"encoder_hidden_states": past["last_hidden_state"]})
        past = {name.replace("present", prefix, 1): tensor for name, tensor in sources.items()}
        empty = {
            name: tensor[:, :, :0] for name, tensor in graphs["decoder_model"].inputs.items() if ".decoder." in name
        }
        past |= {name: torch.cat([tensor, tensor[:1]]) for name, tensor in empty.items()}
        past["encoder_attention_mask"] = batch["attention_mask"]
    logits = []
    targets, time = torch.tensor(TARGETS), 0
    while time < targets.shape[1]:
        count = 3 if together and time == 0 else 1
        outputs = call(graphs["decoder_model"], {"input_ids": targets[:, time : time + count], **past})
        logits.append(outputs.pop("logits"))
        past |= {name.replace("present", prefix, 1): tensor for name, tensor in outputs.items()}
        time += count
    return torch.cat(logits, 1)


@pytest.mark.parametrize("kind", onnx_models.KINDS)
def test_logits(kind: str) -> None:
    """Of every step, for sources of different lengths."""
    model = onnx_models.make(kind).model
    with torch.no_grad():
        expected_NV = model(Ragged.of(SOURCES), Ragged.of(TARGETS)).logits_NV
    graphs = make_graphs(model)
    for together in (False, "source_keys_values" in graphs):
        logits_NV = logits_of(graphs, together=together).flatten(0, 1)
        torch.testing.assert_close(logits_NV, expected_NV, rtol=0, atol=1e-5)


def test_sparse_outputs() -> None:
    model = onnx_models.make("gru", loss="entmax15").model
    with torch.no_grad():
        expected_NV = model(Ragged.of(SOURCES), Ragged.of(TARGETS)).logits_NV
    logits_NV = logits_of(make_graphs(model), together=False).flatten(0, 1)
    torch.testing.assert_close(logits_NV.exp(), expected_NV.exp(), rtol=0, atol=1e-5)


def test_names_of_a_cache() -> None:
    """As optimum and transformers.js have them."""
    graphs = make_graphs(onnx_models.make("transformer").model)
    parts = [f"{side}.{part}" for side in ("decoder", "encoder") for part in ("key", "value")]
    names = [f"{layer}.{part}" for layer in range(3) for part in parts]
    inputs = ["input_ids", "encoder_attention_mask", *(f"past_key_values.{name}" for name in names)]
    assert list(graphs["decoder_model"].inputs) == inputs
    own, source = ([f"present.{name}" for name in names if f".{side}." in name] for side in ("decoder", "encoder"))
    assert graphs["decoder_model"].outputs == ["logits", *own]
    assert graphs["source_keys_values"].outputs == source


def test_names_of_a_recurrent_state() -> None:
    graphs = make_graphs(onnx_models.make("lstm").model)
    state = [f"present.layers.{layer}.{part}" for layer in (0, 1) for part in (0, 1)]
    assert graphs["decoder_model"].outputs == ["logits", *state, "present.attentional"]
    assert graphs["encoder_model"].outputs[:3] == ["memory.keys.keys", "memory.keys.values", "memory.keys.mask"]


def test_axes() -> None:
    """Of variable size: rows, source, target and past; the width of a state is none of them."""
    rows_and_source = {0: "batch_size", 1: "encoder_sequence_length"}
    recurrent = make_graphs(onnx_models.make("gru").model)
    assert recurrent["encoder_model"].dynamic == dict.fromkeys(("input_ids", "attention_mask"), rows_and_source)
    step = recurrent["decoder_model"].dynamic
    assert step["input_ids"] == {0: "batch_size"} and step["past.layers.0.0"] == {0: "batch_size"}
    assert step["memory.keys.keys"] == step["memory.keys.mask"] == rows_and_source
    graphs = make_graphs(onnx_models.make("transformer").model)
    assert graphs["encoder_model"].dynamic == dict.fromkeys(("input_ids", "attention_mask"), rows_and_source)
    assert graphs["source_keys_values"].dynamic == {"encoder_hidden_states": rows_and_source}
    step = graphs["decoder_model"].dynamic
    assert step["input_ids"] == {0: "batch_size", 1: "decoder_sequence_length"}
    assert step["encoder_attention_mask"] == rows_and_source
    for part in ("key", "value"):
        assert step[f"past_key_values.2.decoder.{part}"] == {0: "batch_size", 2: "past_decoder_sequence_length"}
        assert step[f"past_key_values.2.encoder.{part}"] == {0: "batch_size", 2: "encoder_sequence_length"}
