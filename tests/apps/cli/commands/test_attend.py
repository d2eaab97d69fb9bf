"""``weft attend`` of layers and heads: which are shown, where pictures go, and what there is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]
WORDS = ("a b c", "--target", "b a")


class TestOneMap:
    @pytest.mark.parametrize(
        ("options", "title"),
        [
            (["--layer", "1"], "cross, layer 1, mean of 2 heads"),
            (["--layer", "2", "--head", "1"], "cross, layer 2, head 1"),
            (["--head", "2"], "cross, layer 2, head 2"),
            (["--kind", "cross"], "cross, layer 2, mean of 2 heads"),
            (["--kind", "encoder"], "encoder, layer 2, mean of 2 heads"),
            (["--kind", "decoder", "--layer", "1", "--head", "2"], "decoder, layer 1, head 2"),
        ],
    )
    def test_which(self, command: Command, runs: Runs, options: list[str], title: str) -> None:
        text, _ = command("attend", runs("transformer"), *WORDS, *options)
        first, blank, *picture = text.splitlines()
        assert (first, blank) == (title, "") and len(picture) >= 3

    @pytest.mark.parametrize(
        ("kind", "rows", "columns"),
        [
            ("cross", ["b", "a", "</s>"], ["a", "b", "c", "</s>"]),
            ("encoder", ["a", "b", "c", "</s>"], ["a", "b", "c", "</s>"]),
            ("decoder", ["b", "a", "</s>"], ["<s>", "b", "a"]),
        ],
    )
    def test_who_looks_at_what(
        self, command: Command, runs: Runs, kind: str, rows: list[str], columns: list[str]
    ) -> None:
        lines = command("attend", runs("transformer"), *WORDS, "--kind", kind)[0].splitlines()
        assert [line.split()[-1] for line in lines if "┌" in line] == columns
        said = [line.split()[0] for line in lines[2:] if line.strip() and "┌" not in line]
        assert said[: len(rows)] == rows

    @pytest.mark.parametrize(
        ("name", "title"),
        [
            ("prefix", "decoder, layer 1, mean of 2 heads"),
            ("language", "decoder, layer 1, mean of 2 heads"),
            ("lstm", "cross, layer 1, mean of 1 head"),
            ("half blind", "encoder, layer 1, mean of 2 heads"),
        ],
    )
    def test_of_other_models(self, command: Command, runs: Runs, name: str, title: str) -> None:
        assert command("attend", runs(name), *WORDS, "--layer", "1")[0].startswith(f"{title}\n")

    def test_of_its_own_translation(self, command: Command, runs: Runs) -> None:
        assert command("attend", runs("transformer"), "a b", "--layer", "1")[0].startswith("cross, layer 1, ")

    @pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
    def test_a_picture(self, command: Command, runs: Runs, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"map.{suffix}"
        text, _ = command("attend", runs("transformer"), *WORDS, "--layer", "1", "--head", "2", "--to", path)
        assert text == f"{path}\n" and path.stat().st_size > 1000


class TestAllHeads:
    def test_of_all_layers(self, command: Command, runs: Runs) -> None:
        text, _ = command("attend", runs("transformer"), *WORDS, "--heads")
        assert "a b c" in text
        assert all(text.count(kind) for kind in ("encoder self", "decoder self", "cross"))

    def test_of_some(self, command: Command, runs: Runs) -> None:
        text, _ = command("attend", runs("transformer"), *WORDS, "--heads", "--kind", "cross")
        assert "cross" in text and "self" not in text
        fewer, _ = command("attend", runs("transformer"), *WORDS, "--heads", "--kind", "cross", "--layer", "2")
        assert len(fewer.splitlines()) < len(text.splitlines())

    @pytest.mark.parametrize("name", ["prefix", "language", "lstm", "half blind"])
    def test_of_other_models(self, command: Command, runs: Runs, name: str) -> None:
        text, _ = command("attend", runs(name), *WORDS, "--heads")
        assert ("decoder self" in text) == (name in ("prefix", "language"))
        assert ("cross" in text) == (name == "lstm")
        assert ("encoder self" in text) == (name in ("prefix", "half blind"))

    @pytest.mark.parametrize("suffix", ["svg", "png"])
    def test_a_picture(self, command: Command, runs: Runs, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"heads.{suffix}"
        assert command("attend", runs("transformer"), *WORDS, "--heads", "--to", path)[0] == f"{path}\n"
        assert path.stat().st_size > 1000


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("transformer", ["--kind", "crosss"], "--kind crosss: this model has encoder, decoder, cross"),
            ("language", ["--kind", "cross"], "--kind cross: this model has decoder"),
            ("lstm", ["--kind", "encoder", "--heads"], "--kind encoder: this model has cross"),
            ("transformer", ["--layer", "3"], "--layer 3: this model has 2 layers and 2 heads at most"),
            ("transformer", ["--head", "3"], "--head 3: this model has 2 layers and 2 heads at most"),
            (
                "transformer",
                ["--layer", "9", "--head", "1", "--kind", "decoder"],
                "--layer 9 --head 1: this model has 2 layers and 2 heads at most",
            ),
            ("transformer", ["--heads", "--layer", "3"], "--layer 3: this model has 2 layers and 2 heads at most"),
            ("lstm", ["--layer", "2"], "--layer 2: this model has 1 layer and 1 head at most"),
            ("blind", ["--heads"], "blind: this model has no attention: nothing to show"),
            ("blind", ["--layer", "1"], "blind: this model has no attention: nothing to show"),
        ],
    )
    def test_what_there_is_not(
        self, refusal: Callable[..., str], runs: Runs, name: str, options: list[str], message: str
    ) -> None:
        assert refusal("attend", runs(name), *WORDS, *options) == message

    @pytest.mark.parametrize("options", [[], ["--heads"], ["--layer", "1"], ["--tokens"]])
    @pytest.mark.parametrize("sentence", ["", "  "])
    def test_an_empty_sentence(
        self, refusal: Callable[..., str], runs: Runs, sentence: str, options: list[str]
    ) -> None:
        message = "the text to translate is empty: there is no attention to show"
        assert refusal("attend", runs("transformer"), sentence, *options) == message

    @pytest.mark.parametrize("options", [["--heads"], ["--layer", "1"]])
    def test_an_unknown_format(
        self, refusal: Callable[..., str], runs: Runs, tmp_path: Path, options: list[str]
    ) -> None:
        message = refusal("attend", runs("transformer"), *WORDS, *options, "--to", tmp_path / "map.gif")
        assert "svg, png" in message and not list(tmp_path.iterdir())

    def test_no_such_run(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        assert "no such run folder" in refusal("attend", tmp_path / "none", "a b", "--heads")

    @pytest.mark.parametrize("option", ["--layer", "--head"])
    def test_they_are_counted_from_1(self, command: Command, runs: Runs, option: str) -> None:
        assert option in command("attend", runs("transformer"), "a b", option, "0", check=2)[1]


def test_a_long_translation_is_one_line_in_a_file(runs, command):
    target = " ".join(["a b c"] * 15)
    assert target in command("attend", runs("lstm"), "a b", "--target", target).stdout.splitlines()


def test_tokens_where_words_make_one_cell(command: Command, tiny: Callable[..., object], tmp_path: Path) -> None:
    """Characters of a single word, as in grapheme-to-phoneme conversion."""
    from weft.training.train import train

    (tmp_path / "pairs.tsv").write_text("abc\tcba\nab\tba\n", "utf-8")
    recipe = tiny({"data.train": str(tmp_path / "pairs.tsv"), "tokenizer.kind": "character", "training.steps": 1})
    list(train(recipe, tmp_path / "run"))  # type: ignore[arg-type]
    text, _ = command("attend", tmp_path / "run", "abc", "--target", "cb")
    assert [line.split()[-1] for line in text.splitlines() if "┌" in line] == ["a", "b", "c", "</s>"]
    assert "\nlinks between tokens " in text


def test_which_tokens_were_copied(command: Command, runs: Runs) -> None:
    """`never` is a word that no vocabulary has: it can only be copied."""
    text, _ = command("attend", runs("copying"), "a never c", "--target", "never d")
    *_, header, never, d, end = text.splitlines()
    assert header.split() == ["token", "copied", "g"]
    assert [line.split()[0] for line in (never, d, end)] == ["never", "d", "</s>"]
    assert never.split()[1] == "1.00" and d.split()[1] == "0.00"
    assert "copied" not in command("attend", runs("lstm"), *WORDS)[0]


DIGITS = """
[data]
train = "drawn-digits"
train_size = 40
[tokenizer]
kind = "picture"
target_kind = "character"
joint = false
[model]
embedding = 8
encoder = {hidden = 8, layers = 1}
decoder = {hidden = 8, layers = 1}
stem = {kind = "columns", widths = [2, 3, 5]}
[training]
steps = 2
batch_tokens = 20000
validate_every = 0
device = "cpu"
"""


def test_attention_is_drawn_on_pictures(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits.toml").write_text(DIGITS, "utf-8")
    command("train", "digits.toml", "--out", "run")
    command("data", "generate", "drawn-digits", "-n", 1, "--out", "digits")
    [picture] = Path("digits/pictures").glob("*.png")
    text, _ = command("attend", "run", picture, "--target", "40+7")
    assert text.startswith("40+7\n\n4 ") and "log p" in text
    text, _ = command("attend", "run", picture, "--to", "map.svg")
    assert text == "map.svg\n" and "animation-delay" in Path("map.svg").read_text("utf-8")
    text, _ = command("attend", "run", picture, "--to", "map.png")
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
