"""The profile of an input: its columns, how many pairs it has, what its sides look like and what relates them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, dropwhile, islice, pairwise
from typing import Any

from weft.data.columns.columns import ColumnLayout
from weft.data.columns.layout import FIRST_ROWS, layout_of
from weft.data.columns.rows import READ_BYTES, PairInput, RowCount, RowStream, TableRow
from weft.data.reading.delimited import column_names
from weft.data.reading.links import is_links
from weft.errors import DataError, column_phrase, plural
from weft.pairs.profiling.arrays import ArrayProfile, ArraySample
from weft.pairs.profiling.differences import PartDifferences, TrainedStructures
from weft.pairs.profiling.exchanges import Interchangeable, StrictPairs
from weft.pairs.profiling.relations import Relations, relate
from weft.pairs.profiling.samples import SAMPLE_PAIRS, EvenSample, SourceSample
from weft.pairs.profiling.sides import SideProfile, profile_side
from weft.text.features import features_as_tags

_SORTED_SHARE = 0.98
_OTHER_ENCODING = 0.01
"""Lines that are not UTF-8, as a share; above it the file is taken to have another encoding."""


@dataclass(frozen=True)
class PairProfile:
    """The profile of an input of pairs: its columns, sizes, sides and their relations."""

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
    """Profiles of the feature columns, which belong to neither side."""
    relations: Relations
    duplicates: float
    several_targets: float
    targets_per_source: float
    sorted_by_length: bool
    looks_swapped: bool
    rows_read: int
    """The number of rows that were read."""
    sources: SourceSample
    overlaps: dict[str, float] = field(default_factory=dict)
    """The share of validation or test pairs whose source is also a training source, where these parts are given."""
    target_overlaps: dict[str, float] = field(default_factory=dict)
    """The share of those pairs whose text is also a training target; of pictures, frames and sound alone."""
    part_errors: dict[str, str] = field(default_factory=dict)
    """The number of unreadable rows of those parts with the first error, where there are any."""
    differences: dict[str, PartDifferences] = field(default_factory=dict)
    """Differences of those parts from the training pairs, if every training row was read."""
    structures: TrainedStructures | None = None
    """Structures of the training pairs; None where nothing is compared with them."""
    arrays: ArrayProfile | None = None
    """The pictures, frames or sound that the sources name; None: the sources are texts."""
    interchangeable: Interchangeable = field(default_factory=Interchangeable)
    """Symbols and phrases that can take each other's place, in a language of strict rules."""

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
        """The size of the corpus relative to the sample."""
        return max(1.0, self.pairs / self.sampled)

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        record = asdict(replace(self, structures=None))
        return {name: value for name, value in record.items() if name not in ("sources", "structures")}


def profile_parts(parts: dict[str, PairInput], *, columns: tuple[str, str] | None = None) -> PairProfile:
    """The profile of the training pairs, and what the other parts share with them; all are bounded samples."""
    profile = profile_pairs(parts["train"], columns=columns, compared=len(parts) > 1)
    structures = profile.structures if profile.is_complete else None
    overlaps, of_targets, errors, differences = {}, {}, {}, {}
    for part, pair_input in parts.items():
        if part != "train":
            stream, samples = _sample_part(pair_input, profile.columns)
            overlaps[part] = profile.sources.overlap(samples.by_source)
            if profile.arrays is not None and (share := profile.sources.target_overlap(samples.by_source)) is not None:
                of_targets[part] = share
            if structures is not None:
                differences[part] = structures.differences(samples.even.pairs)
            if bad_rows := stream.bad_rows + samples.bad:
                errors[part] = left_out(bad_rows, stream.first_error or samples.first_error)
            if profile.arrays is not None and (arrays := samples.arrays.profile()) is not None and arrays.unreadable:
                errors[part] = left_out(arrays.unreadable, arrays.errors[0])
    profile = replace(profile, overlaps=overlaps, target_overlaps=of_targets)
    return replace(profile, part_errors=errors, differences=differences, structures=None)


def left_out(bad_rows: int, first_error: str | None) -> str:
    """The number of rows that are left out, and the first reason."""
    verb = "is left out" if bad_rows == 1 else "are left out; the first"
    return f"{plural(bad_rows, 'row')} that cannot be read {verb}: {first_error}"


def profile_pairs(
    pair_input: PairInput,
    *,
    columns: tuple[str, str] | None = None,
    read_bytes: int = READ_BYTES,
    compared: bool = False,
) -> PairProfile:
    """The profile of an input, from a sample that is bounded whatever the input's size.

    ``columns``: the source and the target column of a table, by name or number; not given: they are found.
    ``compared``: whether other pairs will be compared with these, for which their structures are counted.
    """
    stream = RowStream(pair_input, read_bytes)
    rows = iter(stream)
    first = list(islice(rows, FIRST_ROWS))
    while columns and stream.names is not None and not {*columns} <= {*stream.names}:
        if not (more := list(islice(rows, FIRST_ROWS))):  # a field that only later rows have
            break
        first += more
    _check_encoding(stream, len(first))
    layout = layout_of(stream, first, columns)
    samples = _Samples(layout, pair_input.format, structures=TrainedStructures() if compared else None)
    return _profile(stream, _sample(stream, samples, first, rows))


def _sample(stream: RowStream, samples: _Samples, first: list[TableRow], rows: Iterator[TableRow]) -> _Samples:
    """The samples, filled with the rows of a stream below the header; few good ones among bad ones are refused."""
    body = list(_body(first, samples.columns))
    for row in chain(body, rows):
        samples.add(row)
    stream.count.rows -= len(first) - len(body)
    _check_encoding(stream, samples.rows)
    error = stream.first_error or samples.first_error
    if not samples.even.pairs:
        raise DataError(error or f"{stream.input.name}: no pair with text on both sides")
    bad_rows = stream.bad_rows + samples.bad - stream.blank_lines - samples.empty
    if bad_rows > samples.even.seen:
        raise DataError(f"{error}; only {plural(samples.even.seen, 'row')} can be read, and {bad_rows} cannot")
    return samples


def _check_encoding(stream: RowStream, rows: int) -> None:
    """Refuse a file in another encoding than UTF-8, of which only the lines in ASCII would be left."""
    share = stream.encoding_errors / max(1, rows + stream.bad_rows)
    if share > _OTHER_ENCODING:
        raise DataError(stream.first_error)


def _sample_part(pair_input: PairInput, columns: ColumnLayout) -> tuple[RowStream, _Samples]:
    """Samples of an input whose columns are known; it may have further ones, such as more references."""
    stream = RowStream(pair_input)
    rows = iter(stream)
    first = list(islice(rows, FIRST_ROWS))
    texts = [row for row in first if not row.is_blank]
    if not texts:
        raise DataError(stream.first_error or f"{pair_input.name}: no pairs; the file is empty")
    if stream.names is not None or columns.header is None:
        layout = columns.in_table(stream.names, pair_input.name)
    else:
        header = tuple(column_names(texts[0].texts()))
        layout = replace(columns.in_table(header, f"{texts[0].file}:{texts[0].number}"), header=header)
    return stream, _sample(stream, _Samples(layout, pair_input.format), first, rows)


@dataclass
class _Samples:
    """Everything that is kept of the rows of a table."""

    columns: ColumnLayout
    format: str
    even: EvenSample = field(default_factory=EvenSample)
    by_source: SourceSample = field(default_factory=SourceSample)
    arrays: ArraySample = field(default_factory=ArraySample)
    structures: TrainedStructures | None = None
    strict: StrictPairs = field(default_factory=StrictPairs)
    features: list[list[str]] = field(default_factory=list)
    """The cells of the columns of features in the first rows."""
    blank: int = 0
    bad: int = 0
    """Rows that are not laid out as the others."""
    empty: int = 0
    """The number of those rows that are empty lines."""
    first_error: str | None = None

    def __post_init__(self) -> None:
        columns = self.columns
        self._texts = [index for index in columns.source if index not in columns.features] or [*columns.source]
        self._width = 1 + max((*columns.source, *columns.target))

    @property
    def rows(self) -> int:
        return self.even.seen + self.blank + self.bad

    def add(self, row: TableRow) -> None:
        columns, texts = self.columns, self._texts
        if error := self._error(row.cells):
            self.bad += 1
            self.empty += len(row.cells) <= 1 and row.is_blank
            self.first_error = self.first_error or f"{row.file}:{row.number}: {error}"
            return
        cells = row.texts(self._width)
        source = (cells[texts[0]] if len(texts) == 1 else " ".join(cells[index] for index in texts)).strip()
        target = cells[columns.target[0]].strip()
        if not source or not target:
            self.blank += 1
            return
        self.even.add(source, target)
        if len(columns.source) == 1:
            self.arrays.add(row.file, row.number, source, target)
        self.strict.add(source, target)
        if self.structures is not None:
            self.structures.add(source, target)
        self.by_source.add(source if len(columns.source) == 1 else self._whole_source(cells), target)
        if columns.features and len(self.features) < SAMPLE_PAIRS:
            self.features.append([cells[index].replace(";", " ") for index in columns.features])

    def _error(self, cells: list[str | None]) -> str | None:
        """The error with which the corpus will refuse a row; None if it can be read."""
        columns = self.columns
        if columns.names is not None:
            return self._missing_text(cells)
        if len(cells) <= 1 and not "".join(filter(None, cells)).strip():
            return "an empty line"
        if columns.header is not None and len(cells) != len(columns.header):
            return f"{plural(len(cells), 'column')}, expected {len(columns.header)} as in the header"
        if len(cells) < self._width:
            return f"{plural(len(cells), 'column')}, expected {self._width}"
        is_exact = columns.is_plain and self.format == "tsv"
        if is_exact and len(cells) > 2 and not (len(cells) == 3 and is_links(cells[2] or "")):
            return f"{plural(len(cells), 'column')}, expected 2"
        if any(features_as_tags(cells[index] or "") is None for index in columns.tags):
            return "a list of features such as 'N;ACC(PL)' was expected"
        return None

    def _missing_text(self, cells: list[str | None]) -> str | None:
        """The first of the columns with names that has no text in a row."""
        for index in (*self.columns.source, *self.columns.target):
            if (index >= len(cells) or cells[index] is None) and not self.columns.is_optional(index):
                return f"{column_phrase(self.columns.label(index))} is missing, null or not text"
        return None

    def _whole_source(self, cells: list[str]) -> str:
        """All source columns, as the pair of a corpus has them (`weft.data.reading.tables.Joined`)."""
        tags = self.columns.tags
        return " ".join(
            (features_as_tags(cells[index]) or "") if index in tags else cells[index] for index in self.columns.source
        )

    def feature_profiles(self) -> tuple[SideProfile, ...]:
        return tuple(profile_side([row[index] for row in self.features]) for index in range(len(self.columns.features)))


def _body(rows: list[TableRow], columns: ColumnLayout) -> Iterator[TableRow]:
    """The first rows of a table without the header and what precedes it."""
    if columns.header is None:
        return iter(rows)
    return islice(dropwhile(lambda row: row.is_blank, rows), 1, None)


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
        structures=samples.structures,
        arrays=samples.arrays.profile(),
        interchangeable=samples.strict.interchangeable(),
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
