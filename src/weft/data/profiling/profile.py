"""The profile of an input: its columns, how many pairs it has, what its sides look like and what relates them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice, pairwise
from typing import Any

from weft.data.profiling.columns import ColumnLayout, find_columns, named_columns
from weft.data.profiling.inputs import PairInput
from weft.data.profiling.relations import Relations, relate
from weft.data.profiling.rows import READ_BYTES, RowCount, RowStream
from weft.data.profiling.samples import SAMPLE_PAIRS, EvenSample, SourceSample
from weft.data.profiling.sides import SideProfile, profile_side
from weft.data.reading.links import is_links
from weft.errors import DataError, plural
from weft.text.features import features_as_tags

FIRST_ROWS = 2_000
"""Rows by which the roles of the columns are decided."""
_SORTED_SHARE = 0.98
_OTHER_ENCODING = 0.01
"""Lines that are not UTF-8, as a share; above it the file is taken to have another encoding."""


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
    rows_read: int
    """How many rows were looked at."""
    sources: SourceSample
    overlaps: dict[str, float] = field(default_factory=dict)
    """Of the validation and the test part, where they are given: the share of pairs whose source is trained on."""

    @property
    def pairs(self) -> int:
        """The number of pairs to train on: without those that cannot be read or have a blank side."""
        return max(1, round(self.count.rows * self.sources.seen / self.rows_read))

    @property
    def is_complete(self) -> bool:
        """Whether every row was looked at."""
        return self.count.certainty == "exact" and self.rows_read == self.count.rows

    @property
    def scale(self) -> float:
        """How many times larger the corpus is than the sample."""
        return max(1.0, self.pairs / self.sampled)

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "sources"}


def profile_parts(parts: dict[str, PairInput], *, columns: tuple[str, str] | None = None) -> PairProfile:
    """The profile of the training pairs, and what the other parts share with them; all are bounded samples."""
    profile = profile_pairs(parts["train"], columns=columns)
    overlaps = {
        part: profile.sources.overlap(_sources_of(pair_input, profile.columns))
        for part, pair_input in parts.items()
        if part != "train"
    }
    return replace(profile, overlaps=overlaps)


def profile_pairs(
    pair_input: PairInput, *, columns: tuple[str, str] | None = None, read_bytes: int = READ_BYTES
) -> PairProfile:
    """The profile of an input, from a sample that is bounded whatever the input's size.

    ``columns``: the source and the target column of a table, by name or number; not given: they are found.
    """
    stream = RowStream(pair_input, read_bytes)
    rows = iter(stream)
    first = list(islice(rows, FIRST_ROWS))
    _check_encoding(stream, len(first))
    layout = _layout(stream, first, columns)
    samples = _Samples(layout, pair_input.format)
    for cells in _body(chain(first, rows), layout):
        samples.add(cells)
    _check_encoding(stream, samples.rows)
    if not samples.even.pairs:
        error = samples.first_error and f"{pair_input.name}: {samples.first_error}"
        raise DataError(stream.first_error or error or f"{pair_input.name}: no pair with text on both sides")
    if layout.header is not None:
        stream.count.rows -= 1
    return _profile(stream, samples)


def find_layout(pair_input: PairInput) -> ColumnLayout:
    """The columns of an input, from its first rows."""
    stream = RowStream(pair_input)
    return _layout(stream, list(islice(iter(stream), FIRST_ROWS)), None)


def _layout(stream: RowStream, first: list[list[str]], columns: tuple[str, str] | None) -> ColumnLayout:
    """The columns of a stream whose first rows have been read."""
    name = stream.input.name
    texts = [row for row in first if any(map(str.strip, row))]
    if not texts:
        reason = "no pair with text on both sides" if first else "no pairs; the file is empty"
        raise DataError(stream.first_error or f"{name}: {reason}")
    if columns is None or stream.input.targets is not None:
        layout = find_columns(texts, name, stream.names)
    else:
        layout = named_columns(texts, name, stream.names, *columns)
    return replace(layout, delimiter=stream.delimiter)


def _check_encoding(stream: RowStream, rows: int) -> None:
    """Refuse a file in another encoding than UTF-8, of which only the lines in ASCII would be left."""
    share = stream.encoding_errors / max(1, rows + stream.bad_rows)
    if share > _OTHER_ENCODING:
        raise DataError(stream.first_error)


def _sources_of(pair_input: PairInput, columns: ColumnLayout) -> SourceSample:
    """The sources of an input whose columns are known; it may have further ones, such as more references."""
    samples = _Samples(columns, "table")
    for cells in _body(iter(RowStream(pair_input)), columns):
        samples.add(cells)
    return samples.by_source


@dataclass
class _Samples:
    """Everything that is kept of the rows of a table."""

    columns: ColumnLayout
    format: str
    even: EvenSample = field(default_factory=EvenSample)
    by_source: SourceSample = field(default_factory=SourceSample)
    features: list[list[str]] = field(default_factory=list)
    """The cells of the columns of features in the first rows."""
    blank: int = 0
    bad: int = 0
    """Rows that are not laid out as the others."""
    first_error: str | None = None

    def __post_init__(self) -> None:
        columns = self.columns
        self._texts = [index for index in columns.source if index not in columns.features] or [*columns.source]
        self._width = 1 + max((*columns.source, *columns.target))

    @property
    def rows(self) -> int:
        return self.even.seen + self.blank + self.bad

    def add(self, cells: list[str]) -> None:
        columns, texts = self.columns, self._texts
        if error := self._error(cells):
            self.bad += 1
            self.first_error = self.first_error or error
            return
        source = (cells[texts[0]] if len(texts) == 1 else " ".join(cells[index] for index in texts)).strip()
        target = cells[columns.target[0]].strip()
        if not source or not target:
            self.blank += 1
            return
        self.even.add(source, target)
        self.by_source.add(source if len(columns.source) == 1 else self._whole_source(cells), target)
        if columns.features and len(self.features) < SAMPLE_PAIRS:
            self.features.append([cells[index].replace(";", " ") for index in columns.features])

    def _error(self, cells: list[str]) -> str | None:
        """Why the corpus will not be able to read a row; None if it will."""
        columns = self.columns
        if len(cells) <= 1 and not "".join(cells).strip():
            return "an empty line"
        if columns.header is not None and len(cells) != len(columns.header):
            return f"{plural(len(cells), 'column')}, expected {len(columns.header)} as in the header"
        if len(cells) < self._width:
            return f"{plural(len(cells), 'column')}, expected {self._width}"
        is_exact = columns.is_plain and self.format == "tsv"
        if is_exact and len(cells) > 2 and not (len(cells) == 3 and is_links(cells[2])):
            return f"{plural(len(cells), 'column')}, expected 2"
        if any(features_as_tags(cells[index]) is None for index in columns.tags):
            return "a list of features such as 'N;ACC(PL)' was expected"
        return None

    def _whole_source(self, cells: list[str]) -> str:
        """All source columns, as the pair of a corpus has them (`weft.data.reading.tables.Joined`)."""
        tags = self.columns.tags
        return " ".join(
            (features_as_tags(cells[index]) or "") if index in tags else cells[index] for index in self.columns.source
        )

    def feature_profiles(self) -> tuple[SideProfile, ...]:
        return tuple(profile_side([row[index] for row in self.features]) for index in range(len(self.columns.features)))


def _body(rows: Iterator[list[str]], columns: ColumnLayout) -> Iterator[list[str]]:
    """The rows without the header."""
    return rows if columns.header is None else islice(rows, 1, None)


def _profile(stream: RowStream, samples: _Samples) -> PairProfile:
    pairs, by_source = samples.even.pairs, samples.by_source
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    source, target = profile_side(sources), profile_side(targets)
    return PairProfile(
        input=stream.input,
        columns=samples.columns,
        count=stream.count,
        bad_rows=stream.bad_rows + samples.bad,
        first_error=stream.first_error or samples.first_error,
        blank=samples.blank / max(1, samples.blank + samples.even.seen),
        sampled=len(pairs),
        source=source,
        target=target,
        features=samples.feature_profiles(),
        relations=relate(sources, targets),
        duplicates=by_source.duplicates,
        several_targets=by_source.several_targets,
        targets_per_source=by_source.targets_per_source,
        sorted_by_length=_is_sorted(list(map(len, sources))) or _is_sorted(list(map(len, targets))),
        looks_swapped=is_symbols(source) and target.single > 0.95 and target.token_characters > 2,
        rows_read=samples.rows,
        sources=by_source,
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
