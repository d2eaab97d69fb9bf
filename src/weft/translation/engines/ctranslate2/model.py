"""An exported model, loaded by CTranslate2: batches of token names in, hypotheses as CTranslate2 has them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import SearchError
from weft.runtime.processes import core_count
from weft.text.specials import END, SPECIALS
from weft.translation.engines.ctranslate2.export import ExportInfo
from weft.translation.engines.ctranslate2.specification import token_names
from weft.translation.engines.ctranslate2.support import CPU_BATCH

GPU_BATCH = 512


class SearchOutput(NamedTuple):
    """One hypothesis, as CTranslate2 names its tokens."""

    names: list[str]
    """Including the end token, if it ended."""
    ended: bool
    score: float
    weights: list[list[float]] | None


class Rows(NamedTuple):
    """The sources of a search, and the limits of each."""

    sources: list[list[str]]
    max_lengths: Sequence[int]
    min_lengths: Sequence[int]
    prefixes: list[list[str]] | None


class CTranslate2Model:
    """An exported model, loaded, with ``threads`` workers of one thread each on a CPU; by default one per core."""

    def __init__(
        self, folder: Path | str, *, device: str = "cpu", threads: int | None = None, compute_type: str = "default"
    ) -> None:
        self.folder = Path(folder)
        info = ExportInfo.read(self.folder)
        if info is None:
            raise SearchError(
                f"{self.folder}: not a CTranslate2 model of this version of weft; write one with "
                "`weft export RUN --format ctranslate2`"
            )
        self.info = info
        self.device, _, index = device.partition(":")
        self._index = int(index or 0)
        self.compute_type = compute_type
        self.threads = max(threads or core_count(), 1) if self.device == "cpu" else 1
        self._source_names = token_names(info.source_vocabulary)
        self._target_names = token_names(info.target_vocabulary)
        self._target_ids = {name: id for id, name in enumerate(self._target_names)}
        self._translator = self._load(self.threads)

    def _load(self, workers: int) -> Any:
        import ctranslate2

        try:
            return ctranslate2.Translator(
                str(self.folder),
                device=self.device,
                device_index=self._index,
                compute_type=self.compute_type,
                inter_threads=workers,
                intra_threads=1,
                max_queued_batches=-1,
            )
        except (RuntimeError, ValueError) as error:
            raise SearchError(f"{self.folder}: CTranslate2 cannot load it: {_one_line(error)}") from None

    def source_names(self, ids: Sequence[int]) -> list[str]:
        return [self._source_names[id] for id in ids]

    def target_names(self, ids: Sequence[int]) -> list[str]:
        return [self._target_names[id] for id in ids]

    def target_ids(self, names: Sequence[str]) -> list[int]:
        return [self._target_ids[name] for name in names]

    def translate(
        self,
        rows: Rows,
        indices: Iterable[int],
        options: dict[str, Any],
        *,
        seed: int | None = None,
        same_limit: bool = False,
    ) -> dict[int, list[SearchOutput]]:
        """The outputs of CTranslate2 for some of the rows, in batches of sources of similar length.

        A batch has one maximum length, the largest of its rows'; ``same_limit``: batch only rows with equal limits.
        """
        translator = self._translator
        if seed is not None:  # a worker takes its seed once, when it samples for the first time
            import ctranslate2

            ctranslate2.set_random_seed(seed)
            translator = self._load(1)
        pending: list[tuple[int, Any]] = []
        try:
            for batch in self._batches(rows, indices, same_limit=same_limit):
                results = translator.translate_batch(
                    [rows.sources[row] for row in batch],
                    None if rows.prefixes is None else [rows.prefixes[row] for row in batch],
                    max_decoding_length=max(rows.max_lengths[row] for row in batch),
                    min_decoding_length=rows.min_lengths[batch[0]],
                    asynchronous=True,
                    **options,
                )
                pending += zip(batch, results, strict=True)
            return {row: _outputs(result.result()) for row, result in pending}
        except (RuntimeError, ValueError) as error:
            raise SearchError(f"{self.folder}: CTranslate2: {_one_line(error)}") from None

    def _batches(self, rows: Rows, indices: Iterable[int], *, same_limit: bool) -> Iterator[list[int]]:
        """Longest sources first, so that no worker is left with them at the end."""

        def group(row: int) -> tuple[int, int]:
            return rows.min_lengths[row], rows.max_lengths[row] if same_limit else 0

        order = sorted(
            indices, key=lambda row: (*group(row), len(rows.sources[row]), rows.max_lengths[row]), reverse=True
        )
        size = max(min(self._batch_size, -(-len(order) // self.threads)), 1)
        for _, members in groupby(order, group):
            alike = list(members)
            yield from (alike[first : first + size] for first in range(0, len(alike), size))

    @property
    def _batch_size(self) -> int:
        return CPU_BATCH if self.device == "cpu" else GPU_BATCH

    def token_scores(self, rows: Rows, outputs: list[list[SearchOutput]]) -> list[list[list[float]]]:
        """log p(y_t | y_<t, x) of every output, including the end token's if it ended."""
        scores: list[list[list[float]]] = [[[] for _ in nbest] for nbest in outputs]
        pending: list[tuple[tuple[int, int, SearchOutput], Any]] = []
        for batch in self._output_batches(rows, outputs):
            results = self._translator.score_batch(
                [rows.sources[row] for row, _, _ in batch],
                [output.names[:-1] if output.ended else output.names for _, _, output in batch],
                max_input_length=0,
                asynchronous=True,
            )
            pending += zip(batch, results, strict=True)
        for (row, rank, output), result in pending:
            scores[row][rank] = result.result().log_probs[: len(output.names)]
        return scores

    def with_attention(self, rows: Rows, outputs: list[list[SearchOutput]]) -> list[list[SearchOutput]]:
        """The outputs with their attention weights, from one more pass of forced decoding.

        The weights that a beam of CTranslate2 4.8 returns are not used: on a CPU, the first row of every sentence but
        the first of a batch is that of another sentence.
        """
        pending: list[tuple[tuple[int, int, SearchOutput], Any]] = []
        for batch in self._output_batches(rows, outputs):
            results = self._translator.translate_batch(
                [rows.sources[row] for row, _, _ in batch],
                [output.names for _, _, output in batch],
                max_decoding_length=max(len(output.names) for _, _, output in batch),
                beam_size=1,
                max_input_length=0,
                return_attention=True,
                return_end_token=True,
                asynchronous=True,
            )
            pending += zip(batch, results, strict=True)
        attended = [list(nbest) for nbest in outputs]
        for (row, rank, output), result in pending:
            attended[row][rank] = output._replace(weights=result.result().attention[0][: len(output.names)])
        return attended

    def _output_batches(
        self, rows: Rows, outputs: list[list[SearchOutput]]
    ) -> Iterator[list[tuple[int, int, SearchOutput]]]:
        """All outputs as (row, rank, output), in batches of similar length."""
        ranked = [(row, rank, output) for row, nbest in enumerate(outputs) for rank, output in enumerate(nbest)]
        ranked.sort(key=lambda item: (len(item[2].names), len(rows.sources[item[0]])), reverse=True)
        return (ranked[first : first + self._batch_size] for first in range(0, len(ranked), self._batch_size))


def _outputs(result: Any) -> list[SearchOutput]:
    weights = result.attention or [None] * len(result.hypotheses)
    end = SPECIALS[END]
    return [
        SearchOutput(names, bool(names) and names[-1] == end, score, weights_TS)
        for names, score, weights_TS in zip(result.hypotheses, result.scores, weights, strict=True)
    ]


def _one_line(error: Exception) -> str:
    return str(error).strip().replace("\n", " ")
