"""Slides of a chapter of the course, as one HTML file that loads nothing and can be printed.

From each paragraph of the chapter a slide shows the first sentence; equations, tables, code, outputs, pictures and the
questions of exercises are shown as they are, answers are left out. `tools/course.py slides` calls it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import markdown
import notebook
from equations import with_mathml

FULL = 13.0
"""Lines of text that a slide holds."""
LETTERS, CODE_HEIGHT = 17, 480.0
"""Pixels of the letters of code, at most, and of the height of a block of code that fills a slide."""
ANSWER = re.compile(r"^<details markdown>.*?^</details>\n", flags=re.M | re.S)
SENTENCE = re.compile(r"(?<=[.?!])\**\s+(?=[A-Z*$`\"(])")
STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --page: #fff; --faint: #52606d; --code: #f4f6f8; --line: #d9dee5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --page: #14171d; --faint: #b8c1cc; --code: #242a35; --line: #3b4252; }
}
@page { size: 13.333in 7.5in; margin: 0; }
html { scroll-snap-type: y proximity; }
body { margin: 0; background: var(--page); color: var(--ink); font: 24px/1.4 system-ui, sans-serif;
  counter-reset: slide; }
section { box-sizing: border-box; min-height: 100vh; padding: 3vh 6vw 8vh; scroll-snap-align: start; position: relative;
  display: flex; flex-direction: column; justify-content: center; border-bottom: 1px solid var(--line);
  counter-increment: slide; }
section::after { content: attr(data-chapter) " · " counter(slide); position: absolute; right: 2vw; bottom: 2vh;
  font-size: 14px; color: var(--faint); }
h1 { font-size: 54px; margin: 0 0 0.4em; } h2 { font-size: 34px; margin: 0 0 0.5em; color: #2b6cb0; }
li { margin: 0.25em 0; } pre { background: var(--code); padding: 0.6em 0.9em; border-radius: 6px; overflow-x: auto;
  font-size: 17px; line-height: 1.3; margin: 0.4em 0; white-space: pre-wrap; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; } li code, td code { font-size: 0.85em; }
table { border-collapse: collapse; font-size: 20px; }
td, th { border-bottom: 1px solid var(--line); padding: 0.25em 0.7em; }
p:has(> img) { margin: 0; text-align: center; }
img { height: 66vh; max-width: 100%; object-fit: contain; background: #fff; border-radius: 6px; }
.equation { margin: 0.4em 0; } div.equation { display: flex; flex-wrap: wrap; gap: 0 2.5em; }
@media print {
  :root { --ink: #1f2933; --page: #fff; --faint: #52606d; --code: #f4f6f8; --line: #d9dee5; }
  section { height: 7.5in; min-height: 0; break-after: page; border: 0; overflow: hidden; }
}
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Element(NamedTuple):
    """A piece of a slide."""

    source: str
    """Markdown; of a bullet, without its mark."""
    lines: float
    is_bullet: bool = False


def make_slides(page: str, folder: Path) -> str:
    """The slides of a page as HTML; pictures are read relative to the folder, and are inside."""
    page = ANSWER.sub("", page)
    title, _, rest = page.partition("\n")
    title = title.removeprefix("# ")
    introduction, *sections = re.split(r"^## (.*)$\n", rest, flags=re.M)
    slides = list(_slides(f"# {title}", introduction, folder))
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        slides += _slides(f"## {heading}", text, folder)
    body = "\n".join(f'<section data-chapter="{_text(title)}">\n{slide}\n</section>' for slide in slides)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{_text(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _slides(heading: str, text: str, folder: Path) -> Iterator[str]:
    """The elements of a section in slides, each with its heading."""
    content: list[Element] = []
    for element in _elements(text):
        if content and sum(part.lines for part in content) + element.lines > FULL:
            yield _html(heading, content, folder)
            content = []
        content.append(element)
    yield _html(heading, content, folder)


def _elements(text: str) -> Iterator[Element]:
    for block in notebook.blocks(text):
        if block.language:
            count = block.text.count("\n")
            lines = 3.0 if block.language == "math" else 0.5 + count * (0.5 if count > 18 else 0.7)
            yield Element(f"```{block.language}\n{block.text}```", min(lines, FULL))
            continue
        for paragraph in re.split(r"\n\s*\n", block.text.strip()):
            yield from _of_paragraph(paragraph)


def _of_paragraph(paragraph: str) -> Iterator[Element]:
    if paragraph.startswith("!["):
        yield Element(paragraph, FULL - 1)
    elif paragraph.startswith("|"):
        yield Element(paragraph, min(1.1 * paragraph.count("\n"), FULL))
    elif re.match(r"\*\*\d\*\* ★", paragraph):
        yield _bullet(" ".join(paragraph.split()))
    else:
        for item in re.split(r"^- ", paragraph, flags=re.M):
            if item.strip():
                yield _bullet(_first_sentence(" ".join(item.split())))


def _first_sentence(text: str) -> str:
    """The first sentence, with a bold lead before it; of a reading list, all but the link to the next chapter."""
    if text.startswith("**Reading.**"):
        return text.partition(" **Next:**")[0]
    lead = re.match(r"\*\*[^*]*\*\*\s*", text)
    start = lead.end() if lead else 0
    return text[:start] + SENTENCE.split(text[start:], maxsplit=1)[0]


def _bullet(text: str) -> Element:
    return Element(text, 1.2 + len(text) // 85, is_bullet=True)


def _html(heading: str, content: list[Element], folder: Path) -> str:
    """A slide."""
    parts = [heading]
    for element in content:
        parts.append(f"- {element.source}" if element.is_bullet else f"\n{element.source}\n")
    page = notebook.PICTURE.sub(lambda match: _inside(match, folder), with_mathml("\n".join(parts)))
    page = re.sub(r"\]\((?!data:)[^)\s]*\)", lambda match: "](#)", page)  # slides stand alone
    html = markdown.markdown(page, extensions=["fenced_code", "tables", "md_in_html", "sane_lists"])
    html = re.sub(r'<a href="#">(.*?)</a>', r"\1", html, flags=re.S)
    return re.sub(r"<pre>(?=(.*?)</pre>)", _sized, html, flags=re.S)


def _sized(match: re.Match[str]) -> str:
    """A block of code in letters as large as its lines allow."""
    size = min(LETTERS, CODE_HEIGHT / (1.3 * match[1].count("\n")))
    return "<pre>" if size == LETTERS else f'<pre style="font-size: {size:.0f}px">'


def _inside(match: re.Match[str], folder: Path) -> str:
    path = folder / match[2]
    data = base64.b64encode(path.read_bytes()).decode()
    return f"![{match[1]}](data:{notebook.TYPES[path.suffix]};base64,{data})"


def _text(title: str) -> str:
    return title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
