"""Word dropout: against a loop over tokens, what it never replaces, and what its draws depend on."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from fixtures.tokenizers import learn
from oracles import regularization as oracle
from weft.data.batching.batches import StepBatches, StoredCorpus, draw_steps
from weft.data.batching.word_dropout import SPECIAL_IDS, drop_words, protected_ids, with_word_dropout
from weft.data.store.token_store import Batch, PairStore, TokenStore
from weft.ragged import Ragged
from weft.text.tokenizer import Tokenizers

ROWS = [[3, 7, 4, 4, 2], [9, 2], [], [5, 3, 11, 0, 8, 7, 2]]
BATCH = Batch(Ragged.of(ROWS), Ragged.of([[4, 2], [3, 2], [5, 2], [3, 4, 5, 2]]))


@pytest.mark.parametrize("probability", [0.01, 0.4, 0.99])
def test_is_a_draw_for_every_token(probability: float) -> None:
    found = drop_words(BATCH, probability, np.random.default_rng(5), [0, 1, 2, 7])
    draw = np.random.default_rng(5).random
    expected = [oracle.drop_words(row, draw, probability, [0, 1, 2, 7]) for row in ROWS]
    assert [row.tolist() for row in found.source.split()] == expected
    assert found.target is BATCH.target
    assert BATCH.source.values.tolist() == [id for row in ROWS for id in row], "the corpus stays as it is"


def test_share_of_tokens() -> None:
    many = Batch(Ragged.of([[*range(3, 103)] * 100]), BATCH.target)
    ids_N = drop_words(many, 0.2, np.random.default_rng(1), SPECIAL_IDS).source.values
    assert 0.18 < (ids_N == 0).float().mean().item() < 0.22


def steps(*, seed: int = 1, rank: int = 0, world_size: int = 1, first: int = 1) -> list[StepBatches]:
    """Three steps of two batches of a corpus of two pairs, so that every epoch is like the one before."""
    pairs = PairStore(TokenStore.of([[*range(3, 40), 2]] * 2), TokenStore.of([[3, 2]] * 2))
    stream = StoredCorpus(pairs).batches(38, seed=1)
    drawn = draw_steps(stream, first_step=first, batches_per_step=2, rank=rank, world_size=world_size)
    return list(islice(with_word_dropout(drawn, 0.3, seed=seed, protected=SPECIAL_IDS), 3))


def sources(drawn: list[StepBatches]) -> list[list[list[int]]]:
    return [[batch.source.values.tolist() for batch in step.batches] for step in drawn]


def test_draws_depend_on_seed_step_and_number_alone() -> None:
    alone = sources(steps())
    assert alone == sources(steps())
    assert len({tuple(ids) for step in alone for ids in step}) == 6, "other tokens in every batch and epoch"
    assert alone != sources(steps(seed=2))
    workers = [sources(steps(rank=rank, world_size=2)) for rank in range(2)]
    assert [[*one, *other] for one, other in zip(*workers, strict=True)] == alone
    assert sources(steps(first=2))[0] == alone[1], "as after --resume"


@pytest.mark.parametrize("kind", ["word", "character", "bpe"])
@pytest.mark.parametrize("columns", [1, 2])
def test_special_tokens_and_symbols_are_protected(kind: str, columns: int) -> None:
    texts = ["<2de> a b c", "<2fr> c b a b"]
    size = {"size": 20} if kind == "bpe" else {}
    tokenizer = learn(kind, texts, symbols=["<2de>", "<2fr>"], **size)
    tokenizers = Tokenizers(tokenizer, tokenizer).with_columns(columns)
    protected = protected_ids(tokenizers, ["<2de>", "<2fr>"])
    assert protected >= {0, 1, 2, *tokenizer.encode("<2de>"), *tokenizer.encode("<2fr>")}
    assert not protected & {*tokenizer.encode("a b c")}
    assert protected_ids(tokenizers) == SPECIAL_IDS
