"""Corpus metrics: known values, signatures, and messages; sacrebleu is the peer."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
import warnings
from importlib.metadata import version

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.errors import DataError, RecipeError, WeftWarning
from weft.evaluation import metrics
from weft.evaluation.metrics import (
    METRICS,
    MetricScore,
    check_metrics,
    compute_metrics,
    perplexity,
)

HYPOTHESES = ["the cat sat on the mat today", "he lives in Paris with his dog .", "yes"]
REFERENCES = ["the cat sits on the mat today", "he lives in Paris with a dog .", "yes"]


def test_edit_rates_are_quick_enough_for_ten_thousand_lines() -> None:
    line = "a sentence of ordinary length which says nothing in particular about anything at all"
    start = time.process_time()  # other processes on a busy machine do not count
    METRICS["character_error_rate"].compute([line[:-1]] * 10_000, [line[1:]] * 10_000)
    assert time.process_time() - start < 20  # about 0.5 s


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("bleu", lambda h, r: sacrebleu.corpus_bleu(h, r)),
        ("bleu_lowercase", lambda h, r: sacrebleu.corpus_bleu(h, r, lowercase=True)),
        ("bleu_tokenized", lambda h, r: sacrebleu.corpus_bleu(h, r, tokenize="none")),
        ("chrf", lambda h, r: sacrebleu.corpus_chrf(h, r)),
        ("ter", lambda h, r: sacrebleu.corpus_ter(h, r)),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_sacrebleu_metrics_are_sacrebleu(name: str, score, several: bool) -> None:
    second = ["a cat sat on a mat", "he and his dog live in Paris .", "indeed"]
    references = [list(pair) for pair in zip(REFERENCES, second, strict=True)] if several else REFERENCES
    streams = [REFERENCES, second] if several else [REFERENCES]
    result = METRICS[name].compute(HYPOTHESES, references)
    assert result.value == pytest.approx(score(HYPOTHESES, streams).score)
    assert result.signature.startswith(f"nrefs:{len(streams)}|")
    assert result.signature.endswith(f"|version:{version('sacrebleu')}")


def test_known_values() -> None:
    hypotheses, references, sources = ["abc d", "x"], ["abd d", "x"], ["abd e", "y"]
    names = [name for name, metric in METRICS.items() if metric.single_score]
    scores = compute_metrics(names, hypotheses, references, sources=sources)
    values = dict(zip(names, scores, strict=True))
    assert values["exact_match"].value == 50
    assert values["item_error_rate"].value == 50
    assert values["character_error_rate"].value == pytest.approx(100 / 6)
    assert values["token_error_rate"].value == pytest.approx(100 / 3)
    assert values["token_match"].value == 50
    assert values["rouge_l"].value == pytest.approx(75)
    assert values["rouge_1"].value == pytest.approx(75) and values["rouge_2"].value == 0
    assert values["rouge_l_f1"].value == pytest.approx(75)
    assert values["edit_f05"].value == pytest.approx(100 * 1.25 * 2 / (0.25 * 2 + 3))  # 2 correct, 3 proposed, 2 gold
    assert values["distinct_1"].value == 100 and values["distinct_2"].value == 100
    assert values["ter"].value == pytest.approx(100 / 3)


def test_directions_and_names() -> None:
    names = [name for name, metric in METRICS.items() if metric.uses_references and name not in ("rouge_2", "brackets")]
    perfect = compute_metrics(names, REFERENCES, REFERENCES, sources=HYPOTHESES)
    assert [round(one.value, 6) for one in perfect] == [100 if one.better == "higher" else 0 for one in perfect]
    assert [one.name for one in perfect] == [
        "BLEU",
        "lower-case BLEU",
        "tokenized BLEU",
        "chrF",
        "TER",
        "ROUGE-L",
        "ROUGE-1",
        "ROUGE-L F1",
        "exact match",
        "token match",
        "item error rate",
        "character error rate",
        "token error rate",
        "edit F0.5",
    ]


def test_tokenized_bleu_takes_words_as_they_stand() -> None:
    hypotheses, references = ["a b c d, e f"], ["a b c d , e f"]
    assert METRICS["bleu"].compute(hypotheses, references).value == pytest.approx(100)
    assert METRICS["bleu_tokenized"].compute(hypotheses, references).value < 100


def test_own_signatures_name_unit_and_version() -> None:
    signature = METRICS["character_error_rate"].compute(["a"], ["a"]).signature
    assert signature == f"nrefs:1|case:mixed|unit:code point|average:corpus|version:weft {weft.__version__}"
    assert METRICS["exact_match"].compute(["a", "b"], [["a"], ["a", "b"]]).signature.startswith("nrefs:var|")


def test_any_reference_may_match_exactly() -> None:
    assert METRICS["exact_match"].compute(["a", "b"], [["x", "a"], ["x"]]).value == 50


def test_lines_may_have_different_numbers_of_references() -> None:
    result = METRICS["bleu"].compute(HYPOTHESES, [[REFERENCES[0], "another"], [REFERENCES[1]], [REFERENCES[2]]])
    assert "nrefs:var" in result.signature


@pytest.mark.parametrize("name", [name for name in METRICS if name != "repetition"])
@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a", "b"], ["a"], "2 hypotheses but 1 references; expected one line for each"),
        ([], [], "no lines to score; expected at least 1 hypothesis and its reference"),
        (["a", "b"], [["a"], []], "line 2 has no reference, expected at least 1"),
        ("a", "a", "hypotheses and references are sequences of lines, not one string"),
    ],
)
def test_lines_that_do_not_match_are_refused(name: str, hypotheses, references, message: str) -> None:
    with pytest.raises(DataError) as error:
        METRICS[name].compute(hypotheses, references)
    assert str(error.value) == message


def test_edit_rates_take_one_reference_that_is_not_empty() -> None:
    with pytest.raises(DataError, match="character error rate: line 2 has 2 references, expected 1"):
        METRICS["character_error_rate"].compute(["a", "b"], [["a"], ["b", "c"]])
    with pytest.raises(DataError, match="token error rate: every reference is empty"):
        METRICS["token_error_rate"].compute(["a"], [" "])
    assert METRICS["token_error_rate"].compute(["a", "b"], ["", "b"]).value == 100


def literal_bleu(hypotheses: list[str], references: list[list[str]]) -> float:
    """mteval-v13a of words between spaces, in lower case: clipped by the most of any reference, the closest length (of
    two the shorter), where an n-gram is nowhere found half a match, a quarter, …"""
    cut = [
        (line.lower().split(), [one.lower().split() for one in those])
        for line, those in zip(hypotheses, references, strict=True)
    ]
    logarithms, smooth = 0.0, 1
    for n in range(1, 5):
        matches = total = 0
        for ours, theirs in cut:
            grams = [tuple(ours[place : place + n]) for place in range(len(ours) - n + 1)]
            total += len(grams)
            for gram in set(grams):
                there = [[tuple(one[i : i + n]) for i in range(len(one) - n + 1)].count(gram) for one in theirs]
                matches += min(grams.count(gram), max(there))
        if not matches:
            smooth *= 2
        logarithms += math.log((matches or 1 / smooth) / total) / 4
    said = sum(len(ours) for ours, _ in cut)
    wanted = sum(min((abs(len(one) - len(ours)), len(one)) for one in theirs)[1] for ours, theirs in cut)
    return 100 * math.exp(min(0.0, 1 - wanted / said) + logarithms)


LINE = st.lists(st.sampled_from(["a", "A", "b", "c", "D"]), min_size=4, max_size=9).map(" ".join)


@given(st.lists(st.tuples(LINE, st.lists(LINE, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_lower_case_bleu_is_mteval(items: list[tuple[str, list[str]]]) -> None:
    hypotheses, references = [one for one, _ in items], [those for _, those in items]
    if not {word.lower() for line in hypotheses for word in line.split()} & {
        word.lower() for those in references for line in those for word in line.split()
    }:
        return  # sacrebleu gives 0 where not even a word is right, mteval a little
    found = METRICS["bleu_lowercase"].compute(hypotheses, references)
    assert found.value == pytest.approx(literal_bleu(hypotheses, references))
    assert "|case:lc|eff:no|tok:13a|smooth:exp|" in found.signature


def literal_distinct(lines: list[str], n: int) -> float:
    every = [
        " ".join(line.split()[i : i + n])
        for line in lines
        for i in range(len(line.split()))
        if line.split()[i:][n - 1 :]
    ]
    return 100 * len(set(every)) / len(every) if every else 0.0


@given(st.lists(st.text("ab ", max_size=12), min_size=1, max_size=5), st.sampled_from([1, 2]))
def test_distinct_is_different_over_all(lines: list[str], n: int) -> None:
    found = METRICS[f"distinct_{n}"].compute(lines, ["whatever"] * len(lines))
    assert found.value == pytest.approx(literal_distinct(lines, n))
    assert found.name == f"distinct-{n}" and found.better == "higher"


def test_distinct_of_known_outputs() -> None:
    outputs = ["i do not know", "i do not know", "i see"]
    assert METRICS["distinct_1"].compute(outputs, outputs).value == pytest.approx(100 * 5 / 10)
    assert METRICS["distinct_2"].compute(outputs, outputs).value == pytest.approx(100 * 4 / 7)
    signature = METRICS["distinct_2"].compute(outputs, outputs).signature
    expected = "n:2|outputs:3|case:mixed|unit:white-space token|average:corpus|version:weft "
    assert signature == expected + weft.__version__


@pytest.mark.parametrize(
    ("hypothesis", "references", "right"),
    [
        ("x = f ( a )", ["x  =  f ( a )"], True),
        (" select *\tfrom t ", ["nothing", "select * from t"], True),
        ("x=f(a)", ["x = f ( a )"], False),
        ("SELECT *", ["select *"], False),
        ("a b", ["b a"], False),
        ("", [" "], True),
    ],
)
def test_tokens_match_however_much_space_is_between(hypothesis: str, references: list[str], right: bool) -> None:
    found = METRICS["token_match"].compute([hypothesis], [references])
    cut = [re.split(r"\s+", one.strip()) for one in [hypothesis, *references]]
    assert found.value == 100 * right == 100 * (cut[0] in cut[1:])
    assert f"nrefs:{len(references)}|case:mixed|unit:line of white-space tokens|" in found.signature


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.single_reference])
def test_a_metric_of_one_reference_says_so_before_anything_is_done(name: str) -> None:
    check_metrics([name])
    with pytest.raises(RecipeError) as error:
        check_metrics(["bleu", name], several_references=True)
    expected = f"metric {name!r} takes one reference per source; leave it out, or set evaluation.references = 'each'"
    assert str(error.value) == expected


def test_all_others_take_several() -> None:
    names = [name for name, metric in METRICS.items() if not metric.single_reference]
    check_metrics(names, several_references=True)
    assert len(compute_metrics(names, ["a b"], [["a b", "b a"]], sources=["a"])) >= len(names)


def test_the_table_names_every_metric() -> None:
    said = metrics.__doc__ or ""
    assert all(f"    {name}" in said for name in METRICS if not name.endswith("_2")) and said.count(", _2 ") == 2


def test_unknown_metric() -> None:
    with pytest.raises(RecipeError) as error:
        compute_metrics(["bleu", "exact_mach"], ["a"], ["a"])
    assert str(error.value) == "metric 'exact_mach' is unknown; did you mean 'exact_match'?"
    with pytest.raises(RecipeError) as error:
        check_metrics(["zzz"])
    assert str(error.value) == f"metric 'zzz' is unknown; choose one of {', '.join(METRICS)}"


def test_metrics_of_n_best_lists() -> None:
    n_best = [["x", "a  b"], ["b", "c"], ["c"]]
    names = ["exact_match@2", "token_match@2", "token_match@1", "exact_match"]
    scores = compute_metrics(names, ["x", "b", "c"], ["a b", "b", "d"], n_best=n_best)
    assert [score.name for score in scores] == ["exact match@2", "token match@2", "token match@1", "exact match"]
    assert [round(score.value, 2) for score in scores] == [33.33, 66.67, 33.33, 33.33]
    assert scores[0].signature == f"k:2|{scores[3].signature}"
    with pytest.raises(DataError, match=r"^exact_match@2: 0 n-best lists but 3 hypotheses; pass n_best$"):
        compute_metrics(names, ["x", "b", "c"], ["a b", "b", "d"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bleu@5", "metric 'bleu@5': an @ is for exact_match and token_match only; use 'bleu'"),
        ("exact_match@", "metric 'exact_match@': '' after the @; expected a number from 1 to 1000"),
        ("exact_match@0", "metric 'exact_match@0': '0' after the @; expected a number from 1 to 1000"),
        ("exact_match@1e2", "metric 'exact_match@1e2': '1e2' after the @; expected a number from 1 to 1000"),
        ("exact_mach@5", "metric 'exact_mach@5' is unknown; did you mean 'exact_match'?"),
    ],
)
def test_names_with_an_at_sign_that_mean_nothing(name: str, message: str) -> None:
    with pytest.raises(RecipeError) as error:
        check_metrics([name])
    assert str(error.value) == message


def test_edits_need_the_sources() -> None:
    with pytest.raises(DataError, match=r"^edit F0.5: 0 sources but 1 hypotheses; expected one line for each$"):
        compute_metrics(["edit_f05"], ["a"], ["a"])


def test_perplexity() -> None:
    uniform = perplexity(-7 * math.log(5), 7)
    assert uniform.value == pytest.approx(5)
    assert uniform.better == "lower"
    assert "token:token of the model's vocabulary, end token included|tokens:7" in uniform.signature
    assert "token:byte|" in perplexity(-1.0, 1, token="byte").signature
    assert perplexity(-1e6, 1) == MetricScore("perplexity", math.inf, perplexity(-1.0, 1).signature, "lower")
    with pytest.raises(DataError, match="perplexity: 0 tokens, expected at least 1"):
        perplexity(-1.0, 0)


def test_importing_is_light() -> None:
    code = (
        "import sys, weft.evaluation.metrics, weft.evaluation.alignment as a;"
        "print([m for m in ('torch', 'sacrebleu', 'matplotlib', 'weft.pictures') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_tokenized_text_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """If outputs and references are tokenized; sacrebleu's own advice, which is about the outputs, is not given."""
    with pytest.warns(
        WeftWarning, match=r"^bleu: outputs and references end with ' \.', .*; use the metric bleu_token"
    ):
        compute_metrics(["bleu"], ["b ."] * 100, ["a ."] * 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compute_metrics(["bleu"], ["b ."] * 100, ["b."] * 100)
        compute_metrics(["bleu"], ["b ."] * 99, ["b ."] * 99)
        compute_metrics(["bleu_tokenized", "chrf"], ["b ."] * 100, ["b ."] * 100)
    assert not caplog.records
