"""Kill, signal, starve and damage weft at random, and compare what it delivers: ``make soak MINUTES=20 SEED=1``.

Each round takes a command (train, train with two workers, prepare, translate, evaluate, export, import, report, lab,
tune, serve) and a disturbance:

    kill        SIGKILL at a random moment, up to three times
    signal      SIGINT, SIGTERM or SIGHUP at a random moment, up to three times
    full disk   a file system (as root) or a file-size limit that is too small
    damage      a byte of a random file flipped, the file truncated, emptied, overwritten or removed

After the first three, the same command (with --resume, where there is one) must deliver what the undisturbed command
delivered, bit for bit: weights, optimizer state, token store, translations, scores. Damage may be refused, in one line,
or have no effect on the result. Text that a person may edit (recipe.toml, README.md, metrics.json, log.jsonl) is only
required not to cause a traceback. Rounds of tune and serve are killed and signaled only; what is compared of them is in
tools/soak_tuning.py and tools/soak_service.py. The exit code is 0 if every round ended well.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from soak_processes import MARK, BrokenPromiseError, Ended, check_messages, digest, last_line, run
from soak_service import ServiceRounds
from soak_tuning import SETTINGS as TUNING
from soak_tuning import TuningRounds

SETTINGS = {
    "data.folder": "/",
    "tokenizer.kind": "word",
    "model.embedding": 12,
    "model.encoder.hidden": 16,
    "model.decoder.hidden": 16,
    "training.steps": 60,
    "training.batch_tokens": 128,
    "training.validate_every": 20,
    "training.save_every": 7,
    "training.average": 2,
    "training.log_every": 5,
    "training.device": "cpu",
}
TRANSFORMER = {
    "tokenizer.kind": "bpe",
    "tokenizer.size": 60,
    **{f"model.{side}.layers": 1 for side in ("encoder", "decoder")},
    "model.embedding": 16,
    "training.steps": 20,
    "training.metric": "loss",
}
"""Changes of `SETTINGS` for a model that other toolkits have too."""
COMPLETE = {"prepare": "store", "export": "exported", "import": "run"}
"""Outputs that a command creates with one rename: if one exists, the command had ended before the signal came."""
EDITABLE = {"recipe.toml", "README.md", "metrics.json", "log.jsonl"}
USED = {".ids", ".starts", ".part", "state.json", "about.json", "model.safetensors", "weights.safetensors"}
"""Names and endings of files without which nothing works: half of all damage is done to them."""
WEIGHTS = (3, 1, 2, 2, 2, 2, 2, 1, 1, 1, 3)
"""Relative frequency of each command, tune and serve last."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOCKED_FOR = 60.0
"""Seconds for which workers without a launcher may hold the lock of their run."""


@dataclass(frozen=True)
class Round:
    """A command, what was done to it, and what became of it."""

    command: str
    disturbance: str
    outcome: str
    """same result, refused in one line; or what went wrong"""
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome not in ("same result", "refused in one line", "edited text")


class Command:
    """A command in its own folder: how it starts, how it continues, and what it writes."""

    def __init__(self, name: str, start: Callable[[Path], list[str]], deliver: Callable[[Path, Ended], str]) -> None:
        self.name, self.start, self.deliver = name, start, deliver
        self.result = ""
        self.seconds = 0.0
        self.bytes = 0

    def arguments(self, folder: Path) -> list[str]:
        arguments = self.start(folder)
        if self.name.startswith("train") and (folder / "run").exists():
            workers = arguments[arguments.index("--workers") :] if "--workers" in arguments else []
            return ["train", str(folder / "run"), "--resume", *workers]
        if self.name == "translate" and (folder / "output.txt.part").exists():
            return [*arguments, "--resume"]
        return arguments

    def is_complete(self, folder: Path) -> bool:
        return self.name in COMPLETE and (folder / COMPLETE[self.name]).exists()

    def finish(self, folder: Path) -> str:
        """Run until complete, undisturbed; what was delivered."""
        deadline = time.monotonic() + LOCKED_FOR
        if self.is_complete(folder):
            return self.deliver(folder, Ended(0, "", "", 0.0))
        while True:
            ended = run(self.arguments(folder))
            if ended.code == 0:
                return self.deliver(folder, ended)
            locked = ended.code == 2 and ("lock" in ended.stderr or "another process" in ended.stderr)
            if not locked or time.monotonic() > deadline:
                raise BrokenPromiseError(f"does not go on: exit code {ended.code}: {last_line(ended)}")
            time.sleep(0.5)


class Soak:
    """The corpus, the undisturbed results, and the rounds."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.rounds: list[Round] = []
        self.pairs, self.sources = folder / "pairs.tsv", folder / "sources.txt"
        letters = random.Random(7)
        lines = [" ".join(letters.choices("abcdefgh", k=letters.randint(2, 9))) for _ in range(500)]
        self.pairs.write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), "utf-8")
        more = ("\n".join(line[:5] for line in lines) + "\n") * 10  # more lines than are translated at a time
        self.sources.write_text(more, "utf-8")
        self.model, self.store = folder / "model", folder / "store"
        self.transformer, self.exported = folder / "transformer", folder / "exported"
        changes = {**SETTINGS, **{f"data.{split}": str(self.pairs) for split in ("train", "valid", "test")}}
        self.changes = _options(changes)
        self.tuning = TuningRounds(_options({**changes, **TUNING}), self.sources)
        self.transformer_changes = _options({**changes, **TRANSFORMER})
        self.commands = [
            Command("train", self._train, self._weights),
            Command("train, 2 workers", lambda path: [*self._train(path), "--workers", "2"], self._weights),
            Command("prepare", lambda path: self._prepare(path / "store"), self._prepared),
            Command("translate", lambda path: self._translate(self.model, path), self._translations),
            Command("evaluate", lambda path: self._evaluate(self.model, path), self._scores),
            Command("export", lambda path: self._export(path / "exported"), self._exported),
            Command("import", lambda path: ["import", str(self.exported), "--out", str(path / "run")], self._weights),
            Command("report", lambda path: ["report", str(self.model), "--json"], self._report),
            Command("lab", lambda path: ["lab", "scaling", "--quick", "--json"], self._lab),
        ]

    def _train(self, folder: Path, *more: str) -> list[str]:
        return ["train", "grammar", *self.changes, *more, "--out", str(folder / "run")]

    def _prepare(self, store: Path) -> list[str]:
        return ["data", "prepare", "grammar", *self.changes, "--out", str(store)]

    def _translate(self, model: Path, folder: Path) -> list[str]:
        output = ["--output", str(folder / "output.txt"), "--engine", "torch", "--search", "greedy"]
        return ["translate", str(model), str(self.sources), *output]

    def _evaluate(self, model: Path, folder: Path) -> list[str]:
        output = ["--json", "--output", str(folder / "output.txt")]
        return ["evaluate", str(model), str(self.pairs), "--limit", "60", "--engine", "torch", *output]

    def _export(self, out: Path) -> list[str]:
        return ["export", str(self.transformer), "--to", "huggingface", "--out", str(out)]

    def _exported(self, folder: Path, ended: Ended) -> str:
        return digest(*sorted((folder / "exported").iterdir()))

    def _report(self, folder: Path, ended: Ended) -> str:
        return json.dumps(json.loads(ended.stdout)["calibration"])

    def _lab(self, folder: Path, ended: Ended) -> str:
        return json.dumps(json.loads(ended.stdout)["data"])

    def _weights(self, folder: Path, ended: Ended) -> str:
        return digest(*sorted((folder / "run").rglob("*.safetensors")))

    def _prepared(self, folder: Path, ended: Ended) -> str:
        return digest(*(path for path in sorted((folder / "store").iterdir()) if path.name[0] != "."))

    def _translations(self, folder: Path, ended: Ended) -> str:
        return digest(folder / "output.txt")

    def _scores(self, folder: Path, ended: Ended) -> str:
        report = json.loads(ended.stdout)
        return digest(folder / "output.txt") + json.dumps(report.get("scores", report.get("metrics", "")))

    def prepare(self) -> None:
        """The undisturbed results."""
        arguments = ["train", "multi30k-transformer", *self.transformer_changes, "--out", str(self.transformer)]
        for command_line in (arguments, self._export(self.exported)):
            ended = run(command_line)
            if ended.code != 0:
                raise BrokenPromiseError(f"{command_line[0]}: exit code {ended.code}: {ended.stderr}")
        for command in self.commands:
            for attempt in ("first", "second"):  # the first also pays for what torch loads at its first use
                folder = self.folder / attempt / command.name
                folder.mkdir(parents=True)
                ended = run(command.arguments(folder))
                if ended.code != 0:
                    raise BrokenPromiseError(f"{command.name}: exit code {ended.code}: {ended.stderr}")
                results = {command.result or command.deliver(folder, ended), command.deliver(folder, ended)}
                if len(results) > 1:
                    raise BrokenPromiseError(f"{command.name}: a second run gives another result")
                command.result, command.seconds = results.pop(), ended.seconds
            command.bytes = max([path.stat().st_size for path in folder.rglob("*") if path.is_file()] or [1])
            if command.name == "train":
                shutil.copytree(folder / "run", self.model)
            if command.name == "prepare":
                shutil.copytree(folder / "store", self.store)
            print(f"undisturbed: {command.name}: {command.seconds:.1f} s", flush=True)
        self.service = ServiceRounds(self.model, self.sources)
        for kind in (self.service, self.tuning):
            kind.prepare(self.folder / "first" / kind.name)
            print(f"undisturbed: {kind.name}", flush=True)
        self.unfinished = self._stopped_when(self.commands[0], "run/training/step-21", lambda path: True)
        self.half_output = self._stopped_when(
            self.commands[3], "output.txt.part.json", lambda path: '"lines": 0' not in path.read_text("utf-8")
        )

    def _stopped_when(self, command: Command, name: str, is_reached: Callable[[Path], bool]) -> Path:
        """A folder of a command that was killed when it had done part of its work."""
        folder = self.folder / "unfinished" / command.name
        folder.mkdir(parents=True)
        path = folder / name
        run(command.arguments(folder), when=lambda seconds: path.exists() and is_reached(path))
        if not path.exists():
            raise BrokenPromiseError(f"{command.name}: ended before it could be killed")
        return folder

    def play(self) -> Round:
        disturbance = self.random.choice(("kill", "signal", "full disk", "damage", "damage"))
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        os.environ[MARK] = str(folder)
        try:
            if disturbance == "damage":
                return self._damaged(folder)
            kinds: list[Command | TuningRounds | ServiceRounds] = [
                *self.commands,
                *([] if disturbance == "full disk" else [self.tuning, self.service]),
            ]
            command = self.random.choices(kinds, WEIGHTS[: len(kinds)])[0]
            detail = ""
            try:
                if isinstance(command, TuningRounds | ServiceRounds):
                    detail = command.play(folder, self.random, disturbance)
                elif disturbance == "full disk":
                    self._with_full_disk(command, folder)
                else:
                    self._interrupted(command, folder, disturbance)
            except BrokenPromiseError as failure:
                return Round(command.name, disturbance, str(failure).split(":")[0], str(failure))
            return Round(command.name, disturbance, "same result", detail)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _interrupted(self, command: Command, folder: Path, disturbance: str) -> None:
        for _ in range(self.random.randint(1, 3)):
            if command.is_complete(folder):
                break
            by = signal.SIGKILL if disturbance == "kill" else self.random.choice(SIGNALS)
            moment = self.random.uniform(0, 1.1 * command.seconds)
            ended = run(command.arguments(folder), when=lambda seconds, moment=moment: seconds >= moment, by=by)
            check_messages(ended)
            if ended.code == 0:
                self._compare(command, command.deliver(folder, ended), folder)
                return
            locked = ended.code == 2 and "lock" in ended.stderr
            if ended.code not in (-by, 128 + by) and not locked:
                raise BrokenPromiseError(
                    f"wrong exit code: {ended.code} after {signal.Signals(by).name}: {last_line(ended)}"
                )
        self._compare(command, command.finish(folder), folder)

    def _with_full_disk(self, command: Command, folder: Path) -> None:
        limit = int(2 ** self.random.uniform(8, len(bin(command.bytes)) - 2))
        if self.random.random() < 0.5 and command.name != "train, 2 workers":
            with small_file_system(folder, max(limit * 2, 4096)) as grow:
                if grow is not None:
                    self._check_full(command, folder, run(command.arguments(folder)), grow)
                    return
        self._check_full(command, folder, run(command.arguments(folder), file_size=limit), lambda: None)

    def _check_full(self, command: Command, folder: Path, ended: Ended, grow: Callable[[], None]) -> None:
        check_messages(ended)
        if ended.code not in (0, 2):
            raise BrokenPromiseError(f"wrong exit code: {ended.code} on a full disk: {last_line(ended)}")
        grow()
        delivered = command.deliver(folder, ended) if ended.code == 0 else command.finish(folder)
        self._compare(command, delivered, folder)

    def _compare(self, command: Command, delivered: str, folder: Path) -> None:
        if delivered != command.result:
            raise BrokenPromiseError("wrong result: not that of the undisturbed command")
        left = [path.name for path in folder.rglob("*") if path.name.endswith((".part", ".part.json"))]
        if left:
            raise BrokenPromiseError(f"left behind: {', '.join(left)}")

    def _damaged(self, folder: Path) -> Round:
        """Damage a copy of something stored, and use it."""
        train, _, _, translate, evaluate, export, _, report, _ = self.commands
        kinds = {
            "resume a damaged run": (train, self.unfinished, "run", train.arguments),
            "train on a damaged store": (train, self.store.parent, "store", self._train_on_store),
            "translate with a damaged run": (translate, self.model.parent, "model", self._use(self._translate)),
            "evaluate a damaged run": (evaluate, self.model.parent, "model", self._use(self._evaluate)),
            "resume a damaged output": (translate, self.half_output, "", translate.arguments),
            "report a damaged run": (report, self.model.parent, "model", self._report_on),
            "export a damaged run": (export, self.transformer.parent, "transformer", self._export_from),
        }
        name = self.random.choice(list(kinds))
        command, origin, part, arguments = kinds[name]
        shutil.copytree(origin / part, folder / part, dirs_exist_ok=True)
        path, how = damage(folder / part, self.random)
        described = f"{path.relative_to(folder)}: {how}"
        try:
            ended = run(arguments(folder))
            check_messages(ended)
            if ended.code == 2:
                return Round(name, "damage", "refused in one line", f"{described}: {last_line(ended)}")
            if ended.code != 0:
                raise BrokenPromiseError(f"wrong exit code: {ended.code}: {last_line(ended)}")
            if command.deliver(folder, ended) != command.result:
                if path.name in EDITABLE:
                    return Round(name, "damage", "edited text", described)
                raise BrokenPromiseError("wrong result: not that of the undamaged files")
        except BrokenPromiseError as failure:
            return Round(name, "damage", str(failure).split(":")[0], f"{described}: {failure}")
        return Round(name, "damage", "same result", described)

    def _train_on_store(self, folder: Path) -> list[str]:
        return self._train(folder, "--set", f"data.prepared={folder / 'store'}")

    def _report_on(self, folder: Path) -> list[str]:
        return ["report", str(folder / "model"), "--json"]

    def _export_from(self, folder: Path) -> list[str]:
        return ["export", str(folder / "transformer"), "--to", "huggingface", "--out", str(folder / "exported")]

    def _use(self, arguments: Callable[[Path, Path], list[str]]) -> Callable[[Path], list[str]]:
        return lambda folder: arguments(folder / "model", folder)


def _options(changes: dict[str, object]) -> list[str]:
    return [word for name, value in changes.items() for word in ("--set", f"{name}={json.dumps(value)}")]


def damage(folder: Path, generator: random.Random) -> tuple[Path, str]:
    """Damage one of the files of a folder; which, and how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    used = [path for path in files if path.suffix in USED or path.name in USED]
    path = generator.choice(used if used and generator.random() < 0.5 else files)
    content = bytearray(path.read_bytes())
    how = generator.choice(("flipped", "truncated", "emptied", "overwritten", "removed"))
    if how == "removed" or not content:
        path.unlink()
        return path, "removed"
    position = generator.randrange(len(content))
    if how == "flipped":
        content[position] ^= 1 << generator.randrange(8)
        how = f"bit of byte {position} flipped"
    elif how == "overwritten":
        content[position : position + 64] = generator.randbytes(min(64, len(content) - position))
        how = f"64 bytes from {position} overwritten"
    else:
        size = position if how == "truncated" else 0
        content, how = content[:size], f"truncated to {size} bytes"
    path.write_bytes(content)
    return path, how


@contextmanager
def small_file_system(folder: Path, size: int) -> Iterator[Callable[[], None] | None]:
    """A file system of this size at a folder, and a function that enlarges it; None where it cannot be mounted."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        yield None
        return
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=256m", str(folder)], check=True) and None
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20, help="how long (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the disturbances (default: 1)")
    parser.add_argument("--report", type=Path, default=Path("build/soak.json"), help="JSON (default: build/soak.json)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # not ignored, even under nohup
    os.environ.update({"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1"})
    import torch  # before the first fork

    import weft.apps.cli
    import weft.training.train  # noqa: F401

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="weft-soak-") as name:
        os.environ["WEFT_CACHE"] = str(Path(name) / "cache")
        soak = Soak(Path(name), arguments.seed)
        soak.prepare()
        end = time.monotonic() + 60 * arguments.minutes
        while time.monotonic() < end:
            result = soak.play()
            soak.rounds.append(result)
            if result.failed:
                print(f"{result.command}: {result.disturbance}: {result.detail}", flush=True)
    return report(soak.rounds, arguments)


def report(rounds: list[Round], arguments: argparse.Namespace) -> int:
    """Print the counts and write the report."""
    counts = Counter((one.disturbance, one.command, one.outcome) for one in rounds)
    for (disturbance, command, outcome), count in sorted(counts.items()):
        print(f"{disturbance:10} {command:30} {outcome:22} {count:5}")
    failures = sum(one.failed for one in rounds)
    print(f"seed {arguments.seed}: {len(rounds)} rounds in {arguments.minutes:g} minutes, {failures} failures")
    content = {
        "seed": arguments.seed,
        "minutes": arguments.minutes,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "rounds": [asdict(one) for one in rounds],
    }
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    arguments.report.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
