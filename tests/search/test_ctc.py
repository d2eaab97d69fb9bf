import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oracles import ctc as oracle
from weft.models.ctc import CTCMemory, CTCPrefixModel, joint_scores
from weft.search.ctc import best_path, collapse, label_positions, prefix_beam_search
from weft.search.exact import ExactOptions, exact_search
from weft.search.interface import SearchRequest
from weft.search.ranking import Ranking

BLANK, END = 1, 2


def random_log_p(frames: int, tokens: int, seed: int = 0, *, sharpness: float = 1.0) -> torch.Tensor:
    torch.manual_seed(seed)
    return (sharpness * torch.randn(frames, tokens, dtype=torch.float64)).log_softmax(-1)


@given(st.lists(st.integers(0, 3), max_size=9))
def test_collapse(path):
    assert tuple(collapse(path, BLANK)) == oracle.labels_of(path, BLANK)


def test_the_best_path_is_that_of_the_best_tokens():
    log_p = torch.eye(4)[[3, 3, 1, 3, 0, 0, 1]].log()
    assert best_path(log_p, BLANK) == [3, 3, 0]
    assert best_path(log_p[:0], BLANK) == []


@pytest.mark.parametrize("frames", [0, 1, 2, 5])
def test_a_wide_prefix_beam_finds_all_outputs_with_their_probabilities(frames):
    log_p = random_log_p(frames, 4)
    totals = oracle.distribution(log_p.exp().tolist(), BLANK)
    hypotheses = prefix_beam_search(log_p, beam=10_000, blank=BLANK)
    assert {tuple(hypothesis.tokens) for hypothesis in hypotheses} == set(totals)
    for hypothesis in hypotheses:
        expected = math.log(totals[tuple(hypothesis.tokens)])
        assert hypothesis.log_probability == pytest.approx(expected, abs=1e-9)
    scores = [hypothesis.log_probability for hypothesis in hypotheses]
    assert scores == sorted(scores, reverse=True)


def test_a_prefix_beam_finds_what_the_best_path_misses():
    log_p = torch.tensor([[0.4, 0.6], [0.4, 0.6]]).log()  # p(no labels) = 0.36, p(label) = 0.64
    assert best_path(log_p, 1) == []
    best, second = prefix_beam_search(log_p, beam=2, blank=1)
    assert (best.tokens, best.log_probability) == ([0], pytest.approx(math.log(0.64)))
    assert (second.tokens, second.log_probability) == ([], pytest.approx(math.log(0.36)))


@pytest.mark.parametrize("seed", range(5))
def test_a_narrow_beam_never_exceeds_the_probability_of_an_output(seed):
    log_p = random_log_p(5, 4, seed)
    totals = oracle.distribution(log_p.exp().tolist(), BLANK)
    for hypothesis in prefix_beam_search(log_p, beam=3, blank=BLANK):
        assert hypothesis.log_probability <= math.log(totals[tuple(hypothesis.tokens)]) + 1e-9


class TestPrefixModel:
    def memory(self, *rows: torch.Tensor) -> CTCMemory:
        lengths = torch.tensor([len(row) for row in rows])
        padded = torch.zeros(len(rows), int(lengths.max()), rows[0].shape[1], dtype=rows[0].dtype)
        for row, log_p in enumerate(rows):
            padded[row, : len(log_p)] = log_p
        return CTCMemory(padded, lengths)

    @pytest.mark.parametrize("prefix", [(), (3,), (3, 3), (0, 3), (3, 0, 3), (4,)])
    def test_the_next_token_has_the_probability_of_the_outputs_that_begin_so(self, prefix):
        rows = [random_log_p(5, 5, 1), random_log_p(4, 5, 2)]
        rows = [row.index_fill(1, torch.tensor([END]), -math.inf).log_softmax(-1) for row in rows]
        memory, model = self.memory(*rows), CTCPrefixModel(blank=BLANK, end=END)
        state = model.start(memory)
        logits, state, _ = model.step(torch.tensor([BLANK, BLANK]), state, memory)
        for token in prefix:
            logits, state, _ = model.step(torch.tensor([token, token]), state, memory)
        for row, log_p in enumerate(rows):
            totals = oracle.distribution(log_p.exp().tolist(), BLANK)
            if not any(labels[: len(prefix)] == prefix for labels in totals):
                assert logits[row].isneginf().all()
                continue
            labels, end = oracle.next_label(totals, prefix, 5)
            expected = [0.0 if token == BLANK else end if token == END else labels[token] for token in range(5)]
            assert torch.allclose(logits[row].exp(), torch.tensor(expected, dtype=torch.float64), atol=1e-9)
            assert logits[row].exp().sum().item() == pytest.approx(1.0)

    def test_labels_without_a_path_have_no_continuation(self):
        memory, model = self.memory(random_log_p(2, 5)), CTCPrefixModel(blank=BLANK, end=END)
        state = model.start(memory)
        for token in (BLANK, 3, 3):
            logits, state, _ = model.step(torch.tensor([token]), state, memory)
        assert logits.isneginf().all()

    def test_exact_search_finds_the_most_likely_labels(self):
        log_p = random_log_p(5, 5, 3).index_fill(1, torch.tensor([END]), -math.inf).log_softmax(-1)
        totals = oracle.distribution(log_p.exp().tolist(), BLANK)
        request = SearchRequest(memory=self.memory(log_p.float()), max_lengths=[8], begin=BLANK, end=END)
        (best, *_), *_ = exact_search(CTCPrefixModel(blank=BLANK, end=END), request, ExactOptions(Ranking("none")))
        assert tuple(best.tokens) == max(totals, key=totals.get)
        assert best.log_probability == pytest.approx(math.log(max(totals.values())), abs=1e-4)


def test_joint_scores():
    attention, ctc = torch.randn(3, 5), torch.randn(3, 5).log_softmax(-1)
    expected = 0.7 * attention.log_softmax(-1) + 0.3 * ctc
    assert torch.allclose(joint_scores(attention, ctc, 0.3), expected)
    impossible = torch.full((3, 5), -math.inf)
    assert torch.equal(joint_scores(attention, impossible, 0.0), attention.log_softmax(-1))


@pytest.mark.parametrize("labels", [[0], [3, 0], [3, 3], [0, 3, 0]])
def test_positions_of_labels(labels):
    log_p = random_log_p(5, 4)
    expected = oracle.positions(log_p.exp().tolist(), labels, BLANK)
    positions = label_positions(log_p, labels, blank=BLANK)
    for row, likelihoods in zip(positions, expected, strict=True):
        assert row == pytest.approx([value / sum(likelihoods) for value in likelihoods])


def test_labels_without_a_path_have_no_positions():
    log_p = random_log_p(3, 4)
    assert label_positions(log_p, [3, 3, 0], blank=BLANK) is None
    assert label_positions(log_p, [3, 0, 3, 0], blank=BLANK) is None
    assert label_positions(log_p, [], blank=BLANK) is None
