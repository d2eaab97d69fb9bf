"""benchmarks/automatic.py: every hand-made recipe is valid, files of two languages are linked, the table is right."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from fixtures.scripts import load_benchmark
from weft.recipe import load_recipe

automatic = load_benchmark("automatic")


def test_every_hand_made_recipe_is_valid(tmp_path: Path) -> None:
    for pair_set in automatic.SETS:
        recipe = load_recipe(str(automatic.hand_made(pair_set, tmp_path, tmp_path)), [])
        assert recipe.data.folder == str(tmp_path), pair_set.label


def test_names_are_of_one_set_each() -> None:
    assert len({pair_set.file_name for pair_set in automatic.SETS}) == len(automatic.SETS) == 29
    assert {pair_set.half for pair_set in automatic.SETS} == {"rules", "check"}


def test_a_packed_set_of_two_languages_becomes_sources_and_targets(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for part in ("train", "valid", "test"):
        for language in ("en", "es"):
            (files / f"{part}.{language}").write_text(f"{part} {language}\n")
    with tarfile.open(tmp_path / "eutrans.tar.xz", "w:xz") as archive:
        archive.add(files, "eutrans")
    [pair_set] = [one for one in automatic.SETS if one.name == "eutrans"]
    out = tmp_path / "out"
    folder = automatic.input_of(pair_set, automatic.unpack(pair_set, tmp_path, out), out)
    assert sorted(path.name for path in folder.iterdir()) == [
        "test.src", "test.tgt", "train.src", "train.tgt", "valid.src", "valid.tgt",
    ]  # fmt: skip
    assert (folder / "valid.src").read_text() == "valid es\n"


def test_the_table_compares_means_over_seeds(tmp_path: Path) -> None:
    def line(by: str, seed: int, score: float) -> str:
        result = {"set": "eutrans es–en", "by": by, "seed": seed, "score": score, "minutes": 2.0, "pairs": 9_900}
        return json.dumps({**result, "decision": "word, GRU 256"}) + "\n"

    path = tmp_path / "results.jsonl"
    path.write_text(
        line("automatic", 1, 50) + line("automatic", 1, 90) + line("automatic", 2, 94) + line("hand", 1, 93)
    )
    lines = automatic.table(automatic.read_results([path])).splitlines()
    assert "| eutrans es–en | 9,900 | word, GRU 256 | bleu_tokenized | 92.0 | 93.0 | -1.0 | 2.0 |" in lines
    assert "mean -1.0, worst -1.0" in lines[-1]


def test_the_decision_of_a_recipe() -> None:
    tree = load_recipe("django", []).model_dump()
    expected = "word, Transformer 4 + 4 × 256, copying, dropout 0.3, 5,000 × 4,096 tokens"
    assert automatic.decision(tree) == expected
