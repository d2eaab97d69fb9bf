"""Ids for copying: the same token in both vocabularies, and tokens that neither vocabulary has."""

from __future__ import annotations

import pytest

from weft.text.copying import SentenceIds, target_ids
from weft.text.specials import END, UNKNOWN
from weft.text.tokenizer import Tokenizer, Tokenizers, learn
from weft.text.vocabulary import LearningOptions

SOURCES, TARGETS = ["the cat , Ann sees", "the Bob ."], ["Ann , le chat voit .", "Eve"]


def tokenizer(kind: str, texts: list[str], **options: object) -> Tokenizer:
    return learn(kind, texts, LearningOptions(**options))  # type: ignore[arg-type]


def separate(kind: str = "word", **options: object) -> Tokenizers:
    return Tokenizers(tokenizer(kind, SOURCES, **options), tokenizer(kind, TARGETS, **options))


def encoded(tokenizers: Tokenizers, source: str, target: str) -> tuple[list[int], list[int]]:
    own = SentenceIds.of(tokenizers)
    assert own is not None
    return (
        own.source(source, tokenizers.source.encode(source)),
        own.target(target, tokenizers.target.encode(target), source),
    )


@pytest.mark.parametrize("kind", ["word", "character", "byte", "bpe"])
def test_one_vocabulary_maps_to_itself(kind: str) -> None:
    joint = tokenizer(kind, SOURCES, **({"size": 40} if kind == "bpe" else {}))
    assert target_ids(Tokenizers(joint, joint)) == [-1, -1, END, *range(END + 1, joint.size)]


@pytest.mark.parametrize("kind", ["word", "character", "bpe", "unigram"])
def test_the_same_token_in_two_vocabularies(kind: str) -> None:
    tokenizers = separate(kind, **({"size": 40} if kind in ("bpe", "unigram") else {}))
    source, target = tokenizers
    ids = target_ids(tokenizers)
    assert len(ids) == source.size and ids[:3] == [-1, -1, END]
    shared = [(source.tokens([id])[0], target.tokens([other])[0]) for id, other in enumerate(ids) if other > END]
    assert shared and all(one == other for one, other in shared)
    if kind == "word":
        assert {one for one, _ in shared} == {"Ann", ",", "."}


def test_tokens_that_differ_in_their_boundaries_are_not_the_same() -> None:
    """A comma that is joined to the word before it, and one that stands alone."""
    tokenizers = Tokenizers(tokenizer("word", ["a, b"]), tokenizer("word", ["a , b"]))
    ids = target_ids(tokenizers)
    by_symbol = dict(zip(tokenizers.source.tokens(range(tokenizers.source.size)), ids, strict=True))
    assert by_symbol["a"] > END and by_symbol["b"] > END and by_symbol[","] == -1


def test_ids_of_a_sentence() -> None:
    tokenizers = separate()
    vs, vt = tokenizers.source.size, tokenizers.target.size
    [eve] = tokenizers.target.encode("Eve")
    [the] = tokenizers.source.encode("the")
    [chat] = tokenizers.target.encode("chat")
    source, target = encoded(tokenizers, "Zoe the Eve Kim Zoe", "Kim chat the Mia Eve")
    assert source == [vs + vt, the, vs + eve, vs + vt + 1, vs + vt], "unknown to both, to the source, to both"
    assert target == [vt + 3, chat, vt + 1, UNKNOWN, eve], "copied; known; known to the source alone; unknown; known"


def test_known_tokens_keep_their_ids() -> None:
    tokenizers = separate()
    source, target = encoded(tokenizers, "the cat", "le chat")
    assert source == tokenizers.source.encode("the cat") and target == tokenizers.target.encode("le chat")


@pytest.mark.parametrize("kind", ["word", "character"])
@pytest.mark.parametrize("joint", [True, False])
def test_reading_gives_the_texts_back(kind: str, joint: bool) -> None:
    tokenizers = separate(kind)
    if joint:
        both = tokenizer(kind, [*SOURCES, *TARGETS])
        tokenizers = Tokenizers(both, both)
    own = SentenceIds.of(tokenizers)
    assert own is not None
    text, copied = "Zoë the, Ænne Q", "Ænne , voit Zoë"
    source, target = encoded(tokenizers, text, copied)
    reading = own.reading(text, [*source, END])
    assert reading.tokenizers.target.decode(target) == copied
    assert UNKNOWN not in target
    assert reading.tokenizers.source.decode(reading.source_ids) == text
    tokens = reading.tokenizers.target.tokens(target)
    spans = reading.tokenizers.target.spans(target)
    assert [copied[start:end] for start, end in spans] == [token.replace("␣", " ") for token in tokens]
    assert tokenizers.target.size == own.target_size, "the tokenizers themselves are as they were"


def test_sources_of_several_columns() -> None:
    """A position counts the end tokens between columns; a token of any column can be copied."""
    plain = separate()
    tokenizers = plain.with_columns(2)
    own = SentenceIds.of(tokenizers)
    assert own is not None and target_ids(tokenizers) == target_ids(plain)
    vs, vt = plain.source.size, plain.target.size
    [the] = plain.source.encode("the")
    text = "Zoe the\tKim Zoe"
    source, target = encoded(tokenizers, text, "Kim Zoe")
    assert source == [vs + vt, the, END, vs + vt + 1, vs + vt] and target == [vt + 3, vt]
    reading = own.reading(text, [*source, END])
    assert reading.tokenizers.target.decode(target) == "Kim Zoe"
    assert reading.tokenizers.source.tokens(reading.source_ids) == ["Zoe", "the", "</s>", "Kim", "Zoe", "</s>"]
    assert own.source("\t", tokenizers.source.encode("\t")) == []


def test_normalized_text_is_compared() -> None:
    tokenizers = separate(lowercase=True)
    _, target = encoded(tokenizers, "ZOE", "Zoe")
    assert target == [tokenizers.target.size]


def test_tokenizers_without_whole_unknown_tokens_have_no_such_ids() -> None:
    assert SentenceIds.of(separate("byte")) is None
    assert SentenceIds.of(separate("bpe", size=40)) is None
    word = separate()
    assert SentenceIds.of(Tokenizers(word.source, separate("bpe", size=40).target)) is None
