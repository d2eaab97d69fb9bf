"""Templates: filled in as `str.format` does. What is refused: test_corpora.py."""

from weft.data.reading.templates import Template


def test_templates_against_format() -> None:
    values = {"a": "{b}", "b": "}{", "c d": "1"}
    for text in ("", "x", "{a}", "{{{a}}}", "{a}{b}{a}", "{{}}{c d}\n", "é{b}}}"):
        assert Template.parse(text).fill(values) == text.format(**values)
