"""[data]: which pairs are for training, validation and testing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.data.columns.columns import ColumnLayout
from weft.data.columns.rows import PairInput, RowStream
from weft.data.splitting import SplitShares, split_shares
from weft.errors import plural
from weft.pairs.profiling.inputs import ending
from weft.pairs.profiling.profile import PairProfile
from weft.pairs.recommendation.choices import Choice

FEW_PAIRS, MIN_PART = 20, 5
"""A part gets at least one pair in `FEW_PAIRS`, but `MIN_PART` pairs are always enough."""
MAX_SHARE = 0.25
"""The largest share of few pairs that is held out for a part."""
FREQUENT_SHARE, FREQUENT_PAIRS = 0.1, 10
"""A source with more than this share of the pairs that are held out, and as many pairs, is better trained on."""
MAX_HALVINGS = 2
"""The largest number of times that shares are halved for that."""
MIN_SOURCES = 10
"""With fewer different sources than this, the reason counts sources, not pairs."""
NAMES = {"valid": "validation pairs", "test": "test pairs"}


def choose_pairs(
    profile: PairProfile, parts: dict[str, PairInput], hold_out: Collection[str] = ("valid", "test")
) -> list[Choice]:
    """The pairs of each part: those of its file, or else, if it is to be held out, of the training pairs."""
    certainty = {"exact": "", "estimated": "about ", "at least": "at least "}[profile.count.certainty]
    settings: dict[str, Any] = {"data.train": _corpus(profile.columns, parts["train"])}
    if profile.bad_rows or profile.part_errors or not profile.is_complete:
        settings["data.bad_rows"] = "skip"
    choices = [Choice("pairs", f"{certainty}{profile.pairs:,}", parts["train"].name, settings)]
    choices += _columns(profile)
    choices += [
        Choice(NAMES[part], "given", parts[part].name, {f"data.{part}": _corpus(profile.columns, parts[part])})
        for part in ("valid", "test")
        if part in parts
    ]
    missing = [part for part in hold_out if part not in parts]
    if not missing:
        return choices
    shares = find_shares(profile, valid="valid" in missing, test="test" in missing)
    choices += _split(profile, shares)
    if "valid" in missing and not shares.valid:
        sources = len(profile.sources.targets)
        number = plural(profile.pairs, "pair") if sources >= MIN_SOURCES else plural(sources, "different source")
        reason = f"{number}, too few to hold some out"
        choices.append(Choice(NAMES["valid"], "the training pairs", reason, {"data.valid": settings["data.train"]}))
    return choices


def _corpus(columns: ColumnLayout, part: PairInput) -> Any:
    """The corpus of a part as a recipe names it; columns that only this part has, as more references, are ignored."""
    if part.format in ("tsv", "csv") and part.file != "-":
        stream = RowStream(part)
        first = next((row.cells for row in stream), [])
        columns = replace(columns, delimiter=stream.delimiter)
    if part.format == "tsv" and part.file != "-":
        known = 1 + max((*columns.source, *columns.target, *columns.ignored, columns.links or 0))
        columns = replace(columns, ignored=(*columns.ignored, *range(known, len(first))))
    return columns.corpus(part)


def find_shares(profile: PairProfile, *, valid: bool, test: bool) -> SplitShares:
    """Shares that leave pairs in every part; of very few pairs none for the test part, or none at all.

    Chance decides how many of few pairs are held out: the share of a part is doubled until it has some.
    """
    some = min(max(profile.pairs // FEW_PAIRS, 1), MIN_PART)
    for with_test, least in ((test, some), (test, 1), (False, 1)):
        shares = split_shares(profile.pairs, valid=valid, test=with_test)
        while 0 < max(shares) <= MAX_SHARE:
            sizes = profile.sources.part_sizes(shares)
            larger = SplitShares(
                shares.valid * (2 if sizes["valid"] < least else 1), shares.test * (2 if sizes["test"] < least else 1)
            )
            if profile.is_complete and larger != shares:
                shares = larger
            elif sizes["train"]:
                return _without_frequent(profile, shares)
            else:
                break
    return SplitShares(0.0, 0.0)


def _without_frequent(profile: PairProfile, shares: SplitShares) -> SplitShares:
    """Smaller shares that do not hold out a source with many of the pairs: it would be the part, and never trained on.

    Shares only grow from the beginning of the range of hashes, so that smaller ones hold out the same pairs or none.
    """
    smaller = shares
    for _ in range(MAX_HALVINGS + 1):
        held_out = [
            len(targets)
            for source_hash, targets in profile.sources.targets.items()
            if smaller.part_of(source_hash) != "train"
        ]
        most = max(held_out, default=0)
        if most < FREQUENT_PAIRS or most <= FREQUENT_SHARE * sum(held_out):
            return smaller
        smaller = SplitShares(smaller.valid / 2, smaller.test / 2)
    return shares


def _split(profile: PairProfile, shares: SplitShares) -> list[Choice]:
    """The number of pairs in each part."""
    held_out = {part: getattr(shares, part) for part in ("valid", "test") if getattr(shares, part)}
    if not held_out:
        return []
    sizes = profile.sources.part_sizes(shares)
    about = "" if profile.is_complete else "about "
    if about:
        valid, test = (round(share * profile.pairs) for share in shares)
        sizes = {"train": profile.pairs - valid - test, "valid": valid, "test": test}
    verbs = {"train": "to train on", "valid": "to validate", "test": "to test"}
    counts = [f"{about}{size:,} {verbs[part]}" for part, size in sizes.items() if part in ("train", *held_out)]
    settings = {f"data.holdout.{part}": share for part, share in held_out.items()}
    return [Choice("split", ", ".join(counts), "by a hash of the source; no source is in two parts", settings)]


def _columns(profile: PairProfile) -> list[Choice]:
    """The roles of the columns of a table, where they are not obvious; for two files, which one is the source."""
    columns = profile.columns
    if profile.input.targets is not None:
        if not profile.input.is_guess:
            return []
        source, target = ending(Path(profile.input.file)), ending(Path(profile.input.targets))
        return [Choice("direction", f"{source} to {target}", f"to swap: --source {target} --target {source}")]
    if columns.is_plain:
        return []
    return [Choice("columns", *columns.describe())]
