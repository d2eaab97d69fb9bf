"""The options of ``weft translate`` for a glossary and a translation memory, and what is said of them at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weft.errors import DataError, plural, warn
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.data.reading.glossary import Glossary
    from weft.data.reading.translation_memory import TranslationMemory
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        help="Terms to use: lines of a source term, tab, target term (variants: a|b); without a target, it is kept.",
    ),
]
MemoryFile = Annotated[
    Path | None,
    typer.Option(
        "--memory",
        help="Pairs translated before (TSV): sources among them get their target; --json lists the most similar.",
    ),
]


class TermsAndMemory(NamedTuple):
    """A glossary and a translation memory, as read."""

    glossary: Glossary | None = None
    memory: TranslationMemory | None = None

    @classmethod
    def read(cls, glossary: Path | None, memory: Path | None, ray: str | None) -> TermsAndMemory:
        """The files of the options."""
        for option, path in (("--glossary", glossary), ("--memory", memory)):
            if path is not None and ray is not None:
                raise DataError(f"{option}: cannot be used with --ray; translate parts of the file with --part")
        terms = pairs = None
        if glossary is not None:
            from weft.data.reading.glossary import Glossary

            terms = Glossary.read(glossary)
        if memory is not None:
            from weft.data.reading.translation_memory import TranslationMemory

            with activity(f"reading {memory}"):
                pairs = TranslationMemory.read(memory)
        return cls(terms, pairs)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `Translator.translate`."""
        given = {"glossary": self.glossary, "translation_memory": self.memory}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that must be the same when an output is resumed."""
        glossary = {} if self.glossary is None else {"--glossary": self.glossary.digest}
        return glossary if self.memory is None else {**glossary, "--memory": self.memory.digest}

    def check(self, model: Translator) -> None:
        """Fail on a memory that does not fit a model."""
        if self.memory is not None and model.source_columns > 1:
            raise DataError(f"--memory: its sources have one column, those of this run {model.source_columns}")
        if self.memory is None and model.recipe.data.fuzzy.file is not None:
            warn("this run was trained with similar translations (data.fuzzy); give it some: --memory pairs.tsv")


class TermCounts:
    """Outputs of a command that have terms, or lack one, and that are from the memory."""

    def __init__(self, known: TermsAndMemory) -> None:
        self.known = known
        self.outputs = self.with_terms = self.lacking = self.equal = self.similar = 0

    def add(self, translations: Iterable[Translation]) -> None:
        if not self.known.options:
            return
        for output in translations:
            self.outputs += 1
            self.with_terms += bool(output.terms)
            self.lacking += "term-missing" in output.flags
            is_equal = bool(output.memory) and output.memory[0].exact
            self.equal += is_equal
            self.similar += bool(output.memory) and not is_equal

    def report(self) -> None:
        """Print the counts to stderr."""
        glossary, memory = self.known
        if glossary is not None:
            placed = f"{self.with_terms:,} of {plural(self.outputs, 'output')} have terms"
            lacking = f"{self.lacking:,} of these {'lacks' if self.lacking == 1 else 'lack'} one"
            print(f"weft: glossary of {plural(len(glossary), 'term')}: {placed}, {lacking}", file=sys.stderr)
        if memory is not None:
            taken = f"{self.equal:,} of {plural(self.outputs, 'output')} are from it"
            similar = f"{self.similar:,} have similar pairs"
            print(f"weft: memory of {plural(len(memory), 'source')}: {taken}, {similar}", file=sys.stderr)
