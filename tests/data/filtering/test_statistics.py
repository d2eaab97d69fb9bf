"""Statistics of a corpus: every number against one counted the long way."""

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.letters import scripts_of
from weft.data.filtering.statistics import CorpusStatistics
from weft.data.pairs import Pair

TEXT = st.text(st.sampled_from("aé bя日\u3000 .1"), max_size=9)
PAIRS = st.lists(st.builds(Pair, TEXT, TEXT, st.none()), max_size=20)


def statistics_of(pairs, size=3, **options):
    statistics = CorpusStatistics(**options)
    for start in range(0, len(pairs), size):
        block = pairs[start : start + size]
        statistics.add(block, name="file.tsv", lines=range(start + 1, start + 1 + len(block)))
    return statistics


def percentile(values, percent):
    return sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1] if values else 0


def lengths_of(values):
    return {
        "mean": round(sum(values) / len(values), 3) if values else 0,
        **{f"p{percent}": percentile(values, percent) for percent in (50, 90, 99)},
        "max": max(values, default=0),
    }


@given(PAIRS, st.integers(1, 7))
def test_a_record_is_what_counting_the_long_way_gives(pairs, size):
    record = statistics_of(pairs, size).record()
    assert record == json.loads(json.dumps(record))
    assert record["pairs"] == len(pairs)
    assert record["identical"] == sum(pair.source.strip() == pair.target.strip() for pair in pairs)
    assert record["duplicates"] == {
        "compared": len(pairs),
        "pairs": len(pairs) - len(set(pairs)),
        "sources": len(pairs) - len({pair.source for pair in pairs}),
    }
    for name in ("source", "target"):
        texts = [getattr(pair, name) for pair in pairs]
        side = record[name]
        assert side["blank"] == sum(not text.strip() for text in texts)
        assert side["words"] == lengths_of([len(text.split()) for text in texts])
        assert side["characters"] == lengths_of([len(text) for text in texts])
        assert side["distinct_characters"] == len(set("".join(texts)))
        counts = scripts_of("".join(texts))
        assert side["scripts"] == {script: round(n / counts.total(), 6) for script, n in counts.items()}
        assert sorted(side["scripts"].values(), reverse=True) == list(side["scripts"].values())
        if counts:
            main = next(iter(side["scripts"]))
            letters = Counter(letter for letter in "".join(texts) if set(scripts_of(letter)) - {main})
            assert side["foreign_letters"] == dict(letters)


@given(PAIRS)
def test_ratios_are_of_pairs_without_a_blank_side(pairs):
    sizes = [sorted([len(pair.source.split()), len(pair.target.split())]) for pair in pairs]
    ratios = [longer / shorter for shorter, longer in sizes if shorter]
    statistics = statistics_of(pairs)
    for percent in (50, 90, 99):
        assert statistics.ratio(percent) == pytest.approx(percentile(ratios, percent), abs=0.0051)
    assert statistics.max_ratio == pytest.approx(max(ratios, default=0), abs=0.0051)


def test_beyond_a_number_of_pairs_duplicates_are_no_longer_counted():
    pairs = [Pair("a", "b")] * 7
    statistics = statistics_of(pairs, max_compared=5)
    assert statistics.pairs == 7 and statistics.compared == 5
    assert statistics.duplicate_pairs() == statistics.duplicate_sources() == 4
    statistics.add(pairs)
    assert statistics.pairs == 14 and statistics.duplicate_pairs() == 4


@given(PAIRS, st.integers(0, 5), st.integers(1, 5))
def test_samples_are_of_the_corpus_no_pair_twice_and_the_same_in_any_order(pairs, count, size):
    samples = statistics_of(pairs, size, samples=count, seed=3).samples()
    assert len(samples) == min(count, len(set(pairs)))
    assert len({pair for _, pair in samples}) == len(samples)
    for where, pair in samples:
        assert where == f"file.tsv:{pairs.index(pair) + 1}"
    backwards = statistics_of(pairs[::-1], samples=count, seed=3).samples()
    assert [pair for _, pair in backwards] == [pair for _, pair in samples]


def test_samples_depend_on_the_seed():
    pairs = [Pair(str(number), "x") for number in range(100)]
    assert statistics_of(pairs, seed=1).samples() != statistics_of(pairs, seed=2).samples()
    plain = CorpusStatistics()
    plain.add(pairs)
    assert {where for where, _ in plain.samples()} == {""}


def test_an_empty_corpus_can_be_statistics_of():
    record = CorpusStatistics().record()
    assert record["pairs"] == 0 and record["samples"] == [] and record["source"]["scripts"] == {}
