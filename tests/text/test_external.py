"""Tokenizers made on the spot with their own libraries, and their ids through the table."""

import base64
import io
import json
import pickle

import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

from weft.errors import VocabularyError
from weft.text.external import ExternalTokenizer
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.tokenizer import load

CORPUS = ["low lower newest widest", "l'ami est là, (dé)!", "the newest low </s> x", "東京 タワー"] * 4


def bert():
    library = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    library.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special))
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    library.enable_truncation(4)
    library.enable_padding(length=20)
    return library


def gpt2():
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    library.train_from_iterator(CORPUS, trainer)
    library.post_processor = processors.ByteLevel(trim_offsets=False)
    return library


def t5():
    library = tokenizers.Tokenizer(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=70, special_tokens=special, unk_token="<unk>", show_progress=False)
    library.train_from_iterator(CORPUS, trainer)
    library.add_special_tokens([AddedToken("<extra_id_0>")])
    library.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return library


def llama():
    letters = sorted({character for text in CORPUS for character in text.replace(" ", "▁")})
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256)), *letters[:20], "lo", "low", "▁low"]
    vocabulary = {piece: id for id, piece in enumerate(dict.fromkeys([*pieces, "l", "o", "w", "▁"]))}
    merges = [("l", "o"), ("lo", "w"), ("▁", "low")]
    library = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    library.add_special_tokens(["<s>", "</s>", "<unk>"])
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return library


LIBRARIES = {"bert": bert(), "gpt2": gpt2(), "t5": t5(), "llama": llama()}
MARKS = {
    "bert": ("[UNK]", "[CLS]", "[SEP]"),
    "gpt2": (None, None, "<|endoftext|>"),
    "t5": ("<unk>", None, "</s>"),
    "llama": ("<unk>", "<s>", "</s>"),
}


def piece_model(**choices):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=file, hard_vocab_limit=False, minloglevel=3, **choices
    )
    return file.getvalue()


MODELS = {
    "unigram": piece_model(vocab_size=60),
    "bpe": piece_model(vocab_size=60, model_type="bpe", character_coverage=1.0, bos_id=-1),
    "bytes": piece_model(vocab_size=320, byte_fallback=True, user_defined_symbols=["<2de>"], unk_surface="?"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("external")
    for name, library in LIBRARIES.items():
        library.save(str(folder / name))  # no ending: it is the content that tells
    for name, model in MODELS.items():
        (folder / f"{name}.anything").write_bytes(model)
    return folder


def all_of(folder):
    return {path.name: load(path) for path in sorted(folder.iterdir())}


TEXT = st.lists(st.sampled_from([*"low é.'ж東<>\t", "lower", " ", " newest", "l'ami", "<pad>", "🙂", "<2de>"])).map(
    "".join
)


@settings(max_examples=60)
@given(text=TEXT)
def test_ids_are_the_librarys(folder, text):
    for name, library in LIBRARIES.items():
        ours, plain = load(folder / name), tokenizers.Tokenizer.from_str(library.to_str())
        plain.no_truncation(), plain.no_padding()
        theirs = plain.encode(text, add_special_tokens=False).ids
        assert [ours.external_ids[id] for id in ours.encode(text)] == theirs
        if name == "gpt2":
            assert ours.decode(ours.encode(text)) == text
        if UNKNOWN not in ours.encode(text):
            assert ours.decode(ours.encode(text)) == plain.decode(theirs, skip_special_tokens=False)
    for name, model in MODELS.items():
        ours, processor = load(folder / f"{name}.anything"), sentencepiece.SentencePieceProcessor(model_proto=model)
        assert [ours.external_ids[id] for id in ours.encode(text)] == processor.encode(text)
        if UNKNOWN not in ours.encode(text):
            assert ours.decode(ours.encode(text)) == processor.decode(processor.encode(text))


def test_the_table_of_ids(folder):
    for name, library in LIBRARIES.items():
        ours = load(folder / name)
        vocabulary = library.get_vocab()
        marks = tuple(None if mark is None else vocabulary[mark] for mark in MARKS[name])
        assert ours.external_ids[:3] == marks
        assert list(ours.external_ids[3:]) == sorted(set(vocabulary.values()) - set(marks))
    assert load(folder / "unigram.anything").external_ids[:4] == (0, 1, 2, 3)


@settings(max_examples=40)
@given(data=st.data())
def test_any_ids_decode(folder, data):
    for name, ours in all_of(folder).items():
        ids = data.draw(st.lists(st.integers(0, ours.size - 1), max_size=6), label=name)
        decoded, pieces, spans = ours.decode(ids), ours.tokens(ids), ours.spans(ids)
        assert len(pieces) == len(spans) == len(ids) and all(pieces)
        assert all(0 <= start <= end <= len(decoded) for start, end in spans) and spans == sorted(spans)
        covered = {place for start, end in spans for place in range(start, end)}
        assert all(decoded[place] == " " for place in set(range(len(decoded))) - covered)
        assert ours.decode([BEGIN, *ids, END]) == decoded


def test_pieces_and_spans(folder):
    found = all_of(folder)
    for name in ("bert", "t5", "llama", "unigram.anything"):
        ours = found[name]
        ids = [*ours.encode("low newest"), END]
        text, pieces = ours.decode(ids), ours.tokens(ids)
        assert text == "low newest" and pieces[-1] == "</s>" and "".join(pieces[:-1]).replace("␣", "") == "lownewest"
        for piece, (start, end) in zip(pieces[:-1], ours.spans(ids)[:-1], strict=True):
            assert text[start:end] == piece.replace("␣", "")


def test_unknowns(folder):
    found = all_of(folder)
    assert found["bert"].decode(found["bert"].encode("low ж")) == "low ⁇"
    assert found["unigram.anything"].decode(found["unigram.anything"].encode("low ж low")) == "low ⁇ low"
    assert found["gpt2"].decode([UNKNOWN]) == "⁇" and UNKNOWN not in found["gpt2"].encode("low ж")


def test_text_spelled_like_a_mark_is_text(folder):
    for ours in all_of(folder).values():
        for text in ("a </s> b", "[SEP] x", "<s>low</s>", "<|endoftext|>", "[CLS]"):
            ids = ours.encode(text)
            assert BEGIN not in ids and END not in ids and ids


def test_nothing_and_batches(folder):
    for ours in all_of(folder).values():
        assert ours.encode("") == [] and ours.encode_batch([]) == [] and ours.decode([]) == "" and ours.spans([]) == []
        texts = ["low", "", "the newest </s>"]
        assert ours.encode_batch(texts) == [ours.encode(text) for text in texts]
        with pytest.raises(VocabularyError, match="lone surrogate"):
            ours.encode("a\udfff")
        with pytest.raises(VocabularyError, match=r"that weft did not learn cannot be extended$"):
            ours.extended(["x"])
        assert not ours.supports_dropout and ours.description()
        assert pickle.loads(pickle.dumps(ours)).encode("low newest") == ours.encode("low newest")


def test_one_file_holds_it_all(folder, tmp_path):
    for name, ours in all_of(folder).items():
        path = tmp_path / "tokenizer.json"
        ours.save(path)
        loaded = load(path)
        assert loaded.kind == "external" and loaded.external_ids == ours.external_ids, name
        for text in CORPUS[:4]:
            assert loaded.encode(text) == ours.encode(text)
            assert loaded.decode(loaded.encode(text)) == ours.decode(ours.encode(text))
        first = path.read_bytes()
        loaded.save(path)
        assert path.read_bytes() == first


def failure(path):
    with pytest.raises(VocabularyError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_damaged_files(folder, tmp_path):
    path = tmp_path / "t"
    path.write_bytes(MODELS["unigram"][:1000])
    assert failure(path).endswith("it is neither a JSON file nor a SentencePiece model")
    path.write_text(json.dumps({"model": {"type": "Nonsense"}, "added_tokens": []}))
    assert failure(path).startswith(f"{path}: damaged, or not a tokenizer.json: ")
    load(folder / "unigram.anything").save(path)
    good = json.loads(path.read_text())
    for change, message in (
        ({"content": 3}, "damaged: it holds no tokenizer"),
        ({"source": "x"}, "damaged: it holds no tokenizer"),
        ({"content": "é"}, "damaged: its SentencePiece model is not base64"),
        ({"ids": [0]}, "damaged: its table of ids is not that of its tokenizer"),
    ):
        path.write_text(json.dumps({**good, **change}))
        assert failure(path) == f"{path}: {message}"
    path.write_text(json.dumps({**good, "content": base64.b64encode(b"nonsense").decode()}))
    assert failure(path).startswith(f"{path}: not a SentencePiece model: ")


BASE = {
    **{"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None},
    **{"pre_tokenizer": None, "post_processor": None, "decoder": None},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
}
REFUSED = {
    "takes exponential time": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    },
    "panics while it encodes": {
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\x08" + b"\xff" * 14).decode()}
    },
    "panics while it decodes": {"decoder": {"type": "Strip", "content": "a", "start": 5, "stop": 5}},
    "panics while it is loaded": {"model": {**BASE["model"], "vocab": {"a": 0, "b": 4294967295}}},
    "is of no known kind": {"model": {"type": "Zork"}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_its_library_fails_on_is_refused(name, capfd):
    with pytest.raises(
        VocabularyError,
        match=r"^t\.json: (damaged, or not a tokenizer\.json|one of its regular expressions takes too long)[^\n]+$",
    ):
        ExternalTokenizer.from_tokenizers(json.dumps({**BASE, **REFUSED[name]}), name="t.json")
    assert capfd.readouterr() == ("", "")


def test_a_table_of_ids_is_bounded():
    vocabulary = {"a": 0, "b": 1, "ab": 1 << 24}
    content = {**BASE, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"}}
    with pytest.raises(VocabularyError, match=r"^t\.json: a token has the id 16,777,216; the limit is 16,777,215$"):
        ExternalTokenizer.from_tokenizers(json.dumps(content), name="t.json")


def test_a_text_that_cannot_be_encoded_is_an_error_of_one_line():
    content = {**BASE, "model": {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]]}}
    tokenizer = ExternalTokenizer.from_tokenizers(json.dumps(content), name="t.json")
    with pytest.raises(VocabularyError, match=r"^the tokenizer of tokenizers cannot encode these texts: [^\n]+$"):
        tokenizer.encode("b")
