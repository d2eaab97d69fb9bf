"""Lists of tokens as tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fixtures.pretrained_tokenizers import pieces_of, sentencepiece_model
from weft.errors import WeftError
from weft.interop.checkpoints.vocabularies import SpecialNames, TokenList, find_pieces, fit, make_tokenizers, read_lines
from weft.interop.imported_run import Conversion
from weft.text.frames import FrameRules
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.tokenizer import load_tokenizers

WORDS = ("<unk>", "<pad>", "<s>", "</s>", "the", "king", "low@@", "er")


def test_tokens_separated_by_spaces(tmp_path: Path) -> None:
    words = TokenList(tmp_path / "v", WORDS)
    tokenizers = make_tokenizers((words, words), FrameRules())
    assert tokenizers.joint
    tokenizers.save(tmp_path)
    tokenizer = load_tokenizers(tokenizers.save(tmp_path)).source
    assert [tokenizer.external_ids[id] for id in tokenizer.encode("the  low@@ er\tqueen")] == [4, 6, 7, 0]
    assert tokenizer.decode(tokenizer.encode("the low@@ er")) == "the low@@ er"
    assert [tokenizer.external_ids[id] for id in (UNKNOWN, BEGIN, END)] == [0, 2, 3]
    assert tokenizer.encode("the </s>")[1] == UNKNOWN  # text that spells a special token is no special token


@pytest.mark.parametrize("space", ["▁", " "], ids=["version 2", "version 1"])
def test_characters(tmp_path: Path, space: str) -> None:
    names = (*WORDS[:4], "a", "b", space, "é")
    tokens = TokenList(tmp_path / "v", names, level="characters")
    tokenizer = make_tokenizers((tokens, tokens), FrameRules()).source
    assert [tokenizer.external_ids[id] for id in tokenizer.encode("ab éx")] == [4, 5, 6, 7, 0]
    assert tokenizer.decode(tokenizer.encode("ab éa")) == "ab éa"


def conversion(source: int, target: int) -> Conversion:
    tensors = {"source_embedding.weight_VE": torch.ones(source, 2), "target_embedding.weight_VE": torch.ones(target, 2)}
    return Conversion({}, tensors, (source, target))


def test_rows_without_names_and_tokens_without_rows(tmp_path: Path) -> None:
    source, target = TokenList(tmp_path / "s", ("<unk>", "a")), TokenList(tmp_path / "t", WORDS)
    fitted, (names, _) = fit(conversion(3, 8), (source, target))
    assert names.names == ("<unk>", "a", "<row 2>", "<s>", "</s>") and fitted.rows == (5, 8)
    assert fitted.tensors["source_embedding.weight_VE"].tolist() == [[1, 1]] * 3 + [[0, 0]] * 2
    with pytest.raises(WeftError, match=r"t: has 8 tokens, but the embedding has only 7 rows"):
        fit(conversion(3, 7), (source, target))


def test_targets_need_their_special_tokens(tmp_path: Path) -> None:
    words = TokenList(tmp_path / "t", WORDS, SpecialNames(end="<eos>"))
    with pytest.raises(WeftError, match="the vocabulary of the target has no '<eos>'"):
        fit(conversion(8, 8), (words, words))


def test_pieces_are_looked_for_in_the_folder(tmp_path: Path) -> None:
    assert find_pieces(tmp_path) is None
    (tmp_path / "spm.model").touch()
    assert find_pieces(tmp_path) == tmp_path / "spm.model"
    assert find_pieces(tmp_path, "../../etc/passwd") is None and find_pieces(tmp_path, "/x/spm.model") is not None


def test_texts_split_by_pieces(tmp_path: Path) -> None:
    """Ids are those of the list, whatever those of SentencePiece."""
    (tmp_path / "spm.model").write_bytes(sentencepiece_model())
    pieces = [piece for piece in pieces_of(sentencepiece_model()) if piece not in WORDS]
    tokens = TokenList(tmp_path / "v", (*WORDS[:4], *reversed(pieces)), pieces=tmp_path / "spm.model")
    tokenizer = make_tokenizers((tokens, tokens), FrameRules()).source
    ids = [tokenizer.external_ids[id] for id in tokenizer.encode("the old king")]
    assert "".join(tokens.names[id] for id in ids) == "▁the▁old▁king"
    assert tokenizer.decode(tokenizer.encode("the old king")) == "the old king"


def test_two_lists_are_two_tokenizers(tmp_path: Path) -> None:
    """Of the same tokens in two files there is one."""
    words = TokenList(tmp_path / "s", WORDS)
    assert make_tokenizers((words, words._replace(file=tmp_path / "t")), FrameRules()).joint
    tokenizers = make_tokenizers((words, TokenList(tmp_path / "t", (*WORDS[:4], "le", "roi"))), FrameRules())
    assert not tokenizers.joint and (tokenizers.source.size, tokenizers.target.size) == (8, 6)


def test_what_texts_look_like(tmp_path: Path) -> None:
    words = TokenList(tmp_path / "v", WORDS)
    assert words.texts == "tokens separated by spaces"
    assert words._replace(level="characters").texts == "plain, split into characters"
    assert words._replace(pieces=tmp_path / "spm.model").texts == "plain, split by SentencePiece (spm.model)"


@pytest.mark.parametrize("content", ["a\n\nb c", "a\n\nb c\n"])
def test_lines(tmp_path: Path, content: str) -> None:
    (tmp_path / "v").write_text(content, "utf-8")
    assert read_lines(tmp_path / "v") == ["a", "", "b c"]


def test_lines_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(b"\xff\n")
    with pytest.raises(WeftError, match="v: damaged: not UTF-8"):
        read_lines(tmp_path / "v")
