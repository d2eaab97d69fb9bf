"""The training data of a student: which pairs, with which weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.data.preparation import find_corpora, read_corpus
from weft.errors import DataError
from weft.pairs.distillation import corpora
from weft.pairs.distillation.corpora import DistilledCorpora, check_monolingual, closest, made_items
from weft.pairs.distillation.method import Method
from weft.recipe import Recipe, make_recipe
from weft.recipe.data import DataSettings, NamedCorpus, TableFile
from weft.translation.translator import Translator


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.tsv").write_text("a b\tx\nc\ty\n", "utf-8")
    Path("large.tsv").write_text("".join(f"{a} {b}\t{a}\n" for a in "abc" for b in "abc"), "utf-8")
    Path("more.txt").write_text("d e\ne\n", "utf-8")


def written(
    data: dict[str, Any], copier: Translator, monolingual: tuple[str, ...] = (), **options: Any
) -> tuple[DataSettings, Recipe]:
    recipe = make_recipe({"data": data})
    given = {"references": None, "n_best": None, "teacher_weight": None, "search": {}, "name": "sequence", **options}
    method = Method.make(given.pop("name"), **given)
    files = [Path(name) for name in monolingual]
    generator = DistilledCorpora(recipe, method, files, Path("work"), lambda: copier, {}).write()
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value, recipe.model_copy(update={"data": end.value})


def targets(recipe: Recipe) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_corpus(recipe, "train")]


def weights(data: DataSettings) -> list[float | None]:
    assert isinstance(data.train, list)
    return [corpus.weight for corpus in data.train if not isinstance(corpus, str)]


def test_outputs_in_place_of_the_targets(copier: Translator) -> None:
    data, recipe = written({"train": "small.tsv"}, copier)
    expected = [(text, copier.translate(text).text) for text in ("a b", "c")]
    assert targets(recipe) == expected and weights(data) == [None]


def test_references_are_mixed_in_by_weight(copier: Translator) -> None:
    data, recipe = written({"train": ["small.tsv", "large.tsv"]}, copier, ("more.txt",), references=0.25)
    sizes = [len(Path(f"work/train-{number}.jsonl").read_text("utf-8").splitlines()) for number in (1, 2)]
    more = len(Path("work/monolingual-1.jsonl").read_text("utf-8").splitlines())
    assert weights(data) == [0.75 * sizes[0], 0.75 * sizes[1], 0.25 * sizes[0], 0.25 * sizes[1], more]
    assert isinstance(data.train, list) and isinstance(data.train[2], NamedCorpus)
    assert ("a b", "x") in targets(recipe)


def test_weights_tags_and_steps_of_the_corpora_hold(copier: Translator) -> None:
    train = [{"name": "small.tsv", "weight": 3.0, "tag": "<s>"}, {"name": "large.tsv", "last_step": 5}]
    data, recipe = written({"train": train}, copier, references=0.5)
    assert weights(data) == [1.5, 0.5, 1.5, 0.5]
    assert isinstance(data.train, list) and isinstance(data.train[0], TableFile)
    assert data.train[0].tag == "<s>" and isinstance(data.train[1], TableFile) and data.train[1].last_step == 5
    assert json.loads(Path("work/train-1.jsonl").read_text("utf-8").splitlines()[0])["source"] == "a b"
    assert targets(recipe)[0][0] == "<s> a b"


def test_word_level_alone_trains_on_the_references(copier: Translator) -> None:
    data, _ = written({"train": "small.tsv", "prepared": "folder"}, copier, name="word")
    assert data.train == "small.tsv" and data.prepared is None and not Path("work").exists()


def test_word_level_with_monolingual_text(copier: Translator) -> None:
    data, recipe = written({"train": "small.tsv"}, copier, ("more.txt",), name="word")
    assert weights(data) == [None, None] and len(targets(recipe)) == 4
    data, _ = written({"train": [{"name": "small.tsv", "weight": 2.0}]}, copier, ("more.txt",), name="word")
    assert weights(data) == [2.0, 2.0]


def test_the_pipeline_applies_once(copier: Translator) -> None:
    Path("upper.tsv").write_text("A B\tX\n", "utf-8")
    data = {"train": "upper.tsv", "pipeline": [{"kind": "lowercase"}, {"kind": "prefix", "text": "a"}]}
    settings, recipe = written(data, copier)
    [line] = Path("work/train-1.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {"source": "A B", "target": copier.translate("a a b").text}
    assert targets(recipe)[0][0] == "a a b" and settings.pipeline


def test_steps_that_make_pairs_make_sources_for_the_teacher(
    copier: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, in place of the targets that they make: the student reads no further variants."""
    group = [["a", "x"], ["b", "y"]]
    Path("symbols.tsv").write_text("a c\tx z\nb b\ty y\n", "utf-8")
    data = {"train": "symbols.tsv", "pipeline": [{"kind": "exchange", "groups": [group]}], "variants": 8}
    settings, recipe = written(data, copier, references=0.5)
    new = ["b c", "a a"]
    assert sorted(source for source, _ in targets(recipe)) == sorted(["a c", "b b", *new, "a c", "b b"])
    rows = [json.loads(line) for line in Path("work/train-1.jsonl").read_text("utf-8").splitlines()]
    assert {row["source"]: row["target"] for row in rows if row["source"] in new} == {
        text: copier.translate(text).text for text in new
    }
    assert settings.pipeline == [] and settings.variants == 1 and weights(settings) == [2.0, 2.0]
    monkeypatch.setattr(corpora, "MOST_MADE", 1)
    before = make_recipe({"data": data})
    [entry] = find_corpora(before, "train")
    assert len([*made_items(before, entry)]) == 1
    noisy, _ = written({**data, "pipeline": [*data["pipeline"], {"kind": "noise", "drop": 0.1}]}, copier)  # type: ignore[misc]
    assert [step.kind for step in noisy.pipeline] == ["noise"] and noisy.variants == 8


def test_sources_of_several_columns(copier: Translator) -> None:
    Path("table.tsv").write_text("a\tN;PL\tx\nb\tN;SG\ty\n", "utf-8")
    corpus = {"file": "table.tsv", "source": [1, 2], "target": 3, "tags": [2]}
    recipe = make_recipe({"data": {"train": corpus}, "model": {"sources": {"count": 2}}})

    class Columns(Translator):
        def __init__(self) -> None:
            self.__dict__.update(copier.__dict__)

        def translate(self, texts: Any, **options: Any) -> Any:
            return copier.translate([text.split("\t")[0] for text in texts], **options)

    method = Method.make("sequence", references=None, n_best=None, teacher_weight=None, search={})
    generator = DistilledCorpora(recipe, method, [], Path("work"), Columns, {}).write()
    with pytest.raises(StopIteration) as end:
        while True:
            next(generator)
    student = recipe.model_copy(update={"data": end.value.value})
    assert student.feature_columns == recipe.feature_columns == [1]
    assert [pair.source for pair in read_corpus(student, "train")] == ["a\t<N><PL>", "b\t<N><SG>"]


def test_the_closest_output() -> None:
    assert closest(["a b c", "a b d", "x"], "a b d e") == "a b d"
    assert closest(["first", "second"], "") == "first"


def test_missing_monolingual_text() -> None:
    check_monolingual([Path("more.txt")])
    with pytest.raises(DataError, match=r"none\.txt: no such file; expected monolingual text, a source on every line"):
        check_monolingual([Path("more.txt"), Path("none.txt")])
