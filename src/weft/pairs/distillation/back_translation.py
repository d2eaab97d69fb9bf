"""Back-translation: monolingual targets, translated into the source language, are training pairs.

A model of the reverse direction reads each target y and gives a source x̂; the pair (x̂, y) is trained on beside real
pairs, with real text on the side that the model learns to write (Sennrich, Haddow & Birch 2016). A tag at the start of
x̂ tells the model that the source is synthetic (Caswell, Chelba & Grangier 2019). The source may be the best output or
a random sample: ``search={"kind": "sample"}`` (Edunov et al. 2018).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.data.pairs import Pair
from weft.data.reading.lines import read_lines
from weft.errors import DataError, RecipeError, option
from weft.pairs.distillation.targets import OutputJob, SourceText, WrittenOutputs, write_outputs
from weft.pairs.distillation.teachers import Teachers

BackTranslation = WrittenOutputs


def back_translate(
    run: Path | str | Sequence[Path | str],
    targets: Path | str,
    out: Path | str,
    *,
    tag: str | None = None,
    n_best: int = 1,
    search: Mapping[str, Any] | None = None,
    device: str = "auto",
) -> BackTranslation:
    """Write a pair of source and target for every line of a file of targets; ``weft train`` can train on the result.

        weft.back_translate("runs/fr-en", "french.txt", "pairs.tsv", tag="<bt>")

    ``run``: a run of the reverse direction, or several as an ensemble. ``out``: a TSV file, or JSON lines if its name
    ends with .jsonl. ``tag``: put before every source, with a space. ``n_best``: sources for each target. ``search``:
    changes of search settings, such as {"kind": "sample"}. Blank lines are left out, and so are targets without a
    usable output. A call that was interrupted is continued by the same call.
    """
    out, targets = Path(out), Path(targets)
    model = Teachers.find(run, device)
    if tag is not None and (not tag.strip() or "\t" in tag or "\n" in tag):
        raise RecipeError(f"{option('tag', tag)}: expected a text without tabs, such as '<bt>'")
    if n_best < 1:
        raise RecipeError(f"{option('n_best', n_best)}: expected a whole number from 1 on")
    if not targets.is_file():
        raise DataError(f"{targets}: no such file; expected monolingual text, a target on every line")
    if out.exists() and not out.with_name(f"{out.name}.part").exists():
        raise DataError(f"{out}: already exists; remove it, or choose another {option('out')}")
    as_json = out.suffix == ".jsonl"

    def rows(item: SourceText, sources: list[str]) -> list[str]:
        pairs = [Pair(source if tag is None else f"{tag} {source}", item.text) for source in sources]
        return [row for pair in pairs if (row := _row(pair, as_json=as_json)) is not None]

    changes = dict(search or {})
    made_by = {"weights": model.identity(), "tag": tag, "n_best": n_best, "search": changes}
    job = OutputJob(changes, n_best, rows, made_by)
    return write_outputs(model.translator, lambda: target_items(targets), out, job)


def target_items(targets: Path) -> Iterator[SourceText]:
    """The lines of a file that are not blank."""
    return (SourceText(line, Pair("", line)) for line in read_lines(targets) if line.strip())


def _row(pair: Pair, *, as_json: bool) -> str | None:
    """A pair as a line; None if it cannot be written as one, because of a tab in a TSV file."""
    if as_json:
        return json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False)
    is_plain = not any(character in side for side in (pair.source, pair.target) for character in "\t\n\r")
    return f"{pair.source}\t{pair.target}" if is_plain else None
