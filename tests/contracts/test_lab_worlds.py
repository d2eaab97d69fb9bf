"""Made-up worlds: for every lab, results in which its claim is true, and others in which one part of it is false.

A lab whose judgment does not notice that a part of its claim is false does not test that part. So every statistic of a
verdict has a world in which it comes out wrong; the verdict must be that the claim did not hold. In a world of one
seed nothing is significant, and nothing may hold. The names and thresholds of the statistics are those of
src/weft/apps/labs/PREREGISTERED.md, in its order.

A new lab needs its row in `WORLDS`.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest

from weft.apps import labs
from weft.apps.labs import find_lab
from weft.apps.labs.registration import registrations
from weft.apps.labs.verdicts import HELD, NOT_HELD, Verdict
from weft.evaluation.statistics import Estimate


def module(name: str) -> Any:
    """The file of a lab; in `weft.apps.labs`, its name is that of its function."""
    return importlib.import_module(f"weft.apps.labs.{name}")


class Worlds(NamedTuple):
    """How a lab judges, results in which its claim is true, and, for each statistic, changes that make it false."""

    judge: Callable[..., Verdict]
    true: dict[str, Any]
    false: list[dict[str, Any]]


def near(*levels: float) -> list[float]:
    """Three seeds around a level, or three levels."""
    return [levels[0] - 0.4, levels[0], levels[0] + 0.4] if len(levels) == 1 else list(levels)


def with_item(table: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    return {**table, key: value}


def gradients() -> Worlds:
    lab = module("gradients")

    def curves(rnn: float, lstm: float, attention: float, jumps: tuple[float, float] = (0.0, 0.0)) -> Any:
        slopes = zip((lab.RNN, lab.LSTM, lab.ATTENTION), (rnn, lstm, attention), (0.0, *jumps), strict=True)
        return {
            name: [
                [(slope + noise) * d + jump * (d == lab.LONGEST) for d in range(2 * lab.LONGEST + 1)]
                for noise in (-0.0005, 0.0, 0.0005)
            ]
            for name, slope, jump in slopes
        }

    def judge(initial: Any, trained: Any) -> Verdict:
        return lab.judge_curves({"initial": initial, "trained": trained})

    trained = curves(-0.02, -0.02, -0.02, (1.0, 1.0))
    return Worlds(
        judge,
        {"initial": curves(-0.05, -0.03, -0.03), "trained": trained},
        [
            {"initial": curves(0.02, 0.05, 0.05)},  # it explodes
            {"initial": curves(-0.05, -0.06, -0.03)},
            {"initial": curves(-0.05, -0.03, -0.06)},
            {"trained": curves(-0.02, -0.02, -0.02, (0.0, 1.0))},
            {"trained": curves(-0.02, -0.02, -0.02, (1.0, 0.0))},
        ],
    )


def bottleneck() -> Worlds:
    lab = module("bottleneck")

    def gap(per_doubling: float, level: float) -> list[list[float]]:
        return [[level + noise + per_doubling * math.log2(n) for n in lab.LENGTHS] for noise in (-1, 0, 1)]

    return Worlds(
        lab.judge_gaps,
        {"narrow": gap(10, 20), "wide": gap(8, 5), "right": near(97)},
        [{"narrow": gap(0, 60)}, {"wide": gap(10, 20)}, {"right": near(30)}],
    )


def scores() -> Worlds:
    lab = module("scores")
    exact = dict(zip(lab.SCORES, map(near, (80, 40, 60, 79, 78, 77)), strict=True))
    error = dict(zip(lab.SCORES, map(near, (8, 30, 20, 9, 10, 11)), strict=True))
    same = {"exact": dict.fromkeys(lab.SCORES, near(70)), "error": dict.fromkeys(lab.SCORES, near(9))}
    undertrained = {
        "exact": with_item(same["exact"], "dot", near(5)),
        "error": with_item(same["error"], "dot", near(90)),
    }
    false = [{name: world[name]} for name in ("exact", "error") for world in (same, undertrained)]
    return Worlds(lab.judge_scores, {"exact": exact, "error": error}, false)


def alignment() -> Worlds:
    lab = module("alignment")
    names = list(product(lab.SCORES, lab.QUERIES, lab.DIRECTIONS))
    models = [lab.Condition(direction, query, score, 300, 300) for score, query, direction in names]
    both_ways = [model for model in models if model.direction == "both ways"]

    def errors(direction: float, query: float) -> Any:
        return {m: near(6 + direction * (m.direction == "forward") + query * (m.query == "before")) for m in models}

    true, changes = errors(8, 4), {model: near(95) for model in models}
    return Worlds(
        lab.judge_alignment,
        {"errors": true, "diagonal": near(21), "changes": changes},
        [
            {"errors": errors(0, 4)},
            {"errors": errors(8, 0)},
            {"diagonal": near(5)},
            *({"changes": with_item(changes, model, near(5))} for model in both_ways),
        ],
    )


def depth() -> Worlds:
    lab = module("depth")
    true = {side: (near(40), near(5), near(95)) for side in lab.SIDES}
    false = []
    for side in lab.SIDES:
        false += [{side: (near(40), near(40), near(95))}, {side: (near(40), near(5), near(5))}]
    return Worlds(lambda right: lab.judge_depth(right), {"right": true}, [{"right": {**true, **w}} for w in false])


def exposure() -> Worlds:
    lab = module("exposure")

    def halves(first: float, second: float) -> list[list[float]]:
        return [[half + noise for half in (first, second) for _ in range(lab.LONGEST // 2)] for noise in (-0.4, 0, 0.4)]

    gaps = {lab.TEACHER: halves(5, 30), lab.SCHEDULED: halves(3, 15)}
    errors = {lab.TEACHER: halves(10, 50), lab.SCHEDULED: halves(10, 40)}
    return Worlds(
        lab.judge_gaps,
        {"gaps": gaps, "errors": errors},
        [
            {"gaps": with_item(gaps, lab.TEACHER, halves(30, 30))},
            {"gaps": with_item(gaps, lab.SCHEDULED, halves(5, 30))},
            {"errors": with_item(errors, lab.SCHEDULED, halves(30, 60))},
        ],
    )


def distance() -> Worlds:
    lab = module("distance")
    true = {key: Estimate.exact(float(key[0] == "recurrent")) for key in product(lab.LAYERS, lab.COUNTS)}
    true["attention", "flops"] = Estimate.exact(2.0)
    keys = [(layer, count) for count in ("path", "depth", "flops") for layer in lab.LAYERS]
    wrong = [{"slopes": with_item(true, key, Estimate(1.5, 1.4, 1.6))} for key in keys]
    return Worlds(lab.judge_slopes, {"slopes": true}, wrong)


def search() -> Worlds:
    lab = module("search")

    def values(gain: float = 0.9, worse: float = 10.0, length: float = 40.0) -> Any:
        same = {name: near(50) for name in lab.MEASURES} | {lab.LENGTH: near(100)}
        table = {f"{name}, α = {alpha}": dict(same) for alpha in (0, 1) for name in lab.SEARCHES}
        table["beam of 5, α = 0"][lab.GAIN] = [gain - 0.05, gain, gain + 0.05]
        table["beam of 2, α = 0"][lab.WORSE] = near(worse) if worse else [0.0] * 3
        table["exact, α = 0"][lab.LENGTH] = near(length)
        return table

    return Worlds(
        lab.judge_searches,
        {"values": values(), "violations": 0, "cases": 100},
        [{"violations": 1}, {"values": values(gain=-0.5)}, {"values": values(worse=0)}, {"values": values(length=120)}],
    )


def repetition() -> Worlds:
    lab = module("repetition")

    def curves(*copies: float) -> list[list[float]]:
        return [[value + noise * 0.01 * i for i, value in enumerate(copies)] for noise in (-1, 0, 1)]

    loops = {"greedy": near(98), "beam of 5": near(97), "top-p 0.9": near(4), "pure sampling": near(3), "data": near(1)}
    return Worlds(
        lab.judge_loops,
        {"curves": curves(-1.4, -0.7, -0.5, -0.4), "loops": loops},
        [
            {"curves": curves(-1.4, -1.5, -0.5, -0.4)},
            {"curves": curves(-1.4, -0.5, -0.7, -0.4)},
            {"curves": curves(-1.4, -0.7, -0.4, -0.5)},
            {"loops": with_item(loops, "greedy", near(3))},
            {"loops": with_item(loops, "beam of 5", near(3))},
            {"loops": with_item(loops, "top-p 0.9", near(60))},
            {"loops": with_item(loops, "pure sampling", near(60))},
        ],
    )


def subwords() -> Worlds:
    true = {"words": near(0.5), "BPE": near(80), "BPE-dropout": near(60), "characters": near(99)}
    false = [
        with_item(true, "BPE", near(1)),
        with_item(true, "characters", near(1)),
        with_item(true, "words", near(20)),
    ]
    return Worlds(module("subwords").judge_units, {"exact": true}, [{"exact": world} for world in false])


def bias() -> Worlds:
    true = {"beliefs": near(85), "outputs": near(95), "fluent": near(90), "data": 75.0}
    return Worlds(module("bias").judge_bias, true, [{"beliefs": near(50)}, {"outputs": near(74)}, {"fluent": near(10)}])


def scaling() -> Worlds:
    slopes = {"dot": Estimate(1.0, 0.98, 1.02), "scaled_dot": Estimate(0.0, -0.02, 0.02)}
    half = Estimate(0.5, 0.4, 0.6)
    return Worlds(
        module("scaling").judge_slopes,
        {"slopes": slopes, "gradient_ratio": Estimate(0.3, 0.2, 0.4)},
        [
            {"slopes": with_item(slopes, "dot", half)},
            {"slopes": with_item(slopes, "scaled_dot", half)},
            {"gradient_ratio": Estimate(1.2, 1.1, 1.3)},
        ],
    )


def order() -> Worlds:
    true = {"difference": Estimate.exact(1e-6), "encoder": Estimate(16, 14, 18), "decoder": Estimate(98, 95, 99)}
    wrong = {"difference": Estimate.exact(0.5), "encoder": Estimate(90, 85, 95), "decoder": Estimate(20, 15, 25)}
    return Worlds(module("order").judge_order, true, [{name: value} for name, value in wrong.items()])


def heads() -> Worlds:
    lab = module("heads")

    def results(costs: list[float], least: float, most: float) -> Any:
        curves = {
            f"exact {name}": [95.0] * lab.HALF + [value, 0.0] for name, value in (("least", least), ("most", most))
        }
        return [{"exact": 95.0, "costs": costs, **curves}] * 3

    few = [0.0, 0.3, 0.0, 40.0]
    return Worlds(
        lab.judge_heads,
        {"results": results(few, 90, 20)},
        [{"results": results([5.0, 9.0, 0.0, 40.0], 90, 20)}, {"results": results(few, 90, 90)}],
    )


def lookahead() -> Worlds:
    lab = module("lookahead")
    true = {name: {"clue after": near(98), "clue before": near(97)} for name in lab.ENCODERS}
    true["left to right"]["clue after"] = near(50)
    forward = true["left to right"]
    return Worlds(
        lab.judge_probes,
        {"probes": true, "outputs": near(99)},
        [
            {"probes": with_item(true, "left to right", forward | {"clue after": near(95)})},
            {"probes": with_item(true, "both ways", {"clue after": near(50)})},
            {"probes": with_item(true, "self-attention", {"clue after": near(50)})},
            {"probes": with_item(true, "left to right", forward | {"clue before": near(50)})},
            {"outputs": near(50)},
        ],
    )


def cost() -> Worlds:
    lab = module("cost")
    one, twice = Estimate(1.0, 0.95, 1.05), Estimate(2.5, 2.4, 2.6)
    additive, concat = ("additive", "scaled_dot"), ("concat", "scaled_dot")
    true = {("scaled_dot", "dot"): one, additive: twice, concat: twice, lab.MODELS: twice}
    false = [{("scaled_dot", "dot"): twice}, {additive: one}, {concat: one}, {lab.MODELS: one}]
    return Worlds(lab.judge_ratios, {"ratios": true}, [{"ratios": true | world} for world in false])


def statistical() -> Worlds:
    true = {"statistical": {100: near(10), 8_000: near(50)}, "neural": {100: near(3), 8_000: near(70)}}
    ahead = with_item(true, "neural", {100: near(12), 8_000: near(70)})
    behind = with_item(true, "neural", {100: near(3), 8_000: near(40)})
    return Worlds(module("statistical").judge_curves, {"bleu": true}, [{"bleu": ahead}, {"bleu": behind}])


def lengths() -> Worlds:
    lab = module("lengths")

    def curves(trained: float, beyond: float) -> list[list[float]]:
        return [
            [trained + noise if n <= lab.TRAINED else beyond + noise for n in lab.LENGTHS] for noise in (-0.4, 0, 0.4)
        ]

    true = {"sinusoidal": curves(98, 96), "learned": curves(98, 40)}
    false = [
        with_item(true, "sinusoidal", curves(50, 96)),
        with_item(true, "sinusoidal", curves(98, 70)),
        with_item(true, "learned", curves(98, 96)),
    ]
    return Worlds(lab.judge_lengths, {"right": true}, [{"right": world} for world in false])


def between() -> Worlds:
    lab = module("between")
    true = {lab.RECURRENT: near(70), lab.FLAT: near(30), lab.ORDERED: near(60), lab.TRANSFORMER: near(70)}
    false = [with_item(true, lab.RECURRENT, near(30)), with_item(true, lab.ORDERED, near(30))]
    return Worlds(lab.judge_models, {"exact": true}, [{"exact": world} for world in false])


def norms() -> Worlds:
    lab = module("norms")

    def curves(over: float, end: float) -> Any:
        """At every rate, the same curve: ``over`` most of the time, ``end`` at the end."""
        return {rate: [[over + noise, end + noise] for noise in (-0.4, 0, 0.4)] for rate in lab.LEARNING_RATES}

    def steady(level: float, best: float, name: str) -> Any:
        """At the rate of the variant ``best`` all the time, at the others ``level``."""
        return {rate: curves(*([best if rate == lab.BEST[name] else level] * 2))[rate] for rate in lab.LEARNING_RATES}

    true = {name: curves(20, 20) for name in lab.VARIANTS} | {lab.PRE: curves(60, 80)}
    false = []
    for name in lab.VARIANTS[1:]:
        false += [with_item(true, name, steady(5, 85, name)), with_item(true, name, curves(20, 80))]
    return Worlds(lab.judge_norms, {"curves": true}, [{"curves": world} for world in false])


def layers() -> Worlds:
    lab = module("layers")

    def told(first: float, top: float) -> list[list[float]]:
        """The embedding, layer 1 and the top layer, of each seed."""
        return [[50.0, first + noise, top + noise] for noise in (-0.4, 0, 0.4)]

    true = {lab.WORD: told(99, 80), lab.GENDER: told(55, 75), lab.AT_NOUN: told(99, 99)}
    return Worlds(
        lab.judge_layers,
        {"told": true},
        [
            {"told": true | {lab.WORD: told(80, 95)}},
            {"told": true | {lab.GENDER: told(75, 75)}},
            {"told": true | {lab.AT_NOUN: told(99, 60), lab.GENDER: told(30, 40)}},
            {"told": true | {lab.GENDER: told(60, 99)}},
        ],
    )


WORLDS: dict[str, Callable[[], Worlds]] = {
    function.__name__: function
    for function in (
        *(gradients, bottleneck, scores, alignment, depth, exposure, distance, search, repetition, subwords),
        *(bias, scaling, order, heads, lookahead, cost, statistical, lengths, between, norms, layers),
    )
}


def test_every_lab_has_worlds() -> None:
    assert set(WORLDS) == set(labs.LABS) == set(registrations()) - {"history"}


@pytest.mark.parametrize("name", WORLDS)
def test_the_claim_is_that_of_the_registration(name: str) -> None:
    registration = registrations()[name]
    assert registration.claim == find_lab(name).claim
    assert registration.tested and registration.doubt


@pytest.mark.parametrize("name", WORLDS)
def test_what_is_tested_is_registered(name: str) -> None:
    worlds = WORLDS[name]()
    verdict = worlds.judge(**worlds.true)
    checks = [(check.what, re.sub(r"^0 of .+", "0 of all", check.rule)) for check in verdict.checks]
    assert checks == list(registrations()[name].checks)
    assert verdict.outcome == HELD, [str(check) for check in verdict.checks]


@pytest.mark.parametrize("name", WORLDS)
def test_a_claim_that_is_false_in_one_part_does_not_hold(name: str) -> None:
    worlds = WORLDS[name]()
    assert len(worlds.false) == len(worlds.judge(**worlds.true).checks), "a world for every statistic"
    for index, changes in enumerate(worlds.false):
        verdict = worlds.judge(**worlds.true | changes)
        assert verdict.checks[index].outcome == NOT_HELD, str(verdict.checks[index])
        assert verdict.outcome == NOT_HELD


ESTIMATES = {"cost", "distance", "heads", "order", "scaling", "search"}
"""Labs whose judgment is given estimates, or results of which one is enough."""


@pytest.mark.parametrize("name", sorted({*WORLDS} - ESTIMATES))
def test_noise_is_no_support(name: str) -> None:
    """With one seed nothing is significant, and nothing held."""
    worlds = WORLDS[name]()

    def first_seed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: first_seed(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(map(first_seed, value))
        return value[:1] if isinstance(value, list) else value

    assert worlds.judge(**first_seed(worlds.true)).outcome == "inconclusive"
