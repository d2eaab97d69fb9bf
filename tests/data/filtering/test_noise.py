"""Noise, against a literal version of what it says, and its probabilities."""

from collections import Counter
from itertools import repeat
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from weft.data.filtering.noise import Noise
from weft.data.pairs import Pair, pair_hashes

TEXT = st.text(st.sampled_from(list("ab B.'\t\u00a0\u3000яЖ日é\u0301")), max_size=12)
PAIRS = st.lists(st.builds(Pair, TEXT, TEXT, st.none()), max_size=8)


def slow_noise(step, text, draws):
    """What the docstring of Noise says, for words."""
    units, kept = text.split(), []
    for unit in units:
        chance = next(draws)
        if chance < step.drop:
            continue
        if chance < step.drop + step.blank:
            kept.append(step.blank_text)
        elif chance < step.drop + step.blank + step.replace:
            kept.append(units[int(next(draws) * len(units))])
        else:
            kept.append(unit)
    if units and not kept:
        kept = [units[int(next(draws) * len(units))]]
    if step.shuffle_distance:
        keys = [place + next(draws) * (step.shuffle_distance + 1) for place in range(len(kept))]
        kept = [unit for _, _, unit in sorted(zip(keys, range(len(kept)), kept, strict=True))]
    return text if kept == units else " ".join(kept)


@given(PAIRS, st.sampled_from([(0.5, 0.0, 0.0, 0), (0.0, 0.4, 0.4, 0), (0.2, 0.2, 0.2, 2), (1.0, 0.0, 0.0, 0)]))
def test_noise_on_words_is_what_it_says(pairs, chances):
    step = Noise(drop=chances[0], blank=chances[1], replace=chances[2], shuffle_distance=chances[3])
    for pair, number, after in zip(pairs, pair_hashes(pairs, b"7"), step.apply(pairs, b"7"), strict=True):
        draws = Random(number)
        stream = (draws.random() for _ in repeat(None))
        assert after == Pair(slow_noise(step, pair.source, stream), pair.target)


@given(PAIRS, st.integers(0, 2**32))
def test_noise_depends_on_key_and_text_alone(pairs, seed):
    step, key = Noise(drop=0.3, shuffle_distance=2, side="both"), str(seed).encode()
    together = step.apply(pairs, key)
    assert together == [step.apply([pair], key)[0] for pair in pairs]


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True), st.integers(0, 9), st.integers(1, 3))
def test_noise_moves_words_by_no_more_than_it_may(units, seed, distance):
    (after,) = Noise(shuffle_distance=distance).apply([Pair(" ".join(units), "x")], str(seed).encode())
    moved = after.source.split()
    assert sorted(moved) == sorted(units)
    assert all(abs(moved.index(unit) - place) <= distance for place, unit in enumerate(units))


def test_noise_draws_with_the_chances_given():
    pairs = [Pair(" ".join(f"w{i}x{j}" for j in range(20)), "t") for i in range(500)]
    after = Noise(drop=0.1, blank=0.3).apply(pairs, b"1")
    counts = Counter(unit for pair in after for unit in pair.source.split())
    lost = 10_000 - counts.total()
    assert abs(lost - 1000) < 150 and abs(counts["<blank>"] - 3000) < 250
    assert all(pair.target == "t" for pair in after)


@given(PAIRS, st.integers(0, 99))
def test_noise_on_characters_stays_inside_words(pairs, seed):
    step = Noise(drop=0.5, replace=0.2, shuffle_distance=1, unit="characters", side="both")
    for pair, after in zip(pairs, step.apply(pairs, str(seed).encode()), strict=True):
        for before, now in zip(pair[:2], after[:2], strict=True):
            assert len(now.split()) == len(before.split())
            assert set(now) <= set(before) | {" "}
            assert all(len(b) >= len(a) >= 1 for b, a in zip(before.split(), now.split(), strict=True))


def test_noise_on_words_forgets_links_and_noise_on_characters_need_not():
    pair = Pair("one two three", "un deux trois", ((0, 0), (1, 1), (2, 2)))
    assert Noise(blank=1.0).apply([pair], b"") == [Pair("<blank> <blank> <blank>", "un deux trois")]
    assert Noise(blank=1.0, blank_text="x", unit="characters").apply([pair], b"") == [
        Pair("xxx xxx xxxxx", "un deux trois", pair.links)
    ]
    same = Pair("a", "a", ((0, 0),))
    assert Noise(blank=1.0, blank_text="x", unit="characters").apply([same], b"") == [Pair("x", "a", ((0, 0),))]
    assert Noise(drop=1e-12).apply([pair], b"") == [pair]
