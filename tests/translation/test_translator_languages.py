"""Models whose texts are framed by special tokens and languages: every way to use one, against literal loops."""

from __future__ import annotations

import json

import pytest
import torch

from fixtures import pretrained_tokenizers as folders
from weft.apps.serve.operations import translate as serve_translate
from weft.errors import SearchError, VocabularyError
from weft.interop.huggingface.tokenizers import read_tokenizers
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.runs.load import LoadedRun
from weft.text.frames import FrameRules
from weft.text.specials import END
from weft.text.tokenizer import Tokenizers
from weft.translation.engines.ctranslate2.engine import CTranslate2Engine
from weft.translation.engines.torch import TorchEngine
from weft.translation.translator import Translator

STACK = {"kind": "transformer", "layers": 2, "hidden": 16, "heads": 2, "feed_forward": 24}
SETTINGS = {"model": {"encoder": STACK, "decoder": STACK, "embedding": 16}, "search": {"max_length": 6, "size": 3}}
SOURCE = "the old king reads"


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> Tokenizers:
    """Those of M2M100."""
    folder = folders.m2m100(tmp_path_factory.mktemp("m2m100"))
    rows = len(json.loads((folder / "vocab.json").read_text("utf-8"))) + 108
    return read_tokenizers(folder, {"model_type": "m2m_100", **folders.FAIRSEQ}, rows=(rows, rows))


def make_translator(tokenizers: Tokenizers) -> Translator:
    recipe = make_recipe(SETTINGS)
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    model = build_model(recipe.model, **sizes, seed=3).eval()
    for parameter in model.parameters():
        parameter.data.mul_(3.0)
    return Translator(model, tokenizers, recipe)


@pytest.fixture(scope="module")
def translator(tokenizers) -> Translator:
    return make_translator(tokenizers)


def with_rules(tokenizers: Tokenizers, **changes) -> Tokenizers:
    """The same tokenizers with another frame."""
    rules = FrameRules(languages=tokenizers.source.rules.languages, **changes)
    changed = tokenizers.source.with_rules(rules)
    return Tokenizers(changed, changed)


def log_probabilities(translator: Translator, source: list[int], inputs: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return translator.model(Ragged.of([source]), Ragged.of([inputs])).logits_NV.log_softmax(-1)


FRAMES = {
    "language first": (("source",), (END,), END, ("target",)),
    "language last": ((), (END, "source"), "target", ()),
    "of BART": ((3,), (END,), END, (3,)),
    "of OPUS-MT": (("target",), (END,), 1, ()),
}


@pytest.mark.parametrize("name", FRAMES)
def test_greedy_search_and_scores(translator, name) -> None:
    names = ("source_before", "source_after", "begin", "target_before")
    framed = with_rules(translator.tokenizers, **dict(zip(names, FRAMES[name], strict=True)))
    languages = {side: {"source": "en", "target": "fr"}[side] for side in ("source", "target") if name != "of BART"}
    if name == "of OPUS-MT":
        del languages["source"]
    framed = framed.with_languages(languages.get("source"), languages.get("target"))
    by_side = {side: framed.source.rules.languages[language] for side, language in languages.items()}
    before, after, begin, target_before = FRAMES[name]
    text = framed.source.encode(SOURCE)
    source = [by_side.get(token, token) for token in (*before, *text, *after)]
    start = [by_side.get(token, token) for token in (begin, *target_before)]
    run = Translator(translator.model, framed, translator.recipe)

    ids: list[int] = []
    while len(ids) < 6:
        ids.append(int(log_probabilities(run, source, [*start, *ids])[-1].argmax()))
        if ids[-1] == END:
            break
    result = run.translate(SOURCE, kind="greedy")
    assert [*result.ids, *([END] if result.ended == "end" else [])] == ids
    rows = log_probabilities(run, source, [*start, *ids[:-1]])[len(start) - 1 :]
    expected = [float(row[id]) for row, id in zip(rows, ids, strict=True)]
    assert result.token_scores == pytest.approx(expected, abs=1e-4)

    target = run.tokenizers.target.encode("le vieux roi")
    rows = log_probabilities(run, source, [*start, *target])[len(start) - 1 :]
    expected = [float(row[id]) for row, id in zip(rows, [*target, END], strict=True)]
    [score] = run.score([(SOURCE, "le vieux roi")])
    assert score.token_scores == pytest.approx(expected, abs=1e-4)
    [forced] = run.force_decode([(SOURCE, "le vieux roi")])
    assert forced.ids == target and forced.token_scores == pytest.approx(expected, abs=1e-4)
    assert forced.attention is not None and forced.attention.shape == (len(target), len(source))


def test_beam_and_other_searches(translator) -> None:
    chosen = translator.with_languages("en", "fr")
    beam = translator.translate(SOURCE, source_language="en", target_language="fr")
    assert beam.ids == chosen.translate(SOURCE).ids
    assert beam.ids != translator.translate(SOURCE, source_language="en", target_language="de").ids
    assert chosen.score([(SOURCE, beam.text)])  # the default languages of `chosen`
    words = chosen.translate(SOURCE, required=["roi"], max_length=9)
    assert "roi" in words.text
    assert chosen.translate(SOURCE, kind="sample", seed=1).ids
    assert chosen.translate(SOURCE, prefix="le").text.startswith("le")


def test_language_of_the_run(tokenizers) -> None:
    translator = make_translator(tokenizers)
    with pytest.raises(VocabularyError, match="target_language: this model has several languages; name that of the t"):
        translator.translate(SOURCE)
    with pytest.raises(VocabularyError, match="target_language='xx': not a language of this model; choose one of af"):
        translator.translate(SOURCE, target_language="xx")
    recipe = make_recipe({**SETTINGS, "search": {**SETTINGS["search"], "target_language": "fr"}})
    own = Translator(translator.model, tokenizers, recipe)
    assert own.translate(SOURCE).ids == translator.translate(SOURCE, target_language="fr").ids


def test_a_model_without_languages_refuses_one(tokenizers) -> None:
    plain = Translator(make_translator(tokenizers).model, with_rules(tokenizers), make_recipe(SETTINGS))
    with pytest.raises(VocabularyError, match="target_language='fr': this model takes no target language"):
        plain.translate(SOURCE, target_language="fr")


def test_attention_over_words(translator) -> None:
    chosen = translator.with_languages("en", "fr")
    result, attention = chosen.attend(SOURCE, "le vieux roi")
    assert attention.source == ["the", "old", "king", "reads", "</s>"]
    assert attention.target == ["le", "vieux", "roi"]
    assert attention.weights_TS.sum(1) == pytest.approx([1.0] * 3)
    tokens = chosen.tokenizers.source.tokens(chosen.source_ids(SOURCE))
    assert tokens[0] == "__en__" and result.source_tokens == tokens
    other, _ = translator.attend(SOURCE, "le vieux roi", target_language="de")
    assert other.log_probability != result.log_probability


def test_heads_show_the_frame(translator) -> None:
    heads = translator.heads(SOURCE, "le roi", target_language="fr")
    decoder = next(head for head in heads if head.kind == "decoder")
    assert decoder.source[:2] == ["</s>", "__fr__"] and decoder.target[0] == "__fr__"
    assert next(head for head in heads if head.kind == "cross").source[0] == "__en__"
    assert translator.heads(SOURCE, target_language="fr")


def test_the_service(translator) -> None:
    payload = {"texts": [SOURCE], "n_best": 1, "attention": True, "search": {"target_language": "fr"}}
    [record] = map(json.loads, serve_translate(translator, payload))
    assert record["text"] == translator.translate(SOURCE, target_language="fr").text
    assert "languages" not in record
    with pytest.raises(VocabularyError, match="not a language of this model; did you mean 'fr'"):
        serve_translate(translator, {**payload, "search": {"target_language": "frx"}})


def test_empty_sources_and_long_ones(translator) -> None:
    chosen = translator.with_languages("en", "fr")
    empty, text = chosen.translate(["", SOURCE])
    assert empty.text == "" and text.ids == chosen.translate(SOURCE).ids


def test_ctranslate2_is_refused(translator) -> None:
    pytest.importorskip("ctranslate2")
    run = LoadedRun(translator.model, translator.tokenizers, translator.recipe)
    engine = CTranslate2Engine(run, TorchEngine(translator.model, translator.tokenizers.target), required=True)
    chosen = Translator(translator.model, translator.tokenizers, translator.recipe, engine=engine)
    with pytest.raises(SearchError, match="its outputs start with other tokens than <s> or </s>"):
        chosen.translate(SOURCE, target_language="fr", return_attention=False, stop="finished")
