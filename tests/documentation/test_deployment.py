"""The files of deploy/: a container that is built and started where there is a tool for that, and read where not."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import typer.main

from weft.apps.cli import app
from weft.apps.serve.server import NOTIFY_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {
    "FROM",
    "RUN",
    "WORKDIR",
    "COPY",
    "USER",
    "ENV",
    "EXPOSE",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "CMD",
}


def serve_options() -> set[str]:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


def instructions() -> list[tuple[str, str]]:
    lines = (DEPLOY / "Containerfile").read_text("utf-8").splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def test_the_container_file() -> None:
    steps = instructions()
    names = [name for name, _ in steps]
    assert set(names) <= INSTRUCTIONS and names[0] == "FROM"
    given = dict(steps)
    assert re.fullmatch(r"python:3\.\d+-slim", given["FROM"])
    assert given["USER"] not in ("root", "0") and names.index("USER") > max(
        number for number, name in enumerate(names) if name == "RUN"
    )
    for sources in (value.split()[:-1] for name, value in steps if name == "COPY"):
        assert all((ROOT / source).exists() for source in sources)
    assert json.loads(given["ENTRYPOINT"]) == ["weft", "serve"]
    assert {word for word in json.loads(given["CMD"]) if word.startswith("--")} <= serve_options()
    assert any("-c constraints.txt" in value for name, value in steps if name == "RUN")
    assert given["STOPSIGNAL"] == "SIGTERM" and "/ready" in given["HEALTHCHECK"]
    compile(json.loads(given["HEALTHCHECK"].split("CMD ")[1])[2], "HEALTHCHECK", "exec")


def test_the_unit_of_systemd(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "weft.service", "utf-8")
    _, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert arguments[0] == "serve"
    assert {word for word in arguments if word.startswith("--")} <= serve_options()
    assert int(unit["Service"]["TimeoutStopSec"]) > 30
    assert int(unit["Service"]["WatchdogSec"]) > 2 * NOTIFY_SECONDS and unit["Service"]["Type"] == "notify"
    credential = unit["Service"]["LoadCredential"].split(":")[0]  # a copy that the service alone can read
    assert arguments[arguments.index("--key-file") + 1] == f"${{CREDENTIALS_DIRECTORY}}/{credential}"
    assert "-c constraints.txt" in (DEPLOY / "weft.service").read_text("utf-8")
    if shutil.which("systemd-analyze"):
        text = (DEPLOY / "weft.service").read_text("utf-8").replace("/opt/weft/bin/weft", shutil.which("true") or "")
        (tmp_path / "weft.service").write_text(text, "utf-8")
        command = ["systemd-analyze", "verify", "--recursive-errors=no", str(tmp_path / "weft.service")]
        said = subprocess.run(command, capture_output=True, text=True)
        assert "weft.service:" not in said.stderr, said.stderr


def test_the_configuration_of_nginx() -> None:
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    assert text.count("{") == text.count("}")
    for line in text.splitlines():
        code = line.split("#")[0].strip()
        assert not code or code.endswith(("{", "}", ";")), line
    assert "proxy_set_header Host $host;" in text and "proxy_buffering off;" in text


@pytest.mark.slow
def test_the_container_is_built_and_started(finished: Path, tmp_path: Path) -> None:
    tool = shutil.which("podman") or shutil.which("docker")
    if tool is None or subprocess.run([tool, "pull", dict(instructions())["FROM"]], capture_output=True).returncode:
        pytest.skip("there is neither podman nor docker, or no image to start from")
    subprocess.run([tool, "build", "-f", "deploy/Containerfile", "-t", "weft-test", "."], cwd=ROOT, check=True)
    options = ["--rm", "-d", "-p", "127.0.0.1:18000:8000", "-v", f"{finished}:/run-folder:ro"]
    arguments = ["/run-folder", "--host", "0.0.0.0", "--open-to-all"]
    name = subprocess.check_output([tool, "run", *options, "weft-test", *arguments], text=True).strip()
    try:
        for _ in range(120):
            try:
                assert urllib.request.urlopen("http://127.0.0.1:18000/ready", timeout=5).status == 200
                break
            except OSError:
                time.sleep(1)
        else:
            pytest.fail("it did not become ready")
    finally:
        subprocess.run([tool, "stop", name], check=True)
