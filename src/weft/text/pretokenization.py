"""How pieces of words (BPE, unigram) see a text: the library's normalizer, cuts and decoder, as one value.

A `Pretokenization` says it all and can be read back from a `tokenizer.json` by `recognize`; a file that no form
gives is foreign.

**Words.** A text is cut at every space, and each space is kept as a mark on one of its neighbors: at the end of the
word before it (``end_of_word``: ``low</w>``), or at the beginning of the word after it (``▁low``). The first and the
last word get the mark too, so that a word has the same pieces wherever it stands. In the file the mark is one
character: ``▁`` (U+2581), or ``Ġ`` for byte level. With ``split_punctuation`` no piece crosses a punctuation mark or
symbol, except that an apostrophe between letters belongs to the letters before it (``l'`` ``ami``).

**Symbols** (`weft.text.symbols`) cut a text into stretches, each of which gets its outer mark like a text of its
own; in
decoding the outer mark of every stretch goes. So a space beside a symbol is a mark alone, a token: ``<2de> low`` has
one more than ``<2de>low``, and both come back as they were.

**Protected matches** have no mark: a space that would be marked on one is a token. To a pattern, a text has one space
more at its end (or at its beginning), which ``$`` (or ``^``) sees.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from weft.errors import VocabularyError
from weft.text import normalization as normalizing
from weft.text.specials import SPECIALS, UNKNOWN
from weft.text.symbols import BYTE_PIECES, alternatives, check_patterns, check_symbols, together

MARK = "▁"
MARK_TYPED = "_"
BYTE_MARK = "Ġ"  # stands for the space
SPELLED_MARK = r"<(?=(?:/?s|unk|0x[0-9A-F]{2})>)"  # what would begin a mark or a byte piece, were it no text


@dataclass(frozen=True)
class Pretokenization:
    """How a text becomes words, and what pieces there are beside the learned ones."""

    end_of_word: bool = True
    byte_level: bool = False
    split_punctuation: bool = True
    byte_fallback: bool = False
    normalize: str = "none"
    lowercase: bool = False
    symbols: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()

    @classmethod
    def checked(cls, **choices: Any) -> Pretokenization:
        """A form whose symbols and patterns are good; bytes need no byte pieces."""
        found = cls(**choices)
        normalizing.steps(found.normalize, found.lowercase)
        for symbol in check_symbols(found.symbols) if found.byte_level else ():
            if len(symbol) == 1 or not symbol.isascii():  # its characters would stand for bytes
                raise VocabularyError(f"symbol {symbol!r}: with byte_level, expected two or more ASCII characters")
        return replace(
            found,
            byte_fallback=found.byte_fallback and not found.byte_level,
            symbols=check_symbols(found.symbols, without="" if found.byte_level else MARK),
            protect=check_patterns(found.protect),
        )

    @property
    def first(self) -> tuple[str, ...]:
        """The spellings of the first ids: marks, symbols, byte pieces."""
        return (*SPECIALS, *self.symbols, *(BYTE_PIECES if self.byte_fallback else ()))

    def spelling(self, text: str) -> str:
        """How a piece of normalized text is written in the vocabulary."""
        if self.byte_level:
            alphabet = byte_alphabet()
            return "".join(alphabet[value] for value in text.encode())
        return text.replace(" ", MARK)


def skeleton(form: Pretokenization, *, guarded: bool) -> tokenizers.Tokenizer:
    """The library's tokenizer with an empty model. Guarded: text spelled like a mark is cut, and so never the mark."""
    library = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNKNOWN]))
    late = form.byte_level or bool(form.protect)  # spaces stay spaces until the text is cut
    mark = " " if late else MARK
    to_mark = [] if form.byte_level else [normalizers.Replace(MARK, MARK_TYPED)]
    to_mark += [] if late else [normalizers.Replace(" ", MARK)]
    at_end = normalizers.Replace(Regex(r"(?<=[\s\S])\z"), mark)  # after the last character, if there is one
    outer_mark: normalizers.Normalizer = at_end if form.end_of_word else normalizers.Prepend(mark)
    steps = normalizing.steps(form.normalize, form.lowercase)
    library.normalizer = normalizers.Sequence([*steps, *to_mark, outer_mark])
    cuts: list[pre_tokenizers.PreTokenizer] = []
    if form.protect:
        cuts.append(pre_tokenizers.Split(Regex(_cuts_around(form)), "isolated"))
    else:
        cuts.append(pre_tokenizers.Split(mark, "merged_with_previous" if form.end_of_word else "merged_with_next"))
        if form.split_punctuation:
            cuts.append(pre_tokenizers.Split(Regex(_punctuation(mark, form.end_of_word)), "isolated"))
    if guarded:
        cuts.append(pre_tokenizers.Split(Regex(SPELLED_MARK), "isolated"))
    if form.byte_level:
        cuts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False))
    elif form.protect:
        cuts.append(pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="never", split=False))
    library.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    library.decoder = decoders.Sequence(_decoding(form))
    return library


def _decoding(form: Pretokenization) -> list[decoders.Decoder]:
    spaces = decoders.ByteLevel() if form.byte_level else decoders.Replace(MARK, " ")
    edges = "".join(f"{alternatives([symbol])}|" for symbol in sorted(form.symbols, key=len, reverse=True))
    # Not decoders.Strip: at the end it panics on the empty text (tokenizers 0.23).
    if not form.symbols:
        strip = r" \z" if form.end_of_word else r"\A "
    else:
        strip = rf" (?={edges}\z)" if form.end_of_word else rf"(?<={edges}\A) "
    fallback = [decoders.ByteFallback()] if form.byte_fallback else []
    return [spaces, *fallback, decoders.Fuse(), decoders.Replace(Regex(strip), "")]


def _punctuation(mark: str, end_of_word: bool) -> str:
    if end_of_word:
        return rf"[^\p{{P}}\p{{S}}]+['’](?=\p{{L}})|[^\p{{P}}\p{{S}}]+{mark}?|[\p{{P}}\p{{S}}]{mark}?"
    return rf"{mark}?[^\p{{P}}\p{{S}}]+['’](?=\p{{L}})|{mark}?[^\p{{P}}\p{{S}}]+|{mark}?[\p{{P}}\p{{S}}]"


def _cuts_around(form: Pretokenization) -> str:
    """All cuts in one expression, where patterns are protected: a match, or a word up to the next match.

    The patterns are written before it as a comment, for `recognize`.
    """
    protected = together(form.protect)
    free = f"(?!{protected})"
    word = rf"(?:{free}[^\p{{P}}\p{{S}} ])+" if form.split_punctuation else f"(?:{free}[^ ])+"
    if form.end_of_word:
        space = f"(?:{free} )?"
        elided = rf"{word}{free}['’](?=\p{{L}})"
        words = [elided, word + space, rf"[\p{{P}}\p{{S}}]{space}"] if form.split_punctuation else [word + space]
    else:
        elided = rf" ?{word}{free}['’](?=\p{{L}})"
        words = [elided, f" ?{word}", rf" ?{free}[\p{{P}}\p{{S}}]"] if form.split_punctuation else [f" ?{word}"]
    noted = json.dumps(form.protect).replace("(", r"\u0028").replace(")", r"\u0029")
    return "|".join([f"(?#protect {noted})" + protected, *words, " "])


def with_model(form: Pretokenization, model: models.Model, *, guarded: bool) -> tokenizers.Tokenizer:
    """The library's tokenizer with a model whose first ids are those of the form."""
    library = skeleton(form, guarded=guarded)
    library.model = model
    library.add_tokens([AddedToken(symbol, normalized=False, special=False) for symbol in form.symbols])
    return library


def recognize(found: dict[str, Any]) -> Pretokenization | None:
    """The form of a `tokenizer.json` that weft wrote; None for any other."""
    try:
        kinds = [step["type"] for step in found["normalizer"]["normalizers"]]
        symbols = tuple(token["content"] for token in found["added_tokens"])
        patterns = [cut.get("pattern", {}).get("Regex", "") for cut in found["pre_tokenizer"]["pretokenizers"]]
        noted = re.match(r"\(\?#protect (.*?)\)", patterns[0], re.DOTALL)
        protect = tuple(json.loads(noted[1])) if noted else ()
        unigram = found["model"]["type"] == "Unigram"
        base = Pretokenization(
            byte_fallback=found["model"]["byte_fallback"],
            normalize="nfc" if "NFC" in kinds else "nfkc" if "NFKC" in kinds else "none",
            lowercase="Lowercase" in kinds,
            symbols=symbols,
            protect=protect,
        )
        first = {spelling: id for id, spelling in enumerate(base.first)}
        if any(token != _added(token["content"], first[token["content"]]) for token in found["added_tokens"]):
            return None
        for end_of_word, byte_level, split in product((True, False), repeat=3):
            form = replace(base, end_of_word=end_of_word, byte_level=byte_level, split_punctuation=split)
            ours = json.loads(skeleton(form, guarded=unigram or bool(protect)).to_str())
            if all(ours[part] == found[part] for part in ("normalizer", "pre_tokenizer", "decoder", "post_processor")):
                return form
    except Exception:  # not of our shape, or patterns the library refuses: another's file
        return None
    return None


def _added(content: str, id: int) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"id": id, "content": content, **flags}


@lru_cache(maxsize=1)
def byte_alphabet() -> list[str]:
    """The character that stands for each byte: itself if it can be seen, otherwise one from U+0100 on (GPT-2)."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = iter(range(256))
    return [chr(value) if value in seen else chr(256 + next(hidden)) for value in range(256)]
