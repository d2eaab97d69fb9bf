"""Every setting reaches the code: another value gives another run, or other outputs.

Each setting of a recipe stands in one of three tables: `IN_TRAINING` and `IN_SEARCH` with a value that must make a
difference and the settings under which it does; `ELSEWHERE` with the reason why it makes none here. A new setting that
is in none of them fails the first test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.tokenizers import learn
from weft.models.build import build_model
from weft.recipe import Recipe, TransformerDecoderSettings, TransformerEncoderSettings, make_recipe
from weft.recipe.augmentation import AugmentationSettings
from weft.recipe.stem import StemSettings
from weft.recipe.toml import settings_of
from weft.runs.weights import read_tensors
from weft.text.tokenizer import Tokenizers
from weft.training.train import train
from weft.translation.translator import Translator

WORDS = [
    "The",
    "old",
    "king",
    "l'été",
    "Ünder",
    "straße",
    "<x>",
    "42",
    "3.14",
    "reads,",
    "noch",
    "nicht!",
    "한국어",
    "co-op",
]
PAIRS = [
    (
        " ".join(WORDS[(row * step + row) % len(WORDS)] for step in range(1, 2 + row % 6)),
        WORDS[row % 7] + " " + WORDS[-row % 5],
    )
    for row in range(60)
]
SMALL: dict[str, Any] = {
    "tokenizer.kind": "bpe",
    "tokenizer.size": 90,
    "model.embedding": 8,
    "model.encoder.hidden": 8,
    "model.decoder.hidden": 8,
    "training.steps": 4,
    "training.batch_tokens": 48,
    "training.learning_rate": 0.01,
    "training.warmup": 2,
    "training.validate_every": 2,
    "training.save_every": 2,
    "training.log_every": 1,
    "training.device": "cpu",
    "search.max_length": 5,
    "search.size": 2,
}
STACK = {"kind": "transformer", "layers": 1, "hidden": 8, "heads": 2, "feed_forward": 8}
TRANSFORMER = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
WORD = {"tokenizer.kind": "word"}
CHARACTER = {"tokenizer.kind": "character"}
GENERATED = {"data.train": "copy", "data.train_size": 40, "data.valid_size": 9, "tokenizer.kind": "word"}
DROPOUT = {"tokenizer.dropout": 0.5}
SGD = {"training.optimizer": "sgd"}
PLATEAU = {
    "training.schedule": "plateau",
    "training.learning_rate": 1.0,
    "training.validate_every": 1,
    "training.steps": 6,
}
METRIC = {"training.metric": "chrf", "training.valid_sentences": 9}
LOCATION = {"model.attention.score": "additive", "model.attention.location": True}
PIPELINE = [{"kind": "lowercase"}]

IN_TRAINING: dict[str, tuple[Any, dict[str, Any]]] = {
    "seed": (2, {}),
    "data.train_size": (30, GENERATED),
    "data.valid_size": (5, GENERATED),
    "data.options": ({"length": 3}, GENERATED),
    "data.pipeline": (PIPELINE, {}),
    "data.variants": (3, {"data.pipeline": [{"kind": "noise", "drop": 0.3}]}),
    "data.max_length": (9, {}),
    "data.holdout.test": (0.3, {}),
    "data.streaming": (True, {}),
    "tokenizer.kind": ("word", {}),
    "tokenizer.target_kind": ("word", {"tokenizer.joint": False}),
    "tokenizer.size": (70, {}),
    "tokenizer.joint": (False, {}),
    "tokenizer.minimum_count": (20, WORD),
    "tokenizer.normalize": ("nfkc", CHARACTER | {"tokenizer.lowercase": True}),
    "tokenizer.lowercase": (True, {}),
    "tokenizer.symbols": (["<x>"], {}),
    "tokenizer.protect": (["[0-9]+"], {}),
    "tokenizer.end_of_word": (False, {}),
    "tokenizer.byte_level": (True, {"tokenizer.size": 300}),
    "tokenizer.byte_fallback": (True, {"tokenizer.size": 350}),
    "tokenizer.split_punctuation": (False, {}),
    "tokenizer.tags": (True, CHARACTER),
    "tokenizer.decompose": (True, CHARACTER),
    "tokenizer.dropout": (0.5, {}),
    "tokenizer.variants": (1, DROPOUT | {"training.batch_tokens": 4096}),
    "tokenizer.sample": (60, {}),
    "model.kind": ("language_model", {}),
    "model.embedding": (6, {}),
    "model.tie": ("target", {}),
    "model.dropout": (0.4, {}),
    "model.bridge": ("zero", {}),
    "model.encoder.kind": ("gru", {}),
    "model.encoder.layers": (2, {}),
    "model.encoder.hidden": (6, {}),
    "model.encoder.connections": ("residual", {"model.encoder.layers": 2}),
    "model.encoder.layer_norm": (True, {}),
    "model.encoder.bidirectional": (False, {}),
    "model.encoder.reverse_source": (True, {"model.encoder.bidirectional": False}),
    "model.decoder.kind": ("rnn", {}),
    "model.decoder.layers": (2, {}),
    "model.decoder.hidden": (6, {}),
    "model.decoder.connections": ("dense", {"model.decoder.layers": 2}),
    "model.decoder.layer_norm": (True, {}),
    "model.decoder.input_feeding": (True, {}),
    "model.decoder.feed_summary": (True, {}),
    "model.attention.score": ("dot", {}),
    "model.attention.normalizer": ("sparsemax", {}),
    "model.attention.placement": ("before", {}),
    "model.copy": (True, {}),
    "model.attention.window": ("monotonic", {}),
    "model.attention.window_size": (1, {"model.attention.window": "monotonic"}),
    "model.attention.coverage": ("sum", {"model.attention.score": "additive"}),
    "model.attention.location": (True, {"model.attention.score": "additive"}),
    "model.attention.location_filters": (3, LOCATION),
    "model.attention.location_width": (3, LOCATION),
    "model.attention.hard": ("monotonic", {}),
    "model.attention.max_jump": (2, {"model.attention.hard": "first"}),
    "model.attention.size": (5, {"model.attention.score": "additive"}),
    "model.attention.project": (True, {}),
    "model.attention.temperature": (0.7, {"model.attention.score": "cosine"}),
    "training.steps": (5, {}),
    "training.batch_tokens": (30, {}),
    "training.accumulate": (2, {}),
    "training.optimizer": ("adam", {"training.weight_decay": 0.3}),
    "training.learning_rate": (0.02, {}),
    "training.weight_decay": (0.3, {}),
    "training.momentum": (0.8, SGD),
    "training.beta1": (0.5, {}),
    "training.beta2": (0.5, {}),
    "training.schedule": ("constant", {}),
    "training.warmup": (4, {}),
    "training.decay": (0.1, PLATEAU | {"training.decay_patience": 1}),
    "training.decay_patience": (1, PLATEAU | {"training.decay_patience": 4}),
    "training.clip": (0.01, SGD),
    "training.label_smoothing": (0.3, {}),
    "training.loss": ("entmax15", {"training.label_smoothing": 0.0}),
    "training.coverage_loss": (1.0, {}),
    "training.forcing": ("free", {}),
    "training.sampling": (1.0, {"training.forcing": "scheduled", "training.steps": 9}),
    "training.freeze": (["encoder.*"], {}),
    "training.layer_decay": (0.5, {}),
    "training.validate_every": (1, {}),
    "training.metric": ("chrf", {}),
    "training.valid_sentences": (3, METRIC),
    "training.patience": (1, PLATEAU),
    "training.average": (2, {}),
    "training.consistency": (5.0, {}),
    "training.word_dropout": (0.5, {}),
    "training.ema": (0.9, {}),
    "training.choose": ("last", {"training.steps": 5}),
    "training.save_every": (1, {}),
    "training.log_every": (2, {}),
}
for _side in ("encoder", "decoder"):
    _RELATIVE = {f"model.{_side}.positions": "relative"}
    IN_TRAINING |= {
        f"model.{_side}.{_name}:transformer": (_value, TRANSFORMER | _more)
        for _name, _value, _more in (
            ("kind", "gru", {"model.encoder.hidden": 8}),
            ("layers", 2, {}),
            ("hidden", 4, {}),
            ("heads", 4, {}),
            ("key_value_heads", 1, {}),
            ("head_size", 3, {}),
            ("feed_forward", 5, {}),
            ("activation", "gelu", {}),
            ("norm", "rms", {}),
            ("norm_epsilon", 0.1, {}),
            ("norm_placement", "post", {}),
            ("positions", "none", {}),
            ("max_positions", 300, {f"model.{_side}.positions": "learned"}),
            ("sinusoids", "halves", {}),
            ("first_position", 2, {}),
            ("relative_buckets", 8, _RELATIVE),
            ("relative_max_distance", 5, _RELATIVE | {f"model.{_side}.relative_buckets": 8}),
            ("relative_per_layer", True, _RELATIVE | {f"model.{_side}.layers": 2}),
            ("scale_embedding", False, {}),
            ("embedding_norm", True, {}),
            ("embedding_dropout", 0.5, {}),
            ("residual_dropout", 0.5, {}),
            ("attention_dropout", 0.5, {}),
            ("activation_dropout", 0.5, {}),
        )
    }
    IN_TRAINING[f"model.{_side}.kind:transformer"] = ("transformer", {})

SAMPLING = {"search.kind": "sample"}
IN_SEARCH: dict[str, tuple[Any, dict[str, Any]]] = {
    "search.kind": ("greedy", {}),
    "search.size": (2, {}),
    "search.stop": ("steps", {"search.finish": 1, "search.length_penalty": 3.0}),
    "search.finish": (1, {"search.stop": "finished", "search.length_penalty": 3.0}),
    "search.groups": (4, {"search.size": 4}),
    "search.diversity": (9.0, {"search.size": 4, "search.groups": 2}),
    "search.normalization": ("none", {}),
    "search.length_penalty": (0.1, {}),
    "search.coverage_penalty": (0.9, {}),
    "search.max_length": (2, {}),
    "search.max_ratio": (0.1, {"search.max_extra": 1}),
    "search.max_extra": (1, {"search.max_ratio": 0.1}),
    "search.min_length": (7, {}),
    "search.min_ratio": (2.0, {}),
    "search.temperature": (0.2, SAMPLING),
    "search.top_k": (1, SAMPLING),
    "search.top_p": (0.1, SAMPLING),
    "search.min_p": (0.9, SAMPLING),
    "search.typical": (0.1, SAMPLING),
    "search.seed": (9, SAMPLING),
    "search.samples": (2, {"search.kind": "mbr", "search.samples": 9}),
    "search.utility": ("exact", {"search.kind": "mbr", "search.samples": 9}),
    "search.prefix": ("b", {}),
    "search.banned": (["a", "b", "c"], {}),
    "search.banned_ids": ([[3], [4], [5]], {}),
    "search.required": (["d"], {}),
    "search.no_repeat_ngram": (1, {}),
    "search.repetition_penalty": (9.0, {}),
    "search.no_loops": (False, {"search.kind": "greedy", "search.max_length": 40}),
    "seed": (2, SAMPLING),
}

ELSEWHERE = {
    "name": "of the run folder",
    "summary": "a text",
    "data.train": "tests/data/preparation/test_corpora.py",
    "data.valid": "tests/training/test_validation.py",
    "data.test": "tests/apps/cli/commands/test_evaluate.py",
    "data.holdout.structure": "tests/data/test_structural_holdout.py",
    "data.holdout.valid": "tests/data/preparation/test_corpora_holdout.py",
    "data.test_size": "tests/apps/cli/commands/test_evaluate.py",
    "data.folder": "tests/recipe/test_loading.py",
    "data.bad_rows": "tests/data/store/test_block_tokenizer.py",
    "data.blank_rows": "tests/data/store/test_block_tokenizer.py",
    "data.temperature": "of mixtures: tests/data/batching/test_batches_mixture.py",
    "data.prompts": "tests/contracts/test_prompts.py",
    "data.prepared": "changes no result: tests/data/preparation/test_prepare.py",
    "data.workers": "changes no result: tests/data/store/test_worker_processes.py",
    "model.decoder.alignment_heads:transformer": "tests/models/test_transformer_decoder_alignment.py",
    "model.sources.count": "tests/models/test_source_columns.py",
    "model.sources.encoders": "tests/models/test_source_columns.py",
    "model.sources.attention": "tests/models/test_source_columns.py",
    "serve.examples": "tests/data/preparation/test_corpora_examples.py",
    "serve.states": "changes no result: tests/pairs/test_state_index.py",
    "serve.source": "tests/apps/serve/test_libretranslate.py",
    "serve.target": "tests/apps/serve/test_libretranslate.py",
    "tokenizer.file": "tests/text/test_external.py",
    "tokenizer.target_file": "tests/text/test_external.py",
    "tokenizer.source_language": "tests/data/preparation/test_tokenizers_languages.py",
    "tokenizer.target_language": "tests/data/preparation/test_tokenizers_languages.py",
    "search.source_language": "tests/translation/test_languages.py",
    "search.target_language": "tests/translation/test_languages.py",
    "tokenizer.new_languages": "tests/training/test_fine_tuning.py",
    "tokenizer.extend": "tests/training/test_train_start.py",
    "training.lora.rank": "tests/training/test_train_adapters.py",
    "training.lora.alpha": "tests/models/test_lora.py",
    "training.lora.dropout": "tests/models/test_lora.py",
    "training.lora.targets": "tests/models/test_lora.py",
    "training.lora.name": "tests/training/test_train_adapters.py",
    "training.distillation": "tests/training/test_distillation.py",
    "training.start": "tests/training/test_train_start.py",
    "training.device": "of hardware",
    "training.precision": "of hardware: tests/training/test_update_precision.py",
    "training.save_minutes": "changes no result: tests/training/test_trainer.py",
    "training.compile": "of hardware",
    "training.shard": "of several workers: tests/training/test_distributed.py",
    "data.outside": "tests/data/arrays/test_corpus.py",
    **dict.fromkeys(
        ("data.terms.file", "data.terms.share", "data.fuzzy.file", "data.fuzzy.min_similarity", "data.fuzzy.empty"),
        "tests/training/test_train_terms_and_matches.py",
    ),
    "tokenizer.channels": "tests/data/arrays/test_tokenizer.py",
    "tokenizer.height": "tests/data/arrays/test_tokenizer.py",
    "tokenizer.max_values": "tests/data/arrays/test_tokenizer.py",
    **dict.fromkeys((f"model.stem.{name}" for name in StemSettings.model_fields), "tests/models/test_stems.py"),
    **dict.fromkeys(
        (f"training.augmentation.{name}" for name in AugmentationSettings.model_fields),
        "tests/data/batching/test_augmented.py",
    ),
    "training.ctc": "tests/models/test_ctc.py",
    "search.ctc": "tests/models/test_ctc.py",
    "search.replace_unknown": "tests/translation/test_pipeline_text_processor.py",
    "search.max_space": "a limit: tests/search/test_exact.py",
    "search.max_nodes": "a limit: tests/search/test_exact.py",
    "search.batch_tokens": "changes no result",
    "search.memory": "changes no result: tests/translation/engines/test_batch_sizes.py",
    "evaluation.metrics": "tests/evaluation/test_evaluate.py",
    "evaluation.former": "tests/evaluation/test_forgetting.py",
    "evaluation.references": "tests/evaluation/test_evaluate.py",
}


def test_every_setting_is_in_a_table() -> None:
    names = {setting.name for setting in settings_of(Recipe())}
    names |= {f"{one.name}:transformer" for one in settings_of(TransformerEncoderSettings(), "model.encoder.")}
    names |= {f"{one.name}:transformer" for one in settings_of(TransformerDecoderSettings(), "model.decoder.")}
    assert names == {*IN_TRAINING, *IN_SEARCH, *ELSEWHERE}
    assert not {*IN_TRAINING, *IN_SEARCH} & {*ELSEWHERE}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What training with these settings leaves behind: tensors, tokenizers and events, not the settings themselves."""
    folder = tmp_path_factory.mktemp("trained")
    corpus = folder / "pairs.tsv"
    corpus.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), "utf-8")
    known: dict[str, dict[str, Any]] = {}

    def run(changes: dict[str, Any]) -> dict[str, Any]:
        files = {f"data.{split}": str(corpus) for split in ("train", "valid")} if "data.train" not in changes else {}
        settings = {**SMALL, **files, **changes}
        key = json.dumps(settings)
        if key not in known:
            out = folder / str(len(known))
            for _ in train(recipe_of(settings), out):
                pass
            known[key] = contents(out)
        return known[key]

    return run


def recipe_of(settings: dict[str, Any]) -> Recipe:
    """A recipe from values by the full names of their settings."""
    tree: dict[str, Any] = {}
    for name, value in settings.items():
        *sections, last = name.split(".")
        inner = tree
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return make_recipe(tree)


def contents(out: Path) -> dict[str, Any]:
    files = sorted(out.rglob("*.safetensors"))
    tensors = {
        f"{path.relative_to(out)} {name}": (tuple(tensor.shape), tensor.numpy().tobytes())
        for path in files
        for name, tensor in read_tensors(path).tensors.items()
    }
    times = {"seconds", "path", "tokens_per_second", "data_wait", "seconds_left"}
    events = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    kept = [{name: value for name, value in event.items() if name not in times} for event in events]
    tokenizers = [path.read_text("utf-8") for path in sorted(out.glob("tokenizer*.json"))]
    return {"tensors": tensors, "events": kept, "tokenizers": tokenizers}


@pytest.mark.parametrize("setting", IN_TRAINING)
def test_a_setting_changes_the_run(setting: str, trained: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    value, base = IN_TRAINING[setting]
    name = setting.split(":")[0]
    assert trained({**base, name: value}) != trained(base)


@pytest.fixture(scope="module")
def outputs() -> Callable[[dict[str, Any]], list[Any]]:
    """Outputs of an untrained model with attention, and their scores, under these settings."""
    tokenizer = learn("word", ["a b c d e f g"])
    small = {"model.embedding": 8, "model.encoder.hidden": 8, "model.decoder.hidden": 8, "search.max_length": 12}
    recipe = recipe_of(small)
    model = build_model(recipe.model, source_size=tokenizer.size, target_size=tokenizer.size, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)

    def search(changes: dict[str, Any]) -> list[Any]:
        lengths = {"search.max_length": 0} if "search.max_extra" in changes else {}
        recipe = recipe_of({**small, **lengths, **changes})
        run = Translator(model.eval(), Tokenizers(tokenizer, tokenizer), recipe=recipe)
        found = run.translate(["a b c", "g f e d c b a", "e", "d a d a d"])
        return [(one.text, one.score) for one in found]

    return search


@pytest.mark.parametrize("setting", IN_SEARCH)
def test_a_setting_changes_the_search(setting: str, outputs: Callable[[dict[str, Any]], list[Any]]) -> None:
    value, base = IN_SEARCH[setting]
    assert outputs({**base, setting: value}) != outputs(base)


def test_the_seed_decides_initial_weights_batches_and_dropout(
    trained: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    """Each by itself: weights stay at a rate of nearly nothing; a model that is given has its own; a corpus of one
    pair has one order."""
    still = {"training.learning_rate": 1e-30, "training.validate_every": 0}
    first, second = (trained({**still, "seed": seed})["tensors"] for seed in (1, 2))
    assert all(first[name] != second[name] for name in first if name.startswith("model.") and "weight" in name)
    (tmp_path / "many.tsv").write_text("".join(f"{a} {b}\t{b}\n" for a in "abcdef" for b in "abcdef"), "utf-8")
    (tmp_path / "single.tsv").write_text("a b c d e f\tf e d c b a\n", "utf-8")

    def losses(corpus: str, dropout: float, seed: int) -> list[float]:
        settings = {**SMALL, "data.train": str(tmp_path / corpus), "tokenizer.kind": "word", "model.dropout": dropout}
        recipe = recipe_of({**settings, "training.batch_tokens": 20, "training.validate_every": 0, "seed": seed})
        model = build_model(recipe.model, source_size=9, target_size=9, seed=5)
        out = tmp_path / f"{corpus}-{seed}"
        list(train(recipe, out, model=model))
        events = map(json.loads, (out / "log.jsonl").read_text("utf-8").splitlines())
        return [event["loss"] for event in events if event["event"] == "step"]

    assert losses("many.tsv", 0.0, 1) != losses("many.tsv", 0.0, 2), "the order"
    assert losses("single.tsv", 0.5, 1) != losses("single.tsv", 0.5, 2), "dropout"
