"""``weft data clean``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import Json, PairsOrSources, TargetsFile, check_output
from weft.errors import DataError, plural
from weft.files import save_text
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.pairs.cleaning.suspects import Suspect

EXAMPLES = 3
SHOWN_ON_PAGE = 100
"""Suspects of each kind on the page."""
DEFAULT_SHARE = 0.05
COLUMNS = ("number", "suspicion", "kind", "reason", "source", "target")


def clean_command(
    pairs: PairsOrSources,
    targets: TargetsFile = None,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="SHARE", help="Drop the most suspicious pairs, e.g. 5%.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="X", help="Drop pairs of at least this suspicion.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file for the pairs that are kept; OUT.dropped.tsv has the others.")
    ] = None,
    page: Annotated[Path | None, typer.Option("--page", help="Write a page of suspects by kind (HTML).")] = None,
    as_json: Json = False,
) -> None:
    """Rank pairs by how likely they are wrong: rules, and models in both directions that are not trained on the pair.

    Prints the kinds of the most suspicious pairs with examples. Nothing is written without --out or --page, and no file
    is overwritten. All pairs are in memory.
    """
    _check(out, page, drop, threshold)
    share = DEFAULT_SHARE if drop is None else _share(drop)
    corpus_pairs = read_all_pairs(pairs, targets)
    from weft.pairs.cleaning.suspects import rank_suspects

    with activity("ranking pairs", "models", total=4) as ranking:

        def count() -> None:
            ranking.done += 1

        suspects = rank_suspects(corpus_pairs, on_progress=count)
    if threshold is None:
        dropped = suspects[: round(share * len(suspects))]
    else:
        dropped = [suspect for suspect in suspects if suspect.suspicion >= threshold]
    if as_json:
        for suspect in suspects:
            pair = corpus_pairs[suspect.number]
            record = {**suspect._asdict(), "number": suspect.number + 1}
            typer.echo(json.dumps({**record, "source": pair.source, "target": pair.target}, ensure_ascii=False))
    else:
        typer.echo(_report(corpus_pairs, suspects, dropped))
    if page is not None:
        save_text(page, _page(pairs, corpus_pairs, dropped))
    if out is not None:
        _write(out, corpus_pairs, dropped)


def _check(out: Path | None, page: Path | None, drop: str | None, threshold: float | None) -> None:
    if drop is not None and threshold is not None:
        raise DataError("--drop and --threshold: two limits; choose one of them")
    if out is not None and drop is None and threshold is None:
        raise DataError("--out: needs --drop SHARE or --threshold X")
    for path in (out, page, None if out is None else _dropped_path(out)):
        check_output(path)
        if path is not None and path.exists():
            raise DataError(f"{path}: already exists; remove it, or choose another file")


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise DataError(f"--drop {text}: expected a share of the pairs, such as 5% or 0.05")
    return share


def read_all_pairs(pairs: str, targets: str | None) -> list[Pair]:
    """The pairs of one file or two; at least one."""
    from weft.data.reading.corpora import ParallelText, pair_file, read

    corpus = pair_file(pairs) if targets is None else ParallelText((pairs,), (targets,))
    with activity(f"reading {pairs}", "rows") as reading:
        corpus_pairs = []
        for pair in read(corpus):
            corpus_pairs.append(pair)
            reading.done += 1
    if not corpus_pairs:
        raise DataError(f"{pairs}: no pairs")
    return corpus_pairs


def _report(pairs: Sequence[Pair], suspects: Sequence[Suspect], dropped: Sequence[Suspect]) -> str:
    counts = Counter(suspect.kind for suspect in dropped)
    likely = sum(suspect.suspicion >= 0 for suspect in suspects)
    lines = [
        f"{plural(len(pairs), 'pair')}; {likely:,} more like damaged ones than like the others (suspicion 0 or more)",
        f"the {len(dropped):,} most suspicious:" if dropped else "none of that suspicion",
    ]
    for kind, count in counts.most_common():
        lines.append(f"\n{kind}: {count:,}")
        for suspect in [suspect for suspect in dropped if suspect.kind == kind][:EXAMPLES]:
            pair = pairs[suspect.number]
            lines.append(f"  pair {suspect.number + 1:,}, suspicion {suspect.suspicion:.1f}: {suspect.reason}")
            lines += [f"    {_short(pair.source)}", f"    {_short(pair.target)}"]
    return "\n".join(lines)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:99]}…"


def _page(name: str, pairs: Sequence[Pair], dropped: Sequence[Suspect]) -> str:
    from weft.pictures.html.elements import data_text, element, table
    from weft.pictures.html.page import page

    parts = []
    for kind, count in Counter(suspect.kind for suspect in dropped).most_common():
        rows = [
            (
                f"{suspect.number + 1:,}",
                f"{suspect.suspicion:.1f}",
                suspect.reason,
                data_text(pairs[suspect.number].source),
                data_text(pairs[suspect.number].target),
            )
            for suspect in dropped
            if suspect.kind == kind
        ][:SHOWN_ON_PAGE]
        header = ("pair", "suspicion", "reason", "source", "target")
        parts += [element("h2", f"{kind}: {count:,}"), table(header, rows, numbers=(0, 1))]
    summary = element("p", f"{plural(len(pairs), 'pair')}; the {len(dropped):,} most suspicious, by kind.")
    return page(f"Suspicious pairs of {name}", element("h1", f"Suspicious pairs of {name}"), summary, *parts)


def _dropped_path(out: Path) -> Path:
    return out.with_name(f"{out.name}.dropped.tsv")


def _write(out: Path, pairs: Sequence[Pair], dropped: Sequence[Suspect]) -> None:
    """First the pairs that are left out, then those that are kept, each file at once."""
    from weft.data.reading.pair_files import write_pairs

    numbers = {suspect.number for suspect in dropped}
    save_text(_dropped_path(out), "".join(_dropped_lines(pairs, dropped)))
    kept = write_pairs(out, (pair for number, pair in enumerate(pairs) if number not in numbers))
    typer.echo(f"{out}: {plural(kept, 'pair')}; {_dropped_path(out)}: {len(dropped):,} left out", err=True)


def _dropped_lines(pairs: Sequence[Pair], dropped: Sequence[Suspect]) -> Iterable[str]:
    yield "\t".join(COLUMNS) + "\n"
    for suspect in dropped:
        pair = pairs[suspect.number]
        texts = (" ".join(text.split()) for text in (pair.source, pair.target))
        yield (
            "\t".join((str(suspect.number + 1), f"{suspect.suspicion:.2f}", suspect.kind, suspect.reason, *texts))
            + "\n"
        )
