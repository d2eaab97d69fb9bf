"""Writing systems: what comes back from every kind, and what normalization makes of them."""

import unicodedata

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.text.preprocessing import normalizer
from weft.text.specials import UNKNOWN
from weft.text.tokenizer import load

SCRIPTS = {
    "Chinese": "我们喜欢机器翻译，不用空格。",
    "Japanese": "東京タワーはとても高いです。ｶﾞ",
    "Thai": "ฉันชอบแปลภาษาไม่มีช่องว่าง",
    "Arabic": "مرحبا بالعالم، هذا اختبارٌ",
    "Hebrew": "שָׁלוֹם עולם! (בדיקה)",
    "both directions": "he said \u200fשלום\u200e (שלום) 12:30",
    "Devanagari": "हिन्दी में क्षत्रिय ज़्यादा",
    "Korean, composed": "한국어 문장 각각",
    "Korean, decomposed": unicodedata.normalize("NFD", "한국어 문장 각각"),
    "Vietnamese, decomposed": unicodedata.normalize("NFD", "Tiếng Việt rất hay"),
    "Persian, with joiners": "می\u200cخواهم نمی\u200cدانم",
    "emoji": "👩‍👩‍👧 👍🏽 🇫🇷🇩🇪 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 1️⃣",
    "mixed": "I ❤️ 東京 & שלום: café, cafe\u0301 № ① ﬁn ＡＢＣ",
}
CHOICES = {
    "bpe": {},
    "bpe, begin": {"end_of_word": False, "split_punctuation": False},
    "bpe, bytes": {"byte_level": True},
    "bpe, falls back": {"byte_fallback": True},
    "unigram": {},
    "unigram, falls back": {"byte_fallback": True, "end_of_word": False},
    "unigram, symbols": {"symbols": ["<2日>"], "protect": [r"\p{Han}+"]},
    "word": {},
    "word, symbols": {"symbols": ["<2日>"], "protect": [r"\p{Han}+"]},
    "character": {},
    "character, decomposed": {"decompose": True},
    "byte": {},
}
TEXTS = list(SCRIPTS.values())
every_script = pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)


def made(name, **more):
    kind = name.split(",")[0]
    size = 900 if kind in ("bpe", "unigram") else None
    return learn(kind, TEXTS, size=size, **CHOICES[name], **({} if kind == "byte" else more))


KINDS = {name: made(name) for name in CHOICES}


@every_script
@pytest.mark.parametrize("name", CHOICES)
def test_every_script_comes_back(name, text):
    tokenizer = KINDS[name]
    ids = tokenizer.encode(text)
    assert UNKNOWN not in ids
    expected = unicodedata.normalize("NFC", text) if name == "character, decomposed" else text
    assert tokenizer.decode(ids) == expected
    decoded, spans = tokenizer.decode(ids), tokenizer.spans(ids)
    covered = {place for start, end in spans for place in range(start, end)}
    assert spans == sorted(spans) and all(decoded[place] == " " for place in set(range(len(decoded))) - covered)
    assert tokenizer.encode_batch([text]) == [ids]


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_pieces_are_found_without_spaces(name):
    corpus = ["我们喜欢翻译", "他们喜欢翻译", "我们翻译", "喜欢我们"] * 5
    tokenizer = learn(name, corpus, size=40)
    pieces = tokenizer.tokens(range(tokenizer.size))
    assert any(len(piece) > 1 and piece not in ("<unk>", "<s>", "</s>") for piece in pieces)


KNOWN = {  # written out: text, nfc, nfkc, nfkc and lowercase
    "full width": ("ＡＢＣ１", "ＡＢＣ１", "ABC1", "abc1"),
    "ligature": ("ﬁn", "ﬁn", "fin", "fin"),
    "circled": ("① №", "① №", "1 No", "1 no"),
    "accent": ("cafe\u0301", "café", "café", "café"),
    "half-width kana": ("ｶﾞ", "ｶﾞ", "ガ", "ガ"),
    "Korean": ("\u1112\u1161\u11ab", "한", "한", "한"),
    "Devanagari keeps its nukta apart": ("\u095b", "\u091c\u093c", "\u091c\u093c", "\u091c\u093c"),
    "no-break space": ("a\u00a0b", "a\u00a0b", "a b", "a b"),
    "Hebrew presentation form": ("\ufb2a", "\u05e9\u05c1", "\u05e9\u05c1", "\u05e9\u05c1"),
    "Arabic ligature": ("\ufefb", "\ufefb", "لا", "لا"),
    "case": ("ΣΑΣ ÉTÉ", "ΣΑΣ ÉTÉ", "ΣΑΣ ÉTÉ", "σασ été"),
    "dotted i": ("İ", "İ", "İ", "i\u0307"),
    "emoji": ("👩‍👧 🇫🇷", "👩‍👧 🇫🇷", "👩‍👧 🇫🇷", "👩‍👧 🇫🇷"),
}


@pytest.mark.parametrize("case", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("name", [name for name in CHOICES if name not in ("byte", "character, decomposed")])
def test_what_normalization_makes(name, case, tmp_path):
    text, *expected = case
    kind, choices = name.split(",")[0], CHOICES[name]
    forms = [("nfc", False), ("nfkc", False), ("nfkc", True)]
    for (normalize, lowercase), result in zip(forms, expected, strict=True):
        tokenizer = learn(kind, [text, "x"], size=900, **{**choices, "normalize": normalize, "lowercase": lowercase})
        ids = tokenizer.encode(text)
        assert UNKNOWN not in ids
        wanted = " ".join(result.split()) if kind == "word" else result
        assert tokenizer.decode(ids) == wanted and tokenizer.encode(result) == ids
        named = normalize + ", lowercase" * lowercase
        assert tokenizer.description()[0] == f"normalization: {named}"
        tokenizer.save(tmp_path / "t.json")
        loaded = load(tmp_path / "t.json")
        assert loaded.encode(text) == ids and loaded.description() == tokenizer.description()
        if kind in ("bpe", "unigram"):
            assert tokenizers.Tokenizer.from_file(str(tmp_path / "t.json")).encode(text).ids == ids


@settings(max_examples=200)
@given(st.text())
def test_normalization_is_unicodes(text):
    """For characters of Unicode 3.2: those that came later are not in every version of the tables."""
    known = "".join(character for character in text if unicodedata.ucd_3_2_0.category(character) != "Cn")
    for form in ("nfc", "nfkc"):
        assert normalizer(form, False)(known) == unicodedata.normalize(form.upper(), known)
    lower = normalizer("none", True)
    assert lower(known) == "".join(map(lower, known)), "letter by letter"


def test_marks_of_spaces_are_made_after_normalization():
    """A no-break space that becomes a space separates words."""
    tokenizer = learn("bpe", ["a b a b"] * 3, size=20, normalize="nfkc")
    assert tokenizer.encode("a\u00a0b") == tokenizer.encode("a b")
    assert learn("word", ["a b"], normalize="nfkc").encode("ａ\u3000b") == learn("word", ["a b"]).encode("a b")


def test_symbols_are_found_before_normalization():
    for kind in ("bpe", "unigram", "word", "character"):
        tokenizer = learn(kind, ["<A>x X ＜", "<a> >"], size=40, symbols=["<A>"], normalize="nfkc", lowercase=True)
        assert tokenizer.decode(tokenizer.encode("<A>X")) == "<A>x"
        assert 3 not in tokenizer.encode("＜A＞ <a>"), "text that only looks like it afterwards"
