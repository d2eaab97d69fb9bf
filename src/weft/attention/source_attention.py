"""Separate attention to each of several source columns, with combined outputs.

    c_k = Σ_{j in column k} α_kj v_kj,  α_k = normalize(scores of column k),   c = [c_1; …; c_K]   Zoph & Knight 2016
    in a Transformer  out = Σ_k W_k^O [heads over column k]       "parallel" in Libovický, Helcl & Mareček 2018, 3

The second is the first with a projection: W [c_1; …; c_K] = Σ_k W_k c_k. All columns of a source are in one sequence of
states; an attention to one of them masks the others. A source without a column k is attended to as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.attention.alignment_history import AlignmentHistory
from weft.attention.attention import Attention, ProjectedKeys
from weft.attention.initialization import initialize, initialize_projections
from weft.attention.multihead import CrossAttention, Heads, MultiHeadAttention
from weft.attention.normalizers import Normalizer, softmax
from weft.ragged import Layout, Ragged, additive_mask
from weft.recipe import TransformerSettings


def column_masks(layout: Layout, columns_N: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """(B, K, S) what is added to the scores of each column: 0 at its own states, −∞ at all others.

    ``columns_N``: the column of every state, from 0.
    """
    return mask_columns(Ragged(columns_N, layout).to_padded(), layout.masked_BS, count, dtype)


def mask_columns(columns_BS: Tensor, masked_BS: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """`column_masks` of a padded batch; ``masked_BS``: True at padding."""
    own_BKS = columns_BS[:, None] == torch.arange(count, device=columns_BS.device)[:, None]
    own_BKS = own_BKS & ~masked_BS[:, None]
    missing_BK1 = ~own_BKS.any(-1, keepdim=True)
    return additive_mask(~own_BKS & (~missing_BK1 | masked_BS[:, None]), dtype)


class SeparateKeys(NamedTuple):
    """Keys and values of every column, each over all states of a source."""

    columns: tuple[ProjectedKeys, ...]

    @property
    def mask_BS(self) -> Tensor:
        return self.columns[0].mask_BS


class SeparateAttention(nn.Module):
    """The attentions of a recurrent decoder to the columns of a source: contexts concatenated, weights averaged."""

    def __init__(self, attentions: Sequence[Attention]) -> None:
        super().__init__()
        self.attentions = cast(Sequence[Attention], nn.ModuleList(attentions))

    @property
    def is_stepwise(self) -> bool:
        return self.attentions[0].is_stepwise

    @property
    def value_projection(self) -> nn.Module:
        """The value projection of the first column; the others have the same shape."""
        return self.attentions[0].value_projection

    def project(self, states: Ragged, columns_N: Tensor | None = None) -> SeparateKeys:
        """Keys and values of a batch of sources; ``columns_N``: the column of every state."""
        assert columns_N is not None
        states_BSD = states.to_padded()
        masks_BKS = column_masks(states.layout, columns_N, len(self.attentions), states_BSD.dtype)
        pairs = zip(self.attentions, masks_BKS.unbind(1), strict=True)
        return SeparateKeys(tuple(attention.project_masked(states_BSD, mask_BS) for attention, mask_BS in pairs))

    def start(self, keys: SeparateKeys) -> AlignmentHistory | None:
        return self.attentions[0].start(keys.columns[0])

    def forward(
        self, queries_BTD: Tensor, keys: SeparateKeys, history: AlignmentHistory | None = None
    ) -> tuple[Tensor, Tensor]:
        """The contexts (B, T, K × D) and the mean of the weights (B, T, S); the history is that of the mean."""
        pairs = zip(self.attentions, keys.columns, strict=True)
        contexts, weights = zip(
            *(attention(queries_BTD, column_keys, history) for attention, column_keys in pairs), strict=True
        )
        return torch.cat(contexts, -1), torch.stack(weights).mean(0)

    def attend_ragged(self, queries: Ragged, keys: SeparateKeys) -> tuple[Ragged, Tensor]:
        """See `Attention.attend_ragged`."""
        contexts_BTD, weights_BTS = self(queries.to_padded(), keys)
        return queries.from_padded(contexts_BTD), weights_BTS


class SeparateCrossAttention(CrossAttention):
    """Cross-attention with as many heads for each column as a plain one has for all; `column_masks` restrict them."""

    def __init__(
        self, settings: TransformerSettings, *, columns: int, source_width: int, normalize: Normalizer = softmax
    ) -> None:
        width, heads = settings.hidden, Heads(settings.heads, settings.kv_heads, settings.head_width)
        MultiHeadAttention.__init__(
            self,
            heads._replace(keys_values=heads.keys_values * columns),
            dropout=settings.attention_dropout,
            normalize=normalize,
        )
        self.columns = columns
        self.query = nn.Linear(width, columns * heads.query_width)
        self.key_value = nn.Linear(source_width, 2 * columns * heads.key_width)
        self.output = nn.Linear(columns * heads.query_width, width)
        initialize(self)

    def reset_parameters(self) -> None:
        of_queries, of_keys = self.heads * self.head_width, self.kv_heads // self.columns * self.head_width
        initialize_projections(self.query, [of_queries] * self.columns)
        initialize_projections(self.key_value, [of_keys] * (2 * self.columns))
        for part in self.output.weight.data.split(of_queries, 1):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.output.bias)
