"""A search that is gone through without kernels before the first of its kind: it changes no result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from weft.fast.recording import search_rehearsal
from weft.fast.recording.search_rehearsal import SearchRehearsals, _search
from weft.translation.translator import Translator

LINES = ["abc", "b", "cab", "bb", "a"]


def request_of(run: Translator, lines: list[str], **search: Any) -> Any:
    return run.pipeline.tokenize(replace(run.request(lines, **search), return_attention=False))


@pytest.mark.parametrize("search", [{"kind": "beam", "size": 3}, {"kind": "greedy"}, {"kind": "sample"}])
def test_it_goes_through_a_search_and_changes_nothing(copier: Translator, search: dict[str, Any]) -> None:
    engine: Any = copier.engine
    before = copier.translate(LINES, **search)
    torch.manual_seed(5)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    _search(engine, request_of(copier, LINES, **search), len(LINES))
    assert torch.equal(torch.rand(1), drawn)
    assert [one.text for one in copier.translate(LINES, **search)] == [one.text for one in before]


def test_once_for_each_kind_of_search(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: list[object] = []
    monkeypatch.setattr(search_rehearsal, "rehearse", lambda function: rehearsed.append(function()))
    rehearsals = SearchRehearsals(copier.model, copier.device)
    engine: Any = copier.engine
    for lines, search, count in (
        (LINES, {"kind": "beam", "size": 3}, 1),
        (LINES[:4], {"kind": "beam", "size": 3}, 1),
        (LINES[:4], {"kind": "beam", "size": 4}, 2),
        (LINES[:1], {"kind": "greedy"}, 3),
        (LINES[:2], {"kind": "greedy"}, 4),
        (LINES, {"kind": "greedy"}, 4),
    ):
        rehearsals.before(engine, request_of(copier, lines, **search))
        assert len(rehearsed) == count
    monkeypatch.setenv("WEFT_COMPILE_AHEAD", "0")
    rehearsals.before(engine, request_of(copier, LINES, kind="beam", size=7))
    assert len(rehearsed) == 4


@pytest.mark.gpu
@pytest.mark.parametrize("search", [{"kind": "beam", "size": 3}, {"kind": "greedy"}])
def test_on_a_gpu_results_are_equal(copier: Translator, search: dict[str, Any], tmp_path, monkeypatch) -> None:
    import weft

    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))  # nothing was rehearsed on this machine
    assert copier.folder is not None
    texts = []
    for ahead in ("1", "0"):
        monkeypatch.setenv("WEFT_COMPILE_AHEAD", ahead)
        run = weft.load(copier.folder, device="cuda", precision="fp32")
        texts.append([one.text for _ in range(2) for one in run.translate_lines(LINES * 20, **search)])
    assert texts[0] == texts[1]
    assert any(tmp_path.rglob("*"))
