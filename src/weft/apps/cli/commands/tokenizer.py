"""``weft tokenizer``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import counted
from weft.apps.cli.terminal.help_text import CommandGroup
from weft.runtime.activity import activity

app = CommandGroup(help="Train, apply and inspect tokenizers.", no_args_is_help=True)
File = Annotated[
    Path,
    typer.Argument(metavar="TOKENIZER", help="A tokenizer.json, or a SentencePiece model.", show_default=False),
]


@app.command("learn", epilog="Try:  weft tokenizer learn train.en train.de --size 8000 --out tokenizer.json")
def learn_command(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Text files to train one tokenizer on; - is standard input."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("tokenizer.json"),
    kind: Annotated[str, typer.Option("--kind", help="bpe, unigram, word, character or byte.")] = "bpe",
    size: Annotated[
        int | None, typer.Option("--size", min=1, help="Vocabulary size; for bpe and unigram 8000 by default.")
    ] = None,
    minimum_count: Annotated[int, typer.Option("--minimum-count", min=1, help="Drop rarer symbols.")] = 1,
    normalize: Annotated[str, typer.Option("--normalize", help="Unicode normalization: none, nfc or nfkc.")] = "none",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lowercase all text.")] = False,
    symbol: Annotated[
        list[str] | None,
        typer.Option("--symbol", help="A string that is always one token, such as <2de>; may be repeated."),
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option("--protect", help="A regular expression whose matches are kept apart; may be repeated."),
    ] = None,
    word_begin: Annotated[
        bool, typer.Option("--word-begin", help="bpe, unigram: mark the beginning of words, not the end.")
    ] = False,
    byte_level: Annotated[
        bool, typer.Option("--byte-level", help="bpe: operate on bytes, so that nothing is unknown.")
    ] = False,
    byte_fallback: Annotated[
        bool, typer.Option("--byte-fallback", help="bpe, unigram: encode unknown characters as bytes.")
    ] = False,
    sample: Annotated[
        int, typer.Option("--sample", metavar="CHARACTERS", min=1, help="Train on a random sample of this size.")
    ] = 100_000_000,
    seed: Annotated[int, typer.Option("--seed", help="Random seed of the sample.")] = 1,
) -> None:
    """Train a tokenizer on text, or on a random sample of it."""
    from weft.errors import DataError
    from weft.text.tokenizer import learn
    from weft.text.vocabulary import LearningOptions

    if out.is_dir() or not out.parent.is_dir():  # fail before training
        raise DataError(f"{out}: cannot write: {'is a folder' if out.is_dir() else f'no such folder: {out.parent}'}")
    lines = [] if kind == "byte" else _sample(texts, characters=sample, seed=seed)
    options = LearningOptions(
        size=8_000 if size is None and kind in ("bpe", "unigram") else size,
        minimum_count=minimum_count,
        end_of_word=not word_begin,
        byte_level=byte_level,
        byte_fallback=byte_fallback,
        normalize=normalize,
        lowercase=lowercase,
        symbols=tuple(symbol or ()),
        protect=tuple(protect or ()),
    )
    with activity("learning the tokenizer"):
        tokenizer = learn(kind, lines, options)
    tokenizer.save(out)
    typer.echo(f"{out}: {tokenizer.kind}, {tokenizer.size} ids")


def _sample(texts: list[str], *, characters: int, seed: int) -> Iterable[str]:
    """A random sample of the lines of some files."""
    from weft.data.reading.compression import inner_name
    from weft.data.reading.lines import read_lines
    from weft.errors import DataError
    from weft.text.tokenizer import sample

    for text in texts:
        if inner_name(text).endswith((".jsonl", ".json", ".csv", ".parquet")):
            raise DataError(f"{text}: a table, not lines of text; `weft data prepare` learns from its columns")
    return sample(
        (line for text in texts for line in counted(read_lines(text), text, "lines")), characters=characters, seed=seed
    )


@app.command("apply", epilog="Try:  echo 'a sentence' | weft tokenizer apply tokenizer.json")
def apply_command(
    tokenizer: File,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text file; - is standard input.")] = "-",
    ids: Annotated[bool, typer.Option("--ids", help="Print ids instead of tokens.")] = False,
    decode: Annotated[bool, typer.Option("--decode", help="Decode lines of ids to text.")] = False,
) -> None:
    """Tokenize lines; tokens are separated by spaces."""
    from weft.data.reading.lines import read_lines
    from weft.errors import DataError, InputTooLongError
    from weft.text.tokenizer import load

    loaded = load(tokenizer)
    for number, line in enumerate(counted(read_lines(file), file, "lines"), 1):
        if decode:
            try:
                line_ids = [int(part) for part in line.split()]
            except ValueError:
                raise DataError(f"{file}:{number}: --decode expects ids, integers separated by spaces") from None
            typer.echo(loaded.decode(line_ids))
            continue
        try:
            encoded = loaded.encode(line)
        except InputTooLongError as error:
            raise DataError(f"{file}:{number}: {error}") from None
        typer.echo(" ".join(map(str, encoded) if ids else loaded.tokens(encoded)))


@app.command("show", epilog="Try:  weft tokenizer show runs/try/tokenizer.source.json")
def show_command(
    tokenizer: File,
    count: Annotated[int, typer.Option("--count", "-n", help="Number of merges or ids to list.")] = 20,
) -> None:
    """Describe a tokenizer, and list its first merges or ids."""
    from weft.text.bpe import BPE
    from weft.text.tokenizer import load

    loaded = load(tokenizer)
    typer.echo(f"{loaded.kind}, {loaded.size} ids; {'; '.join(loaded.description())}")
    if isinstance(loaded, BPE):
        for number, (left, right) in enumerate(loaded.merges()[:count], 1):
            typer.echo(f"merge {number:>5}  {left} + {right}")
        return
    for number in range(min(count, loaded.size)):
        typer.echo(f"{number:>6}  {loaded.tokens([number])[0]}")
