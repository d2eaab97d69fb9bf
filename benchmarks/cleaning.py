"""How well `weft data clean` finds pairs that were damaged: AUC, by kind of damage.

    python benchmarks/cleaning.py NAME=SOURCES,TARGETS … [--limit 10000] [--seed 1] [--write FOLDER]

Of the pairs of each corpus (two parallel files), 20 % get the target of another pair, 5 % their source as target, and
5 % lose the second half of one side (at least one word). AUC: the probability that a damaged pair ranks above one
that is not. With --write, FOLDER gets the pairs before the damages, after them, and those without any, to train on.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np

from weft.data.pairs import Pair
from weft.data.reading.lines import read_lines
from weft.data.reading.pair_files import write_pairs
from weft.pairs.cleaning.suspects import rank_suspects

SHARES = {"misaligned": 0.2, "copied": 0.05, "cut": 0.05}


def damaged(pairs: list[Pair], seed: int) -> tuple[list[Pair], list[str]]:
    """The pairs with damages, and the kind of each."""
    random = Random(seed)
    rows = random.sample(range(len(pairs)), len(pairs))
    kinds, result, start = [""] * len(pairs), list(pairs), 0
    for kind, share in SHARES.items():
        chosen = rows[start : start + round(share * len(pairs))]
        start += len(chosen)
        for row, other in zip(chosen, chosen[1:] + chosen[:1], strict=True):
            pair = pairs[row]
            if kind == "misaligned":
                result[row] = Pair(pair.source, pairs[other].target)
            elif kind == "copied":
                result[row] = Pair(pair.source, pair.source)
            else:
                side = random.randrange(2)
                words = pair[side].split()
                half = " ".join(words[: max(1, len(words) // 2)])
                result[row] = Pair(half, pair.target) if side == 0 else Pair(pair.source, half)
            if result[row] != pair:
                kinds[row] = kind
    return result, kinds


def auc(scores: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> float:
    """The share of positive–negative pairs in the right order; ties are half."""
    ranked = np.sort(scores[negative])
    below = np.searchsorted(ranked, scores[positive], "left") + np.searchsorted(ranked, scores[positive], "right")
    return float(below.mean() / 2 / len(ranked))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--limit", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the damages")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    for corpus in arguments.corpora:
        name, _, files = corpus.partition("=")
        sides = (list(read_lines(path)) for path in files.split(","))
        lines = [Pair(*line) for line in zip(*sides, strict=True) if all(map(str.strip, line))]
        step = max(1, len(lines) // arguments.limit)
        chosen = list(islice(lines, 0, step * arguments.limit, step))
        pairs, kinds = damaged(chosen, arguments.seed)
        if arguments.write is not None:
            write_pairs(arguments.write / f"{name}.tsv", chosen)
            write_pairs(arguments.write / f"{name}.damaged.tsv", pairs)
            undamaged = [pair for pair, kind in zip(pairs, kinds, strict=True) if not kind]
            write_pairs(arguments.write / f"{name}.undamaged.tsv", undamaged)
        start = time.process_time()
        scores = np.zeros(len(pairs))
        for suspect in rank_suspects(pairs):
            scores[suspect.number] = suspect.suspicion
        seconds = time.process_time() - start
        clean = np.array([not kind for kind in kinds])
        found = {kind: auc(scores, np.array([one == kind for one in kinds]), clean) for kind in SHARES}
        by_kind = ", ".join(f"{kind} {value:.3f}" for kind, value in found.items())
        print(f"{name}: {len(pairs):,} pairs, AUC {auc(scores, ~clean, clean):.3f} ({by_kind}); {seconds:.0f} s of CPU")


if __name__ == "__main__":
    main()
