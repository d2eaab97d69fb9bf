"""Copying from end to end: names that were never seen come out right, in every search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from weft.data.pairs import Pair
from weft.recipe import Recipe, make_recipe
from weft.training.train import train
from weft.translation.load import load
from weft.translation.translator import Translator

VERBS = {"sees": "voit", "likes": "aime"}
STACK = {"kind": "transformer", "layers": 1, "hidden": 32, "heads": 2, "feed_forward": 32}
KINDS: dict[str, dict[str, Any]] = {
    "joint": {"tokenizer": {"kind": "word", "minimum_count": 50}},
    "separate": {"tokenizer": {"kind": "word", "minimum_count": 50, "joint": False}},
    "hard": {
        "tokenizer": {"kind": "word", "minimum_count": 50, "joint": False},
        "model": {"attention": {"hard": "zeroth"}},
    },
    "transformer": {
        "tokenizer": {"kind": "word", "minimum_count": 50, "joint": False},
        "model": {"encoder": STACK, "decoder": STACK},
    },
}


def pairs(count: int, *, first: int, seed: int) -> str:
    """`A sees B` and `B voit A .`, with names from number ``first`` on."""
    random = Random(seed)
    lines = []
    for _ in range(count):
        one, other = (f"n{first + random.randrange(100)}" for _ in range(2))
        verb = random.choice(list(VERBS))
        lines.append(f"{one} {verb} {other}\t{other} {VERBS[verb]} {one}.\n")
    return "".join(lines)


def recipe_of(folder: Path, kind: str, **changes: Any) -> Recipe:
    for name, count, first in (("train.tsv", 600, 100), ("valid.tsv", 20, 500)):
        (folder / name).write_text(pairs(count, first=first, seed=first), "utf-8")
    given = KINDS[kind]
    return make_recipe(
        {
            "name": "copying",
            "data": {"folder": str(folder), "train": "train.tsv", "valid": "valid.tsv", **changes.pop("data", {})},
            "tokenizer": given["tokenizer"],
            "model": {
                "copy": True,
                "embedding": 32,
                "dropout": 0.0,
                "encoder": {"hidden": 32},
                "decoder": {"hidden": 32},
                **given.get("model", {}),
            },
            "training": {
                "steps": 90,
                "batch_tokens": 320,
                "learning_rate": 0.01,
                "warmup": 10,
                "validate_every": 90,
                "metric": "exact_match",
                "device": "cpu",
                **changes,
            },
        }
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Translator]:
    runs: dict[str, Translator] = {}

    def trained(kind: str) -> Translator:
        if kind not in runs:
            folder = tmp_path_factory.mktemp("copying")
            list(train(recipe_of(folder, kind), folder / "run"))
            runs[kind] = load(folder / "run", device="cpu")
        return runs[kind]

    return trained


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("joint", "hard")]


@pytest.mark.parametrize("kind", ["separate", *SLOW, "transformer"])
def test_names_never_seen_are_copied(trained: Callable[[str], Translator], kind: str) -> None:
    run = trained(kind)
    unseen = [line.split("\t") for line in pairs(20, first=600, seed=6).splitlines()]
    outputs = run.translate([source for source, _ in unseen])
    assert sum(output.text == target for output, (_, target) in zip(outputs, unseen, strict=True)) > 0.8 * len(unseen)
    translation = run.translate("n601 likes Zoë")
    assert translation.text == "Zoë aime n601."
    assert translation.tokens == ["Zoë", "aime", "n601", "."] and "".join(translation.source_tokens).startswith("n601")
    assert translation.word_attention is not None and translation.word_attention.target == ["Zoë", "aime", "n601", "."]
    assert {(2, 0), (0, 2)} <= set(translation.links)
    [score] = run.score([("n601 likes Zoë", "Zoë aime n601.")])
    assert score.log_probability == pytest.approx(translation.log_probability, abs=1e-4)
    [forced] = run.force_decode([Pair("n601 likes Zoë", "Zoë aime n601.")])
    assert forced.tokens == translation.tokens and forced.ids == translation.ids


BEAM = {"kind": "beam", "size": 3}
"""With so few tokens an unlikely ending is always among the best extensions, and three of them are soon found."""
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"kind": "greedy"},
    "beam": BEAM,
    "diverse beam": {**BEAM, "size": 4, "groups": 2, "diversity": 0.5},
    "sample": {"kind": "sample", "top_k": 1},
    "mbr": {"kind": "mbr", "samples": 4, "top_k": 1},
    "exact": {"kind": "exact"},
    "required": {**BEAM, "finish": 9, "required": ["voit"]},
    "no repetition": {**BEAM, "no_repeat_ngram": 2, "repetition_penalty": 1.1},
    "replaced": {**BEAM, "replace_unknown": True},
}


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search(trained: Callable[[str], Translator], name: str) -> None:
    run = trained("transformer")
    outputs = run.translate(["n601 sees Zoë", "Kim sees n100"], **SEARCHES[name])
    assert [output.text for output in outputs] == ["Zoë voit n601.", "n100 voit Kim."]


def test_n_best_prefix_and_trace(trained: Callable[[str], Translator]) -> None:
    run = trained("transformer")
    best = run.translate("n601 likes Zoë", n_best=3, return_trace=True)
    assert best.text == "Zoë aime n601." and len(best.alternatives) == 2 and best.trace is not None
    assert run.translate("n601 likes Zoë", prefix="Zoë voit").text == "Zoë voit n601."
    assert run.tokenizers_for("n601 likes Zoë").target.tokens(best.ids) == best.tokens


def test_heads(trained: Callable[[str], Translator]) -> None:
    heads = trained("transformer").heads("n601 likes Zoë")
    [copying] = [head for head in heads if head.kind == "copy"]
    assert copying.source == ["n601", "likes", "Zoë", "</s>"] and copying.target == ["Zoë", "aime", "n601", ".", "</s>"]
    assert copying.weights_TS[0].argmax() == 2 and copying.weights_TS[2].argmax() == 0


@pytest.mark.parametrize("kind", ["separate", "transformer"])
def test_which_tokens_were_copied(trained: Callable[[str], Translator], kind: str) -> None:
    run = trained(kind)
    copied = run.copied_tokens(run.translate("n601 likes Zoë"))
    assert copied is not None and copied.tokens == ["Zoë", "aime", "n601", ".", "</s>"]
    shares = dict(zip(copied.tokens, copied.copied, strict=True))
    assert shares["Zoë"] == shares["n601"] == 1.0 and shares["aime"] == 0.0
    gates = dict(zip(copied.tokens, copied.gates, strict=True))
    assert gates["aime"] > 0.5 > gates["Zoë"]


def test_eight_bit_products(trained: Callable[[str], Translator]) -> None:
    for kind in ("separate", "transformer"):
        folder = trained(kind).folder
        assert folder is not None
        run = load(folder, device="cpu", precision="int8")
        translation = run.translate("n601 likes Zoë")
        copied = run.copied_tokens(translation)
        assert translation.text == "Zoë aime n601." and copied is not None and copied.copied[0] == 1.0


def test_an_ensemble(trained: Callable[[str], Translator]) -> None:
    one, other = trained("separate").folder, trained("transformer").folder
    assert one is not None and other is not None
    run = load(one, other, device="cpu")
    translation = run.translate("n601 likes Zoë")
    assert translation.text == "Zoë aime n601." and run.copied_tokens(translation) is None
