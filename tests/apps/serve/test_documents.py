"""Texts of several sentences and documents in the service."""

from __future__ import annotations

import pytest

from apps.serve.servers import Running


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
    assert "1,001 texts" in running.error(
        413, "/api/translate", text="\n".join(map("a {}".format, range(1001))), format="text"
    )


def test_half_of_a_surrogate_pair(running: Running) -> None:
    content = b'{"format": "text", "text": "a \\ud800"}'
    response = running.client.post("/api/translate", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 422 and "is half of a surrogate pair" in response.json()["error"]
