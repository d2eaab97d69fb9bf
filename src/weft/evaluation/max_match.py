"""Corrections as edits of words: the MaxMatch scorer of grammatical error correction (Dahlmeier & Ng 2012).

An edit replaces the words start to end of the source by others. The output of a system is compared with the gold edits
of an annotator:

    P = correct / proposed      R = correct / gold      F = (1 + β²) P R / (β² P + R),   β = 0.5

Which edits the output proposes is ambiguous: *at mat* → *on the mat* may be two edits or one. MaxMatch reads an output
in the way that agrees best with the gold edits. Its readings are the paths through a lattice: all alignments of source
and output with the fewest insertions, deletions and substitutions, where successive changes with at most two unchanged
words in between may be one edit. The best of all readings has the most gold edits, then the fewest other steps (a
substitution rather than a deletion and an insertion), then the fewest other edits.

As in version 3.2 of the authors' program, substitutions cost 1 or 2 (both sets of alignments are in the lattice), and
of several annotators that one counts whose edits give the highest F together with all sentences before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft import __version__
from weft.evaluation.metrics import MetricScore

BETA = 0.5
MAX_UNCHANGED = 2
"""Unchanged words inside an edit, at most."""
SUBSTITUTION_COSTS = (1, 2)


class Edit(NamedTuple):
    """The words ``start`` to ``end`` of the source are replaced by one of some corrections."""

    start: int
    end: int
    corrections: tuple[tuple[str, ...], ...]
    """Alternatives, each a tuple of words; an empty one deletes."""


class EditCounts(NamedTuple):
    """Numbers of correct edits, of proposed edits, and of edits in the gold annotation."""

    correct: int
    proposed: int
    gold: int

    def plus(self, other: EditCounts) -> EditCounts:
        return EditCounts(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def precision(self) -> float:
        return self.correct / self.proposed if self.proposed else 1.0

    @property
    def recall(self) -> float:
        return self.correct / self.gold if self.gold else 1.0

    @property
    def f_score(self) -> float:
        """F with β = 0.5: precision counts twice as much as recall; 0 if nothing is correct, but something is there."""
        if not self.proposed and not self.gold:
            return 1.0
        return (1 + BETA**2) * self.correct / (BETA**2 * self.gold + self.proposed)


def edit_scores(counts: EditCounts, *, annotators: str, gold: str) -> list[MetricScore]:
    """Precision, recall and F0.5 in percent; ``gold``: where the gold edits come from, for the signature."""
    signature = (
        f"annotators:{annotators}|gold:{gold}|unchanged:{MAX_UNCHANGED}|average:corpus|version:weft {__version__}"
    )
    values = {"precision": counts.precision, "recall": counts.recall, f"F{BETA:g}": counts.f_score}
    return [MetricScore(f"edit {name}", 100.0 * value, signature, "higher") for name, value in values.items()]


Step = tuple[tuple[int, int], bool]
"""The point that a step of an alignment leads to, and whether it changes anything."""
Lattice = dict[tuple[int, int], list[Step]]
"""The steps from every point (words of the source read, words of the output written)."""


def score_edits(
    sources: Sequence[str], outputs: Sequence[str], annotators: Sequence[Sequence[Sequence[Edit]]]
) -> EditCounts:
    """The counts over a corpus; words are separated by white space, and ``annotators[line]`` have their gold edits."""
    total = EditCounts(0, 0, 0)
    for counts in score_lines(sources, outputs, annotators):
        total = total.plus(counts)
    return total


def score_lines(
    sources: Sequence[str], outputs: Sequence[str], annotators: Sequence[Sequence[Sequence[Edit]]]
) -> list[EditCounts]:
    """The counts of each line, by the annotator that counts: the best together with all lines before it."""
    lines: list[EditCounts] = []
    total = EditCounts(0, 0, 0)
    for source, output, gold in zip(sources, outputs, annotators, strict=True):
        source_words, output_words = source.split(), output.split()
        if source_words == output_words:
            counts = [EditCounts(0, 0, len(edits)) for edits in gold]
        else:
            lattice = alignment_lattice(source_words, output_words)
            counts = [count_edits(lattice, output_words, edits) for edits in gold]
        sums = [total.plus(count) for count in counts]
        best = max(
            range(len(sums)),
            key=lambda i: (sums[i].f_score, sums[i].correct, -(sums[i].proposed + BETA**2 * sums[i].gold)),
        )
        total = sums[best]
        lines.append(counts[best])
    return lines


def alignment_lattice(source: Sequence[str], output: Sequence[str]) -> Lattice:
    """The steps of all alignments of lowest cost, for each cost of a substitution."""
    lattice: Lattice = {}
    for cost in SUBSTITUTION_COSTS:
        ahead = _distances(source[::-1], output[::-1], cost)  # what it takes from a point to the end
        points = {(0, 0)}
        for i in range(len(source) + 1):
            for j in range(len(output) + 1):
                if (i, j) not in points:
                    continue
                known = lattice.setdefault((i, j), [])
                remaining = ahead[len(source) - i][len(output) - j]
                for point, price in _moves(source, output, i, j, cost):
                    if price + ahead[len(source) - point[0]][len(output) - point[1]] == remaining:
                        points.add(point)
                        step = (point, price > 0)
                        if step not in known:
                            known.append(step)
    return lattice


def _moves(
    source: Sequence[str], output: Sequence[str], i: int, j: int, substitution: int
) -> list[tuple[tuple[int, int], int]]:
    """The neighbors of a point, and what it costs to get there."""
    moves = []
    if i < len(source):
        moves.append(((i + 1, j), 1))
    if j < len(output):
        moves.append(((i, j + 1), 1))
    if i < len(source) and j < len(output):
        moves.append(((i + 1, j + 1), 0 if source[i] == output[j] else substitution))
    return moves


def _distances(source: Sequence[str], output: Sequence[str], substitution: int) -> list[list[int]]:
    """The edit distance of every pair of beginnings."""
    rows = [list(range(len(output) + 1))]
    for i, word in enumerate(source, 1):
        above, row = rows[-1], [i]
        for j, other in enumerate(output):
            diagonal = above[j] + (0 if word == other else substitution)
            row.append(min(diagonal, above[j + 1] + 1, row[j] + 1))
        rows.append(row)
    return rows


CLOSED = -1
"""No edit is open; otherwise the unchanged words in the open edit."""
Reading = tuple[int, int, int]
"""−(gold edits), other steps, other edits: the smaller, the better."""
State = tuple[int, int]
"""Gold insertions at this place that were used, and the unchanged words in the open edit or `CLOSED`."""


def count_edits(lattice: Lattice, output: Sequence[str], gold: Sequence[Edit]) -> EditCounts:
    """The counts of one output by its best reading."""
    gold = sorted(gold, key=lambda edit: (edit.start, edit.end))
    jumps = _gold_jumps(lattice, output, gold)
    end = max(lattice)
    best: dict[tuple[int, int], dict[State, Reading]] = {point: {} for point in lattice}
    best[0, 0] = {(0, CLOSED): (0, 0, 0)}

    def reach(point: tuple[int, int], state: State, reading: Reading) -> None:
        known = best[point].get(state)
        if known is None or reading < known:
            best[point][state] = reading

    for point in sorted(lattice):
        for (used, unchanged), (minus_correct, steps, edits) in list(best[point].items()):
            for after, first_unused, insertion in jumps.get(point, ()):
                if insertion and first_unused <= used:
                    continue
                now_used = first_unused if insertion else 0
                reach(after, (now_used, CLOSED), (minus_correct - 1, steps, edits))
            for after, changes in lattice[point]:
                now_used = used if after[0] == point[0] else 0
                reading = (minus_correct, steps + 1, edits + (changes and unchanged == CLOSED))
                if changes:
                    reach(after, (now_used, max(unchanged, 0)), reading)
                    continue
                reach(after, (now_used, CLOSED), reading)
                if CLOSED < unchanged < MAX_UNCHANGED:
                    reach(after, (now_used, unchanged + 1), reading)
    minus_correct, _, others = min(best[end].values())
    return EditCounts(-minus_correct, others - minus_correct, len(gold))


def _gold_jumps(
    lattice: Lattice, output: Sequence[str], gold: Sequence[Edit]
) -> dict[tuple[int, int], list[tuple[tuple[int, int], int, bool]]]:
    """From which point of the lattice to which a gold edit leads.

    With it: the number of the gold edit, from 1, and whether it is an insertion. Only insertions can be at the same
    place of the source; each of them counts once, and they count in their order.
    """
    jumps: dict[tuple[int, int], list[tuple[tuple[int, int], int, bool]]] = {}
    for number, edit in enumerate(gold, 1):
        for i, j in lattice:
            if i != edit.start:
                continue
            for correction in edit.corrections:
                after = edit.end, j + len(correction)
                if (
                    after in lattice
                    and after != (i, j)
                    and tuple(output[j : after[1]]) == correction
                    and _is_one_edit(lattice, (i, j), after)
                ):
                    jumps.setdefault((i, j), []).append((after, number, edit.start == edit.end))
    return jumps


def _is_one_edit(lattice: Lattice, start: tuple[int, int], end: tuple[int, int]) -> bool:
    """Whether an alignment leads from one point to the other, with a change and at most `MAX_UNCHANGED` other words."""
    fewest: dict[tuple[tuple[int, int], bool], int] = {(start, False): 0}
    for i in range(start[0], end[0] + 1):
        for j in range(start[1], end[1] + 1):
            for changed in (False, True):
                unchanged = fewest.get(((i, j), changed))
                if unchanged is None:
                    continue
                for after, changes in lattice.get((i, j), ()):
                    key, total = (after, changed or changes), unchanged + (not changes)
                    if total <= min(MAX_UNCHANGED, fewest.get(key, MAX_UNCHANGED)):
                        fewest[key] = total
    return (end, True) in fewest


def edits_between(source: Sequence[str], target: Sequence[str]) -> list[Edit]:
    """The edits that turn one line of words into another: the runs of changed words in an alignment of lowest cost."""
    ahead = _distances(source[::-1], target[::-1], 1)
    edits: list[Edit] = []
    i = j = start_i = start_j = 0
    while (i, j) != (len(source), len(target)):
        remaining = ahead[len(source) - i][len(target) - j]
        moves = [
            (point, price)
            for point, price in reversed(_moves(source, target, i, j, 1))
            if price + ahead[len(source) - point[0]][len(target) - point[1]] == remaining
        ]
        (next_i, next_j), price = moves[0]
        if price == 0:
            if (i, j) != (start_i, start_j):
                edits.append(Edit(start_i, i, (tuple(target[start_j:j]),)))
            start_i, start_j = next_i, next_j
        i, j = next_i, next_j
    if (i, j) != (start_i, start_j):
        edits.append(Edit(start_i, i, (tuple(target[start_j:j]),)))
    return edits


def edits_of_references(sources: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[list[Edit]]]:
    """The edits from each source to each of its references, which then count as annotators."""
    return [
        [edits_between(source.split(), reference.split()) for reference in line]
        for source, line in zip(sources, references, strict=True)
    ]
