"""Training speed on one GPU: weft and common implementations, one after the other in one run.

    python benchmarks/train_gpu.py base big rnn-inside rnn-outside --out results.jsonl

Synthetic pairs whose lengths are like those of WMT (log-normal around 25 tokens, at most 120; a target is about as
long as its source). Non-padding target tokens per second, including data, loss, clipping and optimizer. One line of
JSON each.

Compared with Hugging Face Marian (needs transformers): padded batches sorted as weft sorts its own, bf16 autocast and
fused AdamW; eager on new shapes, with and without cuDNN attention, which plans each new shape; eager and with
`torch.compile(dynamic=True)` on shapes seen before (the pass that compiles is timed apart). The recurrent sizes are
compared with a Python loop over torch.nn.LSTMCell, additive attention and input feeding, in fp32, TF32 and bf16
autocast. With ``--plain`` weft trains a second time, without CUDA graphs: ``lm`` (the targets alone) and ``prefix-lm``
are compared with that.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

SIZES: dict[str, dict[str, Any]] = {
    "base": {"hidden": 512, "feed_forward": 2048, "heads": 8, "vocabulary": 32_000, "tokens": 25_000},
    "big": {"hidden": 1024, "feed_forward": 4096, "heads": 16, "vocabulary": 32_000, "tokens": 25_000},
    "lm": {"hidden": 512, "feed_forward": 2048, "heads": 8, "vocabulary": 32_000, "tokens": 25_000},
    "prefix-lm": {"hidden": 512, "feed_forward": 2048, "heads": 8, "vocabulary": 32_000, "tokens": 25_000},
    "rnn-inside": {"vocabulary": 16_000, "tokens": 8_000, "feeding": True},
    "rnn-outside": {"vocabulary": 16_000, "tokens": 8_000, "feeding": False},
}


def lengths(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(np.log(25), 0.5, count).round(), 1, 119)
    target = np.clip((source * random.lognormal(0.0, 0.15, count)).round(), 1, 119)
    return source.astype(int), target.astype(int)


def write_pairs(path: Path, count: int, vocabulary: int, *, targets_only: bool = False) -> None:
    """Random words of a vocabulary, every one of them at least once; ``targets_only``: a text for a language model."""
    random = np.random.default_rng(2)
    source, target = lengths(count)
    words = [f"w{number}" for number in range(vocabulary - 3)]
    drawn = random.integers(0, len(words), int(source.sum() + target.sum()))
    drawn[: len(words)] = np.arange(len(words))
    place = 0
    with path.open("w", encoding="utf-8") as file:
        for one, other in zip(source.tolist(), target.tolist(), strict=True):
            middle, end = place + one, place + one + other
            sides = (drawn[place:middle], drawn[middle:end])[targets_only:]
            file.write("\t".join(" ".join(words[number] for number in side) for side in sides) + "\n")
            place = end


def recipe(name: str, folder: Path, changes: list[str]) -> Any:
    import weft

    size = SIZES[name]
    if name.startswith("rnn"):
        model = {
            "embedding": 512,
            "dropout": 0.1,
            "encoder": {"kind": "lstm", "layers": 2, "hidden": 512},
            "decoder": {"kind": "lstm", "layers": 2, "hidden": 512, "input_feeding": size["feeding"]},
            "attention": {"score": "additive" if size["feeding"] else "general"},
        }
    else:
        stack = {
            "kind": "transformer",
            "layers": 6,
            "norm_placement": "post",
            **{key: size[key] for key in ("hidden", "feed_forward", "heads")},
        }
        model = {"embedding": size["hidden"], "tie": "all", "dropout": 0.1, "encoder": stack, "decoder": stack}
        if name.endswith("lm"):
            one_stack = {"lm": {"kind": "language_model", "tie": "target"}, "prefix-lm": {"kind": "prefix_lm"}}
            model |= one_stack[name]
    tree = {
        "name": name,
        "data": {"folder": str(folder), "train": "train.txt" if name == "lm" else "train.tsv"},
        "tokenizer": {"kind": "word", "size": size["vocabulary"], "split_punctuation": False},
        "model": model,
        "training": {"batch_tokens": size["tokens"], "learning_rate": 0.0005, "warmup": 1000, "device": "cuda"},
    }
    return weft.make_recipe(tree, changes)


def weft_speed(name: str, folder: Path, seconds: float, changes: list[str], *, graphs: bool = True) -> dict[str, Any]:
    """``graphs``: whether updates are replayed as CUDA graphs."""
    from weft.apps.bench.training_speed import training_speed
    from weft.training import trainer

    warmup = 400 if name.startswith("rnn") else 60  # a recurrence is recorded for more shapes
    make_update = trainer.make_update
    try:
        if not graphs:
            trainer.make_update = make_update.plain  # type: ignore[attr-defined]
        found = training_speed(recipe(name, folder, changes), seconds=seconds, warmup=warmup)
    finally:
        trainer.make_update = make_update
    return {"who": "weft" if graphs else "weft without CUDA graphs", "changes": changes, **found.record()}


def padded_batches(tokens: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of at most this many tokens per side, padding included, in random order; few of them are padding.

    Sorted over the whole corpus by the longer side, then by target and source: of the orders tried the one with the
    least padding.
    """
    source, target = lengths(count)
    order = np.lexsort((source, target, np.maximum(source, target)))
    batches, start = [], 0
    while start < len(order):
        rows = order[start : start + tokens]
        widest = np.maximum(np.maximum.accumulate(source[rows]), np.maximum.accumulate(target[rows] + 1))
        size = max(int((widest * np.arange(1, len(rows) + 1) <= tokens).sum()), 1)
        batches.append((source[rows[:size]], target[rows[:size]]))
        start += size
    np.random.default_rng(3).shuffle(batches)  # type: ignore[arg-type]
    return batches


def padding(batches: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """The padding of these batches, as a fraction of all positions."""
    positions = sum(side.max() * len(side) for source, target in batches for side in (source, target + 1))
    return 1 - float(sum(int(source.sum() + (target + 1).sum()) for source, target in batches) / positions)


def marian(size: dict[str, Any]) -> Any:
    import transformers

    config = transformers.MarianConfig(
        vocab_size=size["vocabulary"],
        d_model=size["hidden"],
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=size["heads"],
        decoder_attention_heads=size["heads"],
        encoder_ffn_dim=size["feed_forward"],
        decoder_ffn_dim=size["feed_forward"],
        dropout=0.1,
        pad_token_id=0,
        decoder_start_token_id=0,
        scale_embedding=True,
        activation_function="relu",
        attn_implementation="sdpa",
    )
    return transformers.MarianMTModel(config).cuda().train()


MARIAN_PASSES = (  # label, cuDNN attention, compiled, whether the batches are new, whether it is reported
    ("eager, new shapes", True, False, True, True),
    ("eager, shapes seen before", True, False, False, True),
    ("eager, new shapes, without cuDNN attention", False, False, True, True),
    ("eager, shapes seen before, without cuDNN attention", False, False, False, True),
    ("compiled, the pass that compiles", False, True, False, True),
    ("compiled, shapes seen before, without cuDNN attention", False, True, False, True),
    ("compiled, the pass that compiles, cuDNN attention", True, True, False, False),
    ("compiled, shapes seen before", True, True, False, True),
)
MOST_SHAPES = 60
"""Batches of a pass: enough for a stable figure, few enough that the passes over new shapes end."""


def marian_speed(name: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Hugging Face Marian in its variants. A pass over new shapes ends after ``seconds``; the others repeat batches."""
    import transformers

    size = SIZES[name]
    model = marian(size)
    compiled = torch.compile(model, dynamic=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), fused=True)
    everything = padded_batches(size["tokens"], 400_000)
    fresh = iter(everything)
    batches: list[tuple[np.ndarray, np.ndarray]] = []
    torch.cuda.reset_peak_memory_stats()
    for label, cudnn, is_compiled, is_new, is_reported in MARIAN_PASSES:
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        torch.cuda.synchronize()
        begun, tokens, steps = time.monotonic(), 0, 0
        if is_new:
            batches = []
        for source, target in islice(fresh, MOST_SHAPES) if is_new else batches:
            if is_new:
                batches.append((source, target))
            module = compiled if is_compiled else model
            tokens += marian_step(module, optimizer, source, target, size["vocabulary"])
            steps += 1
            if is_new and time.monotonic() - begun > seconds:
                break
        torch.cuda.synchronize()
        passed = time.monotonic() - begun
        if is_reported:
            yield {
                "who": f"Hugging Face Marian {transformers.__version__}, {label}",
                "recipe": name,
                "steps": steps,
                "seconds": passed,
                "target_tokens_per_second": tokens / passed,
                "memory_bytes": torch.cuda.max_memory_allocated(),
                "padding": padding(batches),
            }
    torch.backends.cuda.enable_cudnn_sdp(True)


def marian_step(model: Any, optimizer: Any, source: np.ndarray, target: np.ndarray, vocabulary: int) -> int:
    random = np.random.default_rng(len(source))
    rows = len(source)
    ids, mask, labels = (
        np.zeros((rows, longest), np.int64) for longest in (source.max(), source.max(), target.max() + 1)
    )
    mask[:] = np.arange(source.max()) < source[:, None]
    ids[:] = random.integers(3, vocabulary, ids.shape) * mask
    said = np.arange(target.max() + 1) < target[:, None] + 1
    labels[:] = np.where(said, random.integers(3, vocabulary, labels.shape), -100)
    tensors = [torch.from_numpy(array).pin_memory().cuda(non_blocking=True) for array in (ids, mask, labels)]
    with torch.autocast("cuda", torch.bfloat16):
        read = torch.where(tensors[2] < 0, 0, tensors[2]).roll(1, 1)
        logits = model(input_ids=tensors[0], attention_mask=tensors[1], decoder_input_ids=read).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), tensors[2].flatten(), ignore_index=-100, label_smoothing=0.1
        )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return int(said.sum())


class CellLoop(torch.nn.Module):
    """The usual way: a Python loop over LSTMCell, additive attention and input feeding, padded."""

    def __init__(self, vocabulary: int, width: int = 512) -> None:
        super().__init__()
        self.source, self.target = (torch.nn.Embedding(vocabulary, width) for _ in range(2))
        self.encoder = torch.nn.LSTM(width, width // 2, 2, bidirectional=True, batch_first=True, dropout=0.1)
        self.cells = torch.nn.ModuleList([torch.nn.LSTMCell(2 * width, width), torch.nn.LSTMCell(width, width)])
        self.of_keys, self.of_query = torch.nn.Linear(width, width), torch.nn.Linear(width, width, bias=False)
        self.vector = torch.nn.Linear(width, 1, bias=False)
        self.readout, self.output = torch.nn.Linear(2 * width, width), torch.nn.Linear(width, vocabulary)

    def forward(self, source: torch.Tensor, lengths: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            self.source(source), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        hidden = torch.arange(states.shape[1], device=states.device) >= lengths.to(states.device)[:, None]
        keys = self.of_keys(states)
        feed = states.new_zeros(len(states), states.shape[-1])
        both = [(feed, feed), (feed, feed)]
        said = []
        for embedded in self.target(inputs).unbind(1):
            both[0] = self.cells[0](torch.cat([embedded, feed], -1), both[0])
            both[1] = self.cells[1](torch.nn.functional.dropout(both[0][0], 0.1), both[1])
            query = both[1][0]
            scores = self.vector(torch.tanh(keys + self.of_query(query)[:, None]))[..., 0]
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            context = torch.bmm(weights[:, None], states)[:, 0]
            feed = torch.tanh(self.readout(torch.cat([context, query], -1)))
            said.append(feed)
        return self.output(torch.stack(said, 1))


LOOP_PRECISIONS = ("fp32", "TF32", "bf16 autocast")


def loop_speed(name: str, seconds: float, precision: str) -> dict[str, Any]:
    size = SIZES[name]
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    model = CellLoop(size["vocabulary"]).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    batches = padded_batches(size["tokens"], 200_000)
    torch.cuda.reset_peak_memory_stats()
    begun, tokens, steps = 0.0, 0, 0
    for number, (source, target) in enumerate(batches):
        if number == 20:
            torch.cuda.synchronize()
            begun, tokens, steps = time.monotonic(), 0, 0
        ids = torch.randint(3, size["vocabulary"], (len(source), int(source.max())), device="cuda")
        labels = torch.randint(3, size["vocabulary"], (len(target), int(target.max()) + 1), device="cuda")
        ended = torch.arange(labels.shape[1], device="cuda") > torch.from_numpy(target).cuda()[:, None]
        labels = labels.masked_fill(ended, -100)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision.startswith("bf16")):
            logits = model(ids, torch.from_numpy(source), labels.clamp(min=0).roll(1, 1))
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        tokens += int(target.sum()) + len(target)
        steps += 1
        if number > 20 and time.monotonic() - begun > seconds:
            break
    torch.cuda.synchronize()
    passed = time.monotonic() - begun
    return {
        "who": f"a Python loop over LSTMCell, {precision}",
        "recipe": name,
        "steps": steps,
        "seconds": passed,
        "target_tokens_per_second": tokens / passed,
        "memory_bytes": torch.cuda.max_memory_allocated(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=SIZES)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--without-rivals", action="store_true")
    parser.add_argument("--plain", action="store_true", help="weft without CUDA graphs, too")
    given = parser.parse_args()
    for name in given.names:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("train.txt" if name == "lm" else "train.tsv")
            write_pairs(path, given.pairs, SIZES[name]["vocabulary"], targets_only=name == "lm")
            for graphs in (True, False) if given.plain else (True,):
                report([weft_speed(name, Path(folder), given.seconds, given.changes, graphs=graphs)], given.out)
        if not given.without_rivals and name in ("base", "big"):
            torch.cuda.empty_cache()
            report(marian_speed(name, given.seconds), given.out)
        elif not given.without_rivals and name == "rnn-inside":
            report((loop_speed(name, given.seconds, precision) for precision in LOOP_PRECISIONS), given.out)


def report(lines: Iterable[dict[str, Any]], out: Path | None) -> None:
    for line in lines:
        print(json.dumps(line), flush=True)
        if out:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
