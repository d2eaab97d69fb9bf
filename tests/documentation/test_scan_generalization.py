"""benchmarks/scan_generalization.py: every row is a valid recipe, and pairs are held out."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.scripts import load_benchmark
from weft.recipe import load_recipe

scan = load_benchmark("scan_generalization")


def test_every_variant_changes_the_base(tmp_path: Path) -> None:
    recipes = {}
    for variant in scan.VARIANTS:
        path = tmp_path / "recipe.toml"
        path.write_text(scan.recipe_of(scan.Job(variant, "length", 3), tmp_path, 200), "utf-8")
        recipes[variant] = load_recipe(path)
    base = recipes.pop("lstm")
    assert (base.seed, base.training.steps, base.training.label_smoothing) == (3, 200, 0.0)
    assert base.training.validate_every == 0 and base.data.folder == str(tmp_path / "length")
    assert all(recipe != base for recipe in recipes.values())
    assert recipes["transformer, best by held-out exact match"].training.validate_every == 20
    assert base.model.encoder.kind == "lstm" and recipes["transformer, no positions"].model.decoder.positions == "none"


def test_held_out_pairs_are_not_trained_on(tmp_path: Path) -> None:
    for name in ("train", "test"):
        for side in ("src", "tgt"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{name} {side} {n}\n" for n in range(40)), "utf-8")
    scan.hold_out(tmp_path, tmp_path / "out")
    parts = {path.name: path.read_text("utf-8").splitlines() for path in (tmp_path / "out").iterdir()}
    assert len(parts["valid.src"]) == 2 and len(parts["train.src"]) == 38 and len(parts["test.tgt"]) == 40
    for side in ("src", "tgt"):
        assert {*parts[f"valid.{side}"], *parts[f"train.{side}"]} == {f"train {side} {n}" for n in range(40)}
    numbers = [[line.split()[-1] for line in parts[f"valid.{side}"]] for side in ("src", "tgt")]
    assert numbers[0] == numbers[1]


def test_the_table_has_the_mean_over_seeds() -> None:
    results = [{"variant": "lstm", "split": "length", "seed": n, "test": 10.0 * n, "valid": 99.0} for n in (1, 2)]
    results.append({"variant": "transformer", "split": "simple", "seed": 1, "error": "no time was left"})
    assert scan.table(results, ["simple", "length"]).splitlines()[2:] == ["| lstm |  | 15.0 (99.0) |"]


def test_results_of_another_number_of_steps_do_not_count(tmp_path: Path) -> None:
    record = tmp_path / "results.jsonl"
    assert scan.read_results(record, 400) == []
    record.write_text("".join(json.dumps({"seed": n, "steps": 200 * n}) + "\n" for n in (1, 2)), "utf-8")
    assert scan.read_results(record, 400) == [{"seed": 2, "steps": 400}]
