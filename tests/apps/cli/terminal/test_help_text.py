"""Help: nothing is cut, examples can be pasted, names are plain."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from weft.apps.cli import COMMANDS, SECTIONS
from weft.apps.cli.commands.data import TASK_NAMES
from weft.tasks import TASKS


@pytest.fixture
def help_of(command: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: command(*words, "--help")[0]


def test_the_list_of_commands_has_whole_sentences(help_of: Callable[..., str]) -> None:
    text = help_of()
    summaries = text.split("Show this message and exit.\n")[1]
    assert summaries.count(".\n") == len(COMMANDS) and "..." not in summaries
    assert "  Start here:  weft try\n" in text
    assert "..." not in help_of("data").split("Commands:\n")[1]


def test_commands_are_listed_in_sections(help_of: Callable[..., str]) -> None:
    listed: dict[str, list[str]] = {}
    for line in help_of().split("Show this message and exit.\n")[1].split("  Start here")[0].splitlines():
        if match := re.fullmatch(r"(\w.*):", line):
            names = listed.setdefault(match[1], [])
        elif match := re.match(r"  (\S+) ", line):
            names.append(match[1])
    assert listed == {title: list(section) for title, section in SECTIONS.items()}


def test_an_example_stays_in_one_line(help_of: Callable[..., str]) -> None:
    assert help_of("train").endswith(f"\n  Try:  {COMMANDS['train'].example}\n")
    assert help_of("data", "recommend").endswith("recommend pairs.tsv > mine.toml   then   weft train mine.toml\n")


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["translate"], "translate [OPTIONS] RUN [FILE]..."),
        (["compare"], "compare [OPTIONS] RUN RUN..."),
        (["evaluate"], "evaluate [OPTIONS] RUN [PAIRS]"),
        (["train"], "train [OPTIONS] [PAIRS|RECIPE]"),
        (["tokenizer", "learn"], "tokenizer learn [OPTIONS] FILE..."),
        (["data"], "data [OPTIONS] COMMAND [ARGS]..."),
    ],
)
def test_usage(help_of: Callable[..., str], words: list[str], usage: str) -> None:
    text = help_of(*words)
    assert text.startswith(f"Usage: weft {usage}\n")
    assert " range>" not in text and "list[" not in text


def test_arguments_are_listed_by_their_names(help_of: Callable[..., str]) -> None:
    text = help_of("translate")
    assert "\n  RUN   A run folder.  [required]\n  FILE  One source per line;" in text
    assert "\n  --n-best <int> " in text


def test_the_help_lists_the_built_in_corpora(help_of: Callable[..., str]) -> None:
    assert TASK_NAMES.replace(" or ", ", ").split(", ") == [*TASKS]
    assert TASK_NAMES in " ".join(help_of("data", "generate").split())
