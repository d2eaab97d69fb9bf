"""Writes docs/commands.md, docs/settings.md and docs/api.md from the program itself; with --check, compares only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.recipe.toml import Setting

DOCS = Path(__file__).parent.parent / "docs"
NOTE = "<!-- Written by tools/reference.py; change the program, then run `make docs`. -->\n\n"


def names(command: Any, name: str = "") -> Iterator[str]:
    """A command and those in it, all the way down: what stands after ``weft``."""
    yield name
    for word, inner in getattr(command, "commands", {}).items():
        yield from names(inner, f"{name} {word}".strip())


def commands() -> str:
    """The help of every command."""
    from typer.main import get_command

    from weft.apps.cli import app

    parts = ["# Commands\n\n" + NOTE + "The output of `--help` for every command.\n"]
    for name in names(get_command(app)):
        arguments = [sys.executable, "-m", "weft", *name.split(), "--help"]
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        found = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
        text = found.stdout.rstrip()
        parts.append(f"## weft {name}".rstrip() + f"\n\n```\n{text}\n```\n")
    return "\n".join(parts)


def settings() -> str:
    """Every setting, its default and what it means; of a stack, first the recurrent kinds, then the Transformer."""
    from weft.recipe import Recipe, TransformerDecoderSettings, TransformerEncoderSettings
    from weft.recipe.toml import settings_of

    parts = [
        "# Settings\n\n" + NOTE + "Written in a recipe (TOML), or given as `--set NAME=VALUE`.\n",
        "`model.encoder.kind` and `model.decoder.kind` say which settings a stack has; those of kind "
        "`transformer`\nare at the end.\n",
    ]
    for table, found in _by_table(settings_of(Recipe())).items():
        recurrent = " of kind `rnn`, `gru` or `lstm`" if table in ("model.encoder", "model.decoder") else ""
        parts += [f"## `[{table}]`{recurrent}\n" if table else "## Outside of tables\n", _table(found)]
    parts += [
        "## `[model.encoder]` of kind `transformer`\n",
        "`attention` is a kind of encoder too: a Transformer without feed-forward networks. It has the same settings "
        "and makes\nno use of `feed_forward`, `activation` and `activation_dropout`.\n",
        _table(settings_of(TransformerEncoderSettings(), "model.encoder.")),
        "## `[model.decoder]` of kind `transformer`\n",
        "Also the one stack of a `prefix_lm`, and of a Transformer `language_model`. It brings its own attention: "
        "`[model.attention]`\nand `model.bridge` are for recurrent decoders.\n",
        _table(settings_of(TransformerDecoderSettings(), "model.decoder.")),
    ]
    return "\n".join(parts)


def _by_table(found: Iterable[Setting]) -> dict[str, list[Setting]]:
    """The settings of each table of a recipe, in order."""
    tables: dict[str, list[Setting]] = {}
    for setting in found:
        tables.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    return tables


def _table(found: Iterable[Setting]) -> str:
    from weft.recipe.toml import toml_value

    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for setting in found:
        default = "" if setting.default is None else f"`{toml_value(setting.default)}`"
        meaning = re.sub(r"\bdocs/([\w-]+\.md)", r"[\1](\1)", setting.meaning).replace("|y|", "\\|y\\|")
        rows.append(f"| `{setting.name}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


IN_MODULES = (
    "weft.translation.results.PairScore",
    "weft.translation.results.WordAttention",
    "weft.translation.results.HeadAttention",
    "weft.translation.results.CopiedTokens",
    "weft.training.events",
    "weft.pairs.train.Evaluated",
    "weft.pairs.distillation.corpora.TargetsWritten",
    "weft.pairs.distillation.targets.WrittenOutputs",
    "weft.evaluation.summary.summarize",
    "weft.data.preparation.prepare.prepare",
    "weft.models.interface.Model",
    "weft.pictures.attention_map.draw_map",
    "weft.text.tokenizer.Tokenizer",
    "weft.text.tokenizer.Tokenizers",
    "weft.text.tokenizer.learn",
    "weft.text.tokenizer.load",
    "weft.interop.importing.import_model",
    "weft.interop.export.export_run",
    "weft.apps.serve.app.create_app",
)
"""Documented names beyond those of ``weft``: types that they return or take, and functions of modules."""

PROBES = {
    "repeat": "weft.apps.probes.repeat.repeat",
    "nonsense": "weft.apps.probes.nonsense.nonsense",
    "bias": "weft.apps.probes.bias.bias",
    "trace_table": "weft.apps.probes.table.trace_table",
    "ProbeResult": "weft.apps.probes.result.ProbeResult",
}
"""The members of `weft.probes`, and where they are."""


def api() -> str:
    """The public names of ``weft``, in the order of ``weft._MODULES``; mkdocstrings puts their documentation there.

    The names are loaded lazily, so a static reader of the source does not find them in ``weft`` itself: each is
    referred to by the module that holds it.
    """
    import weft

    parts = [
        "# Python API\n\n" + NOTE + "::: weft\n    options:\n      members: false\n      show_root_heading: false\n",
        *(f"::: {home}.{name}\n    options:\n      heading: weft.{name}\n" for name, home in weft._MODULES.items()),
        "::: weft.errors\n    options:\n      members: false\n",
        "::: weft.labs\n    options:\n      members: false\n",
        "::: weft.apps.labs.lab.LabResult\n    options:\n      heading: weft.labs.LabResult\n",
        "::: weft.probes\n    options:\n      members: false\n",
        *(f"::: {home}\n    options:\n      heading: weft.probes.{name}\n" for name, home in PROBES.items()),
        "# In modules\n\nTypes that these functions return or take, and functions to import from their modules.\n",
        *(f"::: {name}\n" for name in IN_MODULES),
    ]
    return "\n".join(parts)


def main() -> int:
    stale = []
    for name, text in (("commands.md", commands()), ("settings.md", settings()), ("api.md", api())):
        path = DOCS / name
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            stale.append(str(path))
    for path_name in stale:
        print(f"{path_name}: not what the program says; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
