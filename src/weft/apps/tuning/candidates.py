"""Candidates: a recipe, and variants of it that each change one thing.

To add a kind of variant, write a function from a recipe to variants and add it to `VARIANTS`, in order of importance:
where time is short, the last ones are left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import RecipeError
from weft.recipe import Recipe, make_recipe
from weft.recipe.model import RecurrentSettings, TransformerSettings
from weft.recipe.toml import write_toml

MAX_CANDIDATES = 9
MAX_DROPOUT = 0.5
MIN_VOCABULARY = 500
MIN_WIDTH = 32
BASE = "recipe"
"""The name of the candidate that changes nothing."""


@dataclass(frozen=True)
class Candidate:
    """A variant of a recipe."""

    name: str
    """The name of the candidate and of its run folder."""
    change: str
    """The change to the recipe, in a few words."""
    reason: str
    """The reason why the change may help."""
    recipe: Recipe

    def speed_key(self) -> str:
        """Candidates with the same key train equally fast."""
        model = self.recipe.model.model_copy(update={"dropout": 0.0})
        training = self.recipe.training
        return f"{model!r} {self.recipe.tokenizer!r} {training.batch_tokens} {training.accumulate}"


Settings = Mapping[str, Any]
Variant = tuple[str, str, str, Settings]
"""Name, change, reason and the changed settings of a candidate."""


def find_candidates(recipe: Recipe) -> list[Candidate]:
    """The recipe and its valid variants, the most important first, at most `MAX_CANDIDATES`."""
    candidates = [Candidate(BASE, "as given", "what the others are compared with", recipe)]
    for variants in VARIANTS:
        for name, change, reason, settings in variants(recipe):
            try:
                candidates.append(Candidate(name, change, reason, with_settings(recipe, settings)))
            except RecipeError:  # settings of the recipe exclude this change
                continue
    return candidates[:MAX_CANDIDATES]


def with_settings(recipe: Recipe, settings: Settings) -> Recipe:
    """The recipe with settings changed by name; a whole group may be given as a dictionary."""
    tree = tomllib.loads(write_toml(recipe))
    for name, value in settings.items():
        *groups, last = name.split(".")
        branch = tree
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[last] = value
    return make_recipe(tree)


def more_dropout(recipe: Recipe) -> Iterator[Variant]:
    dropout = recipe.model.dropout
    value = round(min(dropout + 0.2, MAX_DROPOUT), 2)
    if value > dropout:
        yield _dropout(recipe, value, "more regularization, for small data")


def less_dropout(recipe: Recipe) -> Iterator[Variant]:
    if recipe.model.dropout >= 0.2:
        yield _dropout(recipe, round(recipe.model.dropout - 0.2, 2), "less regularization, for large data")


def _dropout(recipe: Recipe, value: float, reason: str) -> Variant:
    return f"dropout-{value:g}", f"dropout {recipe.model.dropout:g} → {value:g}", reason, {"model.dropout": value}


def lower_rate(recipe: Recipe) -> Iterator[Variant]:
    yield _rate(recipe, recipe.training.learning_rate / 2, "smaller updates: slower, more stable")


def higher_rate(recipe: Recipe) -> Iterator[Variant]:
    yield _rate(recipe, recipe.training.learning_rate * 2, "larger updates: faster, less stable")


def _rate(recipe: Recipe, value: float, reason: str) -> Variant:
    change = f"learning rate {recipe.training.learning_rate:g} → {value:g}"
    return f"rate-{value:g}", change, reason, {"training.learning_rate": value}


def wider(recipe: Recipe) -> Iterator[Variant]:
    yield from _width(recipe, "wider", "twice", lambda size: size * 2, "more capacity, for large data")


def narrower(recipe: Recipe) -> Iterator[Variant]:
    if min(recipe.model.encoder.hidden, recipe.model.decoder.hidden, recipe.model.embedding) >= 2 * MIN_WIDTH:
        yield from _width(recipe, "narrower", "half", lambda size: max(size // 2, 1), "less capacity, and faster")


def _width(recipe: Recipe, name: str, times: str, scale: Callable[[int], int], reason: str) -> Iterator[Variant]:
    """Embeddings, hidden sizes and feed-forward networks; heads keep their size."""
    if recipe.training.start is not None:  # the weights to start from have their shape
        return
    model = recipe.model
    settings: dict[str, Any] = {"model.embedding": scale(model.embedding)}
    stacks = {"encoder": model.encoder} | ({} if model.kind == "ctc" else {"decoder": model.decoder})
    for side, stack in stacks.items():
        settings[f"model.{side}.hidden"] = scale(stack.hidden)
        if isinstance(stack, TransformerSettings):
            settings[f"model.{side}.feed_forward"] = scale(stack.feed_forward)
            settings[f"model.{side}.heads"] = scale(stack.heads)
            if stack.key_value_heads:
                settings[f"model.{side}.key_value_heads"] = scale(stack.key_value_heads)
    width = [*stacks.values()][-1].hidden
    yield name, f"{times} as wide: hidden size {width:,} → {scale(width):,}", reason, settings


def other_family(recipe: Recipe) -> Iterator[Variant]:
    """A Transformer in place of a recurrent network, or the other way round, of a similar size."""
    model = recipe.model
    if model.kind != "seq2seq" or recipe.training.start is not None:
        return
    if isinstance(model.decoder, RecurrentSettings) and isinstance(model.encoder, RecurrentSettings):
        yield "transformer", "a Transformer", "another family of networks", _transformer(recipe)
    elif isinstance(model.decoder, TransformerSettings):
        yield "lstm", "an LSTM with attention", "another family of networks, good with few pairs", _lstm(recipe)


def _transformer(recipe: Recipe) -> dict[str, Any]:
    width = max(recipe.model.embedding // 32 * 32, 64)
    stack = {
        "kind": "transformer",
        "layers": 4 if width >= 256 else 2,
        "hidden": width,
        "heads": 8 if width >= 512 and width % 16 == 0 else 4,
        "feed_forward": 4 * width,
        "positions": "rotary",
    }
    return {
        "model.embedding": width,
        "model.encoder": stack,
        "model.decoder": stack,
        "model.bridge": "auto",
        "model.attention": {},
        "training.coverage_loss": 0.0,
        "training.learning_rate": 0.002 if width <= 128 else 0.001 if width < 512 else 0.0005,
        "training.warmup": max(recipe.training.warmup, recipe.training.steps // 10),
    }


def _lstm(recipe: Recipe) -> dict[str, Any]:
    hidden = min(2 * recipe.model.decoder.hidden, 512)
    return {
        "model.encoder": {"kind": "lstm", "hidden": hidden},
        "model.decoder": {"kind": "lstm", "hidden": hidden, "input_feeding": True},
        "model.attention": {"score": "general"},
        "training.learning_rate": 0.001 if hidden >= 256 else 0.004,
        "training.precision": "auto",
    }


def smaller_vocabulary(recipe: Recipe) -> Iterator[Variant]:
    tokenizer = recipe.tokenizer
    size = max(tokenizer.size // 4, MIN_VOCABULARY)
    learned = tokenizer.file is None and recipe.training.start is None
    if judged_by_text(recipe) and learned and tokenizer.kind in ("bpe", "unigram") and size < tokenizer.size:
        change = f"vocabulary {tokenizer.size:,} → {size:,}"
        yield f"vocabulary-{size}", change, "shorter units, seen more often", {"tokenizer.size": size}


def other_smoothing(recipe: Recipe) -> Iterator[Variant]:
    if judged_by_text(recipe):
        given = recipe.training.label_smoothing
        value = 0.0 if given else 0.1
        reason = "probability for other tokens" if value else "all probability on the right token"
        change = f"label smoothing {given:g} → {value:g}"
        yield f"smoothing-{value:g}", change, reason, {"training.label_smoothing": value}


def judged_by_text(recipe: Recipe) -> bool:
    """Whether outputs are compared, and not losses per token of one vocabulary."""
    return recipe.training.metric != "loss"


VARIANTS: tuple[Callable[[Recipe], Iterator[Variant]], ...] = (
    more_dropout,
    higher_rate,
    other_family,
    lower_rate,
    wider,
    smaller_vocabulary,
    narrower,
    other_smoothing,
    less_dropout,
)
