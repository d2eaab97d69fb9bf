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
        self.loop: StepLoop | None = None
        if self.device.type == "cuda":
            from weft.search.cuda_graphs import CudaGraphLoop

            self.loop = CudaGraphLoop(self.device)

    def search(self, request: EngineRequest) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        with activity("translating", "lines", total=len(request.sources)) as translating:
            for rows in self._batches(request):
                for row, hypotheses in zip(rows, self._search_batch(request.select(rows)), strict=True):
                    results[row] = hypotheses
                translating.done += len(rows)
        return results

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

    def _search_batch(self, request: EngineRequest) -> list[list[Hypothesis]]:
        batch = Ragged.of(request.sources)
        model: StepModel = self.model
        with torch.no_grad():
            if request.prompts:
                from weft.models.prompted_lm import PromptedLM

                model = PromptedLM(self.model, specials.BEGIN)
                memory: Any = model.encode(torch.stack(batch.to(self.device).split()))
            else:
                memory = self.model.encode(self._to_device(batch))
        inputs = SearchRequest(
            memory=memory,
            begin=specials.BEGIN,
            end=specials.END,
            max_lengths=request.max_lengths(self.model),
            min_lengths=request.min_lengths(),
            prefixes=request.prefixes,
            rng_keys=[rng_key(source) for source in request.sources],
            seed=self.seed,
            banned=self._phrases("banned", request.settings.banned),
            required=[self._phrases("required", request.settings.required)] * len(request.sources),
            decode=self.tokenizer.decode,
            n_best=request.n_best,
            return_attention=request.return_attention,
            return_trace=request.return_trace,
            device=self.device,
            loop=None if request.prompts else self.loop,
        )
        return search(model, inputs, request.settings)

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
