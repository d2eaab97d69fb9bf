"""[tokenizer]: wrong values are refused in one line."""

import pytest

from weft.errors import RecipeError
from weft.recipe import make_recipe


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"dropout": 0.1, "kind": "word"}, "tokenizer.dropout: only merges of bpe can be left out"),
        ({"dropout": 1.0}, "tokenizer.dropout: 1.0 was given"),
        ({"sample": 0}, "tokenizer.sample: 0 was given"),
        ({"variants": 0}, "tokenizer.variants: 0 was given"),
        ({"symbols": [""]}, "tokenizer.symbols.0: '' was given"),
        ({"file": "t.json", "joint": False}, "tokenizer.joint: false needs two tokenizers"),
        ({"target_file": "t.json"}, "tokenizer.target_file: needs tokenizer.file beside it"),
    ],
)
def test_a_wrong_tokenizer_is_one_line(tokenizer, message):
    with pytest.raises(RecipeError) as caught:
        make_recipe({"tokenizer": tokenizer})
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
