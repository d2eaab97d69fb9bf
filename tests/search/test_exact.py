"""Exact searches: against trying everything by hand, against each other, their budgets and their ties."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.search_requests import exact, exhaustive
from fixtures.small_networks import neural
from fixtures.table_model import BEGIN, END, Table, TableMemory, log_probability, script, table
from fixtures.table_model import exhaustive as try_all
from weft.attention.ragged_attention import alignment_weights
from weft.errors import SearchError
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.search.exact import (
    ExactOptions,
    _Level,
    _Prefixes,
    _Search,
    _Sequence,
    _SortKey,
    exact_search,
    exhaustive_search,
)
from weft.search.interface import Hypothesis, SearchRequest
from weft.search.loop import ObservedLoop, SearchState, StepLoop
from weft.search.ranking import Ranking, coverage_score
from weft.tree import select

quick = settings(deadline=None, max_examples=15)
SEEDS = st.integers(0, 10_000)
LIMITS = st.integers(1, 5)
ALPHAS = st.sampled_from([0.0, 0.6, 1.0])
RANKINGS = st.sampled_from([Ranking("none"), Ranking("power", 0.6), Ranking("power", 1.0), Ranking("gnmt", 1.3)])
SIZES = {1: 7, 2: 7, 3: 7, 4: 5, 5: 4}
"""Vocabularies that can be tried by hand, for every limit."""


def power(alpha: float) -> Ranking:
    return Ranking("power", alpha)


def tokens_of(hypotheses: list[Hypothesis]) -> list[tuple[int, ...]]:
    return [tuple(one.tokens) for one in hypotheses]


def scores_of(hypotheses: list[Hypothesis]) -> list[float]:
    return [one.score for one in hypotheses]


def by_hand(*scripts, limit: int = 9, vocabulary: int = 6, search=exact, **options):
    model = script(*scripts, vocabulary=vocabulary)
    options = {"ranking": Ranking("none"), **options}
    return search(model, model.memory(), [limit] * len(scripts), **options), model


def same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    for row, others in zip(ours, theirs, strict=True):
        assert tokens_of(row) == tokens_of(others)
        assert scores_of(row) == pytest.approx(scores_of(others), abs=1e-5)
        assert [one.ended for one in row] == [one.ended for one in others]
        assert [one.proven for one in row] == [one.proven for one in others]


# Against trying everything by hand


@pytest.mark.parametrize("search", [exhaustive, exact])
@quick
@given(seed=SEEDS, limit=LIMITS, alpha=ALPHAS, n_best=st.sampled_from([1, 3, 10]))
def test_finds_what_trying_everything_finds(search, seed: int, limit: int, alpha: float, n_best: int) -> None:
    memory = table(1, SIZES[limit], seed=seed)
    answers = [one for one in try_all(Table(), memory, vocabulary=SIZES[limit], limit=limit, length_penalty=alpha)
               if one.finished]  # fmt: skip
    [found] = search(Table(), memory, [limit], ranking=power(alpha), n_best=n_best)
    assert scores_of(found) == pytest.approx([one.score for one in answers[:n_best]], abs=1e-5)
    assert len(found) == min(n_best, len(answers))
    assert all(one.proven and one.ended == "end" for one in found)
    if len(answers) == 1 or answers[0].score - answers[1].score > 1e-4:
        assert tuple(found[0].tokens) == answers[0].tokens


@pytest.mark.parametrize("search", [exhaustive, exact])
@quick
@given(seed=SEEDS, limit=LIMITS, ranking=RANKINGS)
def test_the_scores_add_up(search, seed: int, limit: int, ranking: Ranking) -> None:
    memory = table(1, 5, seed=seed)
    [found] = search(Table(), memory, [limit], ranking=ranking, n_best=4, return_attention=True)
    for one in found:
        assert sum(one.token_scores) == one.log_probability
        assert one.log_probability == pytest.approx(log_probability(Table(), memory, [*one.tokens, END]), abs=1e-5)
        assert one.score == ranking.score(one.log_probability, len(one.tokens) + 1)
        assert len(one.token_scores) == len(one.tokens) + 1
        assert one.attention_TS is not None
        assert torch.equal(one.attention_TS, attention_of(memory, [*one.tokens, END]))


def attention_of(memory: TableMemory, tokens: list[int]) -> torch.Tensor:
    """The attention weights of these tokens, one step at a time."""
    model, rows = Table(), []
    state = model.start(memory)
    for token in [BEGIN, *tokens[:-1]]:
        _, state, attention_RS = model.step(torch.tensor([token]), state, memory)
        rows.append(attention_RS[0])
    return torch.stack(rows)


@quick
@given(seed=SEEDS, limit=st.integers(1, 4), beta=st.sampled_from([0.2, 1.0]), n_best=st.sampled_from([1, 3]))
def test_a_coverage_penalty_counts(seed: int, limit: int, beta: float, n_best: int) -> None:
    ranking = Ranking("power", 0.6, beta)
    memory = table(1, 5, seed=seed)
    scored = []
    for one in try_all(Table(), memory, vocabulary=5, limit=limit, length_penalty=0.0):
        if one.finished:
            coverage = float(coverage_score(attention_of(memory, [*one.tokens, END]).sum(0)))
            scored.append(one.log_probability / (len(one.tokens) + 1) ** 0.6 + beta * coverage)
    for search in (exhaustive, exact):
        [found] = search(Table(), memory, [limit], ranking=ranking, n_best=n_best)
        assert scores_of(found) == pytest.approx(sorted(scored, reverse=True)[:n_best], abs=1e-5)


# Against each other


@quick
@given(
    seed=SEEDS,
    limits=st.lists(LIMITS, min_size=1, max_size=4),
    ranking=RANKINGS,
    n_best=st.integers(1, 5),
    width=st.sampled_from([1, 3, 64]),
)
def test_exact_is_exhaustive(seed: int, limits: list[int], ranking: Ranking, n_best: int, width: int) -> None:
    memory = table(len(limits), 5, seed=seed)
    options = {"ranking": ranking, "n_best": n_best}
    exhaustive_model, model = Table(), Table()
    theirs = exhaustive(exhaustive_model, memory, limits, **options)
    ours = exact(model, memory, limits, width=width, **options)
    same(ours, theirs)
    assert sum(model.rows) < sum(exhaustive_model.rows) + sum(limits), "at most a greedy path more"


def test_exact_expands_far_less() -> None:
    for ranking, share in ((Ranking("none"), 0.02), (power(1.0), 0.5)):
        exhaustive_model, model = Table(), Table()
        memory = table(3, 7, seed=3, spread=4.0)
        options = {"ranking": ranking}
        same(exact(model, memory, [6] * 3, **options), exhaustive(exhaustive_model, memory, [6] * 3, **options))
        assert sum(exhaustive_model.rows) == 1 + 3 * sum(6**length for length in range(6)), (
            "one step to count the tokens"
        )
        assert sum(model.rows) < share * sum(exhaustive_model.rows)


@quick
@given(seed=SEEDS, limit=st.integers(1, 4), ranking=RANKINGS, width=st.sampled_from([1, 2, 64]))
def test_only_prefixes_that_might_win_are_expanded_once_the_best_score_is_known(seed, limit, ranking, width) -> None:
    """With the best score given, every expanded prefix has a bound above it; there is no smaller proof."""
    memory = table(1, 5, seed=seed)
    [[best]] = exact(Table(), memory, [limit], ranking=ranking)
    model = Table()
    same(exact(model, memory, [limit], ranking=ranking, known_scores=[best.score], width=width), [[best]])
    needed = 0
    for one in try_all(Table(), memory, vocabulary=5, limit=limit, length_penalty=0.0):
        if len(one.tokens) < limit:
            total = log_probability(Table(), memory, list(one.tokens))
            needed += ranking.bound(total, limit) > best.score - 1e-4
    assert sum(model.rows) <= needed


def test_company_changes_nothing() -> None:
    memory = table(4, 6, seed=11)
    limits = [3, 5, 1, 4]
    options = {"ranking": power(1.0), "n_best": 3, "return_attention": True}
    for search in (exhaustive, exact):
        together = search(Table(), memory, limits, **options)
        for row, limit in enumerate(limits):
            [alone] = search(Table(), select(memory, torch.tensor([row])), [limit], **options)
            assert tokens_of(together[row]) == tokens_of(alone)
            assert scores_of(together[row]) == scores_of(alone)


def test_exhaustive_is_the_same_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = table(2, 6, seed=5)
    options = {"ranking": power(0.6), "n_best": 7}
    whole, parts = Table(), Table()
    expected = exhaustive(whole, memory, [4, 4], **options)
    monkeypatch.setattr("weft.search.exact.CHUNK", 3)
    same(exhaustive(parts, memory, [4, 4], **options), expected)
    assert max(parts.rows) == 3 < max(whole.rows)
    assert sum(parts.rows) == sum(whole.rows)


# What is known before


@quick
@given(seed=SEEDS, n_best=st.integers(1, 4), nearness=st.sampled_from([-5.0, -0.01, 0.0, 0.5, 100.0]))
def test_a_known_score_changes_the_work_and_not_the_answer(seed: int, n_best: int, nearness: float) -> None:
    """Even where it is wrong."""
    memory = table(2, 5, seed=seed)
    options = {"ranking": power(1.0), "n_best": n_best}
    expected = exhaustive(Table(), memory, [4, 3], **options)
    start = [row[-1].score + nearness for row in expected]
    same(exact(Table(), memory, [4, 3], known_scores=start, **options), expected)
    same(exact(Table(), memory, [4, 3], known_scores=[float("-inf")] * 2, **options), expected)


# Budgets


def test_a_budget_that_is_not_enough() -> None:
    memory = table(1, 7, seed=2, spread=0.5)
    model = Table()
    [[one]] = exact(model, memory, [6], ranking=power(1.0), max_nodes=40, width=8)
    assert (one.proven, one.ended, sum(model.rows)) == (False, "end", 40)
    [[best]] = exact(Table(), memory, [6], ranking=power(1.0))
    assert best.proven
    assert one.score <= best.score


def test_more_budget_never_finds_less() -> None:
    memory = table(1, 6, seed=8, spread=1.0)
    options = {"ranking": power(1.0), "width": 4}
    found = [exact(Table(), memory, [5], max_nodes=nodes, **options)[0][0] for nodes in range(1, 700, 18)]
    assert [one.score for one in found] == sorted(one.score for one in found)
    assert [one.proven for one in found] == sorted(one.proven for one in found)
    assert (found[0].proven, found[-1].proven) == (False, True)


def test_a_budget_is_for_every_row() -> None:
    memory = table(3, 5, seed=1)
    model = Table()
    found = exact(model, memory, [5] * 3, ranking=power(1.0), max_nodes=5)
    assert [one.proven for [one] in found] == [False] * 3
    assert sum(model.rows) == 15


def test_nothing_ended_within_the_budget() -> None:
    prefixes = {(3,) * length: {3: 0.6, 4: 0.4} for length in range(9)} | {(3,) * 9: {END: 1.0}}
    [[one]], _ = by_hand(prefixes, limit=10, max_nodes=4, width=1)
    assert (tokens_of([one]), one.ended, one.proven) == ([(3,) * 4], "nodes", False)
    assert one.log_probability == pytest.approx(4 * torch.tensor(0.6).log().item())
    assert sum(one.token_scores) == one.log_probability
    assert len(one.token_scores) == 4
    assert one.attention_TS is None


@pytest.mark.parametrize("search", [exhaustive, exact])
def test_nothing_can_end(search) -> None:
    """The space is empty: the most likely prefix stands in."""
    prefixes = {(): {3: 0.4, 4: 0.6}, (3,): {3: 1.0}, (4,): {3: 0.5, 4: 0.5}}
    [[one]], _ = by_hand(prefixes, limit=2, search=search)
    assert (one.tokens, one.ended, one.proven) == ([3, 3], "length", False)
    memory = table(1, 5, seed=1)
    memory.logits[:, :, END] = float("-inf")
    [[one]] = search(Table(), memory, [3], ranking=power(1.0), return_attention=True)
    assert (len(one.tokens), one.ended, one.proven) == (3, "length", False)
    assert one.attention_TS is not None
    assert torch.equal(one.attention_TS, attention_of(memory, one.tokens))
    assert one.score == pytest.approx(one.log_probability / 3)


# The space


def test_the_limit_counts_the_end_token() -> None:
    prefixes = {(): {3: 0.9, END: 0.1}, (3,): {END: 1.0}}
    for search in (exhaustive, exact):
        assert [tokens_of(row) for row in by_hand(prefixes, limit=1, search=search)[0]] == [[()]]
        assert [tokens_of(row) for row in by_hand(prefixes, limit=2, search=search)[0]] == [[(3,)]]


@pytest.mark.parametrize("search", [exhaustive, exact])
def test_what_is_impossible_is_not_followed(search) -> None:
    prefixes = {(): {3: 0.5, 4: 0.5}, (3,): {5: 1.0}, (4,): {END: 0.5, 5: 0.5}, (3, 5): {END: 1.0}}
    [found], model = by_hand(prefixes, limit=4, search=search, n_best=9)
    assert tokens_of(found) == [(3, 5), (4,), (4, 5)]
    expanded = {prefix for seen in model.seen for prefix in seen}
    assert expanded == {(), (3,), (4,), (3, 5), (4, 5)}


@quick
@given(seed=SEEDS, limit=st.integers(1, 4), ranking=RANKINGS)
def test_tables_full_of_zeros(seed: int, limit: int, ranking: Ranking) -> None:
    memory = table(1, 5, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    gone = torch.rand(memory.logits.shape, generator=generator) < 0.5
    gone[..., 3] = False
    memory.logits.masked_fill_(gone, float("-inf"))
    options = {"ranking": ranking, "n_best": 6}
    [found] = exact(Table(), memory, [limit], **options)
    same([found], exhaustive(Table(), memory, [limit], **options))
    finite = [
        one
        for one in try_all(Table(), memory, vocabulary=5, limit=limit, length_penalty=0.0)
        if one.finished and one.log_probability > float("-inf")
    ]
    assert len(found) == max(1, min(6, len(finite)))
    assert all(one.log_probability > float("-inf") for one in found)
    assert all(one.ended == ("end" if finite else "length") for one in found)


def test_a_space_too_large_is_refused() -> None:
    model = Table()
    with pytest.raises(SearchError) as caught:
        exhaustive(model, table(2, 1201, seed=1), [2, 9], ranking=power(1.0))
    assert str(caught.value) == (
        "exhaustive search: 4.3e+24 sequences of at most 9 tokens out of 1201; at most 1,000,000 are tried; "
        "lower search.max_length, or use search.kind = 'exact'"
    )
    assert sum(model.rows) == 1
    with pytest.raises(SearchError, match="1,111 sequences of at most 4 tokens out of 11; at most 1,110 are tried"):
        exhaustive(Table(), table(1, 11, seed=1), [4], ranking=power(1.0), max_space=1110)
    exhaustive(Table(), table(1, 11, seed=1), [4], ranking=power(1.0), max_space=1111)
    with pytest.raises(SearchError, match=r"e\+1539 sequences"):
        exhaustive(Table(), table(1, 1201, seed=1), [501], ranking=power(1.0))


@pytest.mark.parametrize("option", ["n_best", "max_nodes", "width"])
def test_counts_below_one_are_refused(option: str) -> None:
    with pytest.raises(SearchError, match=f"exact search: {option} = 0; at least 1"):
        exact(Table(), table(1, 5, seed=1), [3], ranking=power(1.0), **{option: 0})


@pytest.mark.parametrize("search", [exhaustive, exact])
def test_logits_that_are_not_numbers_are_refused(search) -> None:
    memory = table(1, 5, seed=1)
    memory.logits.fill_(float("nan"))
    with pytest.raises(SearchError, match="no token any probability"):
        search(Table(), memory, [3], ranking=power(1.0))


def test_a_coverage_penalty_needs_attention() -> None:
    with pytest.raises(SearchError, match="coverage_penalty: this model has no attention"):
        by_hand({(): {END: 1.0}}, ranking=Ranking("power", 1.0, 0.2))


def test_no_rows() -> None:
    for search in (exhaustive, exact):
        assert search(Table(), table(0, 5, seed=1), [], ranking=power(1.0)) == []


# Ties


@pytest.mark.parametrize("search", [exhaustive, exact])
@pytest.mark.parametrize("width", [1, 64])
def test_equals_stand_in_a_fixed_order(search, width: int) -> None:
    """All tokens equally likely, by probability alone: the shorter first, then in dictionary order."""
    memory = TableMemory(torch.zeros(1, 31, 4), torch.zeros(1, 31, 5))
    options = {"width": width} if search is exact else {}
    [found] = search(Table(), memory, [3], ranking=Ranking("none"), n_best=7, **options)
    assert tokens_of(found) == [(), (0,), (1,), (3,), (0, 0), (0, 1), (0, 3)]
    [found] = search(Table(), memory, [3], ranking=power(1.0), n_best=4, **options)
    assert tokens_of(found) == [(), (0,), (1,), (3,)], "equal means: the higher log p first"


@pytest.mark.parametrize("search", [exhaustive, exact])
def test_the_shorter_of_equals_wins_even_where_it_is_found_later(search) -> None:
    half = {(): {3: 0.5, 4: 0.5}, (3,): {5: 1.0}, (3, 5): {END: 1.0}, (4,): {END: 1.0}}
    [found], _ = by_hand(half, search=search, n_best=2)
    assert tokens_of(found) == [(4,), (3, 5)]
    same_length = {(): {4: 0.5, 3: 0.5}, (3,): {END: 1.0}, (4,): {END: 1.0}}
    [found], _ = by_hand(same_length, search=search)
    assert tokens_of(found) == [(3,)]


# Networks


SHAPES = {
    "transformer": {"encoder": {"kind": "transformer", "layers": 2, "hidden": 8, "heads": 2, "feed_forward": 12},
                    "decoder": {"kind": "transformer", "layers": 2, "hidden": 8, "heads": 2, "feed_forward": 12}},
    "mixed": {"encoder": {"kind": "lstm", "hidden": 6},
              "decoder": {"kind": "transformer", "layers": 1, "hidden": 8, "heads": 2, "feed_forward": 12}},
}  # fmt: skip


def network(kind: str, vocabulary: int):
    if kind not in SHAPES:
        return neural(kind, vocabulary=vocabulary)
    settings = ModelSettings.model_validate({"kind": "seq2seq", "embedding": 8, "dropout": 0.0, **SHAPES[kind]})
    model = build_model(settings, source_size=11, target_size=vocabulary, seed=1).eval()
    for parameter in model.output.parameters():
        parameter.data.mul_(4)
    return model


@pytest.mark.parametrize("kind", ["after", "before", "feeding", "copying", "lm", *SHAPES])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_every_network_is_searched(kind: str, alpha: float) -> None:
    """Against `forward` over all sequences there are."""
    model = network(kind, 7)
    sources = [[], []] if kind == "lm" else [[3, 4, 5, 6, 2], [7, 2]]
    with torch.no_grad():
        memory = model.encode(Ragged.of(sources))
    options = {"ranking": power(alpha), "n_best": 3, "return_attention": True}
    exhaustive_model = exhaustive(model, memory, [4, 3], **options)
    same(exact(model, memory, [4, 3], width=5, **options), exhaustive_model)
    for source, limit, found in zip(sources, [4, 3], exhaustive_model, strict=True):
        vocabulary = 7 + (len(source) if kind == "copying" else 0)
        others = [token for token in range(vocabulary) if token != END]
        sequences = [tokens for length in range(limit) for tokens in itertools.product(others, repeat=length)]
        with torch.no_grad():
            targets = Ragged.of([[*tokens, END] for tokens in sequences])
            forward = model(Ragged.of([source] * len(sequences)), targets.shifted(BEGIN), return_attention=True)
        weights_BTS = alignment_weights(forward.attention, Ragged.of([source]).layout)
        log_N = forward.logits_NV.log_softmax(-1).gather(1, targets.values[:, None])[:, 0]
        totals = [float(part.double().sum()) for part in log_N.split(targets.lengths.tolist())]
        scores = [total / (len(tokens) + 1) ** alpha for total, tokens in zip(totals, sequences, strict=True)]
        order = sorted(range(len(sequences)), key=lambda place: -scores[place])[:3]
        assert scores_of(found) == pytest.approx([scores[place] for place in order], abs=1e-4)
        assert tokens_of(found) == [sequences[place] for place in order]
        for one, place in zip(found, order, strict=True):
            assert (weights_BTS is None) == (one.attention_TS is None)
            if weights_BTS is not None:
                expected_TS = weights_BTS[place, : len(one.token_scores)]
                width = min(expected_TS.shape[1], one.attention_TS.shape[1])
                assert torch.allclose(one.attention_TS[:, :width], expected_TS[:, :width], atol=1e-5)
                assert not one.attention_TS[:, width:].any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["feeding", "transformer"])
def test_the_same_on_a_gpu(kind: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        model = network(kind, 7).to(device)
        with torch.no_grad():
            memory = model.encode(Ragged.of([[3, 4, 5, 6, 2], [7, 2]], device))
        options = {"ranking": Ranking("power", 0.6, 0.2), "n_best": 3, "return_attention": True, "device": device}
        exhaustive_model = exhaustive(model, memory, [4, 3], **options)
        same(exact(model, memory, [4, 3], width=5, **options), exhaustive_model)
        found.append(exhaustive_model)
        model.to("cpu")
    for theirs, ours in zip(*found, strict=True):
        assert scores_of(ours) == pytest.approx(scores_of(theirs), abs=1e-3)
        assert all(one.attention_TS is not None and one.attention_TS.device.type == "cpu" for one in ours)


class Leaving:
    """An observer whose client leaves after some steps."""

    def __init__(self, *steps: int) -> None:
        self.steps = list(steps)
        self.asked: list[int] = [0 for _ in steps]

    def on_step(self, sentences, record) -> None:
        raise AssertionError("these searches show no steps")

    def is_abandoned(self, sentence: int) -> bool:
        self.asked[sentence] += 1
        return self.asked[sentence] > self.steps[sentence]


@pytest.mark.parametrize("search", [exhaustive_search, exact_search])
def test_a_search_ends_when_nobody_waits_for_it(search) -> None:
    """At the next step, for that sentence alone; also if it is one of some that were selected."""
    memory, options = table(2, 5, seed=3), ExactOptions(Ranking("none"), width=2, max_space=10**6)
    request = SearchRequest(memory=memory, begin=BEGIN, end=END, max_lengths=[5, 5])
    complete = search(Table(), request, options)
    leaving = Leaving(10**9, 2)
    observed = search(Table(), replace(request, loop=ObservedLoop(leaving)), options)
    assert tokens_of(observed[0]) == tokens_of(complete[0])
    assert leaving.asked[1] <= 2 + 3, "once more for each of the descents that follow"
    assert leaving.asked[0] > leaving.asked[1] and len(observed[1]) == 1
    loop = ObservedLoop(leaving).of_sentences([1, 0]).of_sentences([1])
    assert not loop.is_abandoned(0), "the first of all"
    assert not StepLoop().of_sentences([1]).is_abandoned(0)


@pytest.mark.parametrize(
    ("totals", "tokens", "count"),
    [
        ([-0.9, -1.0], 1, 2),
        ([-1.0, -2.0], 1, 1),  # the same score, log p and length: its ids may come first
        ([-1.0, -2.0], 2, 0),  # longer
        ([-1.1, -2.0], 1, 0),
    ],
)
def test_prefixes_that_may_win(totals: list[float], tokens: int, count: int) -> None:
    """Two prefixes of some tokens and this log p, against a sequence of one token with log p = −1."""
    request = SearchRequest(memory=table(1, 5, seed=1), begin=BEGIN, end=END, max_lengths=[4])
    search = _Search(Table(), request, Ranking("none"))
    search.best = [_Sequence(_SortKey(1.0, 1.0, 1, [4]), [-0.5, -0.5])]
    zeros = torch.zeros(1, tokens)
    state = SearchState.start(request, Table().start(request.memory), extra=_Prefixes(zeros, zeros, zeros[0], None))
    values = torch.tensor(totals, dtype=torch.float64)
    level = _Level(state, torch.zeros(2, dtype=torch.int64), torch.tensor([3, 3]), values, values)
    assert search._may_win(level) == count
    search.best = []
    assert search._may_win(level) == 2, "as long as nothing was found, all may"
