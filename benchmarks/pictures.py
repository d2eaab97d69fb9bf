"""Training and decoding of pictures: pictures a second of weft, and of an ordinary padded PyTorch pipeline.

    weft data generate drawn-digits --count 4000 --out digits
    python benchmarks/pictures.py weft digits --seconds 40
    python benchmarks/pictures.py rival digits --seconds 40 [--buckets] [--decoded] [--workers N] [--batch N]
    python benchmarks/pictures.py read-weft digits        decoding: batches of weft
    python benchmarks/pictures.py read-rival digits       decoding: a plain loop, one picture after the other

Both read lines: three stages of convolutions of 3 × 3 (16, 32, 64 channels; the height by 8, the width by 4), means of
four ranges of the height, a linear layer, a bidirectional LSTM, CTC; no augmentation; Adam. The rival is written as
such pipelines are: a `Dataset` that opens a file with Pillow, a `DataLoader`, batches padded to their widest picture,
`pack_padded_sequence`, `torch.nn.functional.ctc_loss`, eager. ``--decoded`` keeps the decoded pictures in memory, and
``--buckets`` makes batches of pictures of similar width: the rival at its best. Each run prints one line of JSON;
the first fifth of the time does not count. Compare on one machine, one after the other.
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

SYMBOLS = "0123456789+-"
WIDTHS, STRIDES, BINS = (16, 32, 64), ((2, 2), (2, 2), (2, 1)), 4
STATES, HIDDEN = 128, 128
MEAN_PIXELS = 1440
"""Of a picture: by them a batch of weft has as many pictures as one of the rival."""


class Lines(Dataset[tuple[Tensor, Tensor]]):
    """Pictures of lines, and their labels."""

    def __init__(self, folder: Path, *, decoded: bool) -> None:
        rows = [line.split("\t") for line in (folder / "train.tsv").read_text().splitlines()]
        self.folder, self.rows = folder, rows
        self.kept = [self._open(name) for name, _ in rows] if decoded else None

    def _open(self, name: str) -> Tensor:
        from PIL import Image

        with Image.open(self.folder / name) as picture:
            return torch.from_numpy(np.array(picture.convert("L")))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        name, text = self.rows[row]
        pixels_HW = self.kept[row] if self.kept is not None else self._open(name)
        return 1 - pixels_HW.float() / 255, torch.tensor([SYMBOLS.index(symbol) + 1 for symbol in text])


def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pictures padded to the widest, their widths, labels end to end, their numbers."""
    widths = torch.tensor([picture.shape[1] for picture, _ in rows])
    padded = torch.stack([functional.pad(picture, (0, int(widths.max()) - picture.shape[1])) for picture, _ in rows])
    return (
        padded[:, None],
        widths,
        torch.cat([labels for _, labels in rows]),
        torch.tensor([len(row[1]) for row in rows]),
    )


class Rival(nn.Module):
    """The network, for padded pictures."""

    def __init__(self) -> None:
        super().__init__()
        before = (1, *WIDTHS[:-1])
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, stride, 1)
            for inputs, outputs, stride in zip(before, WIDTHS, STRIDES, strict=True)
        )
        self.norm = nn.LayerNorm(WIDTHS[-1])
        self.projection = nn.Linear(WIDTHS[-1] * BINS, STATES)
        self.lstm = nn.LSTM(STATES, HIDDEN // 2, bidirectional=True, batch_first=True)
        self.output = nn.Linear(HIDDEN, len(SYMBOLS) + 1)

    def forward(self, pictures_BCHW: Tensor, widths_B: Tensor) -> tuple[Tensor, Tensor]:
        for convolution in self.convolutions:
            pictures_BCHW = convolution(pictures_BCHW)
        states_BCHW = self.norm(pictures_BCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        means_BCKW = functional.adaptive_avg_pool2d(states_BCHW, (BINS, states_BCHW.shape[3]))
        states_BWD = self.projection(means_BCKW.permute(0, 3, 2, 1).flatten(2))
        lengths_B = (widths_B + 3) // 4
        packed = nn.utils.rnn.pack_padded_sequence(states_BWD, lengths_B, batch_first=True, enforce_sorted=False)
        states_BWD, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.output(states_BWD).log_softmax(-1), lengths_B


def batches(lines: Lines, options: argparse.Namespace) -> Iterator[Any]:
    """Batches of one epoch after the other."""
    size = options.batch
    loading = {"num_workers": options.workers, "pin_memory": options.device != "cpu", "collate_fn": collate}
    while True:
        if not options.buckets:
            yield from DataLoader(lines, size, shuffle=True, **loading)
            continue
        order = sorted(random.sample(range(len(lines)), len(lines)), key=lambda row: len(lines.rows[row][1]))
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        random.shuffle(groups)
        yield from DataLoader(lines, batch_sampler=groups, **loading)


def train_rival(options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(1)
    lines, model = Lines(options.folder, decoded=options.decoded), Rival().to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 0.002)
    start, counted, first = time.perf_counter(), 0, 0.0
    for pictures_BCHW, widths_B, labels_N, counts_B in batches(lines, options):
        log_p_BTV, lengths_B = model(pictures_BCHW.to(options.device, non_blocking=True), widths_B)
        loss = functional.ctc_loss(log_p_BTV.transpose(0, 1), labels_N.to(options.device), lengths_B, counts_B)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        now = time.perf_counter() - start
        if now < options.seconds / 5:
            first = now
            continue
        counted += len(widths_B)
        if now > options.seconds:
            break
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "pictures_per_second": round(counted / (now - first), 1),
        "loss": round(loss.item(), 3),
        "parameters": parameters,
    }


def recipe_of(options: argparse.Namespace) -> Any:
    from weft.recipe import make_recipe

    values = {
        **{"data.train": str(options.folder / "train.tsv"), "data.holdout.valid": 0.01, "tokenizer.kind": "picture"},
        **{"tokenizer.target_kind": "character", "tokenizer.joint": False, "model.kind": "ctc"},
        **{"model.embedding": STATES, "model.dropout": 0.0, "model.stem.kind": "columns", "model.stem.blocks": 0},
        **{"model.stem.widths": [*WIDTHS], "model.encoder.kind": "lstm", "model.encoder.hidden": HIDDEN},
        **{
            "training.batch_tokens": MEAN_PIXELS * options.batch,
            "training.steps": 1_000_000,
            "training.validate_every": 0,
        },
        **{
            "training.save_every": 0,
            "training.log_every": 10,
            "training.device": options.device,
            "training.label_smoothing": 0.0,
        },
        **{"training.learning_rate": 0.002, "name": "digits"},
    }
    return make_recipe({}, [f"{name}={json.dumps(value)}" for name, value in values.items()])


def train_weft(options: argparse.Namespace) -> dict[str, Any]:
    from weft.training.events import Step
    from weft.training.train import train

    with tempfile.TemporaryDirectory() as folder:
        events = train(recipe_of(options), Path(folder) / "run")
        start = first = last = None
        for event in events:
            if not isinstance(event, Step):
                continue
            now = time.perf_counter()
            start = start or now
            if now - start < options.seconds / 5:
                first = (event.step, now)
            last = (event.step, now)
            if now - start > options.seconds:
                break
        events.close()  # type: ignore[attr-defined]
    assert first is not None and last is not None
    steps = (last[0] - first[0]) / (last[1] - first[1])
    return {"steps_per_second": round(steps, 2), **mean_batch(options, steps)}


def mean_batch(options: argparse.Namespace, steps: float) -> dict[str, Any]:
    """Pictures a second, by the mean number of pictures in a batch of so many bytes."""
    from weft.data.arrays.files import ArrayFiles

    rows = (options.folder / "train.tsv").read_text().splitlines()[:500]
    with ArrayFiles(options.folder) as files:
        sizes = [files.read(row.split("\t")[0]).size + 8 for row in rows]
    pictures = MEAN_PIXELS * options.batch / float(np.mean(sizes))
    return {"pictures_per_batch": round(pictures, 1), "pictures_per_second": round(steps * pictures, 1)}


def read_rival(options: argparse.Namespace) -> dict[str, Any]:
    lines, model = Lines(options.folder, decoded=False), Rival().to(options.device).eval()
    start, count = time.perf_counter(), 0
    with torch.no_grad():
        for row in range(len(lines)):
            picture_HW, _ = lines[row]
            log_p_BTV, _ = model(picture_HW[None, None].to(options.device), torch.tensor([picture_HW.shape[1]]))
            path = log_p_BTV[0].argmax(-1).tolist()
            _ = "".join(SYMBOLS[b - 1] for a, b in zip([0, *path], path, strict=False) if b not in (0, a))
            count += 1
            if time.perf_counter() - start > options.seconds:
                break
    return {"pictures_per_second": round(count / (time.perf_counter() - start), 1)}


def read_weft(options: argparse.Namespace) -> dict[str, Any]:
    import weft

    run = weft.load(options.run, device=options.device)
    names = [
        str(options.folder / row.split("\t")[0]) for row in (options.folder / "train.tsv").read_text().splitlines()
    ]
    search = {"kind": options.search} if options.search else {}
    run.translate(names[:50], return_attention=False, **search)
    start, count = time.perf_counter(), 0
    for _ in run.translate_lines(names, **search):
        count += 1
    return {"pictures_per_second": round(count / (time.perf_counter() - start), 1), "search": options.search or "own"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["weft", "rival", "read-weft", "read-rival"])
    parser.add_argument("folder", type=Path, help="as weft data generate drawn-digits writes it")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--decoded", action="store_true", help="rival: decoded pictures are kept in memory")
    parser.add_argument("--batch", type=int, default=24, help="pictures of a batch")
    parser.add_argument("--workers", type=int, default=0, help="rival: processes that load pictures")
    parser.add_argument("--buckets", action="store_true", help="rival: batches of similar widths")
    parser.add_argument("--run", default="runs/digits", help="read-weft: a run of weft on such pictures")
    parser.add_argument("--search", default="", help="read-weft: greedy or beam; by default as the run searches")
    options = parser.parse_args()
    measure = {"weft": train_weft, "rival": train_rival, "read-weft": read_weft, "read-rival": read_rival}
    print(json.dumps({"what": options.what, "threads": torch.get_num_threads(), **measure[options.what](options)}))


if __name__ == "__main__":
    main()
