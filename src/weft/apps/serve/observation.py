"""The steps of one search as events, while it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft.apps.serve.records import Label, branch_record, draw_record, matrix, number
from weft.search.beam import BeamRecord
from weft.search.beam_trace import branches_of
from weft.search.paths import PathRecord, draw_of
from weft.tree import map_tree

SLOT_CANDIDATES = 12
"""Next tokens that are listed for each hypothesis of a beam."""


class Abandoned(Exception):  # noqa: N818  (it is not an error)
    """The client has left, so the search ends."""


class StreamObserver:
    """Sends an event for every step of the search for one text."""

    def __init__(
        self,
        send: Callable[[str, dict[str, Any]], None],
        abandoned: Callable[[], bool],
        label: Label,
        *,
        end: int,
        vocabulary: int,
    ) -> None:
        """``send``: is given the name of an event and its data; ``end``: the id of the end token."""
        self.send = send
        self.abandoned = abandoned
        self.label = label
        self.end = end
        self.vocabulary = vocabulary
        self.step = 0
        self.totals: list[float] = []

    def is_abandoned(self, sentence: int) -> bool:
        if self.abandoned():
            raise Abandoned
        return False

    def on_step(self, sentences: Sequence[int], record: Any) -> None:
        if self.abandoned():
            raise Abandoned
        if record.candidates is None:  # of a search that keeps no trace
            return
        of_sentence = map_tree(lambda leaf: leaf[0].cpu(), record)
        event = self._of_beam(of_sentence) if isinstance(record, BeamRecord) else self._of_paths(of_sentence)
        weights_KS = of_sentence.attention_BKS
        event["attention"] = None if weights_KS is None else matrix(weights_KS.float().numpy())
        self.send("step", {"step": self.step, **event})
        self.step += 1

    def _of_beam(self, record: BeamRecord) -> dict[str, Any]:
        branches = branches_of(record, self.end, self.totals)
        self.totals = record.totals_BK.tolist()
        candidates: list[list[dict[str, Any]]] = [[] for _ in self.totals]
        assert record.candidates is not None
        tokens, parents, log_probs = (values.tolist() for values in record.candidates[:3])
        for token, parent, log_probability in zip(tokens, parents, log_probs, strict=True):
            if len(candidates[parent]) < SLOT_CANDIDATES and math.isfinite(log_probability):
                listed = {"token": self.label(token), "id": token, "log_probability": number(log_probability)}
                candidates[parent].append(listed)
        return {
            "branches": [branch_record(branch, self.label) for branch in branches],
            "candidates": candidates,
            "draws": None,
        }

    def _of_paths(self, record: PathRecord) -> dict[str, Any]:
        draws = [self._draw(record, path) if active else None for path, active in enumerate(record.active_BK.tolist())]
        return {"branches": None, "candidates": None, "draws": draws}

    def _draw(self, record: PathRecord, path: int) -> dict[str, Any]:
        assert record.candidates is not None
        log_probs = record.candidates.log_probs_BKC[path].tolist()
        listed = draw_record(draw_of(record, (path,)), self.label, log_probs)
        rest = max(1.0 - sum(map(math.exp, log_probs)), 0.0)
        return {**listed, "rest": {"count": max(self.vocabulary - len(log_probs), 0), "probability": number(rest)}}
