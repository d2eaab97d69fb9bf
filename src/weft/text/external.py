"""Tokenizers that others made: a `tokenizer.json` of any model, or a SentencePiece model.

They encode with their own library. Only the ids are changed: unknown, begin and end get weft's 0, 1 and 2, and all
others follow in their own order; ``theirs`` keeps, for every id here, the one there (None: they have no such mark).

**Marks.** The unknown is the model's own. Begin and end are what the file's post-processor puts around a text or, where
it has none, tokens of the usual names (``<s>``, ``[CLS]``, ...; ``</s>``, ``[SEP]``, ``<|endoftext|>``, ...). One token
that is both is the end. No marks are added to a text, and text spelled like one never becomes it: such a text is read
without the file's special tokens, and what is a mark even then becomes unknown. Other special tokens (``<pad>``,
``<extra_id_0>``) are found in text as their library finds them, and are decoded to their spelling.

**Text.** `decode` is their library's, with ``⁇`` for the unknown; whether it gives the text back is up to the file
(BERT's does not). A piece's place is what the text grows by with it, spaces at its edges left out.

**File.** `save` writes one JSON file that holds the whole tokenizer: nothing else is needed to load it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray

from weft.errors import VocabularyError
from weft.files import save_text
from weft.text.pretokenization import byte_alphabet
from weft.text.specials import BEGIN, END, SPECIALS, UNKNOWN, UNKNOWN_TEXT, visible
from weft.text.vocabulary import check_ids, check_text
from weft.text.word_cache import Arrays, end_to_end, rows

FORMAT = 1
BEGIN_NAMES = ("<s>", "<bos>", "[BOS]", "[CLS]", "<|begin_of_text|>", "<|startoftext|>")
END_NAMES = ("</s>", "<eos>", "[EOS]", "[SEP]", "<|end_of_text|>", "<|endoftext|>")


class _Engine(Protocol):
    """A library with a tokenizer loaded, with its own ids."""

    source: str

    def ids(self) -> list[int]: ...
    def marks(self) -> tuple[int | None, int | None, int | None]: ...
    def encode(self, texts: list[str]) -> list[list[int]]: ...
    def decode(self, ids: list[int]) -> str: ...
    def shown(self, id: int) -> str: ...
    def content(self) -> str: ...


class ExternalTokenizer:
    """Another's tokenizer with weft's marks."""

    kind = "foreign"
    can_drop = False

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self.source = engine.source
        marks = engine.marks()
        others = [id for id in sorted(engine.ids()) if id not in marks]
        self.theirs: tuple[int | None, ...] = (*marks, *others)

    @property
    def size(self) -> int:
        return len(self.theirs)

    @cached_property
    def _ours(self) -> NDArray[np.int32]:
        """The id here of every id there; a begin or end read in text is unknown."""
        table = np.full(max((id for id in self.theirs if id is not None), default=0) + 1, UNKNOWN, np.int32)
        for here, there in enumerate(self.theirs):
            if there is not None and here not in (BEGIN, END):
                table[there] = here
        return table

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return rows(self.encode_arrays(texts))

    def encode_arrays(self, texts: Sequence[str]) -> Arrays:
        """The ids of all texts end to end, and how many each has."""
        for text in texts:
            check_text(text)
        ids, lengths = end_to_end(self._engine.encode(list(texts)))
        return self._ours[ids], lengths

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        parts: list[str] = []
        run: list[int] = []
        for id in ids:
            there = self.theirs[id]
            if id == UNKNOWN and there is None:
                parts += [self._engine.decode(run), UNKNOWN_TEXT]
                run = []
            elif id not in (BEGIN, END) and there is not None:
                run.append(there)
        return "".join([*parts, self._engine.decode(run) if run else ""])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id <= END else visible(self._engine.shown(self._there(id))) or "␣" for id in ids]

    def _there(self, id: int) -> int:
        there = self.theirs[id]
        assert there is not None  # only marks are missing
        return there

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        text = self.decode(ids)
        spans: list[tuple[int, int]] = []
        before = 0
        for place, id in enumerate(ids):
            last = place + 1 == len(ids)
            end = before
            if id not in (BEGIN, END):
                end = len(text) if last else max(before, _shared(self.decode(ids[: place + 1]), text))
            grown = text[before:end]
            start = before + len(grown) - len(grown.lstrip(" "))
            spans.append((start, start + len(grown.strip(" "))))
            before = end
        return spans

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        raise VocabularyError(f"a tokenizer of {self.source} that weft did not learn cannot be extended")

    def save(self, path: Path) -> None:
        found = {"weft_tokenizer": FORMAT, "kind": self.kind, "source": self.source, "ids": self.theirs}
        save_text(path, json.dumps({**found, "content": self._engine.content()}, ensure_ascii=False))

    def description(self) -> list[str]:
        """What a person may want to know, a line each."""
        marks = zip(SPECIALS, self.theirs[: len(SPECIALS)], strict=True)
        named = [f"{mark} {'none' if id is None else self._engine.shown(id)}" for mark, id in marks]
        return [f"made with {self.source}; normalization: its own", f"marks: {', '.join(named)}"]

    @classmethod
    def from_tokenizers(cls, content: str, *, name: str) -> Self:
        """From the text of a `tokenizer.json`."""
        try:
            return cls(_Tokenizers(content))
        except VocabularyError:
            raise
        except Exception as error:  # the library raises plain Exception
            reason = " ".join(str(error).split())
            raise VocabularyError(f"{name}: damaged, or not a tokenizer.json: {reason}") from None

    @classmethod
    def from_sentencepiece(cls, content: bytes, *, name: str) -> Self:
        """From the bytes of a SentencePiece model."""
        return cls(_SentencePiece(content, name))

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Self:
        content, source = found.get("content"), found.get("source")
        if not isinstance(content, str) or source not in (_Tokenizers.source, _SentencePiece.source):
            raise VocabularyError(f"{name}: damaged: it holds no tokenizer")
        if source == _Tokenizers.source:
            made = cls.from_tokenizers(content, name=name)
        else:
            try:
                model = base64.b64decode(content, validate=True)
            except ValueError:
                raise VocabularyError(f"{name}: damaged: its SentencePiece model is not base64") from None
            made = cls.from_sentencepiece(model, name=name)
        if list(made.theirs) != found.get("ids"):
            raise VocabularyError(f"{name}: damaged: its table of ids is not that of its tokenizer")
        return made


class _Tokenizers:
    """A `tokenizer.json`."""

    source = "tokenizers"

    def __init__(self, content: str) -> None:
        self._library = tokenizers.Tokenizer.from_str(content)
        self._library.no_truncation()
        self._library.no_padding()
        self._vocabulary: dict[str, int] = self._library.get_vocab(with_added_tokens=True)
        self._found = json.loads(self._library.to_str())
        self._names = [str(self._library.id_to_token(id)) for id in self.marks() if id is not None]
        unknown = self.marks()[0]
        self._unknown: str | None = None if unknown is None else self._library.id_to_token(unknown)

    def content(self) -> str:
        return str(self._library.to_str())

    def ids(self) -> list[int]:
        return list(set(self._vocabulary.values()))

    def marks(self) -> tuple[int | None, int | None, int | None]:
        model = self._found["model"]
        name = model.get("unk_token")
        if model.get("unk_id") is not None:
            name = model["vocab"][model["unk_id"]][0]
        unknown = self._vocabulary.get(name)
        begin, end = None, None
        for before, after in _around_text(self._found.get("post_processor")):
            begin = self._vocabulary.get(before or "", begin)
            end = self._vocabulary.get(after or "", end)
        usual = [[self._vocabulary[one] for one in names if one in self._vocabulary] for names in _USUAL]
        begin, end = (
            next(iter(known), None) if mark is None else mark for mark, known in zip((begin, end), usual, strict=True)
        )
        if begin == end:
            begin = None
        return (None if unknown in (begin, end) else unknown), begin, end

    @cached_property
    def _literal(self) -> tokenizers.Tokenizer:
        """The same, for texts that spell a mark."""
        library = tokenizers.Tokenizer.from_str(self.content())
        library.encode_special_tokens = True
        return library

    def encode(self, texts: list[str]) -> list[list[int]]:
        found = [one.ids for one in self._library.encode_batch_fast(texts, add_special_tokens=False)]
        for place, text in enumerate(texts):
            if any(name in text for name in self._names):
                found[place] = self._literal.encode(text, add_special_tokens=False).ids
        return found

    def decode(self, ids: list[int]) -> str:
        text = str(self._library.decode(ids, skip_special_tokens=False))
        return text.replace(self._unknown, UNKNOWN_TEXT) if self._unknown and self._unknown in text else text

    def shown(self, id: int) -> str:
        token = str(self._library.id_to_token(id))
        if self._has("ByteLevel"):
            stand_ins = {character: value for value, character in enumerate(byte_alphabet())}
            if all(character in stand_ins for character in token):
                token = bytes(stand_ins[character] for character in token).decode("utf-8", errors="replace")
        prefix = self._found["model"].get("continuing_subword_prefix")
        suffix = self._found["model"].get("end_of_word_suffix")
        token = token.removeprefix(prefix or "").removesuffix(suffix or "") or token
        return (token.replace("▁", " ") if self._has("Metaspace") or "▁" in token else token).strip(" ")

    def _has(self, decoder: str) -> bool:
        found = self._found.get("decoder") or {}
        return any(one.get("type") == decoder for one in [found, *found.get("decoders", [])])


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginning."""
    if other.startswith(one):
        return len(one)
    return next(place for place, (a, b) in enumerate(zip(f"{one}\0", f"{other}\1", strict=False)) if a != b)


_USUAL = (BEGIN_NAMES, END_NAMES)


def _around_text(found: dict[str, Any] | None) -> Iterator[tuple[str | None, str | None]]:
    """What a post-processor puts before and after a text."""
    kind = (found or {}).get("type")
    if found is None or kind is None:
        return
    if kind == "Sequence":
        for one in found["processors"]:
            yield from _around_text(one)
    elif kind == "TemplateProcessing":
        names = [part["SpecialToken"]["id"] if "SpecialToken" in part else None for part in found["single"]]
        text = names.index(None) if None in names else len(names)
        yield (names[0] if text > 0 else None), (names[-1] if text + 1 < len(names) else None)
    elif "cls" in found and "sep" in found:
        yield found["cls"][0], found["sep"][0]


class _SentencePiece:
    """A SentencePiece model."""

    source = "sentencepiece"

    def __init__(self, content: bytes, name: str) -> None:
        try:
            import sentencepiece
        except ImportError:
            raise VocabularyError(
                f"{name}: a SentencePiece model needs the package: pip install sentencepiece"
            ) from None
        self._content = content
        try:
            if not content:
                raise ValueError("it is empty")
            self._library = sentencepiece.SentencePieceProcessor(model_proto=content)
        except Exception as error:  # RuntimeError, and others
            reason = " ".join(str(error).split())
            raise VocabularyError(f"{name}: not a SentencePiece model: {reason}") from None
        self._surface = str(self._library.decode([self._library.unk_id()]))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._content, "a pickle")

    def content(self) -> str:
        return base64.b64encode(self._content).decode("ascii")

    def ids(self) -> list[int]:
        return list(range(self._library.get_piece_size()))

    def marks(self) -> tuple[int | None, int | None, int | None]:
        unknown, begin, end = (
            None if id < 0 else id for id in (self._library.unk_id(), self._library.bos_id(), self._library.eos_id())
        )
        return unknown, begin, end

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [list(found) for found in self._library.encode(texts, out_type=int)] if texts else []

    def decode(self, ids: list[int]) -> str:
        text = str(self._library.decode(ids))
        if self._library.unk_id() in ids and UNKNOWN_TEXT not in (surface := self._surface.strip()):
            return text.replace(surface, UNKNOWN_TEXT) if surface else text
        return text.replace(f" {UNKNOWN_TEXT} ", UNKNOWN_TEXT) if self._library.unk_id() in ids else text

    def shown(self, id: int) -> str:
        return str(self._library.id_to_piece(id)).replace("▁", " ").strip(" ")
