"""Labeled brackets of trees: precision, recall and F1 of parsing, by the rules of evalb (Sekine & Collins 1997).

    (S (NP he) (VP hit (NP me) (PP with (NP a pie))))        brackets: S 0–6, NP 0–1, VP 1–6, NP 2–3, PP 3–6, NP 4–6

- A bracket is a label and the words that it covers. Those of an output and its reference are compared as multisets,
  and counts are summed over the corpus: precision = matched / brackets of outputs, recall = matched / brackets of
  references.
- Part-of-speech tags are not brackets: if in all references every word is the only child of a bracket, these brackets
  are the tags. The label TOP, ROOT, S1 or none at all around the tree is left out. ADVP and PRT are equal.
- Punctuation tagged , : `` '' or . is deleted before words are counted.

An output whose parentheses do not match, or whose words are not those of the reference, is *ill-formed*. evalb skips
such sentences; here they are counted, and have no bracket at all: recall falls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from weft import __version__
from weft.errors import DataError
from weft.evaluation.metrics import MetricScore

ROOTS = ("TOP", "ROOT", "S1", "")
PUNCTUATION = (",", ":", "``", "''", ".")
EQUAL = {"PRT": "ADVP"}
MAX_DEPTH = 200
"""Brackets inside of each other; a text with more is not well-formed."""
Bracket = tuple[str, int, int]


class Constituent(NamedTuple):
    """A bracket with what is inside: words and brackets."""

    label: str
    children: list[Constituent | str]

    @property
    def is_tag(self) -> bool:
        """Whether it has one word and nothing else, as a part of speech has."""
        return len(self.children) == 1 and isinstance(self.children[0], str)


class BracketCounts(NamedTuple):
    """Brackets of a line that match, those of the output, those of the reference; whether the output is ill-formed."""

    matched: int
    output: int
    reference: int
    ill_formed: int


def parse_tree(text: str) -> Constituent | None:
    """The tree of a text in which every word is inside of a bracket; None if it is not well-formed."""
    root = Constituent("", [])
    stack = [root]
    tokens = re.findall(r"\(\s*[^\s()]*|\)|[^\s()]+", text)
    for token in tokens:
        if token.startswith("("):
            if len(stack) > MAX_DEPTH:
                return None
            node = Constituent(token[1:].strip(), [])
            stack[-1].children.append(node)
            stack.append(node)
        elif token == ")":
            if len(stack) == 1 or not stack.pop().children:
                return None
        elif len(stack) == 1:
            return None
        else:
            stack[-1].children.append(token)
    if len(stack) > 1 or len(root.children) != 1:
        return None
    tree = root.children[0]
    assert isinstance(tree, Constituent)
    return tree


def has_tags(node: Constituent) -> bool:
    """Whether every word is the only child of its bracket, as where words have parts of speech."""
    return node.is_tag or all(isinstance(child, Constituent) and has_tags(child) for child in node.children)


def words_and_brackets(tree: Constituent, *, tagged: bool) -> tuple[list[str], Counter[Bracket]]:
    """The words and the labeled spans of a tree, without tags and punctuation where it is tagged."""
    words: list[str] = []
    brackets: Counter[Bracket] = Counter()

    def visit(node: Constituent) -> None:
        if tagged and node.is_tag:
            words.extend(child for child in node.children if isinstance(child, str) and node.label not in PUNCTUATION)
            return
        start = len(words)
        for child in node.children:
            if isinstance(child, str):
                words.append(child)
            else:
                visit(child)
        if node.label not in ROOTS and len(words) > start:
            brackets[EQUAL.get(node.label, node.label), start, len(words)] += 1

    visit(tree)
    return words, brackets


def count_brackets(outputs: Sequence[str], references: Sequence[str]) -> list[BracketCounts]:
    """The counts of each line."""
    trees = [_reference_tree(line, number) for number, line in enumerate(references, 1)]
    tagged = all(map(has_tags, trees))
    counts = []
    for output, gold in zip(outputs, trees, strict=True):
        gold_words, gold_brackets = words_and_brackets(gold, tagged=tagged)
        tree = parse_tree(output)
        words, brackets = words_and_brackets(tree, tagged=tagged) if tree is not None else ([], Counter())
        total = gold_brackets.total()
        if tree is None or words != gold_words:
            counts.append(BracketCounts(0, 0, total, 1))
        else:
            counts.append(BracketCounts((brackets & gold_brackets).total(), brackets.total(), total, 0))
    return counts


def _reference_tree(text: str, number: int) -> Constituent:
    tree = parse_tree(text)
    if tree is None:
        expected = "expected a tree such as (S (NP he) (VP sleeps))"
        raise DataError(f"brackets: line {number}: the reference {text[:80]!r} is not well-formed; {expected}")
    return tree


def bracket_scores(counts: Sequence[BracketCounts]) -> list[MetricScore]:
    """Precision, recall and F1 over a corpus, and ill-formed outputs, all in percent."""
    matched, output, reference, ill_formed = (sum(column) for column in zip(*counts, strict=True))
    precision, recall = matched / output if output else 0.0, matched / reference if reference else 0.0
    values = {
        "bracket precision": precision,
        "bracket recall": recall,
        "bracket F1": 2 * matched / (output + reference) if output + reference else 0.0,
    }
    signature = f"rules:evalb|average:corpus|ill-formed:no brackets|version:weft {__version__}"
    scores = [MetricScore(name, 100.0 * value, signature, "higher") for name, value in values.items()]
    return [*scores, MetricScore("ill-formed trees", 100.0 * ill_formed / len(counts), signature, "lower")]
