"""Metrics over a corpus: what was written against what should have been, each with the signature that reproduces it.

Every value is in per cent, and every metric takes the hypotheses, one a line, and the references: one a line, or a
list of them for each line (``references[line]``, not sacrebleu's streams).

    bleu                  BLEU of plain text; sacrebleu cuts it into words (13a)      Papineni et al. 2002, Post 2018
    bleu_lowercase        the same, all in lower case: mteval-v13a as it is by default; the BLEU of the E2E challenge
    bleu_tokenized        BLEU of text that is already cut: its words are what stands between spaces
    chrf                  F-score of character n-grams (chrF2)                        Popović 2015
    ter                   edits and shifts of words per reference word                Snover et al. 2006
    rouge_l               F-score of the longest common subsequence of words          Lin 2004; `weft.evaluation.rouge`
    exact_match           lines that equal their reference (any of them)
    token_match           the same, where white space separates and how much of it does not matter: code, SQL
    item_error_rate       lines that do not: 100 − exact match; the "WER" of grapheme-to-phoneme papers
    character_error_rate  edit distance over Unicode code points, per reference code point ("CER")
    token_error_rate      edit distance over tokens between white space, per reference token; the "WER" of speech
                          recognition, and the "PER" of grapheme-to-phoneme papers where the tokens are phones
    distinct_1, _2        different words (pairs of words) among all of the outputs   Li et al. 2016
    repetition            several at once: outputs with a loop, rep-1 to rep-4; see `weft.evaluation.repetition`

There is no metric called word error rate, because two fields give that name to two of the rows above. Lines are
compared as they are, where nothing else is said: no case folding, no Unicode normalization. The two edit-distance
rates are sums over the corpus, not means over lines, and take one reference a line. The distinct metrics and repetition
do not look at references. Metrics that need a neural model (COMET) are not here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft import __version__
from weft.errors import DataError, RecipeError, nearest

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

References = Sequence[str] | Sequence[Sequence[str]]


class Measure(NamedTuple):
    """One metric's value over a corpus, and all that is needed to compute it again."""

    name: str
    value: float
    signature: str
    better: str
    """``"higher"`` or ``"lower"``."""


def bleu(hypotheses: Sequence[str], references: References) -> Measure:
    """BLEU of plain text, cut into words by sacrebleu's default tokenization (13a)."""
    from sacrebleu.metrics.bleu import BLEU

    return _sacrebleu("BLEU", BLEU(), hypotheses, references, better="higher")


def bleu_lowercase(hypotheses: Sequence[str], references: References) -> Measure:
    """BLEU of plain text as `bleu`, of lower-cased text."""
    from sacrebleu.metrics.bleu import BLEU

    return _sacrebleu("lower-case BLEU", BLEU(lowercase=True), hypotheses, references, better="higher")


def bleu_tokenized(hypotheses: Sequence[str], references: References) -> Measure:
    """BLEU of text that is already tokenized. Not comparable with `bleu`, nor across tokenizations."""
    from sacrebleu.metrics.bleu import BLEU

    return _sacrebleu("tokenized BLEU", BLEU(tokenize="none", force=True), hypotheses, references, better="higher")


def chrf(hypotheses: Sequence[str], references: References) -> Measure:
    """chrF2: F-score of character n-grams up to six, recall weighted twice."""
    from sacrebleu.metrics.chrf import CHRF

    return _sacrebleu("chrF", CHRF(), hypotheses, references, better="higher")


def ter(hypotheses: Sequence[str], references: References) -> Measure:
    """Translation edit rate: insertions, deletions, substitutions and shifts of words, per reference word."""
    from sacrebleu.metrics.ter import TER

    return _sacrebleu("TER", TER(), hypotheses, references, better="lower")


def rouge_l(hypotheses: Sequence[str], references: References) -> Measure:
    """ROUGE-L as the E2E challenge and the evaluation of image captions have it: the mean over lines."""
    from weft.evaluation import rouge

    lists = _reference_lists(hypotheses, references)
    scores = [rouge.rouge_l(hypothesis, line) for hypothesis, line in zip(hypotheses, lists, strict=True)]
    signature = _signature(
        nrefs=_number_of_references(lists),
        case="lc",
        tok="ptb without punctuation",
        beta=rouge.BETA,
        references="best precision, best recall",
        average="line",
    )
    return Measure("ROUGE-L", 100.0 * math.fsum(scores) / len(scores), signature, "higher")


def exact_match(hypotheses: Sequence[str], references: References) -> Measure:
    """Share of lines identical to their reference, or to any of several."""
    right, number, signature = _identical(hypotheses, references)
    return Measure("exact match", 100.0 * right / number, signature, "higher")


def item_error_rate(hypotheses: Sequence[str], references: References) -> Measure:
    """Share of lines that are not right in full: 100 − exact match."""
    right, number, signature = _identical(hypotheses, references)
    return Measure("item error rate", 100.0 * (number - right) / number, signature, "lower")


def token_match(hypotheses: Sequence[str], references: References) -> Measure:
    """Share of lines with the same tokens between white space as their reference, or as any of several."""
    lists = _reference_lists(hypotheses, references)
    pairs = zip(hypotheses, lists, strict=True)
    right = sum(hypothesis.split() in [one.split() for one in line] for hypothesis, line in pairs)
    signature = _signature(nrefs=_number_of_references(lists), case="mixed", unit="line of white-space tokens")
    return Measure("token match", 100.0 * right / len(lists), signature, "higher")


def character_error_rate(hypotheses: Sequence[str], references: References) -> Measure:
    """Σ edit distance / Σ reference length, both counted in Unicode code points, spaces included."""
    return _edit_rate("character error rate", list, "code point", hypotheses, references)


def token_error_rate(hypotheses: Sequence[str], references: References) -> Measure:
    """Σ edit distance / Σ reference length, both counted in tokens between white space."""
    return _edit_rate("token error rate", str.split, "white-space token", hypotheses, references)


def distinct_1(hypotheses: Sequence[str], references: References) -> Measure:
    """Different words / all words of the hypotheses."""
    return _distinct(1, hypotheses, references)


def distinct_2(hypotheses: Sequence[str], references: References) -> Measure:
    """Different pairs of neighboring words / all pairs of the hypotheses."""
    return _distinct(2, hypotheses, references)


METRICS: dict[str, Callable[[Sequence[str], References], Measure]] = {
    "bleu": bleu,
    "bleu_lowercase": bleu_lowercase,
    "bleu_tokenized": bleu_tokenized,
    "chrf": chrf,
    "ter": ter,
    "rouge_l": rouge_l,
    "exact_match": exact_match,
    "token_match": token_match,
    "item_error_rate": item_error_rate,
    "character_error_rate": character_error_rate,
    "token_error_rate": token_error_rate,
    "distinct_1": distinct_1,
    "distinct_2": distinct_2,
}
ONE_REFERENCE = frozenset({"character_error_rate", "token_error_rate"})
"""Those that take one reference a line."""
OUTPUTS_ALONE = frozenset({"distinct_1", "distinct_2", "repetition"})
"""Those that measure hypotheses, whatever the references; they say something of references too."""


def _repetition(hypotheses: Sequence[str]) -> list[Measure]:
    from weft.evaluation.repetition import repetition

    return repetition(hypotheses)


FAMILIES: dict[str, Callable[[Sequence[str]], list[Measure]]] = {"repetition": _repetition}
"""Names that stand for several measures, of the hypotheses alone."""


def check_metrics(names: Sequence[str], *, several: bool = False) -> None:
    """Refuse what cannot be measured before anything is translated: unknown names and, of ``several`` references,
    metrics that take one."""
    for name in names:
        if name not in METRICS and name not in FAMILIES:
            raise RecipeError(f"metric {name!r} is unknown; {nearest(name, [*METRICS, *FAMILIES])}")
        if several and name in ONE_REFERENCE:
            raise RecipeError(
                f"metric {name!r} takes one reference a source; leave it out, or set evaluation.references = 'each'"
            )


def measure(names: Sequence[str], hypotheses: Sequence[str], references: References) -> list[Measure]:
    """The metrics asked for, in that order."""
    check_metrics(names)
    found: list[Measure] = []
    for name in names:
        found += FAMILIES[name](hypotheses) if name in FAMILIES else [METRICS[name](hypotheses, references)]
    return found


def perplexity(
    total_log_probability: float,
    tokens: int,
    *,
    token: str = "piece of the model's vocabulary, end mark counted",
) -> Measure:
    """exp(−Σ log p / n): natural logarithms over the n tokens of a corpus. Not in per cent.

    Perplexities compare only where the tokens are the same; `token` says in the signature what they were.
    """
    if tokens < 1:
        raise DataError(f"perplexity: {tokens} tokens, expected at least 1")
    try:
        value = math.exp(-total_log_probability / tokens)
    except OverflowError:
        value = math.inf
    return Measure("perplexity", value, _signature(log="natural", token=token, tokens=tokens), "lower")


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and substitutions that turn one sequence into the other (Levenshtein 1966).

    Column by column of the usual table, a column held as the bits of two integers: where it rises by one from one
    row to the next (`up`) and where it falls (`down`)   Myers 1999; Hyyrö 2003.
    """
    if not left or not right:
        return len(left) + len(right)
    places: dict[Hashable, int] = {}
    for place, item in enumerate(left):
        places[item] = places.get(item, 0) | 1 << place
    every = (1 << len(left)) - 1
    last = 1 << (len(left) - 1)
    up, down, distance = every, 0, len(left)
    for item in right:
        equal = places.get(item, 0)
        diagonal = (((equal & up) + up) ^ up) | equal
        rises = down | (every & ~(diagonal | up))
        falls = up & diagonal
        distance += bool(rises & last) - bool(falls & last)
        rises = rises << 1 | 1
        equal |= down
        up = (falls << 1 | ~(equal | rises)) & every
        down = rises & equal & every
    return distance


def _sacrebleu(name: str, metric: Metric, hypotheses: Sequence[str], references: References, *, better: str) -> Measure:
    lists = _reference_lists(hypotheses, references)
    most = max(map(len, lists))
    streams: list[list[Any]] = [[line[place] if place < len(line) else None for line in lists] for place in range(most)]
    score = metric.corpus_score(hypotheses, streams)
    return Measure(name, float(score.score), str(metric.get_signature()), better)


def _identical(hypotheses: Sequence[str], references: References) -> tuple[int, int, str]:
    lists = _reference_lists(hypotheses, references)
    right = sum(hypothesis in line for hypothesis, line in zip(hypotheses, lists, strict=True))
    return right, len(lists), _signature(nrefs=_number_of_references(lists), case="mixed", unit="line")


def _distinct(n: int, hypotheses: Sequence[str], references: References) -> Measure:
    """Different n-grams / all n-grams, over the corpus: it falls as there are more outputs, so compare equal numbers.

    Li et al. divide by all words instead, for pairs a little more than there are pairs.
    """
    _reference_lists(hypotheses, references)
    total = 0
    different: set[tuple[str, ...]] = set()
    for hypothesis in hypotheses:
        tokens = hypothesis.split()
        grams = [tuple(tokens[place : place + n]) for place in range(len(tokens) - n + 1)]
        total += len(grams)
        different.update(grams)
    signature = _signature(n=n, outputs=len(hypotheses), case="mixed", unit="white-space token", average="corpus")
    return Measure(f"distinct-{n}", 100.0 * len(different) / total if total else 0.0, signature, "higher")


def _edit_rate(
    name: str,
    cut: Callable[[str], list[str]],
    unit: str,
    hypotheses: Sequence[str],
    references: References,
) -> Measure:
    lists = _reference_lists(hypotheses, references)
    edits = total = 0
    for place, (hypothesis, line) in enumerate(zip(hypotheses, lists, strict=True)):
        if len(line) > 1:
            raise DataError(f"{name}: line {place + 1} has {len(line)} references, expected 1")
        reference = cut(line[0])
        edits += edit_distance(cut(hypothesis), reference)
        total += len(reference)
    if total == 0:
        raise DataError(f"{name}: every reference is empty, expected at least one {unit}")
    signature = _signature(nrefs="1", case="mixed", unit=unit, average="corpus")
    return Measure(name, 100.0 * edits / total, signature, "lower")


def _reference_lists(hypotheses: Sequence[str], references: References) -> list[Sequence[str]]:
    """The references of each line, after checking that there are as many lines on both sides."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DataError("hypotheses and references are sequences of lines, not one string")
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(references)} references; expected one line for each")
    if not hypotheses:
        raise DataError("no lines to score; expected at least 1 hypothesis and its reference")
    lists = [[line] if isinstance(line, str) else line for line in references]
    for place, line in enumerate(lists):
        if not line:
            raise DataError(f"line {place + 1} has no reference, expected at least 1")
    return lists


def _number_of_references(lists: list[Sequence[str]]) -> str:
    numbers = set(map(len, lists))
    return str(numbers.pop()) if len(numbers) == 1 else "var"


def _signature(**parts: object) -> str:
    """sacrebleu's format, for the metrics computed here."""
    return "|".join(f"{key}:{value}" for key, value in (*parts.items(), ("version", f"weft {__version__}")))
