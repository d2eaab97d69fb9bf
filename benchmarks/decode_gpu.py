"""Decoding speed of weft and Hugging Face `generate` on one GPU: a Transformer base, random weights, 30 source tokens.

    python benchmarks/decode_gpu.py                   exactly 32 new tokens; output tokens/s and the ratio
    python benchmarks/decode_gpu.py --network lm      a language model (6 layers) that continues prompts of 30 tokens
    python benchmarks/decode_gpu.py --profile         a profile of one step

Both in bf16 (recurrent models in TF32), encoding included, up to hypotheses as lists of ids. weft searches with its
default settings (loops are forbidden); the capture of CUDA graphs is not counted, and neither are the first two calls
of Hugging Face, in which it compiles its step if the cache is static.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections.abc import Callable
from typing import Any

import torch

VOCABULARY, SOURCE, TARGET = 32_000, 30, 32
BEGIN, END = 1, 2


STACK = ["kind=transformer", "layers=6", "hidden=512", "heads=8", "feed_forward=2048"]
RNN = [
    "model.encoder.hidden=512", "model.encoder.layers=2", "model.decoder.hidden=512", "model.decoder.layers=2",
    "model.attention.score=additive", "model.decoder.input_feeding=true",
]  # fmt: skip


def ours(
    precision: torch.dtype, network: str = "transformer", *, graphs: bool = True
) -> Callable[[list[list[int]], str], int]:
    """``graphs``: whether steps are replayed as CUDA graphs, or launched one kernel after the other."""
    from weft.fast.recording.encoder import EncoderGraphs
    from weft.fast.recording.prompts import PromptGraphs
    from weft.fast.recording.search import CudaGraphLoop
    from weft.models.build import build_model
    from weft.models.prompted_lm import PromptedLM
    from weft.ragged import Layout, Ragged
    from weft.recipe import make_recipe
    from weft.search.interface import SearchRequest
    from weft.search.ranking import HypothesisArrays, PendingHypotheses
    from weft.translation.engines.torch import search

    changes = [f"model.{side}.{one}" for side in ("encoder", "decoder") for one in STACK]
    networks = {
        "transformer": [*changes, "model.tie=all"],
        "rnn": RNN,
        "lm": [*changes, "model.kind=language_model", "model.tie=target"],
        "prefix-lm": [*changes, "model.kind=prefix_lm", "model.tie=all"],
    }
    recipe = make_recipe({}, [*networks[network], "model.embedding=512"])
    device = torch.device("cuda")
    model = build_model(recipe.model, source_size=VOCABULARY, target_size=VOCABULARY).to(device, precision).eval()
    loop, encoder = CudaGraphLoop(device) if graphs else None, EncoderGraphs(model, device)
    is_padded = network in ("transformer", "prefix-lm")
    searched: Any = model
    if network == "lm":
        searched = PromptedLM(model, BEGIN, PromptGraphs(model).read if graphs else None)

    @torch.no_grad()
    def encode(sources: list[list[int]]) -> Any:
        if network == "lm":
            return searched.encode(torch.tensor(sources, device=device))
        batch = Ragged.of(sources)
        memory = encoder.encode(batch, longest=32) if is_padded and graphs else None
        if memory is None:
            layout = Layout(batch.lengths, device, longest=32 if is_padded else None)
            memory = model.encode(Ragged(batch.values.to(device), layout))
        return memory

    def call(sources: list[list[int]], kind: str) -> int:
        settings = recipe.search.model_copy(update={"kind": kind})
        memory = encode(sources)
        rows = len(sources)
        lengths = [TARGET] * rows
        request = SearchRequest(
            memory=memory, max_lengths=lengths, min_lengths=lengths, begin=BEGIN, end=END, device=device, loop=loop
        )
        found = search(searched, request, settings)
        arrays = found.arrays if isinstance(found, PendingHypotheses) else found
        assert isinstance(arrays, HypothesisArrays)
        assert all(len(tokens) == TARGET for tokens in arrays.best_tokens())
        return rows * TARGET

    return call


def theirs(precision: torch.dtype, network: str, **options: object) -> Callable[[list[list[int]], str], int]:
    """Hugging Face `generate` with these options: its usual cache, which grows, or a static one."""
    torch.manual_seed(1)
    model: Any = (gpt2() if network == "lm" else marian()).to("cuda", precision).eval()

    def call(sources: list[list[int]], kind: str) -> int:
        ids = torch.tensor(sources, device="cuda")
        found = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=5 if kind == "beam" else 1, do_sample=False,
            min_new_tokens=TARGET, max_new_tokens=TARGET, **options,
        )  # fmt: skip
        return len(found.tolist()) * TARGET

    return call


def gpt2() -> Any:
    """As many layers of the same size, GELU and learned positions."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=512, n_layer=6, n_head=8, n_inner=2048, n_positions=512,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def marian() -> Any:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        pad_token_id=0, eos_token_id=2, bos_token_id=1, decoder_start_token_id=1, scale_embedding=True,
        forced_eos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(config)


def measure(call: Callable[[list[list[int]], str], int], rows: int, kind: str, repeats: int) -> tuple[float, float]:
    """Output tokens a second and milliseconds a call: the median of some."""
    draw = torch.Generator().manual_seed(7)
    times = []
    tokens = 0
    for round_ in range(repeats + 2):
        sources = torch.randint(3, VOCABULARY, (rows, SOURCE), generator=draw).tolist()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        tokens = call(sources, kind)
        torch.cuda.synchronize()
        if round_ >= 2:
            times.append(time.perf_counter() - begun)
    middle = sorted(times)[len(times) // 2]
    return tokens / middle, 1000 * middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--rivals", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 64, 512])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--network", choices=["transformer", "rnn", "lm", "prefix-lm"], default="transformer",
        help="rnn: LSTMs with attention and input feeding; all but transformer beside a plain loop over the same steps",
    )  # fmt: skip
    parser.add_argument(
        "--static", action=argparse.BooleanOptionalAction, default=True, help="with a static cache, too"
    )
    given = parser.parse_args()
    precision = torch.float32 if given.network == "rnn" else torch.bfloat16
    torch.backends.cuda.matmul.allow_tf32 = given.network == "rnn"  # as `weft.load` does
    mine = ours(precision, given.network)
    if given.profile:
        for rows in given.rows:
            measure(mine, rows, "beam", 2)
            measure(mine, rows, "greedy", 2)
            with cProfile.Profile() as python:
                measure(mine, rows, "greedy", 5)
            pstats.Stats(python).sort_stats("cumtime").print_stats(45)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
                measure(mine, rows, "beam", 1)
            print(rows, found.key_averages().table(sort_by="cuda_time_total", row_limit=22, max_name_column_width=60))
        return
    rivals: dict[str, Callable[[list[list[int]], str], int]] = {}
    if given.rivals and given.network != "transformer":
        rivals["a plain loop"] = ours(precision, given.network, graphs=False)
    if given.rivals and given.network in ("transformer", "lm"):
        rivals["generate"] = theirs(precision, given.network)
        if given.static:
            rivals["generate, static cache"] = theirs(precision, given.network, cache_implementation="static")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    columns = "".join(f" {name}, tokens/s | ms a call | weft is |" for name in rivals)
    print(f"| batch | search | weft, tokens/s | ms a call |{columns}\n" + "|---" * (4 + 3 * len(rivals)) + "|")
    for rows in given.rows:
        for kind in ("greedy", "beam"):
            speed, ms = measure(mine, rows, kind, given.repeats)
            line: dict[str, object] = {"rows": rows, "kind": kind, "weft": speed, "weft_ms": ms}
            text = f"| {rows} | {kind} | {speed:,.0f} | {ms:.1f} |"
            for name, rival in rivals.items():
                try:
                    other, other_ms = measure(rival, rows, kind, given.repeats)
                except (RuntimeError, ValueError, TypeError, IndexError) as error:  # not all caches fit all searches
                    text += f" fails | ({type(error).__name__}) | |"
                    line |= {f"{name} error": str(error)[:200]}
                    continue
                text += f" {other:,.0f} | {other_ms:.1f} | {speed / other:.1f} × |"
                line |= {name: other, f"{name} ms": other_ms}
            print(text, flush=True)
            print("#", json.dumps(line), flush=True)
    print(f"memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
