"""Tensor files: atomic, reproducible, and every way they can be wrong has a message of its own."""

import ast
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file

import weft
from weft.errors import CheckpointError
from weft.runs.weights import FORMAT, check_tensor_format, load_weights, read_tensors, write_tensors

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(5)}


def refusal(action, *arguments, error=CheckpointError):
    with pytest.raises(error) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_tensors_and_metadata_come_back(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, {"step": "5"})
    found = read_tensors(tmp_path / "x")
    assert found.metadata == {"weft_format": str(FORMAT), "step": "5"}
    assert found.tensors.keys() == TENSORS.keys()
    assert all(torch.equal(found.tensors[name], TENSORS[name]) for name in TENSORS)
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


def test_a_transposed_view(tmp_path):
    write_tensors(tmp_path / "x", {"a": TENSORS["a"].t()})
    assert torch.equal(read_tensors(tmp_path / "x").tensors["a"], TENSORS["a"].t())


def test_the_same_contents_are_the_same_bytes(tmp_path):
    metadata = {"step": "5", "tokenizer": "0123", "one": "1", "two": "2"}
    contents = set()
    for _ in range(8):
        write_tensors(tmp_path / "x", TENSORS, metadata)
        contents.add((tmp_path / "x").read_bytes())
    assert len(contents) == 1


def test_a_missing_file(tmp_path):
    path = tmp_path / "x"
    assert refusal(read_tensors, path) == f"{path}: missing; the run folder is incomplete"


def test_a_file_that_weft_did_not_write(tmp_path):
    save_file(TENSORS, tmp_path / "x")
    assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: not written by weft")


def test_a_newer_format(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, {"weft_format": str(FORMAT + 1)})
    message = refusal(read_tensors, tmp_path / "x")
    assert message == (
        f"{tmp_path / 'x'}: written by a newer weft (format {FORMAT + 1}; this one reads {FORMAT}); update weft"
    )


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.3, 0.6, 0.99])
def test_a_truncated_file(tmp_path, fraction):
    write_tensors(tmp_path / "x", TENSORS)
    content = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(content[: int(len(content) * fraction)])
    assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: damaged (")


def test_a_file_with_bytes_appended(tmp_path):
    write_tensors(tmp_path / "x", TENSORS)
    with (tmp_path / "x").open("ab") as file:
        file.write(b"more")
    assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: damaged (")


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"{}", b"PK\x03\x04" + bytes(50), b"\x80\x04." + bytes(9)])
def test_a_file_that_is_not_safetensors(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    assert refusal(read_tensors, tmp_path / "x").startswith(f"{tmp_path / 'x'}: ")


def test_a_folder(tmp_path):
    assert refusal(read_tensors, tmp_path).startswith(f"{tmp_path}: ")


@given(place=st.integers(0, 10**6), value=st.integers(1, 255))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_byte_of_the_header_is_read_or_refused(tmp_path, place, value):
    content = bytearray(save(TENSORS, {"weft_format": str(FORMAT)}))
    header = 8 + int.from_bytes(content[:8], "little")
    content[place % header] ^= value
    (tmp_path / "x").write_bytes(content)
    try:
        read_tensors(tmp_path / "x")
    except CheckpointError as error:
        assert "\n" not in str(error)


def test_an_older_format(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, {"weft_format": "1"})
    expected = (
        f"{tmp_path / 'x'}: written by an older weft (format 1; this one reads {FORMAT}, which renamed parameters and "
        "settings); train again, or use the weft that wrote it"
    )
    assert refusal(read_tensors, tmp_path / "x") == refusal(check_tensor_format, tmp_path / "x") == expected


def test_the_format_of_a_damaged_file_is_left_to_its_reader(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    check_tensor_format(tmp_path / "x")
    check_tensor_format(tmp_path / "missing")


FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
SOURCE = Path(weft.__file__).parent
CHECKPOINTS = SOURCE / "interop/checkpoints/safe_loading.py"
CHILDREN = {SOURCE / "data/store/worker_processes.py", SOURCE / "fast/recording/compiler_process.py"}
"""Pickles between a process and the children it started itself; they load nothing from anywhere."""


def unsafe(node):
    """Whether a syntax node imports or calls something that runs code from a file."""
    if isinstance(node, ast.Import):
        return bool({alias.name.split(".")[0] for alias in node.names} & FORBIDDEN)
    if isinstance(node, ast.ImportFrom):
        loads = node.module == "torch" and {"load", "save"} & {alias.name for alias in node.names}
        return bool(loads) or (node.module or "").split(".")[0] in FORBIDDEN
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return (node.value.id, node.attr) in {("torch", "load"), ("torch", "save")} or node.value.id in FORBIDDEN
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        pickles = any(
            keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False" for keyword in node.keywords
        )
        return called in {"eval", "exec", "__import__"} or pickles
    return False


def test_nothing_that_is_loaded_can_run_code():
    assert all(path.is_file() for path in CHILDREN)
    for path in sorted({*SOURCE.rglob("*.py")} - {*CHILDREN, CHECKPOINTS}):
        lines = [node.lineno for node in ast.walk(ast.parse(path.read_text("utf-8"))) if unsafe(node)]
        assert not lines, f"{path}:{lines}"


def test_checkpoints_of_other_toolkits_are_read_as_weights_only():
    nodes = [*ast.walk(ast.parse(CHECKPOINTS.read_text("utf-8")))]
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"]
    assert calls and sum(unsafe(node) for node in nodes) == len(calls)
    for call in calls:
        assert "weights_only=True" in {ast.unparse(keyword) for keyword in call.keywords}


def test_every_flipped_bit_is_noticed(tmp_path):
    """In the header or in the data: tensors are not loaded with another value, name or step."""
    write_tensors(tmp_path / "x", TENSORS, {"step": "5"})
    content = (tmp_path / "x").read_bytes()
    key = range(content.index(b"crc32"), content.index(b"crc32") + 5)
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        (tmp_path / "y").write_bytes(damaged)
        if position not in key:  # without the word, the file is one without a checksum
            refusal(read_tensors, tmp_path / "y")
    damaged = bytearray(content)
    damaged[-1] ^= 64
    (tmp_path / "y").write_bytes(damaged)
    assert refusal(read_tensors, tmp_path / "y") == (
        f"{tmp_path / 'y'}: damaged (its content does not match its checksum); restore it from a copy, or train again"
    )


def test_a_file_without_a_checksum(tmp_path):
    """As weft 0.1.0 wrote them."""
    save_file(TENSORS, tmp_path / "x", metadata={"weft_format": str(FORMAT), "step": "5"})
    assert torch.equal(read_tensors(tmp_path / "x").tensors["b"], TENSORS["b"])


def test_tensors_of_every_type_and_shape(tmp_path):
    tensors = {
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 3),
        "half": torch.arange(5.0).half(),
        "brain": torch.arange(7.0).bfloat16(),
        "ids": torch.arange(3),
        "large": torch.arange(2.0**19).view(2, -1),
        "mask": torch.tensor([True, False, True]),
    }
    write_tensors(tmp_path / "x", tensors)
    read = read_tensors(tmp_path / "x").tensors
    torch.testing.assert_close(read, tensors, rtol=0, atol=0)


def test_a_type_that_weft_does_not_read(tmp_path):
    write_tensors(tmp_path / "x", {"a": torch.zeros(3, dtype=torch.complex64)})
    assert (
        refusal(read_tensors, tmp_path / "x")
        == f"{tmp_path / 'x'}: tensor 'a' is of type C64, which weft does not read"
    )


def test_weights_are_copied_or_assigned():
    model = torch.nn.Linear(3, 2)
    tensors = {"weight": torch.ones(2, 3), "bias": torch.zeros(2, dtype=torch.float64)}
    load_weights(model, tensors, where="x")
    assert model.weight.equal(tensors["weight"]) and model.weight.data_ptr() != tensors["weight"].data_ptr()
    load_weights(model, tensors, where="x", assign=True)
    assert model.weight.data_ptr() == tensors["weight"].data_ptr() and model.bias.dtype == torch.float32
