"""Loading runs: one or several, in a precision, for an engine."""

from __future__ import annotations

import shutil

import pytest
import torch

import weft
from weft.errors import SearchError
from weft.models.ensemble import Ensemble
from weft.recipe import make_recipe
from weft.runs.length_limits import SMALLEST, LengthLimits
from weft.runs.load import LoadedRun
from weft.text.tokenizer import Tokenizers, learn
from weft.translation import load as loading
from weft.translation.load import load

SHARED = [
    "data.train=copy",
    "data.train_size=200",
    "data.options.length=5",
    "data.options.symbols=7",
    "data.valid_size=5",
    "data.test_size=5",
    "tokenizer.kind=word",
    "model.embedding=16",
    "training.steps=12",
    "training.batch_tokens=256",
    "training.validate_every=0",
    "training.save_every=0",
    "training.device=cpu",
]
SOURCES = ["a b c", "d", "e f g a", "b b"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    stack = ["kind=transformer", "layers=1", "hidden=16", "heads=2", "feed_forward=16"]
    kinds = {
        "gru": [f"model.{side}.hidden=16" for side in ("encoder", "decoder")],
        "transformer": [f"model.{side}.{one}" for side in ("encoder", "decoder") for one in stack],
        "other": ["data.options.symbols=9", "model.encoder.hidden=16", "model.decoder.hidden=16"],
    }
    for name, changes in kinds.items():
        for _ in weft.train(make_recipe({}, [*SHARED, *changes]), folder / name):
            pass
    return folder


def test_several_runs_are_an_ensemble(runs):
    both = load(runs / "gru", runs / "transformer", device="cpu")
    assert isinstance(both.model, Ensemble)
    for kind in ("greedy", "beam", "sample", "mbr", "exact"):
        found = both.translate(SOURCES, kind=kind, max_length=4, samples=4, max_nodes=400)
        assert len(found) == len(SOURCES)
    one, two = (load(runs / name, device="cpu") for name in ("gru", "transformer"))
    [score] = both.score([weft.Pair("a b", "a b")])
    parts = [torch.tensor(run.score([weft.Pair("a b", "a b")])[0].token_scores).exp() for run in (one, two)]
    assert score.token_scores == pytest.approx(torch.stack(parts).mean(0).log().tolist(), abs=1e-4)


def test_members_share_a_vocabulary(runs):
    with pytest.raises(SearchError, match="its source vocabulary differs from that of") as caught:
        load(runs / "gru", runs / "other", device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["gru", "transformer"])
def test_eight_bits(runs, name):
    plain, small = (load(runs / name, device="cpu", precision=precision) for precision in ("fp32", "int8"))
    assert (plain.engine.precision, small.engine.precision) == ("fp32", "int8")
    pairs = [weft.Pair(source, source) for source in SOURCES]
    ours, theirs = ([score.token_scores for score in run.score(pairs)] for run in (plain, small))
    for exact, rounded in zip(ours, theirs, strict=True):
        assert rounded == pytest.approx(exact, abs=0.06), "of every token"
        assert rounded != exact, "it is rounded indeed"
    [forced, *_], [own, *_] = (run.translate(SOURCES, kind="greedy", max_length=1) for run in (plain, small))
    assert own.ids == forced.ids and own.token_scores == pytest.approx(forced.token_scores, abs=0.06)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"precision": "fp8"}, "precision='fp8': unknown; use auto, fp32, tf32, bf16, int8"),
        ({"precision": "bf16"}, "precision='bf16': only for Transformers on a GPU"),
        ({"precision": "tf32"}, "precision='tf32': only on a GPU"),
        ({"engine": "onnx"}, "engine='onnx': unknown; use auto, torch, ctranslate2"),
    ],
)
def test_what_is_not_there(runs, given, message):
    with pytest.raises(SearchError) as caught:
        load(runs / "gru", device="cpu", **given)
    assert str(caught.value).startswith(message)


class TestEngines:
    def test_a_recurrent_run_is_searched_by_torch(self, runs):
        assert load(runs / "gru", device="cpu").engine.name == "torch"
        with pytest.raises(SearchError, match="engine='ctranslate2': "):
            load(runs / "gru", device="cpu", engine="ctranslate2").translate("a b")

    def test_the_same_outputs(self, runs):
        pytest.importorskip("ctranslate2")
        ours = load(runs / "transformer", device="cpu", engine="torch")
        theirs = load(runs / "transformer", device="cpu", engine="ctranslate2")
        for search in ({"stop": "finished"}, {"kind": "greedy"}, {"stop": "finished", "size": 2, "n_best": 2}):
            expected = ours.translate(SOURCES, return_attention=False, **search)
            found = theirs.translate(SOURCES, return_attention=False, **search)
            assert [one.text for one in found] == [one.text for one in expected]
            assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)

    def test_eight_bits_of_either(self, runs):
        pytest.importorskip("ctranslate2")
        for engine in ("auto", "ctranslate2"):
            run = load(runs / "transformer", device="cpu", precision="int8", engine=engine)
            assert len(run.translate(SOURCES * 12, return_attention=False, stop="finished")) == 48

    def test_what_it_cannot_do_is_refused_or_left_to_torch(self, runs):
        pytest.importorskip("ctranslate2")
        theirs = load(runs / "transformer", device="cpu", engine="ctranslate2")
        with pytest.raises(SearchError, match="'provable' is not known to CTranslate2"):
            theirs.translate(SOURCES, stop="provable")
        either = load(runs / "transformer", device="cpu", engine="auto")
        assert len(either.translate(SOURCES * 12, return_attention=False, stop="provable")) == 48
        assert len(either.translate(SOURCES * 12, return_attention=False)) == 48

    def test_a_beam_that_is_too_large_for_it(self, runs, monkeypatch):
        pytest.importorskip("ctranslate2")
        theirs = load(runs / "transformer", device="cpu", engine="ctranslate2")
        either = load(runs / "transformer", device="cpu", engine="auto")
        with pytest.raises(
            SearchError, match=r"^engine='ctranslate2': search\.size: 50; in CTranslate2 a beam holds at"
        ):
            theirs.translate(SOURCES, size=50, stop="finished")
        assert len(either.translate(SOURCES * 12, return_attention=False, size=50, stop="finished")) == 48
        monkeypatch.setattr("weft.translation.engines.ctranslate2.engine.available_memory", lambda: 1000)
        with pytest.raises(SearchError, match=r"search\.size: 3 hypotheses of 4 sentences need about 0\.0 MB"):
            theirs.translate(SOURCES, size=3, stop="finished")
        assert len(either.translate(SOURCES * 12, return_attention=False, size=3, stop="finished")) == 48


def test_an_ensemble_has_the_largest_length_limits(runs, tmp_path):
    """And its outputs may loop if those of a member may."""
    for name, limits in (("gru", LengthLimits(3.0, 11)), ("transformer", LengthLimits(2.5, 40, loops=True))):
        shutil.copytree(runs / name, tmp_path / name)
        limits.write(tmp_path / name)
    gru, ensemble = load(tmp_path / "gru"), load(tmp_path / "gru", tmp_path / "transformer")
    assert gru.length_limits == (3.0, 11, False) and gru.search_settings({}).no_loops is True
    assert ensemble.length_limits == (3.0, 40, True) and ensemble.search_settings({}).no_loops is False
    (tmp_path / "gru" / "lengths.json").unlink()
    assert load(tmp_path / "gru").length_limits == SMALLEST, "a run of an older version"


def test_both_engines_have_the_same_limits(runs, tmp_path):
    """Also beyond the positions that CTranslate2 has tables for, and in an exported folder."""
    pytest.importorskip("ctranslate2")
    from weft.interop.export import export_run

    shutil.copytree(runs / "transformer", tmp_path / "run")
    LengthLimits(2.0, 14, loops=True).write(tmp_path / "run")
    ours, theirs = (load(tmp_path / "run", device="cpu", engine=engine) for engine in ("torch", "ctranslate2"))

    def outputs(run):
        found = run.translate(SOURCES, kind="greedy", return_attention=False)
        return [(one.ids, one.ended_by_length) for one in found]

    expected = outputs(ours)
    assert outputs(theirs) == expected and max(len(ids) for ids, _ in expected) > 4
    theirs.engine._model.info = theirs.engine._model.info._replace(max_target_length=4)
    assert outputs(theirs) == expected
    assert LengthLimits.read(export_run(tmp_path / "run", out=tmp_path / "exported")) == (2.0, 14, True)


def test_members_read_the_same_columns():
    tokenizer = learn("word", ["a"])
    runs = []
    for count in (2, 1):
        tokenizers = Tokenizers(tokenizer, tokenizer).with_columns(count)
        recipe = make_recipe({"model": {"sources": {"count": count}}})
        runs.append(LoadedRun(None, tokenizers, recipe, f"run{count}"))
    with pytest.raises(SearchError) as refusal:
        loading._check_vocabularies(runs)
    assert str(refusal.value) == (
        "run1: model.sources.count is 1, but 2 in run2; the runs of an ensemble read the same sources"
    )
    loading._check_vocabularies([runs[0], runs[0]])
