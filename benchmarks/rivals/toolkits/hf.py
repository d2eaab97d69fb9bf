"""Hugging Face Marian, eager or compiled. It brings a model but no loop of this kind: this one is ours, and plain."""

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from meter import Meter
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence
from workload import FEED_FORWARD, HEADS, SEED, WIDTH, Workload, joint_vocabulary

PAD, END = 0, 1  # Marian starts a target with the pad
Pair = tuple[Tensor, Tensor]  # ids of source and target, each with its end


def read(workload: Workload, vocabulary: dict[str, int]) -> list[Pair]:
    sides = []
    for language in ("en", "de"):
        lines = workload.text("train", language).read_text("utf-8").splitlines()
        sides.append([torch.tensor([*(vocabulary[piece] for piece in line.split()), END]) for line in lines])
    return list(zip(*sides, strict=True))


def batches(pairs: list[Pair], tokens: int) -> Iterator[list[Pair]]:
    """An epoch of buckets of like length, in a random order: sentences × longest of either side ≤ `tokens`."""
    random.shuffle(pairs)
    pairs.sort(key=lambda pair: (max(map(len, pair)), len(pair[1]), len(pair[0])))  # fewest pads of the orders tried
    found: list[list[Pair]] = [[]]
    longest = 0
    for pair in pairs:
        longest = max(longest, *map(len, pair))
        if found[-1] and (len(found[-1]) + 1) * longest > tokens:
            found.append([])
            longest = max(map(len, pair))
        found[-1].append(pair)
    random.shuffle(found)
    yield from found


def marian(workload: Workload, vocabulary_size: int):
    from transformers import MarianConfig, MarianMTModel

    sizes = {"layers": workload.layers, "attention_heads": HEADS, "ffn_dim": FEED_FORWARD}
    config = MarianConfig(
        vocab_size=vocabulary_size,
        d_model=WIDTH,
        **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()},
        activation_function="relu",
        scale_embedding=True,
        dropout=workload.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=END,
        decoder_start_token_id=PAD,
    )
    return MarianMTModel(config)


def train(workload: Workload, folder: Path, meter: Meter, *, compiled: bool = False) -> None:
    random.seed(SEED)
    torch.manual_seed(SEED)
    vocabulary = {piece: number for number, (piece, _) in enumerate(joint_vocabulary(workload), start=END + 1)}
    pairs = read(workload, vocabulary)
    model = marian(workload, END + 1 + len(vocabulary)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=workload.learning_rate, weight_decay=0.0, fused=True)
    forward = torch.compile(model, dynamic=True) if compiled else model
    while True:
        for batch in batches(pairs, workload.tokens):
            source, target = (
                pad_sequence(side, batch_first=True, padding_value=PAD) for side in zip(*batch, strict=True)
            )
            words = source != PAD
            real = int((target != PAD).sum())
            meter.step(model, real, int(words.sum()), source.numel() + target.numel(), len(batch))
            shifted = torch.cat([target.new_full((len(target), 1), PAD), target[:, :-1]], dim=1)
            logits = forward(input_ids=source, attention_mask=words, decoder_input_ids=shifted).logits
            loss = cross_entropy(
                logits.flatten(0, 1),
                target.flatten(),
                ignore_index=PAD,
                label_smoothing=workload.label_smoothing,
            )
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(model.parameters(), workload.clip)
            optimizer.step()
