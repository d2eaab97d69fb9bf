"""Templates for prompts: text with names in braces, ``{instruction}``; ``{{`` and ``}}`` are braces.

Nothing else means anything: no formats, no attributes, no code. What is filled in is never looked at for braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weft.errors import DataError

_PARTS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


@dataclass(frozen=True, slots=True)
class Template:
    """Texts and names in turn, beginning and ending with a text."""

    texts: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def read(cls, template: str) -> Template:
        """A template from its text; a brace out of place is an error."""
        texts, names = [""], []
        for found in _PARTS.finditer(template):
            part, name = found[0], found[1]
            if part in ("{{", "}}"):
                texts[-1] += part[0]
            elif name is not None:
                if not name.strip() or name.isdecimal() or any(mark in name for mark in "!:[]\n\r"):
                    raise DataError(f"template: {part!r} names no column; write {{name}}, or {{{{ for a brace")
                names.append(name)
                texts.append("")
            elif part in ("{", "}"):
                raise DataError(f"template: a single {part!r} at character {found.start() + 1}; write {part * 2!r}")
            else:
                texts[-1] += part
        return cls(tuple(texts), tuple(names))

    def fill(self, values: Mapping[str, str]) -> str:
        """The template with a value for each name."""
        found = [self.texts[0]]
        for name, text in zip(self.names, self.texts[1:], strict=True):
            found += values[name], text
        return "".join(found)
