"""Tokenizers of words and of characters, as the library reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers

from weft.errors import VocabularyError
from weft.interop.huggingface.vocabularies import Original
from weft.interop.word_tokenizers import characters, split_at_spaces

FILE = Path("vocab.txt")


def ids(original: Original, text: str) -> list[int]:
    return list(tokenizers.Tokenizer.from_str(original.content).encode(text).ids)


def decoded(original: Original, tokens: list[int]) -> str:
    return str(tokenizers.Tokenizer.from_str(original.content).decode(tokens))


def test_words() -> None:
    """The first of two rows of a word is its id."""
    original = split_at_spaces(FILE, ["<unk>", "</s>", "the", "king", "the"], special=["</s>", "<pad>"])
    assert ids(original, " the  king\tking queen</s>") == [2, 3, 3, 0, 1]
    assert decoded(original, [2, 3]) == "the king"
    assert original.special == {1} and original.names["the"] == 2


@pytest.mark.parametrize(("names", "text", "expected"), [
    (["<unk>", "</s>", "a", "b", "▁"], "a b", [2, 4, 3]),
    (["<unk>", "</s>", "a", "b", " "], "a b", [2, 4, 3]),
    (["<unk>", "</s>", "a", "b"], "a b", [2, 0, 3]),
])  # fmt: skip
def test_characters(names: list[str], text: str, expected: list[int]) -> None:
    original = characters(FILE, names, special=["</s>", "<pad>"])
    assert ids(original, text) == expected and original.special == {1}
    if 0 not in expected:
        assert decoded(original, expected) == text


@pytest.mark.parametrize("make", [split_at_spaces, characters])
def test_another_unknown_token(make: type[Original]) -> None:
    assert ids(make(FILE, ["a", "?"], special=[], unknown="?"), "x") == [1]  # type: ignore[call-arg, arg-type]
    with pytest.raises(VocabularyError, match=r"^vocab.txt: its vocabulary has no unknown token; expected '<unk>'$"):
        make(FILE, ["a", "?"], special=[])  # type: ignore[call-arg, arg-type]
