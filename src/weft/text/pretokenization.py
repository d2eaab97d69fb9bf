"""Pretokenization for subword tokenizers (BPE, unigram): the library's normalizer, pre-tokenizer and decoder.

A `Pretokenization` determines all three and can be recovered from a `tokenizer.json` by `recognize`; a file that no
`Pretokenization` produces is an external tokenizer.

**Words.** A text is split at every space, and each space is kept as a boundary marker on one of its neighbors: at the
end of the word before it (``end_of_word``: ``low</w>``), or at the beginning of the word after it (``▁low``). The first
and the last word get the marker too, so that a word is tokenized the same way wherever it occurs. In the file the
marker is one character: ``▁`` (U+2581), or ``Ġ`` for byte level. With ``split_punctuation`` no subword crosses a
punctuation mark or symbol, except that an apostrophe between letters belongs to the letters before it (``l'`` ``ami``).

**Symbols** (`weft.text.preprocessing`) split a text into segments, each of which gets its outer marker like a text of
its own; decoding removes the outer marker of every segment. So a space beside a symbol is a token, the marker alone:
``<2de> low`` has one token more than ``<2de>low``, and both are restored exactly.

**Protected matches** carry no marker: a space that would be marked on one is a token. To a pattern, a text has one
more space at its end (or at its beginning), which ``$`` (or ``^``) sees.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from weft.errors import VocabularyError
from weft.text.preprocessing import BYTE_TOKENS, alternatives, any_of, check_patterns, check_symbols, normalizers_of
from weft.text.specials import SPECIALS, UNKNOWN

if TYPE_CHECKING:
    from weft.text.vocabulary import LearningOptions

BOUNDARY = "▁"
BOUNDARY_REPLACEMENT = "_"
"""Replacement for a boundary marker in the text itself."""
BYTE_BOUNDARY = "Ġ"
"""The byte-level character for a space."""
SPECIAL_SPELLING = r"<(?=(?:/?s|unk|0x[0-9A-F]{2})>)"
"""The beginning of text that spells a special token or a byte token."""


@dataclass(frozen=True)
class Pretokenization:
    """Splitting of a text into words, and the tokens besides the learned ones."""

    end_of_word: bool = True
    byte_level: bool = False
    split_punctuation: bool = True
    byte_fallback: bool = False
    normalize: str = "none"
    lowercase: bool = False
    symbols: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()

    @classmethod
    def from_options(cls, options: LearningOptions) -> Pretokenization:
        """The pretokenization of a tokenizer to be learned, with its symbols and patterns checked."""
        normalizers_of(options.normalize, options.lowercase)
        for symbol in check_symbols(options.symbols) if options.byte_level else ():
            if len(symbol) == 1 or not symbol.isascii():  # its characters would stand for bytes
                raise VocabularyError(f"symbol {symbol!r}: with byte_level, expected two or more ASCII characters")
        return cls(
            end_of_word=options.end_of_word,
            byte_level=options.byte_level,
            split_punctuation=options.split_punctuation,
            byte_fallback=options.byte_fallback and not options.byte_level,  # bytes need no fallback
            normalize=options.normalize,
            lowercase=options.lowercase,
            symbols=check_symbols(options.symbols, reserved="" if options.byte_level else BOUNDARY),
            protect=check_patterns(options.protect),
        )

    @property
    def predefined(self) -> tuple[str, ...]:
        """The tokens with the first ids: special tokens, symbols, bytes."""
        return (*SPECIALS, *self.symbols, *(BYTE_TOKENS if self.byte_fallback else ()))

    def to_vocabulary(self, text: str) -> str:
        """Normalized text as written in the vocabulary."""
        if self.byte_level:
            alphabet = byte_alphabet()
            return "".join(alphabet[value] for value in text.encode())
        return text.replace(" ", BOUNDARY)


def untrained_tokenizer(scheme: Pretokenization, *, split_specials: bool) -> tokenizers.Tokenizer:
    """The library's tokenizer with an empty model.

    ``split_specials``: whether text that spells a special token is split, so that it never becomes the token.
    """
    library = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNKNOWN]))
    late = scheme.byte_level or bool(scheme.protect)  # spaces stay spaces until the text is split
    boundary = " " if late else BOUNDARY
    replacements = [] if scheme.byte_level else [normalizers.Replace(BOUNDARY, BOUNDARY_REPLACEMENT)]
    replacements += [] if late else [normalizers.Replace(" ", BOUNDARY)]
    outer: normalizers.Normalizer = normalizers.Prepend(boundary)
    if scheme.end_of_word:  # after the last character, if there is one
        outer = normalizers.Replace(Regex(r"(?<=[\s\S])\z"), boundary)
    steps = normalizers_of(scheme.normalize, scheme.lowercase)
    library.normalizer = normalizers.Sequence([*steps, *replacements, outer])
    splits: list[pre_tokenizers.PreTokenizer] = []
    if scheme.protect:
        splits.append(pre_tokenizers.Split(Regex(_protected_split(scheme)), "isolated"))
    else:
        side = "merged_with_previous" if scheme.end_of_word else "merged_with_next"
        splits.append(pre_tokenizers.Split(boundary, side))
        if scheme.split_punctuation:
            punctuation = _punctuation_split(boundary, scheme.end_of_word)
            splits.append(pre_tokenizers.Split(Regex(punctuation), "isolated"))
    if split_specials:
        splits.append(pre_tokenizers.Split(Regex(SPECIAL_SPELLING), "isolated"))
    if scheme.byte_level:
        splits.append(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False))
    elif scheme.protect:
        splits.append(pre_tokenizers.Metaspace(replacement=BOUNDARY, prepend_scheme="never", split=False))
    library.pre_tokenizer = pre_tokenizers.Sequence(splits)
    library.decoder = decoders.Sequence(_decoders(scheme))
    return library


def _decoders(scheme: Pretokenization) -> list[decoders.Decoder]:
    spaces = decoders.ByteLevel() if scheme.byte_level else decoders.Replace(BOUNDARY, " ")
    edges = "".join(f"{alternatives([symbol])}|" for symbol in sorted(scheme.symbols, key=len, reverse=True))
    # Not decoders.Strip: at the end it panics on the empty text (tokenizers 0.23).
    if not scheme.symbols:
        strip = r" \z" if scheme.end_of_word else r"\A "
    else:
        strip = rf" (?={edges}\z)" if scheme.end_of_word else rf"(?<={edges}\A) "
    fallback = [decoders.ByteFallback()] if scheme.byte_fallback else []
    return [spaces, *fallback, decoders.Fuse(), decoders.Replace(Regex(strip), "")]


def _punctuation_split(boundary: str, end_of_word: bool) -> str:
    if end_of_word:
        return rf"[^\p{{P}}\p{{S}}]+['’](?=\p{{L}})|[^\p{{P}}\p{{S}}]+{boundary}?|[\p{{P}}\p{{S}}]{boundary}?"
    return rf"{boundary}?[^\p{{P}}\p{{S}}]+['’](?=\p{{L}})|{boundary}?[^\p{{P}}\p{{S}}]+|{boundary}?[\p{{P}}\p{{S}}]"


def _protected_split(scheme: Pretokenization) -> str:
    """The split as one expression if patterns are protected: a match, or a word up to the next match.

    The patterns are written before it as a comment, for `recognize`.
    """
    protected = any_of(scheme.protect)
    free = f"(?!{protected})"
    word = rf"(?:{free}[^\p{{P}}\p{{S}} ])+" if scheme.split_punctuation else f"(?:{free}[^ ])+"
    if scheme.end_of_word:
        space = f"(?:{free} )?"
        elided = rf"{word}{free}['’](?=\p{{L}})"
        words = [elided, word + space, rf"[\p{{P}}\p{{S}}]{space}"] if scheme.split_punctuation else [word + space]
    else:
        elided = rf" ?{word}{free}['’](?=\p{{L}})"
        words = [elided, f" ?{word}", rf" ?{free}[\p{{P}}\p{{S}}]"] if scheme.split_punctuation else [f" ?{word}"]
    comment = json.dumps(scheme.protect).replace("(", r"\u0028").replace(")", r"\u0029")
    return "|".join([f"(?#protect {comment})" + protected, *words, " "])


def tokenizer_with_model(scheme: Pretokenization, model: models.Model, *, split_specials: bool) -> tokenizers.Tokenizer:
    """The library's tokenizer with a model whose first ids are the predefined tokens."""
    library = untrained_tokenizer(scheme, split_specials=split_specials)
    library.model = model
    library.add_tokens([AddedToken(symbol, normalized=False, special=False) for symbol in scheme.symbols])
    return library


def recognize(content: dict[str, Any]) -> Pretokenization | None:
    """The pretokenization of a `tokenizer.json` that weft wrote; None for any other."""
    try:
        kinds = [step["type"] for step in content["normalizer"]["normalizers"]]
        symbols = tuple(token["content"] for token in content["added_tokens"])
        splits = content["pre_tokenizer"]["pretokenizers"]
        pattern = splits[0].get("pattern", {}).get("Regex", "")
        comment = re.match(r"\(\?#protect (.*?)\)", pattern, re.DOTALL)
        protect = tuple(json.loads(comment[1])) if comment else ()
        split_specials = content["model"]["type"] == "Unigram" or bool(protect)
        base = Pretokenization(
            byte_fallback=content["model"]["byte_fallback"],
            normalize="nfc" if "NFC" in kinds else "nfkc" if "NFKC" in kinds else "none",
            lowercase="Lowercase" in kinds,
            symbols=symbols,
            protect=protect,
        )
        ids = {token: id for id, token in enumerate(base.predefined)}
        if any(token != _added_token(token["content"], ids[token["content"]]) for token in content["added_tokens"]):
            return None
        parts = ("normalizer", "pre_tokenizer", "decoder", "post_processor")
        for end_of_word, byte_level, split in product((True, False), repeat=3):
            scheme = replace(base, end_of_word=end_of_word, byte_level=byte_level, split_punctuation=split)
            expected = json.loads(untrained_tokenizer(scheme, split_specials=split_specials).to_str())
            if all(expected[part] == content[part] for part in parts):
                return scheme
    except Exception:  # another structure, or patterns the library rejects: an external file
        return None
    return None


def _added_token(content: str, id: int) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"id": id, "content": content, **flags}


@lru_cache(maxsize=1)
def byte_alphabet() -> list[str]:
    """The character for each byte: itself if printable, otherwise one from U+0100 on (GPT-2)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256))
    return [chr(value) if value in printable else chr(256 + next(others)) for value in range(256)]
