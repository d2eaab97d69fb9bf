"""Tokenizers of folders against those of transformers: ids and decoded text of a thousand lines of all scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentencepiece

from fixtures import pretrained_tokenizers as folders
from weft.errors import VocabularyError, command_line
from weft.interop.huggingface.tokenizers import read_tokenizers
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.tokenizer import Tokenizers, load_tokenizers

transformers = pytest.importorskip("transformers")
SENTENCEPIECE_FILE = "sentencepiece.bpe.model"


def saved(tokenizer, folder: Path):
    """What transformers writes, and what it reads of that."""
    tokenizer.save_pretrained(folder)
    return type(tokenizer).from_pretrained(folder)


def marian(folder: Path, **options):
    folders.opus_mt(folder / "made", **options)
    original = saved(transformers.MarianTokenizer.from_pretrained(folder / "made"), folder)
    return original, folders.marian_config(folder), len(original.encoder)


def m2m100(folder: Path):
    folders.m2m100(folder / "made")
    original = transformers.M2M100Tokenizer.from_pretrained(folder / "made", src_lang="de", tgt_lang="fr")
    return saved(original, folder), {"model_type": "m2m_100", **folders.FAIRSEQ}, len(original.encoder) + 108


def from_sentencepiece(name: str, file: str, family: str, roles: dict[str, int], **options):
    def make(folder: Path):
        made = folders.spm_only(folder / "made", file, **options)
        original = getattr(transformers, name).from_pretrained(made)
        if name == "NllbTokenizer":
            original.add_special_tokens({"extra_special_tokens": ["eng_Latn", "fra_Latn", "deu_Latn"]})
            original.src_lang = "eng_Latn"
        original = saved(original, folder)
        if name == "MBartTokenizer":
            roles["decoder_start_token_id"] = original.convert_tokens_to_ids("ro_RO")
        return original, {"model_type": family, **roles}, len(original) + 7

    return make


def bart(folder: Path):
    original = saved(transformers.BartTokenizer.from_pretrained(folders.bart(folder / "made")), folder)
    return original, {"model_type": "bart", **folders.FAIRSEQ}, len(original)


def bart_without_json(folder: Path):
    original = transformers.BartTokenizer.from_pretrained(folders.bart(folder))
    return original, {"model_type": "bart", **folders.FAIRSEQ}, len(original)


def byt5(folder: Path):
    return saved(transformers.ByT5Tokenizer(), folder), {"model_type": "t5", **folders.T5}, 384


TARGETS = {"nllb": "fra_Latn", "mbart-50": "fr_XX"}
"""What to translate into, where the folder does not say."""
FAMILIES = {
    "marian": marian,
    "m2m100": m2m100,
    "nllb": from_sentencepiece("NllbTokenizer", SENTENCEPIECE_FILE, "m2m_100", folders.FAIRSEQ, kind="bpe"),
    "mbart-25": from_sentencepiece("MBartTokenizer", SENTENCEPIECE_FILE, "mbart", {**folders.FAIRSEQ}),
    "mbart-50": from_sentencepiece("MBart50Tokenizer", SENTENCEPIECE_FILE, "mbart", folders.FAIRSEQ),
    "t5": from_sentencepiece("T5Tokenizer", "spiece.model", "t5", folders.T5, t5=True),
    "pegasus": from_sentencepiece("PegasusTokenizer", "spiece.model", "pegasus", folders.T5, t5=True),
    "bart": bart,
    "bart without tokenizer.json": bart_without_json,
    "byt5": byt5,
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """The name of a family, the original's tokenizer, and ours, written and read again."""
    folder = tmp_path_factory.mktemp("tokenizer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMERS_VERBOSITY", "error")
        original, config, rows = FAMILIES[request.param](folder / "original")
    tokenizers = read_tokenizers(folder / "original", config, rows=(rows, rows))
    return request.param, original, load_tokenizers(tokenizers.save(folder)), rows


def externals(tokenizers: Tokenizers, ids) -> list[int]:
    return [tokenizers.source.external_ids[id] for id in ids]


def test_ids_of_a_thousand_lines(family) -> None:
    _, original, tokenizers, _ = family
    lines = folders.lines()
    found = [externals(tokenizers, ids) for ids in tokenizers.source.encode_batch(lines)]
    expected = [original(line, add_special_tokens=False)["input_ids"] for line in lines]
    assert len(lines) == 1000
    assert found == expected


def test_decoded_text(family) -> None:
    _, original, tokenizers, _ = family
    for encoded in tokenizers.source.encode_batch(folders.lines()[::2]):
        ids = [id for id in encoded if id != UNKNOWN]  # which transformers leaves out, and weft shows
        assert tokenizers.source.decode(ids) == original.decode(externals(tokenizers, ids), skip_special_tokens=True)


def test_every_row_is_one_id(family) -> None:
    _, _, tokenizers, rows = family
    assert sorted(tokenizers.source.external_ids) == list(range(rows))
    assert tokenizers.source.size == rows
    assert all(tokenizers.source.tokens(range(rows)))


def test_the_frame_of_a_source(family) -> None:
    name, original, tokenizers, _ = family
    if name in TARGETS:
        tokenizers = tokenizers.with_languages(None, TARGETS[name])
    text = "the old king reads a book"
    found = externals(tokenizers, tokenizers.frame.source(tokenizers.source.encode(text)))
    assert found == original(text)["input_ids"]


STARTS = {
    "m2m100": ["</s>", "__fr__"],
    "mbart-25": ["ro_RO"],
    "bart": ["</s>", "<s>"],
    "bart without tokenizer.json": ["</s>", "<s>"],
}


def test_what_the_decoder_reads_first(family) -> None:
    name, original, tokenizers, _ = family
    start = STARTS.get(name, ["<pad>"])
    if name in TARGETS:
        with pytest.raises(VocabularyError, match="target_language: this model has several languages; name that of"):
            _ = tokenizers.frame
        tokenizers, start = tokenizers.with_languages(None, TARGETS[name]), ["</s>", TARGETS[name]]
    assert externals(tokenizers, tokenizers.frame.start) == [original.convert_tokens_to_ids(token) for token in start]


def test_special_tokens_have_the_ids_of_weft(family) -> None:
    _, original, tokenizers, _ = family
    unknown, begin, end = externals(tokenizers, (UNKNOWN, BEGIN, END))
    assert unknown == original.unk_token_id
    assert end == original.eos_token_id
    assert begin in (original.pad_token_id, original.convert_tokens_to_ids("<s>"))
    ids = tokenizers.source.encode("a </s> b <pad> <s> c")
    assert BEGIN not in ids and END not in ids


@pytest.mark.parametrize(
    ("model_type", "file", "settings", "offset"),
    [
        ("t5", "spiece.model", {"extra_ids": 5}, 0),
        ("pegasus", "spiece.model", {}, 103),
        ("mbart", SENTENCEPIECE_FILE, {"tokenizer_class": "MBart50Tokenizer"}, 1),
        ("m2m_100", SENTENCEPIECE_FILE, {"additional_special_tokens": ["eng_Latn", "fra_Latn"]}, 1),
    ],
)
def test_sentencepiece_without_a_tokenizer_json(tmp_path, model_type, file, settings, offset) -> None:
    """Its pieces, with the ids of the family. (transformers 5 converts such a file to another tokenizer, which differs
    from SentencePiece in white space, and of NLLB has no languages.)"""
    t5 = model_type in ("t5", "pegasus")
    model = folders.sentencepiece_model(t5=t5)
    folder = folders.spm_only(tmp_path, file, t5=t5, **settings)
    roles = folders.T5 if t5 else folders.FAIRSEQ
    tokenizers = read_tokenizers(folder, {"model_type": model_type, **roles}, rows=(1000, 1000))
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    unknown = 2 + offset if t5 else 3
    for line in folders.lines():
        expected = [unknown if id == library.unk_id() else id + offset for id in library.encode(line)]
        assert externals(tokenizers, tokenizers.source.encode(line)) == expected
    if not t5:
        tokenizers = tokenizers.with_languages(None, tokenizers.languages[1])
        ids = externals(tokenizers, tokenizers.frame.start)
        assert ids == [2, library.get_piece_size() + 1 + 1]


def test_two_vocabularies_of_marian(tmp_path) -> None:
    folder = folders.opus_mt(tmp_path, separate=True)
    original = transformers.MarianTokenizer.from_pretrained(folder)
    rows = len(original.encoder), len(original.target_encoder)
    config = {**folders.marian_config(folder), "decoder_start_token_id": rows[1] - 1, "pad_token_id": rows[1] - 1}
    tokenizers = read_tokenizers(folder, config, rows=rows)
    lines = folders.lines(200)
    found = [[tokenizers.target.external_ids[id] for id in ids] for ids in tokenizers.target.encode_batch(lines)]
    assert found == [original(text_target=line, add_special_tokens=False)["input_ids"] for line in lines]
    assert (tokenizers.source.size, tokenizers.target.size) == rows
    assert not tokenizers.joint


def test_the_language_before_a_source_of_marian(tmp_path) -> None:
    folder = folders.opus_mt(tmp_path)
    rows = len(json.loads((folder / "vocab.json").read_text("utf-8")))
    tokenizers = read_tokenizers(folder, folders.marian_config(folder), rows=(rows, rows))
    assert tokenizers.languages == ("fra", "deu")
    without = tokenizers.frame.source(tokenizers.source.encode(">>deu<< the king"))
    chosen = tokenizers.with_languages(None, "deu")
    assert chosen.frame.source(chosen.source.encode("the king")) == without
    assert tokenizers.source.tokens(without)[0] == ">>deu<<"
    with pytest.raises(VocabularyError, match="source_language='eng': this model takes no source language"):
        tokenizers.with_languages("eng", "deu")


def test_sentinels_in_text(tmp_path) -> None:
    folder = folders.spm_only(tmp_path, "spiece.model", t5=True, extra_ids=5)
    tokenizer = read_tokenizers(folder, {"model_type": "t5", **folders.T5}, rows=(300, 300)).source
    names = tokenizer.tokens(tokenizer.encode("the <extra_id_1> king <extra_id_9>"))
    assert names[1] == "<extra_id_1>"
    assert "<extra_id_9>" not in names
    assert tokenizer.decode(tokenizer.encode("the <extra_id_1> king")) == "the king"


class TestBadInput:
    def refused(self, folder: Path, config=None, rows: int = 1000, **options) -> str:
        with pytest.raises(VocabularyError) as error:
            read_tokenizers(folder, config or {"model_type": "t5", **folders.T5}, rows=(rows, rows), **options)
        message = str(error.value)
        assert "\n" not in message and len(message) < 400
        return message

    def test_no_tokenizer(self, tmp_path) -> None:
        assert self.refused(tmp_path) == (
            f"{tmp_path}: no tokenizer in it; expected tokenizer.json or spiece.model or sentencepiece.bpe.model "
            "or sentencepiece.model or tokenizer.model"
        )

    def test_damaged_files(self, tmp_path) -> None:
        (tmp_path / "tokenizer.json").write_text('{"model": {}}')
        assert "tokenizer.json: damaged, or not a tokenizer.json" in self.refused(tmp_path)
        (tmp_path / "tokenizer.json").unlink()
        (tmp_path / "spiece.model").write_bytes(folders.sentencepiece_model(t5=True)[:1000])
        assert "spiece.model: not a SentencePiece model" in self.refused(tmp_path)
        (tmp_path / "tokenizer_config.json").write_text("{")
        assert "tokenizer_config.json: damaged; it is not valid JSON" in self.refused(tmp_path)

    def test_fewer_rows_than_tokens(self, tmp_path) -> None:
        folders.spm_only(tmp_path, "spiece.model", t5=True)
        assert "but the embedding has only 50 rows" in self.refused(tmp_path, rows=50)

    def test_ids_that_are_no_list(self, tmp_path) -> None:
        folder = folders.opus_mt(tmp_path)
        config = folders.marian_config(folder)
        folders.write_ids(folder / "vocab.json", ["</s>", "<unk>", "a"])
        (folder / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "a": 1}')
        assert "'<unk>' and 'a' have the same id, 1" in self.refused(folder, config)
        (folder / "vocab.json").write_text('{"</s>": 0, "<unk>": 7}')
        assert "the id of '<unk>' is 7, expected one of 0 to 1" in self.refused(folder, config)
        (folder / "vocab.json").write_text('{"</s>": 0, "a": 1}')
        assert "its vocabulary has no unknown token; expected '<unk>'" in self.refused(folder, config)
        (folder / "target.spm").unlink()
        folders.write_ids(folder / "vocab.json", ["</s>", "<unk>", "a"])
        assert self.refused(folder, config) == f"{folder}: no tokenizer in it; expected target.spm"

    def test_merges_that_are_no_pairs(self, tmp_path) -> None:
        folder = folders.bart(tmp_path)
        (folder / "merges.txt").write_text("#version: 0.2\na b\nabc\n")
        config = {"model_type": "bart", **folders.FAIRSEQ}
        assert self.refused(folder, config).endswith("merges.txt:3: 1 columns, expected 2")
        (folder / "merges.txt").unlink()
        assert self.refused(folder, config).endswith("merges.txt: cannot read the tokenizer: no such file")

    def test_nllb_without_languages(self, tmp_path) -> None:
        folders.spm_only(tmp_path, SENTENCEPIECE_FILE, kind="bpe")
        message = self.refused(tmp_path, {"model_type": "m2m_100", **folders.FAIRSEQ})
        assert message.endswith("its languages are not listed; add its tokenizer.json or special_tokens_map.json")

    def test_no_end_token(self, tmp_path) -> None:
        folders.spm_only(tmp_path, "spiece.model", t5=True, eos_token="<end>")
        message = self.refused(tmp_path, {"model_type": "t5", "pad_token_id": 0, "decoder_start_token_id": 0})
        assert message.endswith("a model needs an end token; this one has none")

    def test_a_begin_token_that_has_no_row(self, tmp_path) -> None:
        folders.spm_only(tmp_path, "spiece.model", t5=True)
        for start, rows in ((400, 400), (-1, 400)):
            message = self.refused(tmp_path, {"model_type": "t5", **folders.T5, "decoder_start_token_id": start}, rows)
            assert message.endswith(
                f"a model needs a begin token; this one names the id {start}, but the embedding has {rows} rows"
            )

    def test_an_unknown_language(self, tmp_path) -> None:
        folders.m2m100(tmp_path)
        config = {"model_type": "m2m_100", **folders.FAIRSEQ}
        message = self.refused(tmp_path, config, languages=(None, "fra"))
        assert message == "target_language='fra': not a language of this model; did you mean 'fr'?"

    def test_the_option_of_the_import(self, tmp_path) -> None:
        folders.m2m100(tmp_path)
        with command_line():
            message = self.refused(tmp_path, {"model_type": "m2m_100", **folders.FAIRSEQ}, languages=(None, "fra"))
        assert message == "--target-language fra: not a language of this model; did you mean 'fr'?"
