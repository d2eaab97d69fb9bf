"""The heads of a Transformer that align words best, by given links or those of IBM Model 1.

Every head of the attention to the source is scored by the alignment error rate of the links that its weights give. The
best one is chosen; then, one at a time, the head whose weights improve the mean of those chosen most, until none does.
Heads are chosen on every other pair, and the error rates that are reported are of the pairs between them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.attention.ragged_attention import alignment_layer
from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError
from weft.evaluation.alignment import alignment_error_rate
from weft.evaluation.ibm1 import fit_ibm1
from weft.files import save_text
from weft.recipe import TransformerSettings, load_recipe, make_recipe
from weft.recipe.toml import leading_comments, write_toml
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_folder
from weft.runtime.activity import activity
from weft.text.id_rows import Sentence
from weft.translation.inspection import heads_of_pair
from weft.translation.results import WordAttention
from weft.translation.word_alignment import align_words, merge_to_words

if TYPE_CHECKING:
    from weft.translation.translator import Translator

Head = tuple[int, int]
"""Layer and head, both from 0."""
MOST = 8
"""Heads that are chosen, at most."""
FEWEST_PAIRS = 4


class HeadsByPair(NamedTuple):
    """The weights over words of every head for one pair, and the links that they are compared with."""

    heads: Mapping[Head, np.ndarray]
    source: list[str]
    target: list[str]
    links: tuple[tuple[int, int], ...]


class ChosenHeads(NamedTuple):
    """The heads chosen as an aligner, with their alignment error rates."""

    heads: list[Head]
    error_rate: float
    """Alignment error rate of the chosen heads, in percent, on pairs that were held out from the choice."""
    layer_error_rate: float
    """Alignment error rate of all heads of the layer below the top one: the default aligner."""
    single: dict[Head, float]
    """Alignment error rate of each single head, on the pairs used for the choice; the best first."""
    pairs: int
    given_links: bool
    """Whether the links were given; if not, they are those of IBM Model 1."""


def find_alignment_heads(translator: Translator, pairs: Sequence[Pair]) -> ChosenHeads:
    """Choose heads by the links of the pairs, or by IBM Model 1 fitted to the pairs if none has links."""
    decoder = translator.recipe.model.decoder
    if translator.recipe.model.kind != "seq2seq" or not isinstance(decoder, TransformerSettings):
        raise RecipeError(f"{translator.recipe.name}: has no heads that align words; a Transformer with a source has")
    given = any(pair.links is not None for pair in pairs)
    if given:
        pairs = [pair for pair in pairs if pair.links]
    else:
        model = fit_ibm1(pairs)
        pairs = [pair._replace(links=tuple(model.links(pair))) for pair in pairs]
    if len(pairs) < FEWEST_PAIRS:
        raise DataError(f"{len(pairs)} pairs with links, expected at least {FEWEST_PAIRS} to choose heads by")
    measured: list[HeadsByPair] = []
    with activity("reading the attention of every head", "pairs", total=len(pairs)) as progress:
        for pair in pairs:
            measured.append(weights_of_pair(translator, pair))
            progress.done += 1
    heads, single = choose_heads(measured[::2])
    layer = alignment_layer(decoder.layers)
    all_heads = [(layer, head) for head in range(decoder.heads)]
    held_out = measured[1::2]
    return ChosenHeads(heads, error_rate(held_out, heads), error_rate(held_out, all_heads), single, len(pairs), given)


def weights_of_pair(translator: Translator, pair: Pair) -> HeadsByPair:
    """The attention of every head to the source, over words."""
    tokenizers, source = translator.encoded_source(pair.source)
    target = Sentence(pair.target, translator.encode_target(pair.target, pair.source))
    before = len(translator.tokenizers.frame.target_before)
    heads: dict[Head, np.ndarray] = {}
    words = WordAttention(np.zeros((0, 0)), [], [])
    for head in heads_of_pair(translator, pair.source, pair.target, {}):
        if head.kind == "cross":
            weights_TS = head.weights_TS[before : before + len(target.ids)]
            words = merge_to_words(tokenizers, source, target, weights_TS)
            heads[head.layer - 1, head.head - 1] = words.weights_TS
    return HeadsByPair(heads, words.source, words.target, pair.links or ())


def choose_heads(pairs: Sequence[HeadsByPair]) -> tuple[list[Head], dict[Head, float]]:
    """The heads whose mean aligns best, in the order in which they were chosen; and the error rate of each alone."""
    candidates = sorted(pairs[0].heads)
    single = {head: error_rate(pairs, [head]) for head in candidates}
    single = dict(sorted(single.items(), key=lambda item: item[1]))
    chosen = [next(iter(single))]
    best = single[chosen[0]]
    while len(chosen) < min(MOST, len(candidates)):
        rates = {head: error_rate(pairs, [*chosen, head]) for head in candidates if head not in chosen}
        head = min(rates, key=rates.__getitem__)
        if rates[head] >= best:
            break
        chosen.append(head)
        best = rates[head]
    return chosen, single


def error_rate(pairs: Sequence[HeadsByPair], heads: Sequence[Head]) -> float:
    """The alignment error rate of the mean of some heads, in percent."""
    predicted = [
        align_words(WordAttention(np.mean([pair.heads[head] for head in heads], axis=0), pair.source, pair.target))
        for pair in pairs
    ]
    links = [pair.links for pair in pairs]
    return alignment_error_rate(predicted, links, links).error_rate


def write_alignment_heads(run: RunFolder, heads: Sequence[tuple[int, int]]) -> None:
    """Set model.decoder.alignment_heads in recipe.toml; nothing else of the run changes."""
    with lock_folder(run.path, "writing"):
        load_recipe(run.recipe)  # fails if it is damaged
        text = run.recipe.read_text("utf-8")
        tree = tomllib.loads(text)
        tree["model"]["decoder"]["alignment_heads"] = [list(head) for head in heads]
        save_text(run.recipe, write_toml(make_recipe(tree), leading_comments(text)))
