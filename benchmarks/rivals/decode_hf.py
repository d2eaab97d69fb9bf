"""Hugging Face Marian: a fresh model and `generate`."""

from collections.abc import Callable
from pathlib import Path

import torch
from toolkits.hf import END, PAD, marian
from torch.nn.utils.rnn import pad_sequence
from workload import Workload, joint_vocabulary


def searcher(workload: Workload, folder: Path, *, beam: int, batch: int, length: int) -> Callable:
    pieces = [piece for piece, _ in joint_vocabulary(workload)]
    vocabulary = {piece: number for number, piece in enumerate(pieces, start=END + 1)}
    model = marian(workload, END + 1 + len(vocabulary)).eval()
    model.config.use_cache = model.generation_config.use_cache = True
    model.config.forced_eos_token_id = model.generation_config.forced_eos_token_id = None  # exactly `length` steps

    def search(lines: list[str]) -> list[int]:
        ids = [torch.tensor([*(vocabulary.get(piece, END + 1) for piece in line.split()), END]) for line in lines]
        source = pad_sequence(ids, batch_first=True, padding_value=PAD)
        found = model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
        )
        return [len([pieces[token - END - 1] for token in row if token > END]) for row in found.tolist()]

    return search
