"""``weft tokenizer`` with all its options."""

import gzip
import io
import json
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from typer.testing import CliRunner

from weft.apps.cli.commands.tokenizer import app
from weft.errors import DataError, VocabularyError
from weft.text.tokenizer import load

LINES = ["low lower newest widest <2de>", "Price 12.5 or 300, l'ami", "東京 été 12.5"] * 3


def weft(*arguments: object, stdin: str | None = None) -> str:
    found = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


OPTIONS = [
    "--normalize",
    "nfkc",
    "--lowercase",
    "--symbol",
    "<2de>",
    "--symbol",
    "<2fr>",
    "--protect",
    r"\d+(?:\.\d+)?",
]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
def test_learn_with_everything(kind: str, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    said = weft("learn", text, "--kind", kind, "--size", 400, "--byte-fallback", *OPTIONS, "--out", out)
    tokenizer = load(out)
    assert said == f"{out}: {kind}, {tokenizer.size} ids\n"
    assert tokenizer.decode(tokenizer.encode("LOW 12.5 <2fr>")) == "low 12.5 <2fr>"
    shown = weft("show", out).splitlines()[0]
    assert shown.startswith(f"{kind}, {tokenizer.size} ids; normalization: nfkc, lowercase; symbols: <2de> <2fr>;")
    assert r"protected: \d+(?:\.\d+)?" in shown
    assert weft("apply", out, stdin="low 12.5<2de>\n").split()[0][0] == "l"
    ids = weft("apply", out, "--ids", stdin="low 12.5 <2de>\n")
    assert weft("apply", out, "--decode", stdin=ids) == "low 12.5 <2de>\n"


def test_several_files_and_standard_input(text: Path, tmp_path: Path) -> None:
    packed = tmp_path / "more.gz"
    packed.write_bytes(gzip.compress("жук\n".encode()))
    out = tmp_path / "t.json"
    weft("learn", text, packed, "-", "--kind", "character", "--out", out, stdin="שלום\n")
    assert 0 not in load(out).encode("low жук שלום")


def test_a_sample(text: Path, tmp_path: Path) -> None:
    text.write_text("".join(f"{chr(0x4E00 + number) * 10}\n" for number in range(100)), encoding="utf-8")
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        weft("learn", text, "--kind", "character", "--sample", 100, "--seed", seed, "--out", tmp_path / name)
        found.append(json.loads((tmp_path / name).read_text(encoding="utf-8"))["symbols"])
    assert len(found[0]) == len(found[2]) == 10 and found[0] == found[1] != found[2]


def test_bytes_need_no_text(tmp_path: Path) -> None:
    assert weft("learn", tmp_path / "none", "--kind", "byte", "--out", tmp_path / "t.json").endswith("byte, 259 ids\n")


def test_an_error_is_one_line(text: Path, tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"^protect '\(': not a regular expression: "):
        weft("learn", text, "--protect", "(", "--out", tmp_path / "t.json")


@pytest.mark.parametrize(("out", "why"), [("none/t.json", "no such folder: none"), (".", "is a folder")])
def test_where_nothing_can_be_written_is_said_before_learning(refusal, tmp_path, monkeypatch, out, why):
    monkeypatch.chdir(tmp_path)
    assert refusal("tokenizer", "learn", "none.txt", "--out", out) == f"{out}: cannot write: {why}"


def test_tokenizers_of_others(text: Path, tmp_path: Path) -> None:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=file, vocab_size=60, hard_vocab_limit=False, minloglevel=3
    )
    (tmp_path / "pieces.model").write_bytes(file.getvalue())
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "low": 1}, unk_token="[UNK]"))
    library.save(str(tmp_path / "words.json"))
    for name, made_with in (("pieces.model", "sentencepiece"), ("words.json", "tokenizers")):
        shown = weft("show", tmp_path / name)
        assert shown.startswith("external, ") and f"made with {made_with}; normalization: its own" in shown
        assert "<unk>" in shown.splitlines()[1]
        assert weft("apply", tmp_path / name, stdin="low\n") == "low\n"


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv.gz", "rows.parquet"])
def test_a_table_is_not_learned_from_as_text(refusal, tmp_path: Path, name: str) -> None:
    message = refusal("tokenizer", "learn", tmp_path / name, "--out", tmp_path / "t.json")
    assert message == f"{tmp_path / name}: a table, not lines of text; `weft data prepare` learns from its columns"


def test_a_line_that_is_too_long_is_named(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weft("learn", text, "--kind", "character", "--out", tmp_path / "t.json")
    monkeypatch.setattr("weft.text.vocabulary.MAX_TEXT_CHARACTERS", 5)
    (tmp_path / "long").write_text("low\nlowest\n")
    with pytest.raises(DataError) as error:
        weft("apply", tmp_path / "t.json", tmp_path / "long")
    assert str(error.value) == f"{tmp_path / 'long'}:2: a text of 6 characters; at most 5 are tokenized; split it"
