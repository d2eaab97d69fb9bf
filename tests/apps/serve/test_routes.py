"""Translations, scores and heads by HTTP are those of the run in Python; what is wrong is answered in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from apps.serve.servers import Running
from weft.apps.serve.limits import KINDS
from weft.apps.serve.routes import score_parts
from weft.attention.edits import AttentionEdits, AttentionRow, Head
from weft.translation.translator import Translator

TEXTS = ["a b c", "b", "", "c a d b"]


@pytest.fixture(scope="module")
def translators(recurrent_run: Path, transformer_run: Path) -> dict[str, Translator]:
    return {path.name: weft.load(path, device="cpu") for path in (recurrent_run, transformer_run)}


every_model = pytest.mark.parametrize("model", ["recurrent", "transformer"])


def close(record: dict[str, Any], expected: Any) -> None:
    assert record["text"] == expected.text
    assert record["score"] == pytest.approx(expected.score, abs=1e-4)
    assert record["token_scores"] == pytest.approx(expected.token_scores, abs=1e-4)
    assert [tuple(link) for link in record["links"]] == expected.links
    if expected.attention is not None and expected.attention.size:
        assert record["attention"] == pytest.approx(expected.attention, abs=1e-4)


@every_model
@pytest.mark.parametrize("search", [{}, {"size": 2, "length_penalty": 0.5}, {"kind": "sample", "top_k": 3, "seed": 7}])
def test_translations_are_those_of_the_run(
    running: Running, translators: dict[str, Translator], model: str, search: dict[str, Any]
) -> None:
    found = running.translate(TEXTS, model=model, search=search, n_best=2, attention=True)
    for record, expected in zip(found, translators[model].translate(TEXTS, n_best=2, **search), strict=True):
        close(record, expected)
        assert record["length"] == len(expected.tokens) + (expected.ended == "end")
        for alternative, other in zip(record["alternatives"], expected.alternatives, strict=True):
            close(alternative, other)


def test_a_trace_and_a_prefix(running: Running, translators: dict[str, Translator]) -> None:
    expected = translators["recurrent"].translate("a b", return_trace=True, prefix="c")
    for prefix in ({"prefix": "c"}, {"prefix_ids": [translators["recurrent"].encode_target("c", "a b")[0]]}):
        [record] = running.translate("a b", trace=True, attention=True, **prefix)
        close(record, expected)
        assert record["tokens"][0] == "c"
        assert [[branch["id"] for branch in step] for step in record["trace"]["steps"]] == [
            [branch.token for branch in step] for step in expected.trace.steps
        ]
    [record] = running.translate("a b", trace=True, search={"kind": "greedy"})
    assert record["trace"]["kind"] == "path"
    assert [step["tokens"][step["chosen"]] for step in record["trace"]["steps"]][: len(record["tokens"])] == record[
        "tokens"
    ]


@every_model
def test_edits(running: Running, translators: dict[str, Translator], model: str) -> None:
    weights = [0.0, 0.0, 3.0, 1.0]
    edits = {"blocked": [0], "attention": [{"step": 1, "weights": weights}]}
    edited = translators[model].with_edits(AttentionEdits((0,), (AttentionRow(1, tuple(weights)),)))
    [record] = running.translate("a b c", model=model, attention=True, edits=edits)
    close(record, edited.translate("a b c"))
    assert record["attention"][0][0] == 0.0
    assert record["attention"][1] == pytest.approx([0.0, 0.0, 0.75, 0.25])
    off = {"kind": "cross", "layer": 1, "head": 1}
    [record] = running.translate("a b c", model=model, edits={"heads_off": [off]})
    close(
        record,
        translators[model]
        .with_edits(AttentionEdits(heads_off=(Head(**off),)))
        .translate("a b c", return_attention=False),
    )
    heads = running.post("/api/heads", text="a b c", model=model, edits={"heads_off": [off]}).json()["heads"]
    [silent] = [head for head in heads if (head["kind"], head["layer"], head["head"]) == ("cross", 1, 1)]
    assert not any(map(any, silent["weights"]))


@every_model
def test_heads_and_scores(running: Running, translators: dict[str, Translator], model: str) -> None:
    found = running.post("/api/heads", text="a b", model=model, target="b a").json()
    expected = translators[model].heads("a b", "b a")
    assert found["target_tokens"] == ["b", "a", "</s>"]
    assert len(found["heads"]) == len(expected)
    for head, other in zip(found["heads"], expected, strict=True):
        assert (head["kind"], head["layer"], head["head"]) == other[:3]
        assert head["weights"] == pytest.approx(other.weights_TS, abs=1e-5)
    pairs = [("a b", "b a"), ("c", "c")]
    scores = running.post("/api/score", pairs=pairs, model=model).json()["scores"]
    for score, one in zip(scores, translators[model].score(pairs), strict=True):
        assert score["log_probability"] == pytest.approx(one.log_probability, abs=1e-4)
        assert len(score["tokens"]) == len(score["token_scores"])


def test_models_and_settings(running: Running) -> None:
    models = {model["name"]: model for model in running.client.get("/api/models").json()["models"]}
    assert models["recurrent"]["architecture"] == "recurrent"
    assert models["recurrent"]["heads_of"]["cross"] == [1, 1]
    assert models["transformer"]["heads_of"] == {"encoder": [2, 2], "decoder": [2, 2], "cross": [2, 2], "copy": None}
    assert models["transformer"]["positions"] == "sinusoidal"
    assert models["recurrent"]["search"]["size"] == 5
    for model in models.values():
        assert model["state"] == "ready" and model["editable"] and not model["training"]
    settings = {one["name"]: one for one in running.client.get("/api/settings").json()["search"]}
    assert settings["size"] == {**settings["size"], "type": "integer", "minimum": 1, "maximum": 64, "kinds": ["beam"]}
    assert settings["top_p"]["kinds"] == ["sample", "mbr"]
    assert settings["kind"]["choices"] == list(KINDS)
    assert running.client.get("/api/service").json()["needs_key"] is False


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_search(running: Running, translators: dict[str, Translator], kind: str) -> None:
    search = {"kind": kind, "max_length": 3, "samples": 4, "seed": 1}
    [record] = running.translate("a b", search=search)
    close(record, translators["recurrent"].translate("a b", return_attention=False, **search))


def test_what_is_refused(running: Running) -> None:
    for status, body, words in (
        (404, {"model": "recurent"}, "model: 'recurent' is not served; did you mean 'recurrent'?"),
        (422, {"search": {"sise": 3}}, "search.sise: unknown setting; did you mean 'size'?"),
        (422, {"search": {"size": 65}}, "search.size: 65; at most 64 is accepted"),
        (422, {"search": {"size": "3"}}, "search.size: input should be a valid integer"),
        (422, {"search": {"kind": "best"}}, "search.kind: input should be 'greedy'"),
        (422, {"search": {"max_nodes": 10**6}}, "search.max_nodes: 1e+06; at most 20000 is accepted"),
        (422, {"search": {"length_penalty": 1e308}}, "search.length_penalty: 1e+308; at most 50 is accepted"),
        (422, {"search": {"size": 4, "groups": 3}}, "cannot be divided into 3 equal groups"),
        (422, {"search": {"banned": ["zz"]}}, "search.banned: 'zz' has symbols that are not in"),
        (422, {"prefix": "zz"}, "search.prefix: 'zz' has symbols that are not in this model's vocabulary; leave them"),
        (422, {"search": {"prefix": "zz"}}, "search.prefix: 'zz' has symbols that are not in"),
        (422, {"n_best": 65}, "n_best: 65; at most 64"),
        (422, {"n_best": 2, "search": {"kind": "greedy"}}, "greedy search finds one output"),
        (422, {"n_best": 0}, "n_best: "),
        (422, {"depth": 3}, "depth: Extra inputs are not permitted"),
        (422, {"edits": {"blocked": [9]}}, "blocked: position 9; the source has 4 tokens"),
        (422, {"edits": {"heads_off": [{"kind": "copy", "layer": 1, "head": 1}]}}, "no copy layer 1, head 1"),
        (422, {"text": ["a", "b"], "trace": True}, "trace: for one text at a time; 2 were given"),
        (422, {"prefix_ids": [999]}, "prefix_ids: 999; no token has this id"),
        (413, {"text": ["a"] * 1001}, "text: 1,001 texts; at most 1,000 are accepted at once"),
        (413, {"text": "a" * 5001}, "text: a text of 5,001 characters; at most 5,000 are accepted; split it"),
    ):
        assert words in running.error(status, "/api/translate", **{"text": "a b c", **body}), body
    assert "a text of 5,001" in running.error(413, "/api/score", pairs=[["a", "a" * 5001]])
    assert "one pair at a time" in running.error(422, "/api/score", pairs=[["a", "b"]] * 2, edits={"blocked": [0]})
    assert "it is empty" in running.error(422, "/api/heads", text=" ")
    assert running.error(404, "/api/nothing") == "not found"
    assert running.error(405, "/api/translate") == "GET is not allowed here"
    response = running.client.post("/api/translate", content=b"{", headers={"content-type": "application/json"})
    assert response.status_code == 400 and "JSON" in response.json()["error"]


def test_one_bad_text_fails_its_own_request_only(running: Running) -> None:
    """A batch in which one request cannot be searched is searched again without it."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(6) as pool:
        bodies = [{"text": "a b"}] * 5 + [{"text": "c", "search": {"required": ["zz"]}}]
        answers = list(pool.map(lambda body: running.post("/api/translate", **body), bodies))
    assert [answer.status_code for answer in answers] == [200] * 5 + [422]


def test_no_reload_through_a_proxy(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients have the address of this machine."""
    path = "/api/models/recurrent/reload"
    for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        response = running.client.post(path, headers={name: "203.0.113.9"})
        assert response.status_code == 403 and "through a proxy; start with --key-file" in response.json()["error"]
    changed = running.service.app.state.settings.model_copy(update={"hosts": ["mt.example"]})
    monkeypatch.setitem(running.service.app.state._state, "settings", changed)
    assert running.client.post(path).status_code == 403


def test_scores_in_parts(running: Running) -> None:
    """As many and in the order of the pairs; other clients have their turn between the parts."""
    pairs = [("a b", "b a"), ("c", "c d")] * 70
    parts = list(score_parts(pairs))
    assert [len(part) for part in parts] == [64, 64, 12] and [pair for part in parts for pair in part] == pairs
    assert [len(part) for part in score_parts([("a" * 4000, "b" * 4000)] * 3)] == [1, 1, 1]
    scores = running.post("/api/score", pairs=pairs).json()["scores"]
    alone = [running.post("/api/score", pairs=[pair]).json()["scores"][0] for pair in pairs[:2]]
    assert len(scores) == 140
    for score, expected in zip(scores, alone * 70, strict=True):
        assert score["log_probability"] == pytest.approx(expected["log_probability"], abs=1e-4)


def test_a_glossary_and_a_translation_memory(running: Running) -> None:
    request = {"model": "recurrent", "glossary": "c\td e", "memory": "d  d\tfrom before"}
    first, second = running.translate(["a b c", "d d"], **request)
    assert first["terms"] == [["d e"]] and second["text"] == "from before" and second["flags"] == ["from-memory"]
    for field, value, message in (
        ("glossary", "\n", "glossary: no terms; expected lines of a source term, a tab and a target term"),
        ("glossary", "/a+/\tb", "glossary: /a+/: regular expressions are for files alone"),
        ("glossary", "a\tb||c", "glossary:1: 'b||c': an empty target term"),
        ("memory", "a b", "memory:1: expected a source, a tab and its translation"),
        ("memory", "a\t", "memory: no pairs; expected lines of a source, a tab and its translation"),
    ):
        assert running.error(422, "/api/translate", text="a", model="recurrent", **{field: value}).startswith(message)
    message = running.error(422, "/api/translate", text="a", trace=True, **request)
    assert message == "trace: a search with a glossary keeps no trace; leave one of them out"


def test_a_text_is_no_picture_because_it_begins_like_one(running: Running) -> None:
    """The limit on characters holds for models that read texts."""
    text = "data:" + "a" * 5_001
    for path, body in (
        ("/api/translate", {"text": text}),
        ("/api/heads", {"text": text}),
        ("/api/score", {"pairs": [[text, "a"]]}),
    ):
        assert "a text of 5,006 characters" in running.error(413, path, **body)
