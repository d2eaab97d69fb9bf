"""Settings and weights of a Transformer of Marian (marian-dev, src/models/transformer.h).

    x = √d E[y] + PE(position),  PE(p, i) = sin(p / 10000^{i/(h−1)}), PE(p, h+i) = cos(…),  h = d/2
        or, with trained positions, E[y] + Wpos[p]
    post-norm ("dan")   x ← LN(x + f(x))
    pre-norm ("n", "da", and "n" on top)   x ← x + f(LN(x)), then a last LN
    LN divides by √(σ² + 1e-6)

The decoder reads a zero vector first: the row of the begin token, which is added here, is zero, and its bias makes it
impossible as an output. Hugging Face's classes have other sinusoids, 10000^{2i/d}, and ε = 1e-5 for the same weights;
``numerics`` says which are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from weft.interop.imported_run import Conversion
from weft.interop.layer_names import LayerNames, StackReader
from weft.interop.marian.weights import MarianWeights

if TYPE_CHECKING:
    from torch import Tensor

ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu"}
NORMS = {"n": "layer", "r": "rms"}
BARRED = -100.0
"""The bias of the begin token, which Marian does not have: e⁻¹⁰⁰ adds nothing to a sum of probabilities."""
NUMERICS = {"marian": ("tensor2tensor", 1e-6), "huggingface": ("halves", 1e-5)}
"""The layout of sinusoids, and ε."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-pool": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
    "bert-train-type-embeddings": (False, True),
}
"""Options that would change the model, and the values at which they do not."""
NAMES = LayerNames(
    self_attention="_self_{}",
    self_attention_norm="_self_Wo",
    cross_attention="_context_{}",
    cross_attention_norm="_context_Wo",
    projections=("q", "k", "v", "o"),
    feed_forward=("_ffn_{}1", "_ffn_{}2"),
    feed_forward_norm="_ffn_ffn",
)
"""Names of a linear map have a placeholder: W for its matrix, b for its bias."""


def convert(weights: MarianWeights, *, numerics: str = "marian", guided_alignment: bool = False) -> Conversion:
    """``numerics``: see `NUMERICS`; ``guided_alignment``: whether it was trained to align words."""
    options = weights.options
    if "type" not in options.values:
        raise options.error("type", "is missing; is it a model of Marian?")
    for name, values in NEUTRAL.items():
        if options.values.get(name, values[0]) not in values:
            raise options.error(
                name, f"{options.values[name]!r} is not imported; weft imports {name}: {_shown(values[0])}"
            )
    width = options.whole("dim-emb")
    if width % 2:
        raise options.error("dim-emb", f"{width} is odd; expected an even number")
    tie, tensors, rows = _embeddings(weights, width)
    model: dict[str, Any] = {"embedding": width, "tie": tie, "dropout": options.share("transformer-dropout", 0.1)}
    for side in ("encoder", "decoder"):
        stack = _Stack(side, weights, numerics)
        model[side] = stack.settings()
        tensors |= {f"{side}.stack.{name}": tensor for name, tensor in stack.tensors().items()}
    weights.check_all_taken()
    model["decoder"]["alignment_heads"] = _alignment_heads(weights, model["decoder"]["layers"], guided_alignment)
    return Conversion(model, tensors, rows)


def _alignment_heads(weights: MarianWeights, layers: int, guided: bool) -> list[list[int]]:
    """The head that guided alignment trains: the first of the last layer, or of one that is chosen, from 1 on."""
    options, name = weights.options, "transformer-guided-alignment-layer"
    layer = options.values.get(name, "last")
    if layer == "last":
        return [[layers - 1, 0]] if guided else []
    if not str(layer).isdecimal() or not 1 <= int(layer) <= layers:
        raise options.error(name, f"{layer!r} is not a layer of the decoder, which has {layers}")
    return [[int(layer) - 1, 0]]


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _embeddings(weights: MarianWeights, width: int) -> tuple[str, dict[str, Tensor], tuple[int, int]]:
    """model.tie, the matrices of both vocabularies with a row more, and their sizes."""
    shared = "Wemb" in weights
    source_name, target_name = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    rows = weights.rows(source_name), weights.rows(target_name)
    tensors = {"source_embedding.weight_VE": _with_begin(weights.take(source_name, rows[0], width))}
    if not shared:
        tensors["target_embedding.weight_VE"] = _with_begin(weights.take(target_name, rows[1], width))
    output = "decoder_ff_logit_out"
    tied = False
    if f"{output}_Wt" in weights:
        tensors["output.weight_VD"] = _with_begin(weights.take(f"{output}_Wt", rows[1], width))
    elif f"{output}_W" in weights:
        tensors["output.weight_VD"] = _with_begin(weights.take_matrix(f"{output}_W", width, rows[1]))
    else:
        tied = True
    bias = f"{output}_b"
    bias_V = weights.take_vector(bias, rows[1]) if bias in weights else torch.zeros(rows[1])
    tensors["output.bias_V"] = torch.cat([bias_V, torch.tensor([BARRED])])
    tie = {(True, True): "all", (True, False): "inputs", (False, True): "target", (False, False): "none"}
    return tie[shared, tied], tensors, (rows[0] + 1, rows[1] + 1)


def _with_begin(matrix_VE: Tensor) -> Tensor:
    """The matrix with a row of zeros added at the end, for the begin token."""
    return torch.cat([matrix_VE, matrix_VE.new_zeros(1, matrix_VE.shape[1])])


class _Stack(StackReader):
    """The encoder or the decoder."""

    def __init__(self, side: str, weights: MarianWeights, numerics: str) -> None:
        self.side, self.weights = side, weights
        options = weights.options
        self.width = options.whole("dim-emb")
        self.layers = options.whole("enc-depth" if side == "encoder" else "dec-depth")
        self.inner = options.whole("transformer-dim-ffn", 2048)
        if side == "decoder":
            self.inner = options.whole("transformer-decoder-dim-ffn", 0, least=0) or self.inner
        self.sinusoids, self.epsilon = NUMERICS[numerics]
        self.norm_letter, self.pre = self._norms()
        self.embedding_norm = self.norm_letter in str(options.values.get("transformer-postprocess-emb", "d"))
        super().__init__(side, self.settings(), NAMES)

    def _norms(self) -> tuple[str, bool]:
        """The letter of the norms in the options, and whether they come before the sub-layers."""
        options = self.weights.options
        defaults = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
        before, after, top = (
            str(options.values.get(f"transformer-{name}", default) or "").replace("d", "")
            for name, default in defaults.items()
        )
        for letter in NORMS:
            if (before, after, top) == ("", f"a{letter}", ""):
                return letter, False
            if (before, after, top) == (letter, "a", letter):
                return letter, True
        if before in NORMS and after == "a" and not top:
            raise options.error(
                "transformer-postprocess-top",
                "pre-norm without a norm on top is not imported: before version 1.10, Marian did not normalize keys "
                "and values",
            )
        raise options.error(
            "transformer-postprocess",
            f"norms at {before!r}, {after!r}, {top!r} (preprocess, postprocess, postprocess-top) are not imported; "
            "weft imports '', 'dan', '' and 'n', 'da', 'n'",
        )

    def settings(self) -> dict[str, Any]:
        """[model.encoder] or [model.decoder]."""
        options = self.weights.options
        activation = options.values.get("transformer-ffn-activation", "swish")
        if activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise options.error("transformer-ffn-activation", f"{activation!r} is not known; weft has {known}")
        positions: dict[str, Any] = {"positions": "sinusoidal", "sinusoids": self.sinusoids, "scale_embedding": True}
        if "Wpos" in self.weights:
            count = self.weights.rows("Wpos")
            positions = {"positions": "learned", "max_positions": count, "scale_embedding": False}
        return {
            "kind": "transformer",
            "layers": self.layers,
            "hidden": self.width,
            "heads": options.whole("transformer-heads", 8),
            "feed_forward": self.inner,
            "activation": ACTIVATIONS[activation],
            "norm": NORMS[self.norm_letter],
            "norm_epsilon": self.epsilon,
            "norm_placement": "pre" if self.pre else "post",
            "embedding_norm": self.embedding_norm,
            "attention_dropout": options.share("transformer-dropout-attention", 0.0),
            "activation_dropout": options.share("transformer-dropout-ffn", 0.0),
            **positions,
        }

    def tensors(self) -> dict[str, Tensor]:
        """Tensors by the names of a `TransformerStack`."""
        tensors: dict[str, Tensor] = {}
        if "Wpos" in self.weights:
            tensors["positions.weight_PD"] = self.weights.take("Wpos", self.weights.rows("Wpos"), self.width)
        if self.embedding_norm:
            norm = self._norm(f"{self.side}_emb", "_pre")
            tensors |= {f"embedding_norm.{part}": tensor for part, tensor in norm.items()}
        layers = [f"{self.side}_l{number}" for number in self._layer_numbers()]
        return tensors | self.read(layers, f"{self.side}_top")

    def _layer_numbers(self) -> list[int]:
        """The number in the file of every layer; layers of a decoder may be the same one."""
        tied = self.weights.options.values.get("transformer-tied-layers") or []
        if self.side == "encoder" or not tied:
            return list(range(1, self.layers + 1))
        if not isinstance(tied, list) or len(tied) != self.layers or not all(isinstance(one, int) for one in tied):
            raise self.weights.options.error("transformer-tied-layers", f"expected {self.layers} numbers of layers")
        return tied

    def linear(self, name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        weight = self.weights.take_matrix(name.format("W"), inputs, outputs)
        return {"weight": weight, "bias": self.weights.take_vector(name.format("b"), outputs)}

    def norm(self, name: str) -> dict[str, Tensor]:
        return self._norm(name, "_pre" if self.pre and name != f"{self.side}_top" else "")

    def _norm(self, name: str, suffix: str) -> dict[str, Tensor]:
        parts = {"weight": "rms_scale"} if self.norm_letter == "r" else {"weight": "ln_scale", "bias": "ln_bias"}
        return {
            part: self.weights.take_vector(f"{name}_{original}{suffix}", self.width) for part, original in parts.items()
        }
