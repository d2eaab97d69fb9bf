"""``weft translate`` of documents."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
Refusal = Callable[..., str]
Runs = Callable[[str], Path]


def test_by_the_ending_of_the_file(command: Command, runs: Runs, tmp_path: Path) -> None:
    page, out = tmp_path / "page.html", tmp_path / "out.html"
    page.write_text("<p>a b</p>\n<script>c</script>\n", "utf-8")
    printed = command("translate", runs("lstm"), page)
    assert printed.stdout.startswith("<p>") and printed.stdout.endswith("</p>\n<script>c</script>\n")
    shown = command("translate", runs("lstm"), page, "--output", out, "--flags")
    assert out.read_text("utf-8") == printed.stdout and "weft: 1 sentence in 1 text\n" in shown.stderr
    lines = command("translate", runs("lstm"), page, "--format", "lines").stdout
    assert lines.count("\n") == 2


def test_a_given_format(command: Command, runs: Runs, tmp_path: Path) -> None:
    path = tmp_path / "strings.txt"
    path.write_text('{"key": "a b"}', "utf-8")
    assert command("translate", runs("lstm"), path, "--format", "json").stdout.startswith('{"key": "')


def test_a_word_document(command: Command, refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
    """It is written, and never printed."""
    source, out = tmp_path / "a.docx", tmp_path / "b.docx"
    with zipfile.ZipFile(source, "w") as file:
        file.writestr("word/document.xml", '<w:p xmlns:w="w"><w:r><w:t>a b</w:t></w:r></w:p>')
    assert refusal("translate", runs("lstm"), source) == f"{source}: a translated docx is not printed; give --out FILE"
    command("translate", runs("lstm"), source, "--out", out)
    with zipfile.ZipFile(out) as file:
        assert file.read("word/document.xml").startswith(b'<w:p xmlns:w="w"><w:r><w:t xml:space="preserve">')


def test_a_document_is_one_with_text_as_well(command: Command, runs: Runs, tmp_path: Path) -> None:
    source = tmp_path / "page.html"
    source.write_text("<p>a <b>b</b> c</p>", "utf-8")
    expected = command("translate", runs("lstm"), source).stdout
    assert command("translate", runs("lstm"), source, "--text").stdout == expected and "<b>" in expected


def test_texts_that_stay_as_they_are_are_reported(command: Command, runs: Runs, tmp_path: Path) -> None:
    source = tmp_path / "page.html"
    source.write_text("<p>" + "a " * 600_000 + "</p><p>b</p>", "utf-8")
    shown = command("translate", runs("lstm"), source)
    assert shown.stdout.startswith("<p>" + "a " * 600_000)
    assert "weft: untranslated: " in shown.stderr and " of 2 texts, such as 'a a a" in shown.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--format", "htm"],
            "--format htm: expected lines, text, html, xml, markdown, srt, vtt, po, xliff, json, docx; did",
        ),
        (["--format", "html", "--text"], "--text and --format: choose one of them; --text is for files of lines"),
        (["--n-best", "2"], "page.html: --n-best: not for a document (html); --format lines translates its lines"),
        (["--json"], "page.html: --json: not for a document (html); --format lines translates its lines"),
        (["--part", "1/2"], "page.html: --resume, --part, --merge and --ray: not for a document (html)"),
    ],
)
def test_options_that_documents_do_not_have(
    refusal: Refusal, runs: Runs, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "page.html").write_text("a", "utf-8")
    assert message in refusal("translate", runs("lstm"), tmp_path / "page.html", *options)


def test_bad_files(refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<a>\n<b>", "utf-8")
    message = refusal("translate", runs("lstm"), tmp_path / "a.xml", "--output", tmp_path / "b.xml")
    assert "a.xml:2: not well-formed XML" in message and not (tmp_path / "b.xml").exists()
