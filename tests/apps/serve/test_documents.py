"""Texts of several sentences and documents in the service."""

from __future__ import annotations

import asyncio
import io
import re
import threading
import zipfile
from base64 import b64decode, b64encode
from types import SimpleNamespace
from typing import Any

import pytest

from apps.serve.servers import Running
from weft.apps.serve.documents import DOCX_URL, Turns


def test_a_text(running: Running) -> None:
    first, second = (record["text"] for record in running.translate(["a b .", "c"]))
    answer = running.post("/api/translate", text=["a b . c\n- c", "c"], format="text").json()
    texts = [record["text"] for record in answer["translations"]]
    assert texts == [f"{first} {second}\n- {second}", second]
    assert [unit["text"] for unit in answer["translations"][0]["units"]] == [f"{first} {second}", f"- {second}"]
    assert answer["translations"][0]["sentences"] == 3


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("html", "<p>a b</p><code>c</code>", "<p>{}</p><code>c</code>"),
        ("xml", "<r><a>a b</a></r>", "<r><a>{}</a></r>"),
        ("markdown", "## a b\n\n    code\n", "## {}\n\n    code\n"),
        ("json", '{{"a": ["a b", 1]}}', '{{"a": ["{}", 1]}}'),
    ],
)
def test_documents(running: Running, format: str, text: str, expected: str) -> None:
    [record] = running.translate(["a b"])
    answer = running.post("/api/translate", text=text.replace("{{", "{").replace("}}", "}"), format=format).json()
    assert answer["translations"][0]["text"] == expected.format(record["text"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"format": "json", "text": "{"}, "text:1: not JSON"),
        ({"format": "xml", "text": "<a><b></a>"}, "text:1: not well-formed XML: mismatched tag"),
        ({"format": "html", "text": "a", "n_best": 2}, "n_best: 2; a text with format = 'html' has one output"),
        ({"format": "html", "text": "a", "trace": True}, "trace: for single sentences, not with format = 'html'"),
        ({"format": "pdf", "text": "a"}, "format: Input should be 'sentence', 'text', 'html'"),
    ],
)
def test_what_is_refused(running: Running, body: dict[str, object], words: str) -> None:
    assert words in running.error(422, "/api/translate", **body)


def test_sentences_have_the_limits_of_texts(running: Running) -> None:
    assert "a text of 5,001 characters" in running.error(413, "/api/translate", text="a" * 5001, format="text")
    sentences = ". ".join(map("A {}".format, range(1001)))
    assert "1,001 texts" in running.error(413, "/api/translate", text=sentences, format="text")


def test_documents_have_limits_of_their_own(running: Running) -> None:
    """Equal sentences count, and texts that have no sentence."""
    for body, words in (
        ({"text": "a " * 100_001}, "200,002 characters together; at most 200,000 are accepted at once"),
        ({"text": "a\n" * 1_001}, "more than 1,000 paragraphs or lines"),
        ({"text": ["a"] * 1_001}, "1,001 texts"),
    ):
        assert words in running.error(413, "/api/translate", format="text", **body)
    many = running.client.post("/translate", json={"q": [""] * 300_000, "source": "auto", "target": "x"})
    assert many.status_code in (400, 413), "before any of them is looked at"


def word_document(body: str, **others: bytes) -> bytes:
    """A Word document with this body."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>')
        for name, content in others.items():
            file.writestr(name, content)
    return output.getvalue()


def data_url(content: bytes) -> str:
    return DOCX_URL + b64encode(content).decode("ascii")


PARAGRAPH = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"


def test_a_word_document(running: Running) -> None:
    """As a data URL in JSON, and as a file in a form."""
    content = word_document(PARAGRAPH.format("a b") + PARAGRAPH.format("c"), **{"word/media/a.png": b"png"})
    expected = [record["text"] for record in running.translate(["a b", "c"])]
    form = {"format": (None, "docx"), "file": ("a.docx", content)}
    answers = (
        running.post("/api/translate", format="docx", text=data_url(content)),
        running.client.post("/api/translate", files=form),
    )
    for answer in answers:
        assert answer.status_code == 200, answer.text
        [record] = answer.json()["translations"]
        assert [unit["text"] for unit in record["units"]] == expected and record["sentences"] == 2
        written = b64decode(record["text"].removeprefix(DOCX_URL), validate=True)
        with zipfile.ZipFile(io.BytesIO(written)) as file:
            text = file.read("word/document.xml").decode()
            assert re.findall(r"<w:t[^>]*>([^<]*)", text) == expected and file.read("word/media/a.png") == b"png"


def test_what_is_no_word_document(running: Running) -> None:
    """Nor one that is too large when it is unpacked, or in its number of characters."""
    bomb = word_document("<w:p/>", **{"word/media/a.png": b"\0" * 20_000_001})
    for text, status, words in (
        ("a b", 422, "text: expected data:…;base64, and the bytes of a .docx file in base64"),
        (DOCX_URL + "a", 422, "text: damaged base64"),
        (data_url(b"a"), 422, "text: not a .docx that can be read"),
        (data_url(bomb), 422, "bytes unpacked; at most 10,000 members and 20,000,000 bytes are read"),
        (data_url(word_document("<w:p/>" * 400_000)), 422, "of text with its layout; at most 1,000,000 are read"),
        (data_url(word_document(PARAGRAPH.format("a " * 100_001))), 413, "characters together; at most 200,000"),
        (data_url(word_document(PARAGRAPH.format("a") * 1_001)), 413, "more than 1,000 paragraphs or lines"),
    ):
        assert words in running.error(status, "/api/translate", text=text, format="docx")


def test_clients_take_turns_with_their_documents() -> None:
    """One thread at a time; a client that leaves gives its turn on, and its thread keeps it until it ends."""
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert go_on.wait(60)

    def request(client: str) -> Any:
        return SimpleNamespace(state=SimpleNamespace(client=client))

    async def run() -> None:
        turns = Turns()
        running = asyncio.create_task(turns.compute(request("a"), first))
        await asyncio.to_thread(begun.wait)
        names = ["a1", "a2", "a3", "b1", "b2"]
        waiting = [asyncio.create_task(turns.compute(request(name[0]), order.append, name)) for name in names]
        await asyncio.sleep(0)
        waiting[1].cancel()
        running.cancel()
        await asyncio.sleep(0)
        assert turns.is_taken and not order
        go_on.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert not turns.is_taken and not turns.waiting

    asyncio.run(run())
    assert order == ["a1", "b1", "a3", "b2"]


def test_half_of_a_surrogate_pair(running: Running) -> None:
    content = b'{"format": "text", "text": "a \\ud800"}'
    response = running.client.post("/api/translate", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 422 and "is half of a surrogate pair" in response.json()["error"]
