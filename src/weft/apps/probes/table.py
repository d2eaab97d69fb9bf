"""Searches in a table of given probabilities, for trees as they are drawn in lectures: ``weft trace --table``.

    title = "il m'a entarté"              # optional

    [search]                              # optional: settings of the search, as in a recipe
    size = 2

    [next]                                # a prefix, and log p of the tokens that may follow it
    "" = { he = -0.7, I = -0.9 }
    "he" = { hit = -1.0, struck = -2.2 }

Tokens are words without spaces; ``</s>`` ends an output, and so does a prefix without a row (log p(</s>) = 0). The
probabilities of a row may sum to less than 1: the rest belongs to tokens that are not shown and never chosen.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.probes.toml_files import FileKind
from weft.errors import DataError, SearchError
from weft.text import specials

if TYPE_CHECKING:
    from torch import Tensor

    from weft.search.trace import Trace

TABLES = FileKind("table", "tables", ("title", "search", "next"))
END = specials.SPECIALS[specials.END]
OTHERS = "(others)"
"""All tokens that a row does not show, as one."""
TOLERANCE = 0.001
"""Probabilities of a row may sum to this much more than 1, by rounding."""
Prefix = tuple[str, ...]


class ProbabilityTable:
    """log p of the next token for each of some prefixes. A `weft.search.interface.StepModel` whose state is the number
    of a prefix, −1 for those without a row."""

    def __init__(self, title: str, rows: dict[Prefix, dict[str, float]], search: dict[str, Any], where: str) -> None:
        self.title, self.rows, self.search, self.where = title, rows, search, where

    @cached_property
    def tokens(self) -> list[str]:
        """The text of each id; tokens that a row does not show share the id of the unknown token."""
        known = dict.fromkeys(token for row in self.rows.values() for token in row if token != END)
        return [OTHERS, *specials.SPECIALS[1:], *known]

    @cached_property
    def logits(self) -> Tensor:
        """log p of every token after every prefix; the last row is of the prefixes that are not in the table."""
        import torch

        ids = {token: index for index, token in enumerate(self.tokens)}
        logits_PV = torch.full((len(self.rows) + 1, len(ids)), -math.inf)
        logits_PV[-1, specials.END] = 0.0
        for index, row in enumerate(self.rows.values()):
            for token, log_probability in row.items():
                logits_PV[index, ids[token]] = log_probability
            rest = 1.0 - math.fsum(map(math.exp, row.values()))
            logits_PV[index, specials.UNKNOWN] = math.log(rest) if rest > 1e-6 else -math.inf
        return logits_PV

    def start(self, memory: Tensor) -> tuple[Tensor]:
        import torch

        return (torch.full((len(memory),), -1),)

    def step(self, tokens_R: Tensor, state: tuple[Tensor], memory: Tensor) -> tuple[Tensor, tuple[Tensor], None]:
        import torch

        prefixes = list(self.rows)
        numbers = {prefix: index for index, prefix in enumerate(prefixes)}
        after = [
            numbers.get((), -1)
            if token == specials.BEGIN
            else numbers.get((*prefixes[number], self.tokens[token]), -1)
            if number >= 0
            else -1
            for token, number in zip(tokens_R.tolist(), state[0].tolist(), strict=True)
        ]
        prefix_R = torch.tensor(after)
        return self.logits[prefix_R].clone(), (prefix_R,), None


class TableTrace(NamedTuple):
    """The best output of a search in a table, and the steps of the search."""

    source: str
    """The title of the table."""
    text: str
    score: float
    log_probability: float
    gap: float | None
    kind: str
    """The kind of the search."""
    trace: Trace
    tokens: list[str]
    """The text of each id of the trace."""

    def label(self, token: int) -> str:
        """The text of an id of the trace."""
        return self.tokens[token]


def trace_table(table: ProbabilityTable | Path | str, **search: Any) -> TableTrace:
    """Search in a table: a TOML file, or the name of a shipped one ("pie"). ``search`` changes search settings.

    weft.probes.trace_table("pie").text             # he hit me with a pie
    weft.probes.trace_table("pie", size=3).trace    # a BeamTrace
    """
    table = table if isinstance(table, ProbabilityTable) else read_table(table)
    from weft.recipe import make_recipe

    settings = make_recipe({"search": {**table.search, **search}}, where=f"{table.where}: ").search
    if settings.kind not in ("beam", "greedy", "sample"):
        raise SearchError(f"search.kind: {settings.kind!r} has no trace; choose one of beam, greedy, sample")
    import torch

    from weft.search.interface import SearchRequest
    from weft.translation.engines.torch import search as search_by

    request = SearchRequest(
        memory=torch.zeros(1, 1),
        max_lengths=[settings.max_length or max(map(len, table.rows)) + 2],
        begin=specials.BEGIN,
        end=specials.END,
        banned=[[specials.UNKNOWN]],
        return_trace=True,
        traced_candidates=len(table.tokens),
    )
    [hypotheses] = search_by(table, request, settings)
    best = hypotheses[0]
    assert best.trace is not None
    text = " ".join(table.tokens[token] for token in best.tokens)
    numbers = best.score, best.log_probability, best.gap
    return TableTrace(table.title, text, *numbers, settings.kind, best.trace, table.tokens)


def read_table(name: Path | str) -> ProbabilityTable:
    """The table of a TOML file, or a shipped one by its name."""
    path, tree = TABLES.read(name)
    title, search, rows = tree.get("title", path.stem), tree.get("search", {}), tree.get("next")
    if not isinstance(title, str) or not isinstance(search, dict):
        raise DataError(f"{path}: expected a text as title and a section [search]")
    if not isinstance(rows, dict) or "" not in rows:
        raise DataError(f'{path}: expected a section [next] with a row for the empty prefix: "" = {{ he = -0.7 }}')
    return ProbabilityTable(title, dict(_row(path, *row) for row in rows.items()), search, str(path))


def _row(path: Path, prefix: str, row: Any) -> tuple[Prefix, dict[str, float]]:
    """A checked row."""
    where = f'{path}: next."{prefix}"'
    if not isinstance(row, dict) or not row:
        raise DataError(f"{where}: expected tokens with their log p: {{ he = -0.7 }}")
    for token, value in row.items():
        if token.split() != [token] or token in (
            specials.SPECIALS[specials.BEGIN],
            specials.SPECIALS[specials.UNKNOWN],
        ):
            raise DataError(f"{where}: {token!r}: a token is a word without spaces, or {END}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 0:
            raise DataError(f"{where}: {token} = {value!r}; expected log p, a number of at most 0")
    total = math.fsum(map(math.exp, row.values()))
    if total > 1 + TOLERANCE:
        raise DataError(f"{where}: the probabilities sum to {total:.2f}; expected at most 1")
    return tuple(prefix.split()), {token: float(value) for token, value in row.items()}
