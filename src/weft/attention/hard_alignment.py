"""Hard attention: distributions over which source position a_t each target token is emitted from.

    p(y | x) = Σ_a Π_t p(a_t | a_{t−1}, y_<t, x) p(y_t | a_t, y_<t, x)

    zeroth      p(a_t = j) = softmax_j e(s_t, h_j)                           Wu et al. 2018, eq. 4
    monotonic   p(a_t = j | a_{t−1} = i) ∝ exp e(s_t, h_j) for j ≥ i, else 0   Wu & Cotterell 2019, section 3.1
    first       p(a_t = i + δ | a_{t−1} = i) = softmax_δ U tanh(W [s_t; h_i] + b) for δ = 0 … w, within the source
                (Wu & Cotterell 2019, section 3.2, with a hidden layer)

e is any score of `weft.attention.scores`; a_0 is the first position. The sum over all alignments is exact, by the
forward algorithm: with the filtered distribution f_t(i) = p(a_t = i | y_≤t, x),

    w_t(j) = p(a_t = j | y_<t, x) = Σ_i f_{t−1}(i) p(a_t = j | a_{t−1} = i)
    f_t(j) ∝ w_t(j) p(y_t | a_t = j, y_<t, x)

A step takes O(S) operations, or O(S w) of first order: neither makes a matrix of S × S. All is in log space; a
probability of zero is −∞, and no gradient passes through it. To add one: write the class and add its line to
HARD_ALIGNMENTS in weft/recipe/choices.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.scores import make_score
from weft.recipe import AttentionSettings
from weft.runtime.replaceable import replaceable

Transitions = tuple[Tensor, ...]
"""The terms of p(a_t | a_{t−1}): tensors (B, T, S, …) for T steps, (R, S, …) for one."""


class AlignmentSizes(NamedTuple):
    """Widths of what an alignment model compares."""

    queries: int
    """Width of the decoder states s_t."""
    states: int
    """Width of the source states h_j."""


def logsumexp(values: Tensor, dim: int) -> Tensor:
    """`torch.logsumexp`, whose gradient is zero and not NaN where all values are −∞."""
    maximum = values.detach().amax(dim, keepdim=True)
    impossible = maximum == float("-inf")
    maximum = maximum.masked_fill(impossible, 0.0)
    total = (values - maximum).exp().sum(dim, keepdim=True).masked_fill(impossible, 1.0)
    return (total.log() + maximum).masked_fill(impossible, float("-inf")).squeeze(dim)


def first_position(like_BS: Tensor) -> Tensor:
    """(B, S) log p(a_0): all probability at the first position; with the shape, dtype and device of ``like_BS``."""
    start_BS = torch.full_like(like_BS, float("-inf"))
    start_BS[:, :1] = 0.0
    return start_BS


def condition(log_weights_RS: Tensor, log_emissions_RS: Tensor) -> Tensor:
    """log f_t(j), the distribution of a_t once y_t is known, from log w_t(j) and log p(y_t | a_t = j)."""
    joint_RS = log_weights_RS + log_emissions_RS
    return joint_RS - logsumexp(joint_RS, -1)[:, None]


class HardAlignment(nn.Module, ABC):
    """p(a_t | a_{t−1}, y_<t, x)."""

    is_stepwise = True
    """Whether a_t depends on a_{t−1}, so that it tells something about it to know the tokens so far."""

    @abstractmethod
    def project(self, states_BSD: Tensor) -> Tensor:
        """The projected source states, computed once per source."""

    @abstractmethod
    def transitions(self, queries_BTD: Tensor, keys_BSD: Tensor, masked_BS: Tensor) -> Transitions:
        """The transitions of T steps; ``masked_BS``: True at padding."""

    @abstractmethod
    def predict(self, filtered_RS: Tensor, transitions: Transitions) -> Tensor:
        """log w_t (R, S) from log f_{t−1}; −∞ at padding."""

    @replaceable
    def forward(self, transitions: Transitions, log_emissions_BTS: Tensor | None) -> Tensor:
        """log w_t (B, T, S) of all steps, given log p(y_t | a_t = j), which may be None if not `is_stepwise`."""
        assert log_emissions_BTS is not None
        weights: list[Tensor] = []
        filtered_BS = first_position(log_emissions_BTS[:, 0])
        for step, emissions_BS in zip(
            zip(*(part.unbind(1) for part in transitions), strict=True), log_emissions_BTS.unbind(1), strict=True
        ):
            weights.append(self.predict(filtered_BS, step))
            filtered_BS = condition(weights[-1], emissions_BS)
        return torch.stack(weights, 1)


class _Scored(HardAlignment):
    """Alignments by a score of decoder states and source states."""

    def __init__(self, settings: AttentionSettings, sizes: AlignmentSizes) -> None:
        super().__init__()
        self.score = make_score(
            settings.score,
            queries=sizes.queries,
            keys=sizes.states,
            size=settings.size or sizes.queries,
            temperature=settings.temperature,
        )

    def project(self, states_BSD: Tensor) -> Tensor:
        return self.score.project_keys(states_BSD)

    def scores(self, queries_BTD: Tensor, keys_BSD: Tensor) -> Tensor:
        """e_tj (B, T, S), in float32 at least."""
        scores_BTS: Tensor = self.score(queries_BTD, keys_BSD)
        return scores_BTS.to(torch.promote_types(scores_BTS.dtype, torch.float32))


class Zeroth(_Scored):
    """Every position at every step, whatever the one before   Wu et al. 2018."""

    is_stepwise = False

    def transitions(self, queries_BTD: Tensor, keys_BSD: Tensor, masked_BS: Tensor) -> Transitions:
        scores_BTS = self.scores(queries_BTD, keys_BSD).masked_fill(masked_BS[:, None], float("-inf"))
        return (scores_BTS.log_softmax(-1),)

    def predict(self, filtered_RS: Tensor, transitions: Transitions) -> Tensor:
        return transitions[0]

    def forward(self, transitions: Transitions, log_emissions_BTS: Tensor | None) -> Tensor:
        return transitions[0]


class Monotonic(_Scored):
    """Monotonic alignment: the same position again or a later one   Wu & Cotterell 2019.

    With Z_t(i) = log Σ_{j ≥ i} exp e_tj:   log w_t(j) = e_tj + log Σ_{i ≤ j} exp(log f_{t−1}(i) − Z_t(i))
    """

    def transitions(self, queries_BTD: Tensor, keys_BSD: Tensor, masked_BS: Tensor) -> Transitions:
        """e_tj, and Z_t(i)."""
        scores_BTS = self.scores(queries_BTD, keys_BSD)
        masked_BTS = masked_BS[:, None].expand_as(scores_BTS)
        # For the sums a number so low that its exponential is zero: at −∞ the gradient of a cumulative sum is NaN.
        lowest = torch.finfo(scores_BTS.dtype).min / 2
        summed_BTS = scores_BTS.masked_fill(masked_BTS, lowest)
        normalizers_BTS = summed_BTS.flip(-1).logcumsumexp(-1).flip(-1)
        return scores_BTS.masked_fill(masked_BTS, float("-inf")), normalizers_BTS

    def predict(self, filtered_RS: Tensor, transitions: Transitions) -> Tensor:
        scores_RS, normalizers_RS = transitions
        return scores_RS + (filtered_RS - normalizers_RS).logcumsumexp(-1)


class First(HardAlignment):
    """0 … w positions further, by a distribution that depends on the position before   Wu & Cotterell 2019."""

    def __init__(self, settings: AttentionSettings, sizes: AlignmentSizes) -> None:
        super().__init__()
        size = settings.size or sizes.queries
        self.query_projection = nn.Linear(sizes.queries, size)
        self.key_projection = nn.Linear(sizes.states, size, bias=False)
        self.jumps = nn.Linear(size, settings.max_jump + 1)

    def project(self, states_BSD: Tensor) -> Tensor:
        projected_BSA: Tensor = self.key_projection(states_BSD)
        return projected_BSA

    def transitions(self, queries_BTD: Tensor, keys_BSD: Tensor, masked_BS: Tensor) -> Transitions:
        """log p(a_t = i + δ | a_{t−1} = i) (B, T, S, w + 1)."""
        hidden_BTSA = torch.tanh(keys_BSD[:, None] + self.query_projection(queries_BTD)[:, :, None])
        jumps_BTSW: Tensor = self.jumps(hidden_BTSA)
        jumps_BTSW = jumps_BTSW.to(torch.promote_types(jumps_BTSW.dtype, torch.float32))
        length, width = masked_BS.shape[1], jumps_BTSW.shape[-1]
        padded_BS = functional.pad(masked_BS, (0, width - 1), value=True)
        outside_BSW = padded_BS.unfold(1, width, 1).clone()
        outside_BSW[..., 0] = False  # to stay is always possible, at padding too: else nothing is, and all is NaN
        assert outside_BSW.shape[1] == length
        return (jumps_BTSW.masked_fill(outside_BSW[:, None], float("-inf")).log_softmax(-1),)

    def predict(self, filtered_RS: Tensor, transitions: Transitions) -> Tensor:
        arriving_RSW = filtered_RS[..., None] + transitions[0]
        length = filtered_RS.shape[1]
        shifted = [
            functional.pad(arriving_RS, (jump, 0), value=float("-inf"))[:, :length]
            for jump, arriving_RS in enumerate(arriving_RSW.unbind(-1))
        ]
        return logsumexp(torch.stack(shifted, -1), -1)
