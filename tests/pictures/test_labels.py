from __future__ import annotations

import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from weft.pictures.labels import shorten, visible


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("chat", "chat"),
        ("</s>", "</s>"),
        ("$5$", "$5$"),
        (" the", "␣the"),
        ("a\n", "a⏎"),
        ("\t\r", "⇥␍"),
        ("", "∅"),
        ("\x1b[31m", "⟨1B⟩[31m"),
        ("\u202eabc", "⟨202E⟩abc"),
        ("\ud800", "⟨D800⟩"),
        ("\ufffe", "⟨FFFE⟩"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("क\u094d\u200dष", "क\u094d\u200dष"),
        ("\u200d", "⟨200D⟩"),
        ("日本語", "日本語"),
    ],
)
def test_what_cannot_be_seen_gets_a_sign(token: str, shown: str) -> None:
    assert visible(token) == shown


@given(st.text(st.characters()))
def test_labels_are_safe_in_a_terminal_and_in_xml(token: str) -> None:
    shown = visible(token)
    assert shown
    assert all(unicodedata.category(character) not in ("Cc", "Cs", "Zs", "Zl", "Zp") for character in shown)
    escaped = shown.replace("&", "&amp;").replace("<", "&lt;")
    assert ElementTree.fromstring(f"<text>{escaped}</text>".encode()).text == shown


@given(st.text(), st.integers(0, 12))
def test_shortened_labels_fit(token: str, cells: int) -> None:
    label = visible(token)
    short = shorten(label, cells)
    assert cell_len(short) <= cells
    assert short == label or not short or short.endswith("…")


def test_shorten_counts_cells() -> None:
    assert shorten("international", 6) == "inter…"
    assert shorten("日本語学生", 6) == "日本…"
    assert shorten("abc", 3) == "abc"
