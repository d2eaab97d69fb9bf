"""The heads that align words best: on weights made by hand, and found again in a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from fixtures import marian_models
from fixtures.marian_models import MarianModel
from weft.errors import DataError
from weft.evaluation.alignment_heads import (
    HeadsByPair,
    choose_heads,
    error_rate,
    find_alignment_heads,
    weights_of_pair,
    write_alignment_heads,
)
from weft.interop.importing import import_model
from weft.runs.layout import RunFolder
from weft.translation.results import WordAttention
from weft.translation.word_alignment import align_words

TEXTS = ["the old king reads", "a book to his son", "his son reads", "the book", "old book", "king reads a book"]
TARGETS = ["le vieux roi lit", "un livre à son fils", "son fils lit", "le livre", "vieux livre", "roi lit un livre"]


def pair_of(rows: dict[tuple[int, int], list[list[float]]]) -> HeadsByPair:
    """Two words, the links 0-0 and 1-1; the last column is the end token."""
    heads = {head: np.array(weights) for head, weights in rows.items()}
    return HeadsByPair(heads, ["a", "b", "</s>"], ["x", "y"], ((0, 0), (1, 1)))


def test_heads_that_complement_each_other() -> None:
    """Each is right about one word; their mean is right about both; a third adds nothing."""
    pair = pair_of(
        {
            (0, 0): [[0.1, 0.8, 0.1], [0.5, 0.4, 0.1]],
            (0, 1): [[0.9, 0.1, 0.0], [0.5, 0.5, 0.0]],
            (1, 0): [[0.4, 0.5, 0.1], [0.0, 1.0, 0.0]],
        }
    )
    heads, single = choose_heads([pair, pair])
    assert sorted(heads) == [(0, 1), (1, 0)]
    assert single == {(0, 1): 50.0, (1, 0): 50.0, (0, 0): 100.0}
    assert error_rate([pair], heads) == 0.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alignment")
    pieces = marian_models.sentencepiece_model()
    (folder / "vocab.spm").write_bytes(pieces)
    size = marian_models.piece_count(pieces)
    MarianModel((size, size)).save(folder / "model.npz")
    return import_model(folder, folder / "run")


def test_a_head_is_found_again(run: Path) -> None:
    """Links that are those of one head: it is found, written into the run, and used from then on."""
    translator = weft.load(run)
    plain = [weft.Pair(source, target) for source, target in zip(TEXTS, TARGETS, strict=True)]
    weights = [weights_of_pair(translator, pair) for pair in plain]
    links = {
        head: [tuple(align_words(WordAttention(one.heads[head], one.source, one.target))) for one in weights]
        for head in weights[0].heads
    }
    head = max(links, key=lambda head: sum(map(bool, links[head])))  # of a random model: many attend to the end
    pairs = [pair._replace(links=found) for pair, found in zip(plain, links[head], strict=True)]
    found = find_alignment_heads(translator, pairs)
    assert (found.heads, found.error_rate, found.given_links) == ([head], 0.0, True)
    assert found.layer_error_rate > 0
    before = (run / "recipe.toml").read_text("utf-8").splitlines()
    write_alignment_heads(RunFolder(run), found.heads)
    after = (run / "recipe.toml").read_text("utf-8").splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert [line.split("#")[0].strip() for line in changed] == [f"alignment_heads = {[[*head]]}"]
    forced = weft.load(run).force_decode([(pair.source, pair.target) for pair in pairs])
    assert [tuple(one.links) for one in forced] == [pair.links for pair in pairs]
    [plain_score] = translator.score([(TEXTS[0], TARGETS[0])])
    assert forced[0].log_probability == pytest.approx(plain_score.log_probability, abs=1e-4)


def test_links_of_a_model_of_words(run: Path) -> None:
    pairs = [weft.Pair(source, target) for source, target in zip(TEXTS, TARGETS, strict=True)]
    found = find_alignment_heads(weft.load(run), pairs)
    assert not found.given_links and found.pairs == len(pairs) and 1 <= len(found.heads) <= 8


def test_too_few_pairs(run: Path) -> None:
    with pytest.raises(DataError, match="1 pairs with links, expected at least 4 to choose heads by"):
        find_alignment_heads(weft.load(run), [weft.Pair("the king", "le roi", ((0, 0),))])
