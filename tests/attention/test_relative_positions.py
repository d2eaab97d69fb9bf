"""Distances inside the attention: rotations, slopes and buckets."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from weft.attention.relative_positions import AlibiBias, T5Bias, rotation

FAR = [*range(-300, 301), -100_000, 100_000]


def draw(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("width", [2, 6, 10])
def test_rotation_by_the_formula(width: int) -> None:
    """The pair (2i, 2i+1) at position m as a complex number, times e^{i m θ_i}   Su et al. 2021, eq. 12 and 15."""
    positions = [0, 1, 7, 3, 500]
    values_NHD = draw(5, 3, width)
    rotated_NHD = rotation(torch.tensor(positions), width, torch.float64).rotate(values_NHD)
    for n, position in enumerate(positions):
        for head in range(3):
            for i in range(width // 2):
                angle = position / 10000 ** (2 * i / width)
                pair = complex(*values_NHD[n, head, 2 * i : 2 * i + 2].tolist())
                pair *= complex(math.cos(angle), math.sin(angle))
                found = rotated_NHD[n, head, 2 * i : 2 * i + 2].tolist()
                assert found == pytest.approx([pair.real, pair.imag], abs=1e-12)


def test_rotated_products_depend_on_the_distance_alone() -> None:
    """(R_m q)·(R_n k) = q·R_{n−m} k: wherever a query and a key stand, if they are as far apart."""
    q, k = draw(1, 1, 6), draw(1, 1, 6, seed=4)

    def product(query: int, key: int) -> float:
        one, other = (rotation(torch.tensor([position]), 6, torch.float64) for position in (query, key))
        return float((one.rotate(q) * other.rotate(k)).sum())

    for distance in (-13, -2, 0, 1, 5, 101):
        far = product(0 if distance > 0 else -distance, max(distance, 0))
        for start in (0, 3, 17, 211):
            assert product(start + 200, start + 200 + distance) == pytest.approx(far, abs=1e-10)
    assert product(3, 5) != pytest.approx(product(3, 6), abs=1e-3)
    assert product(3, 5) != pytest.approx(product(5, 3), abs=1e-3)
    assert product(7, 7) == pytest.approx(float((q * k).sum()), abs=1e-12)


def test_rotation_keeps_lengths_and_types() -> None:
    values_NHD = draw(7, 3, 10)
    rotated_NHD = rotation(torch.arange(7), 10, torch.float64).rotate(values_NHD)
    torch.testing.assert_close(rotated_NHD.norm(dim=-1), values_NHD.norm(dim=-1))
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        rotary = rotation(torch.arange(7), 10, dtype)
        assert rotary.cosines.dtype == torch.promote_types(dtype, torch.float32)
        assert rotary.rotate(values_NHD.to(dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [2**-8]),
        (2, [2**-4, 2**-8]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (16, [2 ** -(h / 2) for h in range(1, 17)]),
        (3, [2 ** (-8 / 3), 2 ** (-16 / 3), 2**-8]),
    ],
)
def test_slopes(heads: int, slopes: list[float]) -> None:
    """8 heads: 1/2 … 1/256; 16: those and the geometric means between them   Press et al. 2022, 3."""
    torch.testing.assert_close(AlibiBias(heads).slopes_H, torch.tensor(slopes))


def test_alibi_by_the_formula() -> None:
    """As figure 3 of Press et al. 2022 has it: 0 on the diagonal, −m more a step away."""
    queries_T, keys_S = [4, 0, 6], [0, 1, 2, 3, 4, 5, 6]
    distances_TS = torch.tensor(keys_S) - torch.tensor(queries_T)[:, None]
    bias_HTS = AlibiBias(2)(distances_TS)
    assert bias_HTS.shape == (2, 3, 7)
    for h, slope in enumerate([1 / 16, 1 / 256]):
        for t, query in enumerate(queries_T):
            for s, key in enumerate(keys_S):
                assert float(bias_HTS[h, t, s]) == -slope * abs(query - key)
    assert AlibiBias(2)(distances_TS.expand(5, 3, 7)).shape == (5, 2, 3, 7)


def test_alibi_learns_nothing_and_saves_nothing() -> None:
    assert not list(AlibiBias(3).parameters())
    assert not AlibiBias(3).state_dict()


def exactly(distance: int, *, bidirectional: bool, buckets: int, max_distance: int) -> int:
    """Raffel et al. 2020, 2.1, in whole numbers: no logarithm can be rounded to the wrong side."""
    first = 0
    away = max(-distance, 0)
    if bidirectional:
        buckets //= 2
        first, away = (buckets if distance > 0 else 0), abs(distance)
    exact = buckets // 2
    ranges = buckets - exact
    if away < exact:
        return first + away
    reached = [k for k in range(ranges) if away**ranges * exact**k >= max_distance**k * exact**ranges]
    return first + exact + max(reached)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (16, 64), (8, 20)])
def test_buckets_by_the_formula(buckets: int, max_distance: int, bidirectional: bool) -> None:
    module = T5Bias(3, bidirectional=bidirectional, buckets=buckets, max_distance=max_distance)
    found = module.bucket(torch.tensor(FAR)).tolist()
    assert found == [
        exactly(far, bidirectional=bidirectional, buckets=buckets, max_distance=max_distance) for far in FAR
    ]
    assert set(found) == set(range(buckets)) - ({buckets // 2} if bidirectional else set())


def test_known_buckets() -> None:
    """Each way 8 single distances, then 8–11, 12–15, 16–22, …; the last holds 91 and more (16 of 32 a way)."""
    both = T5Bias(3, bidirectional=True)
    for distance, expected in {0: 0, -1: 1, 1: 17, -7: 7, -8: 8, -11: 8, -12: 9, -16: 10, -128: 15, 9999: 31}.items():
        assert int(both.bucket(torch.tensor(distance))) == expected
    back = T5Bias(3, bidirectional=False)
    for distance, expected in {0: 0, 5: 0, -1: 1, -15: 15, -16: 16, -128: 31, -9999: 31}.items():
        assert int(back.bucket(torch.tensor(distance))) == expected


def test_bucket_biases_are_looked_up_for_every_head() -> None:
    module = T5Bias(3, bidirectional=True)
    distances_BTS = torch.tensor([[[-3, 0, 5], [40, -90, 1]]])
    bias_BHTS = module(distances_BTS)
    assert bias_BHTS.shape == (1, 3, 2, 3)
    for t in range(2):
        for s in range(3):
            row = exactly(int(distances_BTS[0, t, s]), bidirectional=True, buckets=32, max_distance=128)
            assert bias_BHTS[0, :, t, s].tolist() == module.weight_KH[row].tolist()
