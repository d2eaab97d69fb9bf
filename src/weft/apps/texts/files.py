"""Texts and files, translated: `weft.translate_text`, `weft.translate_file`, and `weft translate FILE` of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.texts.formats import ENDINGS, FORMATS, format_of, read_document
from weft.apps.texts.formats.docx import DEFAULT_LIMITS, ArchiveLimits, document_text, translated_docx
from weft.apps.texts.pieces import Document
from weft.apps.texts.sentences import Splitter
from weft.apps.texts.translation import DocumentTranslation, translate_document
from weft.data.reading.text_files import check_text, decode_line, display_name, open_decompressed, read_errors
from weft.errors import DataError, plural, warn
from weft.files import save_bytes

if TYPE_CHECKING:
    from weft.translation.translator import Translator

MAX_BYTES = 200_000_000


def translate_text(
    run: Translator,
    text: str,
    *,
    format: str = "text",
    splitter: Callable[[str], Sequence[str]] | None = None,
    **search: Any,
) -> str:
    """The translation of a text of several sentences, paragraphs or lines, or of a document, in the same layout.

        weft.translate_text(run, "He left. She slept.\\n\\n- A list")
        weft.translate_text(run, "<p>He <b>left</b>.</p>", format="html")

    ``format``: text, html, xml, markdown, srt, vtt, po, xliff or json. ``splitter``: a function that returns the
    sentences of a paragraph in order, each as it stands there, in place of weft's rules.
    """
    document = read_document(text, format)
    return translate_document(run, document, splitter=Splitter.of_run(run, splitter), **search).text


def translate_file(
    run: Translator,
    source: Path | str,
    output: Path | str | None = None,
    *,
    format: str | None = None,
    splitter: Callable[[str], Sequence[str]] | None = None,
    **search: Any,
) -> DocumentTranslation:
    """The translation of a document, written to ``output``, if given, once it is complete.

        weft.translate_file(run, "page.html", "page.fr.html").flags

    ``format``: as `translate_text` has them, or docx; by default that of the ending of the file's name. The text of a
    translated docx has simple tags; the file has those of Word (`weft.apps.texts.formats.docx`).
    """
    format = format or format_of(source)
    if format is None:
        raise DataError(f"{source}: no format has this ending; give format=, or use one of {', '.join(ENDINGS)}")
    file = read_file(source, format)
    given = Splitter.of_run(run, splitter)
    result = translate_document(run, file.document, splitter=given, **search)
    warn_of_clauses(given)
    if output is not None:
        save_bytes(Path(output), file.content_with(result.text))
    return result


class DocumentFile(NamedTuple):
    """A document in a file."""

    document: Document
    name: str
    archive: bytes | None = None
    """The file, if it is an archive that has the text in it."""

    def content_with(self, text: str) -> bytes:
        """The content of the file with the text of the translated document."""
        return text.encode("utf-8") if self.archive is None else translated_docx(self.archive, text, self.name)


def read_file(source: Path | str, format: str) -> DocumentFile:
    """The document that a file holds, as UTF-8 or in an archive."""
    name = display_name(source)
    with read_errors(name, lambda: 0), open_decompressed(source) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DataError(f"{name}: more than {MAX_BYTES:,} bytes; split it")
    if format == "docx":
        return docx_file(content, name)
    check_text(content[:1000], name)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        line = decode_line(content.split(b"\n", number)[number - 1], name, number)
        raise DataError(line if isinstance(line, str) else line.message) from None
    return DocumentFile(read_document(text, format, name), name)


def docx_file(content: bytes, name: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> DocumentFile:
    """The document that the content of a .docx file holds."""
    return DocumentFile(read_document(document_text(content, name, limits), "docx", name), name, content)


def warn_of_clauses(splitter: Splitter) -> None:
    """Say that sentences were divided at clauses, if any were."""
    if splitter.divided:
        sentences = plural(splitter.divided, "sentence")
        warn(f"{sentences} divided at clauses: longer than nearly all that the model was calibrated on")


__all__ = ["ENDINGS", "FORMATS", "format_of", "read_file", "translate_file", "translate_text"]
