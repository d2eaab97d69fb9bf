"""Searching with PyTorch: any model, every strategy of `weft.translation.strategies`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from weft.activity import activity
from weft.errors import SearchError
from weft.models.interface import Model
from weft.ragged import Layout, Ragged, budget_slices
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.text import specials
from weft.text.tokenizer import Tokenizer
from weft.translation.engines.interface import EngineRequest
from weft.translation.engines.search_memory import SMALL_SEARCH, HypothesisCount, StepSize, sentences_at_once
from weft.translation.strategies import rng_key, search

if TYPE_CHECKING:
    from weft.search.loop import StepLoop

LENGTH_MULTIPLE = 16
"""With CUDA graphs the longest source of a batch is rounded up to a multiple of this, so that fewer shapes occur."""


class TorchEngine:
    """Searches a model in batches of sources of similar length."""

    name = "torch"

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
        seed: int = 1,
    ) -> None:
        """``tokenizer``: the target's; ``seed``: of sampling, where `search.seed` does not set one."""
        self.device = torch.device(device)
        if isinstance(model, nn.Module):
            if any(tensor.device.type != self.device.type for tensor in model.parameters()):
                model.to(self.device)  # not in any case: `to` copies recurrent weights
            model.eval()
        self.model = model
        self.tokenizer = tokenizer
        self.precision = precision
        self.seed = seed
        self.step_size: StepSize | None = None
        """Measured before the first large search."""
        self.loop: StepLoop | None = None
        if self.device.type == "cuda":
            from weft.search.cuda_graphs import CudaGraphLoop

            self.loop = CudaGraphLoop(self.device)

    def search(self, request: EngineRequest) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        with activity("translating", "lines", total=len(request.sources)) as translating:
            for rows in self._batches(request):
                size = self._rows_at_once(request.select(rows))
                for start in range(0, len(rows), size):
                    part = rows[start : start + size]
                    for row, hypotheses in zip(part, self._search_batch(request.select(part)), strict=True):
                        results[row] = hypotheses
                    translating.done += len(part)
        return results

    def _rows_at_once(self, request: EngineRequest) -> int:
        """How many rows of a batch fit in memory: all of them, unless the search is large."""
        hypotheses = HypothesisCount.of(request).number * len(request.sources)
        if hypotheses * (self.tokenizer.size + 1000) <= SMALL_SEARCH or request.settings.kind in (
            "exact",
            "exhaustive",
        ):
            return len(request.sources)
        if self.step_size is None:
            longest = max(range(len(request.sources)), key=lambda row: len(request.sources[row]))
            model, memory = self._encode(request.select([longest]))
            with torch.no_grad():
                self.step_size = StepSize.measure(model, memory, request.start[-1], self.device)
        lengths = request.max_lengths(self.model)
        return sentences_at_once(request, self.step_size, max_lengths=lengths, device=self.device)

    def _batches(self, request: EngineRequest) -> Iterator[list[int]]:
        """Rows to search together: of similar length, prompts of the same length."""
        budget = request.settings.batch_tokens
        lengths = np.array([len(source) for source in request.sources], dtype=np.int64)
        if not request.prompts:
            order = np.argsort(lengths, kind="stable")
            yield from (order[part].tolist() for part in budget_slices([lengths[order]], [budget]))
            return
        for length in sorted(set(lengths.tolist())):
            rows = [row for row, other in enumerate(lengths.tolist()) if other == length]
            size = max(budget // length, 1)
            yield from (rows[start : start + size] for start in range(0, len(rows), size))

    def _encode(self, request: EngineRequest) -> tuple[StepModel, Any]:
        """What steps are taken with: the model, and the memory of the sources."""
        batch = Ragged.of(request.sources)
        with torch.no_grad():
            if not request.prompts:
                memory = self.model.encode(self._to_device(batch))
                return self._started(request.start), memory
            from weft.models.prompted_lm import PromptedLM

            model = PromptedLM(self.model, specials.BEGIN)
            return model, model.encode(torch.stack(batch.to(self.device).split()))

    def _started(self, start: Sequence[int]) -> StepModel:
        """The model after all but the last token of a start."""
        if len(start) == 1:
            return self.model
        from weft.translation.engines.started_model import StartedModel

        return StartedModel(self.model, start[:-1])

    def _search_batch(self, request: EngineRequest) -> list[list[Hypothesis]]:
        model, memory = self._encode(request)
        inputs = SearchRequest(
            memory=memory,
            begin=request.start[-1],
            end=specials.END,
            max_lengths=request.max_lengths(self.model),
            min_lengths=request.min_lengths(),
            prefixes=request.prefixes,
            rng_keys=[rng_key(source) for source in request.sources],
            seed=self.seed,
            banned=[*self._phrases("banned", request.settings.banned), *request.settings.banned_ids],
            required=[self._phrases("required", request.settings.required)] * len(request.sources),
            decode=lambda sentence, ids: (request.decoders[sentence] if request.decoders else self.tokenizer.decode)(
                ids
            ),
            n_best=request.n_best,
            return_attention=request.return_attention,
            return_trace=request.return_trace,
            traced_candidates=request.traced_candidates,
            device=self.device,
            loop=self._loop(request),
        )
        return search(model, inputs, request.settings)

    def _loop(self, request: EngineRequest) -> StepLoop | None:
        """What takes the steps: a plain loop where each of them is to be seen."""
        if request.observer is not None:
            from weft.search.loop import ObservedLoop

            return ObservedLoop(request.observer)
        plain = request.prompts or len(request.start) > 1  # a CUDA graph begins with an empty cache
        return None if plain else self.loop

    def _to_device(self, batch: Ragged) -> Ragged:
        """The batch on the device, its longest length rounded up where steps are recorded as CUDA graphs."""
        if self.loop is None:
            return batch.to(self.device)
        from weft.models.transformer_encoder import TransformerEncoder

        longest = -(-batch.layout.longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
        encoder = getattr(self.model, "encoder", None)
        if not isinstance(encoder, TransformerEncoder):
            return batch.to(self.device)
        if encoder.stack.max_positions is not None and longest > encoder.stack.max_positions:
            return batch.to(self.device)
        return Ragged(batch.values.to(self.device), Layout(batch.lengths, self.device, longest=longest))

    def _phrases(self, setting: str, phrases: Sequence[str]) -> list[list[int]]:
        """Phrases as token ids."""
        encoded = [self.tokenizer.encode(phrase) for phrase in phrases]
        for phrase, ids in zip(phrases, encoded, strict=True):
            if specials.UNKNOWN in ids:
                raise SearchError(
                    f"search.{setting}: {phrase!r} has symbols that are not in this model's vocabulary; leave it out"
                )
        return encoded
