"""Paragraphs of several sentences: do they lose anything against their sentences one by one?

    python benchmarks/paragraphs.py runs/tatoeba test.fr test.en --limit 600

The test pairs, shuffled, are joined to paragraphs of three to ten, with a space between sentences. Each paragraph is
translated in three ways: its sentences one by one as they stand in the test set, and joined (what is to be reached);
the paragraph with `weft.translate_text`, which splits it; the paragraph as one line, as without ``--text``. chrF is
that of sacrebleu over the paragraphs, with the joined references. A paragraph whose sentences are found exactly as they
were counts as split right. With ``--punctuated``, pairs whose source does not end with . ! ? or … are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

from sacrebleu.metrics.chrf import CHRF

import weft
from weft.apps.texts.sentences import split_line

SIZES = range(3, 11)


def paragraphs(pairs: list[tuple[str, str]], random: Random) -> list[list[tuple[str, str]]]:
    """The pairs in groups of three to ten."""
    groups, start = [], 0
    while start < len(pairs):
        size = random.choice(SIZES)
        groups.append(pairs[start : start + size])
        start += size
    return [group for group in groups if len(group) >= SIZES[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--limit", type=int, default=600, help="pairs")
    parser.add_argument("--size", type=int, default=1, help="the beam")
    parser.add_argument("--punctuated", action="store_true", help="only sentences that end with a sign")
    arguments = parser.parse_args()
    sources, targets = (path.read_text("utf-8").splitlines() for path in (arguments.source, arguments.target))
    pairs = [(source.strip(), target.strip()) for source, target in zip(sources, targets, strict=True)]
    if arguments.punctuated:
        pairs = [pair for pair in pairs if pair[0].rstrip('"»” ')[-1:] in tuple(".!?…")]
    random = Random(1)
    random.shuffle(pairs)
    groups = paragraphs(pairs[: arguments.limit], random)
    run = weft.load(arguments.run)
    search = {"kind": "beam", "size": arguments.size} if arguments.size > 1 else {"kind": "greedy"}
    lines = [" ".join(source for source, _ in group) for group in groups]
    references = [[" ".join(target for _, target in group) for group in groups]]
    alone = iter(run.translate([source for group in groups for source, _ in group], return_attention=False, **search))
    ways = {
        "sentence by sentence": [" ".join(next(alone).text for _ in group) for group in groups],
        "paragraphs, split": [weft.translate_text(run, line, **search) for line in lines],
        "paragraphs as one line": [one.text for one in run.translate(lines, return_attention=False, **search)],
    }
    right = sum(
        [part.text for part in split_line(line) if part.is_sentence] == [source for source, _ in group]
        for line, group in zip(lines, groups, strict=True)
    )
    print(f"{len(groups)} paragraphs of {sum(map(len, groups))} sentences; {right} split exactly as they were joined")
    for name, outputs in ways.items():
        print(f"{name:<24} chrF {CHRF().corpus_score(outputs, references).score:.2f}")


if __name__ == "__main__":
    main()
