"""Adapters of PEFT: what PEFT computes with an original, weft computes with the run made of it, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import pretrained_models
from fixtures.pretrained_models import KINDS
from weft.errors import CheckpointError
from weft.interop.export import export_run
from weft.interop.huggingface.peft import add_adapter, export_adapter, original_projections
from weft.interop.importing import import_model
from weft.interop.options import ImportOptions
from weft.models.lora import projections
from weft.ragged import Ragged
from weft.runs.load import load_run

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
