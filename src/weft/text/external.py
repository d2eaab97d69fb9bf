"""External tokenizers: a `tokenizer.json` of any model, or a SentencePiece model.

They encode with their own library. Only the ids change: unknown, begin and end get weft's 0, 1 and 2, and all others
follow in their own order; ``external_ids`` keeps, for every id here, the one there (None: no such special token).

**Special tokens.** The unknown token is the model's own. Begin and end are what the file's post-processor puts around a
text or, if it has none, tokens of the usual names (``<s>``, ``[CLS]``, ...; ``</s>``, ``[SEP]``, ...). A token that
is both is the end. No special tokens are added to a text, and text that spells one never becomes it: such
a text is encoded without the file's special tokens, and a special token found even then becomes unknown. Other special
tokens (``<pad>``, ``<extra_id_0>``) are found in text as their library finds them, and decode to their names.

**Text.** `decode` is the library's, with ``⁇`` for the unknown token; whether it restores the text depends on the file
(BERT's does not). The span of a token is what the text grows by with it, without spaces at its edges.

**File.** `save` writes one JSON file that contains the whole tokenizer.
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
from weft.text.vocabulary import FORMAT, check_ids, check_text
from weft.text.word_cache import TokenArrays, to_arrays, to_lists

BEGIN_NAMES = ("<s>", "<bos>", "[BOS]", "[CLS]", "<|begin_of_text|>", "<|startoftext|>")
END_NAMES = ("</s>", "<eos>", "[EOS]", "[SEP]", "<|end_of_text|>", "<|endoftext|>")


class _Engine(Protocol):
    """A tokenizer in its own library, with its own ids."""

    source: str

    def ids(self) -> list[int]: ...
    def special_ids(self) -> tuple[int | None, int | None, int | None]: ...
    def encode(self, texts: list[str]) -> list[list[int]]: ...
    def decode(self, ids: list[int]) -> str: ...
    def token(self, id: int) -> str: ...
    def content(self) -> str: ...


class ExternalTokenizer:
    """An external tokenizer with weft's ids for special tokens."""

    kind = "external"
    supports_dropout = False

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self.source = engine.source
        special = engine.special_ids()
        ordinary = [id for id in sorted(engine.ids()) if id not in special]
        self.external_ids: tuple[int | None, ...] = (*special, *ordinary)

    @property
    def size(self) -> int:
        return len(self.external_ids)

    @cached_property
    def _internal_ids(self) -> NDArray[np.int32]:
        """The id here of every external id; a begin or end token found in text is unknown."""
        largest = max((id for id in self.external_ids if id is not None), default=0)
        table = np.full(largest + 1, UNKNOWN, np.int32)
        for id, external in enumerate(self.external_ids):
            if external is not None and id not in (BEGIN, END):
                table[external] = id
        return table

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return to_lists(self.encode_arrays(texts))

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        """The ids of all texts concatenated, and the number of ids of each."""
        for text in texts:
            check_text(text)
        ids, lengths = to_arrays(self._engine.encode(list(texts)))
        return self._internal_ids[ids], lengths

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        parts: list[str] = []
        run: list[int] = []
        for id in ids:
            external = self.external_ids[id]
            if id == UNKNOWN and external is None:
                parts += [self._engine.decode(run), UNKNOWN_TEXT]
                run = []
            elif id not in (BEGIN, END) and external is not None:
                run.append(external)
        return "".join([*parts, self._engine.decode(run) if run else ""])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id <= END else visible(self._engine.token(self._external_id(id))) or "␣" for id in ids]

    def _external_id(self, id: int) -> int:
        external = self.external_ids[id]
        assert external is not None  # only special tokens can be missing
        return external

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        text = self.decode(ids)
        spans: list[tuple[int, int]] = []
        before = 0
        for index, id in enumerate(ids):
            is_last = index + 1 == len(ids)
            end = before
            if id not in (BEGIN, END):
                end = len(text) if is_last else max(before, _common_prefix(self.decode(ids[: index + 1]), text))
            added = text[before:end]
            start = before + len(added) - len(added.lstrip(" "))
            spans.append((start, start + len(added.strip(" "))))
            before = end
        return spans

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        raise VocabularyError(f"a tokenizer of {self.source} that weft did not learn cannot be extended")

    def save(self, path: Path) -> None:
        header = {"weft_tokenizer": FORMAT, "kind": self.kind, "source": self.source, "ids": self.external_ids}
        save_text(path, json.dumps({**header, "content": self._engine.content()}, ensure_ascii=False))

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        special = zip(SPECIALS, self.external_ids[: len(SPECIALS)], strict=True)
        names = [f"{name} {'none' if id is None else self._engine.token(id)}" for name, id in special]
        return [f"made with {self.source}; normalization: its own", f"special tokens: {', '.join(names)}"]

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
    def from_json(cls, fields: dict[str, Any], *, name: str) -> Self:
        content, source = fields.get("content"), fields.get("source")
        if not isinstance(content, str) or source not in (_Tokenizers.source, _SentencePiece.source):
            raise VocabularyError(f"{name}: damaged: it holds no tokenizer")
        if source == _Tokenizers.source:
            tokenizer = cls.from_tokenizers(content, name=name)
        else:
            try:
                model = base64.b64decode(content, validate=True)
            except ValueError:
                raise VocabularyError(f"{name}: damaged: its SentencePiece model is not base64") from None
            tokenizer = cls.from_sentencepiece(model, name=name)
        if list(tokenizer.external_ids) != fields.get("ids"):
            raise VocabularyError(f"{name}: damaged: its table of ids is not that of its tokenizer")
        return tokenizer


class _Tokenizers:
    """A `tokenizer.json`."""

    source = "tokenizers"

    def __init__(self, content: str) -> None:
        self._library = tokenizers.Tokenizer.from_str(content)
        self._library.no_truncation()
        self._library.no_padding()
        self._vocabulary: dict[str, int] = self._library.get_vocab(with_added_tokens=True)
        self._content = json.loads(self._library.to_str())
        self._special_names = [str(self._library.id_to_token(id)) for id in self.special_ids() if id is not None]
        unknown = self.special_ids()[0]
        self._unknown: str | None = None if unknown is None else self._library.id_to_token(unknown)

    def content(self) -> str:
        return str(self._library.to_str())

    def ids(self) -> list[int]:
        return list(set(self._vocabulary.values()))

    def special_ids(self) -> tuple[int | None, int | None, int | None]:
        model = self._content["model"]
        name = model.get("unk_token")
        if model.get("unk_id") is not None:
            name = model["vocab"][model["unk_id"]][0]
        unknown = self._vocabulary.get(name)
        begin, end = None, None
        for before, after in _tokens_around(self._content.get("post_processor")):
            begin = self._vocabulary.get(before or "", begin)
            end = self._vocabulary.get(after or "", end)
        if begin is None:
            begin = self._first_known(BEGIN_NAMES)
        if end is None:
            end = self._first_known(END_NAMES)
        if begin == end:
            begin = None
        return (None if unknown in (begin, end) else unknown), begin, end

    def _first_known(self, names: Sequence[str]) -> int | None:
        return next((self._vocabulary[name] for name in names if name in self._vocabulary), None)

    @cached_property
    def _literal(self) -> tokenizers.Tokenizer:
        """The same, for texts that spell a special token."""
        library = tokenizers.Tokenizer.from_str(self.content())
        library.encode_special_tokens = True
        return library

    def encode(self, texts: list[str]) -> list[list[int]]:
        encoded = [encoding.ids for encoding in self._library.encode_batch_fast(texts, add_special_tokens=False)]
        for row, text in enumerate(texts):
            if any(name in text for name in self._special_names):
                encoded[row] = self._literal.encode(text, add_special_tokens=False).ids
        return encoded

    def decode(self, ids: list[int]) -> str:
        text = str(self._library.decode(ids, skip_special_tokens=False))
        return text.replace(self._unknown, UNKNOWN_TEXT) if self._unknown and self._unknown in text else text

    def token(self, id: int) -> str:
        token = str(self._library.id_to_token(id))
        if self._has_decoder("ByteLevel"):
            byte_values = {character: value for value, character in enumerate(byte_alphabet())}
            if all(character in byte_values for character in token):
                token = bytes(byte_values[character] for character in token).decode("utf-8", errors="replace")
        prefix = self._content["model"].get("continuing_subword_prefix")
        suffix = self._content["model"].get("end_of_word_suffix")
        token = token.removeprefix(prefix or "").removesuffix(suffix or "") or token
        return (token.replace("▁", " ") if self._has_decoder("Metaspace") or "▁" in token else token).strip(" ")

    def _has_decoder(self, kind: str) -> bool:
        decoder = self._content.get("decoder") or {}
        return any(part.get("type") == kind for part in [decoder, *decoder.get("decoders", [])])


def _common_prefix(left: str, right: str) -> int:
    """The length of the longest common prefix of two texts."""
    if right.startswith(left):
        return len(left)
    return next(index for index, (a, b) in enumerate(zip(f"{left}\0", f"{right}\1", strict=False)) if a != b)


def _tokens_around(processor: dict[str, Any] | None) -> Iterator[tuple[str | None, str | None]]:
    """The tokens that a post-processor puts before and after a text."""
    kind = (processor or {}).get("type")
    if processor is None or kind is None:
        return
    if kind == "Sequence":
        for part in processor["processors"]:
            yield from _tokens_around(part)
    elif kind == "TemplateProcessing":
        names = [part["SpecialToken"]["id"] if "SpecialToken" in part else None for part in processor["single"]]
        text = names.index(None) if None in names else len(names)
        yield (names[0] if text > 0 else None), (names[-1] if text + 1 < len(names) else None)
    elif "cls" in processor and "sep" in processor:
        yield processor["cls"][0], processor["sep"][0]


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
        except Exception as error:  # the library raises RuntimeError and others
            reason = " ".join(str(error).split())
            raise VocabularyError(f"{name}: not a SentencePiece model: {reason}") from None
        self._surface = str(self._library.decode([self._library.unk_id()]))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._content, "a pickle")

    def content(self) -> str:
        return base64.b64encode(self._content).decode("ascii")

    def ids(self) -> list[int]:
        return list(range(self._library.get_piece_size()))

    def special_ids(self) -> tuple[int | None, int | None, int | None]:
        unknown, begin, end = (
            None if id < 0 else id for id in (self._library.unk_id(), self._library.bos_id(), self._library.eos_id())
        )
        return unknown, begin, end

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [list(ids) for ids in self._library.encode(texts, out_type=int)] if texts else []

    def decode(self, ids: list[int]) -> str:
        text = str(self._library.decode(ids))
        if self._library.unk_id() in ids and UNKNOWN_TEXT not in (surface := self._surface.strip()):
            return text.replace(surface, UNKNOWN_TEXT) if surface else text
        return text.replace(f" {UNKNOWN_TEXT} ", UNKNOWN_TEXT) if self._library.unk_id() in ids else text

    def token(self, id: int) -> str:
        return str(self._library.id_to_piece(id)).replace("▁", " ").strip(" ")
