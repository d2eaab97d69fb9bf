"""Runs the example notebook and stores its outputs; with --page, writes it as a page of the documentation site.

    python tools/notebook.py docs/tour.ipynb                                    run all cells, store their outputs
    python tools/notebook.py docs/tour.ipynb --page build/pages/docs/tour.md    nothing is run

A cell is run as Jupyter runs it: what it prints and the value of its last expression are its outputs. That is all this
notebook needs, and it takes no Jupyter.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def source_of(cell: Cell) -> str:
    return "".join(cell["source"])


def run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the code of a cell; its outputs, as a notebook stores them."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    return outputs


def run_cells(sources: list[str]) -> Iterator[list[dict[str, Any]]]:
    """The outputs of each code cell, all run in one namespace and in an empty folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with _empty_folder() as folder:
        for source in sources:
            outputs = run_cell(source, namespace)
            yield json.loads(json.dumps(outputs, ensure_ascii=False).replace(folder, "."))


@contextmanager
def _empty_folder() -> Iterator[str]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield str(Path.cwd())
        finally:
            os.chdir(before)


def execute(path: Path) -> None:
    """Run all cells and store their outputs in the file."""
    notebook = read(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = run_cells([source_of(cell) for cell in cells])
    for number, (cell, made) in enumerate(zip(cells, outputs, strict=True), 1):
        cell["execution_count"] = number
        cell["outputs"] = [
            {**output, "execution_count": number} if output["output_type"] == "execute_result" else output
            for output in made
        ]
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")


def markdown(notebook: dict[str, Any]) -> str:
    """The notebook with its outputs as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(source_of(cell))
            continue
        parts.append(f"```python\n{source_of(cell)}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                parts.append(re.sub(r"\n\s*\n", "\n", "".join(data["text/html"])))
            else:
                text = "".join(output.get("text", data.get("text/plain", [])))
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--page", type=Path, help="write this Markdown file instead of running the cells")
    arguments = parser.parse_args()
    if arguments.page is None:
        execute(arguments.notebook)
    else:
        arguments.page.write_text(markdown(read(arguments.notebook)), "utf-8")


if __name__ == "__main__":
    main()
