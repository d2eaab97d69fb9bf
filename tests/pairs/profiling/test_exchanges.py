"""Interchangeable symbols and phrases, found in the pairs of a small language of commands, and not elsewhere."""

from itertools import product

from weft.pairs.profiling import exchanges
from weft.pairs.profiling.exchanges import MAX_SYMBOLS, StrictPairs

STEPS = {"walk": "W", "run": "R", "look": "O"}
TURNS = {"left": "L", "right": "I"}
MANNERS = {"": 1, "opposite": 2}
TIMES = {"": 1, "twice": 2, "thrice": 3}


def part_of(verb, manner, turn, times):
    source = " ".join(word for word in (verb, manner * bool(turn), turn, times) if word)
    turns = [TURNS[turn]] * MANNERS[manner] if turn else []
    return source, " ".join([*turns, STEPS[verb]] * TIMES[times])


PARTS = [*dict.fromkeys(part_of(*each) for each in product(STEPS, MANNERS, ("", *TURNS), TIMES))]
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
    assert {"walk left", "run left", "walk opposite right"} <= by_phrase["look right"]
    assert "walk twice" not in by_phrase["look right"], "no source has 'twice thrice'"
    assert {"walk twice", "walk left thrice", "walk opposite left twice"} <= by_phrase["run thrice"]
    assert all((source, target) in PARTS for group in groups for source, target in group)


def test_phrases_of_one_form_are_together_however_few_pairs_each_is_part_of():
    rare = [(f"jump {turn}", f"{action} J") for turn, action in TURNS.items()]
    known = [("jump", "J"), *rare, ("jump left and walk", "L J W"), ("jump right and walk", "I J W")]
    _, groups = found([*COMMANDS, *known])
    assert any({("jump left", "L J"), ("jump right", "I J"), ("walk left", "L W")} <= {*group} for group in groups)


def test_a_form_is_in_every_group_that_it_fits(monkeypatch):
    """*hop left* is never doubled: it takes the place of *walk left* and of *walk left twice*."""
    monkeypatch.setattr(exchanges, "MAX_TRIED", 200)
    hops = [(f"hop {turn}", f"{action} H H") for turn, action in TURNS.items()]
    joined = [*product(hops, PARTS), *product(PARTS, hops)]
    _, groups = found([*COMMANDS, *hops, *((f"{a} and {b}", f"{x} {y}") for (a, x), (b, y) in joined)])
    companions = [{source for source, _ in group} for group in groups if ("hop left", "L H H") in group]
    assert any("walk left" in group for group in companions)
    assert any("walk left twice" in group for group in companions)
    assert not any({"walk left", "walk left twice"} <= group for group in companions)


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
