"""Tokenizers of imported models: the ids of the original in another order, and the frame of its texts.

Every row of the original's embedding is one id: unknown, begin and end first, as 0, 1 and 2, then all others in their
own order; ``external_ids`` has, for every id here, the one there. Rows that the original's tokenizer has no token for
are never the outcome of `encode`, are shown as ``<row 32100>`` and decode to nothing. Like `decode` of Hugging Face
with ``skip_special_tokens=True``, `decode` leaves out special tokens; an unknown token stays, as ``⁇``.

The file holds the whole tokenizer, its `FrameRules` and the languages that are chosen.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from weft.errors import VocabularyError
from weft.files import save_text
from weft.text.external import Engine, ExternalTokenizer, check_isolated
from weft.text.external_engines import ByteEngine, PieceEngine, PieceTable, TokenizersEngine
from weft.text.frames import DEFAULT_RULES, Frame, FrameRules
from weft.text.isolation import library_errors
from weft.text.specials import END, SPECIALS, UNKNOWN, visible
from weft.text.utf8 import spans_of_bytes
from weft.text.vocabulary import FORMAT, check_ids


@dataclass(frozen=True)
class Vocabulary:
    """The ids of the original that have a role."""

    rows: int
    """The number of rows of the embedding."""
    special: tuple[int, int, int]
    """The unknown, begin and end tokens."""
    skipped: frozenset[int] = frozenset()
    """Ids that are left out of decoded text."""

    def order(self) -> tuple[int, ...]:
        """The original's id of every id here."""
        return (*self.special, *(id for id in range(self.rows) if id not in self.special))


class ImportedTokenizer(ExternalTokenizer):
    """The tokenizer of a pretrained model, with weft's ids for special tokens."""

    kind = "imported"

    def __init__(self, engine: Engine, vocabulary: Vocabulary, rules: FrameRules = DEFAULT_RULES) -> None:
        self._engine = engine
        self.source = engine.source
        self.vocabulary = vocabulary
        self.rules = rules
        self.external_ids = vocabulary.order()
        self._known = set(engine.ids())

    @property
    def engine(self) -> Engine:
        """The tokenizer with the ids of the original."""
        return self._engine

    @property
    def frame(self) -> Frame:
        """The ids around a source and a target, for the languages that are chosen."""
        return self.rules.frame()

    def with_languages(self, source: str | None, target: str | None) -> Self:
        """The tokenizer for other languages; None: unchanged."""
        rules = self.rules.with_languages(source, target)
        return self if rules == self.rules else self.with_rules(rules)

    def with_new_languages(self, names: Mapping[str, str]) -> Self:
        """The tokenizer with tokens for more languages, after all others; each names a similar language."""
        other = self.with_rules(self.rules.with_new_languages(names, self.size))
        other.vocabulary = replace(self.vocabulary, rows=self.vocabulary.rows + len(names))
        other.external_ids = other.vocabulary.order()
        other.__dict__.pop("_internal_ids", None)  # computed from the old ids
        return other

    def with_rules(self, rules: FrameRules) -> Self:
        other = copy.copy(self)
        other.rules = rules
        return other

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        kept = [external for external in map(self._external_id, ids) if self._is_text(external)]
        with library_errors(f"the tokenizer of {self.source} cannot decode these ids"):
            return self._engine.decode(kept) if kept else ""

    def _is_text(self, external: int) -> bool:
        """Whether a token is part of decoded text."""
        _, begin, end = self.vocabulary.special
        return external not in (begin, end) and external in self._known and external not in self.vocabulary.skipped

    def tokens(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id in (UNKNOWN, END) else self._name(self._external_id(id)) for id in ids]

    def _name(self, external: int) -> str:
        if external not in self._known:
            names = {id: name for name, id in self.rules.languages.items()}
            return names.get(self.external_ids.index(external), f"<row {external}>")
        return visible(self._engine.token(external)) or "␣"

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        if not isinstance(self._engine, ByteEngine):
            return super().spans(ids)
        check_ids(ids, self.size)
        externals = [self._external_id(id) for id in ids]
        return spans_of_bytes([self._engine.token_bytes(id) if self._is_text(id) else b"" for id in externals])

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        names = [f"{name} {self._name(id)}" for name, id in zip(SPECIALS, self.vocabulary.special, strict=True)]
        kinds = {"tokenizers": "a tokenizer.json", "pieces": "SentencePiece and a table of ids", "bytes": "bytes"}
        facts = [f"imported: {kinds[self.source]}", f"special tokens: {', '.join(names)}"]
        if self.rules.languages:
            chosen = f"{self.rules.source or 'not chosen'} to {self.rules.target or 'not chosen'}"
            facts.append(f"{len(self.rules.languages)} languages; by default {chosen}")
        return facts

    def save(self, path: Path) -> None:
        vocabulary = self.vocabulary
        header = {"weft_tokenizer": FORMAT, "kind": self.kind, "source": self.source}
        fields = {"rows": vocabulary.rows, "special": vocabulary.special, "skipped": sorted(vocabulary.skipped)}
        content = {**header, **fields, "frame": self.rules.to_json(), "content": _content(self._engine)}
        save_text(path, json.dumps(content, ensure_ascii=False))

    @classmethod
    def from_json(cls, fields: dict[str, Any], *, name: str) -> Self:
        try:
            rows, special, skipped = int(fields["rows"]), tuple(map(int, fields["special"])), fields["skipped"]
            unknown, begin, end = special
            vocabulary = Vocabulary(rows, (unknown, begin, end), frozenset(map(int, skipped)))
            if not all(0 <= id < rows for id in special) or len(set(special)) < len(special):
                raise ValueError("its special tokens are not three ids")
            rules = FrameRules.from_json(fields["frame"], rows)
            engine = _read_engine(fields["source"], fields["content"], vocabulary, name=name)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise VocabularyError(f"{name}: damaged: not the tokenizer of an imported model ({error})") from None
        check_rows(engine.ids(), rows, name=name)
        return cls(engine, vocabulary, rules)


def check_rows(ids: Collection[int], rows: int, *, name: str) -> None:
    """Fail if a token has no row in the embedding."""
    if max(ids, default=0) >= rows:
        raise VocabularyError(f"{name}: a token has the id {max(ids):,}, but the embedding has only {rows:,} rows")


def _content(engine: Engine) -> Any:
    """The content of an engine for its file."""
    if isinstance(engine, PieceEngine):
        return {"model": base64.b64encode(engine.model).decode("ascii"), **engine.table.to_json()}
    if isinstance(engine, ByteEngine):
        return engine.sentinels
    assert isinstance(engine, TokenizersEngine)
    return engine.content()


def _read_engine(source: str, content: Any, vocabulary: Vocabulary, *, name: str) -> Engine:
    if source == "bytes":
        if not 0 <= int(content) <= vocabulary.rows:
            raise ValueError(f"it has {content} sentinels")
        return ByteEngine(int(content))
    if source == "pieces":
        model = base64.b64decode(content["model"], validate=True)
        return piece_engine(model, PieceTable.from_json(content), name=name)
    if source == "tokenizers":
        return tokenizers_engine(content, vocabulary.special, name=name)
    raise ValueError(f"{source!r} is not a kind of tokenizer")


def piece_engine(model: bytes, table: PieceTable, *, name: str) -> PieceEngine:
    """SentencePiece with a table; the model is first tried in a separate process."""
    check_isolated("sentencepiece", model, name=name)
    return PieceEngine(model, table)


def tokenizers_engine(content: str, special: tuple[int, int, int], *, name: str) -> TokenizersEngine:
    """A `tokenizer.json`, which is first tried in a separate process."""
    check_isolated("tokenizers", content.encode("utf-8"), name=name)
    return TokenizersEngine(content, special)
