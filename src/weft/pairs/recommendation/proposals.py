"""Recipes beside the recommended one that differ from it in kind; a race (`weft.pairs.race`) decides between them.

The rules choose one recipe, and they are sometimes wrong about the kind of network. The alternatives are the kinds that
they did not choose: hard monotone attention, a recurrent network with soft attention, a Transformer. Units, splits,
metric and search are those of the recommended recipe, so that all candidates share one tokenized corpus and are judged
by the same metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

from weft.errors import RecipeError
from weft.interop.portability import export_lines
from weft.pairs.profiling.profile import PairProfile
from weft.pairs.recommendation.choices import Choice, as_tree
from weft.pairs.recommendation.devices import Device, likely_device
from weft.pairs.recommendation.kinds import MOSTLY_DIGITS, TaskProfile, find_task
from weft.pairs.recommendation.network import FEW_WORDS, ROTARY, are_commands, recurrent, transformer
from weft.pairs.recommendation.recommend import Recommendation
from weft.pairs.recommendation.schedule import choose_training
from weft.recipe import Recipe, make_recipe

Kind = Literal["hard", "location", "recurrent", "transformer"]

MANY_SENTENCES, MANY_PAIRS = 10_000, 100_000
"""Pairs of sentences, and of other texts than words, from which on a recurrent network is not worth a try."""
COMMANDS_ALONE = "no validation pairs tell networks for commands apart; one longer training does more"
FORMAL_ALONE = "a Transformer has won every race of a formal language; it has all of the time"
MANY_ALONE = "a Transformer has won every race of {pairs:,} pairs and more; it has all of the time"
PINNING = (["model"], ["training", "lora"], ["training", "loss"], ["training", "validate_every"])
"""Settings that decide what would be raced, or how: with one of them given, there is no race."""
OF_THE_MODEL = frozenset({"model", "attention", "dropout", "copying", "embeddings"})
"""Topics of choices that another model takes the place of."""
FROM_SCHEDULE = ("steps", "save_every", "validate_every", "learning_rate", "warmup")
"""Settings of [training] that depend on the network."""


@dataclass(frozen=True)
class CandidateRecipe:
    """A recipe that takes part in a race."""

    name: str
    """The kind, which is also the name of its folder."""
    summary: str
    """The network in a few words: "GRU 256, hard monotone attention"."""
    reason: str
    recipe: Recipe
    lines: tuple[str, ...]
    """Its choices, for the head of RUN/recipe.toml."""
    alone: str | None = None
    """The reason why the rules propose no other candidate."""


def pins_the_model(changes: Sequence[Sequence[str]]) -> bool:
    """Whether settings with these names leave nothing to race for."""
    return any([*name][: len(group)] == group for name in changes for group in PINNING)


def propose(
    recommendation: Recommendation, given: Sequence[Sequence[str]] = (), device: Device | None = None
) -> list[CandidateRecipe]:
    """The recommended recipe, and one or two of other kinds; only the recommended one if the model is given.

    Nor has a language of commands other candidates: all of them are soon right on its validation pairs, and on held-out
    structures their scores swing by tens of points from one validation to the next. A long training does more.

    ``given``: names of settings that were given; they are the same in all candidates.
    """
    tree, profile = recommendation.settings, recommendation.profile
    if profile.arrays is not None:  # its network depends on the pictures
        return [_recommended(recommendation, "recommended")]
    task, device = find_task(profile), device or trained_on(recommendation.recipe)
    chosen = kind_of(tree["model"])
    candidates = [_recommended(recommendation, chosen)]
    if pins_the_model(given):
        return candidates
    if are_commands(profile, task):
        return [replace(candidates[0], alone=COMMANDS_ALONE)]
    if not (others := _other_kinds(profile, task, chosen)):
        alone = FORMAL_ALONE if task.is_formal else MANY_ALONE.format(pairs=_many(task))
        return [replace(candidates[0], alone=alone)]
    for kind in others:
        choices = _network(kind, profile, task, tree, device)
        changed = {"model": _model(choices, tree["model"])}
        schedule = choose_training(profile, task, {**tree, **changed}, device)
        changed["training"] = _schedule(schedule, given)
        choices += [choice for choice in schedule if choice.topic in ("steps", "learning rate")]
        candidates += _candidate(recommendation, kind, choices, changed)
    return candidates


def _recommended(recommendation: Recommendation, name: str) -> CandidateRecipe:
    """The recommended recipe as a candidate."""
    topics = {choice.topic: choice for choice in recommendation.choices}
    summary = ", ".join(topics[topic].value for topic in ("model", "attention") if topic in topics)
    reason = topics["model"].reason if "model" in topics else "recommended"
    return CandidateRecipe(name, summary, reason, recommendation.recipe, tuple(recommendation.lines()))


def trained_on(recipe: Recipe) -> Device:
    """The kind of device that a recipe is for."""
    name = recipe.training.device
    return likely_device() if name == "auto" else "cpu" if name == "cpu" else "cuda"


def kind_of(model: dict[str, Any]) -> Kind:
    """The kind of network of a recipe's [model]."""
    if model["decoder"]["kind"] == "transformer":
        return "transformer"
    attention = model.get("attention", {})
    if attention.get("hard", "none") != "none":
        return "hard"
    return "location" if attention.get("location") else "recurrent"


def _other_kinds(profile: PairProfile, task: TaskProfile, chosen: Kind) -> list[Kind]:
    """The kinds that were not chosen and may be better for such a task, the likelier first."""
    kinds: list[Kind] = []
    numbers = min(profile.source.digits, profile.target.digits) > MOSTLY_DIGITS
    if task.is_word_level and not numbers:  # numbers are not in the order of what they stand for
        kinds.append("hard")
    if task.is_word_level or (profile.pairs < _many(task) and not task.is_formal):
        kinds.append("recurrent")
    many_words = task.is_word_level and profile.pairs >= FEW_WORDS
    kinds.insert(len(kinds) - many_words, "transformer")
    return [kind for kind in kinds if kind != chosen]


def _many(task: TaskProfile) -> int:
    """Pairs from which on a recurrent network is not worth a try."""
    return MANY_SENTENCES if task.kind in ("text", "correction") else MANY_PAIRS


def _network(kind: Kind, profile: PairProfile, task: TaskProfile, tree: dict[str, Any], device: Device) -> list[Choice]:
    """The network of another kind than that of the recipe ``tree``, as large as is usual for that many pairs."""
    model, joint = tree["model"], tree["tokenizer"].get("joint", False)
    hidden = 512 if device == "cuda" and profile.pairs >= 1_000 else 256
    copies = {"model.copy": True} if model.get("copy") else {}
    dropout = model.get("dropout", 0.3)
    if kind == "hard":
        choices = [
            Choice("model", f"GRU {hidden}", "on trial", recurrent("gru", hidden, hidden // 2)),
            Choice("attention", "hard and monotone", "on trial", {"model.attention.hard": "first"}),
        ]
        dropout = max(dropout, 0.4)
    elif kind == "recurrent":
        settings = {**recurrent("lstm", hidden, hidden // 2), "model.decoder.input_feeding": True, **copies}
        choices = [Choice("model", f"LSTM {hidden} with attention", "on trial", settings)]
        if not copies:
            sparse = {"model.attention.score": "general", "model.attention.normalizer": "entmax15"}
            choices.append(Choice("attention", "sparse", "on trial", sparse))
        dropout = max(dropout, 0.3)
    else:
        layers, width = (3, 256) if profile.pairs >= 2_000 else (2, 128)
        if device == "cpu":
            layers = 2
        tie = "all" if joint else "target"
        positions = "rotary" if task.kind in ROTARY else "sinusoidal"
        settings = {**transformer((layers, layers), width, 4 * width, 4, positions), "model.tie": tie, **copies}
        value = f"Transformer, {layers} + {layers} layers of {width}"
        choices = [Choice("model", value, "on trial", settings)]
        dropout = min(dropout, 0.3)
    reason = "as in the recommended recipe, within limits"
    return [*choices, Choice("dropout", f"{dropout:g}", reason, {"model.dropout": dropout})]


def _model(choices: list[Choice], recommended: dict[str, Any]) -> dict[str, Any]:
    """[model] of a candidate; the number of sources is a property of the pairs."""
    model: dict[str, Any] = as_tree(choices)["model"]
    if "sources" in recommended:
        model["sources"] = deepcopy(recommended["sources"])
    return model


def _schedule(choices: list[Choice], given: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Settings of [training] that depend on the network, except those that were given."""
    training = as_tree(choices)["training"]
    return {name: training[name] for name in FROM_SCHEDULE if ["training", name] not in map(list, given)}


def _candidate(
    recommendation: Recommendation, name: str, choices: list[Choice], changed: dict[str, dict[str, Any]]
) -> list[CandidateRecipe]:
    """The recommended recipe with another [model] and its settings of [training]; none if they contradict the rest."""
    tree = deepcopy(recommendation.settings)
    tree["model"] = changed["model"]
    tree["training"] = {**tree.get("training", {}), **changed["training"]}
    tree.setdefault("name", recommendation.recipe.name)
    try:
        variant = make_recipe(tree)
    except RecipeError:
        return []
    recipe = recommendation.recipe.model_copy(update={"model": variant.model, "training": variant.training})
    topics = {choice.topic for choice in choices}
    kept = [choice.line() for choice in recommendation.choices if choice.topic not in topics | OF_THE_MODEL]
    chosen = [*kept, *(choice.line() for choice in choices)]
    lines = (*chosen, *export_lines(recipe), *(f"warning: {text}" for text in recommendation.warnings))
    summary = ", ".join(choice.value for choice in choices if choice.topic in ("model", "attention"))
    return [CandidateRecipe(name, summary, "another kind than the rules chose", recipe, lines)]
