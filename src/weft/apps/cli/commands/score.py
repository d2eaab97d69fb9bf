"""``weft score``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from weft.apps.cli.arguments import (
    Adapter,
    Device,
    Json,
    PairsFile,
    Run,
    SourceFile,
    SourceLanguage,
    TargetFile,
    TargetLanguage,
    check_adapter,
    check_runs,
    counted,
    given_corpus,
    load_runs,
)
from weft.apps.cli.bad_lines import BadLinePolicy, BadLines
from weft.files import json_text

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.translation.results import PairScore


def command(
    run: Run,
    pairs: PairsFile = None,
    source: SourceFile = None,
    target: TargetFile = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    as_json: Json = False,
    bad_lines: BadLines = "error",
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Print log p(target | source) of given pairs, one per line.

    The end-of-sequence token is included. A target of probability zero scores -inf (with --json, null). Without PAIRS,
    --source and --target, standard input is read. With --bad-lines skip, a pair that cannot be read or is too long
    becomes an empty line (with --json, an object with an "error"); exit code 3.
    """
    check_runs(run)
    check_adapter(run, adapter)
    policy = BadLinePolicy(bad_lines)
    corpus = given_corpus(run, "-" if pairs is None and not (source or target) else pairs, source, target)
    from weft.data.pairs import Pair, RowError
    from weft.errors import DataError

    assert corpus is not None
    named_rows = ((block.name, *row) for block in corpus.blocks() for row in block.rows())
    rows = []
    for name, number, row in counted(named_rows, pairs or str(source or "-")):
        if isinstance(row, RowError) and not policy.skips:
            policy.report(row.message)
        rows.append((name, number, row))
    from weft.translation.windows import process_each

    model = load_runs(run, device=device, adapter=adapter).with_languages(source_language, target_language)

    def score(given: Sequence[Pair]) -> list[PairScore]:
        return model.score(given)

    results = iter(process_each([row for _, _, row in rows if isinstance(row, Pair)], score))
    for name, number, row in rows:
        result = row if isinstance(row, RowError) else next(results)
        if isinstance(result, RowError | DataError):
            message = result.message if isinstance(result, RowError) else f"{name}:{number}: {result}"
            policy.report(message)
            fields: dict[str, object] = {"source": None, "target": None, "error": message}
            line = ""
        else:
            assert isinstance(row, Pair)
            fields = {"source": row.source, "target": row.target, **result._asdict()}
            line = f"{result.log_probability:.6f}"
        typer.echo(json_text(fields) if as_json else line)
    policy.finish()
