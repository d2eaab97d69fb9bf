"""``weft tokenizer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Learn, apply and inspect tokenizers.", no_args_is_help=True)
File = Annotated[
    Path,
    typer.Argument(metavar="TOKENIZER", help="A tokenizer.json, or a SentencePiece model.", show_default=False),
]


@app.command("learn", epilog="Try:  weft tokenizer learn train.en train.de --size 8000 --out tokenizer.json")
def learn_command(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Text files, learned jointly; - is standard input."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Where to write it.")] = Path("tokenizer.json"),
    kind: Annotated[str, typer.Option("--kind", help="bpe, unigram, word, character or byte.")] = "bpe",
    size: Annotated[
        int | None, typer.Option("--size", min=1, help="Most ids; bpe, unigram: 8000 if not given.")
    ] = None,
    minimum_count: Annotated[int, typer.Option("--minimum-count", min=1, help="Leave out what is rarer.")] = 1,
    normalize: Annotated[str, typer.Option("--normalize", help="none, nfc or nfkc.")] = "none",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Small letters only.")] = False,
    symbol: Annotated[
        list[str] | None, typer.Option("--symbol", help="Always one token, as <2de>; may be repeated.")
    ] = None,
    protect: Annotated[
        list[str] | None, typer.Option("--protect", help="A regex; what matches is a unit; may be repeated.")
    ] = None,
    word_begin: Annotated[bool, typer.Option("--word-begin", help="Pieces: mark where words begin, not end.")] = False,
    byte_level: Annotated[bool, typer.Option("--byte-level", help="Pieces of bytes; nothing is unknown.")] = False,
    byte_fallback: Annotated[bool, typer.Option("--byte-fallback", help="Pieces: unknowns become bytes.")] = False,
    sample: Annotated[
        int, typer.Option("--sample", metavar="CHARACTERS", min=1, help="Learn from lines drawn at random, this many.")
    ] = 100_000_000,
    seed: Annotated[int, typer.Option("--seed", help="For the draw.")] = 1,
) -> None:
    """Learn a tokenizer from text, or from a sample of it that fits in memory."""
    from weft.data.reading.compression import inner_name
    from weft.data.reading.lines import read_lines
    from weft.errors import DataError
    from weft.text.options import LearningOptions
    from weft.text.reservoir import sample as draw
    from weft.text.tokenizer import learn

    if out.is_dir() or not out.parent.is_dir():  # rather than after hours
        raise DataError(f"{out}: cannot write: {'is a folder' if out.is_dir() else f'no such folder: {out.parent}'}")
    if kind != "byte":
        for text in texts:
            if inner_name(text).endswith((".jsonl", ".json", ".csv", ".parquet")):
                raise DataError(f"{text}: a table, not lines of text; `weft data prepare` learns from its columns")
        lines = draw((line for text in texts for line in read_lines(text)), characters=sample, seed=seed)
    else:
        lines = []
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
    tokenizer = learn(kind, lines, options)
    tokenizer.save(out)
    typer.echo(f"{out}: {tokenizer.kind}, {tokenizer.size} ids")


@app.command("apply", epilog="Try:  echo 'a sentence' | weft tokenizer apply tokenizer.json")
def apply_command(
    tokenizer: File,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="Text; - is standard input.")] = "-",
    ids: Annotated[bool, typer.Option("--ids", help="Print ids, not pieces.")] = False,
    decode: Annotated[bool, typer.Option("--decode", help="The other way: lines of ids to text.")] = False,
) -> None:
    """Cut lines into tokens, separated by spaces."""
    from weft.data.reading.lines import read_lines
    from weft.errors import DataError
    from weft.text.tokenizer import load

    loaded = load(tokenizer)
    for number, line in enumerate(read_lines(file), 1):
        if decode:
            try:
                given = [int(part) for part in line.split()]
            except ValueError:
                raise DataError(f"{file}:{number}: --decode expects ids, whole numbers between spaces") from None
            typer.echo(loaded.decode(given))
            continue
        found = loaded.encode(line)
        typer.echo(" ".join(map(str, found) if ids else loaded.tokens(found)))


@app.command("show", epilog="Try:  weft tokenizer show runs/try/tokenizer.source.json")
def show_command(
    tokenizer: File,
    count: Annotated[int, typer.Option("--count", "-n", help="How many merges or ids to list.")] = 20,
) -> None:
    """Say what a tokenizer is, and list its first merges or ids."""
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
