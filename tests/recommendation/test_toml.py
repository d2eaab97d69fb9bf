"""A recommendation as a file."""

from __future__ import annotations

from pathlib import Path

from weft.data.profiling.inputs import PairInput
from weft.data.profiling.profile import profile_pairs
from weft.recipe import load_recipe, make_recipe
from weft.recommendation import recommend
from weft.recommendation.toml import write_recommendation


def test_the_file_has_the_recommended_settings_and_their_reasons(tmp_path: Path) -> None:
    rows = [f'"le\\mma{n}\tV;{"SG" if n % 2 else "PL"}\t"le\\mma{n}s' for n in range(60)]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n")
    recommendation = recommend(profile_pairs(PairInput(str(tmp_path / "pairs.tsv"))))
    text = write_recommendation(recommendation)
    assert "# task: words with features (words, and 1 column of features)\n" in text
    assert "# warning: 60 pairs: very few" in text
    (tmp_path / "mine.toml").write_text(text)
    loaded = load_recipe(tmp_path / "mine.toml")
    made = make_recipe(recommendation.tree())
    for section in ("tokenizer", "model", "training", "search", "evaluation"):
        assert getattr(loaded, section) == getattr(made, section)
    assert loaded.data.train == made.data.train
