"""Outputs that are taken from a translation memory, and similar pairs beside the others."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from weft.recipe.search import SearchSettings
from weft.translation.engines.interface import TranslationRequest
from weft.translation.load import load
from weft.translation.results import Translation, empty_translation
from weft.translation.translation_memory import search_with_memory


def test_outputs_from_a_memory(finished) -> None:
    run = load(finished)
    sources = ["a b c", "a b", "b a c c"]
    plain = run.translate(sources)
    outputs = run.translate(sources, translation_memory={"a  b": "from before", "b a c": "similar"})
    assert [output.text for output in outputs] == [plain[0].text, "from before", plain[2].text]
    assert outputs[1].flags == ("from-memory",) and outputs[1].memory[0].exact and outputs[1].source == "a b"
    assert [match.target for match in outputs[2].memory] == ["similar"]
    assert outputs[2].ids == plain[2].ids and outputs[2].memory[0].similarity == 0.75
    assert run.translate("a b", translation_memory=[("a b", "t")]).text == "t"
    texts = run.translate(sources, translation_memory={"a b": "t"}, prefix="b")
    assert texts[1].text == "t" and texts[0].text.startswith("b")


def test_the_json_of_a_match(finished) -> None:
    from weft.translation.output_format import record

    output = load(finished).translate("a b", translation_memory={"a b": "t"})
    assert json.loads(json.dumps(record(output)))["memory"] == [
        {"source": "a b", "target": "t", "similarity": 1.0, "exact": True}
    ]


def test_the_rows_of_clients_that_have_left() -> None:
    """A source in the memory is not searched: the rows of the others keep their places for the observer."""
    left = {2}

    class Observer:
        def on_step(self, sentences: object, record: object) -> None:
            raise AssertionError("nothing is searched here")

        def is_abandoned(self, sentence: int) -> bool:
            return sentence in left

    def search(rest: TranslationRequest) -> list[Translation]:
        assert rest.texts == ["b", "c", "d"] and rest.observer is not None
        assert [rest.observer.is_abandoned(row) for row in range(3)] == [False, True, False]
        return [empty_translation(text) for text in rest.texts]

    request = TranslationRequest(settings=SearchSettings(), texts=["a", "b", "c", "d"], observer=Observer())
    recipe = SimpleNamespace(data=SimpleNamespace(fuzzy=SimpleNamespace(file=None)))
    run: Any = SimpleNamespace(search=search, recipe=recipe)
    outputs = search_with_memory(run, request, {"a": "x", "c d": "y"})
    assert [output.source for output in outputs] == ["a", "b", "c", "d"] and outputs[0].text == "x"
