"""The run folder: what a training run leaves behind, loadable even if the process is killed at any moment.

    recipe.toml              every setting, defaults included
    tokenizer.json           or tokenizer.source.json and tokenizer.target.json
    lengths.json             how long outputs may become and whether they may loop, learned from the training pairs
    confidence.json          how likely outputs are right, fitted on validation pairs (`weft.translation.confidence`)
    model.safetensors        the weights to use: the best so far, or at the end the mean of the best if it is better;
                             or those of the last step, as training.choose says; their moving average with training.ema;
                             which they are (origin.py), the format's version, the tokenizer's fingerprint
    adapters/NAME/           adapters of these weights (adapters.py)
    training/step-N/         everything that resuming needs: weights, optimizer, random states, position in the data
    training/best/           the best checkpoints, as many as the mean is made of
    fingerprints.bin         hashes of the training pairs (`weft.data.fingerprints`)
    data_files.json          fingerprints of the data files (data_record.py)
    states.safetensors       decoder states of training pairs, if serve.states says so (`weft.pairs.state_index`)
    examples.json            some sources, for the page of a service (examples.py)
    distillation.json        of a student: its teachers (`weft.pairs.distillation`)
    log.jsonl                one line per event
    metrics.json, README.md  the result, for programs and for people

Every file is written to a temporary name, flushed to disk and renamed; a checkpoint folder and the run folder itself
appear complete in one rename. Tensors are stored as safetensors, the rest as JSON: loading a run never runs code.
Nothing outside the run folder is written or removed: a run in which a folder to write to is a symbolic link is not
resumed, and a link in place of a file is replaced, not followed. Only checkpoints and half-written files are removed,
recognized by their names; whatever else a user keeps in a run folder stays.
Importing this module does not import torch, so a command can check a run folder before it does.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import CheckpointError, WeftError, option
from weft.files import check_checksum, read_json, save_bytes, save_text, sync_folder, with_checksum
from weft.runs.locks import creating_folder, is_empty_folder
from weft.runs.weights import (
    FORMAT,
    TensorFile,
    Tensors,
    WeightsOrigin,
    check_format,
    check_tensor_format,
    read_metadata,
    read_tensors,
    write_tensors,
)

CHECKPOINT_FOLDER = re.compile(r"step-[0-9]+|\.step-[0-9]+\.part")
"""The folders in training/ that weft makes, those of a killed process included."""
BEST_FILE = re.compile(r"step-[0-9]+\.safetensors|\.step-[0-9]+\.safetensors\.[0-9]+\.part")
"""The files in training/best/ that weft makes."""
HALF_WRITTEN = re.compile(
    r"\.(recipe\.toml|tokenizer(\.source|\.target)?\.json|model\.safetensors|log\.jsonl|data_files\.json|metrics\.json|README\.md|"
    r"confidence\.json|states\.safetensors|"
    r"adapter_config\.json|adapter_model\.safetensors)(\.[0-9]+)?\.part"
)
"""The files in a run folder, or in that of an adapter, that a killed process leaves behind."""
EXAMPLES_NAME = "examples.json"
"""A few sources of the validation or test set, which the page of `weft serve` offers to translate. They are chosen when
a run is trained (`weft.data.preparation.corpora.example_sources`), so that serving a run reads its folder only."""
MAX_EXAMPLES = 8
MAX_EXAMPLE_CHARACTERS = 1_000
"""Characters of a source; longer sources are no examples."""
MAX_EXAMPLES_BYTES = 1 << 16


class Checkpoint(NamedTuple):
    """Everything needed to resume a run."""

    weights: Tensors
    optimizer: Tensors
    state: dict[str, Any]
    path: Path | None = None
    """The folder it was read from."""


def fingerprint(paths: list[Path]) -> str:
    """A hash of the tokenizer files, to tell one tokenizer from another."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class RunFolder:
    """A run folder, to write or to read."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.toml"
        self.model = self.path / "model.safetensors"
        self.log = self.path / "log.jsonl"
        self.metrics = self.path / "metrics.json"
        self.card = self.path / "README.md"
        self.training = self.path / "training"
        self.best = self.training / "best"

    @classmethod
    def create(cls, path: Path, fill: Callable[[RunFolder], None]) -> RunFolder:
        """Create a run folder; ``fill`` writes its first contents to a temporary folder, which is then renamed.

        The caller holds the lock of the path (`lock_folder`).
        """
        cls.check_new(path)
        with creating_folder(path) as temporary:
            (temporary / "training" / "best").mkdir(parents=True)
            fill(cls(temporary))
        return cls(path)

    @staticmethod
    def check_new(path: Path) -> None:
        """Fail if the path exists, unless it is an empty folder other than the working directory.

        Creating the run replaces the folder, which would leave this process in a deleted working directory.
        """
        if path.exists() and (path.resolve() == Path.cwd() or not is_empty_folder(path)):
            resume, out = option("resume", True), option("out")
            raise CheckpointError(f"{path}: already exists; continue it with {resume}, or choose another {out}")

    def check(self) -> RunFolder:
        """This folder, if it is a run that this version of weft can read; imports no torch."""
        if not self.path.is_dir():
            raise CheckpointError(
                f"{self.path}: no such run folder; train one with `weft train RECIPE --out {self.path}`"
            )
        if not self.recipe.is_file():
            raise CheckpointError(f"{self.path}: not a run folder (it has no recipe.toml)")
        check_tensor_format(self.model)
        return self

    def check_resumable(self) -> None:
        """Fail if the weights come from another toolkit: there is no training to resume."""
        if not any(self._checkpoint_steps()) and read_metadata(self.model).get("weights") == "imported":
            start = option("start", str(self.path), flag="from")
            raise CheckpointError(
                f"{self.path}: was imported, so there is no training to resume; train from it: {start}"
            )

    def check_no_links(self) -> None:
        """Fail if something that a resumed run writes to is a symbolic link, which may lead out of the run folder."""
        steps = [self.checkpoint_path(step) for step in self._checkpoint_steps()]
        written = (self.path / "tensorboard", self.path / "adapters", *(self.path / "adapters").glob("*"))
        for path in (self.training, self.best, *steps, self.log, *written):
            if path.is_symlink():
                raise CheckpointError(
                    f"{path}: is a symbolic link; a resumed run writes only inside its folder; "
                    "put a copy of what it points to in its place"
                )

    def tokenizer_paths(self) -> list[Path]:
        """The tokenizer files: one, or source and target."""
        joint = self.path / "tokenizer.json"
        both = [self.path / "tokenizer.source.json", self.path / "tokenizer.target.json"]
        if joint.is_file():
            return [joint]
        missing = [path for path in both if not path.is_file()]
        if missing:
            raise CheckpointError(
                f"{joint if len(missing) == 2 else missing[0]}: missing; the run folder is incomplete"
            )
        return both

    def write_model(self, tensors: Tensors, origin: WeightsOrigin) -> None:
        """Replace model.safetensors."""
        write_tensors(self.model, tensors, {"tokenizer": fingerprint(self.tokenizer_paths()), **origin.metadata()})

    def read_model(self) -> TensorFile:
        """The weights of model.safetensors, checked to belong to the tokenizer of the folder."""
        return self.check_tokenizer(read_tensors(self.model), fingerprint(self.tokenizer_paths()))

    def content_hash(self) -> str:
        """A hash of the recipe, the weights and the adapters."""
        digest = hashlib.blake2b(digest_size=8)
        for path in (self.recipe, self.model, *sorted(self.path.glob("adapters/*/*.safetensors"))):
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()

    def check_tokenizer(self, weights: TensorFile, tokenizer: str) -> TensorFile:
        """The weights, if they belong to the tokenizer of this fingerprint, which is that of the folder."""
        if weights.metadata.get("tokenizer") != tokenizer:
            raise CheckpointError(
                f"{self.path}: the tokenizer is not the one this model was trained with; restore the tokenizer file"
            )
        return weights

    def checkpoint_path(self, step: int) -> Path:
        return self.training / f"step-{step}"

    def best_file(self, step: int) -> Path:
        """The weights of one of the best checkpoints."""
        return self.best / f"step-{step}.safetensors"

    def write_checkpoint(self, step: int, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint to resume from; it appears complete in one rename. Each step is written once."""
        final = self.checkpoint_path(step)
        temporary = self.training / f".step-{step}.part"
        _remove(temporary)
        try:
            temporary.mkdir()
            write_tensors(temporary / "weights.safetensors", checkpoint.weights)
            write_tensors(temporary / "optimizer.safetensors", checkpoint.optimizer)
            state = with_checksum({"weft_format": FORMAT, **checkpoint.state})
            save_text(temporary / "state.json", json.dumps(state, indent=1))
            sync_folder(temporary)
            temporary.rename(final)
        except OSError:
            _remove(temporary)  # on a full disk every byte counts
            raise
        sync_folder(self.training)
        return final

    def prune(self, step: int, best: Sequence[int]) -> None:
        """Remove all checkpoints but this step's and the best ones, and half-written files of a killed process."""
        if self.training.is_symlink() or self.best.is_symlink():
            return
        kept = {self.checkpoint_path(step).name, *(f"step-{best_step}.safetensors" for best_step in best)}
        folders = [(self.training, CHECKPOINT_FOLDER), (self.best, BEST_FILE), (self.path, HALF_WRITTEN)]
        adapters = [path for path in (self.path / "adapters").glob("*") if path.is_dir() and not path.is_symlink()]
        for folder, names in [*folders, *((adapter, HALF_WRITTEN) for adapter in adapters)]:
            for path in folder.iterdir():
                if names.fullmatch(path.name) and path.name not in kept:
                    _remove(path)

    def _checkpoint_steps(self) -> list[int]:
        """The steps that there is a checkpoint folder of, complete or not."""
        names = [folder.name for folder in self.training.glob("step-*")]
        return [int(name[5:]) for name in names if CHECKPOINT_FOLDER.fullmatch(name)]

    def newest_step(self) -> int:
        """The step of the newest checkpoint."""
        self.check_no_links()
        complete = [step for step in self._checkpoint_steps() if (self.checkpoint_path(step) / "state.json").is_file()]
        if not complete:
            raise CheckpointError(f"{self.training}: no checkpoint to resume from; the folder is incomplete")
        return max(complete)

    def read_checkpoint(self) -> Checkpoint:
        """The newest checkpoint."""
        folder = self.checkpoint_path(self.newest_step())
        state = read_json(folder / "state.json")
        version = state.get("weft_format") if isinstance(state, dict) else None
        if not isinstance(version, int):
            raise CheckpointError(f"{folder / 'state.json'}: damaged; it names no format version")
        check_format(folder / "state.json", version)
        check_checksum(state, where=str(folder / "state.json"))
        weights = read_tensors(folder / "weights.safetensors").tensors
        return Checkpoint(weights, read_tensors(folder / "optimizer.safetensors").tensors, state, folder)

    def append_log(self, record: Mapping[str, Any]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(self.log, flags, 0o666), "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.log)) from None

    def truncate_log(self, step: int) -> None:
        """Remove the events logged after a step: a resumed run will log them again."""
        if self.log.is_file():
            kept = [line for line in self.log.read_bytes().splitlines() if _step_of(line) <= step]
            save_bytes(self.log, b"".join(line + b"\n" for line in kept))


def _step_of(line: bytes) -> float:
    """The step of a log line; infinity for a line that is incomplete (of a killed process) or damaged."""
    try:
        return int(json.loads(line).get("step", 0))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return float("inf")


def _remove(path: Path) -> None:
    """Remove a file, a folder with all that is in it, or a link; what a link points to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_examples(folder: Path, sources: Sequence[str]) -> None:
    save_text(folder / EXAMPLES_NAME, json.dumps(list(sources), ensure_ascii=False, indent=1) + "\n")


def read_examples(folder: Path) -> list[str]:
    """The examples of a run folder; none if it has none. A link is not followed: it may lead out of the folder."""
    path = folder / EXAMPLES_NAME
    if path.is_symlink() or not path.is_file():
        return []
    try:
        sources = read_json(path, max_bytes=MAX_EXAMPLES_BYTES)
    except (WeftError, OSError):
        return []
    texts = [text for text in sources if isinstance(text, str)] if isinstance(sources, list) else []
    return [text for text in texts if text.strip() and len(text) <= MAX_EXAMPLE_CHARACTERS][:MAX_EXAMPLES]
