"""`weft report`: what a run is, how it learned and how good it is, as one page.

report = weft.report("runs/x")
report.save("report.html")              one file, without scripts and without references to others
report.record()                         the numbers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft import __version__
from weft.apps.reporting.calibration import calibration_section
from weft.apps.reporting.card import card_section
from weft.apps.reporting.confidence import confidence_section
from weft.apps.reporting.confusions import confusions_section
from weft.apps.reporting.data import DataSection, data_section
from weft.apps.reporting.decisions import decisions_section
from weft.apps.reporting.examples import examples_section
from weft.apps.reporting.learning import learning_section
from weft.apps.reporting.outputs import (
    ReportRequest,
    ScoredMetric,
    TestOutputs,
    choose_metrics,
    find_test_set,
    translate_test_set,
)
from weft.apps.reporting.parts import parts_section
from weft.apps.reporting.scores import ScoresSection
from weft.apps.reporting.section import Section, interval_text, score_text
from weft.apps.reporting.speed import speed_section
from weft.apps.reporting.worst_pictures import picture_sections
from weft.errors import plural
from weft.evaluation.evaluate import loaded_run
from weft.evaluation.pairs import GivenPairs
from weft.evaluation.significance import Resampling
from weft.files import save_text
from weft.models.architecture import count_parameters
from weft.pictures.html.elements import Content, Html, element, join
from weft.pictures.html.page import fragment, page
from weft.pictures.labels import one_line
from weft.runs.layout import RunFolder
from weft.runs.training_log import read_training_log
from weft.translation.translator import Translator

NAME = "report.html"
"""The file in a run folder."""


@dataclass(frozen=True, repr=False)
class RunReport:
    """A report on a run. A notebook shows it as the page that `save` writes."""

    name: str
    """The name of the run."""
    summary_line: str
    metrics: Sequence[ScoredMetric]
    """The scores on the test set."""
    items: int
    """Items of the test set; 0 if there is none."""
    sections: Sequence[Section]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows of the test set that were not used, by the kind of error."""
    folder: Path | None = None

    def __repr__(self) -> str:
        return f"<RunReport {self.name!r}: {plural(len(self.sections), 'section')}, {plural(self.items, 'item')}>"

    def __str__(self) -> str:
        return "\n".join(self.summary())

    def summary(self) -> list[str]:
        """The scores, line by line."""
        return [
            f"{metric.score.name:<24}{metric.score.value:8.2f}   {interval_text(metric.interval)}".rstrip()
            for metric in self.metrics
        ]

    def record(self) -> dict[str, Any]:
        """All numbers of the report by section, for ``--json``."""
        return {
            "run": self.name,
            "version": f"weft {__version__}",
            **{section.key: section.record() for section in self.sections},
        }

    def to_html(self) -> str:
        """The page."""
        return str(page(f"{one_line(self.name)}: weft report", *self._content()))

    def save(self, path: Path | str | None = None) -> Path:
        """Write the page, by default as report.html into the run folder."""
        path = Path(path) if path is not None else (self.folder or Path()) / NAME
        save_text(path, self.to_html())
        return path

    def _repr_html_(self) -> str:
        return str(fragment(*self._content()))

    def _content(self) -> list[Content]:
        links = [element("a", section.title, href=f"#{section.key}") for section in self.sections]
        scores = [
            element("div", item.score.name, element("b", score_text(item.score.value)), interval_text(item.interval))
            for item in self.metrics
        ]
        header = [
            element("h1", one_line(self.name)),
            *([element("p", one_line(self.summary_line), class_="faint")] if self.summary_line else []),
            *([element("div", *scores, class_="key")] if scores else []),
            element("nav", *links, aria_label="sections"),
        ]
        footer = element("p", f"weft {__version__}", class_="faint small")
        return [element("header", *header), *map(_section, self.sections), element("footer", footer)]


def _section(section: Section) -> Html:
    return join(["\n", element("section", element("h2", section.title, id=section.key), section.html())])


def report(
    run: Translator | Path | str,
    pairs: GivenPairs | None = None,
    metrics: Sequence[str] | None = None,
    *,
    limit: int | None = None,
    samples: int = 1_000,
    seed: int = 12_345,
    **search: Any,
) -> RunReport:
    """Data, decisions, learning curves, scores, errors, calibration and examples of a run.

        weft.report("runs/grammar").save("report.html")

    ``run``: a run of `weft.load`, or its folder.
    ``pairs``: as in `evaluate`; by default the test set of the run's recipe or, if it has none, the validation set.
    ``limit``: use only the first ``limit`` pairs.
    ``metrics``: names, by default those of the recipe. ``samples`` and ``seed``: number and seed of bootstrap samples.
    ``search`` changes search settings, e.g. ``size=8``.
    """
    resampling = Resampling(samples, seed)
    resampling.check()
    run = loaded_run(run)
    pairs = list(pairs) if pairs is not None and not isinstance(pairs, Path | str) else pairs
    request = ReportRequest(pairs, metrics, limit, resampling, search)
    folder = None if run.folder is None else RunFolder(run.folder)
    log = None if folder is None else read_training_log(folder.log)
    name = run.recipe.name if folder is None else folder.path.resolve().name
    choose_metrics(run.recipe, request, None)
    test_set = find_test_set(run.recipe, request)
    choose_metrics(run.recipe, request, test_set)
    known = {} if test_set is None or test_set.split is None else {test_set.split: test_set.given.pairs}
    data = data_section(run, log, known)
    units = None if data.frequencies is None else data.frequencies.units
    outputs = None if test_set is None else translate_test_set(run, request, test_set, units)
    parameters = count_parameters(run.model)
    size = folder.model.stat().st_size if folder is not None and folder.model.is_file() else None
    sections: list[Section] = [
        ScoresSection(outputs),
        data,
        decisions_section(run.recipe, None if folder is None else folder.recipe),
        learning_section(log, run.recipe.training.loss),
        *_output_sections(run, outputs, data, search),
        speed_section(name if folder is None else str(folder.path), parameters, size, log),
        card_section(None if folder is None else folder.card),
    ]
    return RunReport(
        name,
        run.recipe.summary,
        [] if outputs is None else outputs.metrics,
        0 if outputs is None else len(outputs.sources),
        sections,
        {} if outputs is None else outputs.given.left_out,
        None if folder is None else folder.path,
    )


def _output_sections(
    run: Translator, outputs: TestOutputs | None, data: DataSection, search: dict[str, Any]
) -> list[Section]:
    """The sections about outputs; none for a language model, and without a test set."""
    if outputs is None or not outputs.has_outputs:
        return []
    confidence = confidence_section(run, outputs)
    return [
        parts_section(outputs, data.frequencies, reads_texts=not data.reads_arrays),
        confusions_section(outputs),
        calibration_section(run, outputs),
        *([] if confidence is None else [confidence]),
        examples_section(run, outputs, search),
        *picture_sections(run, outputs),
    ]
