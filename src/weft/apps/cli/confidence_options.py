"""``weft translate --confidence``, ``--min-confidence``, ``--precision-target``, ``--review`` and ``--flags``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from weft.apps.cli.arguments import check_output
from weft.errors import SearchError, plural, warn
from weft.files import save_text

if TYPE_CHECKING:
    from weft.apps.cli.arguments import RunArguments
    from weft.translation.confidence import ConfidenceModel
    from weft.translation.drift import DriftMonitor
    from weft.translation.output_format import OutputFormat
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

BELOW = ("blank", "source")
NEVER = 2.0
"""A confidence that no output has."""

ShowConfidence = Annotated[
    bool, typer.Option("--confidence", help="Add a column: the probability that the output is right.")
]
MinConfidence = Annotated[
    float | None,
    typer.Option("--min-confidence", metavar="P", min=0.0, max=1.0, help="Leave out outputs of less confidence."),
]
PrecisionTarget = Annotated[
    float | None,
    typer.Option(
        "--precision-target",
        metavar="P",
        help="Leave out outputs so that this share of the others is right, e.g. 0.95; prints how many to expect.",
    ),
]
Below = Annotated[
    str, typer.Option("--below", metavar="blank|source", help="The line in place of an output that is left out.")
]
Review = Annotated[
    Path | None,
    typer.Option(
        "--review", help="Write the outputs that are left out to this file: line, confidence, source, output."
    ),
]


ShowFlags = Annotated[
    bool,
    typer.Option(
        "--flags", help="Add a column: what is suspicious about the output, such as cut,repeats; with counts."
    ),
]


UNFAMILIAR = frozenset({"unlike-training", "unknown-tokens"})
"""Flags of outputs whose like is rare among validation outputs."""


class ConfidenceOptions(NamedTuple):
    """The options of a command that concern confidence."""

    show: bool = False
    min_confidence: float | None = None
    precision_target: float | None = None
    below: str = "blank"
    review: Path | None = None
    flags: bool = False

    @property
    def given(self) -> bool:
        return self.show or self.limits

    @property
    def limits(self) -> bool:
        return self.min_confidence is not None or self.precision_target is not None

    def check(self, arguments: RunArguments, *, several_jobs: bool) -> None:
        """Fail on options that do not fit each other; ``several_jobs``: whether an output may have several parts."""
        if self.below not in BELOW:
            raise SearchError(f"--below {self.below}: use {' or '.join(BELOW)}")
        if self.min_confidence is not None and self.precision_target is not None:
            raise SearchError("--min-confidence and --precision-target: two thresholds; choose one of them")
        if self.precision_target is not None and not 0 < self.precision_target < 1:
            raise SearchError(f"--precision-target {self.precision_target:g}: expected a number between 0 and 1")
        if not self.limits and (self.review is not None or self.below != "blank"):
            name = "--review" if self.review is not None else "--below"
            raise SearchError(f"{name}: needs --min-confidence or --precision-target")
        if self.review is not None and several_jobs:
            raise SearchError("--review: cannot be used with --resume, --part, --merge or --ray; use --confidence")
        check_output(self.review)
        if self.given and (arguments.more or arguments.adapter):
            option = "--with" if arguments.more else "--adapter"
            raise SearchError(f"--confidence: the run is calibrated without {option}; leave one of them out")

    def applied_to(self, output_format: OutputFormat, run: Path) -> OutputFormat:
        """A format with what these options say."""
        least = self.least(run)
        return output_format._replace(confidence=self.show, min_confidence=least, below=self.below, flags=self.flags)

    def least(self, run: Path) -> tuple[float, float] | None:
        """The confidence that outputs need; what to expect of a precision target is printed.

        The second is for outputs without token scores (CTranslate2), whose confidence has fewer features.
        """
        if not self.given:
            return None
        model = calibrated(run)
        if self.precision_target is None:
            return None if self.min_confidence is None else (self.min_confidence, self.min_confidence)
        threshold = model.threshold(self.precision_target)
        without_tokens = model.threshold(self.precision_target, model="sequence")
        if threshold is None:
            raise SearchError(
                f"--precision-target {self.precision_target:g}: no confidence reaches it on validation data of {run}, "
                f"where {model.accuracy:.1%} of all outputs are right; choose a lower one"
            )
        print(f"weft: {threshold.describe()}", file=sys.stderr)
        return threshold.confidence, NEVER if without_tokens is None else without_tokens.confidence


def calibrated(run: Path) -> ConfidenceModel:
    """The confidence of a run; an error if it has none."""
    from weft.translation.confidence import FILE_NAME, read_confidence

    model = read_confidence(run)
    if model is None:
        has_file = (run / FILE_NAME).is_file()
        reason = f"{FILE_NAME} is of other weights" if has_file else "this run is not calibrated"
        raise SearchError(f"{run}: {reason}; calibrate it on its validation set: weft calibrate {run}")
    return model


class JudgedOutputs:
    """The outputs of a command by their confidence: those that are left out, and whether the inputs drift."""

    def __init__(self, model: Translator, output_format: OutputFormat, review: Path | None) -> None:
        self.least = output_format.min_confidence
        self.review = review
        self.lines: list[str] = []
        self.outputs = self.left_out = self.unfamiliar = 0
        self.counts_flags = output_format.flags
        self.flags: Counter[str] = Counter()
        self.drift: DriftMonitor | None = None
        if model.confidence is not None and (output_format.confidence or self.least is not None):
            from weft.translation.drift import DriftMonitor

            self.drift = DriftMonitor(model.confidence)

    def add(self, translations: Mapping[int, Translation]) -> None:
        """Count the translations of some lines, by their numbers."""
        self.outputs += len(translations)
        if self.drift is not None:
            self.drift.add(translations.values())
        if self.counts_flags:
            self.flags.update(name for translation in translations.values() for name in translation.flags)
        if self.least is None:
            return
        from weft.translation.output_format import in_one_line, is_accepted

        for number, translation in translations.items():
            if is_accepted(translation, self.least):
                self.unfamiliar += bool(UNFAMILIAR & set(translation.flags))
            else:
                self.left_out += 1
                if self.review is not None:
                    texts = in_one_line(translation.source), in_one_line(translation.text)
                    self.lines.append(f"{number}\t{translation.confidence:.3f}\t{texts[0]}\t{texts[1]}\n")

    def finish(self) -> None:
        """Write the file for review, and report how many outputs were left out and whether the inputs drift."""
        if self.review is not None:
            save_text(self.review, "line\tconfidence\tsource\toutput\n" + "".join(self.lines))
        if self.least is not None:
            where = "" if self.review is None else f"; see {self.review}"
            print(f"weft: {self.left_out:,} of {plural(self.outputs, 'output')} left out{where}", file=sys.stderr)
        if self.unfamiliar:
            warn(
                f"{plural(self.unfamiliar, 'accepted output')} with unknown tokens or unlike the training data: no "
                "confidence was measured for such; --flags shows them"
            )
        if self.counts_flags:
            counts = ", ".join(f"{count:,} {name}" for name, count in self.flags.most_common()) or "none"
            print(f"weft: flags of {plural(self.outputs, 'output')}: {counts}", file=sys.stderr)
        if self.drift is not None and (warning := self.drift.warning()) is not None:
            warn(warning)
