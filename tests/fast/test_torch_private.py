"""Functions that PyTorch does not document exist and do what they are used for; optimizers import no compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from weft.fast.torch_private import addmm_activation, eager_optimizer_class, foreach_copy_, torch_lstm_cell
from weft.training.optimizer import OPTIMIZERS

OPTIONS = {"sgd": {"momentum": 0.9}, "adam": {}, "adamw": {"weight_decay": 0.1}}


def test_copies_of_many_tensors() -> None:
    originals, copies = [torch.randn(2, 3), torch.randn(5)], [torch.zeros(2, 3), torch.zeros(5, dtype=torch.bfloat16)]
    foreach_copy_(copies, originals)
    torch.testing.assert_close(copies, [originals[0], originals[1].bfloat16()])


def test_product_and_relu() -> None:
    bias_F, inputs_ND, weight_DF = torch.randn(5), torch.randn(7, 3), torch.randn(3, 5)
    torch.testing.assert_close(addmm_activation(bias_F, inputs_ND, weight_DF), (inputs_ND @ weight_DF + bias_F).relu())


def test_what_runs_on_a_gpu_alone_exists() -> None:
    assert torch.ops.aten._thnn_fused_lstm_cell.default
    assert callable(torch_lstm_cell)
    code = "import torch, torch._dynamo; assert callable(torch._dynamo.maybe_mark_dynamic)"
    subprocess.run([sys.executable, "-c", code], check=True)


def updated(kind: type[Optimizer], options: dict[str, float]) -> tuple[list[torch.Tensor], object]:
    """Weights and state after three updates, the optimizer having been saved and loaded before the last one."""
    torch.manual_seed(1)
    layer = nn.Linear(3, 2)
    groups = [{"params": [layer.weight]}, {"params": [layer.bias], "lr": 0.01}]
    optimizer = kind(groups, lr=0.1, fused=True, **options)
    for update in range(3):
        if update == 2:
            state = optimizer.state_dict()
            optimizer = kind(groups, lr=0.5, fused=True, **options)
            optimizer.load_state_dict(state)
        optimizer.zero_grad(set_to_none=True)
        layer(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    return list(layer.parameters()), optimizer.state_dict()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_those_of_pytorch(name: str) -> None:
    weights, state = updated(eager_optimizer_class(name), OPTIONS[name])
    expected_weights, expected_state = updated(OPTIMIZERS[name], OPTIONS[name])
    assert all(torch.equal(one, other) for one, other in zip(weights, expected_weights, strict=True))
    assert repr(state) == repr(expected_state)


def test_training_does_not_import_the_compiler(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
import weft
small = {"hidden": 4}
recipe = weft.make_recipe({"name": "small", "model": {"embedding": 4, "encoder": small, "decoder": small},
    "data": {"train": sys.argv[1], "valid": sys.argv[1]}, "training": {"steps": 2, "validate_every": 1}})
steps = [event.step for event in weft.train(recipe, Path(sys.argv[2]))]
print(max(steps), "torch._dynamo" in sys.modules)
"""
    (tmp_path / "pairs.tsv").write_text("a b\tb a\nc\tc\n", "utf-8")
    arguments = [str(tmp_path / "pairs.tsv"), str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "2 False\n"
