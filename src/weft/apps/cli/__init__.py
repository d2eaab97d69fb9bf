"""The command line: one short file per command, and `SECTIONS`, the table of all of them.

To add a command, write its file and add a line to the table. A command's file is imported when the command is run.
Torch is imported inside the commands, so that help is quick, and after their arguments have been checked: a command
that will fail on its arguments fails immediately.
"""

from __future__ import annotations

import sys
import warnings
from io import TextIOWrapper
from typing import Annotated, Any, TextIO

import typer

from weft import __version__
from weft.apps.cli.terminal import standard_streams
from weft.apps.cli.terminal.lazy_commands import LazyCommand, lazy_group
from weft.apps.cli.terminal.signals import CommandInterrupted, end_on_signals, exit_code, raise_on_signals
from weft.apps.cli.terminal.status import showing_status

SECTIONS = {
    "Train and translate": {
        "try": LazyCommand("weft.apps.cli.commands.try_:command", "weft try"),
        "train": LazyCommand(
            "weft.apps.cli.commands.train:command",
            "weft data generate dates --out dates.tsv && weft train dates.tsv --minutes 5",
        ),
        "tune": LazyCommand("weft.apps.cli.commands.tune:command", "weft tune grammar --minutes 20 --out runs/search"),
        "distill": LazyCommand(
            "weft.apps.cli.commands.distill:command", "weft distill runs/try --student tiny --out runs/student"
        ),
        "back-translate": LazyCommand(
            "weft.apps.cli.commands.back_translate:command",
            "weft back-translate runs/fr-en french.txt --out pairs.tsv --tag '<bt>'",
        ),
        "translate": LazyCommand(
            "weft.apps.cli.commands.translate:command", "echo 'he hit me with a pie' | weft translate runs/try"
        ),
        "sample": LazyCommand("weft.apps.cli.commands.sample:command", "weft sample runs/lm --prompt 'le roi'"),
        "serve": LazyCommand("weft.apps.cli.commands.serve:command", "weft serve runs/try --open"),
    },
    "Evaluate": {
        "evaluate": LazyCommand("weft.apps.cli.commands.evaluate:command", "weft evaluate runs/try --json"),
        "calibrate": LazyCommand("weft.apps.cli.commands.calibrate:command", "weft calibrate runs/try"),
        "compare": LazyCommand("weft.apps.cli.commands.compare:command", "weft compare runs/try runs/second"),
        "score": LazyCommand("weft.apps.cli.commands.score:command", "weft score runs/try pairs.tsv"),
        "report": LazyCommand("weft.apps.cli.commands.report:command", "weft report runs/try"),
        "bench": LazyCommand("weft.apps.cli.commands.bench:app"),
        "warm": LazyCommand("weft.apps.cli.commands.warm:command", "weft warm runs/try"),
    },
    "Explain": {
        "attend": LazyCommand(
            "weft.apps.cli.commands.attend:command", "weft attend runs/try 'he hit me with a pie' --to map.svg"
        ),
        "trace": LazyCommand(
            "weft.apps.cli.commands.trace:command", "weft trace runs/try 'he hit me with a pie' --to tree.svg"
        ),
        "parse": LazyCommand(
            "weft.apps.cli.commands.parse:command", "weft parse --tree '(S (NP he) (VP sleeps))' --to tree.svg"
        ),
        "probe": LazyCommand("weft.apps.cli.commands.probe:app"),
        "positions": LazyCommand("weft.apps.cli.commands.positions:command", "weft positions --count 5 --width 4"),
        "align-heads": LazyCommand(
            "weft.apps.cli.commands.align_heads:command", "weft align-heads runs/en-fr pairs.tsv"
        ),
        "lab": LazyCommand("weft.apps.cli.commands.lab:command", "weft lab scaling"),
        "course": LazyCommand("weft.apps.cli.commands.course:app"),
        "history": LazyCommand("weft.apps.cli.commands.history:command", "weft history --quick --to history.html"),
    },
    "Runs and other toolkits": {
        "runs": LazyCommand("weft.apps.cli.commands.runs:command", "weft runs"),
        "adapter": LazyCommand("weft.apps.cli.commands.adapter:app"),
        "import": LazyCommand(
            "weft.apps.cli.commands.exchange:import_command", "weft import Helsinki-NLP/opus-mt-en-fr --out runs/en-fr"
        ),
        "export": LazyCommand("weft.apps.cli.commands.exchange:export_command", "weft export RUN --format ctranslate2"),
        "push": LazyCommand("weft.apps.cli.commands.exchange:push_command", "weft push runs/try OWNER/NAME --private"),
        "pull": LazyCommand("weft.apps.cli.commands.exchange:pull_command", "weft pull OWNER/NAME --out runs/pulled"),
    },
    "Data and recipes": {
        "data": LazyCommand("weft.apps.cli.commands.data:app"),
        "tokenizer": LazyCommand("weft.apps.cli.commands.tokenizer:app"),
        "recipes": LazyCommand("weft.apps.cli.commands.recipes:app"),
    },
}
"""Every command and group of commands: where it is, and its example; in the sections and the order of the help."""
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}
USAGE_ERROR: type[Any] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError")
"""The error of a wrong option or argument: click's own, or that of the copy of click inside newer versions of typer."""

app = typer.Typer(
    name="weft",
    cls=lazy_group(SECTIONS),
    help="Sequence-to-sequence learning: train, decode and explain encoder-decoder models.",
    epilog="Start here:  weft try",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command."""


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Replacement of `warnings.showwarning` that shows weft's own warnings in one line, without the line of code."""
    from weft.errors import WeftWarning

    stream = file or sys.stderr
    if issubclass(category, WeftWarning):
        stream.write(f"weft: warning: {message}\n")
    else:
        stream.write(warnings.formatwarning(message, category, filename, lineno, line))


def _use_encodable_output() -> None:
    """Write characters that the encoding of stdout does not have as escapes, rather than failing at the first."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def main() -> None:
    """The entry point of the console script: a user error leaves one line on stderr and exit code 2."""
    from weft.errors import WeftError, command_line, is_out_of_memory

    standard_streams.install()
    warnings.showwarning = _show_warning
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    _use_encodable_output()
    try:
        raise_on_signals()
        with command_line(), showing_status(arguments):
            _run(arguments)
    except WeftError as error:
        if debug:
            raise
        for line in str(error).split("\n"):  # one, but a recipe may have several errors
            print(f"weft: {line}", file=sys.stderr)
        sys.exit(2)
    except (CommandInterrupted, KeyboardInterrupt) as interruption:  # the second: before or after the command itself
        end_on_signals()
        print("weft: interrupted", file=sys.stderr)
        sys.exit(exit_code(interruption))
    except OSError as error:
        if debug:
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        reason = " ".join((error.strerror or str(error) or type(error).__name__).split())
        print(f"weft: {where}{reason}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if debug or not is_out_of_memory(error):
            raise
        print(
            "weft: not enough memory; lower training.batch_tokens or search.batch_tokens, the size of the model, or "
            "the number of hypotheses (search.size, --n-best)",
            file=sys.stderr,
        )
        sys.exit(2)


def _run(arguments: list[str]) -> None:
    from weft.errors import WeftError

    try:
        code = app(args=arguments, prog_name="weft", standalone_mode=False)
    except USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(error.exit_code)
        raise WeftError(_usage_line(error)) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    finally:
        sys.stdout.flush()  # an error in writing is reported as any other
    sys.exit(code if isinstance(code, int) else 0)


def _usage_line(error: Any) -> str:
    """``train: no such option: --nope; see weft train --help``"""
    path = error.ctx.command_path if error.ctx else "weft"
    name = path.removeprefix("weft").strip()
    message = " ".join(error.format_message().split()).replace(". Did you mean", ", did you mean").rstrip(".?")
    message = f"{message[:1].lower()}{message[1:]}; see {path} --help"
    return f"{name}: {message}" if name else message
