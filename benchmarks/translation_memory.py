"""Time of a translation memory by its size: reading and indexing it, and looking a source up.

    python benchmarks/translation_memory.py SOURCES TARGETS [--sizes 10000,100000,1000000]

Pairs of the two files fill the memory; a larger one repeats them with some of their words replaced at random by others
of the file, so that words are as frequent as in the file. Sources to look up are made in the same way from other lines
(one word in ten is replaced): some are in the memory, most are similar to some of it.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from random import Random

import numpy as np

from weft.data.pairs import Pair
from weft.data.reading.lines import read_lines
from weft.data.reading.translation_memory import TranslationMemory

LOOKED_UP = 1_000


def changed(line: str, words: list[str], random: Random, share: float) -> str:
    return " ".join(random.choice(words) if random.random() < share else word for word in line.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources")
    parser.add_argument("targets")
    parser.add_argument("--sizes", default="10000,100000,1000000")
    arguments = parser.parse_args()
    pairs = [Pair(*line) for line in zip(read_lines(arguments.sources), read_lines(arguments.targets), strict=True)]
    random = Random(1)
    words = [word for pair in pairs for word in pair.source.split()]
    queries = [changed(random.choice(pairs).source, words, random, 0.1) for _ in range(LOOKED_UP)]

    def filled(size: int) -> Iterator[Pair]:
        for number in range(size):
            source, target = pairs[number % len(pairs)][:2]
            yield Pair(source if number < len(pairs) else changed(source, words, random, 0.3), target)

    for size in map(int, arguments.sizes.split(",")):
        start = time.process_time()
        memory = TranslationMemory(filled(size))
        built = time.process_time() - start
        times: list[float] = []
        exact = similar = 0
        for query in queries:
            start = time.process_time()
            matches = memory.find(query)
            times.append(time.process_time() - start)
            exact += bool(matches) and matches[0].exact
            similar += bool(matches) and not matches[0].exact
        median, worst = (1000 * float(np.quantile(times, share)) for share in (0.5, 0.99))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{size:,} pairs, {len(memory):,} sources: {built:.1f} s to index, {peak:.1f} GiB at most; a source takes "
            f"{median:.2f} ms (median), {worst:.2f} ms (99 %); {exact} of {LOOKED_UP} exact, {similar} similar"
        )


if __name__ == "__main__":
    main()
