"""The run folder: created and checkpointed as a whole; every way it can be wrong has its own line."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from weft.errors import CheckpointError
from weft.files import save_text
from weft.recipe import load_recipe
from weft.runs.layout import Checkpoint, RunFolder
from weft.runs.weights import FORMAT, read_tensors, write_tensors
from weft.training.train import train

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(5)}


def refusal(action, *arguments, error=CheckpointError):
    with pytest.raises(error) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def resume(run):
    """The first event of the run as it goes on."""
    return next(train(load_recipe(run.recipe), run.path, resume=True))


class TestResuming:
    def newest(self, run):
        [folder] = run.training.glob("step-*")
        return folder

    def test_an_untouched_run(self, run):
        assert resume(run).step == 2

    def test_no_folder(self, tiny, tmp_path):
        events = train(tiny(), tmp_path / "none", resume=True)
        assert refusal(next, events).startswith(f"{tmp_path / 'none'}: no such run folder; ")

    def test_no_checkpoint(self, run):
        shutil.rmtree(self.newest(run))
        expected = f"{run.training}: no checkpoint to resume from; the folder is incomplete"
        assert refusal(resume, run) == expected

    def test_no_training_folder(self, run):
        shutil.rmtree(run.training)
        expected = f"{run.training}: no checkpoint to resume from; the folder is incomplete"
        assert refusal(resume, run) == expected

    def test_other_names_are_no_checkpoints(self, run):
        (run.training / "step-old").mkdir()
        (run.training / "step-99").mkdir()  # a kill while it was removed
        assert resume(run).step == 2

    @pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors"])
    def test_a_missing_file(self, run, name):
        (self.newest(run) / name).unlink()
        assert refusal(resume, run) == f"{self.newest(run) / name}: missing; the run folder is incomplete"

    @pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors"])
    def test_a_damaged_file(self, run, name):
        path = self.newest(run) / name
        path.write_bytes(path.read_bytes()[:-8])
        assert refusal(resume, run).startswith(f"{path}: damaged (")

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"step": 1,'])
    def test_a_damaged_state(self, run, content):
        path = self.newest(run) / "state.json"
        path.write_bytes(content)
        assert refusal(resume, run).startswith(f"{path}: damaged; it is not valid JSON (")

    @pytest.mark.parametrize("content", ["{}", "[]", "3", '{"step": "x", "best": 3}', '{"best": [{"stp": 1}]}'])
    def test_a_state_that_is_none(self, run, content):
        path = self.newest(run) / "state.json"
        path.write_text(content, "utf-8")
        assert refusal(resume, run).startswith(f"{path}: damaged")

    def test_a_newer_state(self, run):
        path = self.newest(run) / "state.json"
        state = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**state, "weft_format": FORMAT + 1}), "utf-8")
        assert "written by a newer weft" in refusal(resume, run)

    def test_a_state_of_the_older_format(self, run):
        path = self.newest(run) / "state.json"
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "weft_format": 1}), "utf-8")
        assert refusal(resume, run).startswith(f"{path}: written by an older weft (format 1; ")

    @pytest.mark.parametrize("name", ["step", "stage", "epoch", "pool", "batch"])
    def test_a_position_that_is_none(self, run, name):
        path = self.newest(run) / "state.json"
        state = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**state, name: "x", "crc32": None}), "utf-8")
        assert refusal(resume, run) == f"{path}: damaged at {name!r}"

    def test_weights_that_do_not_fit(self, run):
        write_tensors(self.newest(run) / "weights.safetensors", TENSORS)
        assert "does not fit its recipe: it lacks tensor" in refusal(resume, run)

    def test_an_optimizer_that_does_not_fit(self, run):
        write_tensors(self.newest(run) / "optimizer.safetensors", TENSORS)
        assert str(self.newest(run)) in refusal(resume, run)

    def test_an_optimizer_of_other_shapes(self, run):
        path = self.newest(run) / "optimizer.safetensors"
        found = read_tensors(path).tensors
        write_tensors(
            path, {name: one if "random" in name or not one.dim() else one[:1] for name, one in found.items()}
        )
        assert str(self.newest(run)) in refusal(resume, run)

    def test_the_newest_counts(self, run):
        old = read_tensors(self.newest(run) / "weights.safetensors").tensors
        state = json.loads((self.newest(run) / "state.json").read_text("utf-8"))
        shutil.copytree(self.newest(run), run.training / "step-10")
        (run.training / "step-10" / "state.json").write_text(json.dumps({**state, "step": 10, "crc32": None}), "utf-8")
        found = run.read_checkpoint()
        assert found.state["step"] == 10 and found.weights.keys() == old.keys()


class TestCreating:
    def test_appears_as_a_whole(self, tmp_path):
        path = tmp_path / "a" / "b" / "run"

        def fill(new):
            assert not path.exists()
            new.recipe.write_text("")

        folder = RunFolder.create(path, fill)
        assert folder.recipe.is_file() and folder.best.is_dir()
        assert [one.name for one in path.parent.iterdir()] == ["run"]

    @pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), CheckpointError("x")])
    def test_all_or_nothing(self, tmp_path, error):
        def fill(new):
            new.recipe.write_text("")
            raise error

        with pytest.raises(type(error)):
            RunFolder.create(tmp_path / "run", fill)
        assert list(tmp_path.iterdir()) == []

    def test_an_existing_folder_is_refused_and_left_alone(self, run):
        before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
        expected = f"{run.path}: already exists; continue it with resume=True, or choose another out"
        assert refusal(RunFolder.create, run.path, lambda new: None) == expected
        assert refusal(next, train(load_recipe(run.recipe), run.path)) == expected
        assert before == {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    def test_an_existing_file_is_refused(self, tmp_path):
        (tmp_path / "run").write_text("mine")
        assert "already exists" in refusal(RunFolder.create, tmp_path / "run", lambda new: None)
        assert (tmp_path / "run").read_text() == "mine"


class TestCheckpoints:
    def make(self, tmp_path):
        return RunFolder.create(tmp_path / "run", lambda new: new.recipe.write_text(""))

    def test_come_back(self, tmp_path):
        folder = self.make(tmp_path)
        folder.write_checkpoint(3, Checkpoint(TENSORS, {"0.step": torch.tensor(3.0)}, {"step": 3, "best": []}))
        found = folder.read_checkpoint()
        assert found.state["step"] == 3 and torch.equal(found.weights["a"], TENSORS["a"])
        assert found.optimizer["0.step"].shape == ()

    def test_older_ones_go(self, tmp_path):
        folder = self.make(tmp_path)
        for step in (3, 20, 100):
            path = folder.write_checkpoint(step, Checkpoint(TENSORS, {}, {"step": step}))
            folder.prune(step, [])
        assert path == folder.training / "step-100"
        assert sorted(one.name for one in folder.training.iterdir()) == ["best", "step-100"]

    def test_the_best_stay(self, tmp_path):
        folder = self.make(tmp_path)
        for step in (1, 2, 3):
            write_tensors(folder.best / f"step-{step}.safetensors", TENSORS)
        folder.prune(3, [2])
        assert [one.name for one in folder.best.iterdir()] == ["step-2.safetensors"]


class TestLog:
    def test_what_comes_after_a_step_is_forgotten(self, tmp_path):
        folder = RunFolder(tmp_path)
        folder.truncate_log(3)
        for step in (1, 2, 3, 3, 4):
            folder.append_log({"step": step, "text": "\u2028é"})
        with folder.log.open("ab") as file:
            file.write(b'{"step": 2, "text": "a bad byte: \xff"}\n{"step": 2, "text": "cut sh')
        folder.truncate_log(3)
        assert [json.loads(line)["step"] for line in folder.log.read_text("utf-8").splitlines()] == [1, 2, 3, 3]


class TestWhatIsNotOurs:
    """Nothing outside a run folder is written or removed, and nothing inside it that weft did not make."""

    def contents(self, folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    @pytest.mark.parametrize("name", ["training", "training/best", "training/step-2", "log.jsonl", "tensorboard"])
    def test_a_link_is_not_resumed_through(self, run, tmp_path, name):
        outside = tmp_path / "outside"
        if (run.path / name).exists():
            (run.path / name).rename(outside)
        else:
            outside.mkdir()
        if outside.is_dir():
            (outside / "step-7").mkdir()
            (outside / "step-9.safetensors").write_text("mine")
        (run.path / name).symlink_to(outside)
        before = self.contents(tmp_path)
        assert refusal(resume, run).startswith(f"{run.path / name}: is a symbolic link; ")
        run.prune(2, [])
        assert (outside / "step-9.safetensors").exists() or outside.is_file()
        assert {path: before[path] for path in before if path.parts[0] == "outside"} == {
            path: content for path, content in self.contents(tmp_path).items() if path.parts[0] == "outside"
        }

    @pytest.mark.parametrize("name", ["model.safetensors", "README.md", "metrics.json"])
    def test_a_linked_file_is_replaced_and_not_followed(self, run, tmp_path, name):
        outside = tmp_path / "outside"
        (run.path / name).rename(outside)
        (run.path / name).symlink_to(outside)
        before = outside.read_bytes()
        recipe = load_recipe(run.recipe, ["training.steps=4"])
        assert list(train(recipe, run.path, resume=True))
        assert not (run.path / name).is_symlink() and outside.read_bytes() == before

    def test_a_linked_run_folder_is_resumed(self, run, tmp_path):
        (tmp_path / "link").symlink_to(run.path)
        assert list(train(load_recipe(run.recipe, ["training.steps=3"]), tmp_path / "link", resume=True))
        assert (tmp_path / "link").is_symlink() and (run.training / "step-3").is_dir()

    def test_links_inside_what_is_removed_are_not_followed(self, run, tmp_path):
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "mine").write_text("mine")
        (run.training / "step-1").mkdir()
        (run.training / "step-1" / "link").symlink_to(tmp_path / "outside")
        (run.training / ".step-8.part").symlink_to(tmp_path / "outside")
        run.prune(2, [])
        assert not (run.training / "step-1").exists() and not (run.training / ".step-8.part").is_symlink()
        assert (tmp_path / "outside" / "mine").read_text() == "mine"

    def test_the_own_files_of_a_user_survive(self, run):
        own = ["notes/a.txt", "training/notes/a.txt", "training/step-2-copy/a", "training/step-x/a", "training/a.txt"]
        own += [
            "training/best/notes.txt",
            "training/best/copy/a",
            ".notes.part",
            ".a.12.part",
            "training/best/.a.1.part",
        ]
        for name in own:
            (run.path / name).parent.mkdir(parents=True, exist_ok=True)
            (run.path / name).write_text("mine")
        ours = ["training/.step-1.part/a", "training/best/step-77.safetensors", ".model.safetensors.99.part"]
        for name in [*ours, "training/best/.step-7.safetensors.99.part", ".log.jsonl.9.part"]:
            (run.path / name).parent.mkdir(parents=True, exist_ok=True)
            (run.path / name).write_text("left behind")
        resume(run)
        left = {name for name in own if (run.path / name).is_file()}
        assert left == set(own)
        assert not [name for name in ours if (run.path / name).exists()]

    def test_a_planted_temporary_file_is_not_written_through(self, tmp_path):
        (tmp_path / "outside").write_text("mine")
        (tmp_path / f".a.json.{os.getpid()}.part").symlink_to(tmp_path / "outside")
        save_text(tmp_path / "a.json", "new")
        assert (tmp_path / "outside").read_text() == "mine" and (tmp_path / "a.json").read_text() == "new"
        assert not (tmp_path / "a.json").is_symlink()


class TestDurability:
    def test_files_are_on_the_disk_before_a_checkpoint_is_renamed(self, tmp_path, monkeypatch):
        """Else a power failure can leave a checkpoint whose name is there and whose content is not."""
        folder = RunFolder.create(tmp_path / "run", lambda new: new.recipe.write_text(""))
        calls, sync, rename = [], os.fsync, Path.rename

        def synced(handle):
            calls.append(("fsync", Path(f"/proc/self/fd/{handle}").readlink().name))
            sync(handle)

        def renamed(self, target):
            calls.append(("rename", self.name, Path(target).name))
            return rename(self, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "rename", renamed)
        folder.write_checkpoint(3, Checkpoint(TENSORS, {}, {"step": 3}))
        at = calls.index(("rename", ".step-3.part", "step-3"))
        before = [name for kind, name, *_ in calls[:at] if kind == "fsync"]
        for name in ("weights.safetensors", "optimizer.safetensors", "state.json"):
            assert any(name in synced_name for synced_name in before), f"{name} is written to the disk"
        assert calls[at - 1] == ("fsync", ".step-3.part"), "so are the entries of the folder, after all files"
        assert calls[at + 1 :] == [("fsync", "training")], "and then the entry of the folder itself"
