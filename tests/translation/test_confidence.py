"""Confidence of outputs: its features in arrays and one by one, its file, and files that are damaged."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from weft.errors import CheckpointError
from weft.evaluation.calibrate import calibrate, fit
from weft.search.ranking import HypothesisArrays, PendingHypotheses
from weft.text.id_rows import IdRows, Sentences
from weft.translation.confidence import (
    FEATURES,
    FILE_NAME,
    FORMER_FEATURES,
    TOKEN_FEATURES,
    ConfidenceModel,
    batch_features,
    feature_matrix,
    output_features,
    read_confidence,
    weights_checksum,
)
from weft.translation.engines.interface import searched_batches
from weft.translation.flags import FlagRules, flags_of_batch, flags_of_tokens
from weft.translation.load import load
from weft.translation.neighbors import Neighbors
from weft.translation.results import Translation, empty_translation
from weft.translation.translator import Translator

SOURCES = [f"{a} {b} {c}".strip() for a in "abcd" for b in "abcd" for c in ("", "a", "d", "q a")]


def output(**changes: Any) -> Translation:
    """Three tokens, one of them unknown, from a source of four and its end token."""
    fields: dict[str, Any] = {
        **vars(empty_translation("w x y z")),
        "text": "a b ?",
        "log_probability": -3.0,
        "tokens": ["a", "b", "<unk>"],
        "ids": [5, 6, 1],
        "token_scores": [-0.5, -1.5, -0.75, -0.25],
        "source_tokens": ["w", "<unk>", "y", "z", "</s>"],
    }
    return Translation(**{**fields, **changes})


@pytest.fixture(scope="module")
def calibrated(copier: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the copier with a confidence: outputs with a d count as wrong. Copy it before you change it."""
    assert copier.folder is not None
    folder = tmp_path_factory.mktemp("calibrated") / "run"
    shutil.copytree(copier.folder, folder)
    calibrate(load(folder), [(text, text.replace("d", "x")) for text in SOURCES], right="exact")
    return folder


class TestFeatures:
    def test_the_definition(self) -> None:
        values = dict(zip(TOKEN_FEATURES, output_features(output()), strict=True))
        assert values == pytest.approx(
            {
                "log_probability": math.log(1 + 3.0),
                "mean_token": math.log(1 + 3.0 / 4),
                "tokens": math.log(1 + 4),
                "length_ratio": math.log((1 + 4) / (1 + 5)),
                "unknown_tokens": math.log(1 + 2),
                "cut_off": 0.0,
                "weakest_token": math.log(1 + 1.5),
                "second_weakest_token": math.log(1 + 0.75),
                "weakest_doubt": math.log(1 - math.exp(-1.5)),
                "first_token": math.log(1 + 0.5),
                "last_token": math.log(1 + 0.25),
            }
        )

    def test_an_output_that_was_cut_off_has_no_end_token(self) -> None:
        values = dict(zip(TOKEN_FEATURES, output_features(output(ended="length")), strict=True))
        assert values["cut_off"] == 1.0 and values["tokens"] == pytest.approx(math.log(4))

    def test_without_token_scores_and_of_probability_zero(self) -> None:
        values = output_features(output(token_scores=[], log_probability=-math.inf))
        assert all(map(math.isnan, values[6:])) and all(map(math.isfinite, values[:6]))

    def test_one_token_and_tokens_that_are_certain(self) -> None:
        values = dict(zip(TOKEN_FEATURES, output_features(output(token_scores=[0.0])), strict=True))
        assert [values[name] for name in ("weakest_token", "second_weakest_token", "first_token")] == [0.0] * 3
        assert values["weakest_doubt"] == pytest.approx(math.log(1e-6))

    def test_a_batch_has_those_of_its_outputs(self, copier: Translator) -> None:
        request = copier.pipeline.tokenize(copier.request([*SOURCES, "zz", "a zz b"]))
        sentences = Sentences(request.texts, IdRows.of(request.sources), request.frame)
        rows = 0
        flags: set[str] = set()
        for batch in searched_batches(copier.engine, request):
            hypotheses = batch.hypotheses
            arrays = hypotheses.arrays if isinstance(hypotheses, PendingHypotheses) else hypotheses
            assert isinstance(arrays, HypothesisArrays)
            chosen = sentences.select(np.asarray(batch.rows))
            outputs = [copier.text.best_of(source, arrays[row]) for row, source in enumerate(chosen)]
            assert batch_features(arrays, chosen.id_rows) == pytest.approx(feature_matrix(outputs), abs=1e-5)
            seen = [one.source_tokens for one in outputs[::2]]
            rules = FlagRules(off=(), least_ratio=0.6, longest=3, novelty=0.3, neighbors=Neighbors.of(seen))
            expected = [flags_of_tokens(one, rules) for one in outputs]
            found = flags_of_batch(arrays, chosen.id_rows, copier.tokenizers.source.tokens, rules)
            assert [*map(set, found)] == expected
            flags |= set().union(*found)
            rows += len(outputs)
        assert rows == len(SOURCES) + 2 and {"unlike-training", "unknown-tokens"} <= flags


class TestConfidence:
    def test_it_is_the_same_with_attention_with_alternatives_and_in_a_batch(self, calibrated: Path) -> None:
        run = load(calibrated)
        plain = [one.confidence for one in run.translate(SOURCES, return_attention=False)]
        attended = [one.confidence for one in run.translate(SOURCES)]
        assert all(value is not None and 0 < value < 1 for value in plain)
        assert attended == pytest.approx(plain, abs=1e-4)
        best, *_ = run.translate(SOURCES[:2], n_best=2)
        assert best.confidence is not None and all(other.confidence is None for other in best.alternatives)

    def test_outputs_like_those_that_were_right_have_more(self, copier: Translator) -> None:
        outputs = [output(log_probability=-number / 10, token_scores=[-number / 20] * 4) for number in range(100)]
        model = fit(outputs, np.arange(100) < 50, name="exact match")
        values = [model.of_output(one) for one in outputs]
        assert min(values[:40]) > 0.85 and max(values[60:]) < 0.15 and model.auroc is not None and model.auroc > 0.95
        without = [model.of_output(output(log_probability=-value, token_scores=[])) for value in (0.5, 9.0)]
        assert without[0] > 0.9 and without[1] < 0.1

    def test_empty_lines_copies_and_pickles(self, calibrated: Path) -> None:
        run = load(calibrated)
        first, empty = run.translate(["a b", ""], return_attention=False)
        with pytest.raises(AttributeError, match="no attribute 'certainty'"):
            run.translate("a b").certainty  # type: ignore[attr-defined]  # noqa: B018
        assert empty.confidence is None and pickle.loads(pickle.dumps(first)).confidence == first.confidence
        assert run.with_languages() is run and run.confidence is not None

    def test_a_run_that_is_not_calibrated(self, copier: Translator) -> None:
        assert copier.confidence is None and copier.translate("a b").confidence is None
        assert copier.translate(["a b"], return_attention=False)[0].confidence is None


class TestFile:
    def test_it_is_read_as_it_was_written(self, calibrated: Path) -> None:
        model = read_confidence(calibrated)
        assert model is not None and model.outputs == len(SOURCES) and model.right == "exact match"
        content = json.loads((calibrated / FILE_NAME).read_text("utf-8"))
        assert content["version"] == 3 and set(content["models"]["tokens"]["features"]) == set(FEATURES["tokens"])
        lines = (calibrated / FILE_NAME).read_text("utf-8").splitlines()
        assert all(len(line) < 200 for line in lines if '"neighbors"' not in line)

    def test_scores_that_are_equal_in_a_file_are_one_point_of_its_curve(self, calibrated: Path) -> None:
        model = read_confidence(calibrated)
        assert model is not None
        near = replace(model.models["tokens"], curve=((1.0, 0.25), (1.0 + 1e-9, 0.5), (2.0, 0.75)))
        assert near.record(FEATURES["tokens"])["curve"] == [[1.0, 0.5], [2.0, 0.75]]

    def test_it_belongs_to_its_weights(self, calibrated: Path, tmp_path: Path) -> None:
        folder = tmp_path / "run"
        shutil.copytree(calibrated, folder)
        content = json.loads((folder / FILE_NAME).read_text("utf-8"))
        assert content["weights"] == weights_checksum(folder)
        (folder / FILE_NAME).write_text(json.dumps({**content, "weights": "0"}), "utf-8")
        assert read_confidence(folder) is None and load(folder).confidence is None
        assert load(folder, folder).confidence is None  # nor does an ensemble have one

    def test_a_link_is_not_followed(self, calibrated: Path, tmp_path: Path) -> None:
        (tmp_path / FILE_NAME).symlink_to(calibrated / FILE_NAME)
        assert read_confidence(tmp_path) is None

    CHANGES: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "a list": lambda content: [content],
        "no models": lambda content: {**content, "models": {}},
        "text for a number": lambda content: {**content, "accuracy": "0.5"},
        "true for a number": lambda content: {**content, "outputs": True},
        "no number": lambda content: {**content, "accuracy": math.nan},
        "infinity": lambda content: changed(content, "bias", math.inf),
        "a probability above 1": lambda content: changed(content, "curve", [[0, 0.5], [1, 1.5]]),
        "a curve that falls": lambda content: changed(content, "curve", [[0, 0.5], [1, 0.4]]),
        "a curve of one score": lambda content: changed(content, "curve", [[0, 0.5], [0, 0.6]]),
        "no curve": lambda content: changed(content, "curve", []),
        "points of three": lambda content: changed(content, "curve", [[0, 0.5, 1]]),
        "a long curve": lambda content: changed(content, "curve", [[number, 0.5] for number in range(1001)]),
        "another feature": lambda content: changed(
            content, "features", {"x": {"mean": 0, "deviation": 1, "weight": 1}}
        ),
        "a deviation of 0": lambda content: changed(
            content, "features", {name: {"mean": 0, "deviation": 0, "weight": 1} for name in TOKEN_FEATURES}
        ),
        "more right than there are": lambda content: changed(content, "accepted", [[0.5, 3, 4]]),
        "none accepted": lambda content: changed(content, "accepted", []),
        "a long text": lambda content: {**content, "right": "x" * 1001},
    }

    @pytest.mark.parametrize("kind", CHANGES)
    def test_a_damaged_file_is_one_line(self, calibrated: Path, tmp_path: Path, kind: str) -> None:
        content = json.loads((calibrated / FILE_NAME).read_text("utf-8"))
        (tmp_path / FILE_NAME).write_text(json.dumps(self.CHANGES[kind](content)), "utf-8")
        with pytest.raises(CheckpointError) as refused:
            read_confidence(tmp_path)
        message = str(refused.value)
        assert message.startswith(f"{tmp_path}/confidence.json: damaged") and "\n" not in message
        assert message.endswith(f"; remove it, then calibrate the run again: weft calibrate {tmp_path}")

    def test_an_earlier_version(self, calibrated: Path, tmp_path: Path) -> None:
        content = json.loads((calibrated / FILE_NAME).read_text("utf-8"))
        (tmp_path / FILE_NAME).write_text(json.dumps({**content, "version": 1}), "utf-8")
        with pytest.raises(CheckpointError) as refused:
            read_confidence(tmp_path)
        message = "confidence.json: version 1, of an earlier weft; calibrate the run again: weft calibrate"
        assert str(refused.value) == f"{tmp_path}/{message} {tmp_path}"

    def test_a_file_of_version_2_is_read(self, calibrated: Path, tmp_path: Path) -> None:
        """It has fewer features and no design effect."""
        folder = tmp_path / "run"
        shutil.copytree(calibrated, folder)
        content = json.loads((folder / FILE_NAME).read_text("utf-8"))
        features = content["models"]["tokens"]["features"]
        former = {name: features[name] for name in FORMER_FEATURES}
        content = {**changed(content, "features", former), "version": 2}
        del content["design_effect"]
        (folder / FILE_NAME).write_text(json.dumps(content), "utf-8")
        model = read_confidence(folder)
        assert model is not None and model.design_effect == 1 and model.record()["version"] == 2
        assert set(model.record()["models"]["tokens"]["features"]) == set(FORMER_FEATURES)
        outputs = load(folder).translate(SOURCES, return_attention=False)
        assert [one.confidence for one in outputs] == pytest.approx([model.of_output(one) for one in outputs], abs=1e-4)
        (folder / FILE_NAME).write_text(json.dumps({**content, "version": 3}), "utf-8")
        with pytest.raises(CheckpointError, match=r"damaged \(expected the features"):
            read_confidence(folder)

    def test_a_newer_version(self, tmp_path: Path) -> None:
        (tmp_path / FILE_NAME).write_text('{"version": 7}', "utf-8")
        with pytest.raises(
            CheckpointError, match=r"confidence\.json: version 7; this weft reads up to 3: update weft, or"
        ):
            read_confidence(tmp_path)


def changed(content: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    models = content["models"]
    return {**content, "models": {**models, "tokens": {**models["tokens"], name: value}}}


def test_a_model_from_given_outputs_has_no_weights() -> None:
    model = fit([output()] * 60, np.arange(60) % 2 == 0, name="exact match")
    assert isinstance(model, ConfidenceModel) and model.weights == "" and model.auroc == pytest.approx(0.5, abs=0.3)


def test_outputs_that_are_all_right_and_nearly_equal_leave_a_file_that_can_be_read(calibrated: Path) -> None:
    """Scores that differ by less than the file's six decimals would be the same point of the curve twice."""
    outputs = [output(log_probability=-1e-7 * number, token_scores=[0.0] * 4) for number in range(400)]
    model = fit(outputs, np.ones(400, bool), name="exact match")
    folder = calibrated.parent / "equal"
    shutil.copytree(calibrated, folder)
    before = read_confidence(folder)
    assert before is not None
    replace(model, weights=before.weights).write(folder)
    after = read_confidence(folder)
    assert after is not None and after.accuracy == 1.0
    assert after.threshold(0.95) is not None and after.of_output(outputs[7]) > 0.95
