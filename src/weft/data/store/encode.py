"""Text pairs as token ids in memory, for validation and scoring; a whole training corpus goes through `prepare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from weft.data.pairs import Pair
from weft.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from weft.data.store.token_store import PairStore
    from weft.text.copying import SentenceIds

SourceRole = Literal["text", "prompt", "none"]
"""The role of a source: a sequence of its own, closed by the end token; the beginning of the target's sequence (a
prompt); or none (a language model)."""


def encode_pairs(
    pairs: Sequence[Pair],
    tokenizers: Tokenizers,
    *,
    sources: SourceRole = "text",
    max_length: int | None = None,
    sentence_ids: SentenceIds | None = None,
) -> PairStore:
    """Pairs as token ids. With ``max_length``, pairs with an empty or longer side are left out; without, none is.

    ``sentence_ids``: of a model that copies, for what is not in the vocabularies.
    """
    from weft.data.store.token_store import PairStore, TokenStore

    reads = sources != "none"
    source_ids = tokenizers.source.encode_batch([pair.source for pair in pairs]) if reads else [[] for _ in pairs]
    target_ids = tokenizers.target.encode_batch([pair.target for pair in pairs])
    if sentence_ids is not None:
        target_ids = [
            sentence_ids.target(pair.target, ids, pair.source) for pair, ids in zip(pairs, target_ids, strict=True)
        ]
        source_ids = [sentence_ids.source(pair.source, ids) for pair, ids in zip(pairs, source_ids, strict=True)]
    kept = [
        (source, target)
        for source, target in zip(source_ids, target_ids, strict=True)
        if max_length is None or (target and (source or not reads) and max(len(source), len(target)) <= max_length)
    ]
    frame = tokenizers.frame
    return PairStore(
        TokenStore.of(frame.source(source) if sources == "text" else source for source, _ in kept),
        TokenStore.of(frame.target(target) for _, target in kept),
    )
