"""States of a model, layer by layer, and linear probes: whether a property of a text can be read from a state.

    W = argmin_W Σ_i ‖Wᵀ x_i − y_i‖² + λ ‖W‖²       x: a state and a 1, standardized; y: +1 for the class, −1 for others
    predicted: the class with the largest (Wᵀ x)_c

A probe is fitted to one half of the texts and tested on the other. What it cannot tell, another function might; what it
can tell is there, though the model need not use it (Alain & Bengio 2017; Belinkov 2022). A probe can also learn by
heart; how well, is told by labels that are drawn at random for each word (`control_labels`; Hewitt & Liang 2019).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import SearchError

if TYPE_CHECKING:
    from torch import Tensor

    from weft.translation.translator import Translator

RIDGE = 1.0
"""λ, for inputs of variance 1."""
BATCH = 64
"""Texts whose states are computed together."""
MARKERS = "▁Ġ␣ "
"""The mark that tokenizers put at the beginning of a word."""


class LayerStates(NamedTuple):
    """States of texts."""

    tokens: list[list[str]]
    """The tokens of each text."""
    layers: dict[str, list[Tensor]]
    """By layer, from the embedding up, and for each text: a state after each of its tokens (tokens × width)."""


def layer_states(run: Translator, texts: Sequence[str]) -> LayerStates:
    """The states of every layer that reads texts: of the encoder, or of a language model."""
    from weft.models.architecture import architecture_of

    parts = architecture_of(run.model)
    is_language_model = parts.kind == "language_model"
    shape = parts.decoder if is_language_model else parts.encoder
    if parts.kind not in ("seq2seq", "hard_attention", "language_model") or shape is None or parts.edited:
        raise SearchError(f"{run.recipe.name}: expected an encoder of one source column, or a language model")
    tokenizer = run.tokenizers.target if is_language_model else run.tokenizers.source
    ids = tokenizer.encode_batch(texts)
    names = ["embedding", *(f"layer {level + 1}" for level in range(shape.layers))]
    layers: dict[str, list[Tensor]] = {name: [] for name in names}
    for start in range(0, len(texts), BATCH):
        recorded = _recorded(run.model, shape, parts.source_embedding, ids[start : start + BATCH])
        for name, states in zip(names, recorded, strict=True):
            layers[name] += states
    return LayerStates([tokenizer.tokens(row) for row in ids], layers)


def _recorded(model: Any, shape: Any, embedding: Any, ids: list[list[int]]) -> list[list[Tensor]]:
    """By layer, the states of each text: what enters the stack, and what each of its layers returns."""
    import torch

    from weft.ragged import Ragged
    from weft.runtime.replaceable import plain_only
    from weft.text.specials import BEGIN, END

    stack = model.get_submodule(shape.module)
    outputs = stack.norms if shape.family == "recurrent" else stack.layers
    values: list[Tensor] = []

    def record(_module: Any, inputs: tuple[Any, ...], output: Any = None) -> None:
        kept = inputs[0] if output is None else output
        values.append((kept.values if isinstance(kept, Ragged) else kept).float().cpu())

    device = next(model.parameters()).device
    hooks = [stack.register_forward_pre_hook(record), *(layer.register_forward_hook(record) for layer in outputs)]
    is_reversed = False
    try:
        with torch.no_grad(), plain_only():  # faster versions may order tokens otherwise, and call no layers
            if embedding is None:  # a language model: its first input is the beginning
                rows = Ragged.of([[BEGIN, *row] for row in ids], device)
                model(Ragged.of([[] for _ in ids], device), rows)
            else:
                rows = Ragged.of([[*row, END] for row in ids], device)
                encoder = model.get_submodule(shape.module.rpartition(".")[0])
                is_reversed = getattr(encoder, "reverse_source", False)
                encoder(model.get_submodule(embedding.module).ragged(rows))
    finally:
        for hook in hooks:
            hook.remove()
    texts = Ragged.of([[0] * len(row) for row in rows.split()])
    first = 1 if embedding is None else 0
    result = []
    for states in values:
        ragged = texts.like(states)
        split = (ragged.reversed() if is_reversed else ragged).split()
        result.append([part[first : first + len(row)] for part, row in zip(split, ids, strict=True)])
    return result


def word_ends(tokens: Sequence[str], text: str) -> list[int] | None:
    """The last token of each word of a text. None if the tokens do not spell it."""
    words, spelled = text.split(), ""
    ends: list[int] = []
    for position, token in enumerate(tokens):
        if len(ends) == len(words):
            break  # end tokens
        spelled += token.strip(MARKERS).removesuffix("</w>")
        if spelled == words[len(ends)]:
            ends.append(position)
            spelled = ""
    return ends if len(ends) == len(words) else None


def control_labels(words: Sequence[Hashable], classes: int, seed: int = 1) -> list[int]:
    """A label for each text, drawn at random for each distinct word: a probe can only learn it by heart."""
    random = Random(seed)
    drawn = {word: random.randrange(classes) for word in dict.fromkeys(words)}
    return [drawn[word] for word in words]


def linear_probe(states: Sequence[Tensor], labels: Sequence[int]) -> float:
    """The percentage of the second half whose label, 0, 1, …, a probe fitted to the first half tells."""
    half = len(labels) // 2
    right = fit_probe(states[:half], labels[:half]).right(states[half:], labels[half:])
    return 100 * sum(right) / len(right)


class LinearProbe(NamedTuple):
    """A fitted probe."""

    mean_D: Tensor
    spread_D: Tensor
    weights_DC: Tensor

    def right(self, states: Sequence[Tensor], labels: Sequence[int]) -> list[bool]:
        """Whether the label of each state is told."""
        predicted = (_inputs(states, self.mean_D, self.spread_D) @ self.weights_DC).argmax(1).tolist()
        return [label == guess for label, guess in zip(labels, predicted, strict=True)]


def fit_probe(states: Sequence[Tensor], labels: Sequence[int]) -> LinearProbe:
    """Fit a probe to states and their labels 0, 1, …"""
    import torch

    values_ND = torch.stack(list(states)).double()
    targets_NC = 2 * torch.nn.functional.one_hot(torch.tensor(labels)).double() - 1
    mean_D, spread_D = values_ND.mean(0), values_ND.std(0).clamp(min=1e-6)
    inputs_ND = _inputs(states, mean_D, spread_D)
    gram_DD = inputs_ND.T @ inputs_ND + RIDGE * torch.eye(inputs_ND.shape[1], dtype=torch.float64)
    return LinearProbe(mean_D, spread_D, torch.linalg.solve(gram_DD, inputs_ND.T @ targets_NC))


def _inputs(states: Sequence[Tensor], mean_D: Tensor, spread_D: Tensor) -> Tensor:
    import torch

    values_ND = (torch.stack(list(states)).double() - mean_D) / spread_D
    return torch.cat([values_ND, torch.ones(len(values_ND), 1, dtype=torch.float64)], 1)
