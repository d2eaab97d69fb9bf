"""Files of a tokenizer: errors are those of a vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import VocabularyError
from weft.interop.huggingface import tokenizer_files
from weft.interop.huggingface.tokenizer_files import TokenizerFolder


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_files, "MAX_BYTES", 3)
    (tmp_path / "vocab.json").write_text("{}!")
    assert TokenizerFolder(tmp_path).read("vocab.json") == b"{}!"
    (tmp_path / "vocab.json").write_text("{}!!")
    with pytest.raises(VocabularyError, match=r"vocab\.json: "):
        TokenizerFolder(tmp_path).read("vocab.json")


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text("{")
    with pytest.raises(VocabularyError, match=r"vocab\.json: "):
        TokenizerFolder(tmp_path).read_object("vocab.json")
