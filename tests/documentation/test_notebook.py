"""The example notebook runs, and its stored outputs are of the kind that its cells give."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fixtures.scripts import load_script

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/tour.ipynb"
LONG, SHORT = "STEPS, PAIRS, TEST = 1_000, 30_000, 200", "STEPS, PAIRS, TEST = 3, 100, 12"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(ROOT / "tools/notebook.py")


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(outputs: list[dict[str, Any]]) -> list[list[str]]:
    return [[output["output_type"], *output.get("data", {})] for output in outputs]


def sections(html: str) -> list[str]:
    """The sections of a report that few pairs have, too: a confidence is fitted to more outputs than there are here."""
    return [heading for heading in re.findall(r"<h2[^>]*>[^<]*", html) if 'id="confidence"' not in heading]


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
def test_every_cell_runs_and_gives_what_is_stored(tool: ModuleType, cells: list[dict[str, Any]]) -> None:
    """All cells as they are, but with fewer steps and pairs: the tour itself takes a minute."""
    sources = [tool.source_of(cell) for cell in cells]
    assert sum(LONG in source for source in sources) == 1
    made = list(tool.run_cells([source.replace(LONG, SHORT) for source in sources]))
    assert [kinds(outputs) for outputs in made] == [kinds(cell["outputs"]) for cell in cells]
    for outputs, cell in zip(made, cells, strict=True):
        for new, stored in zip(outputs, cell["outputs"], strict=True):
            if "text/html" in new.get("data", {}):
                before, after = ("".join(output["data"]["text/html"]) for output in (stored, new))
                assert sections(before) == sections(after)


def test_the_notebook_names_no_folder_of_a_machine() -> None:
    assert not re.search(r'(?<![\w.$}"\'<-])/(?:work|tmp|home|root)/\w', NOTEBOOK.read_text("utf-8"))


def test_it_becomes_a_page(tool: ModuleType, cells: list[dict[str, Any]]) -> None:
    page = tool.markdown(json.loads(NOTEBOOK.read_text("utf-8")))
    assert page.startswith("# A tour") and page.count("```python\n") == len(cells)
    assert page.count('<div class="weft">') == 4 and "<script" not in page
