"""Frames: ids around a text, languages by name, and what is refused."""

import pytest

from weft.errors import VocabularyError, command_line
from weft.text.frames import Frame, FrameRules
from weft.text.specials import BEGIN, END

NLLB = FrameRules(("source",), (END,), END, ("target",), {"eng_Latn": 7, "fra_Latn": 8, "deu_Latn": 9})

NOT_KNOWN = "not a language of this model"


def test_the_frame_of_weft() -> None:
    frame = Frame()
    assert frame.source([5, 6]) == [5, 6, END]
    assert frame.target([5, 6]) == [5, 6, END]
    assert frame.start == (BEGIN,)
    assert FrameRules().frame() == frame


def test_languages_take_their_places() -> None:
    frame = NLLB.with_languages("eng_Latn", "fra_Latn").frame()
    assert frame.source([5]) == [7, 5, END]
    assert frame.target([5]) == [8, 5, END]
    assert frame.start == (END, 8)
    mbart = FrameRules((), (END, "source"), "target", (), {"en_XX": 7, "ro_RO": 8}).with_languages("en_XX", "ro_RO")
    assert mbart.frame() == Frame((), (END, 7), (8,))
    assert NLLB.with_languages("eng_Latn", "fra_Latn").with_languages(None, "deu_Latn").frame().start == (END, 9)


def test_a_language_that_is_not_required_is_left_out() -> None:
    marian = FrameRules(("target",), languages={"fra": 5}, required=False)
    assert marian.frame() == Frame()
    assert marian.with_languages(None, "fra").frame().source_before == (5,)


@pytest.mark.parametrize(
    ("rules", "languages", "message"),
    [
        (NLLB, (None, "fra_Latin"), f"target_language='fra_Latin': {NOT_KNOWN}; did you mean 'fra_Latn'?"),
        (NLLB, ("fr", None), f"source_language='fr': {NOT_KNOWN}; did you mean 'fra_Latn'?"),
        (NLLB, (None, "xx"), f"target_language='xx': {NOT_KNOWN}; choose one of eng_Latn, fra_Latn, deu_Latn"),
        (FrameRules(), (None, "fr"), "target_language='fr': this model takes no target language; leave it out"),
    ],
)
def test_languages_that_are_refused(rules, languages, message) -> None:
    with pytest.raises(VocabularyError) as error:
        rules.with_languages(*languages)
    assert str(error.value) == message


def test_a_language_that_is_missing() -> None:
    with pytest.raises(VocabularyError) as error, command_line():
        NLLB.with_languages("eng_Latn", None).frame()
    assert str(error.value) == (
        "--to: this model has several languages; name that of the target: eng_Latn, fra_Latn, deu_Latn"
    )


def test_json() -> None:
    rules = NLLB.with_languages("eng_Latn", None)
    assert FrameRules.from_json(rules.to_json(), 10) == rules
    for change in (
        {"begin": 10},
        {"begin": "x"},
        {"languages": {"a": -1}},
        {"source": "xx"},
        {"source_before": [True]},
    ):
        with pytest.raises(ValueError, match=r"frame|language"):
            FrameRules.from_json({**rules.to_json(), **change}, 10)
