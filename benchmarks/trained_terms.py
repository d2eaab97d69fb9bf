"""Models that read terms (`data.terms`) or similar translations (`data.fuzzy`), beside the same model that does not.

    python benchmarks/trained_terms.py terms PLAIN TRAINED SOURCES TARGETS --glossary terms.tsv
    python benchmarks/trained_terms.py fuzzy PLAIN TRAINED SOURCES TARGETS --memory a.tsv --memory ab.tsv

terms: every sentence has the terms of the glossary that its reference has in one of their variants, as a translator
would have them. They are given in the form of the reference, or in the first variant of the glossary; PLAIN is required
to produce them, TRAINED reads them in its source. Printed, for all of these terms and for those that the reference has
in another variant than the first: the share of outputs with the form of the reference, and with any variant.

fuzzy: sources that are in a memory are left out. Printed for bands of similarity of the nearest pair in the last
memory: chrF of PLAIN, and of TRAINED without a memory and with each of them. The memories are files of pairs.

Beside BLEU (tokenized by spaces) and chrF, the 95 % interval of the difference from the first row (paired bootstrap).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import weft
from weft.data.pairs import Pair
from weft.data.reading.glossary import Glossary, Variants, annotated, is_missing
from weft.data.reading.lines import read_lines
from weft.data.reading.translation_memory import TranslationMemory
from weft.evaluation.line_statistics import Outputs, line_statistics
from weft.evaluation.significance import Resampling, bootstrap_scores, interval
from weft.translation.glossary import bounded, encode_variant
from weft.translation.translator import Translator

BANDS = ((0.0, 0.5), (0.5, 0.75), (0.75, 1.0))


class Rows:
    """Prints the scores of outputs for the same references, and their differences from the first ones."""

    def __init__(self, references: Sequence[str], metrics: Sequence[str]) -> None:
        self.references, self.metrics = [[reference] for reference in references], metrics
        self.first: dict[str, np.ndarray] = {}

    def add(self, name: str, texts: Sequence[str], more: str = "") -> None:
        parts = []
        for metric in self.metrics:
            [statistics] = line_statistics(metric, Outputs(texts, self.references))
            scores = bootstrap_scores(statistics, Resampling())
            part = f"{metric} {statistics.of_all():.1f}"
            if metric in self.first:
                low, high = interval(scores - self.first[metric])
                part += f" [{low:+.1f}, {high:+.1f}]"
            self.first.setdefault(metric, scores)
            parts.append(part)
        print(f"  {name:<38} {'; '.join(parts)}{more}", flush=True)


class Term(NamedTuple):
    """A term of a source whose reference has one of its variants."""

    end: int
    """The characters of the source up to its end."""
    variants: Variants
    form: str
    """The variant of the reference."""


def terms_of(pair: Pair, glossary: Glossary) -> list[Term]:
    terms = []
    for term in glossary.located_terms(pair.source):
        forms = [variant for variant in term.variants if not is_missing([(variant,)], pair.target)]
        if forms:
            terms.append(Term(term.end, term.variants, forms[0]))
    return terms


def used(terms: Sequence[Sequence[Term]], texts: Sequence[str], *, other: bool) -> str:
    """The share of terms with the form of the reference, and with any variant; ``other``: where it is not the first."""
    chosen = [(term, text) for row, text in zip(terms, texts, strict=True) for term in row]
    chosen = [(term, text) for term, text in chosen if not other or term.form != term.variants[0]]
    form = np.mean([not is_missing([(term.form,)], text) for term, text in chosen])
    any_form = np.mean([not is_missing([term.variants], text) for term, text in chosen])
    return f"{form:.1%}, {any_form:.1%}"


def measure_terms(plain: Translator, trained: Translator, pairs: list[Pair], arguments: argparse.Namespace) -> None:
    glossary = Glossary.read(arguments.glossary)
    terms = [terms_of(pair, glossary) for pair in pairs]
    count, others = (
        sum(1 for row in terms for term in row if not other or term.form != term.variants[0]) for other in (False, True)
    )
    print(f"{len(pairs)} pairs; {count} terms, {others} of them with another variant than the first")
    rows = Rows([pair.target for pair in pairs], arguments.metric)
    sources = [pair.source for pair in pairs]

    def required(shown: Sequence[Sequence[Variants]]) -> list[str]:
        request = plain.request(sources)
        phrases = [
            bounded([ids for variant in variants for ids in encode_variant(plain, variant, "")] for variants in row)
            for row in shown
        ]
        return [output.text for output in plain.search(replace(request, required=phrases, terms=shown))]

    def read(shown: Sequence[Sequence[str]]) -> list[str]:
        texts = [
            annotated(pair.source, [(term.end, text) for term, text in zip(row, forms, strict=True)])
            for pair, row, forms in zip(pairs, terms, shown, strict=True)
        ]
        return [output.text for output in trained.search(trained.request(sources).reading(texts))]

    forms = [[term.form for term in row] for row in terms]
    firsts = [[term.variants[0] for term in row] for row in terms]
    systems = {
        "plain, without terms": lambda: untouched(plain, sources),
        "plain, required: form of the reference": lambda: required([[(form,) for form in row] for row in forms]),
        "plain, required: first variant": lambda: required([[(first,) for first in row] for row in firsts]),
        "plain, required: any variant": lambda: required([[term.variants for term in row] for row in terms]),
        "trained, without terms": lambda: untouched(trained, sources),
        "trained, read: form of the reference": lambda: read(forms),
        "trained, read: first variant": lambda: read(firsts),
    }
    for name, system in systems.items():
        start = time.process_time()
        texts = system()
        seconds = time.process_time() - start
        shares = f"terms {used(terms, texts, other=False)}; other variants {used(terms, texts, other=True)}"
        rows.add(name, texts, f"; {shares}; {seconds:.1f} s")


def untouched(run: Translator, sources: Sequence[str]) -> list[str]:
    return [output.text for output in run.translate(sources, return_attention=False)]


def measure_fuzzy(plain: Translator, trained: Translator, pairs: list[Pair], arguments: argparse.Namespace) -> None:
    memories = [TranslationMemory.read(path) for path in arguments.memory]
    matches = [memories[-1].find(pair.source, 1) for pair in pairs]
    kept = [number for number, found in enumerate(matches) if not (found and found[0].exact)]
    pairs, matches = [pairs[number] for number in kept], [matches[number] for number in kept]
    similarities = np.array([found[0].similarity if found else 0.0 for found in matches])
    sources = [pair.source for pair in pairs]
    outputs = {"plain": untouched(plain, sources), "trained, without a memory": untouched(trained, sources)}
    for path, memory in zip(arguments.memory, memories, strict=True):
        translations = trained.translate(sources, translation_memory=memory, return_attention=False)
        outputs[f"trained, {path}"] = [output.text for output in translations]
    outputs["the most similar target itself"] = [found[0].target if found else "" for found in matches]
    for low, high in ((0.0, 1.0), *BANDS):
        chosen = np.flatnonzero((similarities >= low) & (similarities < high))
        print(f"similarity {low:g} to {high:g}: {len(chosen)} of {len(pairs)} sources")
        rows = Rows([pairs[number].target for number in chosen], arguments.metric)
        for name, texts in outputs.items():
            rows.add(name, [texts[number] for number in chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["terms", "fuzzy"])
    for name in ("plain", "trained", "sources", "targets"):
        parser.add_argument(name)
    parser.add_argument("--glossary")
    parser.add_argument("--memory", action="append", default=[])
    parser.add_argument("--metric", action="append")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    arguments.metric = arguments.metric or ["bleu_tokenized" if arguments.what == "terms" else "bleu", "chrf"]
    lines = zip(read_lines(arguments.sources), read_lines(arguments.targets), strict=True)
    pairs = [Pair(*line) for line in lines][: arguments.limit]
    runs = [weft.load(path, device=arguments.device, engine="torch") for path in (arguments.plain, arguments.trained)]
    (measure_terms if arguments.what == "terms" else measure_fuzzy)(*runs, pairs, arguments)


if __name__ == "__main__":
    main()
