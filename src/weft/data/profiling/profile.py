"""The profile of an input: its columns, how many pairs it has, what its sides look like and what relates them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain, islice, pairwise
from typing import Any

from weft.data.hashing import text_hashes
from weft.data.profiling.columns import ColumnLayout, find_columns, named_columns
from weft.data.profiling.inputs import PairInput
from weft.data.profiling.relations import Relations, relate
from weft.data.profiling.rows import READ_BYTES, RowCount, RowStream
from weft.data.profiling.sides import SideProfile, profile_side
from weft.errors import DataError

FIRST_ROWS = 2_000
"""Rows from which the columns are told."""
SAMPLE_PAIRS = 10_000
SAMPLE_CHARACTERS = 4_000_000
_SORTED_SHARE = 0.98


@dataclass
class EvenSample:
    """Every k-th pair in order; k doubles when there are too many, so that any number of pairs is covered evenly."""

    max_pairs: int = SAMPLE_PAIRS
    max_characters: int = SAMPLE_CHARACTERS
    pairs: list[tuple[str, str]] = field(default_factory=list)
    seen: int = 0
    _stride: int = 1
    _characters: int = 0

    def add(self, source: str, target: str) -> None:
        if self.seen % self._stride == 0:
            self.pairs.append((source, target))
            self._characters += len(source) + len(target)
            while len(self.pairs) > 1 and (len(self.pairs) > self.max_pairs or self._characters > self.max_characters):
                self.pairs = self.pairs[::2]
                self._stride *= 2
                self._characters = sum(len(first) + len(second) for first, second in self.pairs)
        self.seen += 1


@dataclass
class SourceSample:
    """All pairs of some sources: those with the smallest hashes. Half of them go when there are too many pairs."""

    max_pairs: int = 4 * SAMPLE_PAIRS
    limit: int = 1 << 64
    """Sources with a smaller hash are kept."""
    targets: dict[int, list[int]] = field(default_factory=dict)
    """The hashes of the targets of each source."""
    _pairs: int = 0

    def add(self, source: str, target: str) -> None:
        source_hash = text_hashes((source,))[0]
        if source_hash >= self.limit:
            return
        self.targets.setdefault(source_hash, []).append(text_hashes((target,))[0])
        self._pairs += 1
        while self._pairs > self.max_pairs and len(self.targets) > 1:
            self.limit //= 2
            self.targets = {key: values for key, values in self.targets.items() if key < self.limit}
            self._pairs = sum(map(len, self.targets.values()))

    @property
    def duplicates(self) -> float:
        """The share of pairs that repeat an earlier pair."""
        return sum(len(values) - len(set(values)) for values in self.targets.values()) / max(1, self._pairs)

    @property
    def several_targets(self) -> float:
        """The share of sources that have more than one different target."""
        return sum(len(set(values)) > 1 for values in self.targets.values()) / max(1, len(self.targets))

    @property
    def targets_per_source(self) -> float:
        return sum(len(set(values)) for values in self.targets.values()) / max(1, len(self.targets))


@dataclass(frozen=True)
class PairProfile:
    """What an input of pairs looks like."""

    input: PairInput
    columns: ColumnLayout
    count: RowCount
    bad_rows: int
    first_error: str | None
    blank: float
    """The share of pairs with a blank side, which are in no other number."""
    sampled: int
    source: SideProfile
    target: SideProfile
    features: tuple[SideProfile, ...]
    """Of the columns of features, which are in no profile of a side."""
    relations: Relations
    duplicates: float
    several_targets: float
    targets_per_source: float
    sorted_by_length: bool
    looks_swapped: bool

    @property
    def pairs(self) -> int:
        """The number of pairs to train on: without those that have a blank side."""
        return max(1, round(self.count.rows * (1 - self.blank)))

    @property
    def scale(self) -> float:
        """How many times larger the corpus is than the sample."""
        return max(1.0, self.pairs / self.sampled)

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def profile_pairs(
    pair_input: PairInput, *, columns: tuple[str, str] | None = None, read_bytes: int = READ_BYTES
) -> PairProfile:
    """The profile of an input, from a sample that is bounded whatever the input's size.

    ``columns``: the source and the target column of a table, by name or number; not given: they are found.
    """
    stream = RowStream(pair_input, read_bytes)
    rows = iter(stream)
    first = list(islice(rows, FIRST_ROWS))
    if not first:
        raise DataError(stream.first_error or f"{pair_input.name}: no pairs; the file is empty")
    if columns is None:
        layout = find_columns(first, pair_input.name, stream.names)
    else:
        layout = named_columns(first, pair_input.name, stream.names, *columns)
    return _profile_rows(stream, layout, chain(first, rows))


def _profile_rows(stream: RowStream, columns: ColumnLayout, rows: Iterator[list[str]]) -> PairProfile:
    """The profile of a stream whose columns are known; `rows` are all its rows."""
    texts = [index for index in columns.source if index not in columns.features] or list(columns.source)
    sample, sources, feature_cells, blank = EvenSample(), SourceSample(), _FeatureCells(columns.features), 0
    width = 1 + max((*columns.source, *columns.target))
    for cells in _body(rows, columns):
        if len(cells) < width:
            stream.bad_rows += 1
            continue
        source = (cells[texts[0]] if len(texts) == 1 else " ".join(cells[index] for index in texts)).strip()
        target = cells[columns.target[0]].strip()
        if not source or not target:
            blank += 1
            continue
        sample.add(source, target)
        sources.add("\t".join(cells[index] for index in columns.source), target)
        feature_cells.add(cells)
    if not sample.pairs:
        raise DataError(f"{stream.input.name}: no pair with text on both sides")
    if columns.header is not None:
        stream.count.rows -= 1
    return _profile(stream, columns, sample, sources, (feature_cells.profiles(), blank))


@dataclass
class _FeatureCells:
    """The cells of the columns of features of the first rows."""

    columns: tuple[int, ...]
    cells: list[list[str]] = field(default_factory=list)

    def add(self, cells: list[str]) -> None:
        if self.columns and len(self.cells) < SAMPLE_PAIRS:
            self.cells.append([cells[index].replace(";", " ") for index in self.columns])

    def profiles(self) -> tuple[SideProfile, ...]:
        return tuple(profile_side([row[index] for row in self.cells]) for index in range(len(self.columns)))


def _body(rows: Iterator[list[str]], columns: ColumnLayout) -> Iterator[list[str]]:
    """The rows without the header."""
    return rows if columns.header is None else islice(rows, 1, None)


def _profile(
    stream: RowStream,
    columns: ColumnLayout,
    sample: EvenSample,
    by_source: SourceSample,
    others: tuple[tuple[SideProfile, ...], int],
) -> PairProfile:
    sources, targets = [source for source, _ in sample.pairs], [target for _, target in sample.pairs]
    source, target = profile_side(sources), profile_side(targets)
    features, blank = others
    return PairProfile(
        input=stream.input,
        columns=columns,
        count=stream.count,
        bad_rows=stream.bad_rows,
        first_error=stream.first_error,
        blank=blank / max(1, blank + sample.seen),
        sampled=len(sample.pairs),
        source=source,
        target=target,
        features=features,
        relations=relate(sources, targets),
        duplicates=by_source.duplicates,
        several_targets=by_source.several_targets,
        targets_per_source=by_source.targets_per_source,
        sorted_by_length=_is_sorted(list(map(len, sources))) or _is_sorted(list(map(len, targets))),
        looks_swapped=is_symbols(source) and target.single > 0.95 and target.token_characters > 2,
    )


def is_symbols(side: SideProfile) -> bool:
    """Whether the texts are short symbols of a closed set between spaces, such as phones: ``f o n``."""
    return side.is_sentences and side.token_characters < 2.5 and side.spaced.unseen < 0.01 and side.spaced.size < 500


def _is_sorted(lengths: list[int]) -> bool:
    """Whether nearly all lengths that differ from the one before do so in the same direction."""
    if len(lengths) < 20 or len(set(lengths)) < 3:
        return False
    steps = [b - a for a, b in pairwise(lengths) if a != b]
    return max(sum(step > 0 for step in steps), sum(step < 0 for step in steps)) >= _SORTED_SHARE * len(steps)
