"""Exported folders in transformers: the same log-probabilities, beams and ids."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import pretrained_models
from fixtures.pretrained_models import KINDS
from fixtures.tokenizers import learn
from weft.errors import CheckpointError, RecipeError, SearchError
from weft.interop.huggingface.exporting import export_model, make_plan
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.runs.load import LoadedRun, load_run
from weft.text.imported import ImportedTokenizer
from weft.text.specials import END
from weft.text.tokenizer import Tokenizers
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import TorchEngine

transformers = pytest.importorskip("transformers")
STACK: dict[str, Any] = {"kind": "transformer", "hidden": 24, "layers": 2, "heads": 4, "feed_forward": 20}
LINES = ["the old king reads a book to his son", "le vieux roi lit un livre à son fils, non?", "a b  c <2de> x"]
LENGTHS = (3, 11, 1, 7, 20)
LONGEST = 20


def make_run(stack: dict[str, Any] | None = None, *, kind: str = "bpe", **settings: Any) -> LoadedRun:
    """A run with random weights, drawn so that every part has its say."""
    joint = settings.get("tie", "all") in ("inputs", "all")
    tree = {
        "name": "tiny",
        "tokenizer": {"kind": kind, "joint": joint},
        "model": {
            "embedding": 24,
            "dropout": 0.0,
            "tie": "all",
            "encoder": {**STACK, **(stack or {})},
            "decoder": {**STACK, "layers": 3, "heads": 3, "feed_forward": 28, **(stack or {})},
            **settings,
        },
        "search": {"kind": "beam", "size": 5, "stop": "finished", "no_loops": False, "max_length": LONGEST},
    }
    recipe = make_recipe(tree)
    options: dict[str, Any] = {"size": 60} if kind in ("bpe", "unigram") else {}
    options |= {"split_punctuation": False} if kind == "word" else {}
    source = learn(kind, LINES, **options)
    smaller = {**options, "size": 50} if "size" in options else options
    tokenizers = Tokenizers(source, source if joint else learn(kind, ["zwei Wörter, " + LINES[0]], **smaller))
    model = build_model(recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size)
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0.0, 0.3)
    return LoadedRun(model.eval(), tokenizers, recipe)


def load(folder: Path) -> Any:
    transformers.logging.set_verbosity_error()
    model, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not info["unexpected_keys"] and not info["mismatched_keys"]
    return model.eval()


def order(tokenizer: Any) -> list[int]:
    """The id in the export of every id of weft."""
    return list(getattr(tokenizer, "external_ids", range(tokenizer.size)))


def source_order(run: LoadedRun, model_type: str) -> list[int]:
    """`order` of the source; with one table for two vocabularies, its ids follow those of the target."""
    two = run.recipe.model.tie in ("target", "none") and model_type != "marian"
    return [id + two * run.tokenizers.target.size for id in order(run.tokenizers.source)]


def padded(rows: list[list[int]], ids: list[int], padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    padded_rows = [[*(ids[id] for id in row), *[padding] * (longest - len(row))] for row in rows]
    return torch.tensor(padded_rows), torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


def draw(tokenizer: Any, lengths: Any, seed: int, padding: int) -> list[list[int]]:
    rng = random.Random(seed)
    ids = [id for id in range(3, tokenizer.size) if order(tokenizer)[id] != padding]
    return [rng.choices(ids, k=length) for length in lengths]


@torch.no_grad()
def check_log_probabilities(run: LoadedRun, theirs: Any) -> None:
    frame, padding = run.tokenizers.frame, theirs.config.pad_token_id
    source, target = run.tokenizers
    sources = [frame.source(ids) for ids in draw(source, LENGTHS, 3, padding)]
    targets = [[*frame.start, *ids] for ids in draw(target, [*reversed(LENGTHS)], 4, padding)]
    ours_NV = run.model.eval()(Ragged.of(sources), Ragged.of(targets)).logits_NV.log_softmax(-1)
    ids, mask = padded(sources, source_order(run, theirs.config.model_type), padding)
    inputs, _ = padded(targets, order(target), padding)
    logits = theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs).logits.log_softmax(-1)
    rows = [row[: len(tokens)] for row, tokens in zip(logits, targets, strict=True)]
    theirs_NV = torch.cat(rows)[:, torch.tensor(order(target))]
    torch.testing.assert_close(ours_NV, theirs_NV, rtol=0, atol=1e-5)


@torch.no_grad()
def check_beams(run: LoadedRun, theirs: Any, *, least: int = 10) -> None:
    """What `generate` finds with generation_config.json and no arguments."""
    frame, padding, end = run.tokenizers.frame, theirs.config.pad_token_id, theirs.config.eos_token_id
    source, target = run.tokenizers
    rng = random.Random(5)
    sources = [frame.source(ids) for ids in draw(source, [rng.randint(1, 12) for _ in range(20)], 6, padding)]
    ids, mask = padded(sources, source_order(run, theirs.config.model_type), padding)
    rows = theirs.generate(input_ids=ids, attention_mask=mask).tolist()
    engine = TorchEngine(run.model, target)
    found = engine.search(TranslationRequest(sources=sources, settings=run.recipe.search, frame=frame))
    compared = 0
    for row, (best, *_) in zip(rows, found, strict=True):
        output = row[len(frame.start) :]
        if (end in output) == (best.ended == "end"):  # cut-off outputs compete with finished ones in `generate`
            compared += 1
            expected = output[: output.index(end)] if end in output else output[:LONGEST]
            assert [order(target)[id] for id in best.tokens] == expected
    assert compared >= least


VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "marian": ("marian", {"norm_placement": "post"}, {}),
    "pegasus": ("pegasus", {"activation": "gelu"}, {}),
    "bart": ("bart", {"norm_placement": "post", "embedding_norm": True, "positions": "learned"}, {}),
    "mbart": ("mbart", {"embedding_norm": True, "scale_embedding": False, "activation": "silu"}, {}),
    "inputs": ("pegasus", {"activation": "gelu_tanh", "positions": "learned", "max_positions": 300}, {"tie": "inputs"}),
    "two-tied": ("marian", {"norm_placement": "post"}, {"tie": "target"}),
    "two": ("marian", {"norm_placement": "post", "sinusoids": "tensor2tensor"}, {"tie": "none"}),
    "pegasus, two-tied": ("pegasus", {}, {"tie": "target"}),
    "bart, two": ("bart", {"norm_placement": "post", "embedding_norm": True}, {"tie": "none"}),
}


def slow_except(names: Any, quick: tuple[str, ...]) -> list[Any]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize(
    "variant", slow_except(VARIANTS, ("marian", "pegasus", "bart", "two", "pegasus, two-tied", "bart, two"))
)
def test_own_models(variant: str, tmp_path: Path) -> None:
    kind, stack, settings = VARIANTS[variant]
    run = make_run(stack, **settings)
    theirs = load(export_model(run, tmp_path / "export"))
    assert theirs.config.model_type == kind
    check_log_probabilities(run, theirs)
    check_beams(run, theirs)


def test_saved_again(tmp_path: Path) -> None:
    """Marian's class does not save positions: those it makes itself are those of the export."""
    run = make_run({"norm_placement": "post"})
    load(export_model(run, tmp_path / "export")).save_pretrained(tmp_path / "again")
    check_log_probabilities(run, load(tmp_path / "again"))


@pytest.mark.parametrize("kind", slow_except(KINDS, ("marian", "nllb", "t5")))
def test_imported_models(kind: str, tmp_path: Path) -> None:
    """Back into the class they came from."""
    original = pretrained_models.make(kind, tmp_path / "original", end=3.0)
    run = load_run(import_model(tmp_path / "original", tmp_path / "run", ImportOptions(*KINDS[kind].languages)))
    theirs = load(export_model(run, tmp_path / "export"))
    same = {"mt5": "t5"}
    assert theirs.config.model_type == same.get(original.config.model_type, original.config.model_type)
    check_log_probabilities(run, theirs)
    check_tokenizer(run, tmp_path / "export")
    again = load_run(import_model(tmp_path / "export", tmp_path / "again", ImportOptions(*KINDS[kind].languages)))
    assert again.recipe.model == run.recipe.model
    assert isinstance(again.tokenizers.source, ImportedTokenizer)
    assert again.tokenizers.source.encode_batch(LINES) == run.tokenizers.source.encode_batch(LINES)


def test_an_output_projection_of_its_own(tmp_path: Path) -> None:
    """T5 1.1 and FLAN: input embeddings and output projection differ, and outputs are not scaled."""
    from safetensors.torch import load_file, save_file

    original = pretrained_models.make("t5-1.1", tmp_path / "original", end=3.0)
    weights = load_file(tmp_path / "original" / "model.safetensors")
    torch.manual_seed(2)
    weights["lm_head.weight"] = 0.3 * torch.randn(original.config.vocab_size, original.config.d_model)
    save_file(weights, tmp_path / "original" / "model.safetensors", {"format": "pt"})
    run = load_run(import_model(tmp_path / "original", tmp_path / "run"))
    assert run.recipe.model.tie == "inputs"
    check_log_probabilities(run, load(export_model(run, tmp_path / "export")))


def check_tokenizer(run: LoadedRun, folder: Path) -> None:
    """Ids of texts with all that stands around them, and texts of ids."""
    config = json.loads((folder / "config.json").read_text())
    auto = transformers.AutoTokenizer if config["model_type"] != "umt5" else transformers.T5Tokenizer
    theirs = auto.from_pretrained(folder)  # for UMT5, AutoTokenizer reads nothing but a tokenizer.json
    ours, frame = run.tokenizers.source, run.tokenizers.frame
    ids = source_order(run, config["model_type"])
    for line in LINES:
        assert theirs(line).input_ids == [ids[id] for id in frame.source(ours.encode(line))]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "byte", "word"])
def test_tokenizers(kind: str, tmp_path: Path) -> None:
    run = make_run(kind=kind)
    folder = export_model(run, tmp_path / "export")
    check_tokenizer(run, folder)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), run.tokenizers.source
    assert theirs.pad_token_id == ours.size and theirs.eos_token_id == END
    for line in LINES:
        assert theirs.decode(theirs(line).input_ids, skip_special_tokens=True) == ours.decode(ours.encode(line))


def test_two_tokenizers(tmp_path: Path) -> None:
    run = make_run({"norm_placement": "post"}, tie="target")
    folder = export_model(run, tmp_path / "export")
    check_tokenizer(run, folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder, subfolder="target_tokenizer")
    assert theirs("zwei").input_ids == [*run.tokenizers.target.encode("zwei"), END]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "byte", "word"])
def test_two_tokenizers_of_one_table(kind: str, tmp_path: Path) -> None:
    """The ids of the source follow those of the target, which are those of weft; `generate` never gives them."""
    run = make_run(kind=kind, tie="target")
    folder = export_model(run, tmp_path / "export")
    check_tokenizer(run, folder)
    source = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder, subfolder="target_tokenizer")
    sizes = [tokenizer.size for tokenizer in run.tokenizers]
    assert theirs("zwei").input_ids == [*run.tokenizers.target.encode("zwei"), END]
    assert source.pad_token_id == theirs.pad_token_id == sum(sizes) and theirs.eos_token_id == END
    line = LINES[0]
    assert source.decode(source(line).input_ids, skip_special_tokens=True) == line
    batch = source(LINES, return_tensors="pt", padding=True)
    outputs = load(folder).generate(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
    assert all(id < sizes[1] or id == sum(sizes) for id in outputs.flatten().tolist())
    assert 'subfolder="target_tokenizer"' in (folder / "README.md").read_text("utf-8")


def test_one_tokenizer_and_two_embeddings(tmp_path: Path) -> None:
    """A vocabulary that both sides share, but not their embeddings, has two ids for each token."""
    run = make_run(tie="target")
    run = run._replace(tokenizers=Tokenizers(run.tokenizers.source, run.tokenizers.source))
    size = run.tokenizers.source.size
    run = run._replace(model=build_model(run.recipe.model, source_size=size, target_size=size).eval())
    folder = export_model(run, tmp_path / "export")
    check_log_probabilities(run, load(folder))
    assert (folder / "target_tokenizer" / "tokenizer.json").is_file()


def test_half_precision(tmp_path: Path) -> None:
    folder = export_model(make_run(), tmp_path / "export", dtype="float16")
    assert load(folder).dtype == torch.float16
    with pytest.raises(SearchError, match=r"^--quantization int8: not for huggingface; "):
        export_model(make_run(), tmp_path / "export", dtype="int8")


REFUSED = {
    "rotary": ({"positions": "rotary"}, {}, "model.encoder.positions: 'rotary'"),
    "gated": ({"activation": "swiglu"}, {}, "model.encoder.activation: 'swiglu'"),
    "rms": ({"norm": "rms"}, {}, "model.encoder.norm: 'rms' with"),
    "epsilon": ({"norm_epsilon": 1e-6}, {}, "model.encoder.norm_epsilon: 1e-06"),
    "groups": ({"key_value_heads": 1}, {}, "model.encoder.key_value_heads: 1"),
    "width": ({}, {"embedding": 12}, "model.embedding: 12"),
    "t5 padding": (
        {"positions": "relative", "norm": "rms", "scale_embedding": False, "heads": 4, "feed_forward": 20},
        {},
        "a padding token cannot be added: T5 has no bias that rules it out as an output",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    stack, settings, message = REFUSED[case]
    with pytest.raises(RecipeError) as error:
        export_model(make_run(stack, **settings), tmp_path / "export")
    assert str(error.value).startswith("tiny: ") and message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "export").exists()


def test_refused_sides_and_words(tmp_path: Path) -> None:
    run = make_run(encoder={**STACK, "scale_embedding": False})
    with pytest.raises(RecipeError, match=r"^tiny: model.encoder.scale_embedding: False is not that of the decoder"):
        export_model(run, tmp_path / "export")
    with pytest.raises(RecipeError, match=r"^tiny: model.encoder.kind: 'lstm'"):
        export_model(make_run(encoder={"kind": "lstm", "hidden": 24}), tmp_path / "export")
    run = make_run(kind="word")
    split = Tokenizers(learn("word", LINES), learn("word", LINES))
    with pytest.raises(RecipeError, match=r"^tiny: a source tokenizer of kind 'word' that splits punctuation cannot"):
        export_model(run._replace(tokenizers=split), tmp_path / "export")


def test_refused_two_embeddings_of_an_imported_model(tmp_path: Path) -> None:
    """Its ids are those of the original, so a second vocabulary cannot follow them."""
    pretrained_models.make("pegasus", tmp_path / "original", end=3.0)
    run = load_run(import_model(tmp_path / "original", tmp_path / "run"))
    model = run.recipe.model.model_copy(update={"tie": "target"})
    run = run._replace(recipe=run.recipe.model_copy(update={"model": model}))
    with pytest.raises(RecipeError, match=r": model.tie: 'target': PegasusFor\w+ has one embedding for both sides$"):
        export_model(run, tmp_path / "export")


def test_banned_ids_and_summary(tmp_path: Path) -> None:
    """Ids are those of the export; the card tells what the recipe says of the model, and what differs."""
    pretrained_models.make("marian", tmp_path / "original", end=3.0)
    run = load_run(import_model(tmp_path / "original", tmp_path / "run"))
    order_of_target = order(run.tokenizers.target)
    search = run.recipe.search.model_copy(update={"banned_ids": [[1], [4, 7]], "no_loops": True})
    recipe = run.recipe.model_copy(update={"search": search, "summary": "Letters in reverse."})
    folder = export_model(run._replace(recipe=recipe), tmp_path / "export")
    config = json.loads((folder / "generation_config.json").read_text())
    assert config["bad_words_ids"] == [[order_of_target[1]], [order_of_target[4], order_of_target[7]]]
    assert order_of_target[1] != 1
    card = (folder / "README.md").read_text("utf-8")
    assert f"# {recipe.name}\n\nLetters in reverse.\n" in card
    assert "- search.no_loops: left out; outputs may loop\n" in card


@pytest.mark.parametrize(
    ("stack", "longest"), [({}, 1024), ({"positions": "learned", "max_positions": 300}, 300)], ids=["any", "300"]
)
def test_longest_texts(stack: dict[str, Any], longest: int, tmp_path: Path) -> None:
    """As many tokens as there are positions, of sources and of outputs."""
    run = make_run(stack)
    search = run.recipe.search.model_copy(update={"max_length": 0})
    run = run._replace(recipe=run.recipe.model_copy(update={"search": search}))
    folder = export_model(run, tmp_path / "export")
    written = {name: json.loads((folder / name).read_text("utf-8")) for name in DESCRIPTION}
    assert [written[name][entry] for name, entry in DESCRIPTION.items()] == [longest] * 3


DESCRIPTION = {
    "config.json": "max_position_embeddings",
    "generation_config.json": "max_length",
    "tokenizer_config.json": "model_max_length",
}


@pytest.mark.parametrize("kind", ["pegasus", "m2m100"])
def test_models_with_norms_before_layers(kind: str, tmp_path: Path) -> None:
    """M2M100 has no bias of the output, and positions of its own; a Pegasus whose bias is zero stays one."""
    original = pretrained_models.make(kind, tmp_path / "original")
    run = load_run(import_model(tmp_path / "original", tmp_path / "run", ImportOptions(*KINDS[kind].languages)))
    with torch.no_grad():
        run.model.output.bias_V.zero_()
    assert make_plan(run).kind == original.config.model_type
    with torch.no_grad():
        run.model.output.bias_V[3] = 1.0
    assert make_plan(run).kind == "pegasus"


def test_folder(tmp_path: Path) -> None:
    """An earlier export is replaced; anything else is kept."""
    run, folder = make_run(), tmp_path / "export"
    export_model(run, folder)
    card = (folder / "README.md").read_text("utf-8")
    assert "PegasusForConditionalGeneration" in card and "library_name: transformers" in card
    assert "# tiny\n\nA sequence-to-sequence model.\n" in card
    info = json.loads((folder / "weft.json").read_text())
    assert info["weft_export"] == "huggingface" and "config.json" in info["files"]
    export_model(run, folder)
    (folder / "mine.txt").write_text("x")
    with pytest.raises(CheckpointError, match=r"holds 'mine.txt' beside the export, which would be lost"):
        export_model(run, folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with pytest.raises(CheckpointError, match="already exists and is not an export to huggingface"):
        export_model(run, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export", "other"]
