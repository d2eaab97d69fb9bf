"""[tokenizer]: what a token is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from weft.recipe.base import Count, Settings, Share
from weft.recipe.choices import TargetTokenizerKind, TokenizerKind

NonEmpty = Annotated[str, Field(min_length=1)]


class TokenizerSettings(Settings):
    """[tokenizer]: what a token is."""

    kind: TokenizerKind = Field("bpe", description="bpe, unigram, word, character or byte")
    target_kind: TargetTokenizerKind = Field(
        "same", description="kind of the target's tokenizer, if different; needs joint = false"
    )
    file: str | None = Field(
        None, description="use this tokenizer (tokenizer.json, SentencePiece) instead of learning one"
    )
    target_file: str | None = Field(None, description="the target's tokenizer, if different; needs joint = false")
    size: int = Field(
        8_000, ge=1, le=10_000_000, description="vocabulary size, special tokens included (bpe, unigram, word)"
    )
    joint: bool = Field(True, description="one vocabulary for both sides")
    minimum_count: Count = Field(1, description="drop symbols that are rarer than this (word, character)")
    normalize: Literal["none", "nfc", "nfkc"] = Field("none", description="Unicode normalization form")
    lowercase: bool = Field(False, description="lowercase all text")
    symbols: list[NonEmpty] = Field([], description="strings that are always one token, such as <2de>")
    protect: list[NonEmpty] = Field(
        [],
        description="regular expressions whose matches are never joined with their neighbors; frequent ones get an id",
    )
    end_of_word: bool = Field(True, description="bpe, unigram: mark the end of a word (</w>), not its beginning")
    byte_level: bool = Field(False, description="bpe: operate on bytes, so that nothing is unknown")
    byte_fallback: bool = Field(False, description="bpe, unigram: encode unknown characters as bytes")
    split_punctuation: bool = Field(
        True, description="word, bpe, unigram: punctuation and elided articles are words of their own"
    )
    tags: bool = Field(False, description="character: a tag such as <ACC(PL)> is one token")
    source_language: str | None = Field(
        None, description="language of the sources, for a tokenizer of an imported model that has several"
    )
    target_language: str | None = Field(
        None, description="language of the targets, for a tokenizer of an imported model that has several"
    )
    new_languages: dict[str, NonEmpty] = Field(
        {},
        description="with training.start: languages to add to an imported model, each with the language whose "
        "embedding it starts with",
    )
    extend: bool = Field(False, description="with training.start: add ids for symbols that the tokenizer does not know")
    decompose: bool = Field(
        False, description="character: decompose text (NFD), e.g. a Korean syllable into its letters"
    )
    dropout: Share = Field(0.0, description="bpe: probability of skipping a merge in training (BPE-dropout)")
    variants: int = Field(
        8, ge=1, le=1_000, description="dropout: number of tokenizations kept for each pair; epochs cycle through them"
    )
    sample: Count = Field(50_000_000, description="characters to learn from; a larger corpus is sampled at random")

    @property
    def target_unit(self) -> str:
        """The target's kind, by name."""
        return self.kind if self.target_kind == "same" else self.target_kind

    @model_validator(mode="after")
    def _agree(self) -> TokenizerSettings:
        if self.joint and self.target_unit != self.kind:
            raise ValueError(
                f"tokenizer.target_kind: {self.target_kind!r} beside tokenizer.kind = {self.kind!r} "
                "needs two vocabularies; set tokenizer.joint = false"
            )
        if self.target_file is not None and (self.joint or self.file is None):
            raise ValueError("tokenizer.target_file: needs tokenizer.file beside it and tokenizer.joint = false")
        if self.file is not None and self.target_file is None and not self.joint:
            raise ValueError("tokenizer.joint: false needs two tokenizers; set tokenizer.target_file too")
        if self.tags and "character" not in (self.kind, self.target_unit):
            raise ValueError("tokenizer.tags: only characters know tags; set tokenizer.kind = 'character'")
        if self.dropout and self.file is None and (self.kind, self.target_unit) != ("bpe", "bpe"):
            raise ValueError("tokenizer.dropout: only merges of bpe can be left out; set tokenizer.kind = 'bpe'")
        return self
