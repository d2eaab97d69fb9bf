"""What the page computes by itself, against the library: ranking, sampling filters, words, labels, tree layouts."""

import random

import numpy as np
import pytest
import torch

from weft.apps.cli.commands.parse import record
from weft.pictures.labels import visible
from weft.pictures.parse_tree import GAP, place_nodes, read_tree
from weft.search.ranking import Ranking
from weft.search.sampling_filters import SamplingFilter
from weft.translation.word_alignment import links_from_weights, merge_weights


@pytest.fixture
def call(visitor):
    """Calls a function of a module of the page: ``call("ranking.js", "rank", …)``."""
    page = visitor.open("#translate")
    script = "([file, name, values]) => import('/page/' + file).then((module) => module[name](...values))"
    return lambda file, name, *values: page.evaluate(script, [file, name, values])


@pytest.mark.parametrize("normalization", ["power", "gnmt", "none"])
def test_hypotheses_are_ranked_as_in_a_search(call, normalization):
    hypotheses = [
        {"log_probability": -length * 0.7, "length": length, "coverage": -0.3 * length} for length in (2, 3, 7)
    ]
    search = {"normalization": normalization, "length_penalty": 1.3, "coverage_penalty": 0.2}
    ranking = Ranking(normalization, 1.3, 0.2)
    for hypothesis in hypotheses:
        expected = ranking.score(hypothesis["log_probability"], hypothesis["length"], hypothesis["coverage"])
        assert call("ranking.js", "score", hypothesis, search) == pytest.approx(expected)
    ranked = [one["score"] for one in call("ranking.js", "rank", hypotheses, search)]
    assert ranked == sorted(ranked, reverse=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"top_k": 3},
        {"top_p": 0.6},
        {"min_p": 0.3},
        {"typical": 0.4},
        {"temperature": 2.0, "top_k": 9, "top_p": 0.8, "min_p": 0.1, "typical": 0.7},
    ],
)
def test_the_cut_through_a_distribution_is_that_of_the_sampling_filters(call, changes):
    filters = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical": 1.0, **changes}
    scores = (
        torch.tensor([random.Random(1).gauss(0, 2) for _ in range(17)]).log_softmax(-1).sort(descending=True).values
    )
    kept = SamplingFilter(**filters)(scores[None])[0].isfinite()
    candidates = [{"log_probability": value} for value in scores.tolist()]
    cut = call("sampling.js", "cut", candidates, {"count": 0, "probability": 0}, filters)
    assert cut["kept"] == kept.tolist()
    probabilities = (scores / filters["temperature"]).softmax(-1)
    assert cut["probabilities"] == pytest.approx(probabilities.tolist(), abs=1e-6)
    assert cut["mass"] == pytest.approx(float(probabilities[kept].sum()), abs=1e-6)


def test_attention_is_merged_to_words_and_linked_as_in_the_library(call):
    weights = np.random.default_rng(1).dirichlet(np.ones(5), 3)
    source, target = [0, 0, 1, 2, 3], [0, 1, 1]
    groups = [
        [
            {"name": str(word), "tokens": [at for at, group in enumerate(side) if group == word]}
            for word in range(max(side) + 1)
        ]
        for side in (source, target)
    ]
    merged = call("alignment.js", "merge", weights.tolist(), *groups)
    expected = merge_weights(weights, source, target)
    assert np.allclose(merged, expected)
    links = call("alignment.js", "links", merged, 3)
    assert sorted(map(tuple, links)) == links_from_weights(expected, threshold=0.15, null_column=3)


def test_tokens_are_made_visible_as_in_the_library(call):
    for token in ("", "a b", "\n", "\u00a0x", "\u202e", "e\u0301", "\u0301", "a\u200db", "\u200d", "\ue000", "Ġ", "🥧"):
        assert call("labels.js", "visible", token) == visible(token), ascii(token)


def test_branches_of_a_tree_share_no_place(visitor):
    page = visitor.translate("recurrent", "a witch must open the bag of the nurse", **{"s.size": "5"})
    page.get_by_label("All cut branches").check()
    drawn = page.locator(".tree .node:not(.root) .target").evaluate_all(
        "all => all.map((one) => [one.getAttribute('x'), one.getAttribute('y')].join())"
    )
    assert len(drawn) > 30 and len(set(drawn)) == len(drawn)
    page.get_by_label("All cut branches").uncheck()
    assert page.locator(".tree .node").count() < len(drawn)


def test_differences_are_what_a_longest_common_subsequence_leaves(call):
    one, other = call("difference.js", "differences", ["a", "b", "c", "d", "e"], ["b", "x", "d", "e", "e"])
    assert (one, other) == ([True, False, True, False, False], [False, True, False, False, True])


def test_the_ticks_of_curves_are_round(call):
    def ticks(low, high):
        return call("figures/curves.js", "roundTicks", low, high)

    assert ticks(0.000461, 5.13) == [0, 2, 4, 6]
    assert ticks(6_730, 19_700) == [5_000, 10_000, 15_000, 20_000]
    assert ticks(0, 0.008) == [0, 0.002, 0.004, 0.006, 0.008]
    assert ticks(-0.3, 0.2) == [-0.3, -0.2, -0.1, 0, 0.1, 0.2]


def test_doubts_are_said_in_words(call):
    words = [
        {"text": "le", "probability": 0.99, "reasons": []},
        {"text": "chat", "probability": 0.4, "reasons": [{"name": "two-readings", "text": "chaton"}]},
        {"text": "dort", "probability": 0.004, "reasons": [{"name": "two-readings", "text": None}]},
    ]
    translation = {
        "confidence": 0.31,
        "flags": ["skipped-source", "cut"],
        "skipped_source": ["with a pie"],
        "words": words,
    }
    assert call("doubts.js", "doubtsOf", translation) == [
        "it is right with a probability of 31 % only",
        "part of the source seems to be missing: “with a pie”",
        "the output was cut off",
        "“chat”: probability 40 %; another reading: “chaton”",
        "“dort”: probability 0.4 %; another reading leaves it out",
    ]
    assert call("doubts.js", "doubtsOf", {"confidence": 0.9, "flags": [], "words": words[:1]}) == []
    many = [{**words[1], "text": str(number)} for number in range(11)]
    assert call("doubts.js", "doubtsOf", {"words": many})[-1] == "and 3 more words"


@pytest.mark.parametrize(
    "text",
    [
        "(S (NP he) (VP sleeps))",
        "(TOP (S (NP a baker ) (VP wanted (NP milk ) ) ) because (S (NP he ) (VP was (ADJP ill ) ) ) )",
    ],
)
def test_the_tree_of_an_output_is_placed_as_in_the_library(visitor, text):
    tree = read_tree(text)
    page = visitor.open("#translate")
    script = (
        "([file, text]) => import(file).then(({ parse, place }) => [parse(text), place(parse(text), (t) => t.length)])"
    )
    parsed, placed = page.evaluate(script, ["/page/figures/parse_tree.js", text])
    assert parsed == record(tree)
    widths = GAP  # the page counts in sizes of its text, the library in inches
    expected = place_nodes(tree, lambda text, is_word: len(text) * widths)
    assert [(node["text"], node["isWord"], node["row"], node["parent"]) for node in placed] == [
        (node.text, node.is_word, node.row, node.parent) for node in expected
    ]
    assert [node["x"] for node in placed] == pytest.approx([node.x / widths for node in expected])


@pytest.mark.parametrize("text", ["", "he sleeps", "(S (NP he)", "(S he) (S she)", "(S ())", "(S he))"])
def test_what_is_no_tree_has_no_panel(visitor, text):
    script = (
        "([text]) => import('/page/panels/parse_panel.js').then(({ ParsePanel }) => { const panel = new ParsePanel(); "
        "panel.update({ run: { translation: { text }, length: 3 }, steps: 3 }); return panel.element.hidden; })"
    )
    page = visitor.open("#translate")
    assert page.evaluate(script, [text]) and not page.evaluate(script, ["(S he)"])
