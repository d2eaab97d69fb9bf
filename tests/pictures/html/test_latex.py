"""Formulas as MathML: known answers, and what happens to ill-formed, hostile and deep input."""

import time
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.pictures.html.latex import MAX_CHARACTERS, MAX_DEPTH, STRUCTURES, _Parser, formula, mathml
from weft.pictures.html.latex_symbols import (
    ACCENTS,
    ALPHABETS,
    FUNCTIONS,
    INTEGRALS,
    LARGE,
    LETTERS,
    LIMITS,
    MATRICES,
    OPERATORS,
    TEXTS,
    UNDER,
    UPRIGHT,
)

ALLOWED = {"math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd"}
ALLOWED |= {"msub", "msup", "msubsup", "munder", "mover", "munderover"}
ATTRIBUTES = {"alttext", "displaystyle", "width", "accent", "mathvariant", "linethickness", "fence", "stretchy"}
ATTRIBUTES |= {"columnalign"}


def inner(latex: str) -> str:
    rendered = mathml(latex)
    assert rendered is not None, latex
    return rendered.partition(">")[2].removesuffix("</math>")


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x", "<mi>x</mi>"),
        ("1 2 . 5", "<mn>12.5</mn>"),
        ("1 . 2 . 3", "<mrow><mn>1.2</mn><mo>.</mo><mn>3</mn></mrow>"),
        ("$a-b$", "<mrow><mi>a</mi><mo>−</mo><mi>b</mi></mrow>"),
        ("x _ 1 ^ { 2 }", "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>"),
        ("x^12", "<mrow><msup><mi>x</mi><mn>1</mn></msup><mn>2</mn></mrow>"),
        ("x '' ^ 2", "<msup><mi>x</mi><mrow><mo>′</mo><mo>′</mo><mn>2</mn></mrow></msup>"),
        (r"\frac 1 { 2 }", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
        (r"\sqrt [ 3 ] x", "<mroot><mi>x</mi><mn>3</mn></mroot>"),
        (r"\sqrt \pi", "<msqrt><mi>π</mi></msqrt>"),
        (r"\sum _ { i } ^ n", "<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover>"),
        (r"\int _ 0 ^ 1", "<msubsup><mo>∫</mo><mn>0</mn><mn>1</mn></msubsup>"),
        (r"\int \limits _ 0", "<munder><mo>∫</mo><mn>0</mn></munder>"),
        (r"\sum \nolimits _ 0", "<msub><mo>∑</mo><mn>0</mn></msub>"),
        (r"\lim _ x", "<munder><mi>lim</mi><mi>x</mi></munder>"),
        (r"\hat { a }", '<mover accent="true"><mi>a</mi><mo>^</mo></mover>'),
        (r"\text {if } a", "<mrow><mtext>if </mtext><mi>a</mi></mrow>"),
        (r"\mathbb R \mathbb { 1 }", "<mrow><mi>ℝ</mi><mrow><mi>𝟙</mi></mrow></mrow>"),
        (r"\mathcal { A F }", "<mrow><mi>𝒜</mi><mi>ℱ</mi></mrow>"),
        (r"\not =", "<mo>=\u0338</mo>"),
        (r"a < b", "<mrow><mi>a</mi><mo>&lt;</mo><mi>b</mi></mrow>"),
        (
            r"( x \rangle",
            '<mrow><mo stretchy="false">(</mo><mi>x</mi><mo stretchy="false">⟩</mo></mrow>',
        ),
        (
            r"\left ( x \right .",
            '<mrow><mo fence="true" stretchy="true">(</mo><mi>x</mi></mrow>',
        ),
        (
            r"\begin{matrix} a & b \\ c \end{matrix}",
            "<mrow><mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd></mtr></mtable>"
            "</mrow>",
        ),
        (r"_ 2 x", "<mrow><msub><mrow></mrow><mn>2</mn></msub><mi>x</mi></mrow>"),
    ],
)
def test_known_answers(latex, expected):
    assert inner(latex) == expected


@pytest.mark.parametrize(
    "latex",
    [
        *(
            "",
            "  ",
            "$$",
            "{",
            "}",
            "a }",
            r"\frac 1",
            r"\frac { 1 } {",
            "x ^",
            "x _ }",
            "x ^ 1 ^ 2",
            "x ^ _ 2",
            "a & b",
        ),
        *(
            r"a \\ b",
            r"\right )",
            r"\left ( a",
            r"\left ( a }",
            r"\left q a \right )",
            r"\sqrt [ 3",
            r"\sqrt ]",
            "100 %",
        ),
        *(
            r"\begin { matrix } a",
            r"\begin{matrix} a \end{pmatrix}",
            r"\begin{tikzpicture} \end{tikzpicture}",
            r"\end{}",
        ),
        *(r"\unknown", "\\", r"\text { {a} }", r"\text { \frac }", r"\text { a", r"\mathrm x", r"\not \frac", "# 1"),
        *(r"\href{javascript:alert(1)}{x}", r"\url{x}", r"\input{/etc/passwd}", r"\def\a{\a\a}\a", r"\write18{ls}"),
        *(r"\begin", r"\not", r"\left", r"\class{a}{b}", r"\frac_", r"\__class__"),
    ],
)
def test_what_cannot_be_read_is_shown_as_text(latex):
    assert mathml(latex) is None
    assert formula(latex).startswith("<bdi" if latex.strip() else "<span")


def test_texts_are_escaped():
    for latex in (
        "<script>alert(1)</script>",
        r"\text{<b onclick='x'>}",
        r"\unknown <img src=x onerror=y>",
        'a"b&amp;\\',
    ):
        assert "<script" not in formula(latex) and "<b" not in formula(latex).replace("<bdi", "")
        assert "<img" not in formula(latex)
    assert 'alttext="a &quot;"' in str(mathml('a "'))


@pytest.mark.parametrize(
    "opening", ["{", r"\frac{", r"\sqrt", r"\hat ", r"\left(", "x^{", r"\begin{matrix}", r"\frac 1 "]
)
def test_deep_formulas(opening):
    for count in (MAX_DEPTH + 1, 700):
        assert mathml(opening * count + "x" + "}" * count) is None
        assert mathml(opening * count) is None
    assert mathml("{" * (MAX_DEPTH - 2) + "x" + "}" * (MAX_DEPTH - 2)) is not None


def test_long_formulas():
    assert mathml("x" * MAX_CHARACTERS) is not None and mathml("x" * (MAX_CHARACTERS + 1)) is None
    started = time.process_time()
    for part in ("1 ", "1.", "x'", "{}", r"\, ", "x_1^2 "):
        mathml(part * (MAX_CHARACTERS // len(part)))
    assert time.process_time() - started < 20, "no formula takes time that grows with its square"


WORDS = [
    *"{}{}{}[]^_&'12.x+-=()| ",
    r"\\",
    r"\left",
    r"\right",
    r"\begin{matrix}",
    r"\end{matrix}",
    r"\limits",
    "<",
    '"',
]
WORDS += [f"\\{name}" for name in (*STRUCTURES, "sum", "text", "mathbb", "hat", "lim", "alpha", "quad", "underline")]


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join) | st.text(max_size=40))
def test_every_input_gives_well_formed_markup_of_known_elements(latex):
    rendered = mathml(latex)
    shown = str(formula(latex))
    root = ET.fromstring(shown)
    if rendered is not None:
        assert {part.tag for part in root.iter()} <= ALLOWED
        assert {name for part in root.iter() for name in part.attrib} <= ATTRIBUTES
        counts = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
        assert all(len(part) == counts.get(part.tag, len(part)) for part in root.iter())


def test_every_command_can_be_used():
    for name in (*LETTERS, *OPERATORS, *LARGE, *INTEGRALS, *FUNCTIONS, *LIMITS):
        assert mathml(f"a \\{name} b") is not None, name
    for name in (*ACCENTS, *UNDER, *TEXTS, *UPRIGHT, *ALPHABETS):
        assert mathml(f"\\{name} {{ a }}") is not None, name
    for name in MATRICES:
        arguments = "{cc}" if name == "array" else ""
        assert mathml(rf"\begin{{{name}}}{arguments} a & b \\ c & d \end{{{name}}}") is not None, name
    assert all(hasattr(_Parser, f"_{name}") for name in STRUCTURES)
