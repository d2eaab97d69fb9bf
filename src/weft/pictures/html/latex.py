"""Formulas in LaTeX as MathML, which browsers draw themselves: no script, no font, nothing loaded.

The commands are those of corpora of formulas: fractions, roots, scripts, Greek letters, operators, sums and integrals
with their limits, accents, fences, matrices, text. Nothing is guessed: a formula that is ill-formed, nested too deeply
or has an unknown command is shown as text, escaped like every other text. Formulas may be tokenized, with a space
between any two tokens; a number is a run of digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.pictures.html.elements import Content, Html, data_text, element, join
from weft.pictures.html.latex_symbols import (
    ACCENTS,
    ALPHABETS,
    FUNCTIONS,
    IGNORED,
    INTEGRALS,
    LARGE,
    LETTERS,
    LIMITS,
    MATRICES,
    OPERATORS,
    SPACES,
    TEXTS,
    UNDER,
    UPRIGHT,
    in_alphabet,
)

MAX_CHARACTERS = 5_000
"""A longer formula is shown as text."""
MAX_DEPTH = 30
"""Groups within each other; a deeper formula is shown as text."""
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
FENCES = "()[]{}|/‖⟨⟩⌊⌋⌈⌉⌜⌝"
_ENDS = frozenset({"}", "&", r"\\", r"\right", r"\end", "]", ""})
"""Tokens at which a row may end; ``]`` only in the degree of a root."""


class _IllFormedError(Exception):
    """A formula that cannot be read."""


def has_latex(tokens: Iterable[str]) -> bool:
    """Whether texts of this vocabulary are formulas: it has commands or, of characters, a backslash."""
    return any(token.startswith("\\") for token in tokens)


def formula(latex: str) -> Html:
    """The formula as MathML, or the text if it cannot be read."""
    rendered = mathml(latex)
    return data_text(latex) if rendered is None else rendered


def mathml(latex: str) -> Html | None:
    """The formula as a ``math`` element; None if it is ill-formed, too long or has an unknown command."""
    if len(latex) > MAX_CHARACTERS or not latex.strip():
        return None
    text = latex.strip()
    for mark in ("$$", "$"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            text = text.removeprefix(mark).removesuffix(mark)
    try:
        parser = _Parser(_TOKEN.findall(text))
        content = parser.row(frozenset({""}))
    except _IllFormedError:
        return None
    return element("math", content, alttext=latex.strip(), displaystyle="true")


class _Parser:
    """Reads tokens from left to right, one level of recursion for each group."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.position, self.depth = tokens, 0, 0

    def row(self, ends: frozenset[str]) -> Html:
        """Items up to one of these tokens, which is not taken."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _IllFormedError
        items: list[Content] = []
        while (token := self.peek()) not in ends:
            if token in _ENDS and token != "]":
                raise _IllFormedError
            items.append(self.item())
        self.depth -= 1
        return element("mrow", join(items)) if len(items) != 1 else Html(items[0])

    def peek(self) -> str:
        """The next token that is no space; empty at the end."""
        while self.position < len(self.tokens) and self.tokens[self.position].isspace():
            self.position += 1
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise _IllFormedError
        self.position += 1
        return token

    def item(self) -> Html:
        """A part with its subscript and superscript."""
        start = self.peek()
        name = start.removeprefix("\\")
        base = Html("<mrow></mrow>") if start in ("_", "^") else self.part()
        has_limits = start.startswith("\\") and (name in LARGE or name in LIMITS)
        while self.peek() in (r"\limits", r"\nolimits"):
            has_limits = self.take() == r"\limits"
        below: Html | None = None
        above: Html | None = None
        primes = Html("")
        while (mark := self.peek()) in ("_", "^", "'"):
            self.take()
            if mark == "_" and below is None:
                below = self.argument()
            elif mark == "^" and above is None:
                above = self.argument()
            elif mark == "'":
                primes = Html(f"{primes}{element('mo', '′')}")
            else:
                raise _IllFormedError  # a second script of its kind
        if primes:
            above = element("mrow", primes, above or "")
        names = ("munder", "mover", "munderover") if has_limits else ("msub", "msup", "msubsup")
        if below is not None and above is not None:
            return element(names[2], base, below, above)
        if below is not None:
            return element(names[0], base, below)
        return base if above is None else element(names[1], base, above)

    def argument(self) -> Html:
        """A group in braces, or a single part."""
        if self.peek() in _ENDS | {"_", "^", "'"}:
            raise _IllFormedError
        return self.group() if self.peek() == "{" else self.part(is_argument=True)

    def group(self) -> Html:
        self.take("{")
        content = self.row(frozenset({"}"}))
        self.take("}")
        return content

    def part(self, *, is_argument: bool = False) -> Html:
        """A symbol, a number, a group, or a command with its arguments."""
        token = self.peek()
        if token == "{":
            return self.group()
        token = self.take()
        if token.startswith("\\"):
            self.depth += 1  # commands can be nested without braces
            if self.depth > MAX_DEPTH:
                raise _IllFormedError
            content = self.command(token[1:])
            self.depth -= 1
            return content
        if token in ("}", "&", "%", "#", "$"):
            raise _IllFormedError
        if token.isdigit():
            while not is_argument and (self.peek().isdigit() or self._has_decimals(token)):
                token += self.take()
            return element("mn", token)
        if token == "~":
            return element("mspace", width=SPACES["~"])
        return element("mi", token) if token.isalpha() else _operator({"-": "−", "*": "∗"}.get(token, token))

    def _has_decimals(self, number: str) -> bool:
        """Whether a point follows, and a digit after it."""
        following = next((token for token in self.tokens[self.position + 1 :] if not token.isspace()), "")
        return self.peek() == "." and "." not in number and following.isdigit()

    def command(self, name: str) -> Html:
        for table, kind in ((LETTERS, "mi"), (OPERATORS, "mo"), (LARGE, "mo"), (INTEGRALS, "mo")):
            if name in table:
                return _operator(table[name]) if kind == "mo" else element(kind, table[name])
        if name in FUNCTIONS or name in LIMITS:
            return element("mi", name)
        if name in SPACES:
            return element("mspace", width=SPACES[name])
        if name in IGNORED:
            return Html("<mrow></mrow>")
        if name in ACCENTS:
            return element("mover", self.argument(), element("mo", ACCENTS[name]), accent="true")
        if name in UNDER:
            return element("munder", self.argument(), element("mo", UNDER[name]))
        if name in TEXTS:
            return element("mtext", self.text())
        if name in UPRIGHT:
            return element("mi", self.text(), mathvariant="normal")
        if name in ALPHABETS:
            return self.alphabet(name)
        structure = getattr(self, f"_{name}", None) if name in STRUCTURES else None
        if structure is None:
            raise _IllFormedError
        content: Html = structure()
        return content

    def text(self) -> str:
        """The characters of a group without structure; spaces count."""
        self.take("{")
        start = self.position
        while self.position < len(self.tokens) and self.tokens[self.position] != "}":
            token = self.tokens[self.position]
            if token == "{" or (token.startswith("\\") and len(token) > 2):
                raise _IllFormedError
            self.position += 1
        content = "".join(token.removeprefix("\\") for token in self.tokens[start : self.position])
        self.take("}")
        return content if content.strip() else "\N{NO-BREAK SPACE}"

    def alphabet(self, name: str) -> Html:
        """Letters and digits in an alphabet, one by one."""
        if self.peek() != "{":
            return element("mi", in_alphabet(name, self.take()))
        return element("mrow", *(element("mi", in_alphabet(name, letter)) for letter in self.text() if letter.strip()))

    def _frac(self) -> Html:
        return element("mfrac", self.argument(), self.argument())

    _dfrac = _tfrac = _cfrac = _frac

    def _binom(self) -> Html:
        numbers = element("mfrac", self.argument(), self.argument(), linethickness="0")
        return element("mrow", element("mo", "("), numbers, element("mo", ")"))

    def _sqrt(self) -> Html:
        if self.peek() != "[":
            return element("msqrt", self.argument())
        self.take("[")
        degree = self.row(frozenset({"]"}))
        self.take("]")
        return element("mroot", self.argument(), degree)

    def _overset(self) -> Html:
        above, base = self.argument(), self.argument()
        return element("mover", base, above)

    _stackrel = _overset

    def _underset(self) -> Html:
        below, base = self.argument(), self.argument()
        return element("munder", base, below)

    def _not(self) -> Html:
        token = self.take()
        symbol = OPERATORS.get(token[1:], "") if token.startswith("\\") else token
        if len(symbol) != 1 or symbol in "{}&":
            raise _IllFormedError
        return element("mo", f"{symbol}\u0338")

    def _left(self) -> Html:
        opening = self.fence()
        parts: list[Content] = [self.row(frozenset({r"\right"}))]
        self.take(r"\right")
        return element("mrow", opening, *parts, self.fence())

    def fence(self) -> Html:
        """The fence after ``\\left`` or ``\\right``; a dot is none."""
        token = self.take()
        symbol = OPERATORS.get(token[1:], "") if token.startswith("\\") else token
        if not symbol or (not token.startswith("\\") and symbol not in "()[]|/.<>"):
            raise _IllFormedError
        symbol = {".": "", "<": "⟨", ">": "⟩"}.get(symbol, symbol)
        return element("mo", symbol, fence="true", stretchy="true") if symbol else Html("")

    def _begin(self) -> Html:
        name = self.text()
        kind = name.removesuffix("*")
        if kind not in MATRICES:
            raise _IllFormedError
        if kind == "array":
            self.text()  # the alignment of its columns
        rows: list[list[Html]] = [[]]
        cell_ends = frozenset({"&", r"\\", r"\end"})
        while True:
            rows[-1].append(element("mtd", self.row(cell_ends)))
            end = self.take()
            if end == r"\end":
                break
            if end == r"\\":
                rows.append([])
        if self.text() != name:
            raise _IllFormedError
        alignment = "left" if kind == "cases" else None
        body = element("mtable", *(element("mtr", *cells) for cells in rows), columnalign=alignment)
        before, after = (element("mo", mark, fence="true", stretchy="true") if mark else "" for mark in MATRICES[kind])
        return element("mrow", before, body, after)


def _operator(symbol: str) -> Html:
    """An operator; a fence is as high as a letter unless it follows ``\\left`` or ``\\right``."""
    return element("mo", symbol, stretchy="false" if symbol in FENCES else None)


STRUCTURES = frozenset(
    ("frac", "dfrac", "tfrac", "cfrac", "binom", "sqrt", "overset", "stackrel", "underset", "not", "left", "begin")
)
"""Commands with arguments, which are methods of the parser."""
