"""Run the labs and write their verdicts into docs/labs.md: ``python tools/labs.py [NAME…]``, or ``make labs``.

Results are kept as JSON in build/labs; a lab whose result is there, with as many seeds and of this version, is not run
again unless it is named. ``--confirm`` runs the labs with the seeds after those (4, 5 and 6), whose results are kept in
build/labs/confirmation and whose verdicts stand beside the others. ``--known`` runs nothing else: a lab that has no
result keeps what the page says of it. The output of ``weft history --json`` is build/labs/history.json, that of other
seeds is in build/labs/confirmation. The charts of the page are docs/images/labs/*.svg; docs/preregistered.md is a copy
of the file that the labs read.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weft.apps.bench.environment import environment
from weft.apps.labs import LABS, find_lab
from weft.apps.labs.intervals import factors_together, together
from weft.apps.labs.lab import LabResult
from weft.apps.labs.registration import document, registrations
from weft.apps.labs.verdicts import INCONCLUSIVE, Check, above, below, judge, within
from weft.evaluation.statistics import Estimate
from weft.files import save_text
from weft.pictures.charts.chart import Chart

ROOT = Path(__file__).parent.parent
RESULTS, DOCS = ROOT / "build/labs", ROOT / "docs"
CONFIRMATION = RESULTS / "confirmation"
IMAGES = DOCS / "images/labs"
HOW = "Measured by `weft lab NAME --to DIR` and put on this page by `make labs`"
SECTION = r"^## (\w+)\n\n\*.*?(?=^## |\Z)"
INTRODUCTION = """\
# Labs

<!-- Written by tools/labs.py; change the labs, then run `make labs`. -->

A lab states a claim about sequence models as lectures state it, trains small models on the spot to measure it, draws
it, and says whether it held. Each takes about two minutes on two cores, or less.

<!-- not run (`weft lab all`): trains for minutes; tests/contracts/test_labs.py runs every lab -->
<!-- not run (`weft history`): trains for minutes; tests/apps/cli/commands/test_history.py runs it on little data -->
```sh
weft lab                          # the labs and their claims
weft lab scaling                  # table, chart, verdict, what the paper found, what to try next
weft lab scaling --to out         # also as JSON, HTML, SVG and PNG
weft lab scaling --quick          # less training, in under half a minute
weft lab all --to out             # every lab, on one page: out/index.html
weft history --to history.html    # six models from 2014 to today, one task, one budget, four claims
```
```python
import weft

result = weft.labs.scaling()
result.verdict.outcome  # "held", "did not hold" or "inconclusive"
result.data  # every measurement; in a notebook, the result shows itself
```

**How a verdict is made.** Every lab is repeated with three seeds, which are the unit of its statistics: an effect is
the mean over the seeds with its 95 % interval (Student's t; for percentages on the logit scale and for ratios on the
logarithmic one, so that no interval leaves the range of its quantity). The claim predicts a side of a threshold, the
smallest effect that counts. It *held* if the whole interval is on that side, it *did not hold* if the whole interval is
on the other; otherwise the result is *inconclusive*: an effect that is not significant is no support. A lab with
several predictions held if all of them did. Claims, statistics and thresholds are [preregistered](preregistered.md),
with every later change, its date and its reason. Every lab can fail: its tests make up results in which one prediction
after the other is false (tests/contracts/test_lab_worlds.py). The same seeds give the same bytes on one machine, except
in the lab `cost`, which is about seconds; elsewhere seconds are an illustration and not part of a verdict.

**Confirmation.** Seeds 1 to 3 had been seen when most of the labs were revised; seeds 4 to 6 had not. The last column
of the table has the verdict with seeds 4 to 6. Where the two sets differ, or one is inconclusive, the section of the
lab also combines them: six seeds have five degrees of freedom, and their intervals are less than half as wide. That
was computed afterwards, so it is not a verdict; by it `bottleneck`, `cost`, `between` and `heads` hold, and `depth`
does not. It is left out for `scores`, where the best and the worst score of one set need not be those of the other.

**Two models per seed.** One of three models that learns late decides a verdict. Since 2026-11-19, `gradients`,
`bias`, `between` and `alignment` therefore train two models with each seed; their figures are those of six models per
set. Their verdicts, and those of `statistical`, `scores`, `heads` and `history`, were measured with the balanced
professions of the built-in grammar; the other labs do not use it.

**Why labs are inconclusive.** Three seeds have two degrees of freedom: an interval is 4.3 standard errors to each
side, so one of three models that learns late is enough. That is so in `exposure`, `layers`, `lookahead` and, for the
decoder, `depth`. Near 100 % the logit interval is wide, which decides `lengths` with seeds 4 to 6. In `statistical`
both translators are alike with 100 pairs; in `scores` five of six scores are about as far apart as the threshold. Of
`exposure`, two parts of three hold by both sets together: the gap grows, and scheduled sampling makes it smaller;
that it makes fewer errors overall is not shown. Run such a lab with more seeds (`weft lab layers --seeds 10`) before
believing its means.

To write one, see [CONTRIBUTING.md](../CONTRIBUTING.md); the shortest example is `src/weft/apps/labs/scaling.py`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="labs to run again")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--confirm", action="store_true", help="also run the labs with the seeds after these")
    parser.add_argument("--known", action="store_true", help="run nothing else: use the results that are there")
    arguments = parser.parse_args()
    for name in arguments.names:
        find_lab(name)
    first, second = tuple(range(1, arguments.seeds + 1)), tuple(range(arguments.seeds + 1, 2 * arguments.seeds + 1))
    results, confirmations = [], {}
    for name in LABS:
        result = None if name in arguments.names else known_result(RESULTS, name, first)
        if result is None and (not arguments.known or name in arguments.names):
            result = run(RESULTS, name, first)
        confirmation = known_result(CONFIRMATION, name, second)
        if confirmation is None and arguments.confirm and not arguments.known:
            confirmation = run(CONFIRMATION, name, second)
        if confirmation is not None:
            confirmations[name] = confirmation
        if result is not None:
            results.append(result)
    save_page(results, confirmations)


def known_result(folder: Path, name: str, seeds: tuple[int, ...]) -> LabResult | None:
    """The result of a lab that was run before."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    result = LabResult.from_json(path.read_text("utf-8"), str(path))
    same = result.environment["weft"] == environment()["weft"] and result.seeds == seeds
    return replace(result, lab=find_lab(name)) if same else None  # its texts may have changed


def run(folder: Path, name: str, seeds: tuple[int, ...]) -> LabResult:
    start = time.monotonic()
    result = LABS[name](seeds)
    result.save(folder)
    print(f"{name}: {result.verdict.outcome}, {time.monotonic() - start:.0f} s", flush=True)
    return result


def save_page(results: Sequence[LabResult], confirmations: Mapping[str, LabResult]) -> None:
    """The page, the charts on it, and what was registered."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for result in results:
        for chart in lasting(result):
            chart.save(IMAGES / f"{result.lab.name}-{chart.name}.svg")
    old = (DOCS / "labs.md").read_text("utf-8") if (DOCS / "labs.md").is_file() else ""
    save_text(DOCS / "labs.md", "\n".join(page(results, confirmations, old)) + "\n")
    save_text(DOCS / "preregistered.md", document())


def page(results: Sequence[LabResult], confirmations: Mapping[str, LabResult], old: str = "") -> Iterator[str]:
    """The page. ``old``: the page as it was, which keeps the rows and sections of labs without a result."""
    by_name = {result.lab.name: result for result in results}
    rows = {match[1]: match[0] for match in re.finditer(r"^\| \[(\w+)\]\(#.*$", old, flags=re.M)}
    sections = {match[1]: match[0].rstrip("\n") for match in re.finditer(SECTION, old, flags=re.M | re.S)}
    for name, confirmation in confirmations.items():
        if name in rows and name in sections and name not in by_name:
            rows[name] = re.sub(r"[^|]+\|$", f" {confirmation.verdict.outcome} |", rows[name])
            sections[name] = with_confirmation(sections[name], confirmation)
    sections = {name: with_both_sets(text, models_of_section(text)) for name, text in sections.items()}
    kept = [name for name in LABS if name not in by_name and name in rows and name in sections]
    shown = [name for name in LABS if name in by_name or name in kept]
    yield INTRODUCTION
    yield "## Verdicts\n"
    yield "| lab | claim | verdict | effect | seeds 4–6 |"
    yield "|---|---|---|---|---|"
    for name in shown:
        yield rows[name] if name in kept else row(by_name[name], confirmations.get(name))
    described = {describe(result) for result in results}
    if kept and (before := re.search(rf"^{re.escape(HOW)}: (.+)\.$", old, flags=re.M)):
        described.update(re.split(r"; (?=seeds )", before[1]))
    yield f"\n{HOW}: {'; '.join(sorted(described))}.\n"
    for name in shown:
        if name in kept:
            yield f"{sections[name]}\n"
        else:
            new = "\n".join(section(by_name[name], confirmations.get(name)))
            yield with_both_sets(new, models_of(by_name[name]))
    if (RESULTS / "history.json").is_file():
        yield from history_section()
    elif "history" in sections:
        yield f"{sections['history']}\n"


def history_section() -> Iterator[str]:
    """The claims of `weft history`, with both sets of seeds."""
    yield "## history\n"
    yield "*Ten years of attention: six models, one task, one budget, four claims (`weft history`)*\n"
    yield f"**Tested.** {registrations()['history'].tested}\n"
    for folder in (RESULTS, CONFIRMATION):
        if (folder / "history.json").is_file():
            record = json.loads((folder / "history.json").read_text("utf-8"))
            yield f"**Seeds {', '.join(map(str, record['seeds']))}.**\n"
            for claim in record["claims"]:
                yield f"- **{claim['claim']}: {claim['outcome']}.** {claim['sentence']}"
            yield ""


def with_confirmation(text: str, confirmation: LabResult) -> str:
    """A section of the page as it was, with the verdict of other seeds in its place."""
    text = re.sub(r"^\*\*Seeds [^*]*\*\*\n\n(- [^\n]*\n)+\n", "", text, flags=re.M)
    place = re.search(r"^(!\[|\*\*The paper)", text, flags=re.M)
    assert place is not None
    added = "\n".join([*confirmation_lines(confirmation)])
    return f"{text[: place.start()]}{added}\n{text[place.start() :]}"


CHECK = r"^- (.*?): (−?[\d.,]+)(?: \[(−?[\d.,]+), (−?[\d.,]+)\])?"
"""A statistic on the page, and its effect."""


def with_both_sets(text: str, count: int) -> str:
    """A section whose two sets of seeds differ, or of which one is inconclusive, with what all of them say together.

    ``count``: models of each set. The numbers are those of the page, which are rounded.
    """
    text = re.sub(r"^\*\*Both sets together[^\n]*\n\n(- [^\n]*\n)+\n", "", text, flags=re.M)
    head, mark, tail = text.partition("**Seeds 4, 5, 6")
    outcomes = re.findall(r"^\*\*(?:Verdict|Seeds 4, 5, 6): ([a-z ]+)\.\*\*", text, flags=re.M)
    if not mark or len(outcomes) < 2 or (len({*outcomes}) == 1 and INCONCLUSIVE not in outcomes):
        return text
    first = {match[1]: match for match in re.finditer(CHECK + r"; predicted (.*): [a-z ]+$", head, flags=re.M)}
    second = {match[1]: match for match in re.finditer(CHECK + r": [a-z ]+$", tail, flags=re.M)}
    if any(what.startswith("largest difference") for what in first):
        return text  # of which pair, may differ
    try:
        checks = [both_sets(what, first[what], second[what], count) for what in first if what in second]
    except ValueError:  # a mean that was rounded to 0 or 100 %
        return text
    verdict = judge(checks, "").outcome
    lines = [f"**Both sets together (computed afterwards from these rounded intervals, not registered): {verdict}.**\n"]
    lines += [f"- {check.what}: {check.effect.text()}: {check.outcome}" for check in checks]
    place = re.search(r"^(!\[|\*\*The paper)", text, flags=re.M)
    assert place is not None
    return "\n".join([text[: place.start()] + lines[0], *lines[1:], "", text[place.start() :]])


def both_sets(what: str, first: re.Match[str], second: re.Match[str], count: int) -> Check:
    """A statistic of all seeds, and whether it is as predicted."""
    effects = [Estimate(*(value(match[i] or match[2]) for i in (2, 3, 4))) for match in (first, second)]
    if "ratio" in what:
        effect = factors_together(*effects, count)
    else:
        share = re.search(r"in %$|percent", what)
        limits = (0.0, 100.0) if share else (-100.0, 100.0) if "points" in what else None
        effect = together(*effects, count, limits)
    kind, *numbers = re.findall(r"above|below|between|−?[\d.]+(?:e−?\d+)?", first[5])
    thresholds = [value(number) for number in numbers]
    return {"above": above, "below": below, "between": within}[kind](what, effect, *thresholds)


def value(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def confirmation_lines(confirmation: LabResult) -> Iterator[str]:
    yield f"**Seeds {', '.join(map(str, confirmation.seeds))}: {confirmation.verdict.outcome}.**\n"
    for check in confirmation.verdict.checks:
        yield f"- {check.what}: {check.effect.text()}: {check.outcome}"
    yield ""


def models_of(result: LabResult) -> int:
    """The number of models of each condition, which is that of the seeds, or twice as many."""
    first = result.data[0]["condition"] if result.data else None
    return sum(record["condition"] == first for record in result.data) or len(result.seeds)


def models_of_section(text: str) -> int:
    """The number of models of each condition, as the section of a lab with three seeds states it."""
    return 6 if re.search(r"^\*\*Trained\.\*\*.* two for each seed", text, flags=re.M) else 3


def row(result: LabResult, confirmation: LabResult | None) -> str:
    """The row of a lab in the table of verdicts."""
    check = result.verdict.checks[0]
    cells = (
        f"[{result.lab.name}](#{result.lab.name})",
        result.lab.claim,
        f"**{result.verdict.outcome}**",
        f"{check.what}: {check.effect.text()}",
        confirmation.verdict.outcome if confirmation else "–",
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def describe(result: LabResult) -> str:
    """Seeds, versions and machine."""
    known = result.environment
    seeds = ", ".join(map(str, result.seeds))
    return f"seeds {seeds}; weft {known['weft']}, torch {known['torch']}, Python {known['python']}; {known['machine']}"


def lasting(result: LabResult) -> list[Chart]:
    """The charts that are the same in every run."""
    return [chart for chart in result.charts if not chart.varies]


def section(result: LabResult, confirmation: LabResult | None) -> Iterator[str]:
    lab, verdict = result.lab, result.verdict
    yield f"## {lab.name}\n"
    yield f"*{lab.claim}*\n"
    yield f"**Trained.** {lab.trains}\n"
    yield f"**Tested.** {lab.tested}\n"
    yield f"**Verdict: {verdict.outcome}.** {verdict.sentence}\n"
    for check in verdict.checks:
        yield f"- {check.what}: {check.effect.text()}; predicted {check.rule}: {check.outcome}"
    yield ""
    if confirmation:
        yield from confirmation_lines(confirmation)
    for chart in lasting(result):
        yield f"![{chart.title}](images/labs/{lab.name}-{chart.name}.svg)\n"
    yield f"**The paper.** {lab.paper}\n"
    yield f"**What would change our mind.** {lab.doubt}\n"
    for note in result.notes:
        yield f"{note}\n"
    yield "**What to try next**\n"
    for idea in lab.next:
        yield f"- {idea}"
    yield ""


if __name__ == "__main__":
    main()
