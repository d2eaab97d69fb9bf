"""Exported models in the user's cache: keyed by the weights, rebuilt when damaged, bounded."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("ctranslate2")

from weft.errors import SearchError
from weft.files import cache_folder
from weft.recipe import make_recipe
from weft.runs.load import LoadedRun, load_run
from weft.runs.weights import hash_tensors, read_tensors, write_tensors
from weft.text.tokenizer import Tokenizers, learn
from weft.translation.engines.ctranslate2 import cache as cache_module
from weft.translation.engines.ctranslate2.cache import cached_export
from weft.translation.engines.ctranslate2.export import export
from weft.translation.engines.ctranslate2.exported import load_exported
from weft.translation.load import load

Make = Callable[..., LoadedRun]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ctranslate2"


@pytest.fixture(scope="module")
def make() -> Make:
    from weft.models.build import build_model

    tokenizer = learn("word", ["a b c d e f g h"])
    stack = {"kind": "transformer", "layers": 1, "hidden": 16, "heads": 2, "feed_forward": 24}
    recipe = make_recipe({"model": {"embedding": 16, "encoder": stack, "decoder": stack}})

    def run(seed: int = 1) -> LoadedRun:
        model = build_model(recipe.model, source_size=tokenizer.size, target_size=tokenizer.size, seed=seed)
        return LoadedRun(model.eval(), Tokenizers(tokenizer, tokenizer), recipe)

    return run


def made(run: LoadedRun, quantization: str = "float32") -> Path:
    folder = cached_export(run, quantization=quantization)
    assert folder is not None
    return folder


def test_the_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WEFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/weft")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/weft")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/home/me/.cache/weft")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


class TestEntries:
    def test_are_made_once(self, cache: Path, make: Make) -> None:
        folder = made(make())
        first = (folder / "model.bin").stat().st_ino
        assert folder.parent == cache and (cache.stat().st_mode & 0o777) == 0o700
        assert made(make()) == folder and (folder / "model.bin").stat().st_ino == first
        assert [path.name for path in cache.iterdir()] == [folder.name]

    def test_depend_on_everything_that_matters(self, cache: Path, make: Make) -> None:
        run = make()
        other_model = run.recipe.model.model_copy(update={"dropout": 0.5})
        folders = {
            made(run),
            made(make(2)),
            made(run, "int8"),
            made(run._replace(recipe=run.recipe.model_copy(update={"model": other_model}))),
        }
        assert len(folders) == 4
        with torch.no_grad():
            next(run.model.parameters()).flatten()[0].add_(1e-6)
        assert made(run) not in folders

    @pytest.mark.parametrize("name", ["model.bin", "config.json", "weft.json", "checksums.json"])
    @pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
    def test_that_are_damaged_are_made_again(self, cache: Path, make: Make, name: str, damage: str) -> None:
        path = made(make()) / name
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(content[:-9] if damage == "cut" else content[:-9] + b"x" + content[-8:])
        assert made(make()) / name == path and path.read_bytes() == content
        assert len(list(cache.iterdir())) == 1

    def test_with_another_file_are_made_again(self, cache: Path, make: Make) -> None:
        (made(make()) / "shared_vocabulary.txt").write_text("planted")
        assert not (made(make()) / "shared_vocabulary.txt").exists()

    def test_of_another_user_are_not_used(self, cache: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        first = (made(make()) / "model.bin").stat().st_ino
        monkeypatch.setattr(cache_module, "_belongs_to_user", lambda path: False)
        assert (made(make()) / "model.bin").stat().st_ino != first, "it is written again"

    def test_that_were_not_used_for_long_are_removed(
        self, cache: Path, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folders = [made(make(seed)) for seed in (1, 2, 3)]
        size = sum(file.stat().st_size for file in folders[0].iterdir())
        for age, folder in zip((5000, 9000, 60), folders, strict=True):
            os.utime(folder / "checksums.json", (time.time() - age,) * 2)
        (cache / ".new-killed").mkdir()
        os.utime(cache / ".new-killed", (0, 0))
        monkeypatch.setattr(cache_module, "MAX_BYTES", int(3.5 * size))
        folders.append(made(make(4)))
        assert sorted(cache.iterdir()) == sorted([folders[0], folders[2], folders[3]]), "the oldest goes"
        monkeypatch.setattr(cache_module, "MAX_BYTES", 0)
        folders.append(made(make(5)))
        assert sorted(cache.iterdir()) == sorted(folders[2:]), "not what was used within the last hour"


class TestLoading:
    @pytest.fixture
    def run(self, tiny: Any, tmp_path: Path) -> Path:
        from weft.training.train import train

        stack = {"kind": "transformer", "layers": 1, "hidden": 16, "heads": 2, "feed_forward": 24}
        changes = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in stack.items()}
        list(train(tiny({"search.stop": "finished", **changes, "training.steps": 2}), tmp_path / "run"))
        return tmp_path / "run"

    def test_nothing_in_a_run_folder_but_its_weights_answers(self, run: Path, cache: Path, make: Make) -> None:
        sources = ["a b c", "b a"] * 20
        expected = [result.text for result in load(run, engine="torch").translate(sources)]
        before = sorted(path.name for path in run.iterdir())
        planted = shutil.copytree(run, run.with_name("planted"))
        tensors, metadata = read_tensors(planted / "model.safetensors")
        write_tensors(planted / "model.safetensors", {name: -3 * tensor for name, tensor in tensors.items()}, metadata)
        assert [result.text for result in load(planted, engine="torch").translate(sources)] != expected
        for quantization in ("float32", "int8"):
            folder = export(load_run(planted), run / f"ctranslate2-{quantization}", quantization=quantization)
            stat = (run / "model.safetensors").stat()
            info = json.loads((folder / "weft.json").read_text())
            info["export"]["weights"] = [stat.st_size, stat.st_mtime_ns]  # what earlier versions trusted
            (folder / "weft.json").write_text(json.dumps(info))
            (folder / "model.bin").write_bytes(b"no parser sees this")
        assert [result.text for result in load(run, engine="ctranslate2").translate(sources)] == expected
        assert sorted(path.name for path in run.iterdir()) == sorted(
            [*before, "ctranslate2-float32", "ctranslate2-int8"]
        )
        assert len(list(cache.iterdir())) == 1

    def test_few_target_tokens_are_no_reason_to_refuse(self, run: Path, cache: Path) -> None:
        """Unless search.stop is set, a search that must be CTranslate2's stops as CTranslate2 does."""
        text = (run / "recipe.toml").read_text("utf-8")
        (run / "recipe.toml").write_text(text.replace('stop = "finished"\n', ""), "utf-8")
        ours, theirs = (load(run, engine=engine) for engine in ("torch", "ctranslate2"))
        assert ours.search_settings({}).stop == "outranked" and theirs.search_settings({}).stop == "finished"
        sources = ["a b c", "b a"]
        expected = [result.text for result in ours.translate(sources, stop="finished")]
        assert [result.text for result in theirs.translate(sources)] == expected
        with pytest.raises(SearchError, match=r"search\.stop: 'outranked' is not known to CTranslate2"):
            theirs.translate(sources, stop="outranked")

    @pytest.mark.parametrize("where", ["a file", "a read-only folder", "no home"])
    def test_a_cache_that_cannot_be_written(
        self, make: Make, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if where == "a file":
            (tmp_path / "cache").write_text("mine")
            monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
        elif where == "no home":
            monkeypatch.setattr(cache_module, "cache_folder", lambda: None)
        else:
            monkeypatch.setenv("WEFT_CACHE", "/proc/weft")
        engine = load_exported(make(), threads=1)
        folder = engine.folder
        assert folder.is_dir() and engine.translate is not None
        del engine
        assert not folder.exists(), "it was temporary"


def test_hash_of_tensors() -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.zeros(2)}
    same = {"b": torch.zeros(2), "a": torch.arange(6.0).view(3, 2).T.contiguous().T.reshape(2, 3)}
    assert hash_tensors(tensors) == hash_tensors(same)
    changes = [
        {**tensors, "b": torch.tensor([0.0, -0.0])},
        {**tensors, "b": torch.zeros(2, dtype=torch.bfloat16)},
        {**tensors, "b": torch.zeros(1, 2)},
        {"a": tensors["a"]},
        {"a": tensors["a"], "c": tensors["b"]},
    ]
    assert len({hash_tensors(tensors), *map(hash_tensors, changes)}) == 6
