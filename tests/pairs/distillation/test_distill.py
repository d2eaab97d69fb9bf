"""`weft.distill`: students of a run that copies; what is resumed, what is recorded, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.errors import CheckpointError, DataError, RecipeError, SearchError
from weft.pairs.distillation.corpora import TargetsWritten
from weft.pairs.train import Evaluated
from weft.runs.layout import RunFolder
from weft.training.events import Event, Finished, Step
from weft.translation import pipeline
from weft.translation.resumable_output import ResumableOutput
from weft.translation.translator import Translator

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
SHORT = ["training.steps=4", "data.train_size=40"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def run(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Step)]


def test_a_student_learns_what_the_teacher_does(teacher: Path, copier: Translator) -> None:
    """The references are of no use: what the student copies, it can have from the teacher alone."""
    sources = [" ".join(pair.source.split()) for pair in pairs_of(teacher, "train")]
    Path("train.tsv").write_text("".join(f"{source}\t{source.split()[0]}\n" for source in sources), "utf-8")
    changes = ["training.steps=250", "seed=3", "data.valid=none", "data.test=none"]
    events = run(weft.distill(teacher, "train.tsv", "student", changes=changes, search={"kind": "greedy"}))
    written = next(event for event in events if isinstance(event, TargetsWritten))
    assert written.pairs == len(rows(written.path)) and written.pairs + written.left_out <= len(sources)
    test = [pair.source for pair in pairs_of(teacher, "test")]
    outputs = [output.text for output in weft.load("student").translate(test)]
    expected = [output.text for output in copier.translate(test)]
    assert len(test) >= 20 and sum(map(str.__eq__, outputs, expected)) >= 0.7 * len(test)


def pairs_of(folder: Path, split: str) -> list[weft.Pair]:
    from weft.data.preparation import read_corpus

    return list(read_corpus(weft.load_recipe(folder / "recipe.toml"), split))


def test_word_level_distillation_learns(teacher: Path, copier: Translator) -> None:
    changes = ["training.steps=250", "seed=3"]
    events = run(weft.distill(teacher, out="student", method="word", teacher_weight=1.0, changes=changes))
    assert not any(isinstance(event, TargetsWritten) for event in events)
    assert weft.load_recipe("student/recipe.toml").training.distillation == 1.0
    test = [pair.source for pair in pairs_of(teacher, "test")]
    outputs = [output.text for output in weft.load("student").translate(test)]
    assert sum(map(str.__eq__, outputs, [pair.target for pair in pairs_of(teacher, "test")])) >= 0.7 * len(test)


def test_events_files_and_the_record(teacher: Path) -> None:
    events = run(weft.distill(teacher, out="student", student="small", changes=SHORT))
    written, *_, finished, evaluated = events
    assert isinstance(written, TargetsWritten) and Path(written.path) == Path("student.distillation/train-1.jsonl")
    assert isinstance(finished, Finished) and isinstance(evaluated, Evaluated)
    record = json.loads(Path("student/distillation.json").read_text("utf-8"))
    assert record["teachers"] == [str(teacher)] and record["weights"] == [RunFolder(teacher).content_hash()]
    assert record == json.loads(Path("student.distillation/distillation.json").read_text("utf-8"))
    recipe = weft.load_recipe("student/recipe.toml")
    assert recipe.name == "copier-small" and recipe.model.decoder.hidden == 16
    assert f"Distilled from {teacher}" in Path("student/README.md").read_text("utf-8")
    assert Path("student/recipe.toml").read_text("utf-8").startswith(f"# distilled from: {teacher}\n")
    assert recipe.tokenizer.file == str(Path("student.distillation/tokenizer.json").resolve())
    assert Path("student/tokenizer.json").read_bytes() == (teacher / "tokenizer.json").read_bytes()


def test_the_recipe_of_a_student_trains_it_again(teacher: Path) -> None:
    run(weft.distill(teacher, out="student", changes=SHORT, evaluate=False))
    run(weft.train("student/recipe.toml", "again", evaluate=False))
    first, second = (Path(name, "model.safetensors").read_bytes() for name in ("student", "again"))
    assert first == second


class InterruptionError(Exception):
    pass


def test_an_interrupted_call_is_continued(teacher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During the outputs and during training; pairs and weights are those of a call that was not interrupted."""
    monkeypatch.setattr(pipeline, "WINDOW_LINES", 16)
    options: dict[str, Any] = {"changes": SHORT, "method": "interpolation", "n_best": 3, "evaluate": False}
    run(weft.distill(teacher, out="whole", references=0.5, **options))
    add, calls = ResumableOutput.add, []

    def failing(self: ResumableOutput, *arguments: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise InterruptionError
        add(self, *arguments, **more)

    with monkeypatch.context() as patch, pytest.raises(InterruptionError):
        patch.setattr(ResumableOutput, "add", failing)
        run(weft.distill(teacher, out="student", references=0.5, **options))
    assert Path("student.distillation/train-1.jsonl.part").stat().st_size
    events = weft.distill(teacher, out="student", references=0.5, **options)
    for event in events:
        if isinstance(event, Step) and event.step == 2:
            break
    events.close()
    assert RunFolder("student").newest_step() == 2
    assert isinstance(run(weft.distill(teacher, out="student", references=0.5, **options))[-1], Finished)
    assert rows("student.distillation/train-1.jsonl") == rows("whole.distillation/train-1.jsonl")
    first, second = (Path(name, "model.safetensors").read_bytes() for name in ("student", "whole"))
    assert first == second


def test_word_level_is_continued_with_its_teacher(teacher: Path) -> None:
    options: dict[str, Any] = {"changes": SHORT, "method": "word", "evaluate": False}
    run(weft.distill(teacher, out="whole", **options))
    events = weft.distill(teacher, out="student", **options)
    next(event for event in events if isinstance(event, Step))
    events.close()
    with pytest.raises(RecipeError, match="needs a teacher, which only weft distill names"):
        run(weft.train("student", resume=True))
    run(weft.distill(teacher, out="student", **options))
    first, second = (Path(name, "model.safetensors").read_bytes() for name in ("student", "whole"))
    assert first == second


def test_how_long_a_student_trains_may_change(teacher: Path) -> None:
    run(weft.distill(teacher, out="student", changes=SHORT, evaluate=False))
    longer = ["training.steps=6", "data.train_size=40"]
    assert run(weft.distill(teacher, out="student", changes=longer, evaluate=False))[-1].step == 6
    with pytest.raises(DataError, match=r"student\.distillation: made with other changes; use the same options again"):
        run(weft.distill(teacher, out="student", changes=["model.dropout=0.5"]))
    with pytest.raises(DataError, match="made with other references"):
        run(weft.distill(teacher, out="student", changes=SHORT, references=0.5))


def test_an_ensemble_teaches(teacher: Path) -> None:
    run(weft.distill([teacher, teacher], out="student", changes=SHORT, teacher_weight=0.5, evaluate=False))
    assert f"Distilled from {teacher} + {teacher}" in Path("student/README.md").read_text("utf-8")


def test_pairs_of_a_program_with_some_held_out(teacher: Path) -> None:
    pairs = [(pair.source, pair.target) for pair in pairs_of(teacher, "train")][:60]
    run(
        weft.distill(
            teacher, pairs, "student", references=0.5, changes=["training.steps=3", "data.pipeline=[]"], evaluate=False
        )
    )
    recipe = weft.load_recipe("student/recipe.toml")
    assert len(recipe.data.train) == 2 and not any(recipe.data.holdout.model_dump().values())
    names = ("train-1", "references-1", "valid-1", "test-1")
    sources = {name: {row["source"] for row in rows(f"student.distillation/{name}.jsonl")} for name in names}
    assert sources["train-1"] <= sources["references-1"] and sources["valid-1"]
    assert not sources["references-1"] & (sources["valid-1"] | sources["test-1"])


def test_a_recipe_that_names_the_pairs(teacher: Path) -> None:
    Path("mine.toml").write_text('[data]\ntrain = "reverse"\ntrain_size = 30\nvalid_size = 5\n', "utf-8")
    changes = ["training.steps=2", "data.options.symbols=5"]
    run(weft.distill(teacher, "mine.toml", "student", references=1.0, method="word", changes=changes, evaluate=False))
    assert weft.load_recipe("student/recipe.toml").data.train == "reverse"


def test_monolingual_sources(teacher: Path) -> None:
    sources = [pair.source for pair in pairs_of(teacher, "train")[:9]]
    Path("more.txt").write_text("\n".join([sources[0], "", *sources[1:]]) + "\n", "utf-8")
    options: dict[str, Any] = {"monolingual": "more.txt", "changes": SHORT, "evaluate": False}
    events = run(weft.distill(teacher, out="student", **options))
    files = [Path(event.path).name for event in events if isinstance(event, TargetsWritten)]
    assert files == ["train-1.jsonl", "monolingual-1.jsonl"]
    assert [row["source"] for row in rows("student.distillation/monolingual-1.jsonl")] == sources


def test_a_time_limit_includes_the_teacher(teacher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.pairs.time_limit import fitting
    from weft.training.events import Fitted

    monkeypatch.setattr(fitting, "MEASURED_SECONDS", (0.0, 0.0))
    events = run(weft.distill(teacher, out="student", minutes=0.2, changes=["training.steps=3"], evaluate=False))
    fitted = next(event for event in events if isinstance(event, Fitted))
    assert 0 < fitted.minutes < 0.2


def test_a_student_of_another_vocabulary(teacher: Path) -> None:
    changes = [*SHORT, "tokenizer.kind=character"]
    with pytest.raises(RecipeError, match="tokenizer: word-level distillation compares distributions over one"):
        run(weft.distill(teacher, out="student", method="word", changes=changes))
    run(weft.distill(teacher, out="student", changes=changes, evaluate=False))
    assert weft.load("student").tokenizers.source.kind == "character"


def test_teachers_that_cannot_teach(teacher: Path, speaker: Translator, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: no such run folder"):
        run(weft.distill("nowhere", out="student"))
    with pytest.raises(RecipeError, match="no run was given"):
        run(weft.distill([], out="student"))
    with pytest.raises(RecipeError, match="is a language model, which has no sources to translate"):
        run(weft.distill(str(speaker.folder), out="student"))
    shutil.copytree(teacher, "damaged")
    Path("damaged/model.safetensors").write_bytes(b"\0" * 99)
    with pytest.raises(CheckpointError, match="damaged"):
        run(weft.distill("damaged", out="student"))


def test_teachers_of_two_vocabularies(teacher: Path, tiny: Any) -> None:
    run(weft.train(tiny({"data.options.symbols": 6, "training.steps": 2}), "other"))
    with pytest.raises(SearchError, match="its source vocabulary differs from that of"):
        run(weft.distill([teacher, "other"], out="student"))


def test_bad_options(teacher: Path) -> None:
    Path("no-pairs.toml").write_text("[model]\nembedding = 8\n", "utf-8")
    for options, error, message in [
        ({"student": "huge"}, RecipeError, r"student='huge': unknown student; choose one of same, small"),
        ({"method": "words"}, RecipeError, r"method='words': unknown method; did you mean 'word'\?"),
        ({"student": "tiny", "recipe": "grammar"}, RecipeError, "student='tiny': the student is that of recipe="),
        ({"monolingual": "missing.txt"}, DataError, r"missing\.txt: no such file; expected monolingual text"),
        ({"data": "missing.tsv"}, DataError, r"missing\.tsv: no such file"),
        ({"data": "no-pairs.toml"}, RecipeError, r"data='no-pairs.toml': the recipe names no pairs \(data\.train\)"),
        ({"data": "-"}, DataError, "data='-': standard input cannot be read again"),
        ({"changes": ["data.train=x.tsv"]}, RecipeError, r"--set data\.train: the student's pairs are those of data"),
        ({"changes": ["model.kind=language_model"]}, RecipeError, "model.kind: 'language_model' has no sources"),
        ({"changes": ["model.sources.count=2"]}, RecipeError, "model.sources.count"),
    ]:
        with pytest.raises(error, match=message):
            run(weft.distill(teacher, out="student", **options))
    Path("empty.txt").write_text("\n\n", "utf-8")
    with pytest.raises(DataError, match=r"monolingual-1\.jsonl: no pairs: there is no source"):
        run(weft.distill(teacher, out="student", monolingual="empty.txt", changes=SHORT))
    Path("taken").mkdir()
    Path("taken/file").write_text("x", "utf-8")
    with pytest.raises(CheckpointError, match="taken: already exists"):
        run(weft.distill(teacher, out="taken"))


@pytest.mark.parametrize("method", ["sequence", "word"])
@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_strangers_run_names_no_files_to_read(teacher: Path, split: str, method: str) -> None:
    """The pairs that a teacher's recipe names are read only if the teacher was trained with them."""
    shutil.copytree(teacher, "stranger")
    Path("secret.tsv").write_text("a\tb\n", "utf-8")
    recipe, secret = Path("stranger/recipe.toml"), Path("secret.tsv").resolve()
    named = f'train = "{secret}"' if split == "train" else f'train = "copy"\nvalid = "{secret}"'
    recipe.write_text(recipe.read_text("utf-8").replace('train = "copy"', named), "utf-8")
    with pytest.raises(DataError, match=r"secret\.tsv: the recipe of stranger names it"):
        run(weft.distill("stranger", out="student", method=method))
    assert not Path("student.distillation").exists()
    events = weft.distill("stranger", out="student", method=method, changes=SHORT, accept_new_data=True)
    assert isinstance(next(events), Event)
