"""Strategies: every name of the table, what each refuses, and what adding one takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from fixtures.search_requests import request
from fixtures.table_model import END, Table, table
from weft.errors import SearchError
from weft.models.layers import log_entmax15
from weft.recipe import SearchSettings, make_recipe
from weft.recipe.choices import STRATEGIES, resolve
from weft.search.constraints import CONSTRAINTS, NoLoops, make_constraints
from weft.search.exact import ExactOptions, exact_search
from weft.search.interface import Hypothesis, SearchRequest
from weft.search.sampling import greedy_search
from weft.translation.engines.torch import rng_key, search
from weft.translation.exact import _best_of


def run(memory: Any = None, max_lengths: Any = (5, 5), *, fields: dict[str, Any] | None = None, **settings: Any) -> Any:
    memory = table(len(max_lengths), 6, seed=4) if memory is None else memory
    chosen = SearchSettings.model_validate({"kind": "beam", **settings})
    return search(Table(), request(memory, max_lengths, **(fields or {})), chosen)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_every_strategy_returns_hypotheses(kind: str) -> None:
    assert callable(resolve(STRATEGIES, kind))
    for hypotheses in run(kind=kind, samples=3):
        assert [type(one) for one in hypotheses] == [Hypothesis]


def test_a_beam_grows_with_what_is_requested_and_with_its_groups() -> None:
    assert [len(hypotheses) for hypotheses in run(fields={"n_best": 7}, size=4, groups=2)] == [7, 7]


def test_an_exact_search_that_gives_up_returns_the_best_that_is_known() -> None:
    """Of what it and the beam have found: the beam's where one node finds less, its own where the beam finds less."""
    worse = 0
    for seed in range(6):
        memory = table(1, 7, seed=seed, spread=0.5)
        [[alone]] = exact_search(Table(), request(memory, [6]), ExactOptions(max_nodes=1))
        [[best]] = run(memory, [6], kind="exact", max_nodes=1)
        [[by_beam]] = run(memory, [6], kind="beam")
        assert not best.proven and best.score == pytest.approx(max(alone.score, by_beam.score))
        worse += alone.score < by_beam.score - 0.01
    assert worse > 2, "the beam matters"


@pytest.mark.parametrize("n_best", [1, 2, 6])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_an_exact_search_that_a_beam_spares_finds_the_same(
    monkeypatch: pytest.MonkeyPatch, sparse: bool, n_best: int
) -> None:
    """With and without equal scores, which the beam leaves to branch and bound."""
    searched: list[int] = []

    def counted(model: Any, given: SearchRequest, *rest: Any) -> Any:
        searched.append(len(given.max_lengths))
        return exact_search(model, given, *rest)

    monkeypatch.setattr("weft.search.exact.exact_search", counted)
    memory = table(40, 6, seed=7)
    memory.logits[20:] = memory.logits[20:].round()  # equal scores
    memory.logits[:, :, END] += 2
    if sparse:
        memory = memory._replace(logits=log_entmax15(memory.logits * 2))
    limits = [1 + row % 4 for row in range(40)]
    found = run(memory, limits, fields={"n_best": n_best}, kind="exact")
    alone = exact_search(Table(), request(memory, limits, n_best=n_best), ExactOptions())
    for ours, theirs in zip(found, alone, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-5)
        assert [one.gap for one in ours] == [one.gap for one in theirs]
    assert n_best == 6 or sum(searched) < 40, "the beam proves some"


def test_an_exhaustive_search_refuses_more_than_max_space() -> None:
    memory = table(1, 5, seed=2)
    assert run(memory, [3], kind="exhaustive", max_space=1000)
    with pytest.raises(SearchError, match=r"search\.max_length, or use search\.kind = 'exact'"):
        run(memory, [3], kind="exhaustive", max_space=10)


def test_an_exact_search_that_gives_up_joins_both_lists() -> None:
    memory = table(1, 7, seed=2, spread=0.5)
    [found] = run(memory, [6], fields={"n_best": 4}, kind="exact", max_nodes=9)
    [by_beam] = run(memory, [6], fields={"n_best": 4}, kind="beam")
    [alone] = exact_search(Table(), request(memory, [6], n_best=4), ExactOptions(max_nodes=9))
    scores = {tuple(one.tokens): one.score for one in [*alone, *by_beam] if one.ended == "end"}
    assert [one.score for one in found] == pytest.approx(sorted(scores.values(), reverse=True)[:4])
    assert len({tuple(one.tokens) for one in found}) == 4 and not any(one.proven for one in found)
    every = exact_search(Table(), request(memory, [6], n_best=5), ExactOptions())[0]
    for place, one in enumerate(found):
        others = [other.score for other in every if other.tokens not in [above.tokens for above in found[: place + 1]]]
        assert one.gap is not None and max(others) <= one.score + one.gap


@pytest.mark.parametrize(
    ("settings", "fields", "message"),
    [
        ({"kind": "greedy"}, {"n_best": 2}, "n_best=2: greedy search finds one output; use search.kind = 'beam' or"),
        (
            {"kind": "exact", "no_repeat_ngram": 2},
            {},
            "search.no_repeat_ngram: cannot be used with search.kind = 'exact'",
        ),
        ({"kind": "exhaustive", "min_length": 1}, {}, "search.min_length: cannot be used with search.kind = 'exhaust"),
        (
            {"kind": "exact", "min_ratio": 0.5},
            {},
            "search.min_ratio: cannot be used with search.kind = 'exact'; leave it at 0.0",
        ),
        (
            {"kind": "mbr", "samples": 3},
            {"n_best": 4},
            "--n-best 4: above search.samples = 3; raise search.samples, or",
        ),
        ({"kind": "exact"}, {"prefixes": [[3], []]}, "search.prefix: search.kind = 'exact' takes none; use beam"),
        ({"kind": "exact"}, {"return_trace": True}, "search.kind = 'exact' keeps no trace; use greedy, sample or beam"),
        ({"size": 4, "groups": 2}, {"required": [[[[3]]], []]}, "search.groups: cannot be used with search.required"),
        (
            {},
            {"required": [[[[3]]], []], "prefixes": [[3], []]},
            "required: cannot be used with a forced prefix",
        ),
        ({}, {"required": [[[[3]]], []], "return_trace": True}, "a beam with required phrases keeps no trace"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SearchError) as refused:
        run(fields=fields, **settings)
    assert message in str(refused.value)


def test_constraints_come_from_the_settings() -> None:
    values = dict(SearchSettings())
    assert values["no_loops"] is None
    assert [type(one) for one in make_constraints({**values, "banned": ()})] == [NoLoops]
    assert [type(one) for one in make_constraints({**values, "banned": (), "no_loops": True})] == [NoLoops]
    values |= {"banned": ((3,),), "no_repeat_ngram": 2, "repetition_penalty": 1.2}
    made = make_constraints(values)
    assert len(made) == len(CONSTRAINTS) and made == make_constraints(values), "the same objects"
    assert (
        make_constraints({**values, "banned": (), "no_repeat_ngram": 0, "repetition_penalty": 1.0, "no_loops": False})
        == ()
    )
    for [hypothesis] in run(fields={"banned": [[3], [4, 0]]}, kind="greedy"):
        assert 3 not in hypothesis.tokens


def shortest(model: Any, batch: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    return greedy_search(model, batch)


def test_adding_a_strategy_takes_a_function_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "shortest", f"{__name__}:shortest")
    assert make_recipe({"search": {"kind": "shortest"}}).search.kind == "shortest"
    assert run(kind="shortest") == run(kind="greedy", no_loops=False, normalization="none")


def test_adding_a_constraint_takes_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoEnd:
        window, forbids = 1, True

        def __call__(self, scores_RV, history_RW, sentences_R, *, in_place=False):
            return scores_RV.index_fill(1, torch.tensor([END]), float("-inf"))

    monkeypatch.setitem(CONSTRAINTS, "samples", lambda count: NoEnd() if count == 7 else None)
    assert [hypothesis.ended for [hypothesis] in run(kind="greedy", samples=7)] == ["length", "length"]


def test_rng_keys_depend_on_the_ids_alone() -> None:
    """On all of them and their order, not only on their number."""
    assert rng_key([3, 4]) == rng_key((3, 4)) != rng_key([34])
    sentences = [[first, second, third] for first in range(9) for second in range(9) for third in range(9)]
    assert len({rng_key(sentence) for sentence in sentences}) == len(sentences)


def test_mbr_ranks_all_samples_and_no_more() -> None:
    """Three of three samples, each text once, by their mean similarity to all."""
    fields = {"n_best": 3, "decode": lambda sentence, tokens: " ".join(map(str, tokens)), "rng_keys": [1, 2]}
    for hypotheses, samples in zip(
        run(fields=fields, kind="mbr", samples=3, utility="exact"), run(fields=fields, kind="sample"), strict=True
    ):
        counts = Counter(tuple(one.tokens) for one in samples)
        assert {tuple(one.tokens): one.score for one in hypotheses} == {
            tokens: pytest.approx(count / 3) for tokens, count in counts.items()
        }


def test_mbr_compares_all_samples_for_one_output() -> None:
    """By a majority vote among seven samples."""
    fields = {"decode": lambda sentence, tokens: " ".join(map(str, tokens)), "rng_keys": [1, 2]}
    found = run(fields=fields, kind="mbr", samples=7, utility="exact", temperature=0.5)
    samples = run(fields={**fields, "n_best": 7}, kind="sample", temperature=0.5)
    for [best], drawn in zip(found, samples, strict=True):
        counts = Counter(tuple(one.tokens) for one in drawn)
        assert best.score == pytest.approx(max(counts.values()) / 7) and counts[tuple(best.tokens)] / 7 == best.score


def test_an_output_is_not_replaced_by_a_prefix_with_its_tokens() -> None:
    """A beam may return the same tokens as an output and as a prefix that nothing can follow."""
    ended = Hypothesis([1, 3], -0.1, -0.3, [], "end", gap=0.0)
    prefix = Hypothesis([1, 3], -0.2, -0.4, [], "constraints")
    worse = Hypothesis([], -4.0, -4.0, [], "end", gap=3.9)
    assert [one.score for one in _best_of([worse], [ended, prefix])] == [-0.1, -4.0]
