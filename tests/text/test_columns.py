"""Sources of several columns: one sequence of ids, whatever the tokenizer, from which every column can be told."""

from random import Random

import pytest

from weft.errors import ColumnCountError
from weft.text.columns import ColumnTokenizer, split_columns, split_ids
from weft.text.copying import SentenceIds, target_ids
from weft.text.id_rows import to_lists
from weft.text.specials import END
from weft.text.tokenizer import Tokenizers, learn, load_tokenizers
from weft.text.vocabulary import LearningOptions

TEXTS = ["gehen\t<V><PST>", "the end\t<N>", "\t<N>", "gehen\t", "a b c\t<V>"]
KINDS = {
    "character": LearningOptions(tags=True),
    "word": LearningOptions(),
    "byte": LearningOptions(),
    "bpe": LearningOptions(size=40),
    "unigram": LearningOptions(size=60),
}


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> ColumnTokenizer:
    columns = [column for text in TEXTS for column in text.split("\t")]
    return ColumnTokenizer(learn(request.param, columns, KINDS[request.param]), 2)


def test_ids_are_those_of_the_columns_with_an_end_token_between(tokenizer: ColumnTokenizer) -> None:
    for text, ids in zip(TEXTS, tokenizer.encode_batch(TEXTS), strict=True):
        left, right = text.split("\t")
        assert ids == [*tokenizer.column_tokenizer.encode(left), END, *tokenizer.column_tokenizer.encode(right)]
        assert tokenizer.encode(text) == ids
        assert split_ids([*ids, END]) == split_ids(ids)[: 2 if ids[-1] != END else 1] + [[]] * (ids[-1] == END)
    assert to_lists(tokenizer.encode_arrays(TEXTS)) == tokenizer.encode_batch(TEXTS)
    assert tokenizer.size == tokenizer.column_tokenizer.size and tokenizer.encode_batch([]) == []


def test_decoding_tokens_and_spans(tokenizer: ColumnTokenizer) -> None:
    for text in TEXTS:
        ids = [*tokenizer.encode(text), END]
        decoded, tokens, spans = tokenizer.decode(ids), tokenizer.tokens(ids), tokenizer.spans(ids)
        assert decoded == "\t".join(tokenizer.column_tokenizer.decode(part) for part in split_ids(ids))
        assert len(tokens) == len(spans) == len(ids)
        assert [token == "</s>" for token in tokens] == [id == END for id in ids]
        column = 0
        for id, (start, end) in zip(ids, spans, strict=True):
            assert 0 <= start <= end <= len(decoded) and decoded[:start].count("\t") == column
            assert "\t" not in decoded[start:end]
            column += id == END


@pytest.mark.parametrize("blank", ["", "\t", " \t ", "  ", "\t\t"])
def test_a_blank_source_has_no_ids(blank: str) -> None:
    tokenizer = ColumnTokenizer(learn("word", ["a"]), 2)
    assert tokenizer.encode(blank) == []


def test_the_number_of_columns_is_checked() -> None:
    assert split_columns("a\t\tc", 3) == ["a", "", "c"]
    with pytest.raises(ColumnCountError, match=r"^source 'a': 1 column, expected 2, separated by tabs$"):
        split_columns("a", 2)
    with pytest.raises(ColumnCountError, match=r"^source 'x{40}…': 1 column, expected 3, separated by tabs$"):
        split_columns("x" * 50, 3)


def test_three_columns() -> None:
    tokenizer = ColumnTokenizer(learn("character", ["abc"]), 3)
    assert [tokenizer.tokens([*ids, END]) for ids in tokenizer.encode_batch(["a\tb\tc", "\t\tc"])] == [
        ["a", "</s>", "b", "</s>", "c", "</s>"],
        ["</s>", "</s>", "c", "</s>"],
    ]


def test_dropout_of_merges_in_every_column() -> None:
    tokenizer = ColumnTokenizer(learn("bpe", ["abab cdcd"] * 9, LearningOptions(size=20)), 2)
    whole = tokenizer.encode("abab\tcdcd")
    assert tokenizer.encode_with_dropout("abab\tcdcd", 0.0, Random(1)) == whole
    split = tokenizer.encode_with_dropout("abab\tcdcd", 1.0, Random(1))
    assert len(split) > len(whole) and split.count(END) == 1 and tokenizer.decode(split) == "abab\tcdcd"
    assert tokenizer.encode_with_dropout("\t", 0.5, Random(1)) == []


def test_new_symbols_and_files(tmp_path) -> None:
    plain = learn("character", ["ab"])
    joint = Tokenizers(plain, plain).with_columns(2)
    assert joint.joint and len(joint.save(tmp_path)) == 1 and Tokenizers(plain, plain).with_columns(1).source is plain
    assert not Tokenizers(plain, learn("character", ["ab"])).with_columns(2).joint
    loaded = load_tokenizers([tmp_path / "tokenizer.json"]).with_columns(2)
    assert loaded.source.encode("ab\tb") == joint.source.encode("ab\tb")
    extended = joint.source.extended(["c\td"])
    assert extended.size == plain.size + 2 and extended.decode(extended.encode("c\td")) == "c\td"
    assert extended.description() == plain.description()


def test_features_are_read_as_tags() -> None:
    tokenizer = ColumnTokenizer(learn("character", ["ab<N><ACC(PL;X)>;"], LearningOptions(tags=True)), 2, features=[1])
    ids = tokenizer.encode("ab\tN;ACC(PL;X)")
    assert tokenizer.tokens(ids) == ["a", "b", "</s>", "<N>", "<ACC(PL;X)>"]
    assert tokenizer.encode("ab\t<N><ACC(PL;X)>") == ids and tokenizer.extended([]).encode("ab\tN;ACC(PL;X)") == ids
    assert tokenizer.encode("N;N\t") == [*tokenizer.column_tokenizer.encode("N;N"), END]
    assert tokenizer.encode("a\t;") == [*tokenizer.encode("a\t"), *tokenizer.column_tokenizer.encode(";")]


@pytest.mark.parametrize("joint", [True, False])
def test_tokens_that_no_vocabulary_has_can_be_copied_from_any_column(joint: bool) -> None:
    source = learn("word", ["the cat sees"])
    plain = Tokenizers(source, source if joint else learn("word", ["le chat voit the"]))
    tokenizers, text = plain.with_columns(2), "the Zoe\tKim Zoe"
    own = SentenceIds.of(tokenizers)
    assert own is not None and SentenceIds.of(Tokenizers(learn("byte", ["a"]), source).with_columns(2)) is None
    sizes = source.size, plain.target.size
    ids = own.source(text, tokenizers.source.encode(text))
    zoe, kim = sizes[0] + sizes[1], sizes[0] + sizes[1] + 1
    assert ids == [source.encode("the")[0], zoe, END, kim, zoe]
    assert own.target("Kim the Zoe", plain.target.encode("Kim the Zoe"), text) == [
        sizes[1] + 3,
        plain.target.encode("the")[0],
        sizes[1] + 1,
    ]
    special = plain.target.encode("</s>")
    assert own.target("</s>", special, text) == special
    reading = own.reading(text, [*ids, END])
    assert reading.tokenizers.source.decode(reading.source_ids) == text
    assert reading.tokenizers.source.tokens(reading.source_ids) == ["the", "Zoe", "</s>", "Kim", "Zoe", "</s>"]
    assert reading.tokenizers.target.decode([sizes[1] + 3, sizes[1] + 1]) == "Kim Zoe"
    assert tokenizers.source.symbols("\t") == []


def test_the_same_token_in_both_vocabularies() -> None:
    """For copying: columns change nothing about it."""
    source, target = (learn("bpe", [text] * 9, LearningOptions(size=20)) for text in ("abab cd", "abab dc"))
    plain = Tokenizers(source, target)
    assert target_ids(plain.with_columns(2)) == target_ids(plain) and max(target_ids(plain)) > END
    characters = Tokenizers(learn("character", ["abc"]), learn("character", ["cab"]))
    assert target_ids(characters.with_columns(2)) == target_ids(characters)
