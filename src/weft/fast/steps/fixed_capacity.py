"""States whose shapes stay the same from step to step, as a search that is recorded as a CUDA graph needs them.

A state of the core grows with every token; `fixed_capacity` puts what it has stored into storage for more tokens.
`weft.fast.VERSIONS` has the steps for such states; tests/fast/steps/test_fixed_capacity.py compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from weft.fast.steps.cached_history import cached_history
from weft.fast.steps.cached_transformer import CachedState
from weft.fast.steps.cpu_transformer import LazyState
from weft.models.language_model import LanguageModelState
from weft.models.prefix_lm import PrefixState
from weft.models.transformer_decoder import TransformerState
from weft.tree import Tree


@runtime_checkable
class HasCapacity(Protocol):
    """A tree of fixed shapes, which can be given room for more tokens."""

    def with_capacity(self, tokens: int, *, return_attention: bool) -> Tree:
        """See `fixed_capacity`."""


def _cached(state: TransformerState | PrefixState, tokens: int, **options: bool) -> CachedState:
    return CachedState.of(state.layers, tokens, **options)


def _cached_lazy(state: LazyState, tokens: int, **options: bool) -> CachedState:
    return _cached(state.copied(), tokens, **options)


FIXED: dict[type, Callable[..., Tree]] = {
    TransformerState: _cached,
    LazyState: _cached_lazy,
    PrefixState: _cached,
    LanguageModelState: cached_history,
}
"""States of the core, and what makes one of fixed capacity of them: (state, tokens, and `fixed_capacity`'s options)."""


def fixed_capacity(tree: Tree, tokens: int, *, return_attention: bool, is_written: bool = True) -> Tree:
    """The tree with shapes that do not change for this many more tokens, where it can be given them.

    ``return_attention``: whether the steps to come shall return attention weights; ``is_written``: whether they write
    to this tree. If they write to a copy of it, storage of a cache without tokens takes no memory.
    """
    if type(tree) in FIXED:
        return FIXED[type(tree)](tree, tokens, return_attention=return_attention, is_written=is_written)
    if isinstance(tree, HasCapacity):
        return tree.with_capacity(tokens, return_attention=return_attention)
    if not isinstance(tree, tuple):
        return tree
    options = {"return_attention": return_attention, "is_written": is_written}
    branches = [fixed_capacity(branch, tokens, **options) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
