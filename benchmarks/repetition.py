"""Repetition: does the default constraint stop loops, and does it leave ordinary text unchanged?

    python benchmarks/repetition.py --data $WEFT_DATA --folder repetition-runs     # trains the missing runs

The constraint is `search.no_loops` (`weft.search.constraints.NoLoops`), with several thresholds, among them 4 copies
of a phrase of up to 16 tokens, over 16 or more tokens in total. Four tables:

    human text             tokens that the constraint would have forbidden
    a trained model        outputs that differ with and without the constraint
    models that loop       barely trained ones and a language model; outputs with a loop
                           (`weft.evaluation.repetition.find_loop`), with and without the constraint
    cost of copies         log p of a token in the 1st, 2nd, … copy of a phrase (`repeat_curve`; Holtzman et al. 2020,
                           figure 4): of the phrases that the model repeats by itself, and of human sentences

Everything runs on one thread. It trains the grammar recipe (about two minutes), the same recipe for a few steps, and a
small language model on the English side of Tatoeba.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

import weft
from weft.data.pairs import Pair
from weft.evaluation.repetition import find_loop, repeat_curve, repetition
from weft.recipe import load_recipe
from weft.search import constraints
from weft.search.constraints import NoLoops
from weft.search.interface import NO_TOKEN
from weft.search.repetition import LoopLimits
from weft.tasks import generate
from weft.text.tokenizer import learn
from weft.text.vocabulary import LearningOptions
from weft.training.train import train
from weft.translation.translator import Translator

LANGUAGE_MODEL = [
    "name=tatoeba-lm",
    "model.kind=language_model",
    "model.tie=target",
    "model.dropout=0.1",
    "model.embedding=128",
    *(f"model.decoder.{name}" for name in ("layers=2", "hidden=128", "feed_forward=512")),
    "tokenizer.size=2000",
    "data.max_length=40",
    "training.steps=1500",
    "training.warmup=200",
    "training.batch_tokens=1024",
    "training.metric=loss",
    "training.validate_every=0",
    "training.save_every=0",
    "training.average=1",
    "training.device=cpu",
]
RULES = {
    "the default, 3 copies, 10 tokens": NoLoops(),
    "4 copies, 16 tokens": NoLoops(LoopLimits(copies=4, tokens=16)),
    "3 copies, 8 tokens": NoLoops(LoopLimits(copies=3, tokens=8)),
}
CPU = ["training.device=cpu", "training.validate_every=0", "training.save_every=0"]


def trained(folder: Path, recipe: str, changes: Sequence[str]) -> Translator:
    """A run, trained where it is not there yet."""
    if not (folder / "README.md").exists():
        for _ in train(load_recipe(recipe, changes), folder):
            pass
    return weft.load(folder, device="cpu")


def interfered(rule: NoLoops, sequences: Sequence[Sequence[int]]) -> int:
    """How many sequences have a token that the rule would have forbidden at its place."""
    found = 0
    for ids in sequences:
        distinct, said_T = torch.tensor(ids).unique(return_inverse=True)
        before_TW = torch.full((len(ids), len(ids)), NO_TOKEN)
        for place in range(1, len(ids)):
            before_TW[place, -place:] = said_T[:place]
        ratings_TV = rule(torch.zeros(len(ids), len(distinct)), before_TW, torch.zeros_like(said_T))
        found += bool(ratings_TV.gather(1, said_T[:, None]).isneginf().any())
    return found


def of_people(data: Path, count: int) -> Iterator[str]:
    """The rules over texts that people wrote, and over the grammar's; cut into BPE pieces and into characters."""
    yield "| lines that a rule touches | lines | " + " | ".join(f"{name}: BPE, characters" for name in RULES) + " |"
    yield "|---|" + "---:|" * (1 + len(RULES))
    corpora = {
        f"Multi30k {language}": data / "multi30k/raw" / f"train.{language}" for language in ("de", "fr", "cs", "en")
    } | {f"Tatoeba {language}": data / "tatoeba_fra-eng" / f"train.{language}" for language in ("en", "fr")}
    texts = {name: path.read_text("utf-8").splitlines() for name, path in corpora.items() if path.exists()}
    texts["grammar, French"] = [pair.target for pair in generate("grammar", "train", count)]
    for name, lines in texts.items():
        lines = lines[:: max(len(lines) // count, 1)][:count]
        cuts = [learn("bpe", lines, LearningOptions(size=8000)), learn("character", lines)]
        # A rule can forbid something only where some token follows itself at a distance again and again: few lines.
        suspects = [[ids for ids in cut.encode_batch(lines) if _may_loop(ids)] for cut in cuts]
        cells = [", ".join(str(interfered(rule, ids)) for ids in suspects) for rule in RULES.values()]
        yield f"| {name} | {len(lines):,} | " + " | ".join(cells) + " |"


def _may_loop(ids: Sequence[int], fewest: int = 8) -> bool:
    """Whether ``fewest`` tokens side by side repeat with any period up to 16 and at most half of them."""
    for period in range(1, 17):
        same = 0
        for place in range(period, len(ids)):
            same = same + 1 if ids[place] == ids[place - period] else 0
            if same + period >= max(fewest, 2 * period):
                return True
    return False


def of_a_trained_model(run: Translator, pairs: Sequence[Pair]) -> Iterator[str]:
    """Outputs with the rule and without it."""
    yield "| search | sentences | outputs that differ with the rule off | with a loop, rule on | rule off |"
    yield "|---|---:|---:|---:|---:|"
    sources = [pair.source for pair in pairs]
    for kind in ("greedy", "beam"):
        on, off = (_texts(run, sources, kind=kind, no_loops=rule) for rule in (True, False))
        differ = sum(one != other for one, other in zip(on, off, strict=True))
        yield f"| {kind} | {len(on)} | {differ} | {_loops(on):.1f} % | {_loops(off):.1f} % |"


def of_models_that_loop(runs: dict[str, Translator], language: Translator, pairs: Sequence[Pair]) -> Iterator[str]:
    """Loops without a rule and with each."""
    rules = ["no rule", *RULES]
    yield "| outputs with a loop of words (most copies side by side; rep-4) | outputs | " + " | ".join(rules) + " |"
    yield "|---|---:|" + "---:|" * len(rules)
    sources = [pair.source for pair in pairs]
    for name, run in runs.items():
        for kind in ("greedy", "beam"):
            said = [_ruled(rule, _texts, run, sources, kind=kind, max_extra=50) for rule in rules]
            yield f"| {name}, {kind} | {len(sources)} | " + " | ".join(map(_cell, said)) + " |"
    prompts = [" ".join(pair.target.split()[:2]) for pair in _english(language)][:50]
    for kind in ("greedy", "beam", "sample"):
        said = [_ruled(rule, _continued, language, prompts, kind=kind) for rule in rules]
        yield f"| language model, {kind}, 100 tokens | {len(prompts)} | " + " | ".join(map(_cell, said)) + " |"


def _ruled(rule: str, ask: Callable[..., list[str]], *arguments: Any, **search: Any) -> list[str]:
    """Ask under a rule, which temporarily replaces weft's own."""
    default = constraints.CONSTRAINTS["no_loops"]
    constraints.CONSTRAINTS["no_loops"] = lambda enabled: RULES[rule] if enabled else None
    constraints.make_constraint.cache_clear()
    try:
        return ask(*arguments, no_loops=rule in RULES, **search)
    finally:
        constraints.CONSTRAINTS["no_loops"] = default
        constraints.make_constraint.cache_clear()


def _continued(run: Translator, prompts: Sequence[str], **search: Any) -> list[str]:
    """A language model goes on for 100 tokens, whatever it would rather do: as in a story, where nothing ends soon."""
    return [run.complete(prompt, length=100, min_length=110, **search)[0].text for prompt in prompts]


def _english(run: Translator) -> list[Pair]:
    from weft.data.preparation import read_corpus

    return [pair for pair in read_corpus(run.recipe, "test") if len(pair.target.split()) > 5]


def _cell(texts: Sequence[str]) -> str:
    return f"{_loops(texts):.0f} % ({_copies(texts)}; {repetition(texts)[-1].value:.0f} %)"


def _texts(run: Translator, sources: Sequence[str], **search: Any) -> list[str]:
    return [found.text for found in run.translate(sources, return_attention=False, **search)]


def _loops(texts: Sequence[str]) -> float:
    return 100.0 * fmean(find_loop(text.split()) is not None for text in texts)


def _copies(texts: Sequence[str]) -> int:
    loops = [find_loop(text.split()) for text in texts]
    return max((loop.copies for loop in loops if loop is not None), default=0)


def of_copies(run: Translator, copies: int = 8) -> Iterator[str]:
    """The probability of a token in one copy after the other: in the model's own loops, and in sentences of people's
    that are said over and over."""
    own = []
    for prompt in [" ".join(pair.target.split()[:2]) for pair in _english(run)][:100]:
        [said] = run.complete(prompt, length=100, min_length=110, kind="greedy", no_loops=False)
        loop = find_loop(said.ids, copies=copies)
        if loop is not None:
            length = len(loop.phrase)
            own.append(repeat_curve(said.token_scores[loop.first : loop.first + copies * length], length))
    theirs = []
    for line in [pair.target for pair in _english(run)][:100]:
        ids = run.tokenizers.target.encode(line)
        [scored] = run.score([Pair("", " ".join([line] * copies))])
        if len(scored.token_scores) == copies * len(ids) + 1:  # else the copies were not split into the same tokens
            theirs.append(repeat_curve(scored.token_scores[:-1], len(ids)))
    yield "| mean log p of a token in copy … | " + " | ".join(str(place + 1) for place in range(copies)) + " |"
    yield "|---|" + "---:|" * copies
    for name, curves in {"the model's own loops": own, "sentences of people's": theirs}.items():
        mean = [fmean(curve[place] for curve in curves) for place in range(copies if curves else 0)]
        yield f"| {len(curves)} of {name} | " + " | ".join(f"{value:.2f}" for value in mean) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds multi30k/ and tatoeba_fra-eng/")
    parser.add_argument("--folder", type=Path, required=True, help="of the runs; trained where they are not there")
    parser.add_argument("--lines", type=int, default=29_000, help="of each text that people wrote, evenly taken")
    parser.add_argument("--sentences", type=int, default=500, help="translated by each model")
    given = parser.parse_args()
    torch.set_num_threads(1)
    weft_says = f"weft {weft.__version__}, torch {torch.__version__}, one thread"

    good = trained(given.folder / "grammar", "grammar", CPU)
    runs = {
        f"grammar after {steps} steps": trained(
            given.folder / f"grammar-{steps}", "grammar", [*CPU, f"training.steps={steps}"]
        )
        for steps in (20, 60)
    }
    corpus = f"data.folder={(given.data / 'tatoeba_fra-eng').resolve()}"
    language = trained(given.folder / "tatoeba-lm", "tatoeba", [*LANGUAGE_MODEL, corpus])
    pairs = list(generate("grammar", "test", given.sentences))
    for title, lines in (
        ("Texts people wrote", of_people(given.data, given.lines)),
        ("A trained model", of_a_trained_model(good, pairs)),
        ("Models that loop", of_models_that_loop(runs, language, pairs[: given.sentences // 5])),
        ("Copy after copy", of_copies(language)),
    ):
        print(f"### {title}\n")
        for line in lines:
            print(line, flush=True)
        print()
    print(weft_says)


if __name__ == "__main__":
    main()
