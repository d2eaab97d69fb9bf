"""The course: runs its chapters, and makes pages of the documentation site of them.

    python tools/course.py run [CHAPTER...]                outputs go into docs/course, pictures into docs/images/course
    python tools/course.py site build/pages/docs/course    equations as MathML; notebooks and slides beside chapters
    python tools/course.py notebooks build/notebooks       a notebook of each chapter
    python tools/course.py slides build/slides             slides of each chapter

Chapters are run in order, in build/course. A model that `weft train` has trained there is not trained again; delete the
folder to start anew. A block of ``text`` after a block of ``python`` or ``sh`` is replaced by what that block printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import notebook
from equations import with_mathml
from slides import make_slides

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = ROOT / "docs/course"
PICTURES = ROOT / "docs/images/course"
FOLDER = ROOT / "build/course"
CODE = re.compile(r"^```(python|sh)\n(.*?)^```\n(\s*^```text\n(.*?)^```$)?", flags=re.M | re.S)
"""A block that is run and, if it stands there, the block of its output."""

INSTALL = """\
# Installs weft if it is missing, as in a hosted notebook. WEFT_WHEEL may name a wheel to install instead.
import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("weft") is None:
    package = os.environ.get("WEFT_WHEEL", "weft-seq2seq")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", package], check=True)"""
"""The first cell of every notebook."""
TRAINED_BY_PYTHON = ("language-model", "base", "new", "mixed")
"""Runs that code of a chapter trains in seconds, and does not expect to be there."""


def chapters() -> list[Path]:
    return sorted(CHAPTERS.glob("[0-9]*.md"))


def printed(outputs: list[dict[str, Any]]) -> str:
    """The outputs of a cell as text."""
    texts = ("".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs)
    return "".join(f"{text.rstrip()}\n" for text in texts if text.strip())


def run_page(page: str) -> Iterator[tuple[re.Match[str], str]]:
    """Run every block of code of a page in the current folder: where it stands, and what it printed."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in CODE.finditer(page):
        source = block[2]
        if block[1] == "sh":
            lines = (line for line in source.splitlines() if not is_trained(line))
            source = "\n".join(f"!{line}" for line in lines)
        yield block, printed(notebook.run_cell(source, namespace))


def drawn_pictures(page: str) -> list[tuple[str, str]]:
    """The pictures that the code of a page draws; diagrams are drawn by tools/diagrams.py."""
    return [(label, target) for label, target in notebook.PICTURE.findall(page) if "/diagrams/" not in target]


def is_trained(command: str) -> bool:
    """Whether this is a `weft train` whose run is there already."""
    words = shlex.split(command, comments=True)
    return words[:2] == ["weft", "train"] and Path(words[words.index("--out") + 1]).is_dir()


def updated(page: str) -> str:
    """The page with the outputs that its code has now."""
    parts, end = [], 0
    for block, output in run_page(page):
        if block[3] is not None:
            parts += [page[end : block.start(4)], output]
            end = block.end(4)
    return "".join((*parts, page[end:]))


def run(paths: list[Path]) -> None:
    """Run chapters, and store their outputs and pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    os.chdir(FOLDER)
    for path in paths:
        print(path.name, file=sys.stderr)
        for name in TRAINED_BY_PYTHON:
            shutil.rmtree(f"runs/{name}", ignore_errors=True)
        page = path.read_text("utf-8")
        path.write_text(updated(page), "utf-8")
        for _, target in drawn_pictures(page):
            shutil.copyfile(Path(target).name, PICTURES / Path(target).name)


def trainings() -> dict[str, str]:
    """The command that trains each run of the course."""
    pages = "".join(path.read_text("utf-8") for path in chapters())
    return {run: line for line, run in re.findall(r"^(weft train .* --out (\S+).*)$", pages, flags=re.M)}


def chapter_notebook(page: str, folder: Path) -> dict[str, Any]:
    """The notebook of a chapter: installs weft if it is missing, trains what earlier chapters trained, and begins."""
    made = notebook.from_markdown(page, folder)
    runs = {run: command for run, command in trainings().items() if run in page and command not in page}
    cells = [notebook.code_cell(INSTALL), *([notebook.code_cell(_training(runs))] if runs else []), *made["cells"]]
    return notebook.of_cells(cells)


def _training(runs: dict[str, str]) -> str:
    """Code that trains the runs that are not there."""
    lines = [
        "# Trained in earlier chapters; a few minutes each, once.",
        "import subprocess",
        "import sys",
        "from pathlib import Path",
        "",
        'weft_command = [sys.executable, "-m", "weft"]  # "weft" need not be on the PATH',
    ]
    for run, command in runs.items():
        arguments = json.dumps(shlex.split(command)[1:], ensure_ascii=False)
        lines += [f'if not Path("{run}").is_dir():', f"    subprocess.run([*weft_command, *{arguments}], check=True)"]
    return "\n".join(lines)


def make_notebooks(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in chapters():
        made = chapter_notebook(path.read_text("utf-8"), path.parent)
        notebook.write(made, folder / path.with_suffix(".ipynb").name)


def make_all_slides(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in chapters():
        slides = make_slides(path.read_text("utf-8"), path.parent)
        (folder / path.with_suffix(".html").name).write_text(slides, "utf-8")


def make_site(folder: Path) -> None:
    """Rewrite the copies of the chapters for the documentation site."""
    for path in sorted(folder.glob("*.md")):
        page = path.read_text("utf-8")
        if path.name[0].isdigit():
            name, slides = path.with_suffix(".ipynb").name, f"{path.stem}-slides.html"
            notebook.write(chapter_notebook(page, folder), folder / name)
            (folder / slides).write_text(make_slides(page, folder), "utf-8")
            title, rest = page.split("\n", 1)
            page = f"{title}\n\n*This chapter [as a notebook]({name}), [as slides]({slides})*\n{rest}"
        path.write_text(with_mathml(page), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "site", "notebooks", "slides"))
    parser.add_argument("paths", type=Path, nargs="*", help="chapters; for the others, the folder to write to")
    arguments = parser.parse_args()
    if arguments.action == "run":
        run([path.resolve() for path in arguments.paths] or chapters())
    else:
        [folder] = arguments.paths
        {"site": make_site, "notebooks": make_notebooks, "slides": make_all_slides}[arguments.action](folder)


if __name__ == "__main__":
    main()
