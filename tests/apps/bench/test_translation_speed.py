"""The speed of translating: percentiles by their definition, what is counted and what is not, sane numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.bench import translation_speed as bench
from weft.apps.bench.translation_speed import percentile, translation_speed
from weft.errors import DataError, RecipeError, SearchError
from weft.translation.results import empty_translation
from weft.translation.translator import Translator

SOURCES = ["a b", "", "c", "d a b c", "  ", "b b a"]


@given(st.lists(st.floats(0, 9), min_size=1, max_size=250), st.sampled_from([1, 50, 99, 100]))
def test_percentiles(times: list[float], share: int) -> None:
    found = percentile(times, share)
    assert found == np.percentile(times, share, method="inverted_cdf")
    assert found in times
    assert 100 * sum(time <= found for time in times) >= share * len(times)
    assert 100 * sum(time < found for time in times) < share * len(times)


class Clock:
    """A time that passes only while something is translated: 0.01 s a character, and ten times as much cold."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.calls: list[list[str]] = []
        monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(bench, "cpu_seconds", lambda: 2 * self.now)
        monkeypatch.setattr(Translator, "translate", self.translate)

    def translate(self, lines: list[str], **asked: Any) -> list[Any]:
        assert asked == {"return_attention": False, "size": 3}
        self.now += sum(0.01 * len(line) for line in lines) * (1 if self.calls else 10)
        self.calls.append(lines)
        return [replace(empty_translation(line), ids=[5] * len(line.split())) for line in lines]


@pytest.fixture
def clock(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class TestWhatIsCounted:
    def test_with_a_clock_of_our_own(self, copier: Translator, clock: Clock) -> None:
        """3, 1, 7 and 5 characters: 0.16 s for all four; 2 + 1 + 4 + 3 words."""
        found = translation_speed(copier, SOURCES, seconds=1.0, warmup=2, size=3)
        asked = ["a b", "c", "d a b c", "b b a"]
        assert clock.calls[:2] == [["a b", "d a b c"]] * 2, "at even distances"
        many = [call for call in clock.calls[2:] if len(call) > 1]
        alone = [call for call in clock.calls[2:] if len(call) == 1]
        assert many == [asked] * 7, "1.12 s"
        assert found.sentences == sum(map(len, many)) and found.calls == len(alone) - 2
        characters = sum(len(line) for call in many for line in call)
        assert found.seconds == pytest.approx(0.01 * characters) and found.seconds >= 1
        assert found.sentences_per_second == pytest.approx(found.sentences / found.seconds)
        words = sum(len(line.split()) for call in many for line in call)
        assert found.output_tokens_per_second == pytest.approx(words / found.seconds)
        assert alone[:2] == [["a b"], ["d a b c"]] and alone[2:6] == [[one] for one in asked]
        times = [0.01 * len(line) for [line] in alone[2:]]
        assert found.latency_p50_milliseconds == pytest.approx(1000 * percentile(times, 50))
        assert found.latency_p99_milliseconds == pytest.approx(70.0), "the longest"
        assert found.cores == pytest.approx(2.0)

    def test_one_call_does_not_take_all_day(self, copier: Translator, clock: Clock) -> None:
        """A sentence takes 0.01 s: in 2 s there is time for 200 of 500."""
        translation_speed(copier, ["a"] * 500, seconds=2.0, warmup=4, size=3)
        assert 199 <= max(map(len, clock.calls)) <= 200

    def test_it_ends_though_one_sentence_takes_longer(self, copier: Translator, clock: Clock) -> None:
        found = translation_speed(copier, ["a" * 1000], seconds=0.1, size=3)
        assert found.sentences == found.calls == 1 and found.seconds == pytest.approx(10.0)
        assert found.latency_p50_milliseconds == found.latency_p99_milliseconds == pytest.approx(10_000)


class TestTranslationSpeed:
    def test_sane_numbers(self, copier: Translator) -> None:
        found = translation_speed(copier, SOURCES, seconds=0.1, warmup=1, kind="greedy", batch_tokens=99)
        assert (found.run, found.device, found.batch_tokens) == ("copier", "cpu", 99)
        assert found.search.startswith("search:greedy") and found.threads >= 1
        assert found.parameters == sum(one.numel() for one in copier.model.parameters())
        assert found.seconds >= 0.1 and found.sentences_per_second > 0 and found.output_tokens_per_second > 0
        assert 0 < found.latency_p50_milliseconds <= found.latency_p99_milliseconds
        assert 2**20 < found.memory_bytes < 2**40 and found.calls >= 1 and found.cores >= 0

    def test_its_record_is_json(self, copier: Translator) -> None:
        record = translation_speed(copier, ["a"], seconds=0.05, warmup=1).record()
        assert json.loads(json.dumps(record)) == record
        assert {"sentences_per_second", "latency_p99_milliseconds", "device", "weft", "torch", "python"} <= set(record)

    def test_refusals(self, copier: Translator, speaker: Translator) -> None:
        for nothing_ in ([], ["", " "]):
            with pytest.raises(DataError, match=r"^all sources are empty; there is nothing to translate$"):
                translation_speed(copier, nothing_)
        with pytest.raises(SearchError, match=r"^speaker: a language model has no source to translate; measure"):
            translation_speed(speaker, ["a"])
        with pytest.raises(RecipeError, match=r"search\.siz"):
            translation_speed(copier, ["a"], siz=3)
