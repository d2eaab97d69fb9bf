"""Decoding speed of weft and Hugging Face `generate` on one GPU: a Transformer base, random weights, 30 source tokens.

    python benchmarks/decode_gpu.py                   exactly 32 new tokens; output tokens/s and the ratio
    python benchmarks/decode_gpu.py --profile         a profile of one step

Both in bf16, encoding included, up to hypotheses as lists of ids. weft searches with its default settings (loops are
forbidden); the capture of CUDA graphs is not counted, and neither are the first two calls of Hugging Face, in which it
compiles its step if the cache is static.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections.abc import Callable

import torch

VOCABULARY, SOURCE, TARGET = 32_000, 30, 32
BEGIN, END = 1, 2


RNN = [
    "model.encoder.hidden=512", "model.encoder.layers=2", "model.decoder.hidden=512", "model.decoder.layers=2",
    "model.attention.score=additive", "model.decoder.input_feeding=true",
]  # fmt: skip


def ours(
    precision: torch.dtype, network: str = "transformer", *, graphs: bool = True
) -> Callable[[list[list[int]], str], int]:
    """``graphs``: whether steps are replayed as CUDA graphs, or launched one kernel after the other."""
    from weft.models.build import build_model
    from weft.ragged import Layout, Ragged
    from weft.recipe import make_recipe
    from weft.search.cuda_graphs import CudaGraphLoop
    from weft.search.interface import SearchRequest
    from weft.translation.engines.encoder_graphs import EncoderGraphs
    from weft.translation.strategies import search

    stack = ["kind=transformer", "layers=6", "hidden=512", "heads=8", "feed_forward=2048"]
    changes = [f"model.{side}.{one}" for side in ("encoder", "decoder") for one in stack]
    changes = [*changes, "model.tie=all"] if network == "transformer" else RNN
    recipe = make_recipe({}, [*changes, "model.embedding=512"])
    device = torch.device("cuda")
    model = build_model(recipe.model, source_size=VOCABULARY, target_size=VOCABULARY).to(device, precision).eval()
    loop, encoder = CudaGraphLoop(device) if graphs else None, EncoderGraphs(model, device)

    def call(sources: list[list[int]], kind: str) -> int:
        settings = recipe.search.model_copy(update={"kind": kind})
        batch = Ragged.of(sources)
        with torch.no_grad():
            memory = encoder.encode(batch, longest=32) if network == "transformer" and graphs else None
            if memory is None:
                layout = Layout(batch.lengths, device, longest=32 if network == "transformer" else None)
                memory = model.encode(Ragged(batch.values.to(device), layout))
        rows = len(sources)
        lengths = [TARGET] * rows
        request = SearchRequest(
            memory=memory, max_lengths=lengths, min_lengths=lengths, begin=BEGIN, end=END, device=device, loop=loop
        )
        found = search(model, request, settings)
        assert all(len(one[0].tokens) == TARGET for one in found)
        return rows * TARGET

    return call


def theirs(precision: torch.dtype, **options: object) -> Callable[[list[list[int]], str], int]:
    """Hugging Face `generate` with these options: its usual cache, which grows, or a static one."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        pad_token_id=0, eos_token_id=2, bos_token_id=1, decoder_start_token_id=1, scale_embedding=True,
        forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(1)
    model = MarianMTModel(config).to("cuda", precision).eval()

    def call(sources: list[list[int]], kind: str) -> int:
        ids = torch.tensor(sources, device="cuda")
        found = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=5 if kind == "beam" else 1, do_sample=False,
            min_new_tokens=TARGET, max_new_tokens=TARGET, **options,
        )  # fmt: skip
        return len(found.tolist()) * TARGET

    return call


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
        "--network", choices=["transformer", "rnn"], default="transformer",
        help="rnn: LSTMs with attention and input feeding, beside a plain loop over the same steps",
    )  # fmt: skip
    given = parser.parse_args()
    rnn = given.network == "rnn"
    mine = ours(torch.float32 if rnn else torch.bfloat16, given.network)
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
    rivals = {"generate": theirs(torch.bfloat16)} if given.rivals and not rnn else {}
    if given.rivals and rnn:
        rivals["a plain loop"] = ours(torch.float32, "rnn", graphs=False)
    elif given.rivals:
        rivals["generate, static cache"] = theirs(torch.bfloat16, cache_implementation="static")
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
