"""Regular expressions with a time limit: the same results as `re`, wherever they are matched."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text import expressions, isolation

TEXTS = st.lists(st.text("ab1 é\n\0", max_size=8), max_size=4)
EXPRESSIONS = ["a", "[ab]1", "^a", r"\d$", "a+b", r"(a)(b)?", r"\ba|é", "(?<!a)b", r"(.)\1", "x*"]


@given(st.sampled_from(EXPRESSIONS), TEXTS)
def test_the_same_as_re(expression, texts):
    assert expressions.search(expression, texts) == [re.search(expression, text) is not None for text in texts]
    assert expressions.replace(expression, r"<\g<0>>", texts) == [
        re.sub(expression, r"<\g<0>>", text) for text in texts
    ]


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|aa)+$", "(.*)*b", r"(a*)*\1c"])
def test_what_takes_too_long_ends_with_the_text(expression, monkeypatch):
    monkeypatch.setattr(isolation, "CPU_SECONDS", 0.1)
    texts = ["fine"] * 300 + ["a" * 60 + "!", "b"]
    with pytest.raises(expressions.SlowExpressionError, match=r"^took more than 0.1 seconds$") as caught:
        expressions.search(expression, texts)
    assert caught.value.text == texts[300]
    assert expressions.search(expression, ["b"]) == [re.search(expression, "b") is not None]


EMPTY_CHOICES = "((?=)|(?!x))" * 40 + "(?!)"
"""Takes 2^40 steps even in an empty text."""


def test_replacements_are_checked_without_matching():
    expressions.check_replacement(re.compile(EMPTY_CHOICES), r"\40\g<0>")
    expressions.check_replacement(re.compile(r"(a)(?P<b>c)"), r"\g<b>\1")
    for replacement in (r"\3", r"\g<c>", "\\"):
        with pytest.raises((re.error, IndexError)):
            expressions.check_replacement(re.compile(r"(a)(?P<b>c)"), replacement)
