"""The merged decoder: where its past comes from in the first call and in later ones."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

from weft.interop.onnx.merging import merge_decoder  # noqa: E402

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
ROWS, HEADS, WIDTH = 2, 3, 5


def model(graph: object) -> object:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def value(name: str, kind: int, *shape: str | int) -> object:
    return helper.make_tensor_value_info(name, kind, shape)


def cache(prefix: str, *sides: str) -> list[str]:
    return [f"{prefix}.0.{side}.{part}" for side in sides for part in ("key", "value")]


def decoder() -> object:
    """Appends a token of ones to keys and values of the target; the logits are how many source tokens there are."""
    inputs = [value("input_ids", INT, "b", "t"), value("encoder_attention_mask", INT, "b", "s")]
    inputs += [value(name, FLOAT, "b", HEADS, "p", WIDTH) for name in cache("past_key_values", "decoder", "encoder")]
    nodes = [
        helper.make_node("Concat", [f"past_key_values.0.decoder.{part}", "one"], [f"present.0.decoder.{part}"], axis=2)
        for part in ("key", "value")
    ]
    nodes.append(helper.make_node("Shape", ["past_key_values.0.encoder.key"], ["logits"]))
    outputs = [
        value("logits", INT, 4),
        *(value(name, FLOAT, "b", HEADS, "l", WIDTH) for name in cache("present", "decoder")),
    ]
    ones = helper.make_tensor("one", FLOAT, [ROWS, HEADS, 1, WIDTH], np.ones(ROWS * HEADS * WIDTH))
    return model(helper.make_graph(nodes, "step", inputs, outputs, [ones]))


def source() -> object:
    """The states times 2 are the keys, times 3 the values."""
    factors = [helper.make_tensor(name, FLOAT, [1], [factor]) for name, factor in (("one", 2.0), ("two", 3.0))]
    names = cache("present", "encoder")
    nodes = [
        helper.make_node("Mul", ["encoder_hidden_states", factor], [name])
        for factor, name in zip(("one", "two"), names, strict=True)
    ]
    outputs = [value(name, FLOAT, "b", HEADS, "s", WIDTH) for name in names]
    inputs = [value("encoder_hidden_states", FLOAT, "b", HEADS, "s", WIDTH)]
    return model(helper.make_graph(nodes, "source", inputs, outputs, factors))


@pytest.mark.parametrize("dummy", [0, 1], ids=["an empty past", "a past of zeros"])
def test_first_and_later_calls(dummy: int) -> None:
    """transformers.js gives an empty past to the first call, older versions of optimum one of zeros."""
    merged = merge_decoder(decoder(), source())
    onnx.checker.check_model(merged)
    session = onnxruntime.InferenceSession(merged.SerializeToString())
    names = [tensor.name for tensor in session.get_inputs()]
    past_names = cache("past_key_values", "decoder", "encoder")
    plain = ["input_ids", "encoder_attention_mask", "encoder_hidden_states"]
    assert names == [*plain, *past_names, "use_cache_branch"]
    outputs = [tensor.name for tensor in session.get_outputs()]
    assert outputs == ["logits", *cache("present", "decoder", "encoder")]
    states = np.arange(ROWS * HEADS * 4 * WIDTH, dtype=np.float32).reshape(ROWS, HEADS, 4, WIDTH)
    fixed = {
        "input_ids": np.ones((ROWS, 1), np.int64),
        "encoder_attention_mask": np.ones((ROWS, 4), np.int64),
        "encoder_hidden_states": states,
    }
    past = {name: np.zeros((ROWS, HEADS, dummy, WIDTH), np.float32) for name in past_names}
    for time in (1, 2, 3):
        switch = {"use_cache_branch": np.array([time > 1])}
        found = dict(zip(outputs, session.run(None, {**fixed, **past, **switch}), strict=True))
        assert found["logits"].tolist() == [ROWS, HEADS, 4, WIDTH]
        assert found["present.0.decoder.key"].shape == (ROWS, HEADS, time, WIDTH)
        np.testing.assert_array_equal(found["present.0.encoder.key"], 2 * states)
        np.testing.assert_array_equal(found["present.0.encoder.value"], 3 * states)
        past = {name.replace("present", "past_key_values", 1): found[name] for name in outputs[1:]}


def test_a_past_of_another_width() -> None:
    """optimum takes hidden size / heads for the width of a head; the past is not read in the first call."""
    merged = merge_decoder(decoder(), source(), fixed_width=False)
    onnx.checker.check_model(merged)
    session = onnxruntime.InferenceSession(merged.SerializeToString())
    names = cache("past_key_values", "decoder", "encoder")
    inputs = {name: np.zeros((ROWS, HEADS, 1, WIDTH + 1), np.float32) for name in names}
    inputs["input_ids"] = np.ones((ROWS, 1), np.int64)
    inputs["encoder_attention_mask"] = np.ones((ROWS, 4), np.int64)
    inputs["encoder_hidden_states"] = np.ones((ROWS, HEADS, 4, WIDTH), np.float32)
    (keys,) = session.run(["present.0.decoder.key"], {**inputs, "use_cache_branch": np.array([False])})
    assert keys.shape == (ROWS, HEADS, 1, WIDTH)
