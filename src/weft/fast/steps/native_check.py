"""A check of freshly compiled kernels: a search of one sentence by them and by PyTorch. Run in a process of its own.

    python -m weft.fast.steps.native_check LIBRARY

A compiler may be wrong, or use instructions that the processor does not have, which ends the process that runs them. So
a library is only put where others load it after this process has ended well (`weft.fast.cpu.compiled`). Small
Transformers and recurrent models, in fp32 and in 8 bits, search greedily and with a beam; log p of the outputs must
agree.
Tested in tests/fast/steps/test_native_check.py.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch

from weft.fast.cpu import compiled
from weft.fast.steps.quantization import quantize
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.search.beam import BeamOptions, beam_search
from weft.search.interface import SearchRequest
from weft.search.sampling import greedy_search

TOLERANCE = {"fp32": 1e-3, "int8": 0.05}
"""The largest difference of log p of an output. In 8 bits a value between two integers may be rounded either way."""
TRANSFORMER = tuple(
    f"model.{side}.{size}"
    for side in ("encoder", "decoder")
    for size in ("kind=transformer", "layers=2", "hidden=72", "heads=4", "feed_forward=129")
)
RECURRENT = ("model.encoder.hidden=72", "model.decoder.hidden=72", "model.decoder.layers=2")
KINDS = (
    (*TRANSFORMER, "model.decoder.norm_placement=pre"),
    (
        *(*TRANSFORMER, "model.decoder.positions=rotary", "model.decoder.norm=rms", "model.decoder.activation=swiglu"),
        "model.decoder.key_value_heads=2",
    ),
    (*RECURRENT, "model.attention.score=general", "model.decoder.input_feeding=true"),
    (*RECURRENT, "model.encoder.kind=gru", "model.decoder.kind=gru", "model.attention.placement=before"),
)


def differences(library: Any) -> dict[str, float]:
    """The largest difference of log p of an output, by precision."""
    largest = dict.fromkeys(TOLERANCE, 0.0)
    for settings in KINDS:
        recipe = make_recipe({}, [*settings, "model.embedding=72"])
        model: Any = build_model(recipe.model, source_size=41, target_size=611, seed=3).eval()
        for precision, checked in (("fp32", model), ("int8", quantize(copy.deepcopy(model)))):
            expected, got = (_searches(checked, loaded) for loaded in (None, library))
            worst = max(abs(mine - theirs) for mine, theirs in zip(got, expected, strict=True))
            largest[precision] = max(largest[precision], worst if worst == worst else float("inf"))
    return largest


@torch.no_grad()
def _searches(model: Any, library: Any) -> list[float]:
    """log p of the outputs of two searches, whose steps are by a library or, if that is None, by PyTorch."""
    compiled.loaded = library
    request = SearchRequest(memory=model.encode(Ragged.of([[3, 4, 5, 6, 7, 2]])), max_lengths=[12], begin=1, end=2)
    outputs = [greedy_search(model, request), beam_search(model, request, BeamOptions(size=4))]
    return [hypotheses[0].log_probability for [hypotheses] in outputs]


def main() -> None:
    library = compiled.open_library(Path(sys.argv[1]))
    if library is None:
        sys.exit("it cannot be loaded")
    for precision, difference in differences(library).items():
        if not difference <= TOLERANCE[precision]:
            print(f"log p of an output in {precision} differs by {difference:.2g} from PyTorch's")
            sys.exit(1)


if __name__ == "__main__":
    main()
