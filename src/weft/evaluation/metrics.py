"""Corpus metrics: hypotheses against references, each score with the signature that reproduces it.

Every value is in percent, and every metric takes the hypotheses, one per line, and the references: one per line, or a
list of them for each line (``references[line]``, not sacrebleu's streams).

    bleu                  BLEU of plain text, tokenized by sacrebleu (13a)            Papineni et al. 2002, Post 2018
    bleu_lowercase        the same in lower case: the default of mteval-v13a; the BLEU of the E2E challenge
    bleu_tokenized        BLEU of tokenized text: its words are separated by spaces
    chrf                  F-score of character n-grams (chrF2)                        Popović 2015
    ter                   edits and shifts of words per reference word                Snover et al. 2006
    rouge_l               F-score of the longest common subsequence of words          Lin 2004; `weft.evaluation.rouge`
    rouge_1, _2           F1 of stemmed words (word bigrams), as summarization papers report it         (the same file)
    rouge_l_f1            F1 of the longest common subsequence of stemmed words, likewise
    exact_match           lines that equal their reference (any of them)
    token_match           the same up to the amount of white space between tokens: code, SQL
    item_error_rate       lines that do not: 100 − exact match; the "WER" of grapheme-to-phoneme papers
    character_error_rate  edit distance over Unicode code points, per reference code point ("CER")
    token_error_rate      edit distance over white-space tokens, per reference token; the "WER" of speech recognition,
                          and the "PER" of grapheme-to-phoneme papers where the tokens are phones
    distinct_1, _2        distinct words (word bigrams) among all of the outputs      Li et al. 2016
    edit_f05              F0.5 of word edits of the source: grammar correction        Dahlmeier & Ng 2012; `….edits`
    brackets              several scores of trees: precision, recall and F1 of brackets; see `weft.evaluation.brackets`
    repetition            several scores: outputs with a loop, rep-1 to rep-4; see `weft.evaluation.repetition`

``exact_match@5`` (any number; also ``token_match@5``) is the fraction of lines whose reference is among the 5 best
outputs of an n-best list: top-5 accuracy.

There is no metric called word error rate, because two fields use that name for two different rows above. Unless stated
otherwise, lines are compared as they are: no case folding, no Unicode normalization. The two edit-distance rates are
sums over the corpus, not means over lines, and take one reference per line. The distinct metrics and repetition do not
use references. Metrics that need a neural model (COMET) are not here.

To add one, write a function like those below and add its line to `METRICS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft import __version__
from weft.errors import DataError, RecipeError, nearest, warn
from weft.evaluation.sacrebleu_metrics import reference_streams, sacrebleu_metric
from weft.evaluation.top_k import MAX_K, Matches, has_same_tokens, is_identical, top_k_accuracy
from weft.runtime.activity import activity
from weft.text.string_distance import edit_distance

References = Sequence[str] | Sequence[Sequence[str]]
TOKENIZED_LINES = 100
"""Text is taken to be tokenized if at least this many lines end with a separate period."""


class MetricScore(NamedTuple):
    """The value of a metric over a corpus, with the signature that reproduces it."""

    name: str
    value: float
    signature: str
    better: str
    """``"higher"`` or ``"lower"``."""


def bleu(hypotheses: Sequence[str], references: References) -> MetricScore:
    """BLEU of plain text in sacrebleu's default tokenization (13a)."""
    return _sacrebleu("BLEU", "bleu", hypotheses, references, better="higher")


def bleu_lowercase(hypotheses: Sequence[str], references: References) -> MetricScore:
    """BLEU of plain text in lower case."""
    return _sacrebleu("lower-case BLEU", "bleu_lowercase", hypotheses, references, better="higher")


def bleu_tokenized(hypotheses: Sequence[str], references: References) -> MetricScore:
    """BLEU of text that is already tokenized. Not comparable with `bleu`, nor across tokenizations."""
    return _sacrebleu("tokenized BLEU", "bleu_tokenized", hypotheses, references, better="higher")


def chrf(hypotheses: Sequence[str], references: References) -> MetricScore:
    """chrF2: F-score of character n-grams up to six, recall weighted twice."""
    return _sacrebleu("chrF", "chrf", hypotheses, references, better="higher")


def ter(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Translation edit rate: insertions, deletions, substitutions and shifts of words, per reference word."""
    return _sacrebleu("TER", "ter", hypotheses, references, better="lower")


def rouge_l(hypotheses: Sequence[str], references: References) -> MetricScore:
    """ROUGE-L as in the E2E challenge and the evaluation of image captions: the mean over lines."""
    from weft.evaluation import rouge

    lists = _reference_lists(hypotheses, references)
    return rouge.mean_of_lines("ROUGE-L", rouge.rouge_l, hypotheses, lists, convention=rouge.CAPTIONS)


def rouge_1(hypotheses: Sequence[str], references: References) -> MetricScore:
    """ROUGE-1 as in summarization: F1 of stemmed words, the mean over lines."""
    from weft.evaluation import rouge

    return rouge.mean_of_lines("ROUGE-1", rouge.rouge_1, hypotheses, _reference_lists(hypotheses, references))


def rouge_2(hypotheses: Sequence[str], references: References) -> MetricScore:
    """ROUGE-2 as in summarization: F1 of bigrams of stemmed words, the mean over lines."""
    from weft.evaluation import rouge

    return rouge.mean_of_lines("ROUGE-2", rouge.rouge_2, hypotheses, _reference_lists(hypotheses, references))


def rouge_l_f1(hypotheses: Sequence[str], references: References) -> MetricScore:
    """ROUGE-L as in summarization: F1 of the longest common subsequence of stemmed words, the mean over lines."""
    from weft.evaluation import rouge

    return rouge.mean_of_lines("ROUGE-L F1", rouge.rouge_l_f1, hypotheses, _reference_lists(hypotheses, references))


def exact_match(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Fraction of lines identical to their reference, or to any of several."""
    correct, number, signature = _identical(hypotheses, references)
    return MetricScore("exact match", 100.0 * correct / number, signature, "higher")


def item_error_rate(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Fraction of lines that are not entirely correct: 100 − exact match."""
    correct, number, signature = _identical(hypotheses, references)
    return MetricScore("item error rate", 100.0 * (number - correct) / number, signature, "lower")


def token_match(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Fraction of lines with the same white-space tokens as their reference, or as any of several."""
    lists = _reference_lists(hypotheses, references)
    pairs = zip(hypotheses, lists, strict=True)
    correct = sum(hypothesis.split() in [reference.split() for reference in line] for hypothesis, line in pairs)
    signature = _signature(nrefs=number_of_references(lists), case="mixed", unit="line of white-space tokens")
    return MetricScore("token match", 100.0 * correct / len(lists), signature, "higher")


def character_error_rate(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Σ edit distance / Σ reference length, both counted in Unicode code points, spaces included."""
    return _edit_rate("character error rate", list, "code point", hypotheses, references)


def token_error_rate(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Σ edit distance / Σ reference length, both counted in white-space tokens."""
    return _edit_rate("token error rate", str.split, "white-space token", hypotheses, references)


def edit_f05(hypotheses: Sequence[str], references: References, sources: Sequence[str] = ()) -> MetricScore:
    """F0.5 of the edits that make the sources the hypotheses; those of the references are the gold edits."""
    from weft.evaluation.max_match import edit_scores, edits_of_references, score_edits

    lists = _reference_lists(hypotheses, references)
    if len(sources) != len(lists):
        raise DataError(f"edit F0.5: {len(sources)} sources but {len(lists)} hypotheses; expected one line for each")
    counts = score_edits(sources, hypotheses, edits_of_references(sources, lists))
    return edit_scores(counts, annotators=number_of_references(lists), gold="references")[-1]


def distinct_1(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Distinct words / all words of the hypotheses."""
    return _distinct(1, hypotheses, references)


def distinct_2(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Distinct word bigrams / all word bigrams of the hypotheses."""
    return _distinct(2, hypotheses, references)


def repetition(hypotheses: Sequence[str], references: References) -> list[MetricScore]:
    """Outputs with a loop, and the fractions of repeated n-grams."""
    from weft.evaluation import repetition

    return repetition.repetition(hypotheses)


def brackets(hypotheses: Sequence[str], references: References) -> list[MetricScore]:
    """Precision, recall and F1 of labeled brackets by the rules of evalb, and ill-formed outputs."""
    from weft.evaluation.brackets import bracket_scores, count_brackets

    lists = _reference_lists(hypotheses, references)
    for number, line in enumerate(lists, 1):
        if len(line) > 1:
            raise DataError(f"brackets: line {number} has {len(line)} references, expected 1")
    return bracket_scores(count_brackets(hypotheses, [line[0] for line in lists]))


class Metric(NamedTuple):
    """A metric, and what it is applied to."""

    compute: Callable[..., MetricScore | list[MetricScore]]
    """Called with hypotheses, references and, if the metric uses them, sources."""
    single_reference: bool = False
    """Whether it takes only one reference per line."""
    uses_references: bool = True
    """False: it measures the hypotheses alone, and so can be computed for the references too."""
    uses_sources: bool = False
    single_score: bool = True
    """False: it gives several scores, so training cannot select checkpoints by it."""
    matches: Matches | None = None
    """Whether an output is correct: NAME@K is then known too, the lines for which one of the K best outputs is."""


METRICS: dict[str, Metric] = {
    "bleu": Metric(bleu),
    "bleu_lowercase": Metric(bleu_lowercase),
    "bleu_tokenized": Metric(bleu_tokenized),
    "chrf": Metric(chrf),
    "ter": Metric(ter),
    "rouge_l": Metric(rouge_l),
    "rouge_1": Metric(rouge_1),
    "rouge_2": Metric(rouge_2),
    "rouge_l_f1": Metric(rouge_l_f1),
    "exact_match": Metric(exact_match, matches=is_identical),
    "token_match": Metric(token_match, matches=has_same_tokens),
    "item_error_rate": Metric(item_error_rate),
    "character_error_rate": Metric(character_error_rate, single_reference=True),
    "token_error_rate": Metric(token_error_rate, single_reference=True),
    "edit_f05": Metric(edit_f05, uses_sources=True),
    "distinct_1": Metric(distinct_1, uses_references=False),
    "distinct_2": Metric(distinct_2, uses_references=False),
    "brackets": Metric(brackets, single_reference=True, single_score=False),
    "repetition": Metric(repetition, uses_references=False, single_score=False),
}


def split_name(name: str) -> tuple[str, int]:
    """The metric that a name stands for, and of how many best outputs: ``exact_match@5`` is exact_match of 5."""
    base, separator, number = name.partition("@")
    if not separator:
        return name, 1
    if base not in METRICS:
        return base, 1
    if METRICS[base].matches is None:
        names = " and ".join(name for name, metric in METRICS.items() if metric.matches)
        raise RecipeError(f"metric {name!r}: an @ is for {names} only; use {base!r}")
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MAX_K):
        raise RecipeError(f"metric {name!r}: {number!r} after the @; expected a number from 1 to {MAX_K}")
    return base, int(number)


def check_metrics(names: Sequence[str], *, several_references: bool = False, setting: str | None = None) -> None:
    """Refuse unknown metrics and, with ``several_references``, metrics that take one, before anything is translated.

    ``setting``: where the names come from, for the message.
    """
    for name in names:
        base, _ = split_name(name)
        if base not in METRICS:
            prefix = f"metric {name!r} is unknown" if setting is None else f"{setting}: unknown metric {name!r}"
            raise RecipeError(f"{prefix}; {nearest(base, METRICS)}")
        if several_references and METRICS[base].single_reference:
            raise RecipeError(
                f"metric {name!r} takes one reference per source; leave it out, or set evaluation.references = 'each'"
            )


def compute_metrics(
    names: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    *,
    sources: Sequence[str] = (),
    n_best: Sequence[Sequence[str]] = (),
) -> list[MetricScore]:
    """The scores of some metrics, in their order.

    ``sources``: one for each hypothesis, for metrics that use them. ``n_best``: the best outputs for each source, best
    first, for metrics with an @.
    """
    check_metrics(names)
    scores: list[MetricScore] = []
    for name in names:
        base, k = split_name(name)
        with activity(f"computing {name}"):
            metric = METRICS[base]
            result = metric.compute(hypotheses, references, *([sources] if metric.uses_sources else []))
            if metric.matches is not None and base != name:
                assert isinstance(result, MetricScore)
                if len(n_best) != len(hypotheses):
                    raise DataError(f"{name}: {len(n_best)} n-best lists but {len(hypotheses)} hypotheses; pass n_best")
                value = top_k_accuracy(n_best, _reference_lists(hypotheses, references), metric.matches, k)
                result = MetricScore(f"{result.name}@{k}", value, f"k:{k}|{result.signature}", "higher")
        scores += result if isinstance(result, list) else [result]
    return scores


def perplexity(
    total_log_probability: float,
    tokens: int,
    *,
    token: str = "token of the model's vocabulary, end token included",
) -> MetricScore:
    """exp(−Σ log p / n) with natural logarithms over the n tokens of a corpus. Not in percent.

    Perplexities are comparable only over the same tokens; ``token`` says in the signature what they are.
    """
    if tokens < 1:
        raise DataError(f"perplexity: {tokens} tokens, expected at least 1")
    try:
        value = math.exp(-total_log_probability / tokens)
    except OverflowError:
        value = math.inf
    return MetricScore("perplexity", value, _signature(log="natural", token=token, tokens=tokens), "lower")


def ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """The n-grams of a sequence, in order."""
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def _sacrebleu(title: str, name: str, hypotheses: Sequence[str], references: References, *, better: str) -> MetricScore:
    metric = sacrebleu_metric(name)
    if name in ("bleu", "bleu_lowercase"):
        _warn_of_tokenized(name, hypotheses, references)
    score = metric.corpus_score(hypotheses, reference_streams(_reference_lists(hypotheses, references)))
    return MetricScore(title, float(score.score), str(metric.get_signature()), better)


def _warn_of_tokenized(name: str, hypotheses: Sequence[str], references: References) -> None:
    """A warning if outputs and references are tokenized, for which sacrebleu's tokenization is not meant."""
    lists = _reference_lists(hypotheses, references)
    lines = sum(line.endswith(" .") and lists[row][0].endswith(" .") for row, line in enumerate(hypotheses))
    if lines >= TOKENIZED_LINES:
        warn(f"{name}: outputs and references end with ' .', as tokenized text does; use the metric bleu_tokenized")


def _identical(hypotheses: Sequence[str], references: References) -> tuple[int, int, str]:
    lists = _reference_lists(hypotheses, references)
    correct = sum(hypothesis in line for hypothesis, line in zip(hypotheses, lists, strict=True))
    return correct, len(lists), _signature(nrefs=number_of_references(lists), case="mixed", unit="line")


def _distinct(n: int, hypotheses: Sequence[str], references: References) -> MetricScore:
    """Distinct n-grams / all n-grams over the corpus. It falls with the number of outputs, so compare equal numbers.

    Li et al. divide by the number of words instead, which for bigrams is slightly larger.
    """
    _reference_lists(hypotheses, references)
    grams = [gram for hypothesis in hypotheses for gram in ngrams(hypothesis.split(), n)]
    signature = _signature(n=n, outputs=len(hypotheses), case="mixed", unit="white-space token", average="corpus")
    return MetricScore(f"distinct-{n}", 100.0 * len(set(grams)) / len(grams) if grams else 0.0, signature, "higher")


def _edit_rate(
    name: str,
    tokenize: Callable[[str], list[str]],
    unit: str,
    hypotheses: Sequence[str],
    references: References,
) -> MetricScore:
    lists = _reference_lists(hypotheses, references)
    edits = total = 0
    for number, (hypothesis, line) in enumerate(zip(hypotheses, lists, strict=True), 1):
        if len(line) > 1:
            raise DataError(f"{name}: line {number} has {len(line)} references, expected 1")
        reference = tokenize(line[0])
        edits += edit_distance(tokenize(hypothesis), reference)
        total += len(reference)
    if total == 0:
        raise DataError(f"{name}: every reference is empty, expected at least one {unit}")
    signature = _signature(nrefs="1", case="mixed", unit=unit, average="corpus")
    return MetricScore(name, 100.0 * edits / total, signature, "lower")


def _reference_lists(hypotheses: Sequence[str], references: References) -> list[Sequence[str]]:
    """The references of each line, after checking that both sides have the same number of lines."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DataError("hypotheses and references are sequences of lines, not one string")
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(references)} references; expected one line for each")
    if not hypotheses:
        raise DataError("no lines to score; expected at least 1 hypothesis and its reference")
    lists = [[line] if isinstance(line, str) else line for line in references]
    for number, line in enumerate(lists, 1):
        if not line:
            raise DataError(f"line {number} has no reference, expected at least 1")
    return lists


def number_of_references(lists: Sequence[Sequence[str]]) -> str:
    """The number of references per line for a signature, or "var"."""
    numbers = set(map(len, lists))
    return str(numbers.pop()) if len(numbers) == 1 else "var"


def _signature(**parts: object) -> str:
    """A signature in sacrebleu's format."""
    return "|".join(f"{key}:{value}" for key, value in (*parts.items(), ("version", f"weft {__version__}")))
