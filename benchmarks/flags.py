"""Flags on damaged outputs: how many of the damaged ones are flagged, and how many of the others?

    python benchmarks/flags.py runs/grammar runs/tatoeba --limit 500

The test sources of each run, which must be calibrated, are translated once as they are (the clean outputs) and once for
each kind of damage, to the source (which is then translated) or to the output:

    untranslated       the output is replaced by the source
    cut                the length limit is half the tokens of the clean output
    repeats            the last three words of the output are written twice more; of fewer, the last word three times
    skipped-source     two sources are joined, and the output is that of the first
    unlike-training    the words of the source (or its characters, of a single word) are shuffled
    unknown-tokens     a character that no training data has is put into the source
    numbers-differ     a number is put at the end of the source, and another at the end of the output
    placeholder-lost   {name} is put at the end of the source, nothing at that of the output

Recall is the share of damaged outputs with the flag, the false alarm rate that of clean outputs; precision is what they
give if as many outputs are damaged as are not. A flag that is off for a run is not measured. Sources that the damage
does not change (a shuffle of one word) are left out. Nonsense in words that the model knows (the shuffled sources) is
suspect if it has any flag, or less confidence than all but 5 % of the outputs for real sources.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import weft
from weft.evaluation.pairs import find_scorable_items
from weft.translation.results import Translation
from weft.translation.translator import Translator

Damage = Callable[[Translator, list[Translation]], list[Translation]]


def _outputs(run: Translator, sources: list[str]) -> list[Translation]:
    return run.translate(sources, return_attention=False)


def untranslated(run: Translator, clean: list[Translation]) -> list[Translation]:
    return [replace(one, text=one.source) for one in clean if one.text != one.source]


def cut(run: Translator, clean: list[Translation]) -> list[Translation]:
    chosen = [one for one in clean if len(one.tokens) >= 4][:100]
    return [run.translate(one.source, max_length=len(one.tokens) // 2, return_attention=False) for one in chosen]


def repeats(run: Translator, clean: list[Translation]) -> list[Translation]:
    damaged = []
    for one in clean:
        words = one.text.split()
        tail = 2 * words[-3:] if len(words) >= 3 else 3 * words[-1:]
        damaged.append(replace(one, text=" ".join([*words, *tail])))
    return damaged


def skipped_source(run: Translator, clean: list[Translation]) -> list[Translation]:
    joined = [f"{one.source} {other.source}" for one, other in pairwise(clean)]
    tokens = [run.encoded_source(source) for source in joined]
    return [
        replace(one, source=source, source_tokens=tokenizers.source.tokens(sentence.ids))
        for one, source, (tokenizers, sentence) in zip(clean, joined, tokens, strict=False)
    ]


def unlike_training(run: Translator, clean: list[Translation]) -> list[Translation]:
    random, sources = Random(1), []
    for one in clean:
        words = one.source.split()
        units = words if len(words) > 1 else list(one.source)
        random.shuffle(units)
        shuffled = (" " if len(words) > 1 else "").join(units)
        sources += [shuffled] if shuffled != one.source else []
    return _outputs(run, sources)


def unknown_tokens(run: Translator, clean: list[Translation]) -> list[Translation]:
    return _outputs(
        run, [f"{one.source[: len(one.source) // 2]}ꙮ{one.source[len(one.source) // 2 :]}" for one in clean]
    )


def numbers_differ(run: Translator, clean: list[Translation]) -> list[Translation]:
    return [replace(one, source=f"{one.source} 1984", text=f"{one.text} 1948") for one in clean]


def placeholder_lost(run: Translator, clean: list[Translation]) -> list[Translation]:
    return [replace(one, source=f"{one.source} {{name}}") for one in clean]


DAMAGE: dict[str, Damage] = {
    "untranslated": untranslated,
    "cut": cut,
    "repeats": repeats,
    "skipped-source": skipped_source,
    "unlike-training": unlike_training,
    "unknown-tokens": unknown_tokens,
    "numbers-differ": numbers_differ,
    "placeholder-lost": placeholder_lost,
}


def measure(path: Path, limit: int, device: str, seed: int) -> None:
    run = weft.load(path, device=device, engine="torch")
    run.recipe = run.recipe.accepting_new_data()
    assert run.confidence is not None, f"{path}: calibrate it first: weft calibrate {path}"
    sources = find_scorable_items(run, None, grouping="each", split="test").items.sources
    sources = Random(seed).sample(sources, min(limit, len(sources)))
    start = time.process_time()
    clean = _outputs(run, sources)
    middle = time.process_time()
    flagged = [set(one.flags) for one in clean]
    seconds = time.process_time() - middle
    print(f"{path}: {len(clean):,} clean outputs, flags {seconds / (middle - start):.1%} of the time of the search")
    for name in DAMAGE:
        if name in run.confidence.flag_rules.off:
            print(f"  {name:<18} off: its references have it, too")
            continue
        damaged = DAMAGE[name](run, clean)
        recall = sum(name in one.flags for one in damaged) / max(1, len(damaged))
        alarms = sum(name in flags for flags in flagged) / len(clean)
        precision = recall / (recall + alarms) if recall + alarms else 0.0
        print(f"  {name:<18} recall {recall:6.1%}, false alarms {alarms:6.2%}, precision {precision:6.1%}")
    least = sorted(one.confidence or 0.0 for one in clean)[len(clean) // 20]

    def suspect(outputs: list[Translation]) -> float:
        return sum(bool(one.flags) or (one.confidence or 0.0) < least for one in outputs) / max(1, len(outputs))

    print(f"  nonsense: {suspect(unlike_training(run, clean)):.1%} suspect; of real sources {suspect(clean):.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=500, help="test sources, a random sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    for path in arguments.runs:
        measure(path, arguments.limit, arguments.device, arguments.seed)


if __name__ == "__main__":
    main()
