"""Imported tokenizers: their files, ids without tokens, where words begin, and damage."""

import json

import pytest

from fixtures import pretrained_tokenizers as folders
from weft.errors import VocabularyError
from weft.interop.huggingface.tokenizers import read_tokenizers
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.tokenizer import load

TEXT = "the old king, reads a book"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tokenizer of each engine."""
    folder = tmp_path_factory.mktemp("imported")
    t5 = folders.spm_only(folder / "t5", "spiece.model", t5=True, extra_ids=3)
    bart = folders.bart(folder / "bart")
    byt5 = folder / "byt5"
    byt5.mkdir()
    (byt5 / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    configs = {"pieces": (t5, "t5", folders.T5), "tokenizers": (bart, "bart", folders.FAIRSEQ)}
    configs["bytes"] = (byt5, "t5", folders.T5)
    return {
        source: read_tokenizers(path, {"model_type": family, **roles}, rows=(500, 500)).source
        for source, (path, family, roles) in configs.items()
    }


@pytest.mark.parametrize("source", ["pieces", "tokenizers", "bytes"])
class TestEachEngine:
    def test_file(self, made, source, tmp_path) -> None:
        made[source].save(tmp_path / "tokenizer.json")
        again = load(tmp_path / "tokenizer.json")
        again.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
        assert again.encode(TEXT) == made[source].encode(TEXT)
        assert again.kind == "imported" and again.description()[0].startswith("imported: ")

    def test_spans_are_where_the_words_are(self, made, source) -> None:
        tokenizer = made[source]
        ids = [499, *tokenizer.encode(TEXT), END]
        text, spans = tokenizer.decode(ids), tokenizer.spans(ids)
        assert text.strip() == TEXT or source == "pieces"
        assert len(spans) == len(ids)
        assert spans[-1][0] == spans[-1][1]
        for word in ("the", "king", "book"):
            start = text.index(word)
            covered = {i for low, high in spans for i in range(low, high)}
            assert set(range(start, start + len(word))) <= covered

    def test_rows_without_a_token(self, made, source) -> None:
        tokenizer = made[source]
        assert tokenizer.tokens([499]) == ["<row 499>"]
        assert tokenizer.decode([499]) == ""
        assert tokenizer.spans([499]) == [(0, 0)]

    def test_special_tokens_are_not_text(self, made, source) -> None:
        tokenizer = made[source]
        ids = tokenizer.encode(TEXT)
        assert tokenizer.decode([BEGIN, *ids, END]) == tokenizer.decode(ids)
        assert "⁇" in tokenizer.decode([UNKNOWN, *ids])
        assert not {BEGIN, END} & set(tokenizer.encode("</s> <s> <pad> x"))
        assert tokenizer.encode("") == []

    def test_text_that_is_none(self, made, source) -> None:
        with pytest.raises(VocabularyError, match="lone surrogate"):
            made[source].encode("\ud800")
        with pytest.raises(VocabularyError, match="id 500 is not in the vocabulary"):
            made[source].decode([500])
        with pytest.raises(VocabularyError, match="cannot be extended"):
            made[source].extended(["x"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 100}, "but the embedding has only 100 rows"),
        ({"rows": "x"}, "damaged: not the tokenizer of an imported model"),
        ({"special": [1, 1, 2]}, "damaged: not the tokenizer of an imported model"),
        ({"source": "magic"}, "'magic' is not a kind of tokenizer"),
        ({"content": {"model": "!"}}, "damaged"),
        ({"content": None}, "damaged"),
        ({"frame": {}}, "damaged"),
        ({"skipped": 3}, "damaged"),
    ],
)
def test_damaged_files(made, tmp_path, change, message) -> None:
    path = tmp_path / "tokenizer.json"
    made["pieces"].save(path)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(VocabularyError) as error:
        load(path)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
