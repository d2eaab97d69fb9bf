"""Training and decoding of pictures of formulas: pictures a second of weft, and of an ordinary padded PyTorch pipeline.

    ../shared/data/unpack DIR crohme
    python benchmarks/formula_speed.py weft DIR/crohme --seconds 30
    python benchmarks/formula_speed.py rival DIR/crohme --seconds 30 [--batch 144] [--norm batch]
    python benchmarks/formula_speed.py read-weft DIR/crohme --run RUN         decoding: batches of weft
    python benchmarks/formula_speed.py read-rival DIR/crohme [--batch 64]     decoding: a plain loop over batches

Both have the network of the recipe `formulas`: three stages of convolutions with residual blocks (64, 128, 256
channels), two Transformer layers over all places, three of a decoder; label smoothing, AdamW, clipping, bf16; no
augmentation. The rival is written as such pipelines are, at its best: decoded pictures in memory, batches of similar
size made by processes that work ahead, page-locked memory, pictures padded to the largest of their batch, channels
last, `torch.autocast`, a fused optimizer, eager. Its decoding is a loop that calls the decoder on the tokens so far,
for all pictures of a batch, as many times as the longest reference has tokens. Its batches are the same in every epoch,
and the first epoch does not count, so that cuDNN has a plan for each of their shapes. Each run prints one line of JSON;
the first third of the time does not count. Compare on one machine, one after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

WIDTHS, BLOCKS, WIDTH, HEADS, FEED_FORWARD = (64, 128, 256), 3, 256, 8, 1024
PAD, BEGIN, END = 0, 1, 2


class Formulas(Dataset[tuple[Tensor, Tensor]]):
    """Decoded pictures and the ids of their tokens."""

    def __init__(self, folder: Path, split: str, symbols: dict[str, int]) -> None:
        from PIL import Image

        self.rows = []
        for line in (folder / f"{split}.tsv").read_text().splitlines():
            name, text = line.split("\t")
            with Image.open(folder / name) as picture:
                pixels_HW = torch.from_numpy(np.array(picture.convert("L")))
            ids = [symbols.setdefault(token, len(symbols) + 3) for token in text.split()]
            self.rows.append((pixels_HW, torch.tensor([BEGIN, *ids, END])))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.rows[row]


def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures padded to the largest, their sizes, and padded ids."""
    sizes_B2 = torch.tensor([picture_HW.shape for picture_HW, _ in rows])
    height, width = sizes_B2.amax(0).tolist()
    pictures_BHW = torch.full((len(rows), height, width), 255, dtype=torch.uint8)
    for padded_HW, (picture_HW, _) in zip(pictures_BHW, rows, strict=True):
        padded_HW[: picture_HW.shape[0], : picture_HW.shape[1]] = picture_HW
    ids_BT = nn.utils.rnn.pad_sequence([ids for _, ids in rows], batch_first=True, padding_value=PAD)
    return pictures_BHW, sizes_B2, ids_BT


class Block(nn.Module):
    def __init__(self, width: int, norm: str) -> None:
        super().__init__()
        make = nn.BatchNorm2d if norm == "batch" else lambda channels: nn.GroupNorm(1, channels)
        self.norms = nn.ModuleList(make(width) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(2))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        inner_BCHW = x_BCHW
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            inner_BCHW = convolution(norm(inner_BCHW).relu())
        return x_BCHW + inner_BCHW


def sinusoids(count: int, width: int, device: torch.device) -> Tensor:
    angles = torch.arange(count, device=device)[:, None] / 10000 ** (torch.arange(0, width, 2, device=device) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Rival(nn.Module):
    """The network, for padded pictures."""

    def __init__(self, symbols: int, norm: str) -> None:
        super().__init__()
        stages: list[nn.Module] = []
        for before, width in zip((1, *WIDTHS[:-1]), WIDTHS, strict=True):
            stages += [nn.Conv2d(before, width, 3, 2, 1), *(Block(width, norm) for _ in range(BLOCKS))]
        self.stem = nn.Sequential(*stages)
        layers = {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": FEED_FORWARD, "dropout": 0.3}
        more = {"batch_first": True, "norm_first": True}
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**layers, **more), 2, enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**layers, **more), 3)
        self.embedding = nn.Embedding(symbols, WIDTH, padding_idx=PAD)
        self.output = nn.Linear(WIDTH, symbols)

    def encode(self, pictures_BHW: Tensor, sizes_B2: Tensor) -> tuple[Tensor, Tensor]:
        """The states of all places, and which are padding."""
        x_BCHW = 1 - pictures_BHW[:, None].float() / 255
        states_BCHW = self.stem(x_BCHW.contiguous(memory_format=torch.channels_last))
        height, width = states_BCHW.shape[2:]
        rows, columns = (sinusoids(count, WIDTH // 2, x_BCHW.device) for count in (height, width))
        places_HWD = torch.cat([rows[:, None].expand(-1, width, -1), columns[None].expand(height, -1, -1)], -1)
        states_BSD = (states_BCHW.permute(0, 2, 3, 1) + places_HWD).flatten(1, 2)
        small_B2 = -(-sizes_B2 // 8)
        rows_BH = torch.arange(height, device=x_BCHW.device) < small_B2[:, :1]
        columns_BW = torch.arange(width, device=x_BCHW.device) < small_B2[:, 1:]
        padding_BS = ~(rows_BH[:, :, None] & columns_BW[:, None]).flatten(1)
        return self.encoder(states_BSD, src_key_padding_mask=padding_BS), padding_BS

    def decode(self, ids_BT: Tensor, states_BSD: Tensor, padding_BS: Tensor) -> Tensor:
        length = ids_BT.shape[1]
        embedded_BTD = self.embedding(ids_BT) * WIDTH**0.5 + sinusoids(length, WIDTH, ids_BT.device)
        mask_TT = nn.Transformer.generate_square_subsequent_mask(length, device=ids_BT.device)
        outputs_BTD = self.decoder(
            embedded_BTD, states_BSD, tgt_mask=mask_TT, tgt_is_causal=True, memory_key_padding_mask=padding_BS
        )
        return self.output(outputs_BTD)


def batches(formulas: Formulas, options: argparse.Namespace) -> Iterator[Any]:
    """Batches of similar sizes, of one epoch after the other, made by other processes."""
    sizes = [picture_HW.numel() for picture_HW, _ in formulas.rows]
    budget = options.batch * float(np.mean(sizes))
    sides = [picture_HW.shape for picture_HW, _ in formulas.rows]
    order = sorted(range(len(formulas)), key=lambda row: (sides[row][1] // 64, sides[row][0]))
    groups: list[list[int]] = [[]]
    area = 0
    for row in order:
        if area + sizes[row] > budget:
            groups.append([])
            area = 0
        groups[-1].append(row)
        area += sizes[row]
    loading = {"num_workers": options.workers, "pin_memory": True, "collate_fn": collate}
    many = [group for _ in range(100) for group in random.sample(groups, len(groups))]
    yield from DataLoader(formulas, batch_sampler=many, **loading)


def train_rival(options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(1)
    symbols: dict[str, int] = {}
    formulas = Formulas(options.folder, "train", symbols)
    model = Rival(len(symbols) + 3, options.norm).to(options.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), 0.0005, fused=options.device != "cpu")
    start, counted, steps, seen, first = time.perf_counter(), 0, 0, 0, 0.0
    for batch in batches(formulas, options):
        pictures_BHW, sizes_B2, ids_BT = (part.to(options.device, non_blocking=True) for part in batch)
        with torch.autocast(torch.device(options.device).type, torch.bfloat16):
            logits_BTV = model.decode(ids_BT[:, :-1], *model.encode(pictures_BHW, sizes_B2))
        loss = functional.cross_entropy(
            logits_BTV.flatten(0, 1).float(), ids_BT[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        now, seen = time.perf_counter() - start, seen + len(pictures_BHW)
        if now < options.seconds / 3 or seen <= len(formulas):
            first = now
            continue
        counted, steps = counted + len(pictures_BHW), steps + 1
        if now > options.seconds and counted:
            break
    if options.device != "cpu":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start - first
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "pictures_per_second": round(counted / seconds),
        "ms": round(1e3 * seconds / steps, 1),
        "loss": round(loss.item(), 3),
        "parameters": parameters,
    }


def train_weft(options: argparse.Namespace) -> dict[str, Any]:
    import weft
    from weft.training.events import Step
    from weft.training.train import train

    pixels = [row[0].numel() + 8 for row in Formulas(options.folder, "train", {}).rows]
    plain = ["resize", "scale", "shear", "stroke"]
    changes = [
        *(f"training.augmentation.{name}=0" for name in plain),
        *(
            "training.validate_every=1000000",
            "training.save_every=0",
            "training.steps=1000000",
            "training.log_every=10",
        ),
        *(f"data.folder={json.dumps(str(options.folder))}", f"training.device={options.device}"),
        f"training.batch_tokens={round(options.batch * float(np.mean(pixels)))}",
        *options.set,
    ]
    with tempfile.TemporaryDirectory() as folder:
        events = train(weft.load_recipe("formulas", changes), Path(folder) / "run")
        start = first = last = None
        tokens = 0
        for event in events:
            if not isinstance(event, Step):
                continue
            now = time.perf_counter()
            start = start or now
            last = (event.step, now)
            if now - start < options.seconds / 3:
                first, tokens = last, 0
            tokens += event.source_tokens
            if now - start > options.seconds:
                break
        events.close()  # type: ignore[attr-defined]
    assert first is not None and last is not None
    steps = (last[0] - first[0]) / (last[1] - first[1])
    pictures = tokens / float(np.mean(pixels)) / (last[1] - first[1])
    return {"pictures_per_second": round(pictures), "ms": round(1e3 / steps, 1)}


@torch.inference_mode()
def read_rival(options: argparse.Namespace) -> dict[str, Any]:
    symbols: dict[str, int] = {}
    formulas = Formulas(options.folder, "train", symbols)
    tests = Formulas(options.folder, "valid", symbols)
    model = Rival(len(symbols) + 3, options.norm).to(options.device, memory_format=torch.channels_last).eval()
    order = sorted(range(min(len(tests), options.limit)), key=lambda row: tests.rows[row][0].shape[1])
    groups = [order[first : first + options.batch] for first in range(0, len(order), options.batch)]
    del formulas
    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        for group in groups:
            pictures_BHW, sizes_B2, ids_BT = (
                part.to(options.device) for part in collate([tests[row] for row in group])
            )
            with torch.autocast(torch.device(options.device).type, torch.bfloat16):
                states = model.encode(pictures_BHW, sizes_B2)
                read_BT = ids_BT[:, :1]
                for _ in range(ids_BT.shape[1] - 1):
                    logits_BTV = model.decode(read_BT, *states)
                    read_BT = torch.cat([read_BT, logits_BTV[:, -1:].argmax(-1)], 1)
            read_BT.tolist()
        best = max(best, len(order) / (time.perf_counter() - start))
    return {"pictures_per_second": round(best, 1), "batch": options.batch}


def read_weft(options: argparse.Namespace) -> dict[str, Any]:
    import weft

    run = weft.load(options.run, device=options.device)
    rows = (options.folder / "valid.tsv").read_text().splitlines()
    names = [str(options.folder / row.split("\t")[0]) for row in rows]
    results: dict[str, Any] = {}
    for search in ({"kind": "greedy"}, {"kind": "beam", "size": 10}):
        best = 0.0
        for _ in range(4):
            start = time.perf_counter()
            count = sum(1 for _ in run.translate_lines(names, **search))
            best = max(best, count / (time.perf_counter() - start))
        results[f"{search['kind']}_pictures_per_second"] = round(best, 1)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["weft", "rival", "read-weft", "read-rival"])
    parser.add_argument("folder", type=lambda name: Path(name).resolve(), help="the folder crohme")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=144, help="pictures of mean size in a batch")
    parser.add_argument("--workers", type=int, default=6, help="rival: processes that make batches")
    parser.add_argument("--norm", choices=["layer", "batch"], default="batch", help="rival: norms of its convolutions")
    parser.add_argument("--run", default="runs/formulas", help="read-weft: a run of the recipe")
    parser.add_argument("--limit", type=int, default=1_000_000, help="read-rival: the first so many pictures")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="weft: a change of the recipe")
    options = parser.parse_args()
    measure = {"weft": train_weft, "rival": train_rival, "read-weft": read_weft, "read-rival": read_rival}
    print(json.dumps({"what": options.what, "batch": options.batch, **measure[options.what](options)}), flush=True)


if __name__ == "__main__":
    main()
