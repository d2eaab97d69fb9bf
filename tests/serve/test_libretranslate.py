"""LibreTranslate's API, by a client of it from PyPI; and what its other clients send."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError

import pytest
from libretranslatepy import LibreTranslateAPI

from serve.servers import Running
from weft.serve.keys import Keys, new_key


def test_the_client_of_libretranslate(running: Running) -> None:
    client = LibreTranslateAPI(running.url)
    assert client.languages() == [{"code": "aa", "name": "aa", "targets": ["bb", "transformer"]}]
    [expected] = running.translate("a b c")
    assert client.translate("a b c", "aa", "bb") == expected["text"]
    [expected] = running.translate("a b c", model="transformer")
    assert client.translate("a b c", "aa", "transformer") == expected["text"]
    assert client.detect("a") == [{"confidence": 0, "language": "aa"}]
    with pytest.raises(HTTPError) as caught:
        client.translate("a", "aa", "cc")
    assert caught.value.code == 400


def test_lists_alternatives_and_detection(running: Running) -> None:
    first, second = running.translate(["a b", "c"], n_best=3)
    body = {"q": ["a b", "c"], "source": "auto", "target": "bb", "alternatives": 2}
    assert running.post("/translate", **body).json() == {
        "translatedText": [first["text"], second["text"]],
        "alternatives": [[one["text"] for one in record["alternatives"]] for record in (first, second)],
        "detectedLanguage": [{"confidence": 0, "language": "aa"}] * 2,
    }
    assert running.post("/translate", q="", source="aa", target="bb").json() == {"translatedText": ""}


def test_lines_and_markup_stay(running: Running) -> None:
    first, second = (record["text"] for record in running.translate(["a b", "c"]))
    answer = running.post("/translate", q="a b\n\nc\n", source="aa", target="bb").json()
    assert answer == {"translatedText": f"{first}\n\n{second}\n"}
    answer = running.post("/translate", q="<p>a b</p><br>c", source="aa", target="bb", format="html").json()
    assert answer == {"translatedText": f"<p>{first}</p><br>{second}"}


def test_what_is_refused(running: Running) -> None:
    for status, body, words in (
        (
            400,
            {"q": "a", "source": "aa", "target": "zz"},
            "aa to zz is not supported; this service translates",
        ),
        (400, {"q": "a", "source": "aa"}, "target: field required"),
        (400, {"q": 3, "target": "bb"}, "q.str: input should be a valid string"),
        (400, {"q": "a", "target": "bb", "format": "pdf"}, "format: 'pdf' is not known"),
        (413, {"q": "a" * 5001, "target": "bb"}, "a text of 5,001 characters"),
    ):
        assert words in running.error(status, "/translate", **body)
    for content, kind, status in ((b"\xff", "application/x-www-form-urlencoded", 400), (b"a", "text/plain", 415)):
        response = running.client.post("/translate", content=content, headers={"content-type": kind})
        assert response.status_code == status and response.json()["error"]


def test_keys_in_the_body(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = new_key(tmp_path / "keys", "a client")
    keys = Keys.read(tmp_path / "keys")
    monkeypatch.setattr(running.service.guard, "keys", keys)
    monkeypatch.setitem(running.service.app.state._state, "accepted_keys", keys)
    assert LibreTranslateAPI(running.url, api_key=key).translate("a b", "aa", "bb")
    for wrong, status in ((None, 401), ("wrong", 403)):
        with pytest.raises(HTTPError) as caught:
            LibreTranslateAPI(running.url, api_key=wrong).translate("a b", "aa", "bb")
        assert caught.value.code == status
    assert "a key is needed" in running.error(401, "/api/models")
    assert running.client.get("/api/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert running.client.get("/api/models", headers={"Authorization": "Bearer no"}).status_code == 401
    assert running.client.get("/api/service").json()["needs_key"]
    assert running.client.post("/api/models/recurrent/reload").status_code == 401
    assert running.client.get("/metrics").status_code == 401
    for path in ("/health", "/ready", "/api/openapi.json"):
        assert running.client.get(path).status_code == 200
