"""The exported model of a run, made when it is first needed."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path

from weft.runs.load import LoadedRun
from weft.translation.engines.ctranslate2.export import ExportInfo, export, weights_stamp
from weft.translation.engines.ctranslate2.model import CTranslate2Model


def load_exported(run: LoadedRun, compute_type: str = "default", *, threads: int | None = None) -> CTranslate2Model:
    """A run's model in CTranslate2, on the device of its weights.

    It is exported to RUN/ctranslate2-QUANTIZATION at the first call, and again when model.safetensors has changed; to a
    temporary folder, if the run folder cannot be written or there is none.
    """
    quantization = "float32" if compute_type in ("default", "auto") else compute_type
    device = str(next(run.model.parameters()).device)
    stamp = weights_stamp(run)
    if run.folder is not None and stamp is not None:
        folder = run.folder / f"ctranslate2-{quantization}"
        info = ExportInfo.read(folder)
        try:
            if info is None or info.weights != stamp:
                export(run, folder, quantization=quantization)
            return CTranslate2Model(folder, device=device, threads=threads, compute_type=compute_type)
        except OSError:
            pass
    temporary = tempfile.TemporaryDirectory(prefix="weft-ctranslate2-")
    try:
        folder = export(run, Path(temporary.name) / "model", quantization=quantization)
        model = CTranslate2Model(folder, device=device, threads=threads, compute_type=compute_type)
    except BaseException:
        temporary.cleanup()
        raise
    weakref.finalize(model, temporary.cleanup)
    return model
