"""Runs as models of Marian: imported again, and by the literal reading of Marian's formulas."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from fixtures import marian_models, pretrained_models
from fixtures import pretrained_tokenizers as folders
from fixtures.marian_models import PRE_NORM, MarianModel
from interop.marian.test_importing import UNTIED, differences, make
from weft.errors import RecipeError, SearchError
from weft.interop.export import export_run
from weft.interop.huggingface.tokenizers import read_tokenizers
from weft.interop.huggingface.vocabularies import pieces_of
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.interop.marian import vocabularies
from weft.interop.marian.exporting import export_marian, save_vocabularies, unsupported
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.model import RecurrentEncoderSettings
from weft.runs.load import LoadedRun, load_run

SOURCES, TARGETS = [[5, 9, 30, 2], [7, 2]], [[1, 8, 12], [1, 40]]
LINES = ["the old king reads", "le vieux roi lit un livre", "zzz дом"]
VARIANTS: dict[str, dict[str, Any]] = {
    "as trained by default": {},
    "pre-norm with trained positions": {**PRE_NORM, "positions": 30, "transformer-train-position-embeddings": True},
    "RMSNorm": {"transformer-postprocess": "dar", "transformer-ffn-activation": "relu"},
    "a norm of the embeddings": {"transformer-postprocess-emb": "nd", "transformer-ffn-activation": "gelu"},
    "wider decoder": {"transformer-decoder-dim-ffn": 17},
    "tied layers": {"transformer-tied-layers": [1, 2, 1]},
    "tied inputs": {**UNTIED, "tied-embeddings-src": True},
    "tied target": {**UNTIED, "tied-embeddings": True},
    "untied": UNTIED,
}


@torch.no_grad()
def log_probabilities(run: LoadedRun) -> torch.Tensor:
    return run.model.eval()(Ragged.of(SOURCES), Ragged.of(TARGETS)).logits_NV.log_softmax(-1)


def literal(path: Path) -> MarianModel:
    """The reading of an exported file."""
    with np.load(path) as file:
        arrays = dict(file)
    options = yaml.safe_load(arrays.pop("special:model.yml").tobytes().rstrip(b"\0"))
    model = MarianModel(tuple(options["dim-vocabs"]), **options)
    model.parameters = arrays
    return model


QUICK = ("as trained by default", "pre-norm with trained positions", "untied")


@pytest.mark.parametrize(
    "variant", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
)
def test_there_and_back(tmp_path: Path, variant: str) -> None:
    two = variant in ("tied target", "untied")
    make(tmp_path / "marian", two=two, **VARIANTS[variant])
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    folder = export_marian(run, tmp_path / "export")
    assert differences(literal(folder / "model.npz"), run) < 1e-5
    again = load_run(import_model(folder, tmp_path / "again"))
    assert again.recipe.model == run.recipe.model
    torch.testing.assert_close(log_probabilities(again), log_probabilities(run), rtol=0, atol=0)
    for ours, theirs in zip(again.tokenizers, run.tokenizers, strict=True):
        assert ours.encode_batch(LINES) == theirs.encode_batch(LINES)
    vocabularies = ["vocab.src.spm", "vocab.trg.spm"] if two else ["vocab.spm"]
    assert sorted(path.name for path in folder.glob("*.spm")) == vocabularies


def test_other_positions(tmp_path: Path) -> None:
    """Sinusoids of Hugging Face become trained positions; so embeddings are not scaled, and the output is untied."""
    make(tmp_path / "marian")
    options = ImportOptions(numerics="huggingface")
    run = load_run(import_model(tmp_path / "marian" / "model.npz", tmp_path / "run", options))
    folder = export_marian(run, tmp_path / "export")
    again = load_run(import_model(folder, tmp_path / "again"))
    decoder = again.recipe.model.decoder
    assert (decoder.positions, decoder.max_positions, decoder.scale_embedding) == ("learned", 1024, False)
    assert again.recipe.model.tie == "inputs"
    torch.testing.assert_close(log_probabilities(again), log_probabilities(run), rtol=0, atol=1e-3)  # ε is Marian's
    with torch.no_grad():
        for module in run.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6
    torch.testing.assert_close(log_probabilities(again), log_probabilities(run), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_opus_mt(tmp_path: Path) -> None:
    """A folder of Hugging Face: vocab.json becomes vocab.yml, beside source.spm and target.spm."""
    pytest.importorskip("transformers")
    pretrained_models.make("marian", tmp_path / "original", encoder_attention_heads=2)
    run = load_run(import_model(tmp_path / "original", tmp_path / "run"))
    with torch.no_grad():
        run.model.target_embedding.weight_VE[1] = 0  # as in every model of OPUS-MT
    folder = export_marian(run, tmp_path / "export")
    assert sorted(path.name for path in folder.iterdir() if path.suffix in (".spm", ".yml")) == [
        *("decoder.yml", "source.spm", "target.spm", "vocab.yml")
    ]
    again = load_run(import_model(folder, tmp_path / "again"))
    assert again.tokenizers.source.encode_batch(LINES) == run.tokenizers.source.encode_batch(LINES)
    assert again.tokenizers.target.encode_batch(LINES) == run.tokenizers.target.encode_batch(LINES)
    others = [0, *range(2, run.tokenizers.target.size)]  # <pad>, of the begin token, is an output in Hugging Face only
    ours_NV, theirs_NV = (log_probabilities(one)[:, others].log_softmax(-1) for one in (run, again))
    torch.testing.assert_close(theirs_NV, ours_NV, rtol=0, atol=1e-3)  # ε is Marian's


@pytest.mark.parametrize(
    ("separate", "names"), [(False, ["vocab.yml", "vocab.yml"]), (True, ["vocab.src.yml", "vocab.trg.yml"])]
)
def test_vocabularies_of_opus_mt(tmp_path: Path, separate: bool, names: list[str]) -> None:
    """Where ids are not those of SentencePiece: tables of tokens, and the pieces beside them."""
    folders.opus_mt(tmp_path, separate=separate)
    own = ("vocab.json", "target_vocab.json" if separate else "vocab.json")
    tables = [json.loads((tmp_path / name).read_text("utf-8")) for name in own]
    rows = (len(tables[0]), len(tables[1]))
    roles = {"decoder_start_token_id": rows[1] - 1, "pad_token_id": rows[1] - 1}
    tokenizers = read_tokenizers(tmp_path, {**folders.marian_config(tmp_path), **roles}, rows=rows)
    (tmp_path / "export").mkdir()
    assert save_vocabularies(tmp_path / "export", tokenizers) == names
    assert {path.name for path in (tmp_path / "export").iterdir()} == {*names, "source.spm", "target.spm"}
    for name, table in zip(names, tables, strict=True):
        written = yaml.safe_load((tmp_path / "export" / name).read_text("utf-8"))
        assert written == {token: id for token, id in table.items() if token != "<pad>"}
    for side in ("source.spm", "target.spm"):
        assert (tmp_path / "export" / side).read_bytes() == (tmp_path / side).read_bytes()


def test_decoder_settings(tmp_path: Path) -> None:
    make(tmp_path / "marian")
    content = "beam-size: 6\nnormalize: 0.6\nmax-length-factor: 2.5\nallow-unk: true\nvocabs: [vocab.spm, vocab.spm]\n"
    (tmp_path / "marian" / "decoder.yml").write_text(content)
    run = import_model(tmp_path / "marian", tmp_path / "run")
    folder = export_run(run, to="marian")
    assert folder == run / "marian-float32"
    written = yaml.safe_load((folder / "decoder.yml").read_text())
    assert {**written, **yaml.safe_load(content)} == written
    again = load_run(import_model(folder, tmp_path / "again"))
    assert again.recipe.search == load_run(run).recipe.search
    assert json.loads((folder / "weft.json").read_text())["weft_export"] == "marian"


VOCABULARIES = {
    "pieces": (0, None, ["vocab.spm"]),
    "more rows than pieces": (3, None, ["source.spm", "target.spm", "vocab.yml"]),
    "pieces in another order": (0, -1, ["source.spm", "target.spm", "vocab.yml"]),
}


@pytest.mark.parametrize("case", VOCABULARIES)
def test_vocabularies(tmp_path: Path, case: str) -> None:
    """SentencePiece models stand alone where ids are their own, else beside a vocabulary."""
    more, step, files = VOCABULARIES[case]
    original, folder = tmp_path / "original", tmp_path / "export"
    original.mkdir()
    folder.mkdir()
    model = marian_models.sentencepiece_model()
    count = marian_models.piece_count(model)
    file = original / "vocab.spm"
    file.write_bytes(model)
    if step is not None:
        pieces = pieces_of(model, name="vocab.spm")
        file = original / "vocab.yml"
        file.write_text(yaml.safe_dump({name: id for id, name in enumerate([*pieces[:2], *pieces[:1:step]])}))
        for side in ("source", "target"):
            (original / f"{side}.spm").write_bytes(model)
    rows = (count + more + 1,) * 2
    tokenizers = vocabularies.read_tokenizers(original, (file,), rows=rows)
    names = save_vocabularies(folder, tokenizers)
    assert names == [files[-1]] * 2 and sorted(path.name for path in folder.iterdir()) == files
    again = vocabularies.read_tokenizers(folder, (folder / names[0],), rows=rows)
    for ours, theirs in zip(again, tokenizers, strict=True):
        assert ours.encode_batch(LINES) == theirs.encode_batch(LINES) and ours.external_ids == theirs.external_ids


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A model of Marian with one vocabulary."""
    folder = tmp_path_factory.mktemp("imported")
    make(folder / "marian")
    return load_run(import_model(folder / "marian", folder / "run"))


def changed(run: LoadedRun, **sections: dict[str, Any]) -> LoadedRun:
    """The run with other settings, which need not be those of its weights."""
    new = {name: getattr(run.recipe, name).model_copy(update=update) for name, update in sections.items()}
    return run._replace(recipe=run.recipe.model_copy(update=new))


DECODING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a beam": ({"kind": "beam", "size": 4}, {"beam-size": 4}),
    "greedy": ({"kind": "greedy", "size": 4}, {"beam-size": 1}),
    "length penalty": ({"length_penalty": 0.7}, {"normalize": 0.7}),
    "without normalization": ({"length_penalty": 0.7, "normalization": "none"}, {"normalize": 0.0}),
    "length": ({"max_ratio": 1.5}, {"max-length-factor": 1.5}),
    "length by default": ({"max_ratio": None}, {"max-length-factor": 3}),
    "unknown words": ({"banned_ids": [[5]]}, {"allow-unk": True}),
    "no unknown words": ({"banned_ids": [[5], [0]]}, {"allow-unk": False}),
}


@pytest.mark.parametrize("case", DECODING)
def test_decoding(imported: LoadedRun, tmp_path: Path, case: str) -> None:
    """Each search setting is an option of decoder.yml."""
    settings, options = DECODING[case]
    folder = export_marian(changed(imported, search=settings), tmp_path / "export")
    written = yaml.safe_load((folder / "decoder.yml").read_text())
    assert {**written, **options} == written


def options_of(run: LoadedRun, folder: Path) -> dict[str, Any]:
    """special:model.yml of an export."""
    with np.load(export_marian(run, folder) / "model.npz") as file:
        options: dict[str, Any] = yaml.safe_load(file["special:model.yml"].tobytes().rstrip(b"\0"))
    return options


TIED = ("tied-embeddings-all", "tied-embeddings-src", "tied-embeddings")


@pytest.mark.parametrize(
    ("variant", "tied"),
    [
        ("as trained by default", (True, False, False)),
        ("tied inputs", (False, True, False)),
        ("tied target", (False, False, True)),
        ("untied", (False, False, False)),
    ],
)
def test_options_of_the_embeddings(tmp_path: Path, variant: str, tied: tuple[bool, ...]) -> None:
    make(tmp_path / "marian", two=variant in ("tied target", "untied"), **VARIANTS[variant])
    run = load_run(import_model(tmp_path / "marian", tmp_path / "run"))
    options = options_of(run, tmp_path / "export")
    assert tuple(options[name] for name in TIED) == tied
    sizes = [tokenizer.size - 1 for tokenizer in run.tokenizers]
    assert (options["dim-vocabs"], options["dim-emb"]) == (sizes, run.recipe.model.embedding)


def test_options_of_dropout(imported: LoadedRun, tmp_path: Path) -> None:
    decoder = imported.recipe.model.decoder.model_copy(update={"attention_dropout": 0.2, "activation_dropout": 0.3})
    options = options_of(changed(imported, model={"dropout": 0.25, "decoder": decoder}), tmp_path / "export")
    names = ("transformer-dropout", "transformer-dropout-attention", "transformer-dropout-ffn")
    assert [options[name] for name in names] == [0.25, 0.2, 0.3]


STACK: dict[str, Any] = {"kind": "transformer", "hidden": 24, "layers": 2, "heads": 4, "feed_forward": 20}
MODELS: dict[str, tuple[dict[str, Any], str | None]] = {
    "none": ({}, None),
    "language model": ({"kind": "language_model"}, "model.kind, model.sources, model.copy: Marian gets only"),
    "sources": ({"sources": {"count": 2}}, "model.kind, model.sources, model.copy: Marian gets only"),
    "copying": ({"copy": True}, "model.kind, model.sources, model.copy: Marian gets only"),
    "normalizer": (
        {"attention": {"normalizer": "sparsemax"}},
        "model.attention.normalizer: 'sparsemax' is not known to Marian",
    ),
    "recurrent": (
        {"decoder": {"kind": "gru"}},
        "model.decoder.kind: 'gru' is not exported to Marian; 'transformer' is",
    ),
    "attention": (
        {"encoder": {**STACK, "kind": "attention"}},
        "model.encoder.kind: 'attention' is not exported to Marian; 'transformer' is",
    ),
    "embedding": ({"embedding": 20}, "model.embedding: 20 is not model.encoder.hidden, 24, as in Marian"),
    "hidden": (
        {"decoder": {**STACK, "hidden": 20}},
        "model.embedding: 24 is not model.decoder.hidden, 20, as in Marian",
    ),
}
STACKS: dict[str, tuple[dict[str, Any], str | None]] = {
    "learned": ({"positions": "learned"}, None),
    "heads of the usual size": ({"head_size": 6, "key_value_heads": 4}, None),
    "the epsilon of Hugging Face": ({"norm_epsilon": 1e-5}, None),
    "that of Marian": ({"norm_epsilon": 1e-6}, None),
    "rotary": ({"positions": "rotary"}, "positions: 'rotary' are not known to Marian; it has 'sinusoidal' and"),
    "gated": ({"activation": "swiglu"}, "activation: 'swiglu' is not known to Marian; it has "),
    "groups": ({"key_value_heads": 1}, "key_value_heads, model.{side}.head_size: Marian has keys in all heads"),
    "head size": ({"head_size": 5}, "key_value_heads, model.{side}.head_size: Marian has keys in all heads"),
    "a large epsilon": ({"norm_epsilon": 1e-3}, "norm_epsilon: 0.001; Marian has 1e-06, which would be another model"),
    "a small epsilon": ({"norm_epsilon": 1e-8}, "norm_epsilon: 1e-08; Marian has 1e-06, which would be another model"),
}
SIDES = {
    "heads": 3,
    "activation": "gelu",
    "norm": "rms",
    "norm_placement": "post",
    "norm_epsilon": 1e-6,
    "embedding_norm": True,
    "scale_embedding": False,
}


def reason(**settings: Any) -> str | None:
    tree = {"embedding": 24, "encoder": STACK, "decoder": STACK, **settings}
    return unsupported(ModelSettings.model_validate(tree), "cross_entropy")


@pytest.mark.parametrize("case", MODELS)
def test_refused_models(case: str) -> None:
    settings, message = MODELS[case]
    line = reason(**settings)
    assert line is None if message is None else line is not None and line.startswith(message)


@pytest.mark.parametrize("case", STACKS)
def test_refused_stacks(case: str) -> None:
    changes, message = STACKS[case]
    if message is None:
        assert reason(encoder={**STACK, **changes}, decoder={**STACK, **changes}) is None
        return
    for side in ("encoder", "decoder"):
        line = reason(**{side: {**STACK, **changes}})
        assert line is not None and line.startswith(f"model.{side}." + message.replace("{side}", side))


@pytest.mark.parametrize("name", SIDES)
def test_refused_differences_of_sides(name: str) -> None:
    line = reason(encoder={**STACK, name: SIDES[name]})
    assert line is not None and line.startswith(f"model.encoder.{name}: {SIDES[name]!r} is not that of the decoder, ")
    assert line.endswith("; Marian has one for both")


def test_refused_in_one_line(imported: LoadedRun, tmp_path: Path) -> None:
    """By the name of the recipe; nothing is written."""
    with pytest.raises(
        RecipeError, match=r"^marian: training.loss: Marian has no output layer for 'entmax15'; only for"
    ):
        export_marian(changed(imported, training={"loss": "entmax15"}), tmp_path / "export")
    with pytest.raises(RecipeError, match=r"^marian: model.encoder.kind: 'lstm' is not exported to Marian"):
        model = {"encoder": RecurrentEncoderSettings(kind="lstm")}
        export_marian(changed(imported, model=model), tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_refused_runs(imported: LoadedRun, tmp_path: Path) -> None:
    run = imported._replace(model=copy.deepcopy(imported.model))
    with torch.no_grad():
        run.model.target_embedding.weight_VE[1, 3] = 0.1
    with pytest.raises(RecipeError, match="the embedding of its begin token is not zero"):
        export_marian(run, tmp_path / "export")
    with pytest.raises(SearchError, match=r"^--quantization int8: not for marian"):
        export_marian(run, tmp_path / "export", quantization="int8")
