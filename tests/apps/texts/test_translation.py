"""Documents, translated: whatever a model does, tags and placeholders are there exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.generated_documents import (
    broken_html,
    check,
    html_documents,
    markdown_documents,
    placeholder_texts,
    reordering,
    translated,
)
from weft.apps.texts.formats import read_document
from weft.apps.texts.rendering import SentenceOutput
from weft.apps.texts.translation import Sentence, translate_document
from weft.text.words import words
from weft.translation.translator import Translator

SEEDS = st.integers(0, 2**32)


@given(html_documents, SEEDS)
def test_html(source: str, seed: int) -> None:
    check(source, translated(source, "html", reordering(Random(seed))).text, "html")


@given(broken_html, SEEDS)
def test_broken_html(source: str, seed: int) -> None:
    check(source, translated(source, "html", reordering(Random(seed))).text, "broken html")


@given(markdown_documents, SEEDS)
def test_markdown(source: str, seed: int) -> None:
    check(source, translated(source, "markdown", reordering(Random(seed))).text, "markdown")


@given(placeholder_texts, SEEDS)
def test_placeholders(source: str, seed: int) -> None:
    check(source, translated(source, "text", reordering(Random(seed))).text, "text")


def saying(say: Callable[[str], str]) -> Callable[[Sentence], SentenceOutput]:
    return lambda item: SentenceOutput(say(item.text), words(item.text), words(say(item.text)), flags=("cut",))


@pytest.mark.parametrize(
    ("say", "expected", "flags"),
    [
        (str.upper, "HELLO {name}, YOU .", ("cut",)),
        (lambda text: text.replace("{NAME}", ""), "hello {name}, you .", ("cut",)),
        (lambda text: text.replace("{name}", "NOM"), "hello {name}, you .", ("placeholder-lost", "cut")),
        (lambda text: f"{text} {{name}}", "hello {name}, you .", ("placeholder-lost", "cut")),
        (lambda text: "", "hello {name}, you .", ("placeholder-lost",)),
    ],
)
def test_lost_placeholders(say: Callable[[str], str], expected: str, flags: tuple[str, ...]) -> None:
    keep = saying(lambda text: say(text).replace("{NAME}", "{name}"))
    result = translated("hello {name}, you .", "text", keep)
    assert (result.text, result.units[0].flags) == (expected, flags)
    assert result.flags[flags[0]] == 1


def test_an_empty_output_leaves_the_source() -> None:
    result = translated("hello", "text", saying(lambda text: ""))
    assert (result.text, result.units[0].flags) == ("hello", ("untranslated",))


def test_equal_sentences_are_translated_once_and_numbers_not() -> None:
    seen = []

    def note(item: Sentence) -> SentenceOutput:
        seen.append(item)
        return SentenceOutput(item.text.upper(), words(item.text), words(item.text))

    assert translated("<p>a b</p><p>a b</p>12<p>a <b>b</b></p>{x}", "html", note).text == (
        "<p>A B</p><p>A B</p>12<p>A <b>B</b></p>{x}"
    )
    assert seen == [Sentence("a b", True)]


def test_by_a_model(copier: Translator) -> None:
    result = translate_document(copier, read_document("<p>a <b>b</b> . c d</p>", "html"))
    check("<p>a <b>b</b> . c d</p>", result.text, "html")
    alone = [one.text for one in copier.translate(["a b .", "c d"], return_attention=False)]
    assert result.text.replace("<b>", "").replace("</b>", "") == f"<p>{' '.join(alone)}</p>"
    assert result.sentences == 2 and str(result) == result.text


def test_a_sentence_that_is_too_long_stays(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.errors import InputTooLongError

    original = Translator.translate

    def refuse(self: Translator, source: list[str], **options: object) -> object:
        if any(len(text) > 20 for text in source):
            raise InputTooLongError("too long")
        return original(self, source, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Translator, "translate", refuse)
    result = translate_document(copier, read_document("a b\n" + "a " * 20, "text"))
    assert result.text.endswith("\n" + "a " * 20) and result.flags["untranslated"] >= 1


@pytest.mark.parametrize(
    ("format", "pieces"),
    [
        ("html", ("<b>", "</b>", "<!--", "&amp;", "<a href='x", "<b>a</b> ", "<b><i>a ", "<p>a <b>b</p>")),
        ("markdown", ("**", "[", "`", "> ", "*a* ", "[a](b) ", "![")),
        ("text", ("{name} ", "%s ", '<x id="1"/> ', "http://a.b ")),
    ],
)
def test_a_megabyte_of_tags(format: str, pieces: tuple[str, ...]) -> None:
    """Text of tags only takes time in proportion to its size: 16 times the text 16 times as long, not 256 times.

    All kinds of tags together have a megabyte.
    """

    def seconds(size: int) -> float:
        start = time.process_time()
        for piece in pieces:
            translated(piece * (size // len(piece)), format, reordering(Random(1)))
        return time.process_time() - start

    size = 1_000_000 // 19
    seconds(size // 16)  # what is compiled at the first call
    assert seconds(size) < 100 * (seconds(size // 16) + 0.01)
