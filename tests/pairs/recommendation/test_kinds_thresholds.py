"""The rules that find the kind of a task: a profile on each side of every threshold."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.profiles import made_up_profile
from weft.data.columns.columns import ColumnLayout
from weft.pairs.profiling.sides import VocabularyProfile
from weft.pairs.recommendation.kinds import find_task

CORRECTED = {"relations.copied_words": 0.86, "relations.monotone": 0.91}
COPIED = {"relations.copied_rare_words": 0.31, "relations.rare_words": 0.06, "relations.copied_words": 0.21}
ANSWERS = {"target.distinct": 0.02, "target.spaced.growth": 0.19}
SENTENCES = {"target.plain_words": 0.95, "target.token_characters": 3.0, "target.spaced.size": 100}
"""Of a closed set of words, without punctuation."""
FEATURES = {"columns": ColumnLayout((0, 1), (2,), features=(1,))}
SHORT = {"source.tokens.median": 2, "source.tokens.p95": 4, "source.characters.p95": 40}
SHORT_TARGET = {"target.tokens.median": 2, "target.tokens.p95": 2, "target.characters.p95": 40}
CLOSED = VocabularyProfile(2_000, 100_000, 0.009, 0.5, ())
FEW = VocabularyProfile(50, 100_000, 0.0, 0.04, ())

CASES: list[tuple[str, str, dict[str, Any], str]] = [
    # forms of words have at most 60 characters, short strings 200
    ("words", "text", {"target.characters.p95": 60}, "spelling character character"),
    ("words", "text", {"target.characters.p95": 61}, "spelling character bpe"),
    ("words", "text", {"target.characters.p95": 200}, "spelling character bpe"),
    ("words", "text", {"target.characters.p95": 201}, "text character bpe"),
    ("words", "words", {}, "spelling character character"),
    ("words", "words", FEATURES, "inflection character character"),
    ("words", "symbols", FEATURES, "spelling character symbol"),
    ("text", "words", FEATURES, "formal bpe character"),
    ("chinese", "words", {}, "formal character character"),
    # one of a few answers: at most one different target in 50 pairs, from 2 to 200, of 3 tokens, hardly a new one
    ("text", "words", ANSWERS, "answer bpe character"),
    ("text", "words", ANSWERS | {"target.distinct": 0.0201}, "formal bpe character"),
    ("text", "words", ANSWERS | {"pairs": 20_000, "target.distinct": 0.01}, "answer bpe character"),
    ("text", "words", ANSWERS | {"pairs": 20_000, "target.distinct": 0.0101}, "formal bpe character"),
    ("text", "words", ANSWERS | {"pairs": 5_000}, "answer bpe character"),
    ("text", "words", ANSWERS | {"pairs": 5_000, "target.distinct": 0.021}, "formal bpe character"),
    ("text", "words", ANSWERS | {"pairs": 64, "target.distinct": 2 / 64}, "answer bpe character"),
    ("text", "words", ANSWERS | {"pairs": 64, "target.distinct": 3 / 64}, "formal bpe character"),
    ("text", "words", ANSWERS | {"target.tokens.p99": 3}, "answer bpe character"),
    ("text", "words", ANSWERS | {"target.tokens.p99": 4}, "formal bpe character"),
    ("text", "words", ANSWERS | {"target.spaced.growth": 0.2}, "formal bpe character"),
    # correction: most words copied, in order, and about as long
    ("text", "text", CORRECTED, "correction bpe bpe"),
    ("text", "text", CORRECTED | {"relations.copied_words": 0.85}, "text bpe bpe"),
    ("text", "text", CORRECTED | {"relations.monotone": 0.9}, "text bpe bpe"),
    ("text", "text", CORRECTED | {"relations.length_ratio": 0.7}, "text bpe bpe"),
    ("text", "text", CORRECTED | {"relations.length_ratio": 0.71}, "correction bpe bpe"),
    ("text", "text", CORRECTED | {"relations.length_ratio": 1.39}, "correction bpe bpe"),
    ("text", "text", CORRECTED | {"relations.length_ratio": 1.4}, "text bpe bpe"),
    ("symbols", "symbols", CORRECTED, "correction bpe bpe"),
    # formal language: no sentences, with full stops or of many words of letters
    ("text", "symbols", {"target.sentence_ends": 0.49}, "formal bpe symbol"),
    ("text", "symbols", {"target.sentence_ends": 0.5}, "text bpe bpe"),
    ("text", "symbols", SENTENCES, "text bpe bpe"),
    ("text", "symbols", SENTENCES | {"target.plain_words": 0.949}, "formal bpe symbol"),
    ("text", "symbols", SENTENCES | {"target.token_characters": 2.9}, "formal bpe symbol"),
    ("text", "symbols", SENTENCES | {"target.spaced.size": 99}, "formal bpe symbol"),
    # its sources: words, if they are of a rather closed set
    ("text", "symbols", {"source.worded.size": 3_000, "source.worded.unseen": 0.029}, "formal word symbol"),
    ("text", "symbols", {"source.worded.size": 3_001, "source.worded.unseen": 0.029}, "formal bpe symbol"),
    ("text", "symbols", {"source.worded.size": 3_000, "source.worded.unseen": 0.03}, "formal bpe symbol"),
    ("text", "symbols", {"source.worded.size": 3_000, "source.worded.unseen": 0.029, "source.punctuated": 0.009},
     "formal symbol symbol"),
    ("text", "symbols", {"source.worded.size": 3_000, "source.worded.unseen": 0.029, "source.punctuated": 0.01},
     "formal word symbol"),
    # copied names and summaries
    ("text", "text", COPIED, "copying word word"),
    ("text", "text", COPIED | {"relations.copied_rare_words": 0.3}, "text bpe bpe"),
    ("text", "text", COPIED | {"relations.rare_words": 0.05}, "text bpe bpe"),
    ("text", "text", COPIED | {"relations.copied_words": 0.2}, "text bpe bpe"),
    ("text", "text", COPIED | {"relations.copied_words_by_chance": 0.02}, "text bpe bpe"),
    ("text", "text", COPIED | {"relations.length_ratio": 0.25}, "copying word word"),
    ("text", "text", COPIED | {"relations.length_ratio": 0.24}, "summary word word"),
    # text: the same units on both sides, unless one is of characters
    ("symbols", "text", {}, "text bpe bpe"),
    ("chinese", "text", {}, "text character bpe"),
    ("chinese", "chinese", {}, "text character character"),
    ("text", "chinese", {}, "text bpe character"),
    # numbers: mostly digits, and short
    ("text", "text", {"source.digits": 0.41, "source.characters.p95": 60}, "spelling character bpe"),
    ("text", "text", {"source.digits": 0.41, "source.characters.p95": 61}, "text bpe bpe"),
    ("text", "text", {"source.digits": 0.4, "source.characters.p95": 60}, "text bpe bpe"),
    # words: single ones, or strings of at most 40 characters: of two tokens, some sources of four
    ("text", "chinese", {"source.single": 0.91}, "spelling character character"),
    ("text", "chinese", {"source.single": 0.9}, "text bpe character"),
    ("text", "chinese", SHORT, "spelling character character"),
    ("text", "chinese", SHORT | {"source.tokens.median": 3}, "text bpe character"),
    ("text", "chinese", SHORT | {"source.tokens.p95": 5}, "text bpe character"),
    ("text", "chinese", SHORT | {"source.characters.p95": 41}, "text bpe character"),
    ("chinese", "text", SHORT_TARGET, "formal character character"),
    ("chinese", "text", SHORT_TARGET | {"target.tokens.median": 3}, "text character bpe"),
    ("chinese", "text", SHORT_TARGET | {"target.tokens.p95": 3}, "text character bpe"),
    # a target of few words: at most 50, and hardly a new one
    ("words", "words", {"target.spaced": FEW}, "spelling character symbol"),
    ("words", "words", {"source.spaced": FEW}, "spelling character character"),
    ("words", "words", {"target.spaced": FEW, "target.spaced.size": 51}, "spelling character character"),
    ("words", "words", {"target.spaced": FEW, "target.spaced.growth": 0.05}, "spelling character character"),
    ("words", "words", {"target.spaced": FEW, "target.spaced.unseen": 0.01}, "spelling character character"),
    # closed sets: of at most 3,000 tokens in all pairs, few of them new, each often
    ("text", "chinese", {"source.worded": CLOSED}, "text word character"),
    ("text", "chinese", {"source.spaced": CLOSED}, "text bpe character"),
    ("text", "chinese", {"source.spaced": CLOSED, "source.punctuated": 0.009}, "text symbol character"),
    ("text", "chinese", {"source.spaced": CLOSED, "source.punctuated": 0.01}, "text bpe character"),
    ("text", "chinese", {"source.worded": CLOSED, "source.punctuated": 0.01}, "text word character"),
    ("text", "chinese", {"source.worded": CLOSED, "source.punctuated": 0.009}, "text bpe character"),
    ("text", "chinese", {"source.worded": CLOSED, "source.worded.unseen": 0.01}, "text bpe character"),
    ("text", "chinese", {"source.worded": CLOSED, "source.worded.size": 3_000}, "text word character"),
    ("text", "chinese", {"source.worded": CLOSED, "source.worded.size": 3_001}, "text bpe character"),
    ("text", "chinese", {"source.worded": CLOSED, "source.worded.tokens": 4_001}, "text word character"),
    ("text", "chinese", {"source.worded": CLOSED, "source.worded.tokens": 4_000}, "text bpe character"),
    ("text", "chinese", {"pairs": 9_000, "sampled": 4_000, "source.worded": CLOSED}, "text word character"),
    ("text", "chinese", {"pairs": 9_001, "sampled": 4_000, "source.worded": CLOSED}, "text bpe character"),
    # sentences without spaces, longer than a word
    ("chinese", "chinese", {"source.characters.median": 13}, "text character character"),
    ("chinese", "chinese", {"source.characters.median": 12}, "spelling character character"),
    ("chinese", "chinese", {"source.token_characters": 6.1}, "text character character"),
    ("chinese", "chinese", {"source.token_characters": 6.0}, "spelling character character"),
    ("chinese", "chinese", {"source.scripts": {"Latin": 1.0}}, "spelling character character"),
    ("chinese", "text", {"source.alphabet": 4_000}, "text character bpe"),
    ("chinese", "text", {"source.alphabet": 4_001}, "text bpe bpe"),
    ("chinese", "text", {"source.characters.p99": 150}, "text character bpe"),
    ("chinese", "text", {"source.characters.p99": 151}, "text bpe bpe"),
    ("chinese", "text", {"source.single": 0.5, "source.tokens.p95": 3}, "text character bpe"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "changes", "expected"), CASES)
def test_a_profile_on_each_side_of_a_threshold(
    source: str, target: str, changes: dict[str, Any], expected: str
) -> None:
    task = find_task(made_up_profile(source, target, changes))
    assert f"{task.kind} {task.source} {task.target}" == expected
    assert task.reason and task.source_reason and task.target_reason
    assert task.is_formal == (task.kind == "formal")
    assert task.is_word_level == expected.startswith(("spelling", "inflection"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source.single": 0.51}, "51% of the sources are single words"),
        ({"source.single": 0.5}, "sources of 8 characters on average"),
    ],
)
def test_the_reason_of_short_strings(changes: dict[str, Any], reason: str) -> None:
    assert find_task(made_up_profile("words", "words", changes)).reason == reason


@pytest.mark.parametrize(("punctuated", "is_formal"), [(0.05, True), (0.051, False)])
def test_copied_names_in_code_and_in_text(punctuated: float, is_formal: bool) -> None:
    task = find_task(made_up_profile("text", "text", COPIED | {"target.punctuated": punctuated}))
    assert (task.kind, task.is_formal) == ("copying", is_formal)
    assert task.choice().value == ("formal language" if is_formal else "sentences") + " with copied names"


def test_the_reason_of_inflection_counts_the_columns() -> None:
    columns = [ColumnLayout((0, 1), (2,), features=(1,)), ColumnLayout((0, 1, 2), (3,), features=(1, 2))]
    reasons = [find_task(made_up_profile("words", "words", {"columns": layout})).reason for layout in columns]
    assert reasons == ["words, and 1 column of features", "words, and 2 columns of features"]
