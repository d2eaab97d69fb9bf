"""Models of Marian against a literal reading of its formulas."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fixtures import marian_models
from fixtures.marian_models import PRE_NORM, MarianModel
from weft.errors import WeftError
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.interop.marian.conversion import convert
from weft.interop.marian.importing import read_model
from weft.interop.marian.weights import MarianWeights
from weft.ragged import Ragged
from weft.runs.load import LoadedRun, load_run
from weft.text.specials import BEGIN, END

UNTIED = {"tied-embeddings-all": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "as trained by default": {},
    "relu": {"transformer-ffn-activation": "relu"},
    "gelu": {"transformer-ffn-activation": "gelu"},
    "pre-norm": PRE_NORM,
    "pre-norm with trained positions": {**PRE_NORM, "positions": 30, "transformer-train-position-embeddings": True},
    "RMSNorm": {"transformer-postprocess": "dar"},
    "a norm of the embeddings": {"transformer-postprocess-emb": "nd"},
    "trained positions": {"positions": 20, "transformer-train-position-embeddings": True},
    "depth scaling": {"transformer-depth-scaling": True},
    "wider decoder": {"transformer-decoder-dim-ffn": 17},
    "tied layers": {"transformer-tied-layers": [1, 2, 1]},
    "tied inputs": {**UNTIED, "tied-embeddings-src": True},
    "tied target": {**UNTIED, "tied-embeddings": True},
    "untied": UNTIED,
    "untied, of older versions": {**UNTIED, "legacy output": True},
}
TIES = {"tied inputs": "inputs", "tied target": "target", "untied": "none", "untied, of older versions": "none"}


def make(folder: Path, *, two: bool = False, **changes: Any) -> MarianModel:
    """A model and its vocabularies, one or two."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [marian_models.sentencepiece_model(), marian_models.sentencepiece_model("bpe", 200)][: 1 + two]
    names = ("vocab.src.spm", "vocab.trg.spm") if two else ("vocab.spm",)
    for name, model in zip(names, pieces, strict=True):
        (folder / name).write_bytes(model)
    sizes = [marian_models.piece_count(model) for model in pieces]
    model = MarianModel((sizes[0], sizes[-1]), **changes)
    model.save(folder / "model.npz")
    return model


@torch.no_grad()
def differences(original: MarianModel, run: LoadedRun) -> float:
    """The largest difference of a log-probability."""
    rng = random.Random(7)
    sizes = [tokenizer.size - 1 for tokenizer in run.tokenizers]
    sources = [[*rng.choices(range(2, sizes[0]), k=length), 0] for length in (4, 1, 9)]
    targets = [rng.choices(range(2, sizes[1]), k=length) for length in (3, 7, 0)]
    own = [{external: id for id, external in enumerate(tokenizer.external_ids)} for tokenizer in run.tokenizers]
    source_ids = Ragged.of([[own[0][id] for id in ids] for ids in sources])
    target_ids = Ragged.of([[BEGIN, *(own[1][id] for id in ids)] for ids in targets])
    ours_NV = run.model.eval()(source_ids, target_ids).logits_NV.log_softmax(-1).numpy()
    theirs_NV = np.concatenate([original.log_probabilities(*pair) for pair in zip(sources, targets, strict=True)])
    order = [own[1][id] for id in range(sizes[1])]
    return float(np.abs(ours_NV[:, order] - theirs_NV).max())


@pytest.mark.parametrize("variant", VARIANTS)
def test_log_probabilities(tmp_path: Path, variant: str) -> None:
    two = TIES.get(variant) in ("target", "none")
    original = make(tmp_path / "marian", two=two, **VARIANTS[variant])
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    assert run.recipe.model.tie == TIES.get(variant, "all")
    assert differences(original, run) < 1e-5


def test_the_reading_of_hugging_face(tmp_path: Path) -> None:
    """Other sinusoids and another ε: what it computes is not what Marian does."""
    original = make(tmp_path / "marian")
    options = ImportOptions(numerics="huggingface")
    run = load_run(import_model(tmp_path / "marian" / "model.npz", tmp_path / "run", options))
    encoder = run.recipe.model.encoder
    assert (encoder.sinusoids, encoder.norm_epsilon) == ("halves", 1e-5)
    assert differences(original, run) > 1e-3
    original._position = lambda position: np.array(
        [function(position / 10000 ** (2 * i / 12)) for function in (np.sin, np.cos) for i in range(6)]
    )
    assert differences(original, run) < 1e-3, "only ε is left"


def test_texts(tmp_path: Path) -> None:
    """Pieces of a .spm have its own ids; the begin token is barred from outputs."""
    make(tmp_path / "marian", two=True, **UNTIED)
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    import sentencepiece

    for tokenizer, name in zip(run.tokenizers, ("src", "trg"), strict=True):
        library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "marian" / f"vocab.{name}.spm"))
        for text in ("the old king reads", "дом книга 日本 語 zzz"):
            ids = tokenizer.encode(text)
            assert [tokenizer.external_ids[id] for id in ids] == library.encode(text)
        assert tokenizer.decode(tokenizer.encode("le vieux roi")) == "le vieux roi"
        assert tokenizer.external_ids[END] == 0 and tokenizer.external_ids[BEGIN] == tokenizer.size - 1
    assert float(run.model.state_dict()["output.bias_V"][BEGIN]) == -100.0


def test_translations(tmp_path: Path) -> None:
    """Search settings of decoder.yml; the unknown token and the begin token are in no output."""
    import weft

    make(tmp_path / "marian")
    (tmp_path / "marian" / "decoder.yml").write_text(
        "beam-size: 6\nnormalize: 0.6\nvocabs: [/gone/vocab.spm, vocab.spm]\n"
    )
    translator = weft.load(import_model(tmp_path / "marian" / "model.npz", tmp_path / "run"))
    search = translator.recipe.search
    assert (search.kind, search.size, search.length_penalty) == ("beam", 6, 0.6)
    assert (search.max_ratio, search.max_extra, search.banned_ids) == (3.0, 0, [[0], [1]])
    [translation] = translator.translate(["the old king reads a book"])
    assert translation.ids and not {0, 1} & {*translation.ids}
    assert "Marian, with the sinusoids and norms of Marian" in (tmp_path / "run" / "README.md").read_text("utf-8")


def test_half_precision(tmp_path: Path) -> None:
    original = make(tmp_path / "marian")
    original.parameters = {name: array.astype(np.float16) for name, array in original.parameters.items()}
    original.save(tmp_path / "marian" / "model.npz")
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    assert differences(original, run) < 1e-5


@pytest.mark.parametrize(
    ("layer", "training", "heads"),
    [
        ("last", "", []),
        ("last", "guided-alignment: none\n", []),
        ("last", "guided-alignment: a.txt\n", [[2, 0]]),
        ("2", "", [[1, 0]]),
    ],
)
def test_guided_alignment(tmp_path: Path, layer: str, training: str, heads: list[list[int]]) -> None:
    """It trains the first head of the last layer, or of another."""
    make(tmp_path, **{"transformer-guided-alignment-layer": layer})
    (tmp_path / "model.npz.yml").write_text(f"type: transformer\n{training}", "utf-8")
    conversion = read_model(str(tmp_path), ImportOptions()).conversion
    assert conversion.model["decoder"]["alignment_heads"] == heads


def test_guided_alignment_of_a_run(tmp_path: Path) -> None:
    """What the options of the training say of it reaches the recipe."""
    make(tmp_path / "marian", **{"transformer-guided-alignment-layer": "last"})
    (tmp_path / "marian" / "model.npz.yml").write_text("type: transformer\nguided-alignment: a.txt\n", "utf-8")
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    assert run.recipe.model.decoder.alignment_heads == [[2, 0]]  # type: ignore[union-attr]


def test_guided_alignment_of_no_layer(tmp_path: Path) -> None:
    make(tmp_path, **{"transformer-guided-alignment-layer": "4"})
    with pytest.raises(WeftError, match="guided-alignment-layer: '4' is not a layer of the decoder, which has 3"):
        convert(MarianWeights(tmp_path / "model.npz"))
