"""Outputs that are taken from a translation memory, and similar pairs beside the others."""

from __future__ import annotations

import json

from weft.translation.load import load


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
