"""Interchangeable symbols and phrases, found in the pairs of a small language of commands, and not elsewhere."""

from itertools import product

from weft.pairs.profiling.exchanges import MAX_SYMBOLS, StrictPairs

STEPS = {"walk": "W", "run": "R", "look": "O"}
TURNS = {"left": "L", "right": "I"}
TIMES = {"": 1, "twice": 2, "thrice": 3}


def part_of(verb, turn, times):
    source = " ".join(word for word in (verb, turn, times) if word)
    return source, " ".join([TURNS[turn], STEPS[verb]][not turn :] * TIMES[times]) if turn else " ".join(
        [STEPS[verb]] * TIMES[times]
    )


PARTS = [part_of(*each) for each in product(STEPS, ("", *TURNS), TIMES)]
COMMANDS = PARTS + [(f"{a} and {b}", f"{x} {y}") for (a, x), (b, y) in product(PARTS, PARTS)]


def found(pairs):
    strict = StrictPairs()
    for pair in pairs:
        strict.add(*pair)
    groups = strict.interchangeable()
    return [{source for source, _ in group} for group in groups.symbols], groups.phrases


def test_verbs_and_directions_are_two_groups():
    symbols, _ = found(COMMANDS)
    assert sorted(map(sorted, symbols)) == [["left", "right"], ["look", "run", "walk"]]


def test_a_symbol_that_is_only_seen_alone_is_in_the_group_of_another_one_like_it():
    symbols, _ = found([*COMMANDS, ("jump", "J"), ("turn", "T T")])
    assert {"look", "run", "walk", "jump"} in symbols, "jump and walk are both pairs alone"
    assert not any("turn" in group for group in symbols), "twice T is not one symbol for another"


def test_phrases_fit_in_the_place_of_each_other():
    _, groups = found(COMMANDS)
    by_phrase = {source: {other for other, _ in group} for group in groups for source, _ in group}
    assert {"walk left", "run left", "walk right"} <= by_phrase["look right"]
    assert "walk twice" not in by_phrase["look right"], "no source has 'twice thrice'"
    assert all((source, target) in PARTS for group in groups for source, target in group)


def test_a_contradiction_separates_symbols():
    pairs = [(source, target.replace("R", "R W") if "run twice" in source else target) for source, target in COMMANDS]
    symbols, _ = found(pairs)
    assert not any("run" in group for group in symbols)


def test_pairs_that_lead_to_no_other_pair_show_nothing():
    assert found([("a b", "x y"), ("c d", "z w"), ("a b a", "x y x")]) == ([], ())


def test_languages_with_many_symbols_are_not_looked_at():
    many = [(f"s{number}", f"t{number}") for number in range(MAX_SYMBOLS + 1)]
    assert found([*COMMANDS, *many]) == ([], ())
    assert found([]) == ([], ())
