"""The command line. One short file a command; torch is imported inside the commands, so that help is quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from weft import __version__
from weft.cli import (
    attend,
    bench,
    data,
    evaluate,
    export,
    positions,
    recipes,
    sample,
    score,
    tokenizer,
    trace,
    train,
    translate,
    try_,
)

app = typer.Typer(
    name="weft",
    help="Sequence-to-sequence learning: train, decode and explain encoder-decoder models.",
    epilog="Start here:  weft try",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("try", epilog="Try:  weft try")(try_.command)
app.command("train", epilog="Try:  weft train addition --set training.steps=300 --out runs/sums")(train.command)
app.command("translate", epilog="Try:  echo 'he hit me with a pie' | weft translate runs/try")(translate.command)
app.command("attend", epilog="Try:  weft attend runs/try 'he hit me with a pie' --to map.svg")(attend.command)
app.command("trace", epilog="Try:  weft trace runs/try 'he hit me with a pie' --to tree.svg")(trace.command)
app.command("positions", epilog="Try:  weft positions --count 5 --width 4")(positions.command)
app.command("evaluate", epilog="Try:  weft evaluate runs/try --json")(evaluate.command)
app.command("score", epilog="Try:  weft score runs/try pairs.tsv")(score.command)
app.command("sample", epilog="Try:  weft sample runs/lm --prompt 'le roi'")(sample.command)
app.command("export", epilog="Try:  weft export RUN --to ctranslate2")(export.command)
app.add_typer(data.app, name="data")
app.add_typer(recipes.app, name="recipes")
app.add_typer(bench.app, name="bench")
app.add_typer(tokenizer.app, name="tokenizer")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which weft this is.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command."""


def main() -> None:
    """What the console script runs: a user's error leaves one line on stderr and exit code 2."""
    from weft.errors import WeftError

    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(args=arguments)
    except WeftError as error:
        if len(arguments) < len(sys.argv) - 1:
            raise
        print(f"weft: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        if error.filename is None or len(arguments) < len(sys.argv) - 1:
            raise
        print(f"weft: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
