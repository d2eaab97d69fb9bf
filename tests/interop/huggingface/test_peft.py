"""Adapters of PEFT: what PEFT computes with an original, weft computes with the run made of it, and back."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fixtures import pretrained_models
from fixtures.pretrained_models import KINDS
from fixtures.tokenizers import learn
from weft.errors import CheckpointError, WeftWarning
from weft.interop.export import export_run
from weft.interop.huggingface.peft import add_adapter, export_adapter, original_projections, read_peft
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.models.lora import projections
from weft.ragged import Ragged
from weft.recipe import load_recipe
from weft.recipe.toml import write_toml
from weft.recipe.training import LoraSettings
from weft.runs.layout import RunFolder
from weft.runs.load import load_run
from weft.runs.weights import WeightsOrigin
from weft.text.tokenizer import Tokenizers

pytest.importorskip("transformers")
QUICK = ("marian", "t5")
NAMES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in ("marian", "t5", "t5_v1_1", "umt5", "nllb", "bart")
    if name in KINDS
]


@pytest.fixture(scope="module", params=NAMES)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("imported")
    original = pretrained_models.make(request.param, folder / "original", end=3.0)
    import_model(folder / "original", folder / "run", ImportOptions(*KINDS[request.param].languages))
    return original, folder / "run"


def test_names_are_those_of_the_original(imported: tuple[Any, Path]) -> None:
    original, path = imported
    run = load_run(path)
    linear = {name for name, module in original.named_modules() if isinstance(module, torch.nn.Linear)} - {"lm_head"}
    assert {foreign.name for foreign in original_projections(run).values()} == linear
    assert set(original_projections(run)) == {each.name for each in projections(run.model)}


@torch.no_grad()
def log_probabilities(run: Any) -> torch.Tensor:
    frame = run.tokenizers.frame
    source, target = frame.source([5, 6, 7, 8]), [*frame.start, 5, 9]
    return run.model.eval()(Ragged.of([source]), Ragged.of([target])).logits_NV.log_softmax(-1)


@torch.no_grad()
def original_log_probabilities(model: Any, run: Any) -> torch.Tensor:
    frame, order = run.tokenizers.frame, run.tokenizers.source.external_ids
    source = torch.tensor([[order[id] for id in frame.source([5, 6, 7, 8])]])
    target = torch.tensor([[order[id] for id in [*frame.start, 5, 9]]])
    logits = model.eval()(input_ids=source, attention_mask=torch.ones_like(source), decoder_input_ids=target).logits
    return logits[0].log_softmax(-1)[:, torch.tensor(run.tokenizers.target.external_ids)]


def test_there_and_back(imported: tuple[Any, Path], tmp_path: Path) -> None:
    """An adapter that PEFT saved is added, used, exported, and loaded by PEFT again."""
    peft = pytest.importorskip("peft")
    import copy

    original, path = imported
    run = load_run(path)
    torch.manual_seed(4)
    config = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules="all-linear", task_type="SEQ_2_SEQ_LM", init_lora_weights=False
    )
    adapted = peft.get_peft_model(copy.deepcopy(original), config)
    adapted.save_pretrained(tmp_path / "mine")
    assert add_adapter(path, tmp_path / "mine", tmp_path.name.replace("_", "-")) in {tmp_path.name.replace("_", "-")}
    name = tmp_path.name.replace("_", "-")
    expected = original_log_probabilities(adapted, run)
    ours = log_probabilities(load_run(path, adapter=name))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)
    assert (ours - log_probabilities(run)).abs().max() > 1e-3
    export_adapter(path, name, tmp_path / "back")
    again = peft.PeftModel.from_pretrained(copy.deepcopy(original), tmp_path / "back")
    torch.testing.assert_close(original_log_probabilities(again, run), expected, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_exported_with_the_weights(imported: tuple[Any, Path], tmp_path: Path) -> None:
    """A run that is exported for transformers with an adapter is the model that PEFT makes of both."""
    peft = pytest.importorskip("peft")
    import copy

    from transformers import AutoModelForSeq2SeqLM

    original, path = imported
    torch.manual_seed(5)
    config = peft.LoraConfig(r=2, target_modules="all-linear", task_type="SEQ_2_SEQ_LM", init_lora_weights=False)
    adapted = peft.get_peft_model(copy.deepcopy(original), config)
    adapted.save_pretrained(tmp_path / "merged")
    add_adapter(path, tmp_path / "merged", "merged")
    export_run(path, to="huggingface", out=tmp_path / "out", adapter="merged")
    exported = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    run = load_run(path, adapter="none")
    expected = original_log_probabilities(adapted, run)
    torch.testing.assert_close(original_log_probabilities(exported, run), expected, rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    pretrained_models.make("t5", folder / "original", end=3.0)
    return import_model(folder / "original", folder / "run")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "adapter_config.json: missing; an adapter is a folder with adapter_config.json and adapter_model"),
        ({"adapter_config.json": "[1]"}, "adapter_config.json: damaged; expected an object"),
        ({"adapter_config.json": {"peft_type": "LORA"}}, "adapter_model.safetensors: not read: an adapter has one"),
        (
            {"adapter_config.json": {"peft_type": "LORA"}, "adapter_model.bin": "x"},
            "adapter_model.bin: not read: a pickle can run code; save it as safetensors",
        ),
        (
            {"adapter_config.json": {"peft_type": "LORA"}, "adapter_model.safetensors": {"a": (2, 2)}},
            "adapter_model.safetensors: tensor 'a': not a matrix of a LoRA adapter of linear maps",
        ),
        (
            {
                "adapter_config.json": {"peft_type": "LORA"},
                "adapter_model.safetensors": {
                    "base_model.model.x.q.lora_A.weight": (2, 2),
                    "base_model.model.x.q.lora_B.weight": (2, 2),
                },
            },
            "adapter_model.safetensors: adapts 'x.q', which ",
        ),
        (
            {
                "adapter_config.json": {"peft_type": "LORA"},
                "adapter_model.safetensors": {"base_model.model.x.q.lora_A.weight": (2, 2)},
            },
            "adapter_model.safetensors: 'x.q' has lora_A, but not the other matrix",
        ),
        *(
            (
                {
                    "adapter_config.json": {"peft_type": "LORA", "r": rank, **more},
                    "adapter_model.safetensors": {
                        "base_model.model.x.q.lora_A.weight": (2, 3),
                        "base_model.model.x.q.lora_B.weight": (3, 2),
                    },
                },
                f"adapter_config.json: r: {rank!r} was given; the matrices of the adapter have rank 2",
            )
            for rank, more in (
                *((-1, {}), (0, {}), (10**8, {}), (2.0, {}), ("2", {}), (True, {}), (3, {})),
                (-1, {"rank_pattern": {"q": 2}}),
            )
        ),
        *(
            (
                {
                    "adapter_config.json": {"peft_type": "LORA", **config},
                    "adapter_model.safetensors": {
                        "base_model.model.x.q.lora_A.weight": (2, 3),
                        "base_model.model.x.q.lora_B.weight": (3, 2),
                    },
                },
                "adapter_model.safetensors: adapts 'x.q', which ",
            )
            for config in ({"r": 2}, {"r": 8, "rank_pattern": {"q": 2}})
        ),
    ],
)
def test_folders_refused(small: Path, tmp_path: Path, files: dict[str, Any], message: str) -> None:
    from safetensors.torch import save_file

    folder = tmp_path / "adapter"
    folder.mkdir()
    for name, content in files.items():
        if name.endswith("safetensors"):
            save_file({key: torch.zeros(shape) for key, shape in content.items()}, folder / name)
        else:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    with pytest.raises(CheckpointError) as caught:
        add_adapter(small, folder)
    assert str(caught.value).startswith(f"{folder}/{message}") and "\n" not in str(caught.value)
    assert not (small / "adapters").exists() or not list((small / "adapters").iterdir())


def write_adapter(folder: Path, ranks: dict[str, int], **config: Any) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """A folder of PEFT with random matrices for modules of the small T5, by name; returns A and B of each."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    torch.manual_seed(6)
    width, inner = pretrained_models.SMALL_T5["d_model"], 15
    pairs = {name: (torch.randn(rank, width), torch.randn(inner, rank)) for name, rank in ranks.items()}
    tensors = {
        f"base_model.model.{name}.lora_{letter}.weight": matrix
        for name, pair in pairs.items()
        for letter, matrix in zip("AB", pair, strict=True)
    }
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", **config}), "utf-8")
    return pairs


VALUE, KEY = "encoder.block.0.layer.0.SelfAttention.v", "decoder.block.1.layer.1.EncDecAttention.k"
QUERY = "decoder.block.0.layer.0.SelfAttention.q"
OWN = {
    VALUE: "encoder.stack.layers.0.self_attention.value",
    KEY: "decoder.stack.layers.1.cross_attention.key",
    QUERY: "decoder.stack.layers.0.self_attention.query",
}
SCALES: dict[str, tuple[dict[str, int], dict[str, Any], dict[str, float]]] = {
    "alpha": ({VALUE: 2, KEY: 2}, {"r": 2, "lora_alpha": 5}, {VALUE: 2.5, KEY: 2.5}),
    "queries": ({QUERY: 2}, {"r": 2, "lora_alpha": 5}, {QUERY: 2.5 * 5**0.5}),
    "no alpha": ({VALUE: 2}, {"r": 2}, {VALUE: 4.0}),
    "an alpha of zero": ({VALUE: 2}, {"r": 2, "lora_alpha": 0}, {VALUE: 0.0}),
    "rank-stabilized": ({VALUE: 4}, {"r": 4, "lora_alpha": 6, "use_rslora": True}, {VALUE: 3.0}),
    "alphas": (
        {VALUE: 2, KEY: 2},
        {"r": 2, "lora_alpha": 5, "alpha_pattern": {"EncDecAttention.k": 7}},
        {VALUE: 2.5, KEY: 3.5},
    ),
    "ranks": ({VALUE: 2, KEY: 3}, {"r": 2, "lora_alpha": 6, "rank_pattern": {"k": 3}}, {VALUE: 3.0, KEY: 2.0}),
}


@pytest.mark.parametrize("case", SCALES)
def test_what_an_adapter_adds(case: str, small: Path, tmp_path: Path) -> None:
    """scale · B A, with all that config says of the scale; that of queries times √d, as here."""
    ranks, config, scales = SCALES[case]
    pairs = write_adapter(tmp_path / "adapter", ranks, **config)
    adapter, own_config = read_peft(tmp_path / "adapter", load_run(small))
    assert set(adapter) == {OWN[name] for name in ranks}
    for name, scale in scales.items():
        lora_A, lora_B = pairs[name]
        torch.testing.assert_close(adapter[OWN[name]].update(), scale * (lora_B @ lora_A))
    assert own_config["r"] == max(ranks.values()) and set(own_config["target_modules"]) == set(adapter)


@pytest.mark.parametrize("alpha", [0.5, 1, 3])
def test_alphas_are_kept(alpha: float, small: Path, tmp_path: Path) -> None:
    """The rate is that of the original, and so are the matrices."""
    pairs = write_adapter(tmp_path / "adapter", {VALUE: 2}, r=2, lora_alpha=alpha)
    adapter, config = read_peft(tmp_path / "adapter", load_run(small))
    assert config["lora_alpha"] == alpha and adapter[OWN[VALUE]].lora_B.equal(pairs[VALUE][1])


def test_adapters_of_runs(small: Path, tmp_path: Path) -> None:
    """The adapter of a run of the same weights is copied; one of other weights brings a warning."""
    shutil.copytree(small, tmp_path / "one", ignore=shutil.ignore_patterns("adapters"))
    shutil.copytree(small, tmp_path / "other", ignore=shutil.ignore_patterns("adapters"))
    write_adapter(tmp_path / "mine", {VALUE: 2})
    assert add_adapter(tmp_path / "other", tmp_path / "mine", "default") == "default"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert add_adapter(tmp_path / "one", tmp_path / "other") == "default"
        assert add_adapter(tmp_path / "one", tmp_path / "other", "again") == "again"
        assert add_adapter(tmp_path / "one", tmp_path / "mine") == "mine"
    expected = log_probabilities(load_run(tmp_path / "other", adapter="default"))
    for name in ("default", "again", "mine"):
        torch.testing.assert_close(log_probabilities(load_run(tmp_path / "one", adapter=name)), expected)
    assert (log_probabilities(load_run(small, adapter="none")) - expected).abs().max() > 1e-3
    run = RunFolder(tmp_path / "other")
    tensors = run.read_model().tensors
    tensors["output.weight_VD" if "output.weight_VD" in tensors else "source_embedding.weight_VE"][0, 0] += 1.0
    run.write_model(tensors, WeightsOrigin("imported", (0,)))
    with pytest.warns(
        WeftWarning, match=r"its adapter was trained on weights other than those of .*; check its outputs"
    ):
        add_adapter(tmp_path / "one", tmp_path / "other", "warned")


def test_names_are_those_of_weft_where_there_is_no_original(small: Path) -> None:
    """Both vocabularies are those of an imported model, or there is no original to be named after."""
    run = load_run(small)
    own = learn("word", ["a b"])
    for tokenizers in (Tokenizers(own, own), Tokenizers(run.tokenizers.source, own)):
        names = original_projections(run._replace(tokenizers=tokenizers))
        assert all(name == original.name and original.factor == 1.0 for name, original in names.items())
    assert original_projections(run)[OWN[VALUE]].name == VALUE


def test_a_run_whose_own_adapter_was_removed(small: Path, tmp_path: Path) -> None:
    """Others can be added to it, and exported, all the same."""
    path = tmp_path / "run"
    shutil.copytree(small, path, ignore=shutil.ignore_patterns("adapters"))
    recipe = load_recipe(path / "recipe.toml")
    training = recipe.training.model_copy(update={"lora": LoraSettings(rank=2, name="removed"), "start": str(small)})
    (path / "recipe.toml").write_text(write_toml(recipe.model_copy(update={"training": training})), "utf-8")
    with pytest.raises(CheckpointError, match="removed"):
        load_run(path)
    pairs = write_adapter(tmp_path / "mine", {VALUE: 2, QUERY: 2})
    assert add_adapter(path, tmp_path / "mine") == "mine"
    written = load_file(export_adapter(path, "mine", tmp_path / "out") / "adapter_model.safetensors")
    for name, matrices in pairs.items():
        for letter, matrix in zip("AB", matrices, strict=True):
            torch.testing.assert_close(written[f"base_model.model.{name}.lora_{letter}.weight"], matrix)


def test_adapters_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nothing: no such folder$"):
        add_adapter(small, tmp_path / "nothing")
    write_adapter(tmp_path / "bad name!", {VALUE: 2})
    with pytest.raises(CheckpointError, match=r"^--name: 'bad name!' was given; expected letters, digits"):
        add_adapter(small, tmp_path / "bad name!")
    write_adapter(tmp_path / "mine", {"encoder.block.0.layer.0.SelfAttention.o": 2})
    with pytest.raises(CheckpointError, match="mine: the adapter of another model: "):
        add_adapter(small, tmp_path / "mine")
    with pytest.raises(CheckpointError, match=r"^adapter='nobody': .* has no adapter of this name; it has none$"):
        export_adapter(small, "nobody", tmp_path / "out")
    assert not (tmp_path / "out").exists()
