"""The stages of a step of a recurrent decoder, in the order of `RecurrentDecoder.step`, and of a language model."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from weft.apps.serve.walk import AttentionNumbers, Stage
from weft.models.recurrent_decoder import concatenate, repeat_rows

if TYPE_CHECKING:
    from weft.attention.alignment_history import AlignmentHistory
    from weft.models.language_model import LanguageModelState, RecurrentLanguageModel
    from weft.models.recurrent import LayerState, RecurrentStack
    from weft.models.recurrent_decoder import DecoderState, Memory, RecurrentDecoder

EMBEDDING = Stage("Embedding", "x_t = E[y_{t−1}]", {}, "The row of the embedding matrix that belongs to the token.")
SCORES = "e_j = score(s, k_j);  α = softmax(e);  c = Σ_j α_j v_j"
CELLS = {
    "LSTM": "i, f, o = σ(…), g = tanh(…) of W x_t + U h_{t−1} + b;  c_t = f ⊙ c_{t−1} + i ⊙ g;  h_t = o ⊙ tanh(c_t)",
    "GRU": "r, z = σ(W x_t + U h_{t−1});  n = tanh(W x_t + r ⊙ (U h_{t−1}));  h_t = (1 − z) ⊙ n + z ⊙ h_{t−1}",
    "RNN": "h_t = tanh(W x_t + U h_{t−1} + b)",
}
GATES_HELP = {
    "LSTM": "f near 1 keeps what the cell holds, i lets new content in, o shows it to the layers above.",
    "GRU": "z near 1 keeps the old state; r near 0 forgets it when the new content is computed.",
}


def walk_decoder(
    decoder: RecurrentDecoder, embedded_RE: Tensor, state: DecoderState, memory: Memory
) -> tuple[list[Stage], Tensor]:
    """The stages of a step for one row, and ã_t."""
    stages = [EMBEDDING._replace(vectors={"x_t": embedded_RE})]
    context_RD = None
    summary_RD = repeat_rows(memory.summary_BD, 1)
    if decoder.attends_before:
        stage, context_RD = attend(decoder, state.layers[-1][0], "s_{t−1}", memory, state.history)
        stages.append(stage)
    inputs_RD = concatenate(embedded_RE, context_RD, state.attentional_BD, summary_RD)
    read = {"x_t": embedded_RE, "c_t": context_RD, "ã_{t−1}": state.attentional_BD, "c": summary_RD}
    parts = {symbol: part for symbol, part in read.items() if part is not None}
    if len(parts) > 1:
        equation = f"[{'; '.join(parts)}]"
        stages.append(Stage("Input of the recurrence", equation, parts, "The vectors that the first layer reads."))
    output_RD, of_layers = walk_stack(decoder.stack, inputs_RD, state.layers)
    stages += of_layers
    if decoder.attends_after:
        stage, context_RD = attend(decoder, output_RD, "s_t", memory, state.history)
        stages.append(stage)
    read = {"c_t": context_RD, "c": summary_RD, "s_t": output_RD}
    if decoder.readout_has_embedding:
        read["y_{t−1}"] = embedded_RE
    result_RD = decoder.read(context_RD, summary_RD, output_RD, embedded_RE)
    if decoder.readout is not None:
        parts = {symbol: part for symbol, part in read.items() if part is not None}
        equation = f"ã_t = tanh(W [{'; '.join(parts)}])"
        stages.append(Stage("Readout", equation, {**parts, "ã_t": result_RD}, "The state that the output layer reads."))
    return stages, result_RD


def walk_stack(stack: RecurrentStack, inputs_RD: Tensor, state: tuple[LayerState, ...]) -> tuple[Tensor, list[Stage]]:
    """The output of the top layer, and a stage for each layer, as in `RecurrentStack.step`."""
    stages = []
    for level, before in enumerate(state):
        after, products = step_layer(stack, level, inputs_RD, before)
        stages.append(gates(stack.cell.__name__, level, inputs_RD, before, after, products))
        output_RD = stack.layer_output(level, inputs_RD, after[0])
        if output_RD is not after[0]:
            how = {"residual": "x + h", "dense": "[x; h]"}.get(stack.connections, "h")
            vectors = {"x": inputs_RD, "h_t": after[0], "out": output_RD}
            help = "Connections around the layer and its norm, where the model has them."
            stages.append(Stage(f"Layer {level + 1}: output", f"out = {how}, normalized", vectors, help))
        inputs_RD = output_RD
    return inputs_RD, stages


def step_layer(
    stack: RecurrentStack, level: int, inputs_RD: Tensor, before: LayerState
) -> tuple[LayerState, tuple[Tensor, Tensor]]:
    """The state of a layer after the step, and the products that it computes: W x_t + b and U h_{t−1} + b′."""
    products: list[tuple[Tensor, Tensor]] = []

    def step(input_RG: Tensor, state_RG: Tensor, state: LayerState) -> LayerState:
        products.append((input_RG, state_RG))
        return stack.cell.step(input_RG, state_RG, state)

    recording: Any = copy.copy(stack)  # shares all weights
    recording.cell = SimpleNamespace(step=step)
    after: LayerState = recording.step_layer(level, inputs_RD, before)
    return after, products[0]


def gates(
    cell: str, level: int, inputs_RD: Tensor, before: LayerState, after: LayerState, products: tuple[Tensor, Tensor]
) -> Stage:
    """The gates of a layer, and its states before and after."""
    of_input, of_state = products
    vectors: dict[str, Tensor] = {"x_t": inputs_RD, "h_{t−1}": before[0]}
    if cell == "LSTM":
        i_RD, f_RD, g_RD, o_RD = (of_input + of_state).chunk(4, -1)
        vectors |= {"i": i_RD.sigmoid(), "f": f_RD.sigmoid(), "g": g_RD.tanh(), "o": o_RD.sigmoid()}
        vectors |= {"c_{t−1}": before[1], "c_t": after[1]}
    elif cell == "GRU":
        (reset_x, update_x, new_x), (reset_h, update_h, new_h) = of_input.chunk(3, -1), of_state.chunk(3, -1)
        reset_RD = (reset_x + reset_h).sigmoid()
        new_RD = (new_x + reset_RD * new_h).tanh()
        vectors |= {"r": reset_RD, "z": (update_x + update_h).sigmoid(), "n": new_RD}
    equation = CELLS.get(cell, "h_t = f(x_t, h_{t−1})")
    return Stage(f"Layer {level + 1}: {cell}", equation, {**vectors, "h_t": after[0]}, GATES_HELP.get(cell, ""))


def attend(
    decoder: RecurrentDecoder, query_RD: Tensor, symbol: str, memory: Memory, history: AlignmentHistory | None
) -> tuple[Stage, Tensor]:
    """The attention to the source, and its context."""
    context_RD, weights_RS = decoder.attend(query_RD, memory, history)
    keys: Any = memory.keys
    columns = getattr(keys, "columns", None)  # of a source of several columns, each attended to separately
    own = keys if columns is None else columns[0]
    attention: Any = decoder.attention
    scores = None
    if columns is None:
        extra = () if attention.features is None else (features_of(attention, keys, history),)
        scores = attention.score(query_RD[:, None], keys.keys_BSD, *extra)[0, 0]
    numbers = AttentionNumbers(
        query_RD[0], own.keys_BSD[0], own.values_BSD[0], scores, weights_RS[0], context_RD[0], "source"
    )
    help = "The decoder's state is compared with every state of the source; the context is their weighted mean."
    return Stage("Attention to the source", SCORES.replace("s,", f"{symbol},"), {}, help, numbers), context_RD


def features_of(attention: Any, keys: Any, history: AlignmentHistory | None) -> Tensor:
    """The features of earlier weights that are added to the scores."""
    features: Tensor = attention.features(history, rows=1, fertility_BS=keys.fertility_BS)
    return features


def walk_language_model(
    model: RecurrentLanguageModel, embedded_RE: Tensor, state: LanguageModelState
) -> tuple[list[Stage], Tensor]:
    """The stages of a step of a recurrent language model for one row, and the state that its output layer reads."""
    output_RD, of_layers = walk_stack(model.stack, embedded_RE, state.layers)
    stages = [EMBEDDING._replace(vectors={"x_t": embedded_RE}), *of_layers]
    context_RD = None
    if model.attention is not None and state.history_RTD is not None:
        keys = model.attention.project_padded(state.history_RTD)
        context_R1D, weights_R1T = model.attention(output_RD[:, None], keys)
        scores = model.attention.score(output_RD[:, None], keys.keys_BSD)[0, 0]
        context_RD = context_R1D[:, 0]
        numbers = AttentionNumbers(
            output_RD[0], keys.keys_BSD[0], keys.values_BSD[0], scores, weights_R1T[0, 0], context_RD[0], "zero"
        )
        help = "The state is compared with all states before it."
        stages.append(Stage("Attention to the states before", SCORES.replace("s,", "s_t,"), {}, help, numbers))
    result_RD = model.readout_states(output_RD, context_RD)
    if model.readout is not None:
        parts = {"s_t": output_RD} if context_RD is None else {"c_t": context_RD, "s_t": output_RD}
        stages.append(Stage("Readout", f"ã_t = tanh(W [{'; '.join(parts)}])", {**parts, "ã_t": result_RD}))
    return stages, result_RD
