"""The run folder: every way it can be wrong has its own line, and nothing in it can run code."""

import ast
import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file

import weft
from weft.errors import CheckpointError, VocabularyError
from weft.translation.load import load
from weft.recipe import load_recipe
from weft.training.train import train
from weft.runs.folder import (
    FORMAT,
    Checkpoint,
    RunFolder,
    optimizer_tensors,
    read_tensors,
    restore_optimizer,
    write_tensors,
)

SOURCE = Path(weft.__file__).parent
SOME = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(5)}


@pytest.fixture
def run(finished, tmp_path):
    """A run folder to spoil."""
    return RunFolder(shutil.copytree(finished, tmp_path / "run"))


def refusal(action, *arguments, error=CheckpointError):
    with pytest.raises(error) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def resume(run):
    """The first event of the run as it goes on."""
    return next(train(load_recipe(run.recipe), run.path, resume=True))


class TestTensorFiles:
    def test_come_back(self, tmp_path):
        write_tensors(tmp_path / "x", SOME, {"step": "5"})
        found = read_tensors(tmp_path / "x")
        assert found.about == {"weft_format": str(FORMAT), "step": "5"}
        assert found.tensors.keys() == SOME.keys()
        assert all(torch.equal(found.tensors[name], SOME[name]) for name in SOME)
        assert [file.name for file in tmp_path.iterdir()] == ["x"]

    def test_of_a_transposed_view(self, tmp_path):
        write_tensors(tmp_path / "x", {"a": SOME["a"].t()})
        assert torch.equal(read_tensors(tmp_path / "x").tensors["a"], SOME["a"].t())

    def test_the_same_contents_are_the_same_bytes(self, tmp_path):
        about = {"step": "5", "tokenizer": "0123", "one": "1", "two": "2"}
        contents = set()
        for _ in range(8):
            write_tensors(tmp_path / "x", SOME, about)
            contents.add((tmp_path / "x").read_bytes())
        assert len(contents) == 1

    def test_missing(self, tmp_path):
        path = tmp_path / "x"
        assert refusal(read_tensors, path) == f"{path}: missing; the run folder is incomplete"

    def test_foreign(self, tmp_path):
        save_file(SOME, tmp_path / "x")
        assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: not written by weft")

    def test_newer(self, tmp_path):
        write_tensors(tmp_path / "x", SOME, {"weft_format": str(FORMAT + 1)})
        message = refusal(read_tensors, tmp_path / "x")
        assert message == (
            f"{tmp_path / 'x'}: written by a newer weft (format {FORMAT + 1}; this one reads up to {FORMAT}); "
            "update weft"
        )

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.99])
    def test_truncated(self, tmp_path, share):
        write_tensors(tmp_path / "x", SOME)
        content = (tmp_path / "x").read_bytes()
        (tmp_path / "x").write_bytes(content[: int(len(content) * share)])
        assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: damaged (")

    def test_longer(self, tmp_path):
        write_tensors(tmp_path / "x", SOME)
        with (tmp_path / "x").open("ab") as file:
            file.write(b"more")
        assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: damaged (")

    @pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"{}", b"PK\x03\x04" + bytes(50), b"\x80\x04." + bytes(9)])
    def test_something_else(self, tmp_path, content):
        (tmp_path / "x").write_bytes(content)
        assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: ")

    def test_a_folder(self, tmp_path):
        assert refusal(read_tensors, tmp_path).startswith(f"{tmp_path}: ")

    @given(place=st.integers(0, 10**6), value=st.integers(1, 255))
    @settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_a_flipped_byte_of_the_header_is_read_or_refused(self, tmp_path, place, value):
        content = bytearray(save(SOME, {"weft_format": "1"}))
        header = 8 + int.from_bytes(content[:8], "little")
        content[place % header] ^= value
        (tmp_path / "x").write_bytes(content)
        try:
            read_tensors(tmp_path / "x")
        except CheckpointError as error:
            assert "\n" not in str(error)


class TestLoading:
    def test_an_untouched_run(self, run):
        assert load(run.path).translate("a b").source == "a b"

    def test_no_folder(self, tmp_path):
        path = tmp_path / "none"
        message = f"{path}: no such run folder; train one with `weft train RECIPE --out {path}`"
        assert refusal(load, path) == message
        assert refusal(load, str(path)) == message

    def test_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        assert refusal(load, tmp_path / "file").startswith(f"{tmp_path / 'file'}: no such run folder")

    def test_some_other_folder(self, tmp_path):
        assert refusal(load, tmp_path) == f"{tmp_path}: not a run folder (it has no recipe.toml)"

    def test_no_model(self, run):
        run.model.unlink()
        assert refusal(load, run.path) == f"{run.model}: missing; the run folder is incomplete"

    def test_half_a_model(self, run):
        run.model.write_bytes(run.model.read_bytes()[:-100])
        assert refusal(load, run.path).startswith(f"{run.model}: damaged (")

    def test_a_spoilt_header(self, run):
        content = bytearray(run.model.read_bytes())
        content[7] ^= 0x40
        run.model.write_bytes(content)
        assert refusal(load, run.path).startswith(f"{run.model}: damaged (")

    def test_a_foreign_model(self, run):
        save_file(SOME, run.model)
        assert refusal(load, run.path) == f"{run.model}: not written by weft (it names no format version)"

    def test_a_newer_model(self, run):
        found = read_tensors(run.model)
        write_tensors(run.model, found.tensors, {**found.about, "weft_format": "99"})
        assert refusal(load, run.path).startswith(f"{run.model}: written by a newer weft (format 99; ")

    def test_no_tokenizer(self, run):
        (run.path / "tokenizer.json").unlink()
        assert refusal(load, run.path) == f"{run.path / 'tokenizer.json'}: missing; the run folder is incomplete"

    def test_half_the_tokenizers(self, run):
        (run.path / "tokenizer.json").rename(run.path / "tokenizer.source.json")
        missing = run.path / "tokenizer.target.json"
        assert refusal(load, run.path) == f"{missing}: missing; the run folder is incomplete"

    def test_another_tokenizer(self, run):
        path = run.path / "tokenizer.json"
        tokenizer = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(tokenizer, indent=3), "utf-8")
        assert refusal(load, run.path) == (
            f"{run.path}: the tokenizer is not the one this model was trained with; restore the tokenizer file"
        )

    def test_a_spoilt_tokenizer(self, run):
        path = run.path / "tokenizer.json"
        path.write_text("{", "utf-8")
        assert refusal(load, run.path, error=VocabularyError).startswith(f"{path}: damaged")

    def test_tensors_of_another_shape(self, run):
        found = read_tensors(run.model)
        name = next(name for name, tensor in found.tensors.items() if tensor.dim() == 2)
        shape = tuple(found.tensors[name].shape)
        write_tensors(run.model, {**found.tensors, name: torch.zeros(1, 2)}, found.about)
        assert refusal(load, run.path) == (
            f"{run.model}: does not fit its recipe: tensor {name!r} is (1, 2), expected {shape}"
        )

    def test_a_tensor_too_few(self, run):
        found = read_tensors(run.model)
        name = sorted(found.tensors)[0]
        del found.tensors[name]
        write_tensors(run.model, found.tensors, found.about)
        assert refusal(load, run.path) == f"{run.model}: does not fit its recipe: it lacks tensor {name!r}"

    def test_a_tensor_too_many(self, run):
        found = read_tensors(run.model)
        write_tensors(run.model, {**found.tensors, "more": torch.ones(1)}, found.about)
        assert refusal(load, run.path) == f"{run.model}: does not fit its recipe: it has an unknown tensor 'more'"

    def test_another_recipe(self, run):
        text = run.recipe.read_text("utf-8")
        run.recipe.write_text(text.replace("hidden = 16", "hidden = 14"), "utf-8")
        assert refusal(load, run.path).startswith(f"{run.model}: does not fit its recipe: tensor ")

    def test_two_tokenizers(self, tiny, tmp_path):
        assert list(train(tiny({"tokenizer.joint": False, "training.steps": 1}), tmp_path / "run"))
        found = load(tmp_path / "run")
        assert not found.tokenizers.joint and not (tmp_path / "run" / "tokenizer.json").exists()


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
        assert refusal(resume, run) == f"{path}: damaged; it is not valid JSON"

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

    def test_an_older_state(self, run):
        """Positions in the data meant something else before there were pools."""
        path = self.newest(run) / "state.json"
        state = json.loads(path.read_text("utf-8"))
        assert {"stage", "epoch", "pool", "batch"} <= state.keys()
        older = {name: value for name, value in state.items() if name not in ("stage", "pool")}
        path.write_text(json.dumps(older), "utf-8")
        assert refusal(resume, run) == (
            f"{self.newest(run)}: written by an older weft, which read its data in another order; train anew, or begin "
            f"a new run with its weights: --from {run.path}"
        )

    @pytest.mark.parametrize("name", ["step", "stage", "epoch", "pool", "batch"])
    def test_a_position_that_is_none(self, run, name):
        path = self.newest(run) / "state.json"
        state = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**state, name: "x"}), "utf-8")
        assert refusal(resume, run) == f"{path}: damaged at {name!r}"

    def test_weights_that_do_not_fit(self, run):
        write_tensors(self.newest(run) / "weights.safetensors", SOME)
        assert "does not fit its recipe: it lacks tensor" in refusal(resume, run)

    def test_an_optimizer_that_does_not_fit(self, run):
        write_tensors(self.newest(run) / "optimizer.safetensors", SOME)
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
        (run.training / "step-10" / "state.json").write_text(json.dumps({**state, "step": 10}), "utf-8")
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
        expected = f"{run.path}: exists already; go on with --resume, or choose another folder with --out"
        assert refusal(RunFolder.create, run.path, lambda new: None) == expected
        assert refusal(next, train(load_recipe(run.recipe), run.path)) == expected
        assert before == {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    def test_an_existing_file_is_refused(self, tmp_path):
        (tmp_path / "run").write_text("mine")
        assert "exists already" in refusal(RunFolder.create, tmp_path / "run", lambda new: None)
        assert (tmp_path / "run").read_text() == "mine"


class TestCheckpoints:
    def make(self, tmp_path):
        return RunFolder.create(tmp_path / "run", lambda new: new.recipe.write_text(""))

    def test_come_back(self, tmp_path):
        folder = self.make(tmp_path)
        folder.write_checkpoint(3, Checkpoint(SOME, {"0.step": torch.tensor(3.0)}, {"step": 3, "best": []}))
        found = folder.read_checkpoint()
        assert found.state["step"] == 3 and torch.equal(found.weights["a"], SOME["a"])
        assert found.optimizer["0.step"].shape == ()

    def test_older_ones_go(self, tmp_path):
        folder = self.make(tmp_path)
        for step in (3, 20, 100):
            path = folder.write_checkpoint(step, Checkpoint(SOME, {}, {"step": step}))
            folder.prune(step, [])
        assert path == folder.training / "step-100"
        assert sorted(one.name for one in folder.training.iterdir()) == ["best", "step-100"]

    def test_the_best_stay(self, tmp_path):
        folder = self.make(tmp_path)
        for step in (1, 2, 3):
            write_tensors(folder.best / f"step-{step}.safetensors", SOME)
        folder.prune(3, [2])
        assert [one.name for one in folder.best.iterdir()] == ["step-2.safetensors"]


class TestLog:
    def test_what_comes_after_a_step_is_forgotten(self, tmp_path):
        folder = RunFolder(tmp_path)
        folder.cut_log(3)
        for step in (1, 2, 3, 3, 4):
            folder.append_log({"step": step, "text": "\u2028é"})
        with folder.log.open("a") as file:
            file.write('{"step": 2, "text": "cut sh')
        folder.cut_log(3)
        assert [json.loads(line)["step"] for line in folder.log.read_text("utf-8").splitlines()] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=True),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
    ],
    ids=["adamw", "momentum", "sgd"],
)
def test_a_restored_optimizer_goes_on_the_same_way(make):
    def steps(parameter, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()

    first = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = make([first])
    steps(first, optimizer, 3)
    second = torch.nn.Parameter(first.detach().clone())
    other = make([second])
    restore_optimizer(other, {name: one.clone() for name, one in optimizer_tensors(optimizer).items()}, where="x")
    steps(first, optimizer, 3)
    steps(second, other, 3)
    assert torch.equal(first, second)


TALKS_TO_ITSELF = SOURCE / "data" / "processes.py"
"""Pickles between a process and the children it started itself; it loads nothing from anywhere."""
FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


@pytest.mark.parametrize(
    "path", sorted({*SOURCE.rglob("*.py")} - {TALKS_TO_ITSELF}), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_nothing_that_is_loaded_can_run_code(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & FORBIDDEN
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in FORBIDDEN
            assert not (node.module == "torch" and {"load", "save"} & {alias.name for alias in node.names})
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("torch", "load"), ("torch", "save")}
            assert node.value.id not in FORBIDDEN
        elif isinstance(node, ast.Call):
            assert not (isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec", "__import__"})
            assert not any(keyword.arg == "allow_pickle" for keyword in node.keywords)
