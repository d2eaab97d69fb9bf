"""Transformers in CTranslate2: a run as a folder that it loads, and that folder as an engine of ours.

    export("runs/multi30k", "multi30k-ct2", quantization="int8")
    engine = Engine("multi30k-ct2")
    engine.search([[17, 4, 2]], [20])[0][0].tokens

An exported folder is whole in itself: model.bin, config.json and the vocabularies (what CTranslate2 reads), and the
recipe and tokenizer of the run (what turns text to ids and back). Tokens are called by their ids, "17", since a piece
of text may hold a line end or be spelled like a mark; the three marks are <unk>, <s> and </s>. A source is given with
its end mark. What is exported: ct2_weights.py; what the engine finds, and how it may differ: ct2_engine.py.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from torch import nn

from weft.errors import CheckpointError, RecipeError, SearchError, nearest
from weft.files import save_text
from weft.interop.ctranslate2_weights import POSITIONS, holds, longest, make_spec
from weft.models import Seq2Seq
from weft.models.encoders import TransformerEncoder
from weft.models.transformer_decoder import TransformerDecoder
from weft.recipe import write_toml
from weft.runs.layout import RunFolder
from weft.translation.ctranslate2_engine import ABOUT, About, Engine, options_of, supports
from weft.translation.load import load
from weft.translation.translator import Translator

__all__ = ["QUANTIZATIONS", "Engine", "engine_for", "export", "holds", "installed", "options_of", "supports"]

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


def installed() -> bool:
    """Whether CTranslate2 can be imported."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return False
    return True


def export(
    run: Path | str | Translator, folder: Path | str, *, quantization: str | None = None, positions: int = POSITIONS
) -> Path:
    """Write a run's Transformer as a CTranslate2 model; an earlier export in the folder is replaced.

    ``quantization``: how weights are stored (not given: float32); ``positions``: the longest sequence it can read,
    where that depends on a table.
    """
    if not installed():
        raise SearchError("CTranslate2 is not installed; `pip install ctranslate2`")
    quantization = quantization or "float32"
    if quantization not in QUANTIZATIONS:
        raise SearchError(f"--quantization {quantization}: not known; {nearest(quantization, QUANTIZATIONS)}")
    translator = run if isinstance(run, Translator) else load(run, device="cpu")
    reason = holds(translator.recipe.model)
    if reason is not None:
        raise RecipeError(f"{translator.recipe.name}: {reason}")
    model = translator.model
    if not isinstance(model, Seq2Seq):
        raise RecipeError(f"{translator.recipe.name}: an ensemble is no single model; export one of its runs at a time")
    assert isinstance(model.encoder, TransformerEncoder) and isinstance(model.decoder, TransformerDecoder)
    if not isinstance(model.decoder.stack.layers[0].own.out, nn.Linear):
        raise RecipeError(
            f"{translator.recipe.name}: its matrices are quantized already; export the run as it is stored"
        )
    folder = Path(folder)
    _check_free(folder)
    about = About(
        source_size=translator.tokenizers.source.size,
        target_size=translator.tokenizers.target.size,
        quantization=quantization,
        longest_source=longest(model.encoder.stack, positions),
        longest_target=longest(model.decoder.stack, positions),
        stamp=_stamp(translator),
    )
    spec = make_spec(model, positions=positions)
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir()
        spec.save(str(aside))
        translator.tokenizers.save(aside)
        save_text(aside / "recipe.toml", write_toml(translator.recipe))
        save_text(aside / ABOUT, about.written())
        _put(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _check_free(folder: Path) -> None:
    """Nothing but an earlier export, or an empty folder, is ever replaced."""
    if folder.is_dir() and (not any(folder.iterdir()) or (folder / ABOUT).is_file()):
        return
    if folder.exists():
        raise CheckpointError(
            f"{folder}: exists already, and is no CTranslate2 export; choose another folder with --out"
        )


def _put(aside: Path, folder: Path) -> None:
    """One folder in place of another: a reader finds the old one, the new one, or for a moment none."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    try:
        if folder.exists():
            folder.rename(old)
        aside.rename(folder)
    except OSError:
        if About.read(folder) is None:  # else somebody else was quicker, with the same
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _stamp(translator: Translator) -> list[int] | None:
    """What tells the weights of a run from older ones: size and time of their file."""
    if translator.folder is None:
        return None
    try:
        found = RunFolder(translator.folder).model.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def engine_for(translator: Translator, compute_type: str = "default", *, threads: int | None = None) -> Engine:
    """An engine for a run, on the device of its translator.

    The model is exported to RUN/ctranslate2-QUANTIZATION at the first call, and again when model.safetensors has
    changed; where the run folder cannot be written, or there is none, to a temporary folder.
    """
    quantization = "float32" if compute_type in ("default", "auto") else compute_type
    device = str(translator.device)
    stamp = _stamp(translator)
    if translator.folder is not None and stamp is not None:
        folder = translator.folder / f"ctranslate2-{quantization}"
        found = About.read(folder)
        try:
            if found is None or found.stamp != stamp:
                export(translator, folder, quantization=quantization)
            return Engine(folder, device=device, threads=threads, compute_type=compute_type)
        except OSError:
            pass
    place = tempfile.TemporaryDirectory(prefix="weft-ctranslate2-")
    try:
        folder = export(translator, Path(place.name) / "model", quantization=quantization)
        engine = Engine(folder, device=device, threads=threads, compute_type=compute_type)
    except BaseException:
        place.cleanup()
        raise
    weakref.finalize(engine, place.cleanup)
    return engine
