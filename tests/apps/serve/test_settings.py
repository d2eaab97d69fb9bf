"""Settings of a service, without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weft.apps.serve.settings import ServeSettings, make_settings
from weft.errors import RecipeError


@pytest.mark.parametrize("pair", ["en", "en-", "-fr", "zh-Hans-en", "a:b:c"])
def test_languages_that_are_no_pair(pair: str) -> None:
    with pytest.raises(RecipeError, match=r"serve: languages: .* expected .*SOURCE-TARGET, such as en-fr"):
        make_settings({"languages": [pair]})


def test_importing_them_imports_no_torch() -> None:
    code = "import sys, weft.apps.serve, weft.apps.serve.limits, weft.apps.serve.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_line": 3}, "serve: max_line: unknown setting; did you mean 'max_lines'?"),
        ({"max_lines": 0}, "serve: max_lines: 0 was given; expected greater than or equal to 1"),
        ({"max_lines": "3"}, "serve: max_lines: '3' was given; expected a valid integer"),
        ({"log": "all"}, "serve: log: 'all' was given; expected 'errors', 'requests' or 'texts'"),
        ({"hosts": "a"}, """serve: hosts: 'a' was given; expected a list, for example --set 'hosts=["a"]'"""),
        ({"deadline": float("nan")}, "serve: deadline: nan was given"),
    ],
)
def test_what_is_wrong(changes: dict[str, object], words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        make_settings(changes)
    assert str(caught.value).startswith(words)


def test_every_setting_is_described_and_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "serving.md").read_text("utf-8")
    for name, field in ServeSettings.model_fields.items():
        assert field.description, name
        assert f"| `{name}` |" in text, name
