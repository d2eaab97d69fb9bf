"""``weft translate --ray``: what is refused before a cluster is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Refusal = Callable[..., str]


@pytest.fixture
def run(runs: Callable[[str], Path]) -> Path:
    return runs("lstm")


def test_refusals(refusal: Refusal, run: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "folder" / "a.txt"
    second.parent.mkdir()
    first.write_text("a\n")
    second.write_text("b\n")
    assert refusal("translate", run, first, second) == f"{second}: a second file; only --ray translates several files"
    message = refusal("translate", run, "--ray", "local", "--output", tmp_path / "out")
    assert message == "--ray: needs files; the workers of a cluster cannot read standard input"
    message = refusal("translate", run, first, "--ray", "local")
    assert message == "--ray local: needs --output DIR, the folder of the outputs"
    message = refusal("translate", run, first, second, "--ray", "local", "--output", tmp_path / "out")
    assert message == f"{second}: has the name of {first}, and so would its output; rename one"
    message = refusal("translate", run, first, tmp_path / "none", "--ray", "local", "--output", tmp_path / "out")
    assert message == f"{tmp_path / 'none'}: no such file"
    message = refusal("translate", run, first, "--ray", "local", "--output", tmp_path / "out", "--bad-lines", "skip")
    assert message == "--bad-lines skip: not with --ray, which does not count skipped lines; use --part"
    message = refusal("translate", run, first, "--ray", "local", "--output", second)
    assert message == f"--output {second}: is a file; with --ray the outputs are written to a folder"


def test_blocks_of_something_else(refusal: Refusal, run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "a.txt", tmp_path / "out"
    source.write_text("a\n")
    (output / ".blocks").mkdir(parents=True)
    (output / ".blocks" / "about.json").write_text('{"weights": ["x"]}')
    message = refusal("translate", run, source, "--ray", "local", "--output", output)
    assert message.startswith(f"{output}: translated in part with other weights, ")
    assert message.endswith(f"remove {output / '.blocks'} to start again")
