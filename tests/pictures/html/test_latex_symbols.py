import unicodedata

import pytest

from weft.pictures.html.latex_symbols import ALPHABETS, EARLIER, LARGE, LETTERS, OPERATORS, in_alphabet


def test_alphabets_are_those_of_unicode():
    """Compatibility normalization gives back the letter, and the name of each says its alphabet."""
    kinds = {"mathbf": "BOLD", "boldsymbol": "BOLD", "mathbb": "DOUBLE-STRUCK", "mathcal": "SCRIPT"}
    kinds |= {"mathscr": "SCRIPT", "mathfrak": "FRAKTUR", "mathsf": "SANS-SERIF", "mathtt": "MONOSPACE"}
    for name, (_, _, digits) in ALPHABETS.items():
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + ("0123456789" if digits else ""):
            symbol = in_alphabet(name, letter)
            assert unicodedata.normalize("NFKC", symbol) == letter and symbol != letter, (name, letter)
            assert kinds[name] in unicodedata.name(symbol) or "BLACK-LETTER" in unicodedata.name(symbol)


@pytest.mark.parametrize("text", ["é", "+", "", "ab", "0"])
def test_other_characters_stay(text):
    assert in_alphabet("mathcal", text) == text


def test_symbols_are_single_characters():
    for table in (LETTERS, OPERATORS, LARGE, EARLIER):
        assert all(len(symbol) == 1 for symbol in table.values())
