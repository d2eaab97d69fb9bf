"""Fields that are computed for a batch: the same as those of each output alone, whatever was read before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from weft.evaluation.calibrate import fit
from weft.recipe import Recipe
from weft.search.ranking import HypothesisArrays
from weft.text.id_rows import Sentences
from weft.training.train import train
from weft.translation.engines.interface import searched_batches
from weft.translation.flags import FLAGS, FlagRules, flags_of
from weft.translation.load import load
from weft.translation.translator import Translator

SOURCES = ["a b c", "a a a b", "zz b", "b", "c a d", "{x} a"]
RULES = FlagRules(off=("numbers-differ",), least_ratio=0.6, longest=3)


@pytest.fixture
def judging(copier: Translator) -> Translator:
    run = load(copier.folder)
    outputs = run.translate(SOURCES * 10, return_attention=False)
    model = fit(outputs, np.arange(60) % 3 > 0, name="exact match")
    run.text.confidence = replace(model, flag_rules=RULES)
    return run


def test_flags_of_a_batch_are_those_of_each_output(judging: Translator) -> None:
    outputs = judging.translate(SOURCES, return_attention=False)
    expected = [flags_of(one, RULES) for one in judging.translate(SOURCES, return_attention=False)]
    assert [one.flags for one in outputs] == expected
    assert set().union(*expected) >= {"unlike-training", "untranslated", "unknown-tokens"} and {*FLAGS} > set().union(
        *expected
    )


def test_flags_after_a_source_was_read_or_terms_were_given(judging: Translator) -> None:
    first, second = judging.translate(SOURCES[:2], return_attention=False)
    expected = [one.flags for one in judging.translate(SOURCES[:2], return_attention=False)]
    assert first.source == SOURCES[0] and [first.flags, second.flags] == expected
    vars(second)["terms"] = (("q",),)
    del vars(second)["flags"]
    assert second.flags == (*expected[1], "term-missing")


def test_confidences_of_a_model_that_copies_are_computed_together(
    tiny: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory
) -> None:
    changes = {"model.copy": True, "tokenizer.kind": "word", "tokenizer.minimum_count": 3, "training.steps": 3}
    path = tmp_path_factory.mktemp("copying") / "run"
    list(train(tiny(changes), path))
    run = load(path)
    outputs = run.translate(SOURCES * 10, return_attention=False)
    model = fit(outputs, np.arange(60) % 3 > 0, name="exact match")
    run.text.confidence = model
    calls: list[int] = []

    class Counting:
        flag_rules = model.flag_rules

        def of_batch(self, hypotheses: HypothesisArrays, sources: Sentences) -> list[float]:
            calls.append(len(hypotheses))
            return model.of_batch(hypotheses, sources)

    request = run.pipeline.tokenize(run.request(SOURCES))
    assert run.text.sentence_ids is not None
    assert all(isinstance(batch.hypotheses, HypothesisArrays) for batch in searched_batches(run.engine, request))
    run.text.confidence = Counting()  # type: ignore[assignment]
    outputs = run.translate(SOURCES, return_attention=False)
    assert not calls
    assert [one.confidence for one in outputs] == pytest.approx([model.of_output(one) for one in outputs], abs=1e-5)
    assert calls == [len(SOURCES)]
