"""Run the labs and write their verdicts into docs/labs.md: ``python tools/labs.py [NAME…]``, or ``make labs``.

Results are kept as JSON in build/labs; a lab whose result is there, with as many seeds and of this version, is not run
again unless it is named. The charts of the page are docs/images/labs/*.svg.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from weft.apps.bench.environment import environment
from weft.apps.labs import LABS, find_lab
from weft.apps.labs.lab import LabResult
from weft.files import save_text
from weft.pictures.charts.chart import Chart

ROOT = Path(__file__).parent.parent
RESULTS, DOCS = ROOT / "build/labs", ROOT / "docs"
IMAGES = DOCS / "images/labs"
INTRODUCTION = """\
# Labs

<!-- Written by tools/labs.py; change the labs, then run `make labs`. -->

A lab states a claim about sequence models as lectures state it, trains small models on the spot to measure it, draws
it, and says whether it held. Each takes at most two minutes on two cores.

<!-- not run (`weft lab all`): trains for minutes; tests/contracts/test_labs.py runs every lab -->
<!-- not run (`weft history`): trains for minutes; tests/apps/cli/commands/test_history.py runs it on little data -->
```sh
weft lab                          # the labs and their claims
weft lab scaling                  # table, chart, verdict, what the paper found, what to try next
weft lab scaling --to out         # also as JSON, HTML, SVG and PNG
weft lab scaling --quick          # less training, in under half a minute
weft lab all --to out             # every lab, on one page: out/index.html
weft history --to history.html    # no claim, but six models from 2014 to today, trained on one task with one budget
```
```python
import weft

result = weft.labs.scaling()
result.verdict.outcome  # "held", "did not hold" or "inconclusive"
result.data  # every measurement; in a notebook, the result shows itself
```

**How a verdict is made.** Every lab is repeated with three seeds, which are the unit of its statistics: an effect is
the mean over the seeds with its 95 % interval (Student's t, unless the lab says otherwise). The claim predicts a side
of a threshold, the smallest effect that counts. It *held* if the whole interval is on that side, it *did not hold* if
the whole interval is on the other; otherwise the result is *inconclusive*. A lab with several predictions held if all
of them did. Every lab can fail: its tests give it a world in which the claim is false. The same seeds give the same
bytes on one machine; seconds, where they are measured, are an illustration and not part of a verdict. With three seeds
an interval can extend beyond 0–100 %, such as to 112 %.

To write one, see [CONTRIBUTING.md](../CONTRIBUTING.md); the shortest example is `src/weft/apps/labs/scaling.py`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="labs to run again")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--known", action="store_true", help="run nothing else: use the results that are there")
    arguments = parser.parse_args()
    for name in arguments.names:
        find_lab(name)
    results = []
    for name in LABS:
        result = None if name in arguments.names else known_result(name, arguments.seeds)
        if result is None and (not arguments.known or name in arguments.names):
            result = run(name, arguments.seeds)
        if result is not None:
            results.append(result)
            save_page(results)


def known_result(name: str, seeds: int) -> LabResult | None:
    """The result of a lab that was run before."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return None
    result = LabResult.from_json(path.read_text("utf-8"), str(path))
    same = result.environment["weft"] == environment()["weft"] and len(result.seeds) == seeds
    return replace(result, lab=find_lab(name)) if same else None  # its texts may have changed


def run(name: str, seeds: int) -> LabResult:
    start = time.monotonic()
    result = LABS[name](seeds)
    result.save(RESULTS)
    print(f"{name}: {result.verdict.outcome}, {time.monotonic() - start:.0f} s", flush=True)
    return result


def save_page(results: Sequence[LabResult]) -> None:
    """The page, and the charts on it."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for result in results:
        for chart in lasting(result):
            chart.save(IMAGES / f"{result.lab.name}-{chart.name}.svg")
    save_text(DOCS / "labs.md", "\n".join(page(results)) + "\n")


def page(results: Sequence[LabResult]) -> Iterator[str]:
    yield INTRODUCTION
    yield "## Verdicts\n"
    yield "| lab | claim | verdict | effect |"
    yield "|---|---|---|---|"
    for result in results:
        check = result.verdict.checks[0]
        effect = f"{check.what}: {check.effect.text()}"
        cells = (f"[{result.lab.name}](#{result.lab.name})", result.lab.claim, f"**{result.verdict.outcome}**", effect)
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
    described = sorted({describe(result) for result in results})
    how = "Measured by `weft lab NAME --to DIR`, one lab at a time on two cores, and put on this page by `make labs`"
    yield f"\n{how}: {'; '.join(described)}.\n"
    for result in results:
        yield from section(result)


def describe(result: LabResult) -> str:
    """Seeds, versions and machine."""
    known = result.environment
    seeds = ", ".join(map(str, result.seeds))
    return f"seeds {seeds}; weft {known['weft']}, torch {known['torch']}, Python {known['python']}; {known['machine']}"


def lasting(result: LabResult) -> list[Chart]:
    """The charts that are the same in every run."""
    return [chart for chart in result.charts if not chart.varies]


def section(result: LabResult) -> Iterator[str]:
    lab, verdict = result.lab, result.verdict
    yield f"## {lab.name}\n"
    yield f"*{lab.claim}*\n"
    yield f"**Trained.** {lab.trains}\n"
    yield f"**Verdict: {verdict.outcome}.** {verdict.sentence}\n"
    for check in verdict.checks:
        yield f"- {check.what}: {check.effect.text()}; predicted {check.rule}: {check.outcome}"
    yield ""
    for chart in lasting(result):
        yield f"![{chart.title}](images/labs/{lab.name}-{chart.name}.svg)\n"
    yield f"**The paper.** {lab.paper}\n"
    for note in result.notes:
        yield f"{note}\n"
    yield "**What to try next**\n"
    for idea in lab.next:
        yield f"- {idea}"
    yield ""


if __name__ == "__main__":
    main()
