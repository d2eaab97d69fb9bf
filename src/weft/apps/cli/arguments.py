"""Arguments that several commands share, the checks that need no torch, and loading a run as quickly as it can be."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from weft.data.pairs import BLANK_KIND, LENGTH_KIND
from weft.errors import CheckpointError, DataError, RecipeError, SearchError, nearest, plural
from weft.runtime.activity import activity
from weft.runtime.switches import frozen_afterwards

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.data.reading.corpora import Corpus
    from weft.translation.translator import Translator

Item = TypeVar("Item")
LEFT_OUT = {BLANK_KIND: "with a blank side", LENGTH_KIND: "with a side that is too long"}
"""The reason why rows are left out, for each kind of error; rows with other errors cannot be read."""
ENGINES = ("auto", "torch", "ctranslate2")
PRECISIONS = ("auto", "fp32", "tf32", "bf16", "int8")


def _check_device(device: str | None) -> str | None:
    """The value of --device, if it names a device; whether this machine has it is known once torch is imported."""
    if device is not None and not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise RecipeError(f"--device {device}: no such device; use auto, cpu, cuda or cuda:N")
    return device


def _check_engine(engine: str | None) -> str | None:
    if engine is not None and engine not in ENGINES:
        raise SearchError(f"--engine {engine}: unknown engine; {nearest(engine, ENGINES)}")
    return engine


def _check_precision(precision: str | None) -> str | None:
    if precision is not None and precision not in PRECISIONS:
        raise SearchError(f"--precision {precision}: unknown precision; {nearest(precision, PRECISIONS)}")
    return precision


Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="The name of a shipped recipe, or a TOML file.", show_default=False)
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Device = Annotated[str, typer.Option("--device", callback=_check_device, help="auto, cpu, cuda or cuda:N.")]
DeviceOrNone = Annotated[
    str | None,
    typer.Option("--device", callback=_check_device, help="auto, cpu, cuda or cuda:N; by default that of the recipe."),
]
Picture = Annotated[Path | None, typer.Option("--to", "--out", help="Write a picture: .svg, .png or .pdf.")]
Search = Annotated[
    str | None,
    typer.Option("--search", metavar="KIND", help="Search strategy: greedy, beam, sample, mbr, exact or exhaustive."),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option("--source-language", metavar="LANGUAGE", help="Language of the sources, if the model has several."),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option("--target-language", metavar="LANGUAGE", help="Language to translate into, if the model has several."),
]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RUN", help="Another run to ensemble with RUN; may be repeated."),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        callback=_check_precision,
        help="Numerical precision: auto, fp32, tf32, bf16 or int8.",
        show_default=False,
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        callback=_check_engine,
        help="Inference engine: auto, torch or ctranslate2.",
        show_default=False,
    ),
]
Adapter = Annotated[
    str | None,
    typer.Option(
        "--adapter",
        metavar="NAME",
        help="Adapter of RUN to use, or none; by default the one that RUN was trained with, if any.",
        show_default=False,
    ),
]
PairsFile = Annotated[str | None, typer.Argument(metavar="PAIRS", help="A file of pairs; - is standard input.")]
PairsOrM2 = Annotated[
    str | None,
    typer.Argument(metavar="PAIRS", help="A file of pairs, or an M2 file (*.m2); - is standard input."),
]
Source = Annotated[
    str | None, typer.Option("--source", metavar="FILE|COLUMN", help="A file of sources, or a column of PAIRS.")
]
Target = Annotated[
    str | None, typer.Option("--target", metavar="FILE|COLUMN", help="A file of targets, or a column of PAIRS.")
]
PairsOrSources = Annotated[str, typer.Argument(metavar="PAIRS", help="A TSV file of pairs, or a file of sources.")]
TargetsFile = Annotated[
    str | None, typer.Argument(metavar="TARGETS", help="A file of targets, if PAIRS has sources only.")
]
Like = Annotated[str | None, typer.Option("--like", metavar="RECIPE", help="Take the settings of this recipe.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N pairs.")]
Samples = Annotated[
    int, typer.Option("--samples", min=100, help="Random samples of the test set, for intervals and p-values.")
]
SamplesSeed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the samples.")]
SourceFile = Annotated[Path | None, typer.Option("--source", help="A file of source lines, or a column of PAIRS.")]
TargetFile = Annotated[Path | None, typer.Option("--target", help="A file of target lines, or a column of PAIRS.")]


AcceptNewData = Annotated[
    bool,
    typer.Option(
        "--accept-new-data", help="Read the files that the run's recipe names, even if it was not trained with them."
    ),
]


def check_runs(*runs: Path) -> None:
    """Fail if one of these is not a run folder that this version can read."""
    from weft.runs.layout import RunFolder

    for run in runs:
        RunFolder(run).check()


def check_device(device: str | None) -> None:
    """Fail if --device names a device that this machine does not have; imports torch."""
    if device is not None:
        from weft.runtime.devices import choose_device

        choose_device(device, given=f"--device {device}")


def check_adapter(run: Path, name: str | None) -> None:
    """Fail if a run has no adapter of this name, without importing torch."""
    from weft.runs.adapted_run import adapter_names

    if name not in (None, "none", *(known := adapter_names(run))):
        has = nearest(str(name), [*known, "none"]) if known else "it has none"
        raise CheckpointError(f"--adapter {name}: {run} has no adapter of this name; {has}")


def check_output(output: Path | None) -> None:
    """Fail if a file cannot be written there, before anything is computed for it."""
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        reason = "is a folder" if output.is_dir() else f"there is no folder {output.parent}"
        raise DataError(f"{output}: cannot write: {reason}")


def check_file(file: str) -> None:
    """Fail if there is no such file; ``-`` is standard input."""
    if file != "-" and not Path(file).exists():
        raise DataError(f"{file}: no such file")


def check_picture(to: Path | None) -> None:
    """Fail if a picture cannot be written in the format of this path."""
    from weft.pictures.picture import check_format

    if to is not None:
        check_format(to)


def given_corpus(run: Path, pairs: str | None, source: Path | None, target: Path | None) -> Corpus | None:
    """The pairs that the command line names for a run, or None if it names none; columns that were found are shown."""
    from weft.data.columns.given_pairs import given_pairs
    from weft.data.reading.corpora import ParallelText, check_standard_input
    from weft.recipe import load_recipe
    from weft.runs.layout import RunFolder

    if bool(source) != bool(target):
        raise DataError("--source and --target go together: two files of lines, or two columns of PAIRS")
    if pairs is not None:
        columns = (str(source), str(target)) if source and target else None
        given = given_pairs(load_recipe(RunFolder(run).recipe), pairs, columns)
        if given.found_columns:
            typer.echo(f"columns: {given.found_columns}", err=True)
        return given.corpus
    if source and target:
        corpus = ParallelText((str(source),), (str(target),))
        check_standard_input([corpus])
        return corpus
    return None


def read_given(run: Path, pairs: str | None, source: Path | None, target: Path | None) -> list[Pair] | None:
    """All of these pairs in memory; a row that cannot be read is an error, or left out, as the run's recipe says."""
    from weft.data.reading.corpora import read
    from weft.recipe import load_recipe
    from weft.runs.layout import RunFolder

    corpus = given_corpus(run, pairs, source, target)
    if corpus is None:
        return None
    errors: Counter[str] = Counter()
    policy = load_recipe(RunFolder(run).recipe).data.bad_rows
    usable = list(counted(read(corpus, policy, errors), pairs or str(source)))
    show_left_out(errors)
    return usable


def show_left_out(left_out: Mapping[str, int]) -> None:
    """Tell on stderr how many rows were not used, and why."""
    for kind, count in left_out.items():
        reason = LEFT_OUT.get(kind, f"that cannot be read ({kind})")
        typer.echo(f"left out: {plural(count, 'row')} {reason}", err=True)


def counted(items: Iterable[Item], file: str, unit: str = "pairs") -> Iterator[Item]:
    """Yield the items of a file, with a counter on stderr unless they are typed in a terminal."""
    if file == "-" and sys.stdin is not None and sys.stdin.isatty():
        yield from items
        return
    with activity(f"reading {'standard input' if file == '-' else file}", unit) as reading:
        for item in items:
            reading.done += 1
            yield item


def search_changes(run: Path | None, search: str | None, changes: list[str] | None) -> dict[str, Any]:
    """``--search`` and ``--set search.x=y`` as keyword arguments of a search, checked with the recipe of the run."""
    from weft.recipe import load_recipe, make_recipe, parse_change

    settings: dict[str, Any] = {} if search is None else {"kind": search}
    for change in changes or []:
        path, value = parse_change(change)
        if len(path) != 2 or path[0] != "search":
            raise RecipeError(f"--set {change}: only search settings of a trained run can be changed (search.size=8)")
        settings[path[1]] = value
    if settings and run is not None:
        check_runs(run)
        recipe = load_recipe(run / "recipe.toml")
        make_recipe({"search": {**recipe.search.model_dump(), **settings}})
    return settings


class RunArguments(NamedTuple):
    """Arguments for loading a run: RUN, --with, --device, --precision, --engine and --adapter."""

    run: Path
    more: list[Path] | None
    device: str
    precision: str | None
    engine: str | None
    adapter: str | None = None
    accept_new_data: bool = False

    @property
    def runs(self) -> list[Path]:
        return [self.run, *(self.more or ())]

    def check(self) -> None:
        check_runs(*self.runs)
        check_adapter(self.run, self.adapter)

    def load(self) -> Translator:
        """The run, or several as an ensemble."""
        options = {"precision": self.precision, "engine": self.engine, "adapter": self.adapter}
        given = {name: value for name, value in options.items() if value is not None}
        translator = load_runs(*self.runs, device=self.device, **given)
        if self.accept_new_data:
            translator.recipe = translator.recipe.accepting_new_data()
        return translator


def load_runs(*runs: Path, device: str, **options: Any) -> Translator:
    """Load a run, or several as an ensemble, as `weft.load` does."""
    with frozen_afterwards():
        from weft.translation.load import load

        return load(*runs, device=device, **options)
