"""What the documents say is true: files exist, commands parse, recipes tell what they reached."""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import weft
from weft.apps.cli import app
from weft.errors import WeftError
from weft.recipe import SHIPPED, Recipe, load_recipe, make_recipe, shipped
from weft.recipe.toml import settings_of, toml_value

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted(ROOT.glob("benchmarks/**/*.md")),
]


def commands_in(text: str) -> list[str]:
    """Lines of code blocks that call weft."""
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, flags=re.M | re.S)
    blocks = [block for language, block in fences if language in ("", "sh", "bash", "console")]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if re.match(r"(echo .*\| )?weft \w", line)]


CASES = [
    (path.name, line)
    for path in DOCUMENTS
    if path.name != "commands.md"
    for line in commands_in(path.read_text("utf-8"))
]
HEADERS = [
    (f"{name}.toml", line[1:].strip())
    for name in shipped()
    for line in (SHIPPED / f"{name}.toml").read_text("utf-8").splitlines()
    if line.startswith("#   ") and re.search(r"\bweft \w", line)
]


def weft_calls(line: str) -> list[list[str]]:
    """The arguments of every call of weft in a line of shell, with explanations after two spaces left out."""
    line = re.sub(r"\s{2,}.*?(\bor: |$)", lambda match: " && " if match.group(1) else "", line)
    line = re.sub(r"\bfor (\w+) in (\w+)[^;]*; do (.*?); done", lambda m: m[3].replace(f"${m[1]}", m[2]), line)
    calls = (shlex.split(part, comments=True) for part in re.split(r"\s&&\s|\||;\s", line))
    return [words[1:] for words in calls if words and words[0] == "weft"]


@functools.cache
def weft_command() -> Any:
    """The command ``weft`` with all those below it, built once."""
    return get_command(app)


def parse(where: str, arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """The command of a call and the values of its parameters; nothing is run."""
    command, rest, name = weft_command(), arguments, ""
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"{where}: {' '.join(arguments)}"
        name, command, rest = f"{name} {rest[0]}".strip(), command.commands[rest[0]], rest[1:]
    try:
        return name, command.make_context("weft", list(rest)).params
    except Exception as error:
        pytest.fail(f"{where}: weft {' '.join(arguments)}: {error}")


def test_commands_parse() -> None:
    """Every command shown has the options and arguments it names."""
    assert len(HEADERS) > 50
    for where, line in CASES + HEADERS:
        calls = weft_calls(line)
        assert calls, f"{where}: {line}"
        for arguments in calls:
            parse(where, arguments)


def test_settings_of_commands_exist() -> None:
    """Every ``--set`` of a command shown is a setting with an allowed value: of the recipe, or of a search."""
    for where, line in CASES + HEADERS:
        for arguments in weft_calls(line):
            name, values = parse(where, arguments)
            changes = [change for change in values.get("changes") or [] if "…" not in change]
            recipe = values.get("recipe") or values.get("name")
            try:
                if name in ("train", "bench train", "bench scale", "data check", "data prepare", "recipes show"):
                    load_recipe(recipe if recipe in shipped() else "grammar", changes)
                elif name == "try":
                    load_recipe("grammar", changes)
                elif name != "data generate":
                    make_recipe({}, changes)
            except WeftError as error:
                pytest.fail(f"{where}: {line}: {error}")


def test_members_of_an_ensemble_are_trained_by_a_command() -> None:
    """A run that a header evaluates is one that a command of the same header trains."""
    for name in shipped():
        trained, evaluated = {f"runs/{name}"}, set[str]()
        for line in (line for where, line in HEADERS if where == f"{name}.toml"):
            for seed in "12345":
                for arguments in weft_calls(re.sub(r"for seed in [1-5 ]+;", f"for seed in {seed};", line)):
                    command, values = parse(name, arguments)
                    if command == "train" and (seed in line.split(";")[0] or "for seed" not in line):
                        trained.add(str(values["out"] or f"runs/{name}"))
                    elif command == "evaluate":
                        evaluated |= {str(values["run"]), *map(str, values["more"] or ())}
        assert evaluated <= trained, f"{name}: {evaluated - trained}"


def test_no_code_in_a_table_has_a_bar() -> None:
    """The site shows the backslash of an escaped bar; a bar without one ends the cell."""
    for path in DOCUMENTS:
        for line in path.read_text("utf-8").splitlines():
            code = re.findall(r"`[^`]*`", line) if line.startswith("|") else []
            assert not [text for text in code if "|" in text], f"{path.name}: {line}"


def test_linked_files_exist() -> None:
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


OLD_NAMES = ("optimiser", "normalisation", "normalise")
"""Settings that the changelog says were renamed."""
GENERATED = ("recipe.toml", "tokenizer.json", "metrics.json", "README.md")
NAMED = re.compile(r"`(?:python |sh |bash )?((?:[\w.-]+/)*[\w*.-]+\.(?:py|toml|md|sh)|(?:[a-z_0-9.]+/)+)(?: [^`]*)?`")
"""A file, or a folder with its slash, in backticks."""
ELSEWHERE = re.compile(r"(runs|prepared|scan|babi|e2e_nlg|django|text2sql|dailydialog)/|mine\.toml|tatoeba|sigmorphon")
"""Files of the reader, in examples."""
REFUSED = ("utils.py",)
"""Named as what the library does not have."""


def exists(name: str, folder: Path) -> bool:
    """Whether a document in this folder may name the file so: from itself, the repository, the library or its tests."""
    roots = (folder, ROOT, ROOT / "src/weft", ROOT / "src", ROOT / "tests")
    return any(list(root.glob(name.rstrip("/"))) for root in roots) or any((ROOT / "src/weft").rglob(name.rstrip("/")))


def test_files_named_in_documents_exist() -> None:
    """Every file and folder that a document names in backticks."""
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in DOCUMENTS
        for name in NAMED.findall(path.read_text("utf-8"))
        if name not in GENERATED + REFUSED and not ELSEWHERE.match(name) and not exists(name, path.parent)
    ]
    assert not missing, "\n".join(missing)


def test_the_map_of_the_architecture_has_every_package() -> None:
    """Each package of weft has its line in ARCHITECTURE.md."""
    packages = {path.parent.name for path in (ROOT / "src/weft").glob("*/__init__.py")}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), flags=re.M)
    assert {name for row in rows for name in re.findall(r"\w+", row)} == packages


def test_modules_named_in_documents_exist() -> None:
    """Every ``weft.package.module`` in backticks, up to its first name that is not a module."""
    for path in DOCUMENTS:
        for dotted in re.findall(r"`(weft\.[a-z_0-9.]+[a-z_0-9])", path.read_text("utf-8")):
            package, *rest = dotted.split(".")[1:]
            if not (ROOT / "src/weft" / package).is_dir():
                continue
            module = ROOT / "src/weft" / package
            if rest:
                inside = module / rest[0]
                assert (
                    inside.is_dir()
                    or inside.with_suffix(".py").exists()
                    or (rest[0] in (module / "__init__.py").read_text("utf-8"))
                ), f"{path.name}: {dotted}"


@pytest.mark.parametrize("name", shipped())
def test_recipes_tell_what_they_reached(name: str) -> None:
    header = "".join(
        line for line in (SHIPPED / f"{name}.toml").read_text("utf-8").splitlines() if line.startswith("#")
    )
    assert f"weft train {name}" in header and "Reached" in header
    assert load_recipe(name).summary


def test_settings_named_in_documents_exist() -> None:
    transformer = make_recipe({}, ["model.encoder.kind=transformer", "model.decoder.kind=transformer"])
    known = {setting.name for recipe in (Recipe(), transformer) for setting in settings_of(recipe)}
    groups = {name.rsplit(".", 1)[0] for name in known if "." in name}
    for path in DOCUMENTS:
        for group, name in re.findall(
            r"`((?:data|tokenizer|model|training|search|evaluation)(?:\.[a-z]+)*)\.([a-z_0-9]+)",
            path.read_text("utf-8"),
        ):
            full = f"{group}.{name}"
            if path.name == "CHANGELOG.md" and name in OLD_NAMES:
                continue
            assert full in known or full in groups or name in ("py", "json", "toml", "safetensors", "npz", "yml"), (
                f"{path.name}: {full}"
            )


def test_settings_stand_below_their_table() -> None:
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    for heading, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S):
        table = re.match(r"`\[(.*)\]`", heading)
        names = re.findall(r"^\| `(.*?)` \|", section, flags=re.M)
        assert names and {name.rpartition(".")[0] for name in names} == {table[1] if table else ""}, heading


@pytest.mark.parametrize("word", ["docker", "faq", "glossary", "cite", "chatbot", "back-translation", "symbols"])
def test_readers_find_a_heading(word: str) -> None:
    """What people search for is in the title of a section."""
    headings = (line.lower() for path in DOCUMENTS for line in path.read_text("utf-8").splitlines() if line[:1] == "#")
    assert any(word in heading for heading in headings)


def test_citations_name_this_version() -> None:
    """CITATION.cff, which hosts of repositories read, and the entry for BibTeX."""
    citation, questions = (ROOT / "CITATION.cff").read_text("utf-8"), (ROOT / "docs/faq.md").read_text("utf-8")
    assert f"\nversion: {weft.__version__}\n" in citation and f"version = {{{weft.__version__}}}" in questions
    [title] = re.findall(r'^title: "(.*)"$', citation, flags=re.M)
    assert f"title   = {{{title}}}" in questions and "\nlicense: Apache-2.0\n" in citation


def test_the_settings_of_both_families_are_listed() -> None:
    """Each once, with its default and its help; the encoder's and the decoder's Transformer in tables of their own."""
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    *tables, encoder, decoder = re.split(r"^## ", text, flags=re.M)
    assert (
        encoder.startswith("`[model.encoder]` of kind `transformer`\n")
        and "`attention` is a kind of encoder" in encoder
    )
    assert decoder.startswith("`[model.decoder]` of kind `transformer`\n")
    transformer = make_recipe({}, ["model.encoder.kind=transformer", "model.decoder.kind=transformer"])
    for part, recipe, prefix in (
        ("".join(tables), Recipe(), ""),
        (encoder, transformer, "model.encoder."),
        (decoder, transformer, "model.decoder."),
    ):
        wanted = [setting for setting in settings_of(recipe) if setting.name.startswith(prefix)]
        rows = [re.split(r" \| ", line[2:-2]) for line in part.splitlines() if line.startswith("| `")]
        rows.sort(key=lambda row: row[0])
        wanted.sort(key=lambda setting: f"`{setting.name}`")
        assert [name for name, *_ in rows] == [f"`{setting.name}`" for setting in wanted]
        for (_, default, *meaning), setting in zip(rows, wanted, strict=True):
            assert default == ("" if setting.default is None else f"`{toml_value(setting.default)}`")
            linked = " | ".join(meaning).replace("\\|", "|")
            assert re.sub(r"\[(\S+\.md)\]\(\1\)", r"docs/\1", linked) == setting.meaning


def project_files() -> list[Path]:
    """All text files of the project: those that git tracks or, in a source distribution, those there are."""
    command = ["git", "-C", str(ROOT), "ls-files"]
    listed = subprocess.run(command, capture_output=True, text=True) if shutil.which("git") else None
    if listed is not None and listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        folders = ("src", "tests", "docs", "benchmarks", "tools", ".github", ".ci")
        paths = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    suffixes = (".py", ".md", ".toml", ".txt", ".sh", ".yml", ".yaml", ".json", "")
    return [path for path in paths if path.is_file() and path.suffix in suffixes]


def test_no_registry_and_no_path_of_a_machine_is_named() -> None:
    """Packages are named, never the hosts they come from; files are named from the repository, never from a machine."""
    host = re.compile("py" + r"pi\.(org|python)|python" + r"hosted|registry\." + "npm")
    machine = re.compile(r"(?<![\w.$}\"'-])/(?:work|tmp|home|root)/\w")
    for path in project_files():
        text = path.read_text("utf-8", errors="ignore")
        assert not host.search(text), path
        if "tests" not in path.relative_to(ROOT).parts:
            assert not machine.search(text), f"{path}: {machine.search(text)}"
