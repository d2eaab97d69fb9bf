"""Use, quality and cost of a glossary: terms taken from the references of a test set by word alignment.

    python benchmarks/glossary.py RUN SOURCES TARGETS TRAIN_SOURCES TRAIN_TARGETS [--limit 500]

Links of IBM model 1, in both directions, join words of a test pair: up to two of its content words become terms of that
pair. Every sentence has its own terms, as a translator would have them; they are given to the search as the variants of
that source. Printed: the share of terms that the outputs contain, without and with them required; BLEU and chrF; the
ratio of the times, measured in turns in one process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import weft
from weft.data.pairs import Pair
from weft.data.reading.glossary import Variants, is_missing
from weft.data.reading.lines import read_lines
from weft.evaluation.ibm1 import fit_ibm1
from weft.evaluation.metrics import bleu, chrf
from weft.text.words import words
from weft.translation.glossary import bounded, encode_variant

TERMS, SHORTEST = 2, 4
REPETITIONS = 4


def aligned_terms(pairs: list[Pair], training: list[Pair]) -> list[list[Variants]]:
    """Target words of each pair that both directions link to a source word, the longest first."""
    everything = [*training, *pairs]
    forward = fit_ibm1(everything, iterations=5)
    backward = fit_ibm1([Pair(pair.target, pair.source) for pair in everything], iterations=5)
    terms: list[list[Variants]] = []
    for pair in pairs:
        other = {(target, source) for source, target in backward.links(Pair(pair.target, pair.source))}
        links = {link for link in forward.links(pair) if (link[1], link[0]) in {(b, a) for a, b in other}}
        source, target = words(pair.source), words(pair.target)
        found = {target[b] for a, b in links if len(target[b]) >= SHORTEST and len(source[a]) >= SHORTEST}
        terms.append([(word,) for word in sorted(found, key=lambda word: (-len(word), word))[:TERMS]])
    return terms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("run", "sources", "targets", "train_sources", "train_targets"):
        parser.add_argument(name)
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    run = weft.load(arguments.run, device=arguments.device, engine="torch")
    is_on_cpu = run.engine.device.type == "cpu"
    clock = time.process_time if is_on_cpu else time.perf_counter
    lines = zip(read_lines(arguments.sources), read_lines(arguments.targets), strict=True)
    pairs = [Pair(*line) for line in lines][: arguments.limit]
    training = [
        Pair(*line)
        for line in zip(read_lines(arguments.train_sources), read_lines(arguments.train_targets), strict=True)
    ]
    terms = aligned_terms(pairs, training)
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    count = sum(map(len, terms))
    print(f"{len(pairs)} pairs, {count} terms in {sum(map(bool, terms))} of them")
    for kind in ("beam", "greedy"):
        plain = run.request(sources, kind=kind, size=5)
        required = [
            bounded([ids for one in variants for ids in encode_variant(run, one, "")] for variants in row)
            for row in terms
        ]
        constrained = replace(plain, required=required, terms=terms)
        times: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(REPETITIONS):
            for name, request in (("without", plain), ("with", constrained)):
                start = clock()
                outputs = run.search(request)
                times[name].append(clock() - start)
                texts = [output.text for output in outputs]
                used = sum(not is_missing([one], text) for row, text in zip(terms, texts, strict=True) for one in row)
                result = f"{used / count:.1%} of the terms, {bleu(texts, references)}, {chrf(texts, references)}"
                if len(times["with"]) == REPETITIONS or (name == "without" and len(times[name]) == REPETITIONS):
                    print(f"{kind} {name}: {result}")
        ratios = [b / a for a, b in zip(times["without"][1:], times["with"][1:], strict=True)]  # the first is warm-up
        kind_of_time = "CPU" if is_on_cpu else "wall"
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}; {min(times['without']):.2f} s without"
        print(f"{kind}: {statistics.median(ratios):.2f} × the time ({kind_of_time}, {spread})", flush=True)


if __name__ == "__main__":
    main()
