"""Large searches: smaller batches where that helps, else one line; and what they take is what was estimated."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from weft.errors import RecipeError, SearchError, WeftWarning
from weft.recipe import SearchSettings, make_recipe
from weft.recipe.messages import shown
from weft.translation.engines import batch_sizes
from weft.translation.engines import torch as torch_engine
from weft.translation.engines.batch_sizes import (
    MAX_HYPOTHESES,
    HypothesisCount,
    StepSize,
    fixed_batch_tokens,
    memory_limit,
    memory_slices,
    sentences_at_once,
)
from weft.translation.engines.interface import TranslationRequest
from weft.translation.translator import Translator

CPU = torch.device("cpu")
SIZE = StepSize(vocabulary=1000, state=40, growth=10)


def request(sentences: int = 1, n_best: int = 1, *, attention: bool = False, **settings: Any) -> TranslationRequest:
    sources, prefixes = [[3, 4, 2]] * sentences, [[]] * sentences
    return TranslationRequest(
        sources=sources,
        prefixes=prefixes,
        settings=SearchSettings(**settings),
        n_best=n_best,
        return_attention=attention,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (request(size=7), (7, "search.size")),
        (request(size=7, n_best=9), (9, "n_best")),
        (request(kind="mbr", samples=50), (50, "search.samples")),
        (request(kind="sample", n_best=11, size=99), (11, "n_best")),
        (request(kind="greedy", size=99), (1, "n_best")),
    ],
)
def test_what_decides_how_many_hypotheses_there_are(given: TranslationRequest, expected: tuple[int, str]) -> None:
    assert HypothesisCount.of(given) == expected


def test_sentences_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """K (24 V + 3 s + 2000) + K (T − 1) (3 g + 200 + 4 S): a quarter of the memory, or half for one sentence."""
    step, later = 24 * 1000 + 3 * 40 + 2000, 8 * (3 * 10 + 200)
    with_attention = 8 * (3 * 10 + 200 + 4 * 3)

    def fitting(memory: int, *, attention: bool = False) -> int:
        monkeypatch.setattr(batch_sizes, "device_memory", lambda device: memory)
        return sentences_at_once(request(50, size=5, attention=attention), SIZE, max_lengths=[9] * 50, device=CPU)

    assert fitting(4 * 5 * (step + later) * 7) == 7
    assert fitting(4 * 5 * (step + later) * 7 - 1) == 6
    assert fitting(4 * 5 * (step + with_attention) * 7, attention=True) == 7
    assert fitting(4 * 5 * (step + with_attention) * 7 - 1, attention=True) == 6
    assert fitting(2 * 5 * step) == 1, "when an output ends is not known"
    with pytest.raises(SearchError) as error:
        fitting(2 * 5 * step - 2)
    assert str(error.value) == (
        "search.size: 5 hypotheses need about 0.1 MB for a vocabulary of 1,000, and 0.1 MB may be used on cpu; "
        "at most 4 fit"
    )


@pytest.mark.parametrize(
    ("memory", "available", "limit"),
    [(0.25, 1000, 250), (1.0, 1000, 1000), (1, 1000, 1000), (3_000_000, 10**9, 3_000_000), (5e9, 10**9, 10**9)],
)
def test_the_memory_of_a_search(memory: float, available: int, limit: int) -> None:
    """A share of what is available, or bytes."""
    assert memory_limit(SearchSettings(memory=memory), available) == limit


@pytest.mark.parametrize("memory", [0, -1, 1.5, 25, 999_999, True, "half"])
def test_memory_that_is_neither_a_share_nor_bytes(memory: object) -> None:
    with pytest.raises(RecipeError) as error:
        make_recipe({"search": {"memory": memory}})
    assert str(error.value) == (
        f"search.memory: {shown(memory)} was given; expected a share of the free memory, above 0 and up to 1, or "
        "bytes, at least 1,000,000"
    )


def test_memory_that_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sizes, "device_memory", lambda device: None)
    assert sentences_at_once(request(50), SIZE, max_lengths=[9] * 50, device=CPU) == 50


def test_a_search_in_smaller_batches_finds_the_same(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = ["a b c", "b", "c a", "a a b", "c c"]
    expected = copier.translate(sources, size=4, n_best=3)
    batches = []
    search_rows = torch_engine.TorchEngine.search_rows

    def counted(self: Any, request: TranslationRequest, rows: Any) -> Any:
        batches.append(len(rows))
        return search_rows(self, request, rows)

    monkeypatch.setattr(batch_sizes, "SMALL_SEARCH", 0)
    monkeypatch.setattr(torch_engine.TorchEngine, "search_rows", counted)
    monkeypatch.setattr(batch_sizes, "sentences_at_once", lambda *given, **options: 2)
    engine = torch_engine.TorchEngine(copier.model, copier.tokenizers.target)
    translator = Translator(copier.model, copier.tokenizers, copier.recipe, engine=engine)
    results = translator.translate(sources, size=4, n_best=3)
    assert batches == [2, 2, 1]
    assert [result.text for result in results] == [result.text for result in expected]
    assert [one.text for result in results for one in result.alternatives] == [
        one.text for result in expected for one in result.alternatives
    ]


@pytest.mark.parametrize(
    ("search", "setting"),
    [
        ({"size": 10**12}, "search.size"),
        ({"n_best": 10**12}, "n_best"),
        ({"kind": "mbr", "samples": 10**12}, "search.samples"),
        ({"kind": "sample", "n_best": 10**12}, "n_best"),
    ],
)
def test_too_many_hypotheses_are_refused(copier: Translator, search: dict[str, Any], setting: str) -> None:
    with pytest.raises(SearchError, match=rf"^{setting}: 1,000,000,000,000 hypotheses need about [\d,.]+ GB for "):
        copier.translate("a b", **search)


def test_a_prompt_of_a_language_model(speaker: Translator) -> None:
    with pytest.raises(SearchError, match=r"^n_best: 1,000,000,000,000 hypotheses need about"):
        speaker.sample(10**12, length=5)


MEASURE = """
import resource, sys, torch
from weft.models.build import build_model
from weft.recipe import make_recipe
from weft.text.tokenizer import Tokenizers, learn
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.batch_sizes import StepSize
from weft.translation.translator import Translator

count, vocabulary, length, kind = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
stack = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 64}
recipe = make_recipe({"model": {"embedding": 64, "encoder": stack, "decoder": stack}})
tokenizer = learn("word", [" ".join(f"w{i}" for i in range(vocabulary - 3))])
model = build_model(recipe.model, source_size=vocabulary, target_size=vocabulary)
translator = Translator(model, Tokenizers(tokenizer, tokenizer), recipe)
search = {"kind": kind, **({"size": count, "stop": "steps"} if kind == "beam" else {})}
n_best = count if kind == "sample" else 1
translator.translate("w1 w2", kind=kind, max_length=3, return_attention=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
translator.translate("w1 w2", max_length=length, n_best=n_best, return_attention=False, **search)
taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
request = TranslationRequest(sources=[[4, 5, 2]], settings=translator.search_settings(search), n_best=n_best)
with torch.no_grad():
    size = StepSize.measure(*translator.engine.encode(request), 1, torch.device("cpu"))
print(taken / (count * (size.one_step() + size.later_steps(length=length, source_length=0))))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "search", [(2000, 8000, 3, "beam"), (8000, 2000, 3, "beam"), (1000, 200, 40, "beam"), (2000, 8000, 3, "sample")]
)
def test_the_estimate_is_near_what_a_search_takes(search: tuple[Any, ...]) -> None:
    run = subprocess.run([sys.executable, "-c", MEASURE, *map(str, search)], capture_output=True, check=True)
    assert 0.1 < float(run.stdout) < 1.3


def test_memory_that_runs_out_in_a_search(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """It continues with half of the batch; one warning; the next request is searched at once again, if it fits."""
    sources = ["a b c", "b", "c a", "a a b", "c c"]
    expected = copier.translate(sources, size=4, n_best=3)
    engine = torch_engine.TorchEngine(copier.model, copier.tokenizers.target)
    sizes = []
    prepare = engine.prepare

    def limited(request: TranslationRequest, rows: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > 3:
            raise torch.OutOfMemoryError
        return prepare(request, rows)

    monkeypatch.setattr(engine, "prepare", limited)
    translator = Translator(copier.model, copier.tokenizers, copier.recipe, engine=engine)
    with pytest.warns(WeftWarning, match=r"^search: not enough memory for a whole batch; ") as warned:
        results = translator.translate(sources, size=4, n_best=3)
    assert sizes == [5, 3, 2] and len(warned) == 1
    assert [result.text for result in results] == [result.text for result in expected]
    few = ["a b", "b"]
    texts = [[result.text for result in each.translate(few)] for each in (translator, copier)]
    assert texts[0] == texts[1] and sizes[3:] == [2] and engine.divided.parts == 1
    monkeypatch.setattr(engine, "prepare", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(torch.OutOfMemoryError, match="none"):
        translator.translate("a b")


def test_what_an_execution_may_keep(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a sixteenth of `search.memory`; it is computed again only if the setting changes."""
    engine = torch_engine.TorchEngine(copier.model, copier.tokenizers.target)
    limits: list[int] = []
    engine.device = torch.device("cuda")
    monkeypatch.setattr(engine.execution, "set_memory_limit", limits.append)
    monkeypatch.setattr(engine.planner, "_batches", lambda request: iter(()))
    monkeypatch.setattr(batch_sizes, "device_memory", lambda device: 8000)
    for settings in ({}, {}, {"memory": 0.5}):
        assert list(engine.parts(request(**settings))) == []
    assert limits == [125, 250]


class TestBatchesByMemory:
    """`search.batch_tokens` = "auto" on a GPU."""

    SIZE = StepSize(vocabulary=1000, state=400, growth=300)

    def slices(self, lengths: list[int], *, limit: int, **changes: Any) -> list[slice]:
        sources = [[5] * length for length in lengths]
        settings = SearchSettings(**{"size": 4, **changes})
        request = TranslationRequest(sources=sources, settings=settings)
        return memory_slices(request, self.SIZE, max_lengths=[2 * length for length in lengths], limit=limit)

    def test_every_sentence_is_in_one_batch_that_fits(self) -> None:
        lengths = sorted(3 + row % 17 for row in range(200))
        found = self.slices(lengths, limit=2_500_000)
        assert [part.stop for part in found[1:]] == [part.start for part in found[:-1]], "the longest first"
        assert found[0].stop == 200 and found[-1].start == 0 and len(found) > 2
        for part in found:
            kept = self.SIZE.later_steps(length=2 * lengths[part.stop - 1], source_length=0)
            assert (part.stop - part.start) * 4 * (self.SIZE.one_step() + kept) <= 2_500_000
        assert len(found) > len(self.slices(lengths, limit=5_000_000))

    def test_one_at_least_and_no_more_than_help(self) -> None:
        assert self.slices([3, 4, 5], limit=1) == [slice(2, 3), slice(1, 2), slice(0, 1)]
        assert self.slices([3] * 9, limit=10**12, size=MAX_HYPOTHESES // 4) == [
            slice(5, 9),
            slice(1, 5),
            slice(0, 1),
        ]
        assert self.slices([], limit=10**12) == []

    def test_a_budget_in_tokens(self) -> None:
        assert fixed_batch_tokens(SearchSettings()) == 4096
        assert fixed_batch_tokens(SearchSettings(batch_tokens=7)) == 7
