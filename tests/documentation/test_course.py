"""docs/course: every block of code runs, prints what the chapter says it prints, and becomes a cell of a notebook."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "docs/course").glob("[0-9]*.md"))
NAMES = [path.stem for path in CHAPTERS]
SECTIONS = ["The equation", "In weft", "The picture", "Exercises", "Lab"]
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?"
SHORTER = (
    (re.compile(r"^(weft train .*)$", flags=re.M), r"\1 --set data.train_size=60 --set data.valid_size=4"),
    (re.compile(r"^(weft train .*)--set training.steps=\d+", flags=re.M), r"\1"),
    (re.compile(r"^(weft train .*)$", flags=re.M), r"\1 --set training.steps=2 --set search.max_length=6"),
    (re.compile(r"^(weft train grammar-transformer.*)$", flags=re.M), r"\1 --set model.decoder.layers=1"),
    (re.compile(r'("training": {)"steps": \d+'), r'"search": {"max_length": 6}, \1"steps": 2'),
    (re.compile(r'"training.steps=\d+"'), '"training.steps=2"'),
    (re.compile(r'"train", 3_000\), \("valid", 200'), '"train", 60), ("valid", 4'),
    (re.compile(r'(generate\("grammar", "test", )[\d_]+'), r"\g<1>4"),
    (re.compile(r'"max_nodes": [\d_]+'), '"max_nodes": 3'),
)
"""Hardly any training, and few sentences: for chapters that train a model or use one."""


@pytest.fixture(scope="module")
def course() -> Any:
    """tools/course.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        import course

        yield course
        for name in ("course", "notebook", "equations", "slides", "drawing", "step_diagrams"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all chapters run, one after the other: later ones load what earlier ones trained."""
    return tmp_path_factory.mktemp("course")


def text_of(name: str) -> str:
    return (ROOT / "docs/course" / f"{name}.md").read_text("utf-8")


def uses_a_run(page: str) -> bool:
    return "runs/" in page


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(NUMBER, text)]


def same_but_for_rounding(output: str, shown: str) -> bool:
    return re.sub(NUMBER, "#", output) == re.sub(NUMBER, "#", shown) and numbers(output) == pytest.approx(
        numbers(shown), rel=0.05
    )


def shortened(page: str) -> str:
    for pattern, replacement in SHORTER:
        page = pattern.sub(replacement, page)
    return page


def trainings() -> dict[str, str]:
    """The command that trains each run of the course."""
    return {
        run: line
        for name in NAMES
        for line, run in re.findall(r"^(weft train .* --out (\S+).*)$", shortened(text_of(name)), flags=re.M)
    }


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
@pytest.mark.parametrize("name", NAMES)
def test_every_block_runs(course: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The answers of the exercises check themselves; outputs that no training decides are those shown."""
    monkeypatch.chdir(folder)
    page = text_of(name)
    if uses_a_run(page):
        page = shortened(page)
    for run, command in trainings().items():
        if run in page and command not in page and not Path(run).exists():  # this chapter was selected by itself
            course.notebook.run_commands(f"!{command}")
    for block, output in course.run_page(page):
        if block[3] is not None:
            assert output
            assert uses_a_run(page) or same_but_for_rounding(output, block[4]), output
    for _, target in course.drawn_pictures(page):
        assert (folder / Path(target).name).stat().st_size > 1_000


def check_findings(outputs: dict[str, str]) -> None:
    """What the chapters say in words about trained models, by what their code prints."""
    sentence, shuffled, *_ = outputs["01-language-models"].splitlines()
    assert numbers(sentence)[0] > numbers(shuffled)[0] + 10
    assert numbers(outputs["01-language-models"])[-1] < 25  # the perplexity of the trained model
    translated, *probabilities = re.split(r"\nlog p", outputs["04-encoder-decoder"])
    assert "le roi voit le cheval" in translated and "il m'a entarté" in translated
    right, other, shuffled = (numbers(line)[-1] for line in probabilities)
    assert right > other > shuffled
    plain, attention = numbers(outputs["05-bottleneck"])[-2:]
    assert plain < 70 and attention > 95
    assert "il m'a entarté" in outputs["06-attention"] and "entarté looks at hit" in outputs["06-attention"]
    attention, diagonal = numbers(outputs["08-alignment"])[-2:]
    assert attention < 10 < 30 < diagonal < 45
    greedy, beam, exact = (numbers(line)[0] for line in outputs["09-search"].splitlines()[:3])
    assert greedy < beam < exact
    assert "ne voit pas le cheval blanc" in outputs["13-transformer"]
    (old, rare), (forgotten, learned), (kept, mixed) = (numbers(line) for line in outputs["19-adaptation"].splitlines())
    assert learned < mixed < rare - 3 and forgotten > 1.1 * old > kept


def test_findings_in_the_stored_outputs(course: ModuleType) -> None:
    check_findings({name: "".join(block[4] or "" for block in course.CODE.finditer(text_of(name))) for name in NAMES})


@pytest.mark.slow
def test_findings_of_the_whole_course(course: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of its training: minutes."""
    monkeypatch.chdir(tmp_path)
    check_findings(
        {
            name: "".join(output for block, output in course.run_page(text_of(name)) if block[3] is not None)
            for name in NAMES
        }
    )


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_a_chapter(name: str) -> None:
    """Idea, equation, code, picture, exercise with an answer that is checked, lab; short enough for an evening."""
    page = text_of(name)
    assert re.findall(r"^## (.*)$", page, flags=re.M) == SECTIONS
    assert page.count("```math\n") >= 1 and page.count("![") >= 1 and len(page.splitlines()) <= 260
    check_exercises(page)
    assert "```console\n$ weft " in page.partition("## Lab")[2]
    assert "```text\n```" not in page, "an output that was never stored: run `make course`"


def check_exercises(page: str) -> None:
    """Four to six, from easy to hard; each has an answer, folded, or is a file to implement."""
    exercises = re.findall(r"^\*\*(\d)\*\* (★+) ", page, flags=re.M)
    assert [int(number) for number, _ in exercises] == list(range(1, len(exercises) + 1)) and 4 <= len(exercises) <= 6
    stars = [len(mark) for _, mark in exercises]
    assert stars == sorted(stars) and stars[0] == 1 and stars[-1] == 3
    section = page.partition("## Exercises\n")[2].partition("## Lab\n")[0]
    parts = re.split(r"^\*\*\d\*\* ", section, flags=re.M)[1:]
    for number, part in enumerate(parts, 1):
        assert (f"<summary>Answer {number}</summary>" in part) != ("**To implement.**" in part)
    assert len(re.findall(r"assert|assert_close", section)) >= 2


def test_the_pictures_are_those_that_the_chapters_show() -> None:
    shown = {
        Path(target).name for name in NAMES for target in re.findall(r"\]\(\.\./images/course/(.*?)\)", text_of(name))
    }
    assert shown == {path.name for path in (ROOT / "docs/images/course").iterdir()}


def test_diagrams_are_current_and_shown(course: ModuleType) -> None:
    from fixtures.scripts import load_script

    tool = load_script(ROOT / "tools/diagrams.py")
    shown = {target for name in NAMES for target in re.findall(r"\]\(\.\./images/diagrams/(.*?)\)", text_of(name))}
    assert shown == {f"{name}.svg" for name in tool.DIAGRAMS}
    for name, draw in tool.DIAGRAMS.items():
        text = (ROOT / f"docs/images/diagrams/{name}.svg").read_text("utf-8")
        assert text == draw().svg(), "run python tools/diagrams.py"
        assert "prefers-color-scheme: dark" in text and "<title>" in text
        assert text.count("http") == text.count('xmlns="http://www.w3.org/2000/svg"') == 1


def test_every_lab_belongs_to_a_chapter() -> None:
    from weft.apps.labs import LABS

    named = {lab for name in NAMES for lab in re.findall(r"^\$ weft lab (\w+)$", text_of(name), flags=re.M)}
    listed = (ROOT / "docs/course/index.md").read_text("utf-8")
    assert named == set(LABS) and all(f"`{lab}`" in listed for lab in named)


OPERATORS = set(
    re.findall(
        r"\w+",
        """log exp ln sin cos tanh max min argmax frac sqrt sum prod binom partial left right infty cdot cdots dots
    times odot top mid in le ge ne pm cap cup supseteq approx leftarrow Longrightarrow neg quad qquad lvert rvert lVert
    rVert mathrm text texttt begin end cases bmatrix""",
    )
)


def symbols(page: str) -> set[str]:
    """The letters of the equations, with their accents; names of functions and words are left out."""
    prose = re.sub(r"^```(?:python|sh|text|console)\n.*?^```", "", page, flags=re.M | re.S)
    equations = re.findall(r"^```math\n(.*?)^```|\$([^$\n]+)\$", prose, flags=re.M | re.S)
    plain = re.sub(r"\\(?:mathrm|text(?:tt)?|operatorname)\{[^{}]*\}", " ", " ".join(a or b for a, b in equations))
    pattern = r"\\(?:bar|tilde|hat|mathcal|overrightarrow|overleftarrow)\{\w\}|\\[A-Za-z]+|[A-Za-z]+"
    found = {symbol for symbol in re.findall(pattern, plain) if symbol.lstrip("\\") not in OPERATORS}
    return {symbol for symbol in found if not set(symbol) <= set("ijt")}  # indices, one after another


@pytest.mark.parametrize("name", NAMES)
def test_every_symbol_is_in_the_table(name: str) -> None:
    assert symbols(text_of(name)) - symbols(text_of("symbols")) <= SLIPS.get(name, set())


SLIPS = {"12-self-attention": {"D", "m"}}
"""Letters of a slide that a chapter corrects."""


def test_no_symbol_has_two_rows() -> None:
    rows = [row.split(" | ")[0] for row in re.findall(r"^\| (\$.*)$", text_of("symbols"), flags=re.M)]
    keys = [key for row in rows for key in re.findall(r"\$([^$]+)\$", row)]
    assert len(keys) == len(set(keys)) > 60


def test_equations_become_mathml(course: ModuleType) -> None:
    """Those on lines of their own and those within lines; none has a command that the converter does not know."""
    for name in [*NAMES, "index", "symbols"]:
        page = course.with_mathml(text_of(name))
        prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page, flags=re.M | re.S)
        assert page.count("<math ") == page.count("</math>") > 3 and "$" not in prose and "qquad" not in page, name
        assert not re.findall(r"<m[ion][^>]*>[^<]*\\[^<]*<", page), name


@pytest.mark.parametrize("name", [*NAMES, "index"])
def test_prose_has_no_tags_but_those_of_answers(name: str) -> None:
    """`</w>` in plain text would vanish."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`|\$[^$\n]*\$", "", text_of(name), flags=re.M | re.S)
    assert set(re.findall(r"</?\w[^>]*>", prose)) <= {"<details markdown>", "</details>", "<summary>", "</summary>"}


def test_equations_leave_code_alone(course: ModuleType) -> None:
    assert (
        course.with_mathml("a `$x$` b\n\n```sh\necho $HOME $PATH\n```\n")
        == "a `$x$` b\n\n```sh\necho $HOME $PATH\n```\n"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_becomes_a_notebook(course: ModuleType, name: str) -> None:
    """One cell for each block of code; pictures are inside, answers folded, outputs left to the notebook."""
    page = text_of(name)
    made = course.notebook.from_markdown(page, ROOT / "docs/course")
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]]
    code = [source for kind, source in sources if kind == "code"]
    prose = "\n".join(source for kind, source in sources if kind == "markdown")
    assert code == [
        block[2].rstrip() if block[1] == "python" else "\n".join(f"!{line}" for line in block[2].splitlines())
        for block in course.CODE.finditer(page)
    ]
    assert prose.count("$$") == 2 * page.count("```math\n") and "<summary>Answer 1</summary>" in prose
    assert prose.count("<details>") == prose.count("</details>") >= page.count("<details markdown>")
    answers = "".join(re.findall(r"^<details markdown>.*?^</details>", page, flags=re.M | re.S))
    hidden = [cell for cell in made["cells"] if cell["metadata"].get("tags") == ["answer"]]
    assert len(hidden) == len(re.findall(r"^```(?:python|sh)$", answers, flags=re.M)) > 0
    assert all(cell["metadata"]["jupyter"] == {"source_hidden": True} for cell in hidden)
    assert not re.search(r"<details markdown|```text|\.\./images|\]\(\d\d-[a-z-]*\.md\)", prose)
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    assert sum(len(cell.get("attachments", {})) for cell in made["cells"]) == page.count("](../images/")
    json.dumps(made)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_can_be_opened_by_itself(course: ModuleType, name: str) -> None:
    """It installs weft where it is missing, and trains what earlier chapters trained; both cells are plain Python."""
    made = course.chapter_notebook(text_of(name), ROOT / "docs/course")
    assert [cell["id"] for cell in made["cells"]] == [f"cell-{number}" for number in range(1, len(made["cells"]) + 1)]
    install, second = ("".join(cell["source"]) for cell in made["cells"][:2])
    compile(install, "install", "exec")
    assert '"weft-seq2seq"' in install and "WEFT_WHEEL" in install
    used = {run for run in course.trainings() if run in text_of(name)}
    own = {run for run, command in course.trainings().items() if command in text_of(name)}
    assert {run for run in course.trainings() if f'Path("{run}")' in second} == used - own
    if used - own:
        compile(second, "training", "exec")


def test_the_install_cell_does_nothing_where_weft_is(course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("installs"))
    assert course.notebook.run_cell(course.INSTALL, {}) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_becomes_slides(course: ModuleType, name: str) -> None:
    """Every section, equation, picture and exercise; no answer, no script, nothing from elsewhere."""
    page = text_of(name)
    slides = course.make_slides(page, ROOT / "docs/course")
    sections = slides.split("<section ")[1:]
    assert 8 <= len(sections) <= 24 and all("<h1>" in part or "<h2>" in part for part in sections)
    assert re.findall(r"<h2>(.*?)</h2>", slides)[0] == "The equation" and "<h2>Lab</h2>" in slides
    assert slides.count("<img ") == len(re.findall(r"^!\[", page, flags=re.M)) == slides.count('src="data:image/')
    assert not re.search(r"<script|<link|src=\"(?!data:)|href=|url\(", slides)
    questions = re.sub(r"^<details markdown>.*?^</details>\n", "", page, flags=re.M | re.S)
    assert slides.count("★ ") == questions.count("★ ") and "Answer 1" not in slides
    assert slides.count('<div class="equation">') == questions.count("```math\n")
    assert "@page" in slides and "prefers-color-scheme: dark" in slides and "Content-Security-Policy" in slides


def test_outputs_are_stored(course: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make course` replaces what is shown below a block by what it prints, and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/x").mkdir(parents=True)
    code, trained = "x = 3\nprint(x)\nx + 1\n", "weft train grammar --out runs/x\n"
    page = f"# Title\n\n```python\n{code}```\n\n```text\n7\n```\n\n```sh\n{trained}```\n"
    assert course.updated(page) == page.replace("7\n", "3\n4\n")
