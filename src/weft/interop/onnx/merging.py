"""One graph of a Transformer decoder for the first call and the later ones, as optimum and transformers.js call it.

    inputs   input_ids, encoder_attention_mask, encoder_hidden_states, past_key_values.*, use_cache_branch
    outputs  logits, present.*

With ``use_cache_branch`` the past is the one given; without, there is none, and keys and values of the source are
computed from ``encoder_hidden_states``. The weights are stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import TensorProto, compose, helper

from weft.interop.onnx.graphs import BATCH

PAST, PRESENT = "past_key_values.", "present."
SWITCH = "use_cache_branch"
SOURCE_AXIS = "encoder_sequence_length_out"
"""Its own name: before the first call the past has no source tokens."""
PREFIX = "source."
EMPTY = "no_tokens"


def merge_decoder(decoder: Any, source: Any, *, fixed_width: bool = True) -> Any:
    """The graphs ``decoder_model`` and ``source_keys_values`` as one model.

    Without ``fixed_width`` the past may have any width in the first call: optimum takes hidden size / heads for it.
    """
    source = compose.add_prefix(source, PREFIX, rename_inputs=False)
    graph, names = decoder.graph, [item.name for item in decoder.graph.input if item.name.startswith(PAST)]
    for node in graph.node:
        node.input[:] = [f"used.{name}" if name in names else name for name in node.input]
    given = [helper.make_node("Identity", [name], [f"given.{name}"]) for name in names]
    choice = helper.make_node(
        "If",
        [SWITCH],
        [f"used.{name}" for name in names],
        name=SWITCH,
        then_branch=_branch("given", names, given),
        else_branch=_branch("first", names, _first_call(names, source.graph)),
    )
    copies = [
        helper.make_node("Identity", [f"used.{name}"], [name.replace(PAST, PRESENT, 1)])
        for name in names
        if ".encoder." in name
    ]
    hidden_states = next(item for item in source.graph.input if item.name == "encoder_hidden_states")
    switch = helper.make_tensor_value_info(SWITCH, TensorProto.BOOL, [1])
    inputs = {item.name: item for item in graph.input}
    plain = [item for name, item in inputs.items() if name not in names]
    past = [_past(inputs[name]) for name in names]
    outputs = _outputs(graph.output, past)
    if not fixed_width:
        for value in past:
            value.type.tensor_type.shape.dim[3].ClearField("dim_value")
    merged = helper.make_graph(
        [choice, *graph.node, *copies],
        "decoder_model_merged",
        [*plain, hidden_states, *past, switch],
        outputs,
        [*graph.initializer, *source.graph.initializer, _empty(inputs[names[0]])],
    )
    opsets = {entry.domain: entry for model in (source, decoder) for entry in model.opset_import}
    functions = [*decoder.functions, *source.functions]
    return helper.make_model(
        merged, opset_imports=list(opsets.values()), ir_version=decoder.ir_version, functions=functions
    )


def _branch(name: str, names: Sequence[str], nodes: list[Any]) -> Any:
    outputs = [helper.make_tensor_value_info(f"{name}.{past}", TensorProto.FLOAT, None) for past in names]
    return helper.make_graph(nodes, name, [], outputs)


def _first_call(names: Sequence[str], source: Any) -> list[Any]:
    """Nodes of the first call: no keys and values of the target, and those of the source from its states."""
    rows, shape, nothing = f"{EMPTY}.rows", f"{EMPTY}.shape", f"{EMPTY}.tensor"
    nodes = [
        *source.node,
        helper.make_node("Shape", ["input_ids"], [rows], start=0, end=1),
        helper.make_node("Concat", [rows, EMPTY], [shape], axis=0),
        helper.make_node("ConstantOfShape", [shape], [nothing]),
    ]
    for name in names:
        computed = nothing if ".decoder." in name else f"{PREFIX}{name.replace(PAST, PRESENT, 1)}"
        nodes.append(helper.make_node("Identity", [computed], [f"first.{name}"]))
    return nodes


def _empty(past: Any) -> Any:
    """Heads, tokens and width of keys of no tokens."""
    dims = past.type.tensor_type.shape.dim
    return helper.make_tensor(EMPTY, TensorProto.INT64, [3], [dims[1].dim_value, 0, dims[3].dim_value])


def _past(value: Any) -> Any:
    """An input of the past; the source axis gets its own name."""
    if ".encoder." in value.name:
        value.type.tensor_type.shape.dim[2].dim_param = SOURCE_AXIS
    return value


def _outputs(outputs: Sequence[Any], past: Sequence[Any]) -> list[Any]:
    """Logits, then present.* in the order of the past."""
    named = {item.name: item for item in outputs}
    for value in past:
        name = value.name.replace(PAST, PRESENT, 1)
        if name not in named:
            dims = value.type.tensor_type.shape.dim
            shape = [BATCH, dims[1].dim_value, SOURCE_AXIS, dims[3].dim_value]
            named[name] = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    order = ["logits", *(value.name.replace(PAST, PRESENT, 1) for value in past)]
    return [named[name] for name in order]
