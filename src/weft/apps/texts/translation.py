"""Documents, translated: sentences with their tags and placeholders, each a whole.

`translation` says what is to be translated and is sent the outputs, so that a program (`translate_document`) and the
service, which has no model in its process, run the same code. Placeholders are first left in their sentences, for the
model to copy. A unit in which one was lost, or is there twice, is translated again without them, and they are put back
like tags: its flag is `placeholder-lost`. If this, too, does not give exactly the tags and placeholders of the source,
the unit stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.texts.pieces import PROTECTED, Document, Unit, protected
from weft.apps.texts.rendering import SentenceOutput, render
from weft.apps.texts.sentences import Part, Splitter
from weft.apps.texts.trees import UnitTree, make_tree, signature
from weft.errors import DataError

if TYPE_CHECKING:
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

LOST = "placeholder-lost"
WINDOW = 2_000
"""Sentences that are translated together."""


class Sentence(NamedTuple):
    """A sentence to translate; ``needs_links``: whether tags stand within it."""

    text: str
    needs_links: bool


@dataclass(frozen=True)
class UnitTranslation:
    """A unit of a document, translated."""

    source: str
    """As it stands in the file, tags included."""
    text: str
    flags: tuple[str, ...]
    confidence: float | None
    """The lowest of its sentences."""
    sentences: int


@dataclass(frozen=True)
class DocumentTranslation:
    """A document, translated. ``str(translation)`` is its text."""

    text: str
    units: list[UnitTranslation]

    def __str__(self) -> str:
        return self.text

    @property
    def sentences(self) -> int:
        return sum(unit.sentences for unit in self.units)

    @property
    def flags(self) -> Counter[str]:
        """How many units have each flag."""
        return Counter(flag for unit in self.units for flag in unit.flags)


Questions = Generator[list[Sentence], list[SentenceOutput], DocumentTranslation]


def translation(document: Document, splitter: Callable[[str], list[Part]]) -> Questions:
    """Yields the sentences to translate, is sent their outputs, and returns the translated document."""
    units = [unit for unit in document.units if unit.has_words]
    trees = [make_tree(unit, splitter, keep_placeholders=True) for unit in units]
    first = yield from _ask(trees)
    done = [_translated(unit, tree, outputs) for unit, tree, outputs in zip(units, trees, first, strict=True)]
    again = [index for index, result in enumerate(done) if result is None]
    safe = [make_tree(units[index], splitter, keep_placeholders=False) for index in again]
    second = yield from _ask(safe)
    for index, tree, outputs in zip(again, safe, second, strict=True):
        done[index] = _translated(units[index], tree, [_without_placeholders(output) for output in outputs], (LOST,))
    results = [_unchanged(unit) if result is None else result for unit, result in zip(units, done, strict=True)]
    texts = iter(result.text for result in results)
    parts = (next(texts) if isinstance(part, Unit) and part.has_words else _raw(part) for part in document.parts)
    return DocumentTranslation("".join(parts), results)


def _unchanged(unit: Unit) -> UnitTranslation:
    return UnitTranslation(unit.raw, unit.raw, (LOST if signature(unit.pieces)[0] else "untranslated",), None, 0)


def _without_placeholders(output: SentenceOutput | None) -> SentenceOutput | None:
    """An output without placeholders and tags that the model has made up."""
    if output is None or not PROTECTED.search(output.text):
        return output
    return output._replace(text=PROTECTED.sub(" ", output.text))


def _raw(part: str | Unit) -> str:
    return part if isinstance(part, str) else part.raw


def _ask(
    trees: Sequence[UnitTree],
) -> Generator[list[Sentence], list[SentenceOutput], list[list[SentenceOutput | None]]]:
    """The outputs of the parts of trees: None where a part is copied. Equal sentences are translated once."""
    sentences = [[_sentence(tree, index) for index in range(len(tree.parts))] for tree in trees]
    distinct: dict[str, bool] = {}
    for sentence in chain.from_iterable(sentences):
        if sentence is not None:
            distinct[sentence.text] = sentence.needs_links or distinct.get(sentence.text, False)
    outputs: dict[str, SentenceOutput] = {}
    if distinct:
        answers = yield [Sentence(text, needs_links) for text, needs_links in distinct.items()]
        outputs = dict(zip(distinct, answers, strict=True))
    return [[None if sentence is None else outputs[sentence.text] for sentence in of_tree] for of_tree in sentences]


def _sentence(tree: UnitTree, index: int) -> Sentence | None:
    """A part of a tree as a sentence to translate; None if it is copied: without letters outside placeholders."""
    span, is_sentence = tree.parts[index]
    text = tree.text[slice(*span)]
    plain = text if not tree.placeholders else "".join(piece.text for piece in protected(text) if piece.kind == "text")
    if not is_sentence or not any(map(str.isalpha, plain)):
        return None
    first, last = tree.words_in(span)
    return Sentence(" ".join(text.split()), tree.has_tags_within(first, last))


def _translated(
    unit: Unit, tree: UnitTree, outputs: Sequence[SentenceOutput | None], flags: tuple[str, ...] = ()
) -> UnitTranslation | None:
    """A unit with the outputs of its sentences; None if it has not exactly the tags and placeholders of its source."""
    if not any(part and part.text.strip() for part in outputs) and any(outputs):
        return None
    text = render(tree, outputs, unit.dialect)
    pieces = unit.dialect.pieces or protected
    if signature(pieces(text)) != signature(unit.pieces):
        return None
    translated = [output for output in outputs if output is not None]
    names = dict.fromkeys([*flags, *chain.from_iterable(output.flags for output in translated)])
    confidences = [output.confidence for output in translated if output.confidence is not None]
    return UnitTranslation(unit.raw, text, tuple(names), min(confidences, default=None), len(translated))


def translate_document(
    run: Translator, document: Document, *, splitter: Splitter | None = None, **search: Any
) -> DocumentTranslation:
    """The translation of a document by a run."""
    questions = translation(document, Splitter.of_run(run) if splitter is None else splitter)
    try:
        sentences = next(questions)
        while True:
            sentences = questions.send(translate_sentences(run, sentences, search))
    except StopIteration as result:
        assert isinstance(result.value, DocumentTranslation)
        return result.value


def translate_sentences(run: Translator, sentences: Sequence[Sentence], search: dict[str, Any]) -> list[SentenceOutput]:
    """The outputs of sentences, with links where these are needed; one that is too long stays as it is."""
    from weft.translation.windows import process_each  # a service, which imports no torch, does not come here

    outputs: dict[int, SentenceOutput] = {}
    for needs_links in (False, True):
        chosen = [index for index, sentence in enumerate(sentences) if sentence.needs_links == needs_links]
        for start in range(0, len(chosen), WINDOW):
            window = chosen[start : start + WINDOW]

            def translate(texts: Sequence[str], needs_links: bool = needs_links) -> list[Translation]:
                return run.translate(list(texts), return_attention=needs_links and run.recipe.model.attends, **search)

            results = process_each([sentences[index].text for index in window], translate)
            outputs |= {
                index: sentence_output(sentences[index].text, result)
                for index, result in zip(window, results, strict=True)
            }
    return [outputs[index] for index in range(len(sentences))]


def sentence_output(source: str, result: Translation | DataError) -> SentenceOutput:
    """A translation as documents need it."""
    if isinstance(result, DataError):
        return SentenceOutput(source, flags=("untranslated",))
    flags = tuple(flag for flag in result.flags if flag != LOST)  # what is left out here is put back
    words = result.word_attention
    if words is None:
        return SentenceOutput(result.text, flags=flags, confidence=result.confidence)
    return SentenceOutput(result.text, words.source[:-1], words.target, result.links, flags, result.confidence)
