"""What the tests of corpora share: all rows of one, and what it says where it cannot be read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from weft.data.corpora import Corpus, read
from weft.data.pairs import Pair, Problem
from weft.errors import DataError


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def rows(corpus: Corpus) -> list[tuple[int, Pair | Problem]]:
    blocks = [pickle.loads(pickle.dumps(block)) for block in corpus.blocks()]
    return [row for block in blocks for row in block.rows()]


def failure(make: Any) -> str:
    with pytest.raises(DataError) as caught:
        list(make() if callable(make) else read(make))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def the_problem(corpus: Corpus, number: int = 1) -> tuple[str, str]:
    """The kind and the message, without the place, of the one problem of a corpus."""
    ((found, problem),) = [row for row in rows(corpus) if isinstance(row[1], Problem)]
    assert isinstance(problem, Problem) and found == number and "\n" not in problem.message
    place = f":{number}: "
    assert place in problem.message
    return problem.kind, problem.message.split(place, 1)[1]
