"""CTranslate2 as the engine of a `Translator`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from weft.errors import SearchError, option
from weft.runs.load import LoadedRun
from weft.runtime.activity import activity
from weft.runtime.devices import available_memory, gigabytes
from weft.search.interface import Hypothesis
from weft.translation.engines.batch_sizes import SCORE_BYTES, USABLE, HypothesisCount
from weft.translation.engines.ctranslate2.support import (
    CPU_BATCH,
    STARTS,
    is_installed,
    unsupported_model,
    unsupported_search,
)
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import TorchEngine

if TYPE_CHECKING:
    from weft.translation.engines.ctranslate2.model import CTranslate2Model

MIN_SENTENCES = 32
"""Loading CTranslate2 pays off from this many sentences on; for fewer an `AutoEngine` has another engine."""


class CTranslate2Engine:
    """Searches with CTranslate2 where it gives the results of weft's own search, and with PyTorch otherwise.

    Sentences whose output loops, or is longer than the position tables of CTranslate2, are left to PyTorch too.
    """

    def __init__(self, run: LoadedRun, fallback: TorchEngine, *, required: bool = False) -> None:
        """``required``: refuse what CTranslate2 cannot search, instead of leaving it to PyTorch."""
        self.run = run
        self.fallback = fallback
        self.required = required
        self.name = "ctranslate2" if required else "auto"
        self.precision = fallback.precision
        self._model: CTranslate2Model | None = None
        self._loading = threading.Lock()

    def stepping_engine(self) -> TorchEngine:
        return self.fallback

    def search(self, request: TranslationRequest) -> list[list[Hypothesis]]:
        if not request.sources:
            return []
        reason = self._unsupported(request)
        if reason is not None and self.required:
            raise SearchError(f"{option('engine', 'ctranslate2')}: {reason}; use {option('engine', 'torch')}")
        if reason is not None:
            return self.fallback.search(request)
        from weft.translation.engines.ctranslate2.exported import load_exported
        from weft.translation.engines.ctranslate2.search import search

        with self._loading:  # a service searches in several threads
            if self._model is None:
                with activity("converting the model for CTranslate2"):
                    self._model = load_exported(self.run, "int8" if self.precision == "int8" else "default")
        max_lengths = request.max_lengths(self.fallback.model)
        positions = self._model.info.max_target_length or max(max_lengths)
        within = [min(limit, positions) for limit in max_lengths]
        with activity("translating", "lines", total=len(request.sources)) as translating:
            results = search(self._model, request, max_lengths=within, return_token_scores=request.return_attention)
            translating.done = len(request.sources)
        repeated = [
            row
            for row, hypotheses in enumerate(results)
            if not hypotheses  # it loops
            or (within[row] < max_lengths[row] and any(one.ended != "end" for one in hypotheses))
        ]
        for row, hypotheses in zip(repeated, self.fallback.search(request.select(repeated)), strict=True):
            results[row] = hypotheses
        return results

    def _unsupported(self, request: TranslationRequest) -> str | None:
        """The reason why CTranslate2 cannot be used for a request; None if it can."""
        from weft.models.architecture import architecture_of

        if not is_installed():
            return "CTranslate2 is not installed; `pip install ctranslate2`"
        if architecture_of(self.fallback.model).members:
            return "CTranslate2 has no ensembles"
        reason = unsupported_model(self.run.recipe.model, loss=self.run.recipe.training.loss)
        reason = reason or unsupported_search(request.settings, n_best=request.n_best)
        if reason is None and (request.return_trace or any(request.prefixes)):
            return "CTranslate2 gives no trace, and its beams take no prefix"
        if reason is None and any(request.required):
            return "CTranslate2 has no required terms"
        if reason is None and request.start not in STARTS:
            return "its outputs start with other tokens than <s> or </s>, which CTranslate2 counts in their length"
        return reason or self._too_large(request)

    def _too_large(self, request: TranslationRequest) -> str | None:
        """The reason why a request needs too much memory for CTranslate2, which does not shrink its batches."""
        (count, setting), vocabulary = HypothesisCount.of(request), self.run.tokenizers.target.size
        if request.settings.kind == "beam" and 2 * count > vocabulary:
            return f"{setting}: {count:,}; in CTranslate2 a beam holds at most half the vocabulary, {vocabulary // 2:,}"
        sentences = min(len(request.sources), CPU_BATCH)
        needed, available = sentences * count * SCORE_BYTES * vocabulary, available_memory()
        if available is not None and needed > USABLE * available:
            return f"{setting}: {count:,} hypotheses of {sentences} sentences need about {gigabytes(needed)}"
        return None
