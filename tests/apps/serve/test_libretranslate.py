"""LibreTranslate's API, by a client of it from PyPI; and what its other clients send."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from libretranslatepy import LibreTranslateAPI

from apps.serve.servers import Running, settings
from weft.apps.serve import libretranslate
from weft.apps.serve.keys import Keys, new_key


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


def test_texts_are_split_and_their_layout_stays(running: Running) -> None:
    first, second = (record["text"] for record in running.translate(["a b .", "c"]))
    answer = running.post("/translate", q="a b . c\n\nc\n", source="aa", target="bb").json()
    assert answer == {"translatedText": f"{first} {second}\n\n{second}\n"}
    answer = running.post("/translate", q="<p>a b .</p><br>c", source="aa", target="bb", format="html").json()
    assert answer == {"translatedText": f"<p>{first}</p><br>{second}"}


def test_sentences_of_html_are_translated_whole(running: Running) -> None:
    [record] = running.translate(["a b c"])
    html = "<p>a <b>b</b> c</p><script>a < b</script><!-- a -->"
    answer = running.post("/translate", q=[html, "a b c"], source="aa", target="bb", format="html").json()
    whole, plain = answer["translatedText"]
    assert plain == record["text"] and whole.endswith("</p><script>a < b</script><!-- a -->")
    assert whole.removeprefix("<p>").split("</p>")[0].replace("<b>", "").replace("</b>", "") == record["text"]
    ranked = running.post("/translate", q=html, source="aa", target="bb", format="html", alternatives=2).json()
    assert len(ranked["alternatives"]) == 2 and all(text.count("<b>") == 1 for text in ranked["alternatives"])


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


def test_a_form(running: Running) -> None:
    """With one text or several; without a source language it is not known."""
    first, second = (record["text"] for record in running.translate(["a b", "c"]))
    one = running.client.post("/translate", data={"q": "a b", "source": "aa", "target": "bb"}).json()
    assert one == {"translatedText": first}
    both = running.client.post("/translate", data={"q": ["a b", "c"], "source": "", "target": "bb"}).json()
    detected = {"confidence": 0, "language": "aa"}
    assert both == {"translatedText": [first, second], "detectedLanguage": [detected] * 2}


def test_what_the_page_of_libretranslate_asks_for(running: Running) -> None:
    answer = running.client.get("/frontend/settings").json()
    assert answer["language"] == {"source": {"code": "aa", "name": "aa"}, "target": {"code": "bb", "name": "bb"}}
    assert (answer["apiKeys"], answer["keyRequired"], answer["charLimit"]) == (False, False, 5_000)
    assert (answer["suggestions"], answer["supportedFilesFormat"]) == (False, [])


@pytest.mark.parametrize(("chosen", "codes"), [(None, ["de", "fr"]), ({"source": "en", "target": "el"}, ["en", "el"])])
def test_the_first_languages_of_a_model_of_several(chosen: Any, codes: list[str]) -> None:
    """Those that it is set to, else the first of each side."""
    info = {
        "languages": {"source": ["de", "en"], "target": ["fr", "el"]},
        "language": chosen or {"source": None, "target": None},
    }
    model = SimpleNamespace(info=info, languages=("aa", "bb"), name="m")
    state = SimpleNamespace(
        models=SimpleNamespace(by_name={"m": model}), settings=settings(max_characters=7), accepted_keys=Keys({})
    )
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
    answer = asyncio.run(libretranslate.frontend_settings(request))
    assert [answer["language"][side]["code"] for side in ("source", "target")] == codes
    assert answer["keyRequired"] and answer["charLimit"] == 7


@pytest.mark.parametrize(
    ("info", "targets"),
    [
        ({"languages": {"source": [], "target": ["fr", "el"]}}, ["el"]),  # not into the same language
        ({"languages": {"source": [], "target": []}}, ["fr"]),  # unless a run has these names
        ({}, ["fr"]),
    ],
)
def test_the_languages_into_which_a_model_translates(info: dict[str, Any], targets: list[str]) -> None:
    model = SimpleNamespace(info=info, languages=("fr", "fr"), name="m")
    state = SimpleNamespace(models=SimpleNamespace(by_name={"m": model}))
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
    assert asyncio.run(libretranslate.languages(request)) == [{"code": "fr", "name": "fr", "targets": targets}]


def test_a_multipart_form(running: Running) -> None:
    """As curl -F and browsers send it."""
    [expected] = running.translate("a b é")
    form = {"q": (None, "a b é"), "source": (None, "aa"), "target": (None, "bb")}
    assert running.client.post("/translate", files=form).json() == {"translatedText": expected["text"]}
    several = [("q", (None, "a")), ("q", (None, "b")), ("target", (None, "bb"))]
    assert len(running.client.post("/translate", files=several).json()["translatedText"]) == 2
    file = {"q": ("a.txt", b"a b"), "target": (None, "bb")}
    assert "files are not translated" in running.client.post("/translate", files=file).json()["error"]
    for content in (b"", b"--x\r\n\r\na\r\n--x--", b"\xff" * 100, b"--x\r\nContent-Disposition: form-data; name=q"):
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        response = running.client.post("/translate", content=content, headers=kind)
        assert response.status_code == 400 and set(response.json()) == {"error"}, response.text
