"""``weft train`` on pairs of every kind: it trains, or says in one line what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weft.data.preparation import prepare, read_corpus
from weft.pairs.source import find_pairs

Command = Callable[..., tuple[str, str]]
SMALL = (
    *("model.embedding=8", "model.encoder.hidden=8", "model.decoder.hidden=8", "training.steps=2"),
    *("training.validate_every=2", "training.batch_tokens=128", "training.device=cpu", "search.max_length=5"),
)
QUICKLY = [part for change in SMALL for part in ("--set", change)]
UNUSUAL = {
    "one pair": "hello\tworld\n",
    "five pairs": "".join(f"word {n}\tx {n}\n" for n in range(5)),
    "ten pairs": "".join(f"word {n}\tx {n}\n" for n in range(10)),
    "a hundred pairs": "".join(f"the cat {n} sat.\tdie Katze {n} saß.\n" for n in range(100)),
    "numbers": "".join(f"{n} + {n * 7 % 13}\t{n + n * 7 % 13}\n" for n in range(100)),
    "emoji": "".join(f"{'😀🎉🚀'[n % 3] * (1 + n % 5)}\t{'🎈🐱'[n % 2]} {'🐶🌍'[n % 2]}\n" for n in range(100)),
    "right to left": "".join(f"שלום עולם {n}\tمرحبا بالعالم {n}\n" for n in range(100)),
    "targets of 300 tokens": "".join(
        f"make {n}\t{' '.join(f't{n * k % 17}' for k in range(300))}\n" for n in range(20)
    ),
    "equal targets": "".join(f"sentence number {n}.\tyes\n" for n in range(100)),
    "equal sides": "".join(f"the same {n}.\tthe same {n}.\n" for n in range(60)),
    "one source": "".join(f"a\tb{n}\n" for n in range(30)),
    "one symbol": "a\ta\n" * 30,
    "empty lines, CR LF and a byte order mark": "\ufeff" + "".join(f"a{n}\tb{n}\r\n\r\n" for n in range(40)),
    "rows of another width": "".join(f"a{n}\tb{n}\n" for n in range(40)) + "only one\nx\ty\tz\n",
    "a control character": "a\0b\tc\n" * 30,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", UNUSUAL)
def test_there_are_pairs_to_train_and_to_validate_on(name: str) -> None:
    Path("pairs.tsv").write_text(UNUSUAL[name], "utf-8", newline="")
    pairs = find_pairs("pairs.tsv", None, None, None)
    assert pairs is not None
    recipe = pairs.recommend([], None, Path("run")).recipe
    prepared = prepare(recipe)
    assert prepared.pairs >= 1 and [*read_corpus(recipe, "valid")]


@pytest.mark.parametrize("name", ["one pair", "ten pairs", "emoji", "targets of 300 tokens", "one symbol"])
def test_it_trains(command: Command, name: str) -> None:
    Path("pairs.tsv").write_text(UNUSUAL[name], "utf-8", newline="")
    said = command("train", "pairs.tsv", *QUICKLY, "--out", "run")
    assert said[0].endswith("run\n") and "finished at step 2" in said[1]
    assert "warning: " in said[1] and "very few" in said[1]


REFUSED = {
    "empty": (b"", "pairs.tsv: no pairs; the file is empty"),
    "blank": (b" \t \n" * 3, "pairs.tsv: no pair with text on both sides"),
    "Latin-1": (
        "".join(f"fünf {n}\tcinq\n" for n in range(30)).encode("latin-1"),
        "pairs.tsv:1: not valid UTF-8 (byte 0xfc at column 2); convert the file, e.g. with iconv",
    ),
    "one column": (
        b"only one\n" * 30,
        "pairs.tsv: 1 column; expected a source, a tab and a target in each line; or give two files with --source and "
        "--target",
    ),
    "commas": (
        b"one,two\n" * 30,
        "pairs.tsv: 1 column; expected a source, a tab and a target in each line; if ',' separates them, name it .csv",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_to_do_in_a_line(refusal: Callable[..., str], name: str) -> None:
    content, message = REFUSED[name]
    Path("pairs.tsv").write_bytes(content)
    assert refusal("train", "pairs.tsv") == message
