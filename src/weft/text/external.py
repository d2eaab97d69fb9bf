"""External tokenizers: a `tokenizer.json` of any model, or a SentencePiece model.

They encode with their own library, after a file has been tried in a separate process (`check_isolated`). Only the ids
change: unknown, begin and end get weft's 0, 1 and 2, and all others follow in their own order; ``external_ids`` keeps,
for every id here, the one there (None: no such special token).

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
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from weft.errors import VocabularyError
from weft.files import save_text
from weft.text.external_engines import SentencePieceEngine, TokenizersEngine
from weft.text.id_rows import TokenArrays, to_arrays, to_lists
from weft.text.isolation import IsolatedError, IsolatedProcess, library_errors
from weft.text.specials import BEGIN, END, SPECIALS, UNKNOWN, UNKNOWN_TEXT, visible
from weft.text.vocabulary import FORMAT, check_ids, check_text

MAX_ID = (1 << 24) - 1
"""The largest id that a file may give to a token: there is a table of all ids up to it."""
NOT_A_MODEL = {"tokenizers": "damaged, or not a tokenizer.json", "sentencepiece": "not a SentencePiece model"}
"""Error messages for a file that the library does not load."""


class Engine(Protocol):
    """A tokenizer with its own ids."""

    source: str

    def ids(self) -> list[int]: ...
    def encode(self, texts: list[str]) -> list[list[int]]: ...
    def decode(self, ids: list[int]) -> str: ...
    def token(self, id: int) -> str: ...


class FileEngine(Engine, Protocol):
    """A tokenizer that is one file, in its own library."""

    def special_ids(self) -> tuple[int | None, int | None, int | None]: ...
    def content(self) -> str: ...


class ExternalTokenizer:
    """An external tokenizer with weft's ids for special tokens."""

    kind = "external"
    supports_dropout = False

    _engine: Engine

    def __init__(self, engine: FileEngine) -> None:
        self._engine = self._file = engine
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
        with library_errors(f"the tokenizer of {self.source} cannot encode these texts"):
            ids, lengths = to_arrays(self._engine.encode(list(texts)))
        return self._internal_ids[ids], lengths

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        parts: list[str] = []
        run: list[int] = []
        with library_errors(f"the tokenizer of {self.source} cannot decode these ids"):
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
        save_text(path, json.dumps({**header, "content": self._file.content()}, ensure_ascii=False))

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        special = zip(SPECIALS, self.external_ids[: len(SPECIALS)], strict=True)
        names = [f"{name} {'none' if id is None else self._engine.token(id)}" for name, id in special]
        return [f"made with {self.source}; normalization: its own", f"special tokens: {', '.join(names)}"]

    @classmethod
    def from_tokenizers(cls, content: str, *, name: str) -> Self:
        """From the text of a `tokenizer.json`."""
        check_isolated("tokenizers", content.encode("utf-8"), name=name)
        return cls(TokenizersEngine(content))

    @classmethod
    def from_sentencepiece(cls, content: bytes, *, name: str) -> Self:
        """From the bytes of a SentencePiece model."""
        check_isolated("sentencepiece", content, name=name)
        return cls(SentencePieceEngine(content))

    @classmethod
    def from_json(cls, fields: dict[str, Any], *, name: str) -> Self:
        content, source = fields.get("content"), fields.get("source")
        if not isinstance(content, str) or source not in NOT_A_MODEL:
            raise VocabularyError(f"{name}: damaged: it holds no tokenizer")
        if source == "tokenizers":
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


def check_isolated(source: str, content: bytes, *, name: str) -> None:
    """Load and use a file in a child process first, where its library may safely abort, loop or run out of memory."""
    if source == "sentencepiece":
        try:
            import sentencepiece  # noqa: F401 (it is used in the child process)
        except ImportError:
            raise VocabularyError(
                f"{name}: a SentencePiece model needs the package: pip install sentencepiece"
            ) from None
    try:
        largest = _largest_id(source, content)
    except IsolatedError as error:
        slow = "took more than" in str(error) or "retry-limit" in str(error)
        reason = "one of its regular expressions takes too long on a long word" if slow else NOT_A_MODEL[source]
        raise VocabularyError(f"{name}: {reason}: {error}") from None
    if not 0 <= largest <= MAX_ID:
        raise VocabularyError(f"{name}: a token has the id {largest:,}; the limit is {MAX_ID:,}")


@lru_cache(maxsize=8)
def _largest_id(source: str, content: bytes) -> int:
    return int(IsolatedProcess("weft.text.isolated_tokenizer").call("check", source, content.decode("latin-1")))


def _common_prefix(left: str, right: str) -> int:
    """The length of the longest common prefix of two texts."""
    if right.startswith(left):
        return len(left)
    return next(index for index, (a, b) in enumerate(zip(f"{left}\0", f"{right}\1", strict=False)) if a != b)
