"""Templates for prompts: text with names in braces, ``{instruction}``; ``{{`` and ``}}`` are braces.

There are no format specifications, attributes or code. Braces in the values filled in are plain text.
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
    def parse(cls, template: str) -> Template:
        """A template from its text; a misplaced brace is an error."""
        texts, names = [""], []
        for match in _PARTS.finditer(template):
            part, name = match[0], match[1]
            if part in ("{{", "}}"):
                texts[-1] += part[0]
            elif name is not None:
                if not name.strip() or name.isdecimal() or any(character in name for character in "!:[]\n\r"):
                    raise DataError(f"template: {part!r} names no column; write {{name}}, or {{{{ for a brace")
                names.append(name)
                texts.append("")
            elif part in ("{", "}"):
                raise DataError(f"template: a single {part!r} at character {match.start() + 1}; write {part * 2!r}")
            else:
                texts[-1] += part
        return cls(tuple(texts), tuple(names))

    def fill(self, values: Mapping[str, str]) -> str:
        """The template with a value for each name."""
        parts = [self.texts[0]]
        for name, text in zip(self.names, self.texts[1:], strict=True):
            parts += values[name], text
        return "".join(parts)
