"""CTranslate2 beside weft's two engines, the one that calls it and the one of PyTorch: one line of JSON per search.

    python benchmarks/ctranslate2_engine.py --rounds 7
    python benchmarks/ctranslate2_engine.py --latency          # one sentence at a time: p50 and p99 in ms

A Transformer of 3 + 3 layers, 256 wide, 4 heads, 1024 inside, 8,000 tokens, in float32 or ``--quantization``; 1,000
sources of 8 to 20 tokens. It is untrained, but its outputs end: one dimension of the decoder's states carries only the
position, and the logit of the end-of-sequence token grows with it, for outputs of about 14 tokens. Both search the same
batches (sorted, 64 sentences) with the same workers of one thread each, in turn; the best round counts. A direct call
goes from CTranslate2's tokens to tokens and scores; the engines from ids to hypotheses. One sentence at a time has all
threads to itself.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch

SIZE, WIDTH, PLACE = 8_000, 256, 94
"""PLACE: the dimension in which sinusoids of 256 grow for some 45 places, as sin(t / 30)."""


def make_run() -> Any:
    from weft.models.build import build_model
    from weft.models.seq2seq import Seq2Seq
    from weft.models.transformer_decoder import TransformerDecoder
    from weft.recipe import make_recipe
    from weft.runs.load import LoadedRun
    from weft.text.specials import END
    from weft.text.tokenizer import Tokenizers, learn
    from weft.text.vocabulary import LearningOptions

    side = {"kind": "transformer", "layers": 3, "hidden": WIDTH, "heads": 4, "feed_forward": 1024}
    recipe = make_recipe(
        {"tokenizer": {"kind": "word"}, "model": {"embedding": WIDTH, "encoder": side, "decoder": side}}
    )
    words = learn("word", [" ".join(f"w{number}" for number in range(SIZE - 3))], LearningOptions(size=SIZE))
    network = build_model(recipe.model, source_size=words.size, target_size=words.size)
    assert isinstance(network, Seq2Seq) and isinstance(network.decoder, TransformerDecoder)
    with torch.no_grad():
        network.target_embedding.weight_VE[:, PLACE] = 0.0
        for layer in network.decoder.stack.layers:
            assert layer.cross_attention is not None and layer.feed_forward is not None
            for linear in (layer.self_attention.output, layer.cross_attention.output, layer.feed_forward.linear2):
                linear.weight[PLACE] = 0.0
        network.output.weight_VD *= 3.0
        network.output.weight_VD[:, PLACE] = 0.0
        network.output.weight_VD[END] = 0.0
        network.output.weight_VD[END, PLACE] = 90.0
        network.output.bias_V[END] = 12.0
    return LoadedRun(network, Tokenizers(words, words), recipe)


def best_of(rounds: int, *ways: Callable[[], Any], clock: Callable[[], float]) -> list[float]:
    """The least time of each, taken in turns."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, taken in zip(ways, times, strict=True):
            start = clock()
            way()
            taken.append(clock() - start)
    return [min(taken) for taken in times]


def latencies(
    sources: list[Any], ways: dict[str, Callable[[Any], Any]], *, rounds: int, clock: Callable[[], float]
) -> dict[str, dict[str, float]]:
    """Latencies of a call with one source in ms, for each way, measured in turns; of each source the best round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for source in [*sources[:10], *sources]:
        for name, way in ways.items():
            taken = []
            for _ in range(rounds):
                start = clock()
                way(source)
                taken.append((clock() - start) * 1000)
            times[name].append(min(taken))
    of_calls = {name: sorted(taken[10:]) for name, taken in times.items()}
    return {
        name: {"p50_ms": round(taken[len(taken) // 2], 2), "p99_ms": round(taken[len(taken) * 99 // 100], 2)}
        for name, taken in of_calls.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quantization", default="float32")
    parser.add_argument("--latency", action="store_true", help="of one sentence at a time")
    parser.add_argument(
        "--cpu-time", action="store_true", help="of all threads together: for a machine that is not quiet"
    )
    given = parser.parse_args()
    clock = time.process_time if given.cpu_time else time.perf_counter

    import ctranslate2

    from weft.fast.cpu import compiled
    from weft.fast.steps.quantization import quantize
    from weft.recipe import SearchSettings
    from weft.text.specials import END
    from weft.translation.engines.ctranslate2.export import export
    from weft.translation.engines.ctranslate2.model import CPU_BATCH, CTranslate2Model
    from weft.translation.engines.ctranslate2.search import search
    from weft.translation.engines.interface import TranslationRequest
    from weft.translation.engines.torch import TorchEngine

    torch.set_num_threads(given.threads)
    compiled.library(wait=True)
    random = Random(1)
    sources = [
        [random.randrange(3, SIZE) for _ in range(random.randint(8, 20))] + [END] for _ in range(given.sentences)
    ]
    limits = [2 * (len(source) - 1) + 10 for source in sources]
    tokens = [[*map(str, source[:-1]), "</s>"] for source in sources]
    with tempfile.TemporaryDirectory() as place:
        run = make_run()
        network = quantize(run.model) if given.quantization == "int8" else run.model
        torch_engine = TorchEngine(network, run.tokenizers.target)
        folder = export(run, Path(place) / "model", quantization=given.quantization)
        model = CTranslate2Model(folder, threads=given.threads)
        inter, intra = (1, given.threads) if given.latency else (given.threads, 1)
        raw = ctranslate2.Translator(str(folder), inter_threads=inter, intra_threads=intra)
        for name, options in (("greedy", {"kind": "greedy"}), ("beam", {"size": 5})):
            size = 1 if name == "greedy" else 5
            found: list[Any] = []

            def by_engine(options: Any = options, found: list[Any] = found) -> None:
                request = TranslationRequest(sources=sources, settings=SearchSettings(**options))
                found[:] = search(model, request, max_lengths=limits)

            def by_hand(size: int = size) -> None:
                answers = raw.translate_batch(
                    tokens,
                    max_batch_size=CPU_BATCH,
                    beam_size=size,
                    max_decoding_length=max(limits),
                    return_scores=True,
                )
                assert all(answer.hypotheses[0] is not None for answer in answers)

            def by_torch(options: Any = options, chosen: Any = sources) -> None:
                settings = SearchSettings(**options, no_loops=False)
                torch_engine.search(TranslationRequest(sources=chosen, settings=settings))

            if given.latency:
                calls = list(zip(sources, tokens, limits, strict=True))[:100]
                ways: dict[str, Callable[[Any], Any]] = {
                    "torch": lambda call, by_torch=by_torch: by_torch(chosen=[call[0]]),
                    "ctranslate2": lambda call, size=size: raw.translate_batch(
                        [call[1]], beam_size=size, max_decoding_length=call[2], return_scores=True
                    ),
                }
                of_calls = latencies(calls, ways, rounds=given.rounds, clock=clock)
                unit = "CPU time" if given.cpu_time else "wall time"
                common = {"threads": given.threads, "quantization": given.quantization}
                print(json.dumps({"search": name, **of_calls, "unit": unit, **common}))
                continue
            by_engine(), by_hand(), by_torch()
            ours, theirs, of_torch = best_of(given.rounds, by_engine, by_hand, by_torch, clock=clock)
            said = sum(len(many[0].tokens) for many in found if many)
            print(
                json.dumps(
                    {
                        "search": name,
                        "engine": round(given.sentences / ours, 1),
                        "by_hand": round(given.sentences / theirs, 1),
                        "unit": "sentences a CPU second" if given.cpu_time else "sentences a second",
                        "ratio": round(theirs / ours, 3),
                        "torch": round(given.sentences / of_torch, 1),
                        "torch_ratio": round(theirs / of_torch, 3),
                        "tokens_a_sentence": round(said / given.sentences, 1),
                        "cut_off": sum(many[0].ended == "length" for many in found if many),
                        "left_empty": sum(not many for many in found),
                        "quantization": given.quantization,
                        "threads": given.threads,
                        "ctranslate2": ctranslate2.__version__,
                    }
                )
            )


if __name__ == "__main__":
    main()
