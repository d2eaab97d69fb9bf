"""[tokenizer]: what a token is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from weft.recipe.base import Count, Settings, Share

Unit = Literal["bpe", "unigram", "word", "character", "byte"]


class TokenizerSettings(Settings):
    """[tokenizer]: what a token is."""

    kind: Unit = Field("bpe", description="the unit")
    target_kind: Literal["same", "bpe", "unigram", "word", "character", "byte"] = Field(
        "same", description="the target's unit, where it is another; needs joint = false"
    )
    file: str | None = Field(None, description="take this tokenizer (tokenizer.json, SentencePiece), learn none")
    target_file: str | None = Field(None, description="the target's, where it is another; needs joint = false")
    size: Count = Field(8_000, description="number of ids, marks included (bpe, unigram, word)")
    joint: bool = Field(True, description="one vocabulary for both sides")
    minimum_count: Count = Field(1, description="leave out what is seen less often (word, character)")
    normalize: Literal["none", "nfc", "nfkc"] = Field("none", description="Unicode form that all text is brought to")
    lowercase: bool = Field(False, description="all text in lower case")
    symbols: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="text that is always one token, such as <2de>"
    )
    protect: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="regular expressions: what matches is cut from its neighbors, and kept whole if frequent"
    )
    end_of_word: bool = Field(True, description="bpe, unigram: mark the end of a word with </w>; else its beginning")
    byte_level: bool = Field(False, description="bpe: over bytes, so that nothing is unknown")
    byte_fallback: bool = Field(False, description="bpe, unigram: characters never seen are cut into bytes")
    split_punctuation: bool = Field(True, description="punctuation and elided articles are words (word, bpe, unigram)")
    tags: bool = Field(False, description="character: a tag such as <ACC(PL)> is one token")
    extend: bool = Field(False, description="training.start: give ids to what the run's tokenizer does not know")
    decompose: bool = Field(False, description="character: of decomposed text (NFD), a Korean syllable as its letters")
    dropout: Share = Field(0.0, description="bpe: leave out merges with this probability in training (BPE-dropout)")
    variants: Count = Field(8, description="dropout: so many ways of cutting each pair are kept, one an epoch in turn")
    sample: Count = Field(50_000_000, description="characters to learn from; of a larger corpus, a random sample")

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
