"""The same Transformer in CTranslate2 gives the same numbers and sentences, for everything that can be exported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.tokenizers import learn
from weft.data.pairs import Pair
from weft.errors import CheckpointError, RecipeError, SearchError
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import SearchSettings, make_recipe
from weft.search.constraints import NoLoops
from weft.search.interface import Hypothesis
from weft.text.specials import BEGIN, END
from weft.text.tokenizer import Tokenizers
from weft.translation.translator import Translation, Translator

ctranslate2 = pytest.importorskip("ctranslate2")

from weft.runs.load import LoadedRun  # noqa: E402
from weft.translation.engines.ctranslate2.export import ExportInfo, export  # noqa: E402
from weft.translation.engines.ctranslate2.exported import load_exported  # noqa: E402
from weft.translation.engines.ctranslate2.model import CTranslate2Model, SearchOutput  # noqa: E402
from weft.translation.engines.ctranslate2.search import looping_rows  # noqa: E402
from weft.translation.engines.ctranslate2.search import search as search_ctranslate2  # noqa: E402
from weft.translation.engines.ctranslate2.specification import make_spec, token_names  # noqa: E402
from weft.translation.engines.interface import TranslationRequest  # noqa: E402

STACK: dict[str, Any] = {"kind": "transformer", "hidden": 24, "layers": 2, "heads": 4, "feed_forward": 20}


def both(**stack: Any) -> dict[str, Any]:
    return {"encoder": stack, "decoder": stack}


def make(
    *, encoder: dict[str, Any] | None = None, decoder: dict[str, Any] | None = None, wide: bool = True, **model: Any
) -> Translator:
    """Random weights, where ``wide`` drawn so that every part has its say and outputs differ and end."""
    joint = model.get("tie") in ("inputs", "all")
    tree = {
        "data": {"max_length": 50},
        "tokenizer": {"kind": "word", "joint": joint},
        "model": {
            "embedding": 24,
            "dropout": 0.0,
            "encoder": {**STACK, **(encoder or {})},
            "decoder": {**STACK, "layers": 3, **(decoder or {})},
            **model,
        },
    }
    recipe = make_recipe(tree)
    source = learn("word", [" ".join(f"s{number}" for number in range(34))])
    target = learn("word", [" ".join(f"t{number}" for number in range(38))])
    tokenizers = Tokenizers(source, source if joint else target)
    network = build_model(recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size)
    if not wide:
        return Translator(network, tokenizers, recipe)
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0.0, 0.3)
        network.output.bias_V[END] += 0.5
    return Translator(network, tokenizers, recipe)


def texts(count: int = 24, *, longest: int = 13, seed: int = 3) -> list[str]:
    random = Random(seed)
    return [" ".join(f"s{random.randrange(34)}" for _ in range(random.randint(1, longest))) for _ in range(count)]


def ids_of(translator: Translator, sources: list[str]) -> list[list[int]]:
    return [[*translator.tokenizers.source.encode(text), END] for text in sources]


def limits_of(sources: list[list[int]]) -> list[int]:
    """As search.max_ratio = 1.5 and search.max_extra = 4 give them."""
    return [int(1.5 * (len(source) - 1)) + 4 for source in sources]


def ours(translator: Translator, sources: list[str], **search: Any) -> list[Translation]:
    search = {"stop": "finished", "no_loops": False, **search}
    return translator.translate(sources, return_attention=False, max_ratio=1.5, max_extra=4, **search)


def theirs(
    engine: CTranslate2Model, translator: Translator, sources: list[str], **search: Any
) -> list[list[Hypothesis]]:
    ids = ids_of(translator, sources)
    return found_by(engine, ids, limits_of(ids), token_scores=True, **search)


def as_run(translator: Translator) -> LoadedRun:
    return LoadedRun(translator.model, translator.tokenizers, translator.recipe, translator.folder)


def found_by(
    engine: CTranslate2Model,
    sources: list[list[int]],
    max_lengths: list[int],
    *,
    prefixes: list[list[int]] | None = None,
    n_best: int = 1,
    return_attention: bool = False,
    min_lengths: list[int] | None = None,
    token_scores: bool = False,
    **settings: Any,
) -> list[list[Hypothesis]]:
    request = TranslationRequest(
        sources=sources,
        prefixes=prefixes or (),
        settings=SearchSettings(**{"no_loops": False, **settings}),
        n_best=n_best,
        return_attention=return_attention,
    )
    options: Any = {"max_lengths": max_lengths, "min_lengths": min_lengths, "return_token_scores": token_scores}
    return search_ctranslate2(engine, request, **options)


def exported(translator: Translator, folder: Path, **options: Any) -> CTranslate2Model:
    return CTranslate2Model(export(as_run(translator), folder / "model", **options), threads=1)


def compare(expected: list[Translation], found: list[list[Hypothesis]], *, least: float = 1.0) -> None:
    """The same sentences, or a share of them, with the same scores."""
    same = [(one, many[0]) for one, many in zip(expected, found, strict=True) if one.ids == many[0].tokens]
    assert len(same) >= least * len(expected)
    for one, other in same:
        assert one.ended == other.ended
        assert other.score == pytest.approx(one.score, abs=1e-4)
        assert other.log_probability == pytest.approx(one.log_probability, abs=1e-4)
        assert other.token_scores == pytest.approx(one.token_scores, abs=1e-4)


GRID: dict[str, dict[str, Any]] = {
    "plain": {},
    "as published": {**both(norm_placement="post"), "tie": "all"},
    "rms, gelu, tied target": {**both(norm="rms", activation="gelu"), "tie": "target"},
    "rms, post, swiglu": both(norm="rms", norm_placement="post", activation="swiglu"),
    "learned, unscaled": both(positions="learned", max_positions=60, scale_embedding=False),
    "relative, grouped": both(positions="relative", key_value_heads=2),
    "rotary, one key-value head": both(positions="rotary", key_value_heads=1),
    "alibi": both(positions="alibi", heads=3),
    "no positions": both(positions="none"),
    "two kinds": {"encoder": {"positions": "alibi", "norm": "rms"}, "decoder": {"positions": "rotary"}},
    "widths": {"embedding": 20, "tie": "all", "encoder": {"hidden": 28}, "decoder": {"hidden": 32, "heads": 2}},
    "projected, depths": {"embedding": 20, "encoder": {"layers": 4, "heads": 2}, "decoder": {"layers": 1}},
    "as T5 1.1": {
        **both(norm="rms", norm_epsilon=1e-2, activation="geglu_tanh", positions="relative", head_size=7, heads=5),
        "tie": "inputs",
    },
    "as M2M100": {
        **both(sinusoids="tensor2tensor", first_position=2, activation="silu", embedding_norm=True),
        "tie": "all",
    },
    "buckets, geglu": both(
        positions="relative", relative_buckets=12, relative_max_distance=21, activation="geglu", norm_epsilon=1e-3
    ),
    "halves, gelu_tanh, post": both(
        sinusoids="halves", activation="gelu_tanh", norm_placement="post", embedding_norm=True, norm="rms"
    ),
    "attention only": {"encoder": {"kind": "attention", "activation": "swiglu"}},
}


@pytest.mark.parametrize("name", GRID)
def test_everything_that_can_be_exported(name: str, tmp_path: Path) -> None:
    """Given targets, of up to 40 tokens; greedy search; a beam."""
    translator = make(**GRID[name])
    engine = exported(translator, tmp_path)
    sources = texts(10)
    pairs = [
        Pair(source, target.replace("s", "t") if not translator.tokenizers.joint else target)
        for source, target in zip(texts(6, longest=40), texts(6, longest=40, seed=4), strict=True)
    ]
    names = token_names(99)
    targets = [translator.tokenizers.target.encode(pair.target) for pair in pairs]
    given = ids_of(translator, [pair.source for pair in pairs])
    said = engine._translator.score_batch(
        [[names[one] for one in row] for row in given], [[names[one] for one in row] for row in targets]
    )
    for one, other in zip(translator.score(pairs), said, strict=True):
        assert other.log_probs == pytest.approx(one.token_scores, abs=1e-4)
    compare(ours(translator, sources, kind="greedy"), theirs(engine, translator, sources, kind="greedy"))
    compare(ours(translator, sources), theirs(engine, translator, sources))


def test_alignment_heads(tmp_path: Path) -> None:
    """Those that are chosen come first in CTranslate2, which aligns words by the mean of the first heads of a layer."""
    translator = make(decoder={"alignment_heads": [[2, 3], [2, 1]]})
    engine, sources = exported(translator, tmp_path), texts(8)
    expected = translator.translate(sources, max_ratio=1.5, max_extra=4, stop="finished", no_loops=False)
    ids = ids_of(translator, sources)
    for one, [other] in zip(expected, found_by(engine, ids, limits_of(ids), return_attention=True), strict=True):
        assert one.attention is not None and other.attention_TS is not None and one.ids == other.tokens
        np.testing.assert_allclose(other.attention_TS[: len(one.ids)].numpy(), one.attention, atol=1e-4)
        assert other.score == pytest.approx(one.score, abs=1e-4)


@pytest.fixture(scope="module")
def learner() -> Translator:
    """Trained for a moment to say the source backwards, so that what is said depends on what was read."""
    translator = make(tie="all", wide=False, decoder={"layers": 2})
    network = translator.model.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for step in range(60):
        sources = ids_of(translator, texts(24, longest=5, seed=100 + step))
        targets = Ragged.of([[*source[-2::-1], END] for source in sources])
        logits_NV = network(Ragged.of(sources), targets.shifted(BEGIN)).logits_NV
        loss = torch.nn.functional.cross_entropy(logits_NV, targets.values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    return translator


@pytest.fixture(scope="module")
def engine(learner: Translator, tmp_path_factory: pytest.TempPathFactory) -> CTranslate2Model:
    return exported(learner, tmp_path_factory.mktemp("learner"))


class TestBeam:
    @pytest.mark.parametrize(
        "search",
        [
            {},
            {"size": 1},
            {"size": 3, "finish": 1},
            {"size": 4, "finish": 9, "length_penalty": 0.6},
            {"length_penalty": 0.0},
            {"kind": "greedy"},
            {"kind": "greedy", "coverage_penalty": 0.3, "length_penalty": 0.7},
        ],
        ids=str,
    )
    def test_it_finds_what_ours_finds(self, learner: Translator, engine: CTranslate2Model, search: Any) -> None:
        """Rows of all lengths and limits together, some of which are cut off."""
        sources = texts(60)
        expected = ours(learner, sources, **search)
        assert len({tuple(one.ids) for one in expected}) > 30
        compare(expected, theirs(engine, learner, sources, **search))

    def test_n_best(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(40, longest=5)
        for one, many in zip(ours(learner, sources, n_best=3), theirs(engine, learner, sources, n_best=3), strict=True):
            expected = [one, *one.alternatives]
            if all(other.ended == "end" for other in expected):
                assert [other.tokens for other in many] == [other.ids for other in expected]
                assert [other.score for other in many] == pytest.approx([other.score for other in expected], abs=1e-4)

    def test_some_are_cut_off_and_some_endings_would_be_hidden(self, tmp_path: Path) -> None:
        """A model that seldom ends: what ended comes before what was cut off, however bad."""
        translator = make(**both(positions="alibi"))
        translator.model.output.bias_V.data[END] += 0.7
        engine = exported(translator, tmp_path)
        sources = texts(60, longest=4)
        expected = ours(translator, sources)
        compare(expected, theirs(engine, translator, sources))
        ids = ids_of(translator, sources)
        assert any(
            "end" in {one.ended for one in many} and many[-1].score > many[0].score
            for many in found_by(engine, ids, limits_of(ids), n_best=5)
        )

    def test_company_changes_nothing(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(9)
        alone = [theirs(engine, learner, [source])[0][0].tokens for source in sources]
        assert [many[0].tokens for many in theirs(engine, learner, sources)] == alone

    def test_an_empty_source_is_its_end_mark(self, learner: Translator, engine: CTranslate2Model) -> None:
        found = found_by(engine, [[END]], [7], token_scores=True)[0][0]
        target = learner.tokenizers.target.decode(found.tokens)
        if found.ended == "end":
            assert learner.score([Pair("", target)])[0].log_probability == pytest.approx(
                found.log_probability, abs=1e-4
            )
        assert found_by(engine, [], []) == []

    def test_attention(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(8)
        expected = learner.translate(sources, max_ratio=1.5, max_extra=4, stop="finished", no_loops=False)
        ids = ids_of(learner, sources)
        for one, many in zip(expected, found_by(engine, ids, limits_of(ids), return_attention=True), strict=True):
            assert one.attention is not None and many[0].attention_TS is not None
            assert many[0].attention_TS.shape[0] == len(many[0].tokens) + (many[0].ended == "end")
            np.testing.assert_allclose(many[0].attention_TS[: len(one.ids)].numpy(), one.attention, atol=1e-4)

    def test_two_workers(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(70)
        pair = CTranslate2Model(engine.folder, threads=2)
        assert [many[0].tokens for many in theirs(pair, learner, sources)] == [
            many[0].tokens for many in theirs(engine, learner, sources)
        ]


class TestRules:
    def test_log_probabilities_stay_the_models_own(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(20)
        for search in ({"no_repeat_ngram": 1}, {"repetition_penalty": 1.5}, {"min_lengths": [4] * 20}):
            for kind in ("greedy", "beam"):
                for source, many in zip(sources, theirs(engine, learner, sources, kind=kind, **search), strict=True):
                    if many[0].ended == "end":
                        text = learner.tokenizers.target.decode(many[0].tokens)
                        expected = learner.score([Pair(source, text)])[0]
                        assert many[0].token_scores == pytest.approx(expected.token_scores, abs=1e-4)
                        assert many[0].log_probability == pytest.approx(expected.log_probability, abs=1e-4)

    def test_they_hold(self, learner: Translator, engine: CTranslate2Model) -> None:
        ids = ids_of(learner, ["s1 s1 s1 s1", "s2 s2 s2", "s3"])
        for many in found_by(engine, ids, [12] * 3, no_repeat_ngram=1):
            assert len(set(many[0].tokens)) == len(many[0].tokens)
        few = [7, 5, 6]
        found = found_by(engine, ids, [12] * 3, min_lengths=few)
        assert all(len(many[0].tokens) >= least for many, least in zip(found, few, strict=True))

    def test_greedy_without_repetition_is_ours(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(30)
        search = {"kind": "greedy", "no_repeat_ngram": 2}
        compare(ours(learner, sources, **search), theirs(engine, learner, sources, **search))

    def test_a_prefix(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(20)
        begun = learner.tokenizers.target.encode("s7 s8")
        found = theirs(engine, learner, sources, kind="greedy", prefixes=[begun] * 20)
        assert all(many[0].tokens[:2] == begun for many in found)
        compare(ours(learner, sources, kind="greedy", prefix="s7 s8"), found)

    def test_loops_are_left_to_our_own_search(self, tmp_path: Path) -> None:
        """Against the rule itself, token by token."""
        translator = make()
        translator.model.output.bias_V.data[END] -= 9.0
        engine = exported(translator, tmp_path)
        ids = ids_of(translator, texts(30))
        found = found_by(engine, ids, [40] * 30, kind="greedy")
        looping = [bool(many) and loops(many[0].tokens) for many in found]
        assert any(looping)
        left = found_by(engine, ids, [40] * 30, kind="greedy", no_loops=True)
        assert [not many for many in left] == looping

    def test_the_reader_of_loops(self) -> None:
        random = Random(7)
        rows = []
        for _ in range(60):
            phrase = [random.randrange(3, 6) for _ in range(random.randint(1, 9))]
            rows.append([*(phrase * random.randint(1, 9))[: random.randint(1, 45)], 7, 8])
        found = [[SearchOutput(list(map(str, row)), False, 0.0, None)] for row in rows]
        assert looping_rows(found) == [place for place, row in enumerate(rows) if loops(row)]
        assert looping_rows([[]]) == []


def loops(tokens: list[int]) -> bool:
    """Whether our rule would have forbidden some token of it."""
    rule = NoLoops()
    for place in range(1, len(tokens)):
        ratings_RV = torch.zeros(1, max(tokens) + 1)
        if rule(ratings_RV, torch.tensor([tokens[:place]]), torch.zeros(1, dtype=torch.int64))[0, tokens[place]] < 0:
            return True
    return False


class TestSampling:
    def test_a_seed_says_what_is_drawn(self, learner: Translator, engine: CTranslate2Model) -> None:
        sources = texts(30)
        first, second, other = (theirs(engine, learner, sources, kind="sample", seed=seed) for seed in (3, 3, 4))
        assert first == second and first != other

    def test_probabilities(self, learner: Translator, engine: CTranslate2Model) -> None:
        """The first token of many draws, with a temperature and a cut-off: within four deviations."""
        source = ids_of(learner, ["s1 s2 s3 s4 s5 s6 s7 s8 s9"])[0]
        with torch.no_grad():
            logits_V = learner.model(Ragged.of([source]), Ragged.of([[BEGIN]])).logits_NV[0]
        likeliest = (logits_V / 1.7).topk(4)
        wanted = likeliest.values.softmax(-1).tolist()
        found = found_by(engine, [source] * 2000, [1] * 2000, kind="sample", temperature=1.7, top_k=4, seed=5)
        said = [many[0].tokens[0] if many[0].tokens else END for many in found]
        for token, share in zip(likeliest.indices.tolist(), wanted, strict=True):
            assert abs(said.count(token) / 2000 - share) < 4 * (share * (1 - share) / 2000) ** 0.5 + 1e-3
        logs = {token: many[0].log_probability for token, many in zip(said, found, strict=True)}
        for token, log in logs.items():
            assert log == pytest.approx(float(logits_V.log_softmax(-1)[token]), abs=1e-4)

    def test_several(self, learner: Translator, engine: CTranslate2Model) -> None:
        found = theirs(engine, learner, texts(3), kind="sample", n_best=4, temperature=1.5)
        assert [len(many) for many in found] == [4] * 3


class TestQuantization:
    @pytest.mark.parametrize("quantization", ["int8", "int8_float32", "float16", "int16"])
    def test_scores_are_nearly_those_of_the_model(self, learner: Translator, tmp_path: Path, quantization: str) -> None:
        before = {name: value.clone() for name, value in learner.model.state_dict().items()}
        engine = exported(learner, tmp_path, quantization=quantization)
        sources = texts(40, longest=6)
        found = [hypotheses[0] for hypotheses in theirs(engine, learner, sources)]
        pairs = [
            Pair(source, learner.tokenizers.target.decode(one.tokens))
            for source, one in zip(sources, found, strict=True)
        ]
        differences = [
            abs(one.score - score.log_probability / len(score.token_scores))
            for one, score in zip(found, learner.score(pairs), strict=True)
            if one.ended == "end"
        ]
        assert len(differences) > 20 and sum(differences) / len(differences) < 0.25
        assert all(torch.equal(before[name], value) for name, value in learner.model.state_dict().items())

    def test_it_is_smaller(self, learner: Translator, engine: CTranslate2Model, tmp_path: Path) -> None:
        small = exported(learner, tmp_path, quantization="int8", positions=64)
        assert small.info.max_source_length == 64 and small.info.quantization == "int8"
        assert (small.folder / "model.bin").stat().st_size < (engine.folder / "model.bin").stat().st_size / 2


class TestFolder:
    def test_it_is_whole_in_itself(self, learner: Translator, engine: CTranslate2Model) -> None:
        from weft.recipe import load_recipe
        from weft.text.tokenizer import load_tokenizers

        assert sorted(path.name for path in engine.folder.iterdir()) == [
            "config.json",
            "lengths.json",
            "model.bin",
            "recipe.toml",
            "shared_vocabulary.json",
            "tokenizer.json",
            "weft.json",
        ]
        assert load_recipe(engine.folder / "recipe.toml").model == learner.recipe.model
        text = texts(1)[0]
        tokenizer = load_tokenizers([engine.folder / "tokenizer.json"]).source
        assert tokenizer.encode(text) == learner.tokenizers.source.encode(text)
        assert json.loads((engine.folder / "shared_vocabulary.json").read_text())[:5] == [
            "<unk>",
            "<s>",
            "</s>",
            "3",
            "4",
        ]

    def test_by_hand(self, learner: Translator, engine: CTranslate2Model) -> None:
        """What docs/export.md shows."""
        by_hand = ctranslate2.Translator(str(engine.folder), inter_threads=1, intra_threads=1)
        text = texts(1, longest=6)[0]
        tokens = [*map(str, learner.tokenizers.source.encode(text)), "</s>"]
        found = by_hand.translate_batch([tokens], beam_size=5)[0].hypotheses[0]
        assert learner.tokenizers.target.decode([int(token) for token in found]) == learner.translate(text).text

    def test_two_vocabularies(self, tmp_path: Path) -> None:
        engine = exported(make(), tmp_path)
        assert (engine.folder / "source_vocabulary.json").is_file() and (
            engine.folder / "tokenizer.target.json"
        ).is_file()

    def test_an_earlier_export_is_replaced_and_nothing_else(self, learner: Translator, tmp_path: Path) -> None:
        folder = tmp_path / "model"
        export(as_run(learner), folder)
        export(as_run(learner), folder, quantization="int8")
        assert ExportInfo.read(folder).quantization == "int8"  # type: ignore[union-attr]
        assert [path.name for path in tmp_path.iterdir()] == ["model"]
        other = tmp_path / "other"
        other.mkdir()
        export(as_run(learner), other)
        shutil.rmtree(other)
        other.mkdir()
        (other / "thesis.txt").write_text("mine")
        with pytest.raises(CheckpointError, match="is not a CTranslate2 export"):
            export(as_run(learner), other)
        assert [path.name for path in other.iterdir()] == ["thesis.txt"]

    def test_what_a_user_keeps_beside_an_export_is_not_lost(self, learner: Translator, tmp_path: Path) -> None:
        folder = export(as_run(learner), tmp_path / "model")
        (folder / "thesis.txt").write_text("mine")
        with pytest.raises(CheckpointError, match=r"holds 'thesis\.txt' beside a CTranslate2 export"):
            export(as_run(learner), folder)
        assert (folder / "thesis.txt").read_text() == "mine"
        (tmp_path / "link").symlink_to(tmp_path / "model")
        with pytest.raises(CheckpointError, match="link: is a symbolic link"):
            export(as_run(learner), tmp_path / "link")

    def test_a_folder_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(SearchError, match="not a CTranslate2 model of this version of weft"):
            CTranslate2Model(tmp_path)


class TestEngineFor:
    @pytest.fixture
    def run(self, tiny: Any, tmp_path: Path) -> Path:
        from weft.training.train import train

        stack = {"kind": "transformer", "layers": 1, "hidden": 16, "heads": 2, "feed_forward": 24}
        changes = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in stack.items()}
        list(train(tiny({**changes, "training.steps": 2}), tmp_path / "run"))
        return tmp_path / "run"

    def test_a_model_without_a_folder(self, learner: Translator) -> None:
        assert found_by(load_exported(as_run(learner)), [[4, END]], [5])[0][0].ended in ("end", "length")


class TestRefusals:
    def test_a_model(self, tmp_path: Path) -> None:
        recipe = make_recipe({"name": "luong", "model": {"encoder": {"hidden": 8}, "decoder": {"hidden": 8}}})
        network = build_model(recipe.model, source_size=9, target_size=9)
        tokenizer = learn("word", ["a b c d e f"])
        translator = Translator(network, Tokenizers(tokenizer, tokenizer), recipe)
        with pytest.raises(RecipeError, match=r"^luong: model\.encoder\.kind: 'lstm' is recurrent"):
            export(as_run(translator), tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_a_quantization(self, learner: Translator, tmp_path: Path) -> None:
        with pytest.raises(SearchError, match="--quantization int7: unknown; did you mean 'int"):
            export(as_run(learner), tmp_path / "model", quantization="int7")

    def test_of_the_engine(self, learner: Translator, engine: CTranslate2Model) -> None:
        source = [[5, END]]
        for search, said in (
            ({"kind": "mbr"}, "search.kind: 'mbr'"),
            ({"size": 20}, "search.size: 20; in CTranslate2 a beam holds at most half the vocabulary, here 18"),
            ({"size": 1, "finish": 2}, "search.finish: 2"),
            ({"kind": "greedy", "n_best": 2}, "n_best: 2"),
            ({"prefixes": [[4]]}, "prefixes: "),
            ({"coverage_penalty": 0.1}, "search.coverage_penalty: "),
        ):
            with pytest.raises(SearchError) as refused:
                found_by(engine, source, [5], **search)  # type: ignore[arg-type]
            assert str(refused.value).startswith(said)
        with pytest.raises(SearchError, match="a source of 4097 tokens"):
            found_by(engine, [[5] * 4096 + [END]], [5])
        with pytest.raises(SearchError, match="a limit of 5000 tokens"):
            found_by(engine, source, [5000])
        with pytest.raises(SearchError, match="cannot load it"):
            CTranslate2Model(engine.folder, compute_type="int3")


def test_tables_reach_far() -> None:
    """ALiBi as buckets: one for every distance, in both directions, up to the number of positions."""
    translator = make(**both(positions="alibi"))
    spec = make_spec(translator.model, positions=9)  # type: ignore[arg-type]
    slopes = 2.0 ** (-2.0 * np.arange(1, 5))
    for stack, directions in ((spec.encoder, 2), (spec.decoder, 1)):
        table = stack.layer[0].self_attention.relative_attention_bias
        assert len(table) == directions * 2 * 9
        for direction in range(directions):
            for distance in range(9):
                np.testing.assert_allclose(table[direction * 18 + distance], -slopes * distance, rtol=1e-6)
