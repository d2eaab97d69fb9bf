"""``weft serve``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.apps.cli.arguments import Device, Engine, Precision
from weft.apps.cli.terminal.signals import SignalInterrupt
from weft.apps.serve.naming import Run, check_run, members, name_runs, parse_run
from weft.errors import CheckpointError, DataError, RecipeError, plural
from weft.runs.locks import lock_owner
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.apps.serve.models import Models
    from weft.apps.serve.server import Server
    from weft.apps.serve.settings import ServeSettings

LOCAL = ("127.0.0.1", "localhost", "::1")


def command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN", help="Run folders, RUN:ADAPTER, NAME=RUN, or an ensemble: RUN+RUN.", show_default=False
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="The port; 0: any that is free.")] = 8000,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="A file of hashed keys; requests need one of them.")
    ] = None,
    new_key: Annotated[
        str | None,
        typer.Option("--new-key", metavar="NAME", help="Print a new key, add its hash to --key-file, and end."),
    ] = None,
    open_to_all: Annotated[bool, typer.Option("--open-to-all", help="Listen on another --host without keys.")] = False,
    languages: Annotated[
        list[str] | None,
        typer.Option(
            "--languages",
            metavar="SOURCE-TARGET",
            help="The languages, such as en-fr, for LibreTranslate's clients; may be repeated, once for each run.",
        ),
    ] = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting of the service; may be repeated."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Serve runs: a page to explore them, and an HTTP API to use them.

    The page shows searches step by step, the attention of every head, and two models side by side. The API
    translates, scores and streams; it also understands the clients of LibreTranslate. On SIGTERM the service finishes
    running requests and ends with exit code 0. docs/serving.md describes the API, the settings and how to deploy it.
    """
    if new_key is not None:
        return _make_key(key_file, new_key)
    if not runs:
        raise DataError("RUN: missing; name at least one run folder")
    named = _named(runs)
    for name, run in named.items():
        check_run(name, run)
    options: dict[str, Any] = {"device": device, "precision": precision, "engine": engine, "languages": languages}
    given = {name: value for name, value in options.items() if value is not None}
    settings = _settings({"host": host, "port": port, **given}, changes)
    if settings.host not in LOCAL and key_file is None and not open_to_all:
        raise DataError(
            f"--host {settings.host}: other machines could use the service; add --key-file FILE (make a key with "
            "`weft serve --new-key NAME --key-file FILE`), or --open-to-all"
        )
    _serve(named, settings, key_file, open_browser=open_browser)


def _make_key(key_file: Path | None, name: str) -> None:
    from weft.apps.serve.keys import new_key

    if key_file is None:
        raise DataError("--new-key: needs --key-file FILE, where the hash of the key is kept")
    typer.echo(new_key(key_file, name))
    print(f"weft: its hash was added to {key_file}; the key itself is not stored", file=sys.stderr)


def _named(runs: list[str]) -> dict[str, Run]:
    """Run folders by name."""
    named: dict[str, Run] = {}
    unnamed: list[Run] = []
    for run in runs:
        name, equals, path = run.partition("=")
        if equals and name and not Path(run).exists():
            if name in named:
                used = "+".join(map(str, members(named[name])))
                raise DataError(f"RUN: {name} is already the name of {used}; choose another for {path}")
            named[name] = parse_run(path)
        else:
            unnamed.append(parse_run(run))
    return named | name_runs(unnamed, used=named)


def _settings(given: dict[str, Any], changes: list[str] | None) -> ServeSettings:
    from weft.apps.serve.settings import make_settings
    from weft.recipe import parse_change

    for change in changes or ():
        names, value = parse_change(change)
        if len(names) != 1:
            raise RecipeError(f"--set {change}: expected a setting of the service, for example max_lines=100")
        given[names[0]] = value
    return make_settings(given)


def _serve(named: dict[str, Run], settings: ServeSettings, key_file: Path | None, *, open_browser: bool) -> None:
    try:
        from weft.apps.serve.app import create_app
        from weft.apps.serve.server import address, listen, run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("weft"):
            raise
        raise DataError(f"serve: {error.name} is not installed; pip install 'weft-seq2seq[serve]'") from None
    with activity("starting the service"):
        service = create_app(named, settings, key_file=key_file)
        bound = listen(settings)
    url = address(bound)
    problems: list[str] = []

    def on_start(server: Server) -> None:
        print(f"weft: serving {', '.join(named)} at {url}   (Ctrl-C ends it)", file=sys.stderr, flush=True)
        for name in (name for name, run in named.items() if any(lock_owner(member.path) for member in members(run))):
            print(f"weft: watch the training of {name} at {url}#training?run={name}", file=sys.stderr, flush=True)
        _report_models(service.models, server, problems)
        if open_browser:
            import webbrowser

            webbrowser.open(url)

    signals = run(service, settings, bound, on_start)
    if problems:
        raise CheckpointError("\n".join(problems))
    if signals and signals[0] != signal.SIGTERM:
        raise SignalInterrupt(signals[0])


def _report_models(models: Models, server: Server, problems: list[str]) -> None:
    """Say when the models are loaded. If one cannot be, the service ends, unless it is in training: it will be.

    ``problems``: what is wrong with each model that cannot be loaded.
    """
    import asyncio

    async def report() -> None:
        waiting = list(models.by_name.values())
        while waiting and not models.draining:
            for model in list(waiting):
                if model.state == "failed" and not model.is_training:
                    problems.append(f"{model.name}: {model.problem}")
                elif model.state == "failed":
                    print(f"weft: warning: {model.name}: {model.problem}", file=sys.stderr, flush=True)
                if model.state != "loading":
                    waiting.remove(model)
            await asyncio.sleep(0.1)
        server.should_exit = server.should_exit or bool(problems)
        if models.ready:
            print(f"weft: {plural(len(models.by_name), 'model')} ready", file=sys.stderr, flush=True)

    models.reporting = asyncio.ensure_future(report())
