"""The six models: what was new in each, its equations, and its settings at a size for two cores.

In equations, ``_{…}`` is a subscript and ``^{…}`` a superscript.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class HistoricalModel(NamedTuple):
    """A model, with the paper that introduced it."""

    key: str
    name: str
    paper: str
    news: str
    """The innovation, in a paragraph."""
    equations: tuple[str, ...]
    settings: dict[str, Any]
    """[model] of a recipe."""
    learning_rate: float = 0.02

    @property
    def attends(self) -> bool:
        return bool(self.settings.get("attention", {}).get("score") != "none")


def _layer(kind: str, hidden: int, **options: Any) -> dict[str, Any]:
    return {"kind": kind, "hidden": hidden, **options}


def _stack(**options: Any) -> dict[str, Any]:
    stack = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 128}
    return stack | {"attention_dropout": 0.1} | options


_PUBLISHED = _stack(norm_placement="post")
_TODAY = _stack(norm="rms", activation="swiglu", positions="rotary", key_value_heads=2)
_NO_ATTENTION = {"score": "none"}

MODELS = (
    HistoricalModel(
        key="sutskever2014",
        name="Sutskever 2014",
        paper="Sutskever, Vinyals and Le 2014, Sequence to sequence learning with neural networks",
        news="One network reads the source, another writes the target, and both are trained together to maximize the "
        "probability of the translation. All that the decoder knows of the source is the last state of the encoder, "
        "one vector. The source is read backward, so that its first words are close to the first words of the target. "
        "(The paper stacks four layers. Here it is one, which is all that a thousand updates can train.)",
        equations=(
            "h_{j} = LSTM(x_{j}, h_{j−1}),   v = h_{n}",
            "s_{0} = v,   s_{t} = LSTM(y_{t−1}, s_{t−1})",
            "p(y | x) = Π_{t} softmax(W s_{t})[y_{t}]",
        ),
        settings={
            "bridge": "copy",
            "encoder": _layer("lstm", 128, bidirectional=False, reverse_source=True),
            "decoder": _layer("lstm", 128),
            "attention": _NO_ATTENTION,
        },
    ),
    HistoricalModel(
        key="cho2014",
        name="Cho 2014",
        paper="Cho et al. 2014, Learning phrase representations using RNN encoder–decoder for statistical machine "
        "translation",
        news="A simpler cell, the gated recurrent unit: an update gate z decides how much of the old state is kept, a "
        "reset gate r how much of it is seen. The summary c of the source is no longer only the first state of the "
        "decoder; it is an input of every step, so that it need not be remembered. It is still one vector.",
        equations=(
            "z = σ(W_{z} x_{j} + U_{z} h_{j−1}),   r = σ(W_{r} x_{j} + U_{r} h_{j−1})",
            "h_{j} = z ⊙ h_{j−1} + (1 − z) ⊙ tanh(W x_{j} + U (r ⊙ h_{j−1}))",
            "s_{t} = GRU([y_{t−1}; c], s_{t−1}),   c = h_{n}",
        ),
        settings={
            "bridge": "project",
            "encoder": _layer("gru", 128, bidirectional=False),
            "decoder": _layer("gru", 128, feed_summary=True),
            "attention": _NO_ATTENTION,
        },
    ),
    HistoricalModel(
        key="bahdanau2015",
        name="Bahdanau 2015",
        paper="Bahdanau, Cho and Bengio 2015, Neural machine translation by jointly learning to align and translate",
        news="The decoder looks back. At every step it compares its state with each state of the encoder, and reads "
        "their weighted mean: a new summary c for every word. The encoder reads in both directions, so that each state "
        "knows its context. Which source word belongs to which target word is learned on the way.",
        equations=(
            "e_{tj} = v^{T} tanh(W s_{t−1} + U h_{j})",
            "α_{tj} = exp(e_{tj}) / Σ_{k} exp(e_{tk}),   c_{t} = Σ_{j} α_{tj} h_{j}",
            "s_{t} = GRU([y_{t−1}; c_{t}], s_{t−1})",
        ),
        settings={
            "bridge": "project",
            "encoder": _layer("gru", 96),
            "decoder": _layer("gru", 96),
            "attention": {"score": "additive", "placement": "before"},
        },
    ),
    HistoricalModel(
        key="luong2015",
        name="Luong 2015",
        paper="Luong, Pham and Manning 2015, Effective approaches to attention-based neural machine translation",
        news="A simpler order: first the recurrent step, then attention with the new state, then the output. A dot "
        "product is enough as a score. Input feeding passes the attentional vector on to the next step, so that the "
        "decoder knows where it has looked. (The paper stacks four layers that read forward only; here it is one that "
        "reads in both directions: what a word is aligned to depends on what follows it.)",
        equations=(
            "s_{t} = LSTM([y_{t−1}; s̃_{t−1}], s_{t−1})",
            "α_{tj} = softmax_{j}(s_{t} · h_{j}),   c_{t} = Σ_{j} α_{tj} h_{j}",
            "s̃_{t} = tanh(W [c_{t}; s_{t}]),   p(y_{t}) = softmax(V s̃_{t})",
        ),
        settings={
            "encoder": _layer("lstm", 96),
            "decoder": _layer("lstm", 96, input_feeding=True),
            "attention": {"score": "dot"},
        },
    ),
    HistoricalModel(
        key="transformer2017",
        name="Transformer 2017",
        paper="Vaswani et al. 2017, Attention is all you need",
        news="No recurrence. Words exchange information by attention alone, all at once, so that training need not go "
        "word by word, and any two words are one step apart. Several heads look at different things; "
        "sinusoids added to the embeddings tell the order. Each sub-layer is added to its input and normalized after.",
        equations=(
            "Attention(Q, K, V) = softmax(Q K^{T} / √d) V",
            "head_{i} = Attention(Q W_{i}^{Q}, K W_{i}^{K}, V W_{i}^{V}),   MultiHead = [head_{1}; …; head_{h}] W^{O}",
            "x ← LayerNorm(x + MultiHead(x)),   x ← LayerNorm(x + W_{2} max(0, W_{1} x + b_{1}) + b_{2})",
        ),
        settings={"tie": "target", "encoder": _PUBLISHED, "decoder": _PUBLISHED},
        learning_rate=0.006,
    ),
    HistoricalModel(
        key="today",
        name="Today's parts",
        paper="Zhang and Sennrich 2019 (RMSNorm); Shazeer 2020 (SwiGLU); Su et al. 2021 (rotary positions); Ainslie et "
        "al. 2023 (grouped-query heads)",
        news="The same Transformer with the parts of current language models. Normalization precedes each sub-layer "
        "and only rescales; a gate makes the feed-forward network multiplicative; queries and keys are rotated by "
        "their positions, so that a score depends on their distance; and several query heads share one key-value head.",
        equations=(
            "RMSNorm(x) = g ⊙ x / √(mean(x^{2}) + ε),   x ← x + MultiHead(RMSNorm(x))",
            "SwiGLU(x) = W_{2} (SiLU(W_{1} x) ⊙ W_{3} x)",
            "q_{m} · k_{n} = (R_{m} q)^{T} (R_{n} k) = q^{T} R_{n−m} k",
        ),
        settings={"tie": "target", "encoder": _TODAY, "decoder": _TODAY},
        learning_rate=0.008,
    ),
)
KEYS = tuple(model.key for model in MODELS)
BY_KEY = {model.key: model for model in MODELS}
