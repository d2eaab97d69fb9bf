"""Notebooks: runs their cells and stores the outputs; makes pages of them, and them of Markdown.

    python tools/notebook.py docs/tour.ipynb                                    run all cells, store their outputs
    python tools/notebook.py docs/tour.ipynb --page build/pages/docs/tour.md    nothing is run

A cell is run as Jupyter runs it: what it prints and the value of its last expression are its outputs; a line
``!weft …`` is a command. That is all these notebooks need, and it takes no Jupyter.

`tools/course.py` makes notebooks of Markdown files: blocks of ``python`` and ``sh`` become cells. A block of ``text``
right after one of these is its output, which the notebook will have itself; ``math`` becomes ``$$…$$``; pictures become
attachments.
"""

from __future__ import annotations

import argparse
import ast
import base64
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

Cell = dict[str, Any]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n?", flags=re.M | re.S)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def source_of(cell: Cell) -> str:
    return "".join(cell["source"])


def run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the code of a cell; its outputs, as a notebook stores them."""
    if source.startswith("!"):
        return run_commands(source)
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    outputs = printed_output(printed.getvalue())
    if value is not None:
        data = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    return outputs


def run_commands(source: str) -> list[dict[str, Any]]:
    """Run lines such as ``!weft trace …``, in this process; what they print on stdout."""
    from weft.apps.cli import app

    printed = io.StringIO()
    for line in source.splitlines():
        name, *arguments = shlex.split(line.removeprefix("!"), comments=True)
        if name != "weft":
            raise ValueError(f"{line}: expected a command of weft")
        with redirect_stdout(printed):
            app(args=arguments, standalone_mode=False)
    return printed_output(printed.getvalue())


def printed_output(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []


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
    write(notebook, path)


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


class Block(NamedTuple):
    """A fenced block, or what stands between two of them."""

    language: str
    """Empty: prose."""
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a Markdown page, in order."""
    pieces = FENCE.split(page)  # prose, language, code, prose, …
    parts = [Block("", pieces[0])]
    for language, code, prose in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        parts += [Block(language, code), Block("", prose)]
    return [block for block in parts if block.language or block.text.strip()]


def from_markdown(page: str, folder: Path) -> dict[str, Any]:
    """A notebook of a Markdown page; the pictures are read from where the page has them, relative to the folder.

    Answers, which are ``<details>`` in the page, stay folded: their text in a ``<details>`` of its cell, their code in
    cells whose source is hidden.
    """
    cells: list[Cell] = []
    prose, answer = "", ""
    for block in blocks(page):
        if block.language in ("python", "sh"):
            made, answer = _prose_cells(prose, folder, answer)
            cells += [*made, _code_cell(block, hidden=bool(answer))]
            prose = ""
        elif block.language == "math":
            prose += f"$$\n{block.text}$$\n"
        elif block.language == "text" and not prose.strip():
            continue  # the output of the cell before
        else:
            prose += f"```{block.language}\n{block.text}```\n" if block.language else block.text
    cells += _prose_cells(prose, folder, answer)[0]
    return of_cells(cells)


def of_cells(cells: list[Cell]) -> dict[str, Any]:
    """A notebook of cells, which get their numbers here."""
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    numbered = [{"metadata": {}, **cell, "id": f"cell-{number}"} for number, cell in enumerate(cells, 1)]
    return {"cells": numbered, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def code_cell(code: str) -> Cell:
    return {"cell_type": "code", "source": _lines(code), "execution_count": None, "outputs": []}


def _code_cell(block: Block, *, hidden: bool) -> Cell:
    lines = block.text.rstrip("\n").splitlines()
    cell = code_cell("\n".join(f"!{line}" if block.language == "sh" else line for line in lines))
    return {**cell, "metadata": {"jupyter": {"source_hidden": True}, "tags": ["answer"]}} if hidden else cell


def _prose_cells(prose: str, folder: Path, answer: str) -> tuple[list[Cell], str]:
    """The cells of a piece of prose, and the title of the answer that it ends in, if it ends in one."""
    cells = []
    for piece in re.split(r"(<details markdown>\n<summary>.*?</summary>\n|</details>\n?)", prose):
        if piece.startswith("<details"):
            answer = re.findall(r"<summary>(.*?)</summary>", piece)[0]
        elif piece.startswith("</details>"):
            answer = ""
        elif piece.strip():
            text = f"<details>\n<summary>{answer}</summary>\n\n{piece.strip()}\n\n</details>" if answer else piece
            cells.append(_markdown_cell(text, folder))
    return cells, answer


def _markdown_cell(prose: str, folder: Path) -> Cell:
    """A link to a chapter is one to its notebook; pictures become attachments."""
    prose = re.sub(r"\]\((\d\d-[a-z-]+)\.md", r"](\1.ipynb", prose)
    attachments = {}
    for path in (folder / target for _, target in PICTURE.findall(prose)):
        attachments[path.name] = {TYPES[path.suffix]: base64.b64encode(path.read_bytes()).decode()}
    prose = PICTURE.sub(lambda match: f"![{match[1]}](attachment:{Path(match[2]).name})", prose)
    cell: Cell = {"cell_type": "markdown", "source": _lines(prose.strip())}
    return {**cell, "attachments": attachments} if attachments else cell


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write(notebook: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="notebooks")
    parser.add_argument("--page", type=Path, help="write this Markdown file instead of running the cells")
    arguments = parser.parse_args()
    if arguments.page is not None:
        [path] = arguments.files
        arguments.page.write_text(markdown(read(path)), "utf-8")
    else:
        for path in arguments.files:
            execute(path)


if __name__ == "__main__":
    main()
