"""Arguments that several commands share, and the checks that need no torch."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from weft.activity import activity
from weft.cli.model_loading import load_runs
from weft.errors import CheckpointError, DataError, RecipeError, SearchError, nearest

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.data.reading.corpora import Corpus
    from weft.translation.translator import Translator

Item = TypeVar("Item")
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
Picture = Annotated[Path | None, typer.Option("--to", help="Write a picture: .svg, .png or .pdf.")]
Search = Annotated[
    str | None,
    typer.Option("--search", metavar="KIND", help="Search strategy: greedy, beam, sample, mbr, exact or exhaustive."),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option("--from", metavar="LANGUAGE", help="Language of the sources, if the model has several."),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option("--to", metavar="LANGUAGE", help="Language to translate into, if the model has several."),
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
PairsFile = Annotated[
    str | None, typer.Argument(metavar="PAIRS", help="A TSV file of source and target; - is standard input.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N pairs.")]
Samples = Annotated[
    int, typer.Option("--samples", min=100, help="Random samples of the test set, for intervals and p-values.")
]
SamplesSeed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the samples.")]
SourceFile = Annotated[Path | None, typer.Option("--source", help="A file of source lines; needs --target.")]
TargetFile = Annotated[Path | None, typer.Option("--target", help="A file of target lines; needs --source.")]


LINE_BREAKERS = str.maketrans("\t\r\n", "   ")
"""Characters of an output that would end a column or a line."""


def in_one_line(text: str) -> str:
    """An output as it is written in a file of lines or columns."""
    return text if text.isprintable() else text.translate(LINE_BREAKERS)


def check_runs(*runs: Path) -> None:
    """Fail if one of these is not a run folder that this version can read."""
    from weft.runs.layout import RunFolder

    for run in runs:
        RunFolder(run).check()


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
    from weft.views.picture import check_format

    if to is not None:
        check_format(to)


def given_corpus(run: Path, pairs: str | None, source: Path | None, target: Path | None) -> Corpus | None:
    """The pairs that the command line names for a run, or None if it names none."""
    from weft.data.reading.corpora import ParallelText, check_standard_input, pair_file
    from weft.recipe import load_recipe
    from weft.runs.layout import RunFolder

    if pairs is not None and (source or target):
        raise DataError("give PAIRS or --source and --target, not both")
    if pairs is not None:
        return pair_file(pairs, sources=load_recipe(RunFolder(run).recipe).model.sources.count)
    if source and target:
        corpus = ParallelText((str(source),), (str(target),))
        check_standard_input([corpus])
        return corpus
    if source or target:
        raise DataError("--source and --target go together: one file of sources, one of targets")
    return None


def read_given(run: Path, pairs: str | None, source: Path | None, target: Path | None) -> list[Pair] | None:
    """All of these pairs in memory; the first row that cannot be read is an error."""
    from weft.data.reading.corpora import read

    corpus = given_corpus(run, pairs, source, target)
    return None if corpus is None else list(counted(read(corpus), pairs or str(source)))


def counted(items: Iterable[Item], file: str, unit: str = "pairs") -> Iterator[Item]:
    """The same items of a file; how many were read so far is shown on stderr, unless they are being typed."""
    if file == "-" and sys.stdin is not None and sys.stdin.isatty():
        yield from items
        return
    with activity(f"reading {'standard input' if file == '-' else file}", unit) as reading:
        for item in items:
            reading.done += 1
            yield item


def search_changes(run: Path, search: str | None, changes: list[str] | None) -> dict[str, Any]:
    """``--search`` and ``--set search.x=y`` as keyword arguments of a search, checked with the recipe of the run."""
    from weft.recipe import load_recipe, make_recipe, parse_change

    settings: dict[str, Any] = {} if search is None else {"kind": search}
    for change in changes or []:
        path, value = parse_change(change)
        if len(path) != 2 or path[0] != "search":
            raise RecipeError(f"--set {change}: only search settings of a trained run can be changed (search.size=8)")
        settings[path[1]] = value
    if settings:
        check_runs(run)
        recipe = load_recipe(run / "recipe.toml")
        make_recipe({"search": {**recipe.search.model_dump(), **settings}})
    return settings


class RunArguments(NamedTuple):
    """Which run to load and how: RUN, --with, --device, --precision, --engine and --adapter."""

    run: Path
    more: list[Path] | None
    device: str
    precision: str | None
    engine: str | None
    adapter: str | None = None

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
        return load_runs(*self.runs, device=self.device, **given)
