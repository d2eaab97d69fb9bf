"""Variants of commands in the recommended recipe: found in the pairs, said in one line, and given up by --set."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

from weft.data.preparation import prepare
from weft.pairs.recommendation.recommend import recommend
from weft.pairs.recommendation.variants import DRAWINGS

STEPS = {"walk": "W", "run": "R", "look": "O"}
TURNS = {"left": "L", "right": "I"}
TIMES = {"": 1, "twice": 2, "thrice": 3}


def write_commands(path: Path) -> str:
    parts = []
    for verb, turn, (times, count) in product(STEPS, ("", *TURNS), TIMES.items()):
        actions = [*([TURNS[turn]] if turn else []), STEPS[verb]] * count
        parts.append((" ".join(filter(None, (verb, turn, times))), " ".join(actions)))
    both = [(f"{a} and {b}", f"{x} {y}") for (a, x), (b, y) in product(parts, parts)]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in [*parts, *both, ("jump", "J")]), "utf-8")
    return str(path)


def test_commands_get_variants_of_their_pairs(tmp_path):
    pairs = write_commands(tmp_path / "pairs.tsv")
    recommendation = recommend(pairs)
    [line] = [line for line in recommendation.lines() if line.startswith("variants: ")]
    assert f"{DRAWINGS} of each pair" in line and "jump, look, run, walk" in line and "left, right" in line
    *substitutions, exchange = recommendation.recipe.data.pipeline
    assert {step.kind for step in substitutions} == {"substitute"} and exchange.kind == "exchange"
    assert all(len(step.groups) == 1 for step in substitutions)
    corpus = prepare(recommendation.recipe)
    assert len(corpus.data.pairs) == DRAWINGS * corpus.pairs


def test_other_pairs_and_those_with_a_pipeline_of_their_own_get_none(tmp_path):
    pairs = write_commands(tmp_path / "pairs.tsv")
    given = recommend(pairs, changes=["data.pipeline=[]"])
    assert not given.recipe.data.pipeline and not [line for line in given.lines() if line.startswith("variants: ")]
    assert not recommend(write_words(tmp_path / "words.tsv", "0123456789", str)).recipe.data.pipeline


def write_words(path: Path, alphabet: str, target_of: Callable[[str], str]) -> str:
    """Words of three characters, each with its target."""
    words = list(product(alphabet, repeat=3))[:400]
    path.write_text("".join(f"{''.join(word)}\t{' '.join(map(target_of, word))}\n" for word in words), "utf-8")
    return str(path)


def test_pronunciations_get_words_that_are_spliced(tmp_path):
    words = write_words(tmp_path / "words.tsv", "bdfgklmnrs", lambda letter: f"{letter}ʰ")
    recommendation = recommend(words)
    [step] = recommendation.recipe.data.pipeline
    assert (step.kind, step.context, step.unit) == ("splice", 1, "words")
    [line] = [line for line in recommendation.lines() if line.startswith("variants: ")]
    assert line.startswith(f"variants: {DRAWINGS} of each pair: words joined at 1 equal letter (")
    corpus = prepare(recommendation.recipe)
    assert len(corpus.data.pairs) == DRAWINGS * corpus.pairs
    assert not recommend(words, changes=["data.pipeline=[]"]).recipe.data.pipeline
