"""A key–value cache of fixed capacity: the shapes of a search step stay the same from step to step.

Equal to `weft.attention.multihead.step_attention`; tests/fast/steps/test_kv_cache.py.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from weft.attention.multihead import KeysValues, StepKeysValues, step_attention
from weft.attention.normalizers import Normalizer, softmax
from weft.fast.torch_private import foreach_copy_
from weft.ragged import additive_mask

LENGTH_MULTIPLE = 32
"""A cache that begins with tokens has storage for a multiple of this many of them, so that few shapes occur."""


class KVCache(NamedTuple):
    """The keys and values of all tokens of R hypotheses, with storage for more; written in place.

    Token t of hypothesis r is stored in row ``rows_RT[r, t]`` of each layer, so that selecting hypotheses rewrites
    nothing but these indices.
    """

    layers: tuple[KeysValues, ...]
    """(R, H, T, D) each."""
    rows_RT: Tensor
    length: Tensor
    """(1,) how many tokens are stored: the position of the next one."""

    @property
    def capacity(self) -> int:
        return self.rows_RT.shape[1]

    @classmethod
    def of(cls, layers: tuple[KeysValues, ...], tokens: int, *, is_written: bool = True) -> KVCache:
        """The tokens of tensors that grow with each step, with storage for at least ``tokens`` more.

        ``is_written``: whether steps will write to it, not to a copy; if not, empty storage is one zero, expanded.
        """
        rows, heads, length, width = layers[0].keys.shape
        device = layers[0].keys.device
        capacity = -(-length // LENGTH_MULTIPLE) * LENGTH_MULTIPLE + tokens
        shape = (len(layers), 2, rows, heads, capacity, width)
        keys = layers[0].keys
        storage = keys.new_zeros(shape if length or is_written else ()).expand(shape)  # one allocation for all
        stored = tuple(KeysValues(*layer.unbind(0)) for layer in storage.unbind(0))
        if length:
            buffers = [part[:, :, :length] for layer in stored for part in layer]
            foreach_copy_(buffers, [part for layer in layers for part in layer])
        return cls(stored, _own_rows(rows, capacity, device), torch.full((1,), length, device=device))

    def select_rows(self, rows: Tensor) -> KVCache:
        return self._replace(rows_RT=self.rows_RT.index_select(0, rows))

    def keep_rows(self, rows: Tensor) -> KVCache:
        """Only the given rows, copied to new storage."""
        kept = self.select_rows(rows)
        layers = tuple(map(kept._stored, self.layers))
        return self._replace(layers=layers, rows_RT=_own_rows(len(rows), self.capacity, rows.device))

    def with_capacity(self, tokens: int, *, return_attention: bool) -> KVCache:
        """The cache with storage for ``tokens`` more tokens."""
        layers = tuple(
            KeysValues(*(functional.pad(part, (0, 0, 0, tokens)) for part in layer)) for layer in self.layers
        )
        capacity, device = self.capacity + tokens, self.rows_RT.device
        stored_T = torch.arange(capacity, device=device) < self.length
        rows_RT = functional.pad(self.rows_RT, (0, tokens))
        rows_RT = torch.where(stored_T, rows_RT, _own_rows(len(rows_RT), capacity, device))
        return self._replace(layers=layers, rows_RT=rows_RT)

    def step(
        self,
        layer: int,
        projected_RHD: Tensor,
        bias_HT: Tensor | None,
        normalize: Normalizer = softmax,
        prefix: StepKeysValues | None = None,
    ) -> Tensor:
        """Store each hypothesis's next token in a layer and attend to its history with it: outputs (R, H, D).

        ``projected_RHD``: queries, keys and values, one head after the other. ``prefix``: the tokens before the
        history.
        """
        if projected_RHD.is_cuda and normalize is softmax:
            from weft.fast.triton.step_attention import HEAD_WIDTHS, Cache, Source, cached_attention

            if projected_RHD.shape[-1] in HEAD_WIDTHS:
                cache = Cache(*self.layers[layer], self.rows_RT, self.length, bias_HT)
                heads = projected_RHD.shape[1] - 2 * cache.keys_RHTD.shape[1]
                source = None if prefix is None else Source(*prefix)
                return cached_attention(projected_RHD, heads, cache, updates_rows=layer == 0, source=source)
        return self.step_with_weights(layer, projected_RHD, bias_HT, normalize, prefix)[0]

    def step_with_weights(
        self,
        layer: int,
        projected_RHD: Tensor,
        bias_HT: Tensor | None,
        normalize: Normalizer = softmax,
        prefix: StepKeysValues | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`step` without a kernel: the outputs, and the weights (R, H, S + T) over the prefix and the cache."""
        keys_RHTD, values_RHTD = self.layers[layer]
        kv_heads = keys_RHTD.shape[1]
        heads = projected_RHD.shape[1] - 2 * kv_heads
        queries_RHD, new_keys, new_values = projected_RHD.split([heads, kv_heads, kv_heads], 1)
        keys_RHTD.index_copy_(2, self.length, new_keys[:, :, None])
        values_RHTD.index_copy_(2, self.length, new_values[:, :, None])
        if layer == 0:  # the indices are common to all layers
            own_rows_R1 = torch.arange(len(self.rows_RT), device=self.rows_RT.device)[:, None]
            self.rows_RT.index_copy_(1, self.length, own_rows_R1)
        future_T = torch.arange(self.capacity, device=self.rows_RT.device) > self.length
        mask_T = additive_mask(future_T, queries_RHD.dtype)
        bias = mask_T if bias_HT is None else bias_HT[:, None].to(mask_T.dtype) + mask_T
        history = StepKeysValues(*self._stored(self.layers[layer]), bias.view(1, -1, 1, self.capacity))
        return step_attention(queries_RHD, [history] if prefix is None else [prefix, history], normalize)

    def _stored(self, layer: KeysValues) -> KeysValues:
        """A layer's keys and values (R, H, T, D) gathered by ``rows_RT``."""
        device, heads = self.rows_RT.device, layer.keys.shape[1]
        heads_H1, positions_T = torch.arange(heads, device=device)[:, None], torch.arange(self.capacity, device=device)
        return KeysValues(*(part[self.rows_RT[:, None], heads_H1, positions_T] for part in layer))


def attention_output(queries_RHD: Tensor, source: StepKeysValues, normalize: Normalizer = softmax) -> Tensor:
    """The outputs (R, H, D) of `step_attention` over a source, without the weights: on CUDA by one kernel."""
    if queries_RHD.is_cuda and source.bias is not None and normalize is softmax:
        from weft.fast.triton.step_attention import HEAD_WIDTHS, Source, source_attention

        if queries_RHD.shape[-1] in HEAD_WIDTHS and source.bias.shape[1:3] == (1, 1):
            return source_attention(queries_RHD, Source(*source))
    return step_attention(queries_RHD, [source], normalize)[0]


def _own_rows(rows: int, capacity: int, device: torch.device) -> Tensor:
    """(R, T) every token stored in the row of its own hypothesis."""
    return torch.arange(rows, device=device)[:, None].expand(-1, capacity).contiguous()
