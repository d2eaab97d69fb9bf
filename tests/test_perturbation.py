"""fixtures/perturbation: models start from slightly other weights, the same in every process; `make processors`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PERTURBATION = Path(__file__).parent / "fixtures" / "perturbation"
CODE = """
import sys
assert "torch" not in sys.modules
from weft.models.build import build_model, build_on_meta
from weft.recipe import ModelSettings
settings = ModelSettings.model_validate({"embedding": 3, "encoder": {"hidden": 4}, "decoder": {"hidden": 5}})
build_on_meta(settings, source_size=7, target_size=11)
parameters = dict(build_model(settings, source_size=7, target_size=11).named_parameters())
print([parameter.tolist() for name, parameter in sorted(parameters.items()) if parameter.dim() == 2])
"""


def build_elsewhere(size: str) -> list[list[list[float]]]:
    environment = {**os.environ, "WEFT_TEST_PERTURBATION": size, "PYTHONPATH": str(PERTURBATION)}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    matrices: list[list[list[float]]] = json.loads(done.stdout)
    return matrices


def test_weights_differ_by_the_same_little_in_every_process() -> None:
    plain, perturbed = build_elsewhere(""), build_elsewhere("1e-5")
    assert perturbed == build_elsewhere("1e-5") and len(plain) > 5
    changes = [
        abs(after / before - 1) if before else abs(after)
        for rows, others in zip(plain, perturbed, strict=True)
        for row, other in zip(rows, others, strict=True)
        for before, after in zip(row, other, strict=True)
    ]
    assert max(changes) < 1.1e-5 and sum(changes) / len(changes) > 3e-6
