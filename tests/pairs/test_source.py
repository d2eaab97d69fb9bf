"""Which names are names of pairs, and how pairs that can be read only once are kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread

import pytest

from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError
from weft.pairs.profiling.inputs import PairsArgument
from weft.pairs.source import PairSource, as_source, check_unused, find_pairs

TSV = "".join(f"a{n}\tb{n}\n" for n in range(20))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_file_with_the_name_of_a_recipe() -> None:
    """As everywhere, the file comes before the shipped recipe, be it of pairs or a recipe itself."""
    assert find_pairs("g2p", None, None, None) is None
    Path("g2p").write_text("a\tb\n")
    assert find_pairs("g2p", None, None, None) is not None
    Path("g2p").write_text('name = "mine"\n')
    assert find_pairs("g2p", None, None, None) is None


def test_names_of_pairs() -> None:
    Path("pairs.tsv").write_text(TSV)
    Path("run").mkdir()
    Path("run/recipe.toml").touch()
    for name in ("pairs.tsv", "-", "p*.tsv", "gone.csv", "gone.tsv.gz"):
        assert find_pairs(name, None, None, None) == PairSource(PairsArgument(name)), name
    for name in ("run", "mine.toml", "grammar"):
        assert find_pairs(name, None, None, None) is None, name
    assert find_pairs("interrupted", None, None, None, resume=True) is None


def test_pairs_of_a_program() -> None:
    assert as_source(Path("pairs.tsv"), (2, "b"), "g2p") == PairSource(PairsArgument("pairs.tsv", "2", "b"), "g2p")
    assert as_source(("a.x", Path("a.y")), None, None) == PairSource(PairsArgument(None, "a.x", "a.y"))
    pairs = as_source([("a", "b"), Pair("c", "d")], None, None)
    assert pairs is not None and pairs.pairs == (Pair("a", "b"), Pair("c", "d")) and pairs.name == "pairs"
    with pytest.raises(DataError, match=r"pairs\[0\]: .* expected a pair"):
        as_source(["a", "b"], None, None)


def test_what_can_be_read_once_is_kept_beside_the_run() -> None:
    os.mkfifo("pipe")
    writer = Thread(target=Path("pipe").absolute().write_text, args=(TSV,), daemon=True)
    writer.start()
    recipe = PairSource(PairsArgument("pipe")).recommend([], None, Path("runs/x")).recipe
    assert recipe.data.train == "runs/x.tsv" and Path("runs/x.tsv").read_text() == TSV
    source = as_source([(f"a{n}", f"b\n{n}") for n in range(20)], None, None)
    assert source is not None
    for _ in range(2):  # the same pairs again are no other file
        recipe = source.recommend([], None, Path("runs/y")).recipe
    rows = Path("runs/y.jsonl").read_text().splitlines()
    assert json.loads(rows[3]) == {"source": "a3", "target": "b\n3"} and len(rows) == 20
    with pytest.raises(DataError, match="a lone surrogate"):
        PairSource(PairsArgument("-"), None, (Pair("\ud800", "b"),)).recommend([], None, Path("runs/z"))


def test_options_of_a_recipe_that_is_made() -> None:
    check_unused(like=None, changes=[])
    with pytest.raises(RecipeError, match=r"^start: of no use with a recipe that is made already"):
        check_unused(like=None, start=Path("run"))
