import math

import pytest
import torch
from torch.nn import functional

from oracles import ctc as oracle
from weft.ragged import Layout, Ragged
from weft.runtime.replaceable import plain_of, plain_only
from weft.training.ctc import are_alignable, ctc_loss, label_losses, log_sum_exp, without_end

BLANK = 1


def batch(frames: list[int], tokens: int, *, seed: int = 0) -> Ragged:
    torch.manual_seed(seed)
    logits = torch.randn(sum(frames), tokens, dtype=torch.float64, requires_grad=True)
    return Ragged(logits, Layout(torch.tensor(frames)))


LABELS = [[2], [], [0, 0], [2, 0, 2], [3, 3, 3], [0, 2]]
FRAMES = [5, 3, 3, 4, 5, 2]


@pytest.mark.parametrize("blank", [0, 1, 3])
def test_the_loss_equals_the_sum_over_all_paths(blank):
    ids = [token for token in range(5) if token != blank]
    labels = [[ids[label % 4] for label in row] for row in LABELS]
    logits = batch(FRAMES, 5)
    losses = plain_of(label_losses)(logits.map(lambda values: values.log_softmax(-1)), Ragged.of(labels), blank=blank)
    for row, probabilities in enumerate(logits.map(lambda values: values.softmax(-1)).split()):
        expected = oracle.distribution(probabilities.tolist(), blank)[tuple(labels[row])]
        assert losses[row].item() == pytest.approx(-math.log(expected), rel=1e-9)


def test_loss_and_gradient_equal_those_of_pytorch():
    logits, labels = batch(FRAMES, 5), Ragged.of(LABELS)
    with plain_only():
        loss = ctc_loss(logits, labels, blank=BLANK)
        (gradient,) = torch.autograd.grad(loss.total, logits.values)
    expected = functional.ctc_loss(
        logits.to_padded().log_softmax(-1).transpose(0, 1),
        labels.values,
        logits.lengths,
        labels.lengths,
        blank=BLANK,
        reduction="sum",
    )
    (expected_gradient,) = torch.autograd.grad(expected, logits.values)
    assert loss.alignable_B.all()
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-9)
    assert torch.allclose(gradient, expected_gradient, atol=1e-9)


def test_the_gradient_is_that_of_small_changes():
    logits = batch([4, 2], 3)
    labels = Ragged.of([[0, 2], [2]])

    def loss(values):
        return ctc_loss(logits.like(values), labels, blank=BLANK).total

    with plain_only():
        assert torch.autograd.gradcheck(loss, logits.values)


@pytest.mark.parametrize("plain", [True, False])
def test_rows_without_an_alignment_have_neither_loss_nor_gradient(plain):
    logits = batch([2, 2, 3, 2, 1], 5)
    labels = Ragged.of([[0, 2, 3], [3, 3], [3, 3], [0], []])
    with plain_only() if plain else torch.enable_grad():
        loss = ctc_loss(logits, labels, blank=BLANK)
        alone = ctc_loss(logits.select(torch.tensor([2, 3, 4])), labels.select(torch.tensor([2, 3, 4])), blank=BLANK)
        (gradient,) = torch.autograd.grad(loss.total, logits.values)
    assert loss.alignable_B.tolist() == [False, False, True, True, True]
    assert loss.total.item() == pytest.approx(alone.total.item(), rel=1e-9)
    assert gradient.isfinite().all()
    assert not gradient[:4].any() and gradient[4:].any(1).all()


def test_alignable_rows_are_those_with_a_path():
    frames = [1, 2, 3, 1, 0, 0]
    labels = [[4, 4], [4, 4], [4, 4], [4], [], [4]]
    alignable = are_alignable(Layout(torch.tensor(frames)), Ragged.of(labels))
    for count, row, result in zip(frames, labels, alignable.tolist(), strict=True):
        paths = oracle.distribution([[0.2] * 5] * count, BLANK)
        assert result == (tuple(row) in (paths or {(): 1.0}))


def test_no_frames():
    logits = batch([0, 3], 5)
    with plain_only():
        loss = ctc_loss(logits, Ragged.of([[], [2]]), blank=BLANK)
        alone = ctc_loss(Ragged(logits.values, Layout(torch.tensor([3]))), Ragged.of([[2]]), blank=BLANK)
    assert loss.alignable_B.all()
    assert loss.total.item() == pytest.approx(alone.total.item())


def test_a_row_does_not_depend_on_its_company():
    logits, labels = batch(FRAMES, 5), Ragged.of(LABELS)
    log_p = logits.map(lambda values: values.log_softmax(-1))
    together = plain_of(label_losses)(log_p, labels, blank=BLANK)
    for row in range(len(LABELS)):
        index = torch.tensor([row])
        alone = plain_of(label_losses)(log_p.select(index), labels.select(index), blank=BLANK)
        assert alone.item() == pytest.approx(together[row].item(), rel=1e-12)


def test_labels_are_targets_without_the_end_token():
    labels = without_end(Ragged.of([[5, 6, 2], [2], [7, 2]]))
    assert [row.tolist() for row in labels.split()] == [[5, 6], [], [7]]


def test_log_sum_exp_of_nothing_has_no_gradient():
    values = torch.tensor([[-math.inf, 0.0], [-math.inf, 0.0]], requires_grad=True)
    result = log_sum_exp(values)
    result[1].backward()
    assert result.tolist() == [-math.inf, pytest.approx(math.log(2))]
    assert values.grad.tolist() == [[0, 0.5], [0, 0.5]]
