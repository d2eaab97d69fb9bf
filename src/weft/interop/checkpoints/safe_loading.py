"""Checkpoints of `torch.save` as plain data. Nothing in a file is executed.

`torch.load(weights_only=True)` makes tensors, numbers, texts and containers, and refuses every other class. Options and
vocabularies are objects of a few known classes, which are not imported: in their place stands a `Record`, which keeps
the attributes of an object and has no methods.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from weft.errors import CheckpointError
from weft.runtime.devices import check_weights_memory

SHOWN = 150
"""Characters of a reason that an error message shows."""


class Record:
    """The attributes of an object whose class is not imported."""

    def __new__(cls, *arguments: Any) -> Record:
        return object.__new__(cls)

    def __init__(self, *arguments: Any) -> None:
        self.attributes: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        self.attributes = dict(state) if isinstance(state, dict) else {}


def _plain_dict(*arguments: Any) -> dict[Any, Any]:
    """Stands in for a `collections.defaultdict`, without its default factory."""
    return {}


RECORDS = (
    "argparse.Namespace",
    "functools.partial",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
    "onmt.inputters.inputter.AlignField",
    "onmt.inputters.inputter.make_src",
    "onmt.inputters.inputter.make_tgt",
    "onmt.inputters.text_dataset.TextMultiField",
    "onmt.inputters.text_dataset._feature_tokenize",
    *(
        f"torchtext.{part}{name}"
        for part in ("", "legacy.")
        for name in (
            "data.field.Field",
            "data.field.LabelField",
            "data.field.RawField",
            "data.utils._split_tokenizer",
            "vocab.Vocab",
            "vocab._default_unk_index",
        )
    ),
)
"""Classes and functions that a `Record` stands in for: options, vocabularies, and the objects they refer to."""
STAND_INS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(RECORDS, Record),
    "collections.defaultdict": _plain_dict,
}


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a checkpoint: a dictionary by names."""
    try:
        check_weights_memory(str(path), path.stat().st_size)
        is_archive = _check_archive(path)
        with torch.serialization.safe_globals([(stand_in, name) for name, stand_in in STAND_INS.items()]):
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)
    except CheckpointError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise CheckpointError(f"{path}: {_reason(error)}") from None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise CheckpointError(f"{path}: not a checkpoint of fairseq, OpenNMT-py or Joey NMT: it holds no named parts")
    return content


def _check_archive(path: Path) -> bool:
    """Whether a file is an archive, as PyTorch writes it since version 1.6; it must not be compressed."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise CheckpointError(f"{path}: a compressed archive, not a checkpoint of PyTorch")
    return True


def _reason(error: Exception) -> str:
    """The reason why a file cannot be read, in one line."""
    text = " ".join(str(error).split())
    if refused := re.search(r"(?:GLOBAL|function) <?(?:class |built-in function |function )?'?([\w.]+)", text):
        return (
            f"not imported: it holds an object that is not plain data ({refused[1]}); weft reads tensors, options and "
            "vocabularies, and runs no code of a checkpoint"
        )
    text = text.split("WeightsUnpickler error:")[-1].strip()
    return f"damaged, incomplete, or not a checkpoint of PyTorch ({text[:SHOWN] or type(error).__name__})"


def attributes_of(value: Any) -> Mapping[str, Any]:
    """Options as a mapping: a dictionary, or the attributes of a namespace; empty for anything else."""
    if isinstance(value, Record):
        return value.attributes
    return value if isinstance(value, dict) else {}
