"""The frame of a source and a target: the special tokens around a text.

A model of weft reads ``X </s>`` and writes ``Y </s>`` after ``<s>``. Pretrained models differ:

    BART             <s> X </s>       </s> <s> Y </s>
    mBART-25         X </s> en_XX     ro_RO Y </s>
    mBART-50, NLLB   eng_Latn X </s>  </s> fra_Latn Y </s>
    OPUS-MT          >>fra<< X </s>   <pad> Y </s>

The decoder reads ``begin`` first, and then ``target_before``, which a search never predicts; both together are the
`start`. A target ends with the end token in every frame. `FrameRules`, which a tokenizer keeps, are frames with
placeholders for languages.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

from weft.errors import VocabularyError, option
from weft.text.specials import BEGIN, END

Side = Literal["source", "target"]
FrameToken = int | Side
"""An id, or the side whose language is the token."""
FLAGS: dict[str, str] = {"source": "from", "target": "to"}
"""The option of the command line that names the language of each side."""
SHOWN = 6
"""Languages that a message lists, at most."""


class Frame(NamedTuple):
    """The ids around a source and a target."""

    source_before: tuple[int, ...] = ()
    source_after: tuple[int, ...] = (END,)
    start: tuple[int, ...] = (BEGIN,)
    """The decoder inputs before the first token of a text: at least one."""

    @property
    def begin(self) -> int:
        """The first input of the decoder."""
        return self.start[0]

    @property
    def target_before(self) -> tuple[int, ...]:
        """Tokens before every target, such as its language."""
        return self.start[1:]

    def source(self, ids: Sequence[int]) -> list[int]:
        """The ids of a source as the encoder reads them."""
        return [*self.source_before, *ids, *self.source_after]

    def target(self, ids: Sequence[int]) -> list[int]:
        """The ids of a target as the decoder writes them after ``begin``."""
        return [*self.target_before, *ids, END]


DEFAULT_FRAME = Frame()


@dataclass(frozen=True)
class FrameRules:
    """The special tokens around texts in each language of a model, and the chosen languages."""

    source_before: tuple[FrameToken, ...] = ()
    source_after: tuple[FrameToken, ...] = (END,)
    begin: FrameToken = BEGIN
    target_before: tuple[FrameToken, ...] = ()
    languages: Mapping[str, int] = field(default_factory=dict)
    """The id of each language, by its name."""
    required: bool = True
    """Whether a language must be chosen; if not, its token is left out where none is."""
    source: str | None = None
    target: str | None = None
    """The languages of the two sides."""

    def frame(self) -> Frame:
        """The ids, for the languages that are chosen."""
        begin = self._ids((self.begin,)) or (BEGIN,)
        start = (*begin, *self._ids(self.target_before))
        return Frame(self._ids(self.source_before), self._ids(self.source_after), start)

    def _ids(self, tokens: Sequence[FrameToken]) -> tuple[int, ...]:
        return tuple(id for token in tokens if (id := self._id(token)) is not None)

    def _id(self, token: FrameToken) -> int | None:
        if isinstance(token, int):
            return token
        language = self.source if token == "source" else self.target
        if language is not None:
            return self.languages[language]
        if self.required:
            names = _some(list(self.languages))
            raise VocabularyError(
                f"{option(f'{token}_language', flag=FLAGS[token])}: this model has several languages; name that of the "
                f"{token}: {names}"
            )
        return None

    def with_languages(self, source: str | None, target: str | None) -> FrameRules:
        """The rules for other languages; None: unchanged."""
        for side, language in (("source", source), ("target", target)):
            if language is not None:
                self.check_language(side, language, flag=FLAGS[side])
        return replace(self, source=source or self.source, target=target or self.target)

    def with_new_languages(self, names: Mapping[str, str], first: int) -> FrameRules:
        """The rules with more languages, whose ids begin with ``first``; each names a similar language."""
        where = "tokenizer.new_languages:"
        if not self.languages:
            raise VocabularyError(f"{where} the model that training starts from has no languages to add others to")
        for name, like in names.items():
            if name in self.languages:
                raise VocabularyError(f"{where} {name!r} is already a language of this model; leave it out")
            if like not in self.languages:
                raise VocabularyError(
                    f"{where} {like!r} is not a language of this model; {_nearest(like, [*self.languages])}"
                )
        return replace(self, languages={**self.languages, **{name: first + n for n, name in enumerate(names)}})

    def check_language(self, side: str, language: str, *, flag: str | None = None) -> None:
        """Fail unless the side has this language; ``flag``: the option that named it, if it has its own name."""
        where = f"{option(f'{side}_language', language, flag=flag)}:"
        tokens = (*self.source_before, *self.source_after, self.begin, *self.target_before)
        if side not in tokens:
            raise VocabularyError(f"{where} this model takes no {side} language; leave it out")
        if language not in self.languages:
            raise VocabularyError(f"{where} not a language of this model; {_nearest(language, list(self.languages))}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any], size: int) -> FrameRules:
        """Read the output of `to_json`; `ValueError` if an id is not one of ``size`` ids, or anything else is wrong."""
        sequences = {name: tuple(content[name]) for name in ("source_before", "source_after", "target_before")}
        begin, languages = content["begin"], dict(content["languages"])
        for token in (*sequences["source_before"], *sequences["source_after"], *sequences["target_before"], begin):
            if token not in ("source", "target") and not _is_id(token, size):
                raise ValueError(f"{token!r} in a frame is not an id")
        if not all(isinstance(name, str) and _is_id(id, size) for name, id in languages.items()):
            raise ValueError("a language has no id")
        chosen = content["source"], content["target"]
        if any(language is not None and language not in languages for language in chosen):
            raise ValueError(f"{chosen} are not among its languages")
        source, target = chosen
        required = bool(content["required"])
        return cls(**sequences, begin=begin, languages=languages, required=required, source=source, target=target)


DEFAULT_RULES = FrameRules()


def _is_id(value: object, size: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size


def _nearest(given: str, languages: list[str]) -> str:
    """A suggestion if a name is near or has the same beginning, else some of the names."""
    close = difflib.get_close_matches(given, languages, n=1)
    beginning = given[:2].lower()
    alike = [name for name in languages if beginning and name.lower().startswith(beginning)]
    if close or len(alike) == 1:
        return f"did you mean {(close or alike)[0]!r}?"
    return f"choose one of {_some(alike or languages)}"


def _some(names: list[str]) -> str:
    """A few names, and how many there are."""
    more = f", … ({len(names)} in all)" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
