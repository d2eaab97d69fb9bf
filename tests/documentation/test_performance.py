"""docs/performance.md: what tools/performance.py writes into it, and charts that are there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fixtures.costs import make_scale
from fixtures.scripts import load_script
from weft.apps.bench.records import record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/performance.md"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, which writes into another folder."""
    module = load_script(ROOT / "tools/performance.py")
    for name, path in {"ROOT": tmp_path, "PAGE": tmp_path / "page.md", "IMAGES": tmp_path / "images"}.items():
        monkeypatch.setattr(module, name, path)
    (tmp_path / "page.md").write_text(PAGE.read_text("utf-8"), "utf-8")
    return module


def test_the_page_has_every_section_and_its_charts() -> None:
    module = load_script(ROOT / "tools/performance.py")
    text = PAGE.read_text("utf-8")
    assert re.findall(r"<!-- scale: ([\w-]+) -->", text) == list(module.SECTIONS)
    used = set(re.findall(r"images/performance/([\w-]+\.svg)", text))
    assert used == {path.name for path in module.IMAGES.glob("*.svg")}


def test_a_section_is_replaced(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "scale.json"
    file.write_text(json.dumps(record(make_scale())), "utf-8")
    monkeypatch.setattr(sys, "argv", ["performance.py", f"gpu-rnn={file}"])
    tool.main()
    first = tool.PAGE.read_text("utf-8")
    tool.main()
    assert tool.PAGE.read_text("utf-8") == first  # not twice
    section = first[first.index("<!-- scale: gpu-rnn -->") :]
    assert "weft bench scale multi30k-rnn --device cuda" in section and "1,234,567 parameters" in section
    assert "| update, batch size | 1–64 | 12–138 | 10 | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] |" in section
    assert "| step, batch size | 1–2 | 4–5 | – | too few sizes: 2 | – | – | 0% | 60% |" in section
    assert [path.name for path in tool.IMAGES.iterdir()] == ["gpu-rnn-time-batch.svg"]


@pytest.mark.parametrize("given", ["gpu-rnn=nowhere.json", "other=scale.json"])
def test_refusals(tool: ModuleType, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["performance.py", given])
    with pytest.raises(SystemExit) as ended:
        tool.main()
    assert ended.value.code == 2
