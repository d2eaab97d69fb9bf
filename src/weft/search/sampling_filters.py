"""The parts of sampling: filters of a distribution, the draw of a token, and the random numbers behind it.

Filters, in this order, each applied to what those before it kept (renormalized), p the probability of a token v:

    temperature   p ∝ exp(score / T)                           Ackley et al. 1985; above 1 flatter, below 1 sharper
    top-k         the k most likely                              Fan et al. 2018, 5.1
    top-p         the fewest, most likely first, that hold       Holtzman et al. 2020, 3.1 (nucleus)
                  at least this probability
    min-p         p ≥ min_p · max p                            Nguyen et al. 2024, 3
    typical       the fewest that hold at least this           Meister et al. 2023, 4
                  probability, those first whose surprisal is nearest to its mean: |−log p − H|, H = −Σ p log p

Ties are kept or removed together, so more than k tokens may stay: the result depends on the scores alone, not on the
order in which a device sorts. At least one token always stays.

Random numbers are a pure function: the number behind a token depends on the seed, the sentence's rng key, the number of
the sample and the step, but not on the batch, its order or the device. The probabilities it is compared with come from
the model, whose last bits do depend on the batch: where a number falls between them, that can still decide a token
(docs/decoding.md says how often, measured by benchmarks/sampling_alone.py).

Nothing here waits for the device or has a shape that depends on values: all of it can be captured in a CUDA graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from weft.errors import SearchError
from weft.search.interface import FORBIDDEN

BLOCK = 256
"""Tokens that a draw first treats as one."""


@dataclass(frozen=True)
class SamplingFilter:
    """Scores (logits or log-probabilities) to scores, with −∞ for every token that is removed."""

    temperature: float = 1.0
    top_k: int = 0
    """0: no limit."""
    top_p: float = 1.0
    """0: the most likely alone; 1: no limit."""
    min_p: float = 0.0
    """0: no limit; 1: the most likely alone."""
    typical: float = 1.0
    """0: the most typical alone; 1: no limit."""

    def __post_init__(self) -> None:
        if not torch.finfo(torch.float32).tiny <= self.temperature < math.inf:
            raise SearchError(
                f"temperature: {self.temperature}; expected a positive number (for the most likely token use greedy)"
            )
        if self.top_k < 0:
            raise SearchError(f"top_k: {self.top_k}; expected a number of tokens, or 0 for no limit")
        for name in ("top_p", "min_p", "typical"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SearchError(f"{name}: {getattr(self, name)}; expected a probability from 0 to 1")

    def _apply_temperature(self, scores_RV: Tensor) -> Tensor:
        """The temperature alone, before any filter; in float32 at least."""
        scores_RV = scores_RV.to(torch.promote_types(scores_RV.dtype, torch.float32))
        if self.temperature == 1.0:
            return scores_RV
        top_R1 = scores_RV.amax(-1, keepdim=True).clamp(min=torch.finfo(scores_RV.dtype).min)
        return (scores_RV - top_R1) / self.temperature  # the largest is 0, so that no temperature makes it overflow

    def __call__(self, scores_RV: Tensor) -> Tensor:
        scores_RV = self._apply_temperature(scores_RV)
        if 0 < self.top_k < scores_RV.shape[-1]:
            kth_R1 = scores_RV.topk(self.top_k).values[:, -1:]
            scores_RV = scores_RV.masked_fill(scores_RV < kth_R1, FORBIDDEN)
        if self.top_p < 1.0:
            removed_RV = _outside_mass(self.top_p, scores_RV.softmax(-1), -scores_RV)
            scores_RV = scores_RV.masked_fill(removed_RV, FORBIDDEN)
        if self.min_p > 0.0:
            lowest_R1 = scores_RV.amax(-1, keepdim=True) + math.log(self.min_p)
            scores_RV = scores_RV.masked_fill(scores_RV < lowest_R1, FORBIDDEN)
        if self.typical < 1.0:
            log_probs_RV = scores_RV.log_softmax(-1)
            probability_RV = log_probs_RV.exp()
            entropy_R1 = torch.special.entr(probability_RV).sum(-1, keepdim=True)
            removed_RV = _outside_mass(self.typical, probability_RV, (log_probs_RV + entropy_R1).abs())
            scores_RV = scores_RV.masked_fill(removed_RV, FORBIDDEN)
        return scores_RV


def _outside_mass(mass: float, probability_RV: Tensor, priority_RV: Tensor) -> Tensor:
    """True for all but the fewest tokens of lowest priority value that together hold the mass, and their ties."""
    sorted_RV, order_RV = priority_RV.sort(-1)
    cumulative_RV = probability_RV.gather(-1, order_RV).cumsum(-1, dtype=torch.float64)
    last_R1 = (cumulative_RV < mass).sum(-1, keepdim=True).clamp(max=cumulative_RV.shape[-1] - 1)
    return priority_RV > sorted_RV.gather(-1, last_R1)


def draw(scores_RV: Tensor, uniform_R: Tensor) -> Tensor:
    """A token a row from softmax(scores): the first whose cumulative probability exceeds the uniform number.

    Found in two steps, first the block of tokens and then the token in it, since a cumulative sum over a large
    vocabulary is slow, and in float32 would lose the last tokens. A token of probability 0 is never drawn; a row in
    which every token is forbidden gives token 0.
    """
    probability_RV = scores_RV.to(torch.promote_types(scores_RV.dtype, torch.float32)).softmax(-1)
    rows, size = probability_RV.shape
    blocks_RBW = functional.pad(probability_RV, (0, -size % BLOCK)).reshape(rows, -(-size // BLOCK), BLOCK)
    mass_RB = blocks_RBW.sum(-1)
    total_R1 = mass_RB.sum(-1, keepdim=True, dtype=torch.float64)  # 1, but for rounding
    block_R1, rest_R1 = _first_above(uniform_R[:, None] * total_R1, mass_RB)
    chosen_RW = blocks_RBW.take_along_dim(block_R1[..., None], 1).squeeze(1)
    within_R1, _ = _first_above(rest_R1, chosen_RW)
    return (block_R1 * BLOCK + within_R1)[:, 0]


def _first_above(target_R1: Tensor, mass_RN: Tensor) -> tuple[Tensor, Tensor]:
    """The first index at which the cumulative mass exceeds the target, or the last one; and what is left of the target
    before that index. An index without mass is skipped."""
    cumulative_RN = torch.where(mass_RN > 0, mass_RN.cumsum(-1, dtype=torch.float64), 0.0)
    total_R1 = cumulative_RN.amax(-1, keepdim=True)
    target_R1 = torch.minimum(target_R1, torch.nextafter(total_R1, torch.zeros_like(total_R1)))
    index_R1 = (cumulative_RN > target_R1).to(torch.int8).argmax(-1, keepdim=True)
    before_R1 = cumulative_RN.gather(-1, index_R1) - mass_RN.gather(-1, index_R1)
    return index_R1, (target_R1 - before_R1).clamp(min=0.0)


def uniforms(seed: int | Tensor, rng_keys_R: Tensor, samples_R: Tensor, step_R: Tensor) -> Tensor:
    """Numbers in [0, 1), float64, each a function of the seed, the rng key, the sample and the step alone.

    SplitMix64 (Steele, Lea & Flood 2014) as a counter-based generator: with mix its bijection of 64-bit integers and
    γ its odd constant, k = mix(mix(mix(seed + γ) + γ·(key + 1)) + γ·(sample + 1)), and the numbers of one sample are
    the top 53 bits of mix(k + γ·(step + 1)) for step = 0, 1, …: the generator's own stream that starts at k.

    All tensors are int64 of one device and broadcast. A tensor as the seed may change between replays of a CUDA graph.
    """
    if not isinstance(seed, Tensor):
        seed = torch.full_like(rng_keys_R, _signed(seed))
    stream_R = _mixed_with(_mixed_with(_mix(seed + GAMMA), rng_keys_R), samples_R)
    return _shifted(_mixed_with(stream_R, step_R), 11).to(torch.float64) * 2.0**-53


def _mixed_with(key_R: Tensor, number_R: Tensor) -> Tensor:
    return _mix(key_R + (number_R + 1) * GAMMA)


def _signed(number: int) -> int:
    """The 64-bit integer, read with a sign, that has a number's last 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


GAMMA = _signed(0x9E3779B97F4A7C15)
"""2⁶⁴ divided by the golden ratio, made odd."""


def _mix(bits: Tensor) -> Tensor:
    """SplitMix64's bijection of 64-bit integers; products wrap around."""
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, count: int) -> Tensor:
    """A shift to the right, filled with zeros; torch itself would fill with the sign."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
