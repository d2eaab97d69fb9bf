"""The exported model of a run, made when it is first needed."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path

from weft.errors import SearchError
from weft.runs.load import LoadedRun
from weft.translation.engines.ctranslate2.cache import cached_export
from weft.translation.engines.ctranslate2.export import write_model
from weft.translation.engines.ctranslate2.model import CTranslate2Model


def load_exported(run: LoadedRun, compute_type: str = "default", *, threads: int | None = None) -> CTranslate2Model:
    """A run's model in CTranslate2, on the device of its weights.

    It is exported to the cache folder of the user (`weft.translation.engines.ctranslate2.cache`) or, if that cannot be
    written, to a temporary folder. Nothing in the run folder is given to CTranslate2.
    """
    quantization = "float32" if compute_type in ("default", "auto") else compute_type
    device = str(next(run.model.parameters()).device)
    folder = cached_export(run, quantization=quantization)
    if folder is not None:
        try:
            return CTranslate2Model(folder, device=device, threads=threads, compute_type=compute_type)
        except SearchError:
            if folder.exists():
                raise
    temporary = tempfile.TemporaryDirectory(prefix="weft-ctranslate2-")
    try:
        folder = Path(temporary.name) / "model"
        write_model(run, folder, quantization=quantization)
        model = CTranslate2Model(folder, device=device, threads=threads, compute_type=compute_type)
    except BaseException:
        temporary.cleanup()
        raise
    weakref.finalize(model, temporary.cleanup)
    return model
