"""MaxMatch: against all readings of small outputs, the example of the authors' program, and known cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.evaluation.max_match import Edit, EditCounts, alignment_lattice, count_edits, edits_between, score_edits


def paths(source: Sequence[str], output: Sequence[str], substitution: int) -> dict[tuple[tuple[int, int], ...], int]:
    """All alignments as points, with their costs."""
    found: dict[tuple[tuple[int, int], ...], int] = {}

    def walk(path: tuple[tuple[int, int], ...], cost: int) -> None:
        i, j = path[-1]
        if (i, j) == (len(source), len(output)):
            found[path] = cost
        if i < len(source):
            walk((*path, (i + 1, j)), cost + 1)
        if j < len(output):
            walk((*path, (i, j + 1)), cost + 1)
        if i < len(source) and j < len(output):
            walk((*path, (i + 1, j + 1)), cost + (0 if source[i] == output[j] else substitution))

    walk(((0, 0),), 0)
    return found


def readings(source: list[str], output: list[str]) -> Iterator[tuple[int, list[tuple[int, int, tuple[str, ...], int]]]]:
    """Every way to cut every path of the lattice into unchanged words and edits: its steps, and the edits."""
    arcs = set()
    for substitution in (1, 2):
        costs = paths(source, output, substitution)
        for path, cost in costs.items():
            if cost == min(costs.values()):
                arcs |= set(pairwise(path))
    end = len(source), len(output)

    def walks(path: tuple[tuple[int, int], ...]) -> Iterator[tuple[tuple[int, int], ...]]:
        if path[-1] == end:
            yield path
        for start, after in arcs:
            if start == path[-1]:
                yield from walks((*path, after))

    for path in walks(((0, 0),)):
        steps = list(pairwise(path))
        same = [b == (a[0] + 1, a[1] + 1) and source[a[0]] == output[a[1]] for a, b in steps]
        for cuts in product([False, True], repeat=max(len(steps) - 1, 0)):
            bounds = [0, *(at for at, cut in enumerate(cuts, 1) if cut), len(steps)]
            parts = [range(a, b) for a, b in pairwise(bounds)] if steps else []
            edits = [part for part in parts if not (len(part) == 1 and same[part[0]])]
            if any(sum(same[k] for k in part) > 2 or all(same[k] for k in part) for part in edits):
                continue
            spans = [(path[part[0]], path[part[-1] + 1], len(part)) for part in edits]
            yield len(steps), [(a[0], b[0], tuple(output[a[1] : b[1]]), length) for a, b, length in spans]


def literal_counts(source: list[str], output: list[str], gold: list[Edit]) -> tuple[int, int]:
    """Correct and proposed edits of the best reading: the most matches, the fewest other steps, the fewest other edits.

    The gold edits are matched in every way that keeps their order.
    """
    gold = sorted(gold, key=lambda edit: (edit.start, edit.end))
    best = (1, 0, 0)
    for steps, edits in readings(source, output):
        for chosen in product([None, *range(len(gold))], repeat=len(edits)):
            matched = [(edit, gold[k]) for edit, k in zip(edits, chosen, strict=True) if k is not None]
            numbers = [k for k in chosen if k is not None]
            in_order = all(a < b for a, b in pairwise(numbers))
            if in_order and all(e[:2] == g[:2] and e[2] in g.corrections for e, g in matched):
                covered = sum(edit[3] for edit, _ in matched)
                best = min(best, (-len(matched), steps - covered, len(edits) - len(matched)))
    return -best[0], best[2] - best[0]


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], list[str], list[Edit]]:
    source, output = draw(WORDS), draw(WORDS)
    gold, position = [], 0
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(position, len(source)))
        end = draw(st.integers(start, min(start + 2, len(source))))
        gold.append(Edit(start, end, tuple({tuple(draw(WORDS)), tuple(draw(WORDS))})))
        position = end
    return source, output, gold


@settings(max_examples=25, deadline=None)
@given(cases())
def test_the_best_of_all_readings(case: tuple[list[str], list[str], list[Edit]]) -> None:
    source, output, gold = case
    found = count_edits(alignment_lattice(source, output), output, gold)
    assert found == (*literal_counts(source, output, gold), len(gold))


def edit(start: int, end: int, *corrections: str) -> Edit:
    return Edit(start, end, tuple(tuple(text.split()) for text in corrections))


EXAMPLE = [
    ("The cat sat at mat .", [[edit(3, 4, "on"), edit(4, 4, "the", "a")]], "A cat sat on the mat ."),
    ("The dog .", [[edit(1, 2, "dogs")], []], "The dog ."),
    (
        "Giant otters is an apex predator .",
        [[edit(2, 3, "are"), edit(3, 4, ""), edit(5, 6, "predators")], [edit(1, 2, "otter")]],
        "Giant otters are apex predator .",
    ),
]


def test_the_example_of_the_authors() -> None:
    """Of the README of their program: 4 valid edits, 1 unnecessary one, 1 missing one."""
    sources, gold, outputs = zip(*EXAMPLE, strict=True)
    counts = score_edits(sources, outputs, gold)
    assert counts == EditCounts(correct=4, proposed=5, gold=5)
    assert (counts.precision, counts.recall, counts.f_score) == (0.8, 0.8, pytest.approx(0.8))


@pytest.mark.parametrize(
    ("source", "output", "gold", "counts"),
    [
        ("a b", "a b", [], (0, 0, 0)),
        ("a b", "a b", [edit(0, 1, "x")], (0, 0, 1)),
        ("a b c", "x b y", [edit(0, 3, "x b y")], (1, 1, 1)),  # one gold edit, with an unchanged word inside
        ("a b c", "x b y", [edit(0, 1, "x"), edit(2, 3, "y")], (2, 2, 2)),
        ("a b c d e", "x b c d y", [edit(0, 5, "x b c d y")], (0, 2, 1)),  # three unchanged words are too many
        ("a b", "a x x b", [edit(1, 1, "x")], (1, 2, 1)),  # a gold insertion counts once
        ("a b", "a x x b", [edit(1, 1, "x"), edit(1, 1, "x")], (2, 2, 2)),
        ("a b", "a x y b", [edit(1, 1, "y"), edit(1, 1, "x")], (1, 2, 2)),  # and in their order
        ("a b", "b", [edit(0, 1, "")], (1, 1, 1)),
        ("a", "x y", [edit(0, 1, "x", "x y")], (1, 1, 1)),
        ("a b c", "c a b", [edit(0, 0, "c"), edit(2, 3, "")], (2, 2, 2)),
        ("", "x", [edit(0, 0, "x")], (1, 1, 1)),
        ("a", "", [edit(0, 1, "")], (1, 1, 1)),
    ],
)
def test_known_cases(source: str, output: str, gold: list[Edit], counts: tuple[int, int, int]) -> None:
    assert score_edits([source], [output], [[gold]]) == counts


def test_the_annotator_who_agrees_best_with_all_so_far() -> None:
    gold = [[edit(0, 1, "x")], [edit(0, 1, "y")]]
    assert score_edits(["a b"], ["y b"], [gold]) == (1, 1, 1)
    assert score_edits(["a b", "a b"], ["y b", "a b"], [gold, [[edit(0, 1, "x")], []]]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("counts", "values"),
    [((0, 0, 0), (1, 1, 1)), ((0, 2, 0), (0, 1, 0)), ((0, 0, 2), (1, 0, 0)), ((1, 2, 4), (0.5, 0.25, 1.25 / 3))],
)
def test_precision_counts_twice_as_much(counts: tuple[int, int, int], values: tuple[float, ...]) -> None:
    found = EditCounts(*counts)
    assert (found.precision, found.recall, found.f_score) == pytest.approx(values)


LINES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=7)


@given(LINES, LINES)
def test_edits_between_lines_make_one_the_other(source: list[str], target: list[str]) -> None:
    edits = edits_between(source, target)
    words = list(source)
    for start, end, (correction,) in reversed(edits):
        assert list(correction) != source[start:end]
        words[start:end] = correction
    assert words == target
    assert all(a.end < b.start for a, b in pairwise(edits)), "an unchanged word is between two"


def test_a_reference_scores_perfectly() -> None:
    sources, references = ["a b c d", "a"], ["a x c", "a"]
    gold = [[edits_between(a.split(), b.split())] for a, b in zip(sources, references, strict=True)]
    assert score_edits(sources, references, gold) == (2, 2, 2)


@pytest.mark.parametrize(("unchanged", "correct"), [(0, 1), (1, 1), (2, 1), (3, 0)])
def test_an_edit_contains_two_unchanged_words_at_most(unchanged: int, correct: int) -> None:
    between = ["u", "v", "w"][:unchanged]
    source, output = ["a", *between, "b"], ["x", *between, "y"]
    gold = [Edit(0, len(source), (tuple(output),))]
    counts = count_edits(alignment_lattice(source, output), output, gold)
    assert counts == (correct, 1 if correct else 2, 1)


def test_of_annotators_with_equal_scores_the_first_counts() -> None:
    """Both have one match; 2 edits of 5 gold ones and 3 of 1 give the same F: 2 + 5/4 = 3 + 1/4."""
    source, output = "a u b v w z c", "x u y v w z t"
    many = [Edit(0, 3, (("x", "u", "y"),)), *(Edit(place, place + 1, (("q",),)) for place in (3, 4, 5, 6))]
    one = [Edit(0, 1, (("x",),))]
    assert score_edits([source], [output], [[many, one]]) == (1, 2, 5)
    assert score_edits([source], [output], [[one, many]]) == (1, 3, 1)


def test_of_annotators_without_a_match_the_one_with_the_fewest_edits_counts() -> None:
    few, many = ([Edit(place, place + 1, (("q",),)) for place in range(count)] for count in (1, 3))
    for annotators in ([few, many], [many, few]):
        assert score_edits(["a b c"], ["a b x"], [annotators]) == (0, 1, 1)
