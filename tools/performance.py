"""Write measurements of ``weft bench scale`` into docs/performance.md: ``python tools/performance.py NAME=FILE.json …``

NAME is a section of the page (see `SECTIONS`), FILE.json what ``weft bench scale RECIPE --json`` has printed on the
machine in question. The charts become docs/images/performance/NAME-*.svg. Sections that are not named stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from weft.apps.bench import report
from weft.apps.bench.records import from_record
from weft.apps.bench.scale import Scale
from weft.evaluation.statistics import number
from weft.files import save_text
from weft.pictures.charts.table import cell_text
from weft.runtime.devices import gigabytes

ROOT = Path(__file__).parent.parent
PAGE, IMAGES = ROOT / "docs/performance.md", ROOT / "docs/images/performance"


class Section(NamedTuple):
    """A section of the page."""

    title: str
    command: str
    charts: tuple[str, ...]


SECTIONS = {
    "cpu-transformer": Section(
        "A Transformer on a CPU",
        "weft bench scale tatoeba --device cpu --minutes 1.5",
        ("time-source-length", "time-batch", "time-beam", "memory-batch"),
    ),
    "cpu-rnn": Section(
        "A recurrent model on a CPU",
        "weft bench scale multi30k-rnn --device cpu --minutes 0.9",
        ("time-source-length", "time-batch"),
    ),
    "gpu-transformer": Section(
        "A Transformer on a GPU",
        "weft bench scale tatoeba --device cuda",
        ("time-source-length", "time-batch", "time-beam", "memory-batch"),
    ),
    "gpu-rnn": Section(
        "A recurrent model on a GPU",
        "weft bench scale multi30k-rnn --device cuda",
        ("time-source-length", "time-batch"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measurements", nargs="+", metavar="NAME=FILE.json", help=", ".join(SECTIONS))
    IMAGES.mkdir(parents=True, exist_ok=True)
    for given in parser.parse_args().measurements:
        name, _, file = given.partition("=")
        if name not in SECTIONS or not Path(file).is_file():
            parser.error(f"{given}: expected NAME=FILE.json with NAME one of {', '.join(SECTIONS)}")
        scale = from_record(json.loads(Path(file).read_text("utf-8")), file)
        save_text(PAGE, replaced(PAGE.read_text("utf-8"), name, "\n".join(lines(name, scale))))
        for chart in report.charts(scale):
            if chart.name in SECTIONS[name].charts:
                print(chart.save(IMAGES / f"{name}-{chart.name}.svg").relative_to(ROOT))


def replaced(page: str, name: str, text: str) -> str:
    """The page with another text between the comments of a section."""
    pattern = rf"(<!-- scale: {name} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{text}\n{match[2]}", page, flags=re.S)


def lines(name: str, scale: Scale) -> Iterator[str]:
    """The Markdown of a section."""
    section = SECTIONS[name]
    yield f"### {section.title}"
    yield from ("<!-- not run: the measurement of the tables below -->", "```sh", section.command, "```", "")
    about, sizes = report.heading(scale)
    where = scale.environment
    yield f"{about}. {sizes}."
    rates = ", ".join(
        f"{number(peak.flops_per_second / 1e9)} GFLOP/s in {precision} and {number(peak.bytes_per_second / 1e9)} GB/s"
        for precision, peak in scale.peaks.items()
    )
    memory = "" if scale.available_memory is None else f", {gigabytes(scale.available_memory)} of memory available"
    yield (
        f"weft {where['weft']}, torch {where['torch']}, Python {where['python']}; {where['machine']}; measured peaks: "
        f"{rates}{memory}."
    )
    yield ""
    yield from table(scale)
    for chart in report.charts(scale):
        if chart.name in section.charts:
            yield from ("", f"![{chart.title}](images/performance/{name}-{chart.name}.svg)")


def table(scale: Scale) -> Iterator[str]:
    """One row for each curve."""
    header = ("", "sizes", "time (ms)", "fixed part (ms)", "exponent of time", "exponent of memory", "out of memory at")
    shares = ("products, share of peak", "bandwidth, share of peak")
    yield f"| {' | '.join((*header, *shares))} |"
    yield f"|---|{'---:|' * (len(header) + len(shares) - 1)}"
    times, *others = report.tables(scale)
    memories = {row[0]: row[3:] for row in others[0].rows} if len(others) > 1 else {}
    for time, share in zip(times.rows, others[-1].rows, strict=True):
        cells = (*time, *memories.get(time[0], (None, None)), share[3], share[5])
        yield f"| {' | '.join(map(cell_text, cells))} |"


if __name__ == "__main__":
    main()
