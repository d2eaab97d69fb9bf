"""What the documents say is true: files exist, commands parse, recipes tell what they reached."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from weft.cli import app
from weft.recipe import SHIPPED, Recipe, load_recipe, make_recipe, settings_of, shipped, toml_value

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("benchmarks/**/*.md")),
]


def commands_in(text: str) -> list[str]:
    """Lines of code blocks that call weft."""
    blocks = re.findall(r"```(?:sh|bash|console)?\n(.*?)```", text, flags=re.S)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if re.match(r"(echo .*\| )?weft \w", line)]


CASES = [
    (path.name, line)
    for path in DOCUMENTS
    if path.name != "commands.md"
    for line in commands_in(path.read_text("utf-8"))
]
EPILOGS = [
    (str(SHIPPED / f"{name}.toml"), line[1:].strip())
    for name in shipped()
    for line in (SHIPPED / f"{name}.toml").read_text("utf-8").splitlines()
    if line.startswith("#   weft")
]


@pytest.mark.parametrize(("where", "line"), CASES + EPILOGS)
def test_commands_parse(where: str, line: str) -> None:
    """Every command shown has the options and arguments it names; nothing is run."""
    for part in re.split(r"\s&&\s|\|", line):
        words = shlex.split(re.split(r"\s{2,}", part.strip())[0], comments=True)
        if not words or words[0] != "weft":
            continue
        command, rest = get_command(app), words[1:]
        while rest and hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context("weft", list(rest))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_linked_files_exist(path: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    for name in re.findall(r"`([\w/*.-]+\.(?:py|toml))`", text):
        assert list((ROOT / "src/weft").glob(name)), name
    for name in re.findall(r"`([a-z]+/)`", text):
        assert (ROOT / "src/weft" / name).is_dir(), name


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
            assert full in known or full in groups or name in ("py", "json", "toml", "safetensors"), (
                f"{path.name}: {full}"
            )


def test_the_settings_of_both_families_are_listed() -> None:
    """Each once, with its default and its help; the encoder's and the decoder's Transformer in tables of their own."""
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    main, encoder, decoder = re.split(r"^## ", text, flags=re.M)
    assert (
        encoder.startswith("`[model.encoder]` of kind `transformer`\n")
        and "`attention` is a kind of encoder" in encoder
    )
    assert decoder.startswith("`[model.decoder]` of kind `transformer`\n")
    transformer = make_recipe({}, ["model.encoder.kind=transformer", "model.decoder.kind=transformer"])
    for part, recipe, prefix in (
        (main, Recipe(), ""),
        (encoder, transformer, "model.encoder."),
        (decoder, transformer, "model.decoder."),
    ):
        wanted = [setting for setting in settings_of(recipe) if setting.name.startswith(prefix)]
        rows = [re.split(r" \| ", line[2:-2]) for line in part.splitlines() if line.startswith("| `")]
        assert [name for name, *_ in rows] == [f"`{setting.name}`" for setting in wanted]
        for (_, default, *meaning), setting in zip(rows, wanted, strict=True):
            assert default == ("" if setting.default is None else f"`{toml_value(setting.default)}`")
            assert " | ".join(meaning).replace("\\|", "|") == setting.help


def test_no_registry_is_named() -> None:
    """Packages are named, never the hosts they come from."""
    host = re.compile("py" + r"pi\.(org|python)|python" + r"hosted|registry\." + "npm")
    for path in [
        *ROOT.glob("*"),
        *ROOT.glob("src/**/*"),
        *ROOT.glob("docs/*"),
        *ROOT.glob("benchmarks/**/*"),
        *ROOT.glob(".ci/*"),
    ]:
        if path.is_file() and path.suffix in (".py", ".md", ".toml", ".txt", ".sh", ""):
            assert not host.search(path.read_text("utf-8", errors="ignore")), path
