"""A Transformer as a folder that CTranslate2 loads.

The folder is complete in itself: model.bin, config.json and the vocabularies, which CTranslate2 reads; the recipe and
the tokenizers of the run, which turn text into token ids and back; and weft.json, which describes the export. Tokens
are named by their ids, "17", since a token's text may hold a line end or be spelled like a special token; the special
tokens are <unk>, <s> and </s>. A source is given with its end token. A run whose outputs start with other tokens than
<s>, such as a language, has no start token in CTranslate2: they are the target prefix of every call.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from torch import nn

from weft.errors import CheckpointError, RecipeError, SearchError, nearest
from weft.files import read_json, save_text
from weft.models.architecture import architecture_of
from weft.models.seq2seq import Seq2Seq
from weft.recipe.toml import write_toml
from weft.runs.load import LoadedRun
from weft.runs.locks import lock_folder, remove_left_folders
from weft.runs.weights import hash_tensors, model_tensors
from weft.translation.engines.ctranslate2.specification import (
    POSITIONS,
    make_spec,
    max_positions,
    token_names,
    transformer_stacks,
)
from weft.translation.engines.ctranslate2.support import STARTS, is_installed, unsupported_model

FORMAT = 2
INFO_FILE = "weft.json"
FILES = re.compile(
    r"weft\.json|recipe\.toml|lengths\.json|tokenizer(\.source|\.target)?\.json|model\.bin|config\.json"
    r"|(shared|source|target)_vocabulary\.json"
)
"""The names of the files of an export."""
QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)


class ExportInfo(NamedTuple):
    """The description of an exported folder."""

    source_vocabulary: int
    target_vocabulary: int
    quantization: str
    max_source_length: int | None
    """None: no limit."""
    max_target_length: int | None
    weights: str
    """A hash of the weights that were exported."""
    start: Sequence[str] = ()
    """The target prefix of every call, in the languages of the run; empty: none is needed."""

    @classmethod
    def read(cls, folder: Path) -> ExportInfo | None:
        """The description of an export; None if the folder holds none in this version's format."""
        try:
            content = read_json(folder / INFO_FILE)
            return cls(**content["export"]) if content["weft_ctranslate2"] == FORMAT else None
        except (OSError, CheckpointError, KeyError, TypeError):
            return None

    def to_json(self) -> str:
        return json.dumps({"weft_ctranslate2": FORMAT, "export": self._asdict()}, indent=1) + "\n"


def export(run: LoadedRun, folder: Path | str, *, quantization: str = "float32", positions: int = POSITIONS) -> Path:
    """Write a run's Transformer as a CTranslate2 model; an earlier export in the folder is replaced.

    ``quantization``: the data type of stored weights; ``positions``: the longest sequence it can read, where that
    depends on a table.
    """
    folder = Path(folder)
    _check_exportable(run, quantization)
    _check_replaceable(folder)
    with lock_folder(folder, "exporting"):
        remove_left_folders(folder)
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        try:
            write_model(run, temporary, quantization=quantization, positions=positions)
            run.tokenizers.save(temporary)
            save_text(temporary / "recipe.toml", write_toml(run.recipe))
            run.length_limits.write(temporary)
            _replace_folder(folder, temporary)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(folder)) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def write_model(run: LoadedRun, folder: Path, *, quantization: str = "float32", positions: int = POSITIONS) -> None:
    """Make a folder with the files that `CTranslate2Model` reads."""
    model = _check_exportable(run, quantization)
    encoder, decoder = transformer_stacks(model)
    start, names = run.tokenizers.frame.start, token_names(run.tokenizers.target.size)
    info = ExportInfo(
        source_vocabulary=run.tokenizers.source.size,
        target_vocabulary=run.tokenizers.target.size,
        quantization=quantization,
        max_source_length=max_positions(encoder, positions),
        max_target_length=max_positions(decoder, positions),
        weights=hash_tensors(model_tensors(model)),
        start=[] if start in STARTS else [names[id] for id in start],
    )
    spec = make_spec(model, positions=positions, start=None if info.start else start[0])
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir()
    spec.save(str(folder))
    save_text(folder / INFO_FILE, info.to_json())


def _check_exportable(run: LoadedRun, quantization: str) -> Seq2Seq:
    """The model of a run, if it can be exported."""
    if not is_installed():
        raise SearchError("CTranslate2 is not installed; `pip install ctranslate2`")
    if quantization not in QUANTIZATIONS:
        raise SearchError(f"--quantization {quantization}: unknown; {nearest(quantization, QUANTIZATIONS)}")
    name, model = run.recipe.name, run.model
    reason = unsupported_model(run.recipe.model, loss=run.recipe.training.loss)
    if reason is not None:
        raise RecipeError(f"{name}: {reason}")
    if architecture_of(model).kind != "seq2seq":
        raise RecipeError(f"{name}: an ensemble is not a single model; export its runs one at a time")
    seq2seq = cast(Seq2Seq, model)
    _, decoder = transformer_stacks(seq2seq)
    if not isinstance(decoder.layers[0].self_attention.output, nn.Linear):
        raise RecipeError(f"{name}: its matrices are already quantized; export the run as it is stored")
    return seq2seq


def _check_replaceable(folder: Path) -> None:
    """Only an earlier export, without files of a user in it, or an empty folder is ever replaced."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder}: is a symbolic link; give the folder itself with --out")
    if folder.is_dir():
        names = [path.name for path in folder.iterdir()]
        foreign = [name for name in names if not FILES.fullmatch(name)]
        if foreign and INFO_FILE in names:
            raise CheckpointError(
                f"{folder}: holds {min(foreign)!r} beside a CTranslate2 export, which would be lost; "
                "move it away, or choose another folder with --out"
            )
        if not names or INFO_FILE in names:
            return
    if folder.exists():
        raise CheckpointError(
            f"{folder}: already exists and is not a CTranslate2 export; choose another folder with --out"
        )


def _replace_folder(folder: Path, new: Path) -> None:
    """Put one folder in place of another: a reader finds the old one, the new one or, for a moment, none."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    try:
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except OSError:
        if ExportInfo.read(folder) is None:  # otherwise another process has just written the same
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
