"""Ten thousand generated documents of each kind: are tags and placeholders there exactly once, all else unchanged?

    PYTHONPATH=tests python benchmarks/documents.py --count 10000 --kind html

The documents are those of tests/fixtures/generated_documents.py: HTML (nested well, with scripts, code, comments),
broken HTML, Markdown (CommonMark with tables), and texts with placeholders. A made-up model translates them as badly as
can be: it drops, adds and moves words, writes signs of markup and further placeholders, and links words at random.

An output is right if it has exactly the tags and placeholders of its source, nested as well as there, and everything
that is no text unchanged and in its order: by weft's own readers and by others (html.parser, markdown-it). Printed are
the documents, how many are wrong (the first is shown), and the share of texts that were left untranslated, since no
translation could be made safe.
"""

from __future__ import annotations

import argparse
import time
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fixtures.generated_documents import (
    broken_html,
    check,
    html_documents,
    markdown_documents,
    placeholder_texts,
    reordering,
    translated,
)

KINDS = {
    "html": html_documents,
    "broken html": broken_html,
    "markdown": markdown_documents,
    "text": placeholder_texts,
}
CHUNK = 100
"""Documents of one run of hypothesis."""


class Count:
    """The results of one kind of documents."""

    def __init__(self) -> None:
        self.documents = self.wrong = self.units = self.kept = 0

    def try_document(self, kind: str, source: str, number: int) -> None:
        self.documents += 1
        result = translated(source, kind.removeprefix("broken "), reordering(Random(number)))
        self.units += len(result.units)
        self.kept += sum(not unit.sentences for unit in result.units)
        try:
            check(source, result.text, kind)
        except AssertionError:
            self.wrong += 1
            if self.wrong == 1:
                print(f"{kind}: wrong: {source!r} became {result.text!r} (seed {number})", flush=True)


def measure(kind: str, number: int, seconds: float, part: int) -> None:
    count, start, chunk = Count(), time.monotonic(), part * 1_000_000
    while count.documents < number and time.monotonic() - start < seconds:
        chunk += 1

        @seed(chunk)
        @settings(
            max_examples=min(CHUNK, number - count.documents),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(KINDS[kind], st.integers(0, 2**32))
        def try_some(source: str, number: int) -> None:
            count.try_document(kind, source, number)

        try_some()
    kept = count.kept / max(count.units, 1)
    print(
        f"{kind}: {count.documents:,} documents with {count.units:,} texts, {count.wrong} wrong, {kept:.1%} left as "
        f"they were; {time.monotonic() - start:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="documents of each kind")
    parser.add_argument("--kind", choices=KINDS, action="append", help="by default all of them")
    parser.add_argument("--seconds", type=float, default=1e6, help="stop a kind after this time")
    parser.add_argument("--part", type=int, default=0, help="other documents, to try several parts side by side")
    arguments = parser.parse_args()
    for kind in arguments.kind or KINDS:
        measure(kind, arguments.count, arguments.seconds, arguments.part)


if __name__ == "__main__":
    main()
