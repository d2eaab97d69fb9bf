"""The operations of a worker with the other engines of a CPU: eight-bit products and CTranslate2."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft.apps.serve import operations
from weft.apps.serve.worker import BatchObserver, Worker
from weft.data.arrays.tokenizer import PictureTokenizer
from weft.errors import SearchError, WeftError
from weft.models.build import build_model
from weft.translation.translator import Translator

LINES = ["a b c", "b", "d a a", "c d", "a b c d a b", "d d", "b c", "a"]


def loaded(run: Path, **config: Any) -> Translator:
    """What a worker of a service loads."""
    one = Worker(io.BytesIO(), io.BytesIO())
    one.config = {"runs": [str(run)], "device": "cpu", "threads": 1, **config}
    return one._load()


def texts(translator: Translator, lines: list[str], **payload: Any) -> list[str]:
    request = {"texts": lines, "search": {}, "n_best": 1, **payload}
    return [json.loads(record)["text"] for record in operations.translate(translator, request)]


def test_eight_bits_in_two_threads(transformer_run: Path) -> None:
    """As `weft translate --precision int8`, and no search disturbs another."""
    translator = loaded(transformer_run, precision="int8", engine="torch")
    own = weft.load(transformer_run, device="cpu", precision="int8", engine="torch")
    expected = [one.text for one in own.translate_lines(LINES)]
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(texts, translator, LINES) for _ in range(6)]
        assert [answer.result() for answer in answers] == [expected] * 6


def test_who_leaves_is_noticed_at_every_step(recurrent_run: Path) -> None:
    translator = loaded(recurrent_run)
    looked: list[int] = []
    observer = BatchObserver(lambda sentence: bool(looked.append(sentence)))
    records = operations.translate(translator, {"texts": LINES[:3], "search": {}, "n_best": 1}, observer)
    assert len(records) == 3 and {*looked} == {0, 1, 2}


def test_ctranslate2(transformer_run: Path) -> None:
    """As `weft translate --engine ctranslate2`; what has to show its steps, or begins with a prefix, by PyTorch."""
    pytest.importorskip("ctranslate2")
    translator = loaded(transformer_run, engine="ctranslate2")
    own = weft.load(transformer_run, device="cpu", engine="ctranslate2")
    search = {"stop": "finished", "size": 2, "no_loops": False}
    assert texts(translator, LINES, search=search) == [one.text for one in own.translate_lines(LINES, **search)]
    events: list[tuple[str, Any]] = []
    payload = {"texts": ["a b c"], "search": search, "n_best": 1}
    operations.stream(translator, payload, lambda name, data: events.append((name, data)), lambda: False)
    assert [name for name, _ in events][:2] == ["start", "step"]
    [text] = texts(translator, ["a b c"], search=search)
    assert events[-1][1]["translation"]["text"] == text
    [prefixed] = texts(translator, ["a b c"], search=search, prefix="d")
    assert prefixed.startswith("d")
    [traced] = operations.translate(translator, {**payload, "trace": True})
    assert json.loads(traced)["trace"]["steps"]


STACK = {"kind": "transformer", "layers": 1, "hidden": 8, "heads": 2, "feed_forward": 5, "max_positions": 7}


def untrained(tiny: Any, positions: str, *sides: str) -> Any:
    """A Transformer in which nothing but positions can be looked at."""
    stack = {**STACK, "positions": positions}
    stacks = {f"model.{side}.{name}": value for side in sides for name, value in stack.items()}
    recipe = tiny({"name": "mine", "data.max_length": 6, "model.embedding": 8, **stacks})
    return SimpleNamespace(recipe=recipe, model=build_model(recipe.model, source_size=5, target_size=5))


@pytest.mark.parametrize(("length", "expected"), [(3, 3), (7, 7), (8, 7)])
def test_learned_positions(tiny: Any, length: int, expected: int) -> None:
    translator = untrained(tiny, "learned", "encoder", "decoder")
    answer = json.loads(operations.positions(translator, {"length": length}))
    table_PD = translator.model.encoder.stack.positions.weight_PD
    assert (answer["kind"], answer["side"]) == ("learned", "encoder")
    assert np.array(answer["matrix"]) == pytest.approx(table_PD[:expected].detach().numpy(), abs=1e-6)


def test_the_positions_of_a_decoder(tiny: Any) -> None:
    translator = untrained(tiny, "sinusoidal", "decoder")
    answer = json.loads(operations.positions(translator, {"length": 9}))
    assert (answer["kind"], answer["side"], len(answer["matrix"])) == ("sinusoidal", "decoder", 9)


def test_positions_without_a_table(tiny: Any) -> None:
    with pytest.raises(WeftError, match="mine: positions are rotary, which have no table"):
        operations.positions(untrained(tiny, "rotary", "encoder", "decoder"), {"length": 3})


NAMES = ["<unk>", "<s>", "</s>", "a", "b"]


@pytest.mark.parametrize(
    ("token", "encoded", "expected"),
    [("b", [3], 4), ("B", [4], 4), ("zz", [0], None), ("a b", [3, 4], None), ("zz", [], None)],
)
def test_a_token_by_its_name_or_its_text(token: str, encoded: list[int], expected: int | None) -> None:
    if expected is not None:
        assert operations._find_token(token, NAMES, encoded) == expected
        return
    with pytest.raises(WeftError, match=f"token: '{token}' is not in the vocabulary; look at the tokens of a text"):
        operations._find_token(token, NAMES, encoded)


def test_a_token_that_is_nearly_in_the_vocabulary() -> None:
    with pytest.raises(WeftError, match=r"token: 'hause' is not in the vocabulary; did you mean 'house'\?"):
        operations._find_token("hause", [*NAMES, "house"], [0])


def test_what_is_copied_is_told_with_the_attention(recurrent_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "copied_tokens", lambda self, result: (["x", "y"], [0.25, 0.5], [0.75, 0.1]))
    translator = loaded(recurrent_run)
    payload = {"texts": ["a b c"], "search": {"min_length": 2}, "n_best": 1}
    copied = {"tokens": ["x", "y"], "copied": [0.25, 0.5], "gates": [0.75, 0.1]}
    [record] = operations.translate(translator, {**payload, "attention": True})
    assert json.loads(record)["copied"] == copied
    [record] = operations.translate(translator, payload)
    assert json.loads(record)["copied"] is None
    events: list[tuple[str, Any]] = []
    operations.stream(translator, payload, lambda name, data: events.append((name, data)), lambda: False)
    assert events[-1][1]["translation"]["copied"] == copied


def test_a_glossary_and_a_memory(recurrent_run: Path) -> None:
    translator = loaded(recurrent_run)
    request = {"texts": ["a b c", "d d", "b"], "search": {"max_length": 9}, "n_best": 1}
    known = {"glossary": "c\td e\n", "memory": "d  d\tfrom before\nb a\tsimilar\n"}
    first, second, third = map(json.loads, operations.translate(translator, request | known))
    assert first["terms"] == [["d e"]] and ("d e" in first["text"] or "term-missing" in first["flags"])
    assert second["text"] == "from before" and second["flags"] == ["from-memory"] and second["memory"][0]["exact"]
    assert third["memory"] == [{"source": "b a", "target": "similar", "similarity": 0.5, "exact": False}]
    assert third["text"] == json.loads(operations.translate(translator, request)[2])["text"]
    with pytest.raises(SearchError, match="glossary: not with a search that is streamed; use /api/translate"):
        operations.stream(translator, request | known, lambda name, data: None, lambda: False)


def test_a_picture_is_one_token_without_an_embedding(tiny: Any) -> None:
    arrays = {"tokenizer.kind": "picture", "tokenizer.target_kind": "character", "tokenizer.joint": False}
    recipe = tiny(arrays | {"model.stem.kind": "columns"})
    model = build_model(recipe.model, source_size=0, target_size=7)
    tokenizers = SimpleNamespace(source=PictureTokenizer(channels=1))
    served: Any = SimpleNamespace(recipe=recipe, model=model, tokenizers=tokenizers)
    name = "drawn-digits:pictures/12-6-0a1b2c3d4e5f.png"
    answer = json.loads(operations.tokens(served, {"text": name, "side": "source"}))
    assert answer["ids"] == [] and len(answer["tokens"]) == 1 and answer["tokens"][0].startswith("[picture 24 × ")
    with pytest.raises(WeftError, match=r": this model has no source embedding to look into$"):
        operations.neighbors(served, {"token": "1", "side": "source", "count": 3})
