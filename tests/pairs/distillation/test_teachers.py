"""Runs as teachers, imported ones among them."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.errors import CheckpointError, RecipeError
from weft.models.architecture import architecture_of
from weft.pairs.distillation.teachers import Teachers
from weft.recipe import TokenizerSettings
from weft.translation.translator import Translator


def test_one_or_several(teacher: Path) -> None:
    one, two = Teachers.find(teacher), Teachers.find([str(teacher), teacher], "cpu")
    assert one.recipe.name == "copier" and str(two) == f"{teacher} + {teacher}"
    assert two.identity() == one.identity() * 2
    assert architecture_of(one.model()).kind == "seq2seq" and architecture_of(two.model()).kind == "ensemble"
    assert isinstance(two.translator().translate("a b").text, str)
    assert one.tokenizers().source.size == weft.load(teacher).tokenizers.source.size


def test_what_cannot_teach(speaker: Translator, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no run was given; expected one or more run folders"):
        Teachers.find([])
    with pytest.raises(CheckpointError, match="no such run folder"):
        Teachers.find(tmp_path / "missing")
    with pytest.raises(RecipeError, match="is a language model, which has no sources to translate"):
        Teachers.find(str(speaker.folder))


def test_the_tokenizers_of_a_student(teacher: Path, tmp_path: Path) -> None:
    settings = Teachers.find(teacher).save_tokenizers(TokenizerSettings(kind="word"), tmp_path)
    assert settings.file == str(tmp_path / "tokenizer.json") and settings.target_file is None
    two = TokenizerSettings(kind="word", joint=False)
    assert Teachers.find(teacher).save_tokenizers(two, tmp_path) == two, "one file is not two"


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
def test_an_imported_model_teaches(tmp_path: Path) -> None:
    """Its tokenizer is one of another library; the student keeps it, and the tokens around its texts."""
    pytest.importorskip("transformers")
    from fixtures import pretrained_models
    from weft.interop.imported_run import ImportOptions
    from weft.interop.importing import import_model

    pretrained_models.make("nllb", tmp_path / "original", end=3.0)
    options = ImportOptions(*pretrained_models.KINDS["nllb"].languages)
    run = import_model(tmp_path / "original", tmp_path / "run", options)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"a b {letter}\tb {letter}\n" for letter in "abcdefgh"), "utf-8")
    changes = ["training.steps=2", "training.device=cpu", "training.validate_every=0"]
    events = weft.distill(
        run, pairs, tmp_path / "student", student="shallow", method="word", changes=changes, evaluate=False
    )
    assert list(events)
    student, original = weft.load(tmp_path / "student"), weft.load(run)
    assert student.tokenizers.frame == original.tokenizers.frame
    assert student.recipe.model.decoder.layers == 1 and isinstance(student.translate("a b").text, str)
