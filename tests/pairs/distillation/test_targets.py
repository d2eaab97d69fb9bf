"""Outputs of a model in a file: which are used, in which order, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.data.pairs import Pair
from weft.errors import DataError
from weft.pairs.distillation.targets import OutputJob, SourceText, usable_texts, write_outputs
from weft.translation.results import Translation
from weft.translation.translator import Translator


def job(**made_by: Any) -> OutputJob:
    return OutputJob({"kind": "greedy"}, 1, lambda item, texts: [f"{item.pair.target}|{texts[0]}"], made_by)


def items(texts: list[str]) -> Iterator[SourceText]:
    return (SourceText(text, Pair(text, str(number))) for number, text in enumerate(texts))


def test_outputs_in_the_order_of_the_items(copier: Translator, tmp_path: Path) -> None:
    texts = ["a b", "c", "b a d", "e"]
    written = write_outputs(lambda: copier, lambda: items(texts), tmp_path / "new" / "out.txt", job())
    expected = [f"{number}|{copier.translate(text, kind='greedy').text}" for number, text in enumerate(texts)]
    assert written.path.read_text("utf-8").splitlines() == expected
    assert written.rows == 4 and not written.left_out and written.seconds > 0
    assert sorted(path.name for path in written.path.parent.iterdir()) == ["out.txt"]


def test_a_complete_file_is_not_written_again(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("a\nb\n", "utf-8")

    def never() -> Any:
        raise AssertionError

    written = write_outputs(never, never, tmp_path / "out.txt", job())
    assert (written.rows, written.seconds) == (2, 0.0)


def test_no_items(copier: Translator, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"out\.txt: no pairs: there is no source"):
        write_outputs(lambda: copier, lambda: items([]), tmp_path / "out.txt", job())
    assert not [*tmp_path.iterdir()]


def test_no_usable_output(copier: Translator, tmp_path: Path) -> None:
    refusing = OutputJob({}, 1, lambda item, texts: [], {})
    with pytest.raises(DataError, match=r"out\.txt: no pairs: no output could be used"):
        write_outputs(lambda: copier, lambda: items(["a"]), tmp_path / "out.txt", refusing)


def test_other_options_are_refused(copier: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.translation import pipeline

    monkeypatch.setattr(pipeline, "WINDOW_LINES", 1)

    def failing() -> Iterator[SourceText]:
        yield from items(["a", "b"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_outputs(lambda: copier, failing, tmp_path / "out.txt", job(weights="x"))
    with pytest.raises(DataError, match='written with other options: weights was "x", is "y"'):
        write_outputs(lambda: copier, lambda: items(["a", "b"]), tmp_path / "out.txt", job(weights="y"))
    written = write_outputs(lambda: copier, lambda: items(["a", "b", "c"]), tmp_path / "out.txt", job(weights="x"))
    assert written.rows == 3


def test_usable_texts(copier: Translator) -> None:
    best = copier.translate("a b", n_best=3)
    assert usable_texts(best)[0] == best.text and len(usable_texts(best)) <= 3
    cut = copier.translate("a b c d", max_length=1)
    assert cut.ended_by_length and usable_texts(cut) == []
    assert usable_texts(DataError("too long")) == []
    assert isinstance(best, Translation)
