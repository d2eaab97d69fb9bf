"""M2 files: sentences with the corrections of one or several annotators, the format of grammatical error correction.

    S The cat sat at mat .
    A 3 4|||Prep|||on|||REQUIRED|||-NONE-|||0
    A 4 4|||ArtOrDet|||the||a|||REQUIRED|||-NONE-|||0

An ``S`` line has the words of a sentence, separated by spaces. Every ``A`` line below it is an edit: from which word to
which, the type, the corrections (``||`` between alternatives; empty or ``-NONE-`` deletes), two fields that are not
used here, and the annotator. An annotator who leaves the sentence as it is has an edit of the type ``noop``; a sentence
without edits has one such annotator. Sentences are separated by blank lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weft.data.reading.lines import read_lines
from weft.errors import DataError
from weft.evaluation.max_match import Edit


class M2Sentence(NamedTuple):
    """A sentence and the gold edits of each annotator, by the number of the annotator."""

    source: str
    annotators: dict[int, list[Edit]]

    @property
    def references(self) -> list[str]:
        """The sentence as each annotator corrects it, by the first of alternatives."""
        return [self._corrected(edits) for edits in self.annotators.values()]

    def _corrected(self, edits: list[Edit]) -> str:
        words = self.source.split()
        from_left = sorted(edits, key=lambda edit: (edit.start, edit.end))  # insertions at one place keep their order
        for edit in from_left[::-1]:
            words[edit.start : edit.end] = edit.corrections[0]
        return " ".join(words)


def is_m2(name: object) -> bool:
    """Whether this is the name of an M2 file."""
    return isinstance(name, Path | str) and Path(name).suffix == ".m2"


def read_m2(path: Path | str) -> list[M2Sentence]:
    """The sentences of a file, at least one."""
    sentences: list[M2Sentence] = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}:{number}"
        if line == "S" or line.startswith("S "):  # an empty sentence may have lost its space
            sentences.append(M2Sentence(" ".join(line[2:].split()), {}))
        elif line.startswith("A "):
            if not sentences:
                raise DataError(f"{where}: an edit before the first sentence; expected a line that begins with S")
            annotator, edit = _parse_edit(line[2:], where, words=len(sentences[-1].source.split()))
            edits = sentences[-1].annotators.setdefault(annotator, [])
            edits += [] if edit is None else [edit]
        elif line.strip():
            raise DataError(f"{where}: {line[:20]!r} does not begin a line of an M2 file; expected 'S ' or 'A '")
    if not sentences:
        raise DataError(f"{path}: no sentences; expected lines that begin with S")
    return [sentence if sentence.annotators else sentence._replace(annotators={0: []}) for sentence in sentences]


def _parse_edit(line: str, where: str, *, words: int) -> tuple[int, Edit | None]:
    """The annotator and the edit of an ``A`` line; None if it says that there is none."""
    fields = line.split("|||")
    try:
        start, end = map(int, fields[0].split())
        annotator = int(fields[5])
    except (ValueError, IndexError):
        message = "expected A START END|||TYPE|||CORRECTION|||REQUIRED|||COMMENT|||ANNOTATOR"
        raise DataError(f"{where}: not an edit; {message}") from None
    if fields[1] == "noop" or (start, end) == (-1, -1):
        return annotator, None
    if not 0 <= start <= end <= words:
        raise DataError(f"{where}: an edit of the words {start} to {end}; the sentence has {words} words")
    texts = ["" if text == "-NONE-" else text for text in fields[2].split("||")]
    return annotator, Edit(start, end, tuple(tuple(text.split()) for text in texts))
