"""`weft.distill`: from teachers to a trained student; what ``weft distill`` does.

    for event in weft.distill("runs/teacher", out="runs/student", student="tiny"):
        print(event)

The teacher's outputs are written beside the run folder (corpora.py), then the student is trained on them as any recipe
is. RUN.distillation/distillation.json, of which the run folder gets a copy, says what the student was distilled from.
The same call continues whatever was interrupted: the outputs, or the training.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from weft.data.fingerprints import FileFingerprint, record_data_files
from weft.data.preparation import find_corpora, has_corpus
from weft.errors import DataError, RecipeError, option
from weft.files import read_json, save_text
from weft.pairs.distillation.corpora import DistilledCorpora, check_monolingual
from weft.pairs.distillation.method import Method
from weft.pairs.distillation.students import Student, make_student
from weft.pairs.distillation.teachers import Teachers
from weft.pairs.source import GivenPairs, as_source
from weft.pairs.time_limit.budget import MAX_LENGTHENING, TimeLimit
from weft.pairs.time_limit.fitting import fit_run
from weft.pairs.time_limit.revision import train_revised
from weft.pairs.train import PlannedRun, annotated, evaluated
from weft.recipe import Recipe, load_recipe, parse_change
from weft.recipe.files import find_recipe, read_tree
from weft.runs.layout import RunFolder
from weft.training.events import Event, Started
from weft.training.train import CHANGEABLE, Events, TrainingOptions

RECORD = "distillation.json"
FORMAT = 1
LEAST_MINUTES = 0.05
"""The least training time of the student, however much of the time limit the teacher has used."""


def distill(
    teachers: Path | str | Sequence[Path | str],
    data: GivenPairs | None = None,
    out: Path | str | None = None,
    *,
    student: str = "same",
    recipe: Path | str | None = None,
    changes: Sequence[str] | str = (),
    method: str = "sequence",
    references: float | None = None,
    n_best: int | None = None,
    teacher_weight: float | None = None,
    search: Mapping[str, Any] | None = None,
    monolingual: Sequence[Path | str] | Path | str = (),
    minutes: float | None = None,
    use_up_time: bool = False,
    evaluate: bool = True,
    device: str = "auto",
    accept_new_data: bool = False,
) -> Events:
    """Train a student on outputs of teachers; the events are those of `weft.train`, after a `TargetsWritten` per file.

        for event in weft.distill(["runs/a", "runs/b"], "pairs.tsv", "runs/student", student="small"):
            print(event)

    ``teachers``: a run, or several as an ensemble. ``data``: the pairs, as for `weft.train`, or a recipe that names
    them; by default those that the first teacher was trained with. ``out``: the run folder, by default runs/NAME.

    ``student``: same, small, tiny or shallow (`weft.pairs.distillation.students`); or ``recipe``, of any model.
    ``changes``: changes of the student's settings, such as "training.steps=500".

    ``method``: sequence, interpolation or word (`weft.pairs.distillation.method`). ``references``: the share of
    reference pairs in the training data, from 0 to 1. ``n_best``: outputs of the teacher per source.
    ``teacher_weight``: λ of the word-level loss. ``search``: changes of the teacher's search settings.
    ``monolingual``: files of further sources, one per line.

    ``minutes``: a time limit for all of it; with ``use_up_time`` the student trains for more steps than its recipe has
    if there is time. ``evaluate``: end with the result on the test set, if there is one.
    ``accept_new_data``: read the pairs that the teacher's recipe names even if it was not trained with them.

    The same call continues one that was interrupted.
    """
    start_time = time.monotonic()
    files = [monolingual] if isinstance(monolingual, str | Path) else monolingual
    request = DistillationRequest(
        Teachers.find(teachers, device),
        Method.make(method, references=references, n_best=n_best, teacher_weight=teacher_weight, search=search or {}),
        student,
        recipe,
        [changes] if isinstance(changes, str) else list(changes),
        [Path(file) for file in files],
        use_up_time,
    )
    check_monolingual(request.monolingual)
    if recipe is not None and student != "same":
        raise RecipeError(f"{option('student', student)}: the student is that of {option('recipe', recipe)}; give one")
    folder = request.folder(out)
    made = request.student_of(data, folder, accept_new_data=accept_new_data)
    left = None if minutes is None else partial(_minutes_left, minutes, start_time)
    yield from _distill(request, made, folder, minutes=left, evaluate=evaluate)


class DistillationRequest(NamedTuple):
    """The teachers, the method and the student of a distillation."""

    teachers: Teachers
    method: Method
    student: str
    recipe: Path | str | None
    changes: list[str]
    monolingual: list[Path]
    use_up_time: bool = False

    def folder(self, out: Path | str | None) -> Path:
        name = f"{self.teachers.recipe.name}-{self.student}" if self.recipe is None else Path(self.recipe).stem
        return Path("runs") / name if out is None else Path(out)

    def student_of(self, data: GivenPairs | None, folder: Path, *, accept_new_data: bool) -> Student:
        """The student, with the pairs whose sources the teacher translates."""
        teachers, method = self.teachers, self.method
        taught = read_tree(teachers.folders[0] / "recipe.toml")["data"]
        given = {} if data is None else pairs_of(data, folder)
        settings = {**taught, **given}
        weight = [f"training.distillation={method.teacher_weight}"] if method.teacher_weight else []
        device = [] if teachers.device == "auto" else [f"training.device={teachers.device}"]
        changes = [*weight, *device, *self.changes]
        made = make_student(teachers.folders[0], self.student, self.recipe, settings, changes)
        recipe = made.recipe
        if not any(parse_change(change)[0] == ["summary"] for change in self.changes):
            recipe = recipe.model_copy(update={"summary": f"Distilled from {teachers} ({method.describe()})."})
        if not accept_new_data:
            changed = (parse_change(change)[0][:2] for change in self.changes)
            own = {*given, *(name for section, *names in changed if section == "data" for name in names)}
            recipe = recipe.of_run(teachers.folders[0], frozenset(own))
        made = made._replace(recipe=recipe)
        check_student(teachers, made)
        for split in ("train", "valid", "test"):
            if has_corpus(recipe, split):
                find_corpora(recipe, split)  # files that the teacher was not trained with are refused
        return made

    def record(self, student: Student) -> dict[str, Any]:
        """Everything that determines the student; a call that continues another one must have an equal record."""
        kept = [change for change in self.changes if not is_changeable(change)]
        data = record_data_files(student.recipe).files
        fingerprints = {split: [file._asdict() for file in files] for split, files in data.items()}
        record = {
            "weft_distillation": FORMAT,
            "teachers": [str(folder) for folder in self.teachers.folders],
            "weights": self.teachers.identity(),
            "method": self.method.name,
            **{name: value for name, value in self.method._asdict().items() if name != "name"},
            "student": self.student if self.recipe is None else str(self.recipe),
            "changes": kept,
            "data": student.recipe.data.model_dump(mode="json", include={"train", "valid", "test", "holdout"}),
            "files": fingerprints,
            "monolingual": [file._asdict() for file in FileFingerprint.of_all(self.monolingual)],
        }
        return dict(json.loads(json.dumps(record)))


def pairs_of(data: GivenPairs, folder: Path) -> dict[str, Any]:
    """The settings of [data] that name these pairs; a list of pairs is saved beside the run folder."""
    none = {"valid": "none", "test": "none", "holdout": {}, "prepared": "none", "options": {}}
    source = as_source(data, None, None)
    if source is None:
        named = read_tree(find_recipe(str(data))).get("data", {})
        if "train" not in named:
            raise RecipeError(f"{option('data', data)}: the recipe names no pairs (data.train)")
        return {**none, "folder": str(Path.cwd()), **named}
    if source.argument.name == "-" and source.pairs is None:
        raise DataError(f"{option('data', '-')}: standard input cannot be read again; give a file")
    chosen = source.recommend([], None, folder).settings["data"]
    return {**none, "folder": str(Path.cwd()), **chosen}


def check_student(teachers: Teachers, student: Student) -> None:
    """Fail if a student cannot learn from these teachers."""
    recipe = student.recipe
    if recipe.source_role != "text":
        raise RecipeError(f"model.kind: {recipe.model.kind!r} has no sources to translate; a student needs them")
    columns, expected = recipe.model.sources.count, teachers.recipe.model.sources.count
    if columns != expected:
        raise RecipeError(f"model.sources.count: {columns}, but the teacher reads {expected}; make them agree")
    if not recipe.training.distillation:
        return
    if student.has_own_tokenizer:
        raise RecipeError(
            "tokenizer: word-level distillation compares distributions over one vocabulary, that of the teacher; "
            "leave out all settings of [tokenizer]"
        )
    for folder in teachers.folders:
        if load_recipe(folder / "recipe.toml").model.copies:
            raise RecipeError(f"{folder}: copies (model.copy), so its distributions are not over one vocabulary")


def is_changeable(change: str) -> bool:
    """Whether a change may differ when a run is continued."""
    path = parse_change(change)[0]
    return path[0] == "serve" or (path[0] == "training" and path[1:2] != [] and path[1] in CHANGEABLE)


def _minutes_left(minutes: float, start_time: float) -> float:
    return max(minutes - (time.monotonic() - start_time) / 60, LEAST_MINUTES)


def _distill(request: DistillationRequest, student: Student, folder: Path, *, minutes: Any, evaluate: bool) -> Events:
    """Write the training data, then train; what is complete is not repeated."""
    work = folder.with_name(f"{folder.name}.distillation")
    record = request.record(student)
    resume = (folder / "recipe.toml").is_file() and (work / RECORD).is_file()
    if not resume:
        RunFolder.check_new(folder)
    check_record(work / RECORD, record)
    save_text_in(work / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if resume:
        recipe = load_recipe(folder / "recipe.toml", [change for change in request.changes if is_changeable(change)])
    else:
        recipe = yield from _write_data(request, student, work, record)
    yield from _train(request, student, PlannedRun(recipe, folder, resume), minutes=minutes, evaluate=evaluate)


def _write_data(
    request: DistillationRequest, student: Student, work: Path, record: Mapping[str, Any]
) -> Generator[Event, None, Recipe]:
    """Write the training data; returns the recipe of the student. The teacher that has translated is not kept."""
    teacher = cache(request.teachers.translator)
    made_by = {name: record[name] for name in ("weights", "method", "n_best", "search")}
    corpora = DistilledCorpora(student.recipe, request.method, request.monolingual, work, teacher, made_by)
    recipe = student.recipe.model_copy(update={"data": (yield from corpora.write())})
    if student.has_own_tokenizer:
        return recipe
    return recipe.model_copy(update={"tokenizer": request.teachers.save_tokenizers(recipe.tokenizer, work)})


def _train(request: DistillationRequest, student: Student, run: PlannedRun, *, minutes: Any, evaluate: bool) -> Events:
    """Train the student; the run folder gets the record, and its recipe a comment."""
    folder, recipe, resume = run.folder, run.recipe, run.resume
    run = run._replace(evaluates=evaluate and has_corpus(recipe, "test"))
    limit = None
    if minutes is not None and not resume:
        limit = TimeLimit.from_now(minutes(), evaluates=run.evaluates)
    options = TrainingOptions(
        resume=resume,
        fit=None if limit is None else partial(fit_run, limit=limit, models=int(request.use_up_time)),
        teacher=request.teachers.model() if recipe.training.distillation else None,
        tokenizers=None if student.has_own_tokenizer else request.teachers.tokenizers(),
    )
    comments = [] if resume else [f"distilled from: {request.teachers}", f"method: {request.method.describe()}"]
    lengthening = MAX_LENGTHENING if request.use_up_time else 1.0
    events = annotated(train_revised(recipe, folder, options, lengthening), RunFolder(folder), comments)
    record = folder.with_name(f"{folder.name}.distillation") / RECORD
    for event in evaluated(events, run):
        if isinstance(event, Started):
            save_text(folder / RECORD, record.read_text("utf-8"))
        yield event


def check_record(path: Path, record: Mapping[str, Any]) -> None:
    """Fail if what is in the folder was made of something else."""
    if not path.is_file():
        return
    before = read_json(path, error=DataError)
    if not isinstance(before, dict):
        raise DataError(f"{path}: damaged; remove {path.parent} to start again")
    changed = [name for name in record if name != "teachers" and before.get(name) != record[name]]
    if changed:
        raise DataError(
            f"{path.parent}: made with other {', '.join(changed)}; use the same options again, or choose another "
            f"{option('out')}"
        )


def save_text_in(path: Path, text: str) -> None:
    """Write a text to a file of a folder that may not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, text)
