"""``weft tune``, killed or signaled and continued by the same command: a kind of round of tools/soak.py.

The speed of the machine decides how many steps and candidates there are, so not the whole result is compared with that
of an undisturbed command, but

- after each interruption: `weft runs` lists the folder, every JSON file is whole, no process is left;
- after the command that continues: the plan and the results of jobs are those that were there before, byte for byte
  (what was finished is not trained again); the best candidate translates; no file is left half-written;
- the weights of each candidate that was trained as far as in an undisturbed tuning run: they are the same, bit for bit.
"""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

from soak_processes import (
    BrokenPromiseError,
    Ended,
    check_messages,
    digest,
    last_line,
    processes_of,
    run,
    wait_until,
)

SETTINGS = {"training.steps": 16, "training.validate_every": 2, "training.save_every": 1, "training.average": 1}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MINUTES = "10"
"""More than is needed: all steps of the recipe fit, unless the machine is very busy."""
LEFT_FOR = 60.0
"""Seconds that the processes of a killed tuning run have to save their checkpoints and end."""
Weights = dict[tuple[object, ...], str]
"""Hashes of candidates, by name, steps that are planned, sentences of a validation, and the step reached."""


class TuningRounds:
    """Rounds of ``weft tune``, with a folder for each."""

    name = "tune"

    def __init__(self, changes: list[str], sources: Path) -> None:
        self.changes, self.sources = changes, sources
        self.seconds = 0.0
        self.weights: Weights = {}

    def arguments(self, folder: Path) -> list[str]:
        options = ["--minutes", MINUTES, "--parallel", "2", "--json", "--out", str(folder / "tuned")]
        return ["tune", "grammar", *self.changes, *options]

    def prepare(self, folder: Path) -> None:
        """An undisturbed tuning run."""
        folder.mkdir(parents=True)
        ended = run(self.arguments(folder))
        if ended.code != 0:
            raise BrokenPromiseError(f"tune: exit code {ended.code}: {ended.stderr}")
        self.seconds = ended.seconds
        self.weights = _weights(folder / "tuned")
        self._check_result(folder, ended)

    def play(self, folder: Path, generator: random.Random, disturbance: str) -> str:
        """Interrupt it once or twice, and continue it; how many jobs were finished before the last interruption."""
        before: dict[str, bytes] = {}
        for _ in range(generator.randint(1, 2)):
            by = signal.SIGKILL if disturbance == "kill" else generator.choice(SIGNALS)
            moment = generator.uniform(0, self.seconds)
            ended = run(self.arguments(folder), when=lambda seconds, moment=moment: seconds >= moment, by=by)
            check_messages(ended)
            if ended.code == 0:
                break
            if ended.code not in (-by, 128 + by):
                name = signal.Signals(by).name
                raise BrokenPromiseError(f"wrong exit code: {ended.code} after {name}: {last_line(ended)}")
            _check_processes(folder, 0.0 if by != signal.SIGKILL else LEFT_FOR)
            check_unchanged(folder / "tuned", before)
            _check_folder(folder / "tuned")
            before = finished(folder / "tuned")
        if ended.code != 0:
            ended = run(self.arguments(folder))
            check_messages(ended)
        if ended.code != 0:
            raise BrokenPromiseError(f"does not go on: exit code {ended.code}: {last_line(ended)}")
        _check_processes(folder, 0.0)
        check_unchanged(folder / "tuned", before)
        self._check_result(folder, ended)
        return f"{len(before)} files of results and plan kept"

    def _check_result(self, folder: Path, ended: Ended) -> None:
        tuned = folder / "tuned"
        _check_folder(tuned)
        result = json.loads(ended.stdout)
        if result != json.loads((tuned / "results.json").read_text("utf-8")):
            raise BrokenPromiseError("wrong result: results.json is not what was printed")
        failed = [candidate["problem"] for candidate in result["candidates"] if candidate["state"] == "failed"]
        if failed or result["problem"]:
            raise BrokenPromiseError(f"candidates failed: {'; '.join([*failed, result['problem']])}")
        if result["candidates"][0]["state"] != "finished":
            raise BrokenPromiseError("wrong result: the best candidate was not trained to the end")
        for key, value in _weights(tuned).items():
            if self.weights.get(key, value) != value:
                raise BrokenPromiseError(f"wrong result: {key[0]} is not the candidate of an undisturbed tuning run")
        best = tuned / "runs" / result["candidates"][0]["name"]
        translated = run(["translate", str(best), str(self.sources), "--search", "greedy"])
        check_messages(translated)
        if translated.code != 0 or len(translated.stdout.splitlines()) != len(_lines(self.sources)):
            raise BrokenPromiseError(f"the best candidate does not translate: {last_line(translated)}")
        left = [path.name for path in tuned.rglob("*") if path.name.endswith((".part", ".old"))]
        if left:
            raise BrokenPromiseError(f"left behind: {', '.join(left)}")


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def _weights(tuned: Path) -> Weights:
    """Hashes of the weights of a finished tuning run."""
    plan = json.loads((tuned / "tuning.json").read_text("utf-8"))["plan"]
    candidates = json.loads((tuned / "results.json").read_text("utf-8"))["candidates"]
    planned = plan["steps"], plan["valid_sentences"]
    return {
        (candidate["name"], *planned, candidate["step"]): digest(
            *sorted((tuned / "runs" / candidate["name"]).rglob("*.safetensors"))
        )
        for candidate in candidates
        if candidate["step"]
    }


def finished(tuned: Path) -> dict[str, bytes]:
    """The results of jobs, and the plan once it is made."""
    contents = {f"results/{path.name}": path.read_bytes() for path in (tuned / "results").glob("*.json")}
    request = tuned / "tuning.json"
    if request.is_file() and "plan" in json.loads(request.read_text("utf-8")):
        contents[request.name] = request.read_bytes()
    return contents


def check_unchanged(tuned: Path, before: dict[str, bytes]) -> None:
    for name, content in before.items():
        if not (tuned / name).is_file() or (tuned / name).read_bytes() != content:
            raise BrokenPromiseError(f"done twice: {name} is not what it was before the interruption")


def _check_folder(tuned: Path) -> None:
    """Whether everything in it can be read."""
    if not tuned.exists():
        return
    listed = run(["runs", str(tuned), "--json"])
    check_messages(listed)
    if listed.code != 0:
        raise BrokenPromiseError(f"weft runs: exit code {listed.code}: {last_line(listed)}")
    try:
        damaged = [entry for entry in map(json.loads, listed.stdout.splitlines()) if entry["state"] == "damaged"]
        for path in (path for path in tuned.rglob("*.json") if not path.name.startswith(".")):
            json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise BrokenPromiseError(f"half-written: {error}") from None
    if damaged:
        raise BrokenPromiseError(f"damaged: {damaged}")


def _check_processes(folder: Path, seconds: float) -> None:
    wait_until(lambda: not processes_of(str(folder)), seconds, "processes left: those of candidates")
