"""Model folders that are not what they should be: one line that names the file, and no run folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from fixtures import pretrained_models
from weft.errors import WeftError
from weft.interop.importing import import_model
from weft.runs.load import load_run
from weft.runs.weights import read_tensors

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "opus-mt"
    pretrained_models.make("marian", folder)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of a good folder, to be damaged."""
    return shutil.copytree(original, tmp_path / "opus-mt")


def change_json(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({name: value for name, value in (content | changes).items() if value != "remove"}))


def change_tensors(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def shards(folder: Path, names: tuple[str, str] = ("model-00001-of-00002.safetensors", "b.safetensors")) -> None:
    """The same weights in two files and an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    halves = [sorted(tensors)[::2], sorted(tensors)[1::2]]
    for name, half in zip(names, halves, strict=True):
        save_file({one: tensors[one] for one in half}, folder / name)
    index = {"weight_map": {one: name for name, half in zip(names, halves, strict=True) for one in half}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_tensors_that_are_no_weights(folder: Path, tmp_path: Path) -> None:
    """Models of fairseq that were converted have a number of their format beside their weights."""

    def add_versions(tensors: dict[str, Any]) -> None:
        tensors |= {f"model.{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}

    expected = load_run(import_model(folder, tmp_path / "run")).model.state_dict()
    change_tensors(folder, add_versions)
    found = load_run(import_model(folder, tmp_path / "again")).model.state_dict()
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)


def refused(folder: Path | str, out: Path) -> str:
    with pytest.raises(WeftError) as caught:
        import_model(folder, out)
    message = str(caught.value)
    assert "\n" not in message
    assert not out.exists() and not list(out.parent.glob(f".{out.name}*")), "nothing is left behind"
    return message.replace(str(folder), "FOLDER")


CONFIGURATIONS = {
    "unknown type": ({"model_type": "gpt2"}, "model_type: 'gpt2' is not imported; weft imports bart, m2m_100, marian"),
    "no type": ({"model_type": "remove"}, "model_type: is missing; weft imports bart"),
    "no size": ({"d_model": "remove"}, "d_model: is missing"),
    "a size that is text": ({"encoder_layers": "six"}, "encoder_layers: 'six' was found, expected a whole number"),
    "a negative size": ({"decoder_layers": -1}, "decoder_layers: -1 was found, expected a whole number of at least 1"),
    "an activation": ({"activation_function": "mish"}, "activation_function: 'mish' is not known; weft has gelu"),
    "dropout of 1": ({"dropout": 1.0}, "dropout: 1 was found, expected a number below 1"),
    "a flag": ({"scale_embedding": "yes"}, "scale_embedding: 'yes' was found, expected true or false"),
    "quantized": ({"quantization_config": {"bits": 4}}, "quantization_config: quantized weights are not imported"),
    "code of its own": ({"auto_map": {"AutoModel": "x.Y"}}, "auto_map: the model comes with its own code"),
    "a decoder alone": (
        {"is_encoder_decoder": False},
        "is_encoder_decoder: false: weft imports models with an encoder",
    ),
    "heads": (
        {"encoder_attention_heads": 5},
        "describes a model that weft does not have: model.encoder.heads: 5 heads",
    ),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_configurations(folder: Path, tmp_path: Path, case: str) -> None:
    changes, expected = CONFIGURATIONS[case]
    change_json(folder / "config.json", **changes)
    assert refused(folder, tmp_path / "run").startswith(f"FOLDER/config.json: {expected}")


@pytest.mark.parametrize(
    ("changes", "name", "found", "expected"),
    [
        ({"vocab_size": 9}, "model.shared.weight", "(355, 12)", "(9, 12)"),
        ({"encoder_ffn_dim": 15}, "model.encoder.layers.0.fc1.weight", "(14, 12)", "(15, 12)"),
    ],
)
def test_a_configuration_that_contradicts_the_tensors(
    folder: Path, tmp_path: Path, changes: dict[str, int], name: str, found: str, expected: str
) -> None:
    change_json(folder / "config.json", **changes)
    message = refused(folder, tmp_path / "run")
    assert f"tensor {name!r} is (" in message and f"but config.json says {expected}" in message


def test_more_layers_than_tensors(folder: Path, tmp_path: Path) -> None:
    change_json(folder / "config.json", decoder_layers=4)
    expected = "FOLDER: lacks tensor 'model.decoder.layers.3.self_attn.q_proj.weight', which config.json calls for"
    assert refused(folder, tmp_path / "run") == expected


def test_fewer_layers_than_tensors(folder: Path, tmp_path: Path) -> None:
    change_json(folder / "config.json", decoder_layers=2)
    assert "has no place in the model that config.json describes" in refused(folder, tmp_path / "run")


def test_values_that_are_not_finite(folder: Path, tmp_path: Path) -> None:
    change_tensors(folder, lambda tensors: tensors["model.encoder.layers.0.fc1.bias"].fill_(float("nan")))
    assert "has values that are not finite" in refused(folder, tmp_path / "run")


def test_integers(folder: Path, tmp_path: Path) -> None:
    change_tensors(folder, lambda tensors: tensors.update(final_logits_bias=tensors["final_logits_bias"].int()))
    assert "tensor 'final_logits_bias' is int32, expected floating-point numbers" in refused(folder, tmp_path / "run")


def test_two_embeddings_where_there_is_one(folder: Path, tmp_path: Path) -> None:
    name = "model.encoder.embed_tokens.weight"
    change_tensors(folder, lambda tensors: tensors.update({name: tensors["model.shared.weight"] + 1}))
    assert "'model.encoder.embed_tokens.weight' and 'model.shared.weight' differ" in refused(folder, tmp_path / "run")


class TestFiles:
    def test_no_folder(self, tmp_path: Path) -> None:
        message = refused(tmp_path / "none", tmp_path / "run")
        assert message == "FOLDER: no such folder, and not the name of a model on the Hub (OWNER/NAME)"

    def test_a_file(self, folder: Path, tmp_path: Path) -> None:
        message = refused(folder / "config.json", tmp_path / "run")
        assert message == (
            "FOLDER: a file that is not imported; expected a model folder of Hugging Face, model.npz of Marian, or a "
            "checkpoint of fairseq, OpenNMT-py or Joey NMT (.pt, .pth, .ckpt)"
        )

    def test_a_model_on_the_hub_that_cannot_be_reached(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        def fail(*arguments: Any, **options: Any) -> str:
            raise OSError("no route\nto host")

        monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
        message = refused("nobody/no-such-model", tmp_path / "run")
        assert message == "FOLDER: no such folder, and not downloaded from the Hub (no route to host)"

    def test_a_model_on_the_hub(self, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        asked = []
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(
            huggingface_hub, "snapshot_download", lambda name, **options: asked.append((name, options)) or str(original)
        )
        assert import_model("nobody/opus-mt") == Path("runs/opus-mt")
        [(name, options)] = asked
        assert name == "nobody/opus-mt" and not {"*.bin", "*.py"} & {*options["allow_patterns"]}

    @pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json", "source.spm"])
    def test_a_missing_file(self, folder: Path, tmp_path: Path, name: str) -> None:
        (folder / name).unlink()
        assert name in refused(folder, tmp_path / "run")

    def test_a_pickle(self, folder: Path, tmp_path: Path) -> None:
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        message = refused(folder, tmp_path / "run")
        assert message.startswith("FOLDER/pytorch_model.bin: not read: a pickle can run code")

    @pytest.mark.parametrize("size", [0, 5, 1000, -1])
    def test_a_truncated_download(self, folder: Path, tmp_path: Path, size: int) -> None:
        path = folder / "model.safetensors"
        os.truncate(path, path.stat().st_size + size if size < 0 else size)
        assert refused(folder, tmp_path / "run").startswith("FOLDER/model.safetensors: damaged or incomplete (")

    def test_a_huge_header(self, folder: Path, tmp_path: Path) -> None:
        (folder / "model.safetensors").write_bytes((1 << 40).to_bytes(8, "little") + b"{}")
        assert "its header has 1,099,511,627,776 bytes" in refused(folder, tmp_path / "run")

    @pytest.mark.parametrize("content", ["", "[]", "{", "null", '{"d_model": 1' + "[" * 100_000])
    def test_damaged_json(self, folder: Path, tmp_path: Path, content: str) -> None:
        (folder / "config.json").write_text(content)
        assert refused(folder, tmp_path / "run").startswith("FOLDER/config.json: ")

    def test_a_run_folder_that_exists(self, original: Path, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "mine").touch()
        with pytest.raises(WeftError, match="run: already exists"):
            import_model(original, tmp_path / "run")
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


class TestShards:
    def test_the_same_weights(self, original: Path, folder: Path, tmp_path: Path) -> None:
        shards(folder)
        whole, sharded = (
            read_tensors(import_model(source, tmp_path / name) / "model.safetensors").tensors
            for source, name in ((original, "whole"), (folder, "sharded"))
        )
        assert all(torch.equal(tensor, sharded[name]) for name, tensor in whole.items())

    @pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "a/b.safetensors", "..", "x.bin"])
    def test_a_name_outside_the_folder(self, folder: Path, tmp_path: Path, name: str) -> None:
        shards(folder)
        change_json(folder / "model.safetensors.index.json", weight_map={"model.shared.weight": name})
        message = refused(folder, tmp_path / "run")
        assert f"index.json: names the file {name!r}; expected safetensors files of this folder" in message

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            *((content, "damaged; it has no weight_map of tensors and files") for content in (None, [], {"a": 1})),
            ({"a": "a.safetensors", "b": 1}, "damaged; it has no weight_map of tensors and files"),
            ({}, "names no file"),
        ],
    )
    def test_a_damaged_index(self, folder: Path, tmp_path: Path, content: Any, problem: str) -> None:
        shards(folder)
        change_json(folder / "model.safetensors.index.json", weight_map=content)
        assert refused(folder, tmp_path / "run") == f"FOLDER/model.safetensors.index.json: {problem}"

    def test_a_missing_shard(self, folder: Path, tmp_path: Path) -> None:
        shards(folder)
        (folder / "b.safetensors").unlink()
        assert refused(folder, tmp_path / "run").startswith("FOLDER/b.safetensors: missing; ")

    def test_a_tensor_in_two_shards(self, folder: Path, tmp_path: Path) -> None:
        shards(folder)
        shutil.copy(folder / "b.safetensors", folder / "c.safetensors")
        index = {"weight_map": {"x": "b.safetensors", "y": "c.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        assert "is in another file too" in refused(folder, tmp_path / "run")


def test_half_precision_becomes_single(folder: Path, tmp_path: Path) -> None:
    change_tensors(folder, lambda tensors: tensors.update({name: one.half() for name, one in tensors.items()}))
    run = load_run(import_model(folder, tmp_path / "run"))
    assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float32}
    assert {tensor.dtype for tensor in read_tensors(tmp_path / "run" / "model.safetensors").tensors.values()} == {
        torch.float32
    }
