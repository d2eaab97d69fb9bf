"""Loading a run folder: every way it can be wrong has its own line."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from weft.errors import CheckpointError, RecipeError, VocabularyError
from weft.runs.weights import read_tensors, write_tensors
from weft.training.train import train
from weft.translation.load import load

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(5)}


def refusal(action, *arguments, error=CheckpointError):
    with pytest.raises(error) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_untouched_run(run):
    assert load(run.path).translate("a b").source == "a b"


def test_no_folder(tmp_path):
    path = tmp_path / "none"
    message = f"{path}: no such run folder; train one with `weft train RECIPE --out {path}`"
    assert refusal(load, path) == message
    assert refusal(load, str(path)) == message


def test_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert refusal(load, tmp_path / "file").startswith(f"{tmp_path / 'file'}: no such run folder")


def test_some_other_folder(tmp_path):
    assert refusal(load, tmp_path) == f"{tmp_path}: not a run folder (it has no recipe.toml)"


def test_no_model(run):
    run.model.unlink()
    assert refusal(load, run.path) == f"{run.model}: missing; the run folder is incomplete"


def test_half_a_model(run):
    run.model.write_bytes(run.model.read_bytes()[:-100])
    assert refusal(load, run.path).startswith(f"{run.model}: damaged (")


def test_a_spoilt_header(run):
    content = bytearray(run.model.read_bytes())
    content[7] ^= 0x40
    run.model.write_bytes(content)
    assert refusal(load, run.path).startswith(f"{run.model}: damaged (")


def test_a_foreign_model(run):
    save_file(TENSORS, run.model)
    assert refusal(load, run.path) == f"{run.model}: not written by weft (it names no format version)"


def test_a_newer_model(run):
    found = read_tensors(run.model)
    write_tensors(run.model, found.tensors, {**found.metadata, "weft_format": "99"})
    assert refusal(load, run.path).startswith(f"{run.model}: written by a newer weft (format 99; ")


def test_no_tokenizer(run):
    (run.path / "tokenizer.json").unlink()
    assert refusal(load, run.path) == f"{run.path / 'tokenizer.json'}: missing; the run folder is incomplete"


def test_half_the_tokenizers(run):
    (run.path / "tokenizer.json").rename(run.path / "tokenizer.source.json")
    missing = run.path / "tokenizer.target.json"
    assert refusal(load, run.path) == f"{missing}: missing; the run folder is incomplete"


def test_another_tokenizer(run):
    path = run.path / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(tokenizer, indent=3), "utf-8")
    assert refusal(load, run.path) == (
        f"{run.path}: the tokenizer is not the one this model was trained with; restore the tokenizer file"
    )


def test_a_spoilt_tokenizer(run):
    path = run.path / "tokenizer.json"
    path.write_text("{", "utf-8")
    assert refusal(load, run.path, error=VocabularyError).startswith(f"{path}: damaged")


def test_tensors_of_another_shape(run):
    found = read_tensors(run.model)
    name = next(name for name, tensor in found.tensors.items() if tensor.dim() == 2)
    shape = tuple(found.tensors[name].shape)
    write_tensors(run.model, {**found.tensors, name: torch.zeros(1, 2)}, found.metadata)
    assert refusal(load, run.path) == (
        f"{run.model}: does not fit its recipe: tensor {name!r} is (1, 2), expected {shape}"
    )


def test_a_tensor_too_few(run):
    found = read_tensors(run.model)
    name = sorted(found.tensors)[0]
    del found.tensors[name]
    write_tensors(run.model, found.tensors, found.metadata)
    assert refusal(load, run.path) == f"{run.model}: does not fit its recipe: it lacks tensor {name!r}"


def test_a_tensor_too_many(run):
    found = read_tensors(run.model)
    write_tensors(run.model, {**found.tensors, "more": torch.ones(1)}, found.metadata)
    assert refusal(load, run.path) == f"{run.model}: does not fit its recipe: it has an unknown tensor 'more'"


def test_another_recipe(run):
    text = run.recipe.read_text("utf-8")
    run.recipe.write_text(text.replace("hidden = 16", "hidden = 14"), "utf-8")
    assert refusal(load, run.path).startswith(f"{run.model}: does not fit its recipe: tensor ")


def test_two_tokenizers(tiny, tmp_path):
    assert list(train(tiny({"tokenizer.joint": False, "training.steps": 1}), tmp_path / "run"))
    found = load(tmp_path / "run")
    assert not found.tokenizers.joint and not (tmp_path / "run" / "tokenizer.json").exists()


def test_a_run_of_format_1_is_refused_before_its_recipe_is_read(run):
    found = read_tensors(run.model)
    write_tensors(run.model, found.tensors, {**found.metadata, "weft_format": "1"})
    run.recipe.write_text('[training]\noptimiser = "adamw"\n', "utf-8")
    message = refusal(load, run.path)
    assert message.startswith(f"{run.model}: written by an older weft (format 1; ")
    assert message.endswith("train again, or use the weft that wrote it")


def test_a_run_folder_is_checked_without_torch(run):
    statement = f"from weft.runs.layout import RunFolder; RunFolder({str(run.path)!r}).check()"
    code = f"import sys; {statement}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


MAX_MODULES = 114
"""Modules of weft that loading a run and translating with it may import."""
NOT_NEEDED = (
    "weft.pictures.html",
    "weft.apps.reporting",
    "weft.training",
    "weft.data.filtering",
    "weft.tasks",
    "weft.data.preparation",
)


PACKAGES = {
    "annotated_doc",
    "annotated_types",
    "click",
    "pydantic",
    "pydantic_core",
    "safetensors",
    "shellingham",
    "tokenizers",
    "typer",
    "typing_inspection",
    "weft",
}
"""All that translating may import beside torch and what torch itself imports."""
TRANSFORMERS = """
from weft.models.build import parameter_shapes
from weft.recipe import ModelSettings
for positions in ("sinusoidal", "rotary", "alibi", "relative"):
    stack = {"kind": "transformer", "positions": positions}
    parameter_shapes(ModelSettings(encoder=stack, decoder=stack), source_size=7, target_size=5)
for score in ("additive", "concat"):
    parameter_shapes(ModelSettings(attention={"score": score}), source_size=7, target_size=5)
"""


def modules_after(code, *arguments):
    """The modules that a process has imported after running some code, without those of torch itself."""
    code = f"""
import json, sys, torch
of_torch, packages_of_torch = set(sys.modules), {{module.split(".")[0] for module in sys.modules}}
{code}
new = set(sys.modules) - of_torch
print(json.dumps([module for module in new if module.split(".")[0] in ("torch", "weft")
    or module.split(".")[0] not in (packages_of_torch | set(sys.stdlib_module_names))]))
"""
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def is_of(module, packages):
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def check_imports(modules):
    """Nothing heavy: every module costs time at the start of every command."""
    packages = {module.split(".")[0] for module in modules if not module.startswith(("torch.", "_"))}
    assert packages <= PACKAGES
    heavy = ("torch._dynamo", "torch._inductor", "torch.fx.experimental", "torch._refs")
    assert not [module for module in modules if is_of(module, (*NOT_NEEDED, *heavy))]


def test_using_a_model_does_not_import_what_trained_it(finished):
    code = "import weft\nweft.load(sys.argv[1], device='cpu').translate(['a b', 'c'])"
    modules = modules_after(code, str(finished))
    check_imports(modules)
    modules_of_weft = [module for module in modules if is_of(module, ["weft"])]
    assert len(modules_of_weft) <= MAX_MODULES, sorted(modules_of_weft)


def test_the_command_does_not_either(finished, tmp_path):
    (tmp_path / "lines").write_text("a b\n", "utf-8")
    code = f"from weft.apps.cli import app\napp(sys.argv[1:], standalone_mode=False)\n{TRANSFORMERS}"
    modules = modules_after(code, "translate", str(finished), str(tmp_path / "lines"), "--device", "cpu")
    check_imports(modules)
    assert "weft.apps.cli.commands.translate" in modules and not {
        "weft.apps.cli.commands.train",
        "weft.apps.cli.commands.data",
        "weft.apps.cli.commands.lab",
    } & {*modules}


def test_the_recipe_of_a_run_reads_no_other_file(run):
    run.recipe.write_text('extends = "/dev/zero"\n' + run.recipe.read_text("utf-8"), "utf-8")
    expected = f"{run.recipe}: extends: the recipe of a run names all settings and reads no other file; remove it"
    assert refusal(load, run.path, error=RecipeError) == expected
