"""Vocabularies of Marian: SentencePiece, pieces looked up in YAML, and words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fixtures import marian_models, pretrained_tokenizers
from weft.errors import WeftError
from weft.interop.marian.vocabularies import read_tokenizers
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.tokenizer import Tokenizers, load_tokenizers

WORDS = ["</s>", "<unk>", "the", "king", "no", "1.5", "~", "on", "2020-01-01", "a:b", ">>fra<<"]


def write(path: Path, names: list[str]) -> Path:
    path.write_text(yaml.safe_dump({name: id for id, name in enumerate(names)}, allow_unicode=True), "utf-8")
    return path


def reloaded(tokenizers: Tokenizers, folder: Path) -> Tokenizers:
    folder.mkdir()
    return load_tokenizers(tokenizers.save(folder))


class TestWords:
    """Texts that are split already."""

    def test_ids(self, tmp_path: Path) -> None:
        """Words that YAML would read as numbers, dates and truth values are words."""
        file, rows = write(tmp_path / "vocab.yml", WORDS), len(WORDS) + 1
        tokenizers = reloaded(read_tokenizers(tmp_path, (file,), rows=(rows, rows)), tmp_path / "saved")
        tokenizer = tokenizers.source
        assert tokenizers.joint and tokenizer.size == rows
        text = "the king no 1.5 ~ on 2020-01-01 a:b"
        assert [tokenizer.external_ids[id] for id in tokenizer.encode(text)] == [*range(2, 10)]
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.encode("the prince") == [tokenizer.encode("the")[0], UNKNOWN]
        assert [tokenizer.external_ids[id] for id in (UNKNOWN, BEGIN, END)] == [1, rows - 1, 0]

    def test_fewer_words_than_rows(self, tmp_path: Path) -> None:
        file = write(tmp_path / "vocab.yml", WORDS)
        tokenizer = read_tokenizers(tmp_path, (file,), rows=(20, 20)).source
        assert tokenizer.size == 20 and tokenizer.external_ids[BEGIN] == 19

    def test_vocabularies_of_nematus(self, tmp_path: Path) -> None:
        file = write(tmp_path / "vocab.json", ["eos", "UNK", "the"])
        tokenizer = read_tokenizers(tmp_path, (file,), rows=(4, 4)).source
        assert [tokenizer.external_ids[id] for id in (UNKNOWN, END)] == [1, 0]

    def test_lines(self, tmp_path: Path) -> None:
        (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), "utf-8")
        tokenizer = read_tokenizers(tmp_path, (tmp_path / "vocab.txt",), rows=(12, 12)).source
        assert [tokenizer.external_ids[id] for id in tokenizer.encode("king a:b")] == [3, 9]


def test_opus_mt(tmp_path: Path) -> None:
    """source.spm and target.spm, whose pieces are looked up in one vocabulary: as Hugging Face's conversion of it."""
    from weft.interop.huggingface import tokenizers as huggingface

    folder = pretrained_tokenizers.opus_mt(tmp_path / "huggingface")
    content = yaml.safe_load((folder / "vocab.json").read_text("utf-8"))
    rows = len(content)
    expected = huggingface.read_tokenizers(folder, pretrained_tokenizers.marian_config(folder), rows=(rows, rows))
    names = [name for name in content if name != "<pad>"]
    file = write(folder / "opus.vocab.yml", names)
    (folder / "vocab.json").unlink()
    found = read_tokenizers(folder, (file,), rows=(rows, rows), languages=(None, "deu"))
    assert found.languages == expected.languages == ("fra", "deu")
    expected = expected.with_languages(None, "deu")
    assert found.frame == expected.frame
    for text in pretrained_tokenizers.lines(60):
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.encode(text) == theirs.encode(text)
    assert found.source.encode(">>fra<< the king") == expected.source.encode(">>fra<< the king")


class TestBadInput:
    def refused(self, folder: Path, file: str, rows: int = 9) -> str:
        with pytest.raises(WeftError) as caught:
            read_tokenizers(folder, (folder / file,), rows=(rows, rows))
        message = str(caught.value)
        assert "\n" not in message
        return message.replace(str(folder), "FOLDER")

    def test_more_words_than_rows(self, tmp_path: Path) -> None:
        write(tmp_path / "vocab.yml", WORDS)
        assert (
            self.refused(tmp_path, "vocab.yml") == "FOLDER/vocab.yml: has 11 tokens, but the embedding has only 8 rows"
        )

    @pytest.mark.parametrize(
        ("content", "line"),
        [
            ("a: b", "the id of 'a' is 'b', expected a number"),
            ("a: [1]", "the id of 'a' is ['1'], expected a number"),
            ("a: 99999999999", "the id of 'a' is '99999999999', expected a number"),
            ("a: 1\nb: 1", "'a' and 'b' have the same id, 1"),
            ("- a", "expected names and values"),
            ("a: {", "not valid YAML ("),
            ("!!python/object/apply:os.system [true]", "expected names and values"),
            ("'</s>': 0\na: 1", "its vocabulary has no unknown token; expected '<unk>'"),
        ],
    )
    def test_files_that_are_no_vocabulary(self, tmp_path: Path, content: str, line: str) -> None:
        (tmp_path / "vocab.yml").write_text(content)
        assert self.refused(tmp_path, "vocab.yml").startswith(f"FOLDER/vocab.yml: {line}")

    def test_a_damaged_model(self, tmp_path: Path) -> None:
        (tmp_path / "vocab.spm").write_bytes(marian_models.sentencepiece_model()[:500])
        assert "vocab.spm: not a SentencePiece model" in self.refused(tmp_path, "vocab.spm", 500)

    def test_other_tools(self, tmp_path: Path) -> None:
        write(tmp_path / "vocab.yml", WORDS)
        (tmp_path / "source.bpe").touch()
        assert "source.bpe: texts of this model are split by subword-nmt" in self.refused(tmp_path, "vocab.yml", 20)
