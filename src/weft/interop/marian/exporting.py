"""From a run to a model of Marian: model.npz, its vocabularies and decoder.yml.

Marian has </s> as its first token, <unk> as its second, and no begin token: its decoder reads a vector of zeros first.
So a run can be exported if its begin token is a row of zeros: models that were imported from Marian or OPUS-MT, and
trained further at most by adapters or with frozen embeddings.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import weft
from weft.errors import RecipeError, SearchError
from weft.files import replacing, save_bytes, save_text
from weft.interop.export_folder import check_replaceable, write_export
from weft.interop.marian import exported_weights
from weft.interop.marian.conversion import ACTIVATIONS, NORMS
from weft.interop.marian.files import MAX_LENGTH_FACTOR
from weft.interop.marian.weights import OPTIONS
from weft.models.seq2seq import Seq2Seq
from weft.recipe import ModelSettings, SearchSettings, TransformerSettings
from weft.runs.load import LoadedRun
from weft.runs.weights import hash_tensors, model_tensors
from weft.text.external_engines import PieceEngine, TokenizersEngine
from weft.text.imported import ImportedTokenizer
from weft.text.specials import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor

    from weft.text.tokenizer import Tokenizers

EPSILON, LARGEST_EPSILON = 1e-6, 1e-5
"""The ε of Marian's norms, which is not configurable, and the largest that is exported: that of Hugging Face."""
VOCABULARY = ("source_embedding.weight_VE", "target_embedding.weight_VE", "output.weight_VD", "output.bias_V")
"""Tensors with a row for each token."""
SHARED = (
    "hidden",
    "heads",
    "activation",
    "norm",
    "norm_placement",
    "norm_epsilon",
    "embedding_norm",
    "scale_embedding",
)
"""Settings that are one option for both sides."""


def export_marian(run: LoadedRun, folder: Path, *, quantization: str = "float32") -> Path:
    """Write the folder; an earlier export in it is replaced."""
    if quantization != "float32":
        raise SearchError(
            f"--quantization {quantization}: not for marian; export float32, and quantize it with marian-conv"
        )
    check_replaceable(folder, "marian")
    name, settings = run.recipe.name, run.recipe.model
    reason = unsupported(settings, run.recipe.training.loss) or _unsupported_run(run)
    if reason is not None:
        raise RecipeError(f"{name}: {reason}")
    tensors = _renumbered(model_tensors(run.model), run.tokenizers)
    arrays = exported_weights.arrays(settings, tensors)

    def fill(temporary: Path) -> dict[str, Any]:
        import numpy as np

        vocabularies = save_vocabularies(temporary, run.tokenizers)
        sizes = [len(_names(tokenizer)) for tokenizer in run.tokenizers]
        options = _yaml(_options(settings, sizes, arrays.get("Wpos"))).encode() + b"\0"
        content = io.BytesIO()
        entries: dict[str, Any] = {**arrays, OPTIONS: np.frombuffer(options, dtype=np.int8)}
        np.savez(content, **entries)
        with replacing(temporary / "model.npz") as file:
            file.write(content.getbuffer())
        decoder = {"relative-paths": True, "models": ["model.npz"], "vocabs": vocabularies}
        save_text(temporary / "decoder.yml", _yaml({**decoder, **_decoding(run.recipe.search)}))
        return {"norm_epsilon": EPSILON, "weights": hash_tensors(model_tensors(run.model))}

    return write_export(folder, "marian", fill)


def unsupported(settings: ModelSettings, loss: str) -> str | None:
    """The reason why Marian has no such model, in one line that names the setting; None if it has."""
    if loss != "cross_entropy":
        return f"training.loss: Marian has no output layer for {loss!r}; only for 'cross_entropy'"
    if settings.kind != "seq2seq" or settings.sources.count > 1 or settings.copies:
        return "model.kind, model.sources, model.copy: Marian gets only encoder-decoders of one source, without copying"
    if settings.attention.normalizer != "softmax":
        return f"model.attention.normalizer: {settings.attention.normalizer!r} is not known to Marian"
    for side, stack in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        if not isinstance(stack, TransformerSettings) or stack.kind != "transformer":
            return f"model.{side}.kind: {stack.kind!r} is not exported to Marian; 'transformer' is"
        if reason := _unsupported_stack(f"model.{side}", stack, settings.embedding):
            return reason
    for name in SHARED:
        first, second = getattr(settings.encoder, name), getattr(settings.decoder, name)
        if first != second:
            return f"model.encoder.{name}: {first!r} is not that of the decoder, {second!r}; Marian has one for both"
    return None


def _unsupported_stack(where: str, stack: TransformerSettings, embedding: int) -> str | None:
    if stack.positions not in ("sinusoidal", "learned"):
        return f"{where}.positions: {stack.positions!r} are not known to Marian; it has 'sinusoidal' and 'learned'"
    if stack.activation not in ACTIVATIONS.values():
        known = ", ".join(ACTIVATIONS.values())
        return f"{where}.activation: {stack.activation!r} is not known to Marian; it has {known}"
    if stack.kv_heads != stack.heads or stack.head_width * stack.heads != stack.hidden:
        return f"{where}.key_value_heads, {where}.head_size: Marian has keys in all heads, of hidden / heads dimensions"
    if embedding != stack.hidden:
        return f"model.embedding: {embedding} is not {where}.hidden, {stack.hidden}, as in Marian"
    if not EPSILON <= stack.norm_epsilon <= LARGEST_EPSILON:
        return f"{where}.norm_epsilon: {stack.norm_epsilon:g}; Marian has {EPSILON:g}, which would be another model"
    return None


def _unsupported_run(run: LoadedRun) -> str | None:
    if not isinstance(run.model, Seq2Seq):
        return "an ensemble is not a single model; export its runs one at a time"
    if run.tokenizers.frame.start != (BEGIN,):
        return "its outputs start with other tokens than those of Marian, whose decoder reads zeros first"
    for side, tokenizer in zip(("source", "target"), run.tokenizers, strict=True):
        if not isinstance(tokenizer, ImportedTokenizer):
            return (
                f"a {side} tokenizer of kind {tokenizer.kind!r} is not one of Marian; only imported ones are exported"
            )
        unknown, begin, end = tokenizer.vocabulary.special
        if (end, unknown, begin) != (0, 1, tokenizer.size - 1):
            return f"its {side} vocabulary does not begin with </s> and <unk>, as those of Marian do"
    if run.model.target_embedding.weight_VE[BEGIN].any():
        return (
            "the embedding of its begin token is not zero, and the decoder of Marian reads zeros first; a model of "
            "Marian stays one if it is trained with adapters or frozen embeddings"
        )
    tensors = model_tensors(run.model)
    if not exported_weights.same_positions(run.recipe.model, tensors):
        return "model.decoder.positions: not those of the encoder; in Marian both have the same"
    return None


def _renumbered(tensors: Mapping[str, Tensor], tokenizers: Tokenizers) -> dict[str, Tensor]:
    """The rows of vocabularies in the order of Marian, without the begin token, which is the last one."""
    renumbered = dict(tensors)
    for name in VOCABULARY:
        if name in tensors:
            tokenizer = tokenizers.source if name.startswith("source") else tokenizers.target
            assert isinstance(tokenizer, ImportedTokenizer)
            rows = torch.empty_like(tensors[name])
            rows[torch.tensor(tokenizer.external_ids)] = tensors[name]
            renumbered[name] = rows[:-1]
    return renumbered


def _names(tokenizer: Any) -> list[str]:
    """The tokens by the ids of Marian."""
    engine = tokenizer.engine
    if isinstance(engine, PieceEngine):
        return list(engine.table.names[:-1])
    assert isinstance(engine, TokenizersEngine)
    names = {id: name for name, id in engine.names().items()}
    return [names.get(id, f"<row {id}>") for id in range(tokenizer.size - 1)]


def save_vocabularies(folder: Path, tokenizers: Tokenizers) -> list[str]:
    """Write .spm files where ids are SentencePiece's own, else .yml files; returns their names, source first."""
    joint = tokenizers.joint or _content(tokenizers.source) == _content(tokenizers.target)
    stems = {"vocab": tokenizers.source}
    if not joint:
        stems = {"vocab.src": tokenizers.source, "vocab.trg": tokenizers.target}
    names = [_save_vocabulary(folder, stem, tokenizer) for stem, tokenizer in stems.items()]
    for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
        pieces = _pieces(tokenizer)
        if pieces is not None and names[0].endswith(".yml"):  # beside the vocabularies, as OPUS-MT has them
            save_bytes(folder / f"{side}.spm", pieces)
    return [names[0], names[-1]]


def _save_vocabulary(folder: Path, stem: str, tokenizer: Any) -> str:
    pieces = _pieces(tokenizer)
    if pieces is not None and _has_own_ids(tokenizer, pieces):
        save_bytes(folder / f"{stem}.spm", pieces)
        return f"{stem}.spm"
    save_text(folder / f"{stem}.yml", _yaml({name: id for id, name in enumerate(_names(tokenizer))}))
    return f"{stem}.yml"


def _pieces(tokenizer: Any) -> bytes | None:
    return tokenizer.engine.model if isinstance(tokenizer.engine, PieceEngine) else None


def _content(tokenizer: Any) -> tuple[list[str], bytes | None]:
    """The token names of the exported vocabulary, and its SentencePiece model if it has one."""
    pieces = _pieces(tokenizer)
    return _names(tokenizer), pieces if pieces is not None and _has_own_ids(tokenizer, pieces) else None


def _has_own_ids(tokenizer: Any, pieces: bytes) -> bool:
    from weft.interop.huggingface.vocabularies import pieces_of

    own = pieces_of(pieces, name="vocab.spm")
    return _names(tokenizer)[: len(own)] == list(own) and len(own) == tokenizer.size - 1


def _options(settings: ModelSettings, sizes: list[int], positions: Any) -> dict[str, Any]:
    """special:model.yml."""
    encoder, decoder = settings.encoder, settings.decoder
    assert isinstance(encoder, TransformerSettings) and isinstance(decoder, TransformerSettings)
    norm = next(letter for letter, name in NORMS.items() if name == decoder.norm)
    pre = decoder.norm_placement == "pre"
    tied, inputs = exported_weights.output_is_tied(settings), settings.tie in ("all", "inputs")
    options = {
        "type": "transformer",
        "dim-vocabs": sizes,
        "dim-emb": settings.embedding,
        "enc-depth": encoder.layers,
        "dec-depth": decoder.layers,
        "transformer-heads": decoder.heads,
        "transformer-dim-ffn": encoder.feed_forward,
        "transformer-decoder-dim-ffn": decoder.feed_forward if decoder.feed_forward != encoder.feed_forward else 0,
        "transformer-ffn-depth": 2,
        "transformer-decoder-ffn-depth": 0,
        "transformer-ffn-activation": next(own for own, name in ACTIVATIONS.items() if name == decoder.activation),
        "transformer-preprocess": norm if pre else "",
        "transformer-postprocess": "da" if pre else f"da{norm}",
        "transformer-postprocess-top": norm if pre else "",
        "transformer-postprocess-emb": f"{norm}d" if decoder.embedding_norm else "d",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-no-projection": False,
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": positions is not None,
        "tied-embeddings-all": tied and inputs,
        "tied-embeddings-src": inputs and not tied,
        "tied-embeddings": tied and not inputs,
        "transformer-dropout": settings.dropout,
        "transformer-dropout-attention": decoder.attention_dropout,
        "transformer-dropout-ffn": decoder.activation_dropout,
        "skip": False,
        "lemma-dim-emb": 0,
        "version": f"weft {weft.__version__}",
    }
    return options if positions is None else {**options, "max-length": len(positions)}


def _decoding(search: SearchSettings) -> dict[str, Any]:
    """decoder.yml: the inverse of decoding.py."""
    return {
        "beam-size": search.size if search.kind == "beam" else 1,
        "normalize": 0.0 if search.normalization == "none" else search.length_penalty,
        "word-penalty": 0.0,
        "max-length-factor": search.max_ratio or MAX_LENGTH_FACTOR,
        "allow-unk": [UNKNOWN] not in search.banned_ids,
    }


def _yaml(content: Mapping[str, Any]) -> str:
    try:
        import yaml
    except ImportError:
        raise SearchError("Marian's files need a package: pip install 'weft-seq2seq[marian]'") from None
    return str(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True))
