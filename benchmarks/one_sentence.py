"""Recurrent models, one sentence at a time on a CPU: a search in one call of C, and step by step, in turns.

    python benchmarks/one_sentence.py --threads 1

Random weights, a source of 14 tokens, exactly 20 output tokens, encoding not included; milliseconds of processor time
of a search (the least of ten, and the median). Step by step, products with 8-bit weights and the update of a beam are
calls of C, too, as they were before whole searches were.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import torch

from weft.fast.cpu import compiled
from weft.fast.steps import native_search
from weft.fast.steps.quantization import quantize
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.search.beam import BeamOptions, beam_search
from weft.search.interface import SearchRequest
from weft.search.sampling import greedy_search

GRU = ["encoder.kind=gru", "decoder.kind=gru", "attention.score=additive", "attention.placement=before"]
MODELS = {
    "LSTM 512, general attention, input feeding, vocabulary 7,972": (
        7972,
        ["embedding=256", "encoder.hidden=512", "decoder.hidden=512", "decoder.input_feeding=true"],
    ),
    "GRU 512, additive attention before the step, vocabulary 7,972": (
        7972,
        ["embedding=256", "encoder.hidden=512", "decoder.hidden=512", *GRU],
    ),
    "LSTM 128, general attention, vocabulary 600": (
        600,
        ["embedding=128", "encoder.hidden=128", "decoder.hidden=128"],
    ),
}


def measure(model: Any, beam: int, repeats: int) -> dict[bool, list[float]]:
    """Milliseconds of a search in C (True) and step by step (False)."""
    memory = model.encode(Ragged.of([[*range(5, 18), 2]]))
    request = SearchRequest(memory=memory, max_lengths=[20], begin=1, end=2)
    in_one_call = native_search.native_recurrent_decoder
    milliseconds: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(repeats + 4):
        for is_native, decoder in ((True, in_one_call), (False, lambda *_, **__: None)):
            native_search.native_recurrent_decoder = decoder  # type: ignore[assignment]
            start = time.process_time()
            if beam:
                beam_search(model, request, BeamOptions(size=beam))
            else:
                greedy_search(model, request)
            if repeat >= 4:
                milliseconds[is_native].append(1000 * (time.process_time() - start))
    native_search.native_recurrent_decoder = in_one_call
    return milliseconds


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if compiled.library(wait=True) is None:
        raise SystemExit("there is no C compiler, or what it compiled failed its check")
    for name, (vocabulary, settings) in MODELS.items():
        recipe = make_recipe({}, [f"model.{setting}" for setting in settings])
        model: Any = build_model(recipe.model, source_size=vocabulary, target_size=vocabulary, seed=3).eval()
        model.output.bias_V[2] -= 1e4  # outputs never end
        for precision, chosen in (("fp32", model), ("int8", quantize(model))):
            for beam in (0, 5):
                times = measure(chosen, beam, given.repeats)
                print(
                    f"{name}, {precision}, {f'beam {beam}' if beam else 'greedy'}: "
                    + "; ".join(
                        f"{label} {min(times[key]):.2f} ms (median {median(times[key]):.2f})"
                        for key, label in ((True, "one call"), (False, "step by step"))
                    )
                    + f"; ratio {min(times[True]) / min(times[False]):.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
