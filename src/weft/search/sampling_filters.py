"""The pieces of sampling: what is cut from a distribution, how a token is drawn, and where the chance comes from.

Cut-offs, in this order, each over what those before it left in (renormalized), p the probability of a token v:

    temperature   p ∝ exp(rating / T)                          Ackley et al. 1985; above 1 flatter, below 1 sharper
    top-k         the k most likely                              Fan et al. 2018, 5.1
    top-p         the fewest, most likely first, that hold       Holtzman et al. 2020, 3.1 (nucleus)
                  at least this probability
    min-p         p ≥ min_p · max p                            Nguyen et al. 2024, 3
    typical       the fewest that hold at least this           Meister et al. 2023, 4
                  probability, those first whose surprise is nearest to its mean: |−log p − H|, H = −Σ p log p

Equals share one fate: a cut never falls between tokens that it rates alike, so more than k may stay. What is left in
therefore depends on the ratings alone, not on the order in which a device sorts. At least one token always stays.

Chance is a pure function: the number behind a token depends on the seed, the sentence, which draw of that sentence
it is and the step, but not on the batch, its order or the device. The probabilities it is compared with come from the
model, whose last bits do depend on the company: where a number falls between them, that can still decide a token.

Nothing here waits for the device or has a shape that depends on values: all of it can be recorded in a CUDA graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from weft.errors import SearchError

IMPOSSIBLE = float("-inf")
BLOCK = 256
"""Tokens that a draw first looks at together."""


@dataclass(frozen=True)
class SamplingFilter:
    """Ratings (logits or log-probabilities) to ratings, with −∞ for every token that is cut off."""

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

    def tempered(self, ratings_RV: Tensor) -> Tensor:
        """The temperature alone, before any cut-off; in float32 at least."""
        ratings_RV = ratings_RV.to(torch.promote_types(ratings_RV.dtype, torch.float32))
        if self.temperature == 1.0:
            return ratings_RV
        top_R1 = ratings_RV.amax(-1, keepdim=True).clamp(min=torch.finfo(ratings_RV.dtype).min)
        return (ratings_RV - top_R1) / self.temperature  # the largest is 0, so that no temperature makes it overflow

    def __call__(self, ratings_RV: Tensor) -> Tensor:
        ratings_RV = self.tempered(ratings_RV)
        if 0 < self.top_k < ratings_RV.shape[-1]:
            least_R1 = ratings_RV.topk(self.top_k).values[:, -1:]
            ratings_RV = ratings_RV.masked_fill(ratings_RV < least_R1, IMPOSSIBLE)
        if self.top_p < 1.0:
            odd_RV = _beyond(self.top_p, ratings_RV.softmax(-1), -ratings_RV)
            ratings_RV = ratings_RV.masked_fill(odd_RV, IMPOSSIBLE)
        if self.min_p > 0.0:
            least_R1 = ratings_RV.amax(-1, keepdim=True) + math.log(self.min_p)
            ratings_RV = ratings_RV.masked_fill(ratings_RV < least_R1, IMPOSSIBLE)
        if self.typical < 1.0:
            log_RV = ratings_RV.log_softmax(-1)
            probability_RV = log_RV.exp()
            entropy_R1 = torch.special.entr(probability_RV).sum(-1, keepdim=True)
            odd_RV = _beyond(self.typical, probability_RV, (log_RV + entropy_R1).abs())
            ratings_RV = ratings_RV.masked_fill(odd_RV, IMPOSSIBLE)
        return ratings_RV


def _beyond(mass: float, probability_RV: Tensor, oddness_RV: Tensor) -> Tensor:
    """True for all but the fewest tokens of least oddness that together hold the mass, and their equals."""
    sorted_RV, order_RV = oddness_RV.sort(-1)
    held_RV = probability_RV.gather(-1, order_RV).cumsum(-1, dtype=torch.float64)
    last_R1 = (held_RV < mass).sum(-1, keepdim=True).clamp(max=held_RV.shape[-1] - 1)
    return oddness_RV > sorted_RV.gather(-1, last_R1)


def draw(ratings_RV: Tensor, uniform_R: Tensor) -> Tensor:
    """A token a row from softmax(ratings): the first whose cumulative probability exceeds the uniform number.

    Found in two steps, first the block of tokens and then the token in it, since a running sum over a large vocabulary
    is slow, and in float32 would lose the last tokens. A token of probability 0 is never drawn; a row in which every
    token is impossible gives token 0.
    """
    probability_RV = ratings_RV.to(torch.promote_types(ratings_RV.dtype, torch.float32)).softmax(-1)
    rows, size = probability_RV.shape
    blocks_RBW = functional.pad(probability_RV, (0, -size % BLOCK)).reshape(rows, -(-size // BLOCK), BLOCK)
    held_RB = blocks_RBW.sum(-1)
    total_R1 = held_RB.sum(-1, keepdim=True, dtype=torch.float64)  # 1, but for rounding
    block_R1, rest_R1 = _first_beyond(uniform_R[:, None] * total_R1, held_RB)
    chosen_RW = blocks_RBW.take_along_dim(block_R1[..., None], 1).squeeze(1)
    within_R1, _ = _first_beyond(rest_R1, chosen_RW)
    return (block_R1 * BLOCK + within_R1)[:, 0]


def _first_beyond(target_R1: Tensor, shares_RN: Tensor) -> tuple[Tensor, Tensor]:
    """The first place at which the running sum exceeds the target, or the last one there is; and what is left of the
    target before that place. A place whose share is 0 is passed over."""
    summed_RN = torch.where(shares_RN > 0, shares_RN.cumsum(-1, dtype=torch.float64), 0.0)
    total_R1 = summed_RN.amax(-1, keepdim=True)
    target_R1 = torch.minimum(target_R1, torch.nextafter(total_R1, torch.zeros_like(total_R1)))
    place_R1 = (summed_RN > target_R1).to(torch.int8).argmax(-1, keepdim=True)
    before_R1 = summed_RN.gather(-1, place_R1) - shares_RN.gather(-1, place_R1)
    return place_R1, (target_R1 - before_R1).clamp(min=0.0)


def uniforms(seed: int | Tensor, sentences_R: Tensor, draws_R: Tensor, step_R: Tensor) -> Tensor:
    """Numbers in [0, 1), float64, each a function of the seed, the sentence, the draw and the step alone.

    SplitMix64 (Steele, Lea & Flood 2014) as a counter-based generator: with mix its bijection of 64-bit integers and
    γ its odd constant, k = mix(mix(mix(seed + γ) + γ·(sentence + 1)) + γ·(draw + 1)), and the numbers of one draw are
    the top 53 bits of mix(k + γ·(step + 1)) for step = 0, 1, …: the generator's own stream that starts at k.

    All tensors are int64 of one device and broadcast. A tensor as the seed may change between replays of a recording.
    """
    return numbers(streams(seed, sentences_R, draws_R), step_R)


def streams(seed: int | Tensor, sentences_R: Tensor, draws_R: Tensor) -> Tensor:
    """k: the part of `uniforms` that stays the same from step to step."""
    if not isinstance(seed, Tensor):
        seed = torch.full_like(sentences_R, _signed(seed))
    return _mixed_with(_mixed_with(_mix(seed + GAMMA), sentences_R), draws_R)


def numbers(stream_R: Tensor, step_R: Tensor) -> Tensor:
    """The numbers of some streams at a step."""
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


def _shifted(bits: Tensor, places: int) -> Tensor:
    """To the right, filled up with zeros; torch itself would fill up with the sign."""
    return (bits >> places) & ((1 << (64 - places)) - 1)
