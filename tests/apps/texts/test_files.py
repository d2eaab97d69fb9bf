"""Texts and files, translated."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.apps.texts.files import read_file, translate_file, translate_text
from weft.errors import DataError
from weft.translation.translator import Translator


class TestTexts:
    def test_layout(self, copier: Translator) -> None:
        text = "a b\n\n   \n\tc d\r\n- a\n"
        outputs = [str(one) for one in copier.translate(["a b", "c d", "a"], return_attention=False)]
        assert translate_text(copier, text) == "{}\n\n   \n\t{}\r\n- {}\n".format(*outputs)
        assert translate_text(copier, "") == "" and translate_text(copier, " \n") == " \n"

    def test_formats_and_splitters(self, copier: Translator) -> None:
        first, second = (str(one) for one in copier.translate(["a b", "c"], return_attention=False))
        assert weft.translate_text(copier, "<p>a b</p><p>c", format="html") == f"<p>{first}</p><p>{second}"
        assert weft.translate_text(copier, "a b|c", splitter=lambda line: line.split("|")) == f"{first}|{second}"


class TestFiles:
    def test_a_file(self, copier: Translator, tmp_path: Path) -> None:
        (tmp_path / "a.html").write_bytes(b"\xef\xbb\xbf<p>a <b>b</b></p>\r\n")
        result = weft.translate_file(copier, tmp_path / "a.html", tmp_path / "b.html")
        written = (tmp_path / "b.html").read_bytes()
        assert (
            written.decode() == result.text and written.startswith(b"\xef\xbb\xbf<p>") and written.endswith(b"</p>\r\n")
        )

    def test_what_is_refused(self, copier: Translator, tmp_path: Path) -> None:
        for name, content, message in (
            ("a.txt", b"a", "no format has this ending; give format="),
            ("a.html", b"a\nb\xff", "a.html:2: not valid UTF-8 (byte 0xff at column 2)"),
            ("b.html", "a".encode("utf-16"), "b.html: is UTF-16"),
            ("c.html", None, "c.html: no such file"),
        ):
            if content is not None:
                (tmp_path / name).write_bytes(content)
            with pytest.raises(DataError) as caught:
                translate_file(copier, tmp_path / name, tmp_path / "out")
            assert message in str(caught.value) and not (tmp_path / "out").exists()

    def test_huge_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("weft.apps.texts.files.MAX_BYTES", 3)
        (tmp_path / "a.html").write_bytes(b"abcd")
        with pytest.raises(DataError, match="more than 3 bytes; split it"):
            read_file(tmp_path / "a.html", "html")
