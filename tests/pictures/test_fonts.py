from __future__ import annotations

import pytest

from weft.pictures import fonts


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with no fonts but those matplotlib brings."""
    from matplotlib import font_manager, get_data_path

    fonts._add_new_system_fonts()
    bundled = [font for font in font_manager.fontManager.ttflist if font.fname.startswith(get_data_path())]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", bundled)


def test_latin_needs_the_default_font_only() -> None:
    assert fonts.choose("déjà vu, жук, αβγ ␣⏎⇥∅◌…") == (["DejaVu Sans"], "")


def test_characters_without_a_font_are_named(bare_machine: None) -> None:
    chosen = fonts.choose("a 日 ह 日")
    assert chosen.families == ["DejaVu Sans"]
    assert chosen.missing == "ह日"


def test_an_installed_font_is_found(bare_machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import font_manager

    entries = font_manager.fontManager.ttflist
    kanji = font_manager.FontEntry(fname="/kanji.ttc", name="Kanji", style="normal", weight=400, stretch="normal")
    slanted = font_manager.FontEntry(fname="/slanted.ttf", name="Slanted", style="italic", stretch="normal")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [slanted, kanji, *entries])
    real = fonts._characters
    known = {"/kanji.ttc": frozenset("日本"), "/slanted.ttf": frozenset("日本ह")}
    monkeypatch.setattr(fonts, "_characters", lambda path, face: known.get(path) or real(path, face))
    assert fonts.choose("日本 a ह") == (["DejaVu Sans", "Kanji"], "ह")


def test_a_file_that_is_no_font_has_no_characters(tmp_path) -> None:
    (tmp_path / "broken.ttf").write_bytes(b"not a font")
    assert fonts._characters(str(tmp_path / "broken.ttf"), 0) == frozenset()
    assert fonts._characters(str(tmp_path / "absent.ttf"), 0) == frozenset()
