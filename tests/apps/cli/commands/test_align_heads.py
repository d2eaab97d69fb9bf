"""`weft align-heads`: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fixtures import marian_models
from fixtures.marian_models import MarianModel
from weft.apps.cli import app
from weft.interop.importing import import_model
from weft.recipe import load_recipe

TEXTS = ["the king\tle roi", "old book\tvieux livre", "his son\tson fils", "a book\tun livre"]
PAIRS = "".join(f"{text}\t0-0 1-1\n" for text in TEXTS)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alignment")
    pieces = marian_models.sentencepiece_model()
    (folder / "vocab.spm").write_bytes(pieces)
    size = marian_models.piece_count(pieces)
    MarianModel((size, size)).save(folder / "model.npz")
    (folder / "pairs.tsv").write_text(PAIRS, "utf-8")
    return import_model(folder, folder / "run")


def test_a_dry_run_and_a_real_one(run: Path) -> None:
    arguments = ["align-heads", str(run), str(run.parent / "pairs.tsv"), "--device", "cpu"]
    dry = CliRunner().invoke(app, [*arguments, "--dry-run", "--json"])
    assert dry.exit_code == 0, dry.output
    found = json.loads(dry.stdout)
    assert found["pairs"] == 4 and found["given_links"] and not found["written"] and len(found["single"]) == 9
    assert load_recipe(run / "recipe.toml").model.decoder.alignment_heads == []
    real = CliRunner().invoke(app, arguments)
    assert real.exit_code == 0, real.output
    assert real.stdout.startswith("Compared with the given links of 4 pairs (alignment error rate):\n  layer ")
    assert f"model.decoder.alignment_heads = {found['heads']}: " in real.stdout
    assert load_recipe(run / "recipe.toml").model.decoder.alignment_heads == found["heads"]
