"""Subtitles."""

from __future__ import annotations

import pytest

from weft.apps.texts.formats import read_document
from weft.apps.texts.formats.subtitles import read_srt, read_vtt
from weft.errors import DataError

SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>we drank\r\nthe milk</i>\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n- yes\r\n- {\\an8}no\r\n"
)
VTT = (
    "WEBVTT - a\n\nNOTE a note\n\nid\n00:01.000 --> 00:02.000 align:left\n"
    "<v Ann>we <00:01.500>drank &amp; ate\n\nSTYLE\n::cue {}\n"
)


def test_cues() -> None:
    document = read_srt(SRT)
    assert document.raw == SRT
    assert [unit.raw for unit in document.units] == ["<i>we drank\r\nthe milk</i>", "yes", "{\\an8}no"]
    assert [piece.kind for piece in document.units[0].pieces] == ["open", "text", "break", "text", "close"]
    document = read_vtt(VTT)
    assert document.raw == VTT and [unit.raw for unit in document.units] == ["<v Ann>we <00:01.500>drank &amp; ate"]
    assert [piece.text for piece in document.units[0].pieces if piece.kind == "text"] == ["we ", "drank & ate"]


@pytest.mark.parametrize(
    ("format", "source", "message"),
    [
        ("srt", "hello", "a: no times such as 00:00:01,000 --> 00:00:02,000 stand in it; is it SubRip?"),
        ("vtt", "1\n", "a:1: WebVTT begins with a line WEBVTT; of SubRip subtitles, name the file .srt"),
    ],
)
def test_other_files(format: str, source: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_document(source, format, "a")
    assert str(caught.value) == message


def test_empty_files() -> None:
    assert read_srt("").raw == "" and read_vtt("WEBVTT\n").raw == "WEBVTT\n"
