"""Writes the equations of Markdown pages as MathML, which browsers draw themselves: no script, nothing loaded.

In the repository an equation is LaTeX, in the two forms that GitHub and Jupyter show: a fenced block of the language
``math``, and ``$…$`` within a line.
"""

from __future__ import annotations

import re

from latex2mathml.converter import convert

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.M | re.S)
IN_LINE = re.compile(r"(`[^`\n]*`)|\$([^$\n]+)\$")
"""Code, which is left as it is, or an equation."""


FUNCTION = re.compile(r"(<mi>(?:cos|exp|ln|log|sin)</mi>|<msub><mi>log</mi><m\w>\w</m\w></msub>)(?!<m?row><mo|<mo)")
"""The name of a function before an argument without parentheses: the converter leaves no space between them."""


def mathml(latex: str, display: str) -> str:
    return FUNCTION.sub(r'\1<mspace width="0.17em" />', convert(latex, display=display))


def displayed(latex: str) -> str:
    """Displayed equations. Those with a ``\\qquad`` between them stand side by side if there is space."""
    parts = re.split(r"(?:\\qquad\s*)+", " ".join(latex.split()))
    return f'<div class="equation">{"".join(mathml(part, "block") for part in parts)}</div>'


def in_line(latex: str) -> str:
    return f'<span class="equation">{mathml(latex, "inline")}</span>'


def with_mathml(page: str) -> str:
    """A page with its equations as MathML; other code blocks and code within lines stay as they are."""
    parts, end = [], 0
    for fence in FENCE.finditer(page):
        parts.append(_prose(page[end : fence.start()]))
        parts.append(displayed(fence[2]) if fence[1] == "math" else fence[0])
        end = fence.end()
    return "".join((*parts, _prose(page[end:])))


def _prose(text: str) -> str:
    return IN_LINE.sub(lambda match: match[1] or in_line(match[2]), text)
