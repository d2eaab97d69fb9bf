"""Word documents: paragraphs with formats, links and pictures; archives that nobody should trust."""

from __future__ import annotations

import io
import re
import tracemalloc
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.apps.texts.files import read_file, translate_text
from weft.apps.texts.formats import docx
from weft.apps.texts.formats.docx import document_text, read_docx, translated_docx
from weft.errors import DataError
from weft.translation.translator import Translator

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BOLD = "<w:rPr><w:b/></w:rPr>"


def run(text: str, properties: str = "") -> str:
    return f'<w:r w:rsidR="00A1">{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def archive(body: str, **others: str) -> bytes:
    """A Word document with this body, and with other members."""
    main = f'<?xml version="1.0"?>\n<w:document xmlns:w="{W}" xmlns:r="r"><w:body>{body}</w:body></w:document>'
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        for name, text in {"word/document.xml": main, **others}.items():
            file.writestr(name, text)
    return output.getvalue()


def body_of(content: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        text = file.read("word/document.xml").decode()
    return text.partition("<w:body>")[2].removesuffix("</w:body></w:document>")


PARAGRAPH = (
    f'<w:p w:rsidR="1"><w:pPr><w:jc w:val="left"/></w:pPr>{run("he ")}<w:proofErr w:type="spellStart"/>{run("h")}'
    f'{run("it")}{run(" me", BOLD)}<w:bookmarkStart w:id="0"/>{run(" with a ")}'
    f'<w:hyperlink r:id="rId4">{run("pie", BOLD)}</w:hyperlink>'
    f"<w:r><w:tab/><w:drawing><w:txbxContent><w:p>{run('a box')}</w:p></w:txbxContent></w:drawing></w:r></w:p>"
)
TEXT = "he hit<f1> me</f1><o1/> with a <h1><f1>pie</f1></h1><o2/><o3/>"


class TestParagraphs:
    def test_text_with_simple_tags(self) -> None:
        content = archive(f"{PARAGRAPH}<w:p/><w:p>{run('5 + 6')}</w:p><w:sectPr/>")
        assert document_text(content, "a.docx") == f"<docx><part><p>{TEXT}</p>\n</part>\n</docx>\n"

    def test_the_way_back(self) -> None:
        content = archive(f"<w:tbl><w:tc>{PARAGRAPH}</w:tc></w:tbl><w:p/>")
        text = document_text(content, "a.docx").replace("he hit", "il a &lt;frappé&gt;")
        body = body_of(translated_docx(content, text, "a.docx"))
        assert body.startswith('<w:tbl><w:tc><w:p w:rsidR="1"><w:pPr><w:jc w:val="left"/></w:pPr><w:r><w:t xml:space')
        assert body.endswith("</w:p></w:tc></w:tbl><w:p/>") and "proofErr" not in body
        assert body.count("<w:drawing><w:txbxContent><w:p>") == 1 == body.count('<w:bookmarkStart w:id="0"/>')
        assert re.findall(r"<w:t [^>]*>([^<]*)", body) == ["il a &lt;frappé&gt;", " me", " with a ", "pie", "a box"]
        bold = [one.group(1) for one in re.finditer(r"<w:r><w:rPr><w:b/></w:rPr><w:t [^>]*>([^<]*)", body)]
        assert bold == [" me", "pie"]
        assert '<w:hyperlink r:id="rId4"><w:r>' in body

    @given(
        st.lists(
            st.tuples(
                st.text("ab <&é", min_size=1, max_size=5),
                st.sampled_from(["", BOLD, "<w:rPr><w:i/></w:rPr>"]),
                st.sampled_from(["", "<w:r><w:br/></w:r>", '<w:bookmarkEnd w:id="0"/>']),
            ),
            max_size=6,
        )
    )
    def test_an_unchanged_text_gives_the_same_words_in_the_same_formats(self, runs: list[tuple[str, str, str]]) -> None:
        escaped = [(text.replace("&", "&amp;").replace("<", "&lt;"), *others) for text, *others in runs]
        content = archive("<w:p>" + "".join(run(text, form) + after for text, form, after in escaped) + "</w:p>")
        back = translated_docx(content, document_text(content, "a"), "a")

        def letters(body: str) -> list[tuple[str, str]]:
            """Each character with the properties of its run, and the elements between runs."""
            root = ElementTree.fromstring(f'<a xmlns:w="{W}">{body}</a>')
            found: list[tuple[str, str]] = []
            for one in root.iter():
                if one.tag == f"{{{W}}}r":
                    form = "".join(sub.tag for sub in one.iterfind("w:rPr/*", {"w": W}))
                    text = "".join(sub.text or "" for sub in one.iterfind("w:t", {"w": W}))
                    found += [(character, form) for character in text]
                if one.tag.endswith(("}br", "}bookmarkEnd")):
                    found.append((one.tag, ""))
            return found

        assert letters(body_of(back)) == letters(body_of(content))


class TestFiles:
    def test_translated(self, copier: Translator, tmp_path: Path) -> None:
        footer = f'<w:ftr xmlns:w="{W}"><w:p>{run("c d")}</w:p></w:ftr>'
        content = archive(
            f"<w:p>{run('a ')}{run('b', BOLD)}{run(' c a d')}</w:p>",
            **{"word/footer1.xml": footer, "word/media/a.png": "\0"},
        )
        (tmp_path / "a.docx").write_bytes(content)
        result = weft.translate_file(copier, tmp_path / "a.docx", tmp_path / "b.docx")
        assert len(result.units) == 2 and result.sentences == 2
        written = (tmp_path / "b.docx").read_bytes()
        outputs = [str(one) for one in copier.translate(["a b c a d", "c d"], return_attention=False)]
        assert "".join(re.findall(r"<w:t [^>]*>([^<]*)", body_of(written))) == outputs[0]
        assert body_of(written).count(BOLD) == 1
        with zipfile.ZipFile(io.BytesIO(written)) as new, zipfile.ZipFile(io.BytesIO(content)) as old:
            assert new.namelist() == old.namelist() and new.read("word/media/a.png") == b"\0"
            assert outputs[1] in new.read("word/footer1.xml").decode()
        assert new.infolist()[0].compress_type == zipfile.ZIP_DEFLATED

    def test_a_bomb(self) -> None:
        """An archive that says how large it is, and one that does not: its member ends where it says that it does."""
        limits = docx.ArchiveLimits(size=2_000_000, text=1_000_000)
        with pytest.raises(DataError, match=r"3 members of 3,.* bytes unpacked; at most 10,000 members and 2,000,000 "):
            document_text(archive(PARAGRAPH, **{"word/media/a.png": "\0" * 3_000_000}), "a.docx", limits)
        with pytest.raises(DataError, match=r"1,5.* bytes of text with its layout; at most 1,000,000 are read"):
            document_text(archive(f"<w:p>{run('a' * 1_500_000)}</w:p>"), "a.docx", limits)
        size = 50_000_000
        lying = bytearray(archive(PARAGRAPH, **{"word/media/a.png": "\0" * size}))
        for place in (at for at in range(len(lying) - 4) if lying[at : at + 4] == size.to_bytes(4, "little")):
            lying[place : place + 4] = (100).to_bytes(4, "little")
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match=r"word/media/a.png is damaged|not a .docx that can be read"):
                document_text(bytes(lying), "a.docx", limits)
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()

    def test_what_is_refused(self, tmp_path: Path) -> None:
        entity = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a xmlns:w="{W}">&x;</a>'
        twice = io.BytesIO(archive("<w:p/>"))
        with zipfile.ZipFile(twice, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("word/document.xml", "<a/>")
        whole = archive(PARAGRAPH)
        damaged = bytearray(whole)
        damaged[whole.index(b"word/document.xml") + 60] ^= 255
        other = io.BytesIO()
        with zipfile.ZipFile(other, "w", zipfile.ZIP_LZMA) as file:
            file.writestr("word/document.xml", "<a/>")
        for content, message in (
            (b"no archive", r"not a .docx that can be read \(File is not a zip file\)"),
            (whole[:-40], "not a .docx that can be read"),
            (bytes(damaged), "not a .docx that can be read|is damaged"),
            (other.getvalue(), "word/document.xml is packed in another way than Word does; save it again"),
            (twice.getvalue(), "a member is there twice"),
            (archive("", **{"word/document.xml": entity}), r"word/document.xml:1: entities are declared here"),
            (archive("<w:p>"), r"word/document.xml:2: not well-formed XML"),
            (
                archive("", **{"word/document.xml": f'<n0:document xmlns:n0="{W}"/>'}),
                r"xml: its elements have the prefix n0:, ",
            ),
            (archive("", **{"word/document.xml": f"<document xmlns='{W}'/>"}), r"have no prefix, expected w:; open"),
        ):
            (tmp_path / "a.docx").write_bytes(content)
            with pytest.raises(DataError, match=message):
                read_file(tmp_path / "a.docx", "docx")
        with pytest.raises(DataError, match="docx is a format of files"):
            read_docx("<w:document/>")

    def test_a_text_is_no_file(self, copier: Translator) -> None:
        with pytest.raises(DataError, match="docx is a format of files, not of texts"):
            translate_text(copier, "a b", format="docx")
