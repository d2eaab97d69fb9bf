"""Registrations: what each lab tests and by which numbers, written down before its result was seen.

PREREGISTERED.md, beside this file, has a section for each lab. A result prints the claim exactly as it is tested
there, and tests/contracts/test_labs.py holds every check of a verdict to the statistics and thresholds of its table.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

FILE = "PREREGISTERED.md"


class Registration(NamedTuple):
    """The section of a lab."""

    claim: str
    tested: str
    """The claim as it is tested here: on which models and data, by which numbers."""
    doubt: str
    """The result that would change our mind."""
    checks: tuple[tuple[str, str], ...]
    """Each statistic, and what is predicted of it."""


def document() -> str:
    """The whole file."""
    return files("weft.apps.labs").joinpath(FILE).read_text("utf-8")


@cache
def registrations() -> dict[str, Registration]:
    """Every registration, by the name of its lab."""
    _, *sections = re.split(r"^## ", document(), flags=re.M)
    return {section.partition("\n")[0].strip(): parse(section) for section in sections}


def parse(section: str) -> Registration:
    """A section: paragraphs that begin with a label in bold, and a table of statistics."""
    labels = ("Claim", "Tested", "Would change our mind")
    texts = (re.search(rf"^\*\*{label}\.\*\* (.+?)(?=\n\n|\Z)", section, flags=re.M | re.S) for label in labels)
    claim, tested, doubt = (" ".join(match[1].split()) if match else "" for match in texts)
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, flags=re.M)
    checks = tuple((what.replace(r"\|", "|"), rule) for what, rule in rows if what != "statistic")
    return Registration(claim, tested, doubt, checks)
