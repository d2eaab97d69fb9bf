"""`weft serve` under load, on this machine: throughput, latency, overload and memory, in one run.

    python benchmarks/serving.py                        # about five minutes on two cores
    python benchmarks/serving.py --minutes 10           # memory over ten minutes of overload
    python benchmarks/serving.py --engine ctranslate2 --parts throughput,rival
    python benchmarks/serving.py --cores 0,1 --client-cores 2      # clients that take nothing from the service

A Transformer of 3 + 3 layers, 256 wide, 8,000 words, untrained; sources of 8 to 20 words, outputs of exactly 20 tokens,
beams of 5. Clients are connections of one process that speaks HTTP and does nothing else.

    throughput   64 clients, one sentence a request, against `Translator.translate_lines` on the same lines; and the CPU
                 seconds of each process
    latency      at half of that, requests at random times: p50 and p99
    overload     ten times of that: how many are admitted, their latency, how fast the others are refused, what is lost
    memory       of the service and its worker before and after the overload
    rival        a plain service: FastAPI and `generate` of Hugging Face transformers, an equal model, the same clients
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

WORDS, LENGTH, BEAM = 8_000, 20, 5
CLIENTS = 64
STACK = {"kind": "transformer", "layers": 3, "hidden": 256, "heads": 4, "feed_forward": 1024}
RIVAL = """
import sys, torch, uvicorn
from fastapi import FastAPI
from transformers import MarianConfig, MarianMTModel
torch.set_num_threads(int(sys.argv[2]))
config = MarianConfig(vocab_size={words}, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, pad_token_id=0, eos_token_id=2,
    decoder_start_token_id=0, forced_eos_token_id=None, max_position_embeddings=128)
model = MarianMTModel(config).eval()
app = FastAPI()

@app.get("/ready")
def ready():
    return {{}}

@app.post("/api/translate")
def translate(body: dict):
    ids = torch.tensor([[3 + int(word[1:]) % ({words} - 3) for word in body["text"].split()] + [2]])
    with torch.inference_mode():
        out = model.generate(ids, num_beams={beam}, min_new_tokens={length}, max_new_tokens={length})
    return {{"translations": [{{"text": " ".join(f"w{{token}}" for token in out[0].tolist())}}]}}

uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""
BASELINE = """
import json, sys, time, torch, weft
torch.set_num_threads(int(sys.argv[3]))
translator = weft.load(sys.argv[1], device="cpu", engine=sys.argv[4])
lines = open(sys.argv[2]).read().splitlines()
list(translator.translate_lines(lines[:64]))
start = time.perf_counter()
count = sum(1 for _ in translator.translate_lines(lines))
print(json.dumps(count / (time.perf_counter() - start)))
"""


class Answer(NamedTuple):
    """The answer to one request."""

    status: int
    seconds: float


def make_run(folder: Path) -> Path:
    """A run folder with weights that have seen one batch."""
    import weft

    chosen = random.Random(1)
    pairs = folder / "pairs.tsv"
    words = [f"w{number}" for number in range(WORDS - 4)]
    rows = [words[start : start + 12] for start in range(0, len(words), 12)]
    pairs.write_text("".join(f"{' '.join(row)}\t{' '.join(row)}\n" for row in rows), "utf-8")
    recipe = weft.make_recipe(
        {
            "data": {"train": str(pairs)},
            "tokenizer": {"kind": "word", "size": WORDS},
            "model": {"embedding": 256, "encoder": STACK, "decoder": STACK},
            "training": {"steps": 2, "validate_every": 0, "device": "cpu", "batch_tokens": 256},
            "search": {"size": BEAM, "min_length": LENGTH - 1, "max_length": LENGTH, "no_loops": False},
        }
    )
    for _ in weft.train(recipe, folder / "run"):
        pass
    lines = [" ".join(chosen.choices(words, k=chosen.randint(8, 20))) for _ in range(2_000)]
    (folder / "lines.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return folder / "run"


class Client:
    """One connection, used for one request after the other."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, text: str) -> Answer:
        """Send a text and wait for the answer."""
        start = time.perf_counter()
        if self.streams is None or self.streams[0].at_eof():  # closed by the service after a while without use
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        body = json.dumps({"text": text}).encode()
        head = "POST /api/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        match = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        assert match is not None
        await reader.readexactly(int(match[1]))
        return Answer(int(answer.split(b" ", 2)[1]), time.perf_counter() - start)


async def closed_loop(port: int, lines: list[str], clients: int = CLIENTS) -> float:
    """Sentences per second of clients that each send their next sentence when they have the answer."""
    remaining = iter(lines)

    async def work() -> None:
        client = Client(port)
        for line in remaining:
            while (await client.ask(line)).status != 200:
                await asyncio.sleep(0.05)

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    return len(lines) / (time.perf_counter() - start)


async def open_loop(port: int, lines: list[str], rate: float, seconds: float) -> list[Answer]:
    """Requests at random times, whatever becomes of those before; connections are used again."""
    idle: list[Client] = []
    chosen = random.Random(2)

    async def request(line: str) -> Answer:
        client = idle.pop() if idle else Client(port)
        try:
            answer = await client.ask(line)
        except (OSError, asyncio.IncompleteReadError):
            return Answer(0, 0.0)
        idle.append(client)
        return answer

    tasks: list[asyncio.Task[Answer]] = []
    start = now = time.perf_counter()
    while now - start < seconds:
        tasks.append(asyncio.create_task(request(lines[len(tasks) % len(lines)])))
        now += chosen.expovariate(rate)
        await asyncio.sleep(max(now - time.perf_counter(), 0.0))
    return list(await asyncio.gather(*tasks))


def cores_of(text: str) -> set[int]:
    """The cores that an option names; without one, all."""
    return {int(core) for core in text.split(",")} if text else os.sched_getaffinity(0)


@contextmanager
def process(command: list[str], port: int, cores: set[int]) -> Iterator[subprocess.Popen[bytes]]:
    """A service in a separate process on some cores, once it is ready."""
    import urllib.request

    environment = {**os.environ, "WEFT_NO_PROGRESS": "1"}
    with subprocess.Popen(command, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cores)) as service:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5)
                    break
                except OSError:
                    time.sleep(0.2)
            yield service
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(60)


def resident(pid: int) -> int:
    """Megabytes of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    status = Path(f"/proc/{pid}/status").read_text()
    own = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]
    return own + sum(resident(int(child)) for child in children)


def cpu_seconds(pid: int) -> dict[str, float]:
    """CPU time of a service, its worker, and this process, which runs the clients."""

    def of(pid: int | str) -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {"service": of(pid), "worker": sum(map(of, children)), "clients": of("self")}


def percentiles(seconds: list[float]) -> dict[str, float]:
    if len(seconds) < 2:
        return {}
    cuts = quantiles(seconds, n=100)
    return {"p50_ms": round(1000 * cuts[49], 1), "p99_ms": round(1000 * cuts[98], 1)}


def measure_service(given: argparse.Namespace, run: Path, lines: list[str]) -> dict[str, Any]:
    """All parts that concern `weft serve`."""
    port = given.port
    options = ["--port", str(port), "--device", "cpu", "--engine", given.engine, "--set", f"threads={given.threads}"]
    options += [word for change in given.set for word in ("--set", change)]
    result: dict[str, Any] = {}
    command = [sys.executable, "-m", "weft", "serve", str(run), *options]
    with process(command, port, cores_of(given.cores)) as service:
        asyncio.run(closed_loop(port, lines[:256]))
        start = cpu_seconds(service.pid)
        rate = asyncio.run(closed_loop(port, lines))
        result["service_per_second"] = round(rate, 1)
        end = cpu_seconds(service.pid)
        result["cpu_seconds"] = {name: round(end[name] - start[name], 1) for name in start}
        if "latency" in given.parts:
            answers = asyncio.run(open_loop(port, lines, rate / 2, given.seconds))
            admitted = [answer.seconds for answer in answers if answer.status == 200]
            result["half_load"] = {**percentiles(admitted), "requests": len(answers), "answered": len(admitted)}
        if "overload" in given.parts:
            memory = resident(service.pid)
            seconds = max(given.seconds, 60 * given.minutes)
            answers = asyncio.run(open_loop(port, lines, 10 * rate, seconds))
            result["overload"] = {
                "requests": len(answers),
                "admitted": {
                    "per_second": round(sum(answer.status == 200 for answer in answers) / seconds, 1),
                    **percentiles([answer.seconds for answer in answers if answer.status == 200]),
                },
                "refused": percentiles([answer.seconds for answer in answers if answer.status in (429, 503)]),
                "statuses": dict(Counter(answer.status for answer in answers)),
                "lost": sum(answer.status not in (200, 429, 503) for answer in answers),
                "memory_mb": [memory, resident(service.pid)],
                "seconds": seconds,
            }
    return result


def measure_rival(given: argparse.Namespace, lines: list[str]) -> float:
    """Sentences per second of the plain service."""
    script = RIVAL.format(words=WORDS, beam=BEAM, length=LENGTH)
    command = [sys.executable, "-c", script, str(given.port + 1), str(given.threads)]
    with process(command, given.port + 1, cores_of(given.cores)):
        asyncio.run(closed_loop(given.port + 1, lines[:CLIENTS]))
        return asyncio.run(closed_loop(given.port + 1, lines[: given.rival_lines]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="throughput,latency,overload,rival")
    parser.add_argument("--lines", type=int, default=2_000)
    parser.add_argument("--rival-lines", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=30.0, help="of latency and of overload")
    parser.add_argument("--minutes", type=float, default=0.0, help="of overload, if that is longer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engine", choices=["torch", "ctranslate2", "auto"], default="torch")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the service")
    parser.add_argument("--cores", default="", help="of the service, its worker, and what it is compared with: 0,1")
    parser.add_argument("--client-cores", default="", help="of the clients")
    given = parser.parse_args()
    os.sched_setaffinity(0, cores_of(given.client_cores))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = make_run(folder)
        lines = (folder / "lines.txt").read_text("utf-8").splitlines()[: given.lines]
        (folder / "lines.txt").write_text("\n".join(lines) + "\n", "utf-8")
        result: dict[str, Any] = {"engine": given.engine, "threads": given.threads, "lines": len(lines)}
        arguments = [str(run), str(folder / "lines.txt"), str(given.threads), given.engine]
        command = [sys.executable, "-c", BASELINE, *arguments]
        pin = lambda: os.sched_setaffinity(0, cores_of(given.cores))  # noqa: E731
        done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=pin)
        result["translate_lines_per_second"] = round(json.loads(done.stdout.splitlines()[-1]), 1)
        result |= measure_service(given, run, lines)
        result["share"] = round(result["service_per_second"] / result["translate_lines_per_second"], 3)
        if "rival" in given.parts:
            rival = measure_rival(given, lines)
            result["rival_per_second"] = round(rival, 1)
            result["times_the_rival"] = round(result["service_per_second"] / rival, 1)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
