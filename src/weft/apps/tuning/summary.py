"""The result of a tuning run as text: a table, the ensemble, and the next commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from weft.apps.tuning.folder import TuningFolder
from weft.apps.tuning.result import SIGNIFICANT, CandidateResult, TuningResult, format_value
from weft.errors import plural
from weft.recipe import Recipe


def summary(result: TuningResult) -> Iterator[str]:
    """The table, what is behind its numbers, and the ensemble."""
    yield from table(result)
    yield ""
    if result.pairs:
        yield f"whole set: {plural(result.pairs, 'validation pair')}; {result.signature}"
    elif result.problem:
        yield f"no comparison on the whole validation set: {result.problem}"
    yield from _verdict(result)
    yield from _ensemble(result)


def table(result: TuningResult) -> list[str]:
    """A line for each candidate under a heading, the best first."""
    rows = [("candidate", result.metric, "whole set", "step", "parameters", "minutes", "change")]
    for candidate in result.candidates:
        if candidate.value is None and not candidate.step:
            rows.append((candidate.name, "", "", candidate.state, "", "", candidate.problem or candidate.change))
            continue
        whole = "" if candidate.whole is None else format_value(candidate.whole, result.metric)
        if candidate.interval is not None:
            low, high = (format_value(limit, result.metric) for limit in candidate.interval)
            whole += f" [{low}, {high}]"
        rows.append(
            (
                candidate.name,
                format_value(candidate.value, result.metric),
                whole,
                f"{candidate.step:,}",
                f"{candidate.parameters:,}",
                f"{candidate.seconds / 60:.1f}",
                candidate.change if not candidate.problem else f"failed: {candidate.problem}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numeric = (False, True, False, True, True, True, False)
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _verdict(result: TuningResult) -> Iterator[str]:
    """The best, by how much, and whether that may be chance."""
    best = result.best
    line = f"best: {best.name} ({best.change})"
    if (difference := result.difference_from_base()) is not None:
        step, gain = difference
        direction = "better" if gain >= 0 else "worse"
        line += f"; {format_value(abs(gain), result.metric)} {direction} than the recipe as given at step {step:,}"
    yield line
    if (second := _within_noise(result)) is not None:
        yield (
            f"the difference between {best.name} and {second.name} may be chance "
            f"(p = {_p_value(best, second):.2f}); another seed may reverse it"
        )


def _within_noise(result: TuningResult) -> CandidateResult | None:
    """The second best, if its difference from the best is known not to be significant."""
    if len(result.finished) < 2:
        return None
    best, second = result.finished[:2]
    p_value = _p_value(best, second)
    return second if p_value is not None and p_value > SIGNIFICANT else None


def _p_value(best: CandidateResult, second: CandidateResult) -> float | None:
    """The p-value of their difference; known if one of them is the candidate that all others are compared with."""
    if best.p_value is None:
        return second.p_value
    return best.p_value if second.p_value is None else None


def _ensemble(result: TuningResult) -> Iterator[str]:
    ensemble = result.ensemble
    if ensemble is None:
        if result.pairs:
            yield "no ensemble: no other candidate shares the vocabulary of the best"
        return
    value, gain = format_value(ensemble.value, result.metric), format_value(abs(ensemble.gain), result.metric)
    direction = "better" if ensemble.gain >= 0 else "worse"
    yield f"ensemble of {', '.join(ensemble.members)}: {value}, {gain} {direction} than {result.best.name} alone"


def next_commands(result: TuningResult, folder: TuningFolder, recipe: Recipe) -> Iterator[str]:
    """Commands that use the result."""
    best = shlex.quote(str(folder.run_path(result.best.name)))
    commands = [(f"weft translate {best}", "use the best model")]
    chosen = best
    if result.ensemble is not None and result.ensemble.gain > 0:
        first, *others = (shlex.quote(str(folder.run_path(name))) for name in result.ensemble.members)
        chosen = f"{first}{''.join(f' --with {other}' for other in others)}"
        commands.append((f"weft translate {chosen}", "the ensemble"))
    if recipe.source_role == "none":
        commands = [(f"weft sample {best}", "sample from the best model")]
    commands.append((f"weft evaluate {chosen}", "on the test set: once, when all is decided"))
    commands.append((f"weft train {shlex.quote(str(folder.best))}", "train the best recipe again"))
    yield "What next:"
    for command, purpose in commands:
        yield f"  {command}  # {purpose}"
    yield f"Table: {folder.path / 'results.tsv'}; picture: {folder.picture}"
