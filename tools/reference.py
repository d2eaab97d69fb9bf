"""Writes docs/commands.md and docs/settings.md from the program itself; with --check, says whether they are true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
COMMANDS = (
    "",
    "try",
    "train",
    "translate",
    "attend",
    "evaluate",
    "score",
    "sample",
    "bench",
    "bench train",
    "recipes",
    "recipes show",
    "tokenizer",
    "tokenizer learn",
    "tokenizer apply",
    "tokenizer show",
)
NOTE = "<!-- Written by tools/reference.py; change the program, then run `make docs`. -->\n\n"


def commands() -> str:
    """The help of every command."""
    parts = ["# Commands\n\n" + NOTE + "What `--help` prints.\n"]
    for name in COMMANDS:
        arguments = [sys.executable, "-m", "weft", *name.split(), "--help"]
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        found = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
        text = found.stdout.replace("python -m weft", "weft").rstrip()
        parts.append(f"## weft {name}".rstrip() + f"\n\n```\n{text}\n```\n")
    return "\n".join(parts)


def settings() -> str:
    """Every setting, its default and what it means."""
    from weft.recipe import Recipe, settings_of, toml_value

    rows = []
    for setting in settings_of(Recipe()):
        default = "" if setting.default is None else f"`{toml_value(setting.default)}`"
        rows.append(f"| `{setting.name}` | {default} | {setting.help} |")
    head = "# Settings\n\n" + NOTE + "Written in a recipe (TOML), or given as `--set NAME=VALUE`.\n\n"
    return head + "| setting | default | meaning |\n|---|---|---|\n" + "\n".join(rows).replace("|y|", "\\|y\\|") + "\n"


def main() -> int:
    stale = []
    for name, text in (("commands.md", commands()), ("settings.md", settings())):
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
