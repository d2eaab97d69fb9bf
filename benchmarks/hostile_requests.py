"""`weft serve` under hostile requests and floods, on this machine: memory, deadlines, and what other clients notice.

    python benchmarks/hostile_requests.py                       # a few minutes; traffic to 127.0.0.1 only
    python benchmarks/hostile_requests.py --parts memory,floods --memory 1.5e9

The model of benchmarks/serving.py: a Transformer of 3 + 3 layers, 256 wide, 8,000 words. Client A sends from 127.0.0.1,
client B from 127.0.0.2: for the service they are two clients.

    memory    40 expensive requests (all heads of long texts, exact searches, required phrases, 1,000 pairs to score,
              n-best lists with attention, unread streams, large bodies …), eight at a time: the largest memory of the
              service and its worker (sampled), and what they have ten seconds later; two rounds
    floods    B sends one short text after the other while A floods the service: B's refusals and latencies, beside
              those without a flood; /health meanwhile
    overload  answers per second to long texts: of 64 connections, and of more
    leaving   A leaves in the middle of each of the long operations: seconds until the worker is idle again
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from serving import make_run, percentiles, process, resident

A, B = "127.0.0.1", "127.0.0.2"
PATIENCE = 90.0


async def send(port: int, path: str, body: Any, *, source: str = A, read: bool = True) -> tuple[int, float, bytes]:
    """The status, the seconds and the body of the answer to one request; status 0 if the connection was closed."""
    start = time.perf_counter()
    writer = None
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0), limit=1 << 16)
            content = b"" if body is None else json.dumps(body).encode()
            method = "GET" if body is None else "POST"
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Connection: close\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            head_bytes = await reader.readuntil(b"\r\n\r\n")
            if not read:
                await asyncio.sleep(15.0)
                return int(head_bytes.split(b" ", 2)[1]), time.perf_counter() - start, b""
            answer = b""
            while part := await reader.read(1 << 16):
                answer = answer + part if len(answer) < 1 << 16 else answer
            return int(head_bytes.split(b" ", 2)[1]), time.perf_counter() - start, answer
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return 0, time.perf_counter() - start, b""
    finally:
        if writer is not None:
            writer.close()


def words(count: int, seed: int = 1) -> str:
    chosen = random.Random(seed)
    return " ".join(f"w{chosen.randint(0, 7_000)}" for _ in range(count))


def hostile_requests() -> list[tuple[str, Any, bool]]:
    """Path, body, and whether the answer is read."""
    long, longer = words(800), words(1_000)[:5_000]
    endless = {"stop": "steps", "min_length": 1_000, "max_length": 1_000, "no_loops": False}
    requests: list[tuple[str, Any, bool]] = [
        ("/api/heads", {"text": longer}, True),
        ("/api/heads", {"text": words(300)}, True),
        ("/api/heads", {"text": words(300), "target": words(300, 2)}, True),
        ("/api/heads", {"text": words(400), "target": words(400, 2)}, True),
        ("/api/translate", {"text": longer, "search": {"kind": "exact", "min_length": 0}}, True),
        (
            "/api/translate",
            {"text": words(190), "search": {"kind": "exact", "min_length": 0, "max_length": 60, "max_nodes": 20_000}},
            True,
        ),
        (
            "/api/translate",
            {"text": words(190), "search": {"kind": "exact", "min_length": 0, "max_length": 1_000}},
            True,
        ),
        (
            "/api/translate",
            {"text": words(20), "search": {"kind": "exact", "min_length": 0, "max_length": 60, "max_nodes": 20_000}},
            True,
        ),
        ("/api/translate", {"text": long, "search": {"required": [words(9, n) for n in range(10)]}}, True),
        ("/api/translate", {"text": long, "search": {"required": [words(1, n) for n in range(100)]}}, True),
        ("/api/translate", {"text": long, "search": {"size": 64, **endless}, "n_best": 64}, True),
        ("/api/translate", {"text": long, "search": {"size": 64, **endless}, "n_best": 64, "attention": True}, True),
        ("/api/translate", {"text": words(200), "search": {"size": 64}, "n_best": 64, "attention": True}, True),
        ("/api/translate", {"text": [long] * 300, "search": {"size": 64}}, True),
        ("/api/translate", {"text": [words(100)] * 1_000}, True),
        ("/api/translate", {"text": [words(100)] * 1_000, "n_best": 5, "attention": True}, True),
        ("/api/translate", {"text": long, "search": {"kind": "mbr", "samples": 128}}, True),
        ("/api/translate", {"text": words(300), "search": {"kind": "mbr", "samples": 128, **endless}}, True),
        ("/api/translate", {"text": words(300), "search": {"size": 64, **endless}, "trace": True}, True),
        ("/api/translate", {"text": words(30), "search": {"memory": 1e12, "size": 64, **endless}}, True),
        ("/api/translate", {"text": "w1 " * 1_666, "search": {"size": 64, "no_repeat_ngram": 900}}, True),
        ("/api/translate", {"text": longer, "search": {"banned": [words(1, n) for n in range(100)]}}, True),
        ("/api/score", {"pairs": [[words(150, n), words(150, n + 1)] for n in range(1_000)]}, True),
        ("/api/score", {"pairs": [[longer, longer]] * 150}, True),
        ("/api/score", {"pairs": [["w1", longer]] * 300}, True),
        ("/api/translate/stream", {"text": long, "search": {"size": 64, **endless}, "n_best": 64}, False),
        ("/api/translate/stream", {"text": words(200), "search": {"size": 64, **endless}, "n_best": 8}, False),
        ("/api/translate/stream", {"text": words(200), "search": {"size": 64, **endless}, "n_best": 8}, True),
        ("/api/translate/stream", {"text": words(190), "search": {"kind": "exact", "min_length": 0}}, True),
        ("/translate", {"q": [words(100)] * 1_000, "source": "auto", "target": "run", "alternatives": 60}, True),
        ("/api/translate", {"text": "x" * 1_900_000}, True),
        ("/api/translate", {"text": ["x"] * 400_000}, True),
        ("/api/translate", {"text": "x", "prefix_ids": [1] * 10_000}, True),
        (
            "/api/translate",
            {"text": words(50), "edits": {"attention": [{"step": n, "weights": [1.0] * 51} for n in range(5_000)]}},
            True,
        ),
        ("/api/walk", {"text": longer, "step": 300}, True),
        ("/api/walk", {"text": words(190), "search": {"kind": "exact", "min_length": 0, "max_length": 1_000}}, True),
        ("/api/walk", {"text": longer, "target_ids": [5] * 1_000, "step": 999}, True),
        ("/api/walk", {"text": words(300), "search": {"size": 64, **endless}, "step": 900}, True),
        ("/api/models/run/neighbors?token=w1&count=100", None, True),
        ("/api/models/run/positions?length=1024", None, True),
    ]
    return requests


class Watch:
    """The memory of a process and its children, and the longest time that /health took, sampled."""

    def __init__(self, pid: int) -> None:
        self.pid, self.largest, self.ended = pid, 0, False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.ended:
            self.largest = max(self.largest, resident(self.pid))
            time.sleep(0.1)


async def health(port: int, seconds: list[float], ended: asyncio.Event) -> None:
    while not ended.is_set():
        status, taken, _ = await send(port, "/health", None)
        seconds.append(taken if status == 200 else PATIENCE)
        await asyncio.sleep(0.2)


async def measure_memory(port: int, pid: int) -> dict[str, Any]:
    await asyncio.gather(*(send(port, "/api/translate", {"text": words(20)}) for _ in range(20)))
    before, watch, answers = resident(pid), Watch(pid), []
    places, ended, probes = asyncio.Semaphore(8), asyncio.Event(), []
    probing = asyncio.create_task(health(port, probes, ended))

    async def attack(path: str, body: Any, read: bool) -> None:
        async with places:
            status, seconds, answer = await send(port, path, body, read=read)
            reason = re.search(rb'"error":"([^"]*)', answer)
            shown = reason[1].decode() if reason else f"{len(answer)} bytes"
            answers.append(status)
            print(f"{status} {seconds:6.1f} s  {path[:30]:30} {shown[:110]}", file=sys.stderr)

    await asyncio.gather(*(attack(*request) for request in hostile_requests()))
    ended.set()
    await probing
    watch.ended = True
    await asyncio.sleep(10.0)
    statuses = {str(status): count for status, count in sorted(Counter(answers).items())}
    return {
        "requests": len(answers),
        "statuses": statuses,
        "memory_mb": {"before": before, "largest": watch.largest, "after": resident(pid)},
        "health_ms": percentiles(probes),
        "slowest_health_ms": round(1000 * max(probes), 1),
    }


async def short_requests(port: int, count: int, pause: float) -> dict[str, Any]:
    """What client B sees that sends one short text after the other."""
    answers = []
    for number in range(count):
        status, seconds, _ = await send(port, "/api/translate", {"text": words(8, number)}, source=B)
        answers.append((status, seconds))
        await asyncio.sleep(pause)
    latencies = [seconds for status, seconds in answers if status == 200]
    return {
        "answered": len(latencies),
        "of": count,
        **percentiles(latencies),
        "slowest_ms": round(1000 * max(latencies, default=0.0), 1),
    }


async def measure_floods(port: int, connections: list[int], count: int) -> dict[str, Any]:
    results = {"idle": await short_requests(port, count, 0.05)}
    texts = {"short": words(8), "long": words(400)}
    floods = [
        (f"{number} connections, {name} texts", number, "/api/translate", {"text": text})
        for number in connections
        for name, text in texts.items()
    ]
    floods += [("64 streams", 64, "/api/translate/stream", {"text": words(100), "search": {"size": 16}})]
    floods += [("64 × heads", 64, "/api/heads", {"text": words(200)})]
    for name, number, path, body in floods:
        ended, statuses = asyncio.Event(), Counter()

        async def flood(path: str = path, body: Any = body, statuses: Counter = statuses, ended: Any = ended) -> None:
            while not ended.is_set():
                status, _, _ = await send(port, path, body)
                statuses[str(status)] += 1
                await asyncio.sleep(0.02)

        tasks = [asyncio.create_task(flood()) for _ in range(number)]
        probes: list[float] = []
        tasks.append(asyncio.create_task(health(port, probes, ended)))
        await asyncio.sleep(3.0)
        start = time.perf_counter()
        seen = await short_requests(port, count, 0.05)
        seconds = time.perf_counter() - start
        ended.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        results[name] = {
            **seen,
            "flood": dict(statuses),
            "seconds": round(seconds, 1),
            "health_ms": percentiles(probes),
        }
        print(name, results[name], file=sys.stderr)
        await asyncio.sleep(2.0)
    return results


async def measure_overload(port: int, connections: list[int], seconds: float = 15.0) -> dict[str, Any]:
    """Answers per second to long texts: the most that a few patient clients get, and what so many connections get."""

    async def answers(number: int) -> float:
        answered, ended = 0, asyncio.Event()

        async def work() -> None:
            nonlocal answered
            while not ended.is_set():
                status, _, _ = await send(port, "/api/translate", {"text": words(120)})
                answered += status == 200 and not ended.is_set()
                await asyncio.sleep(0.02)

        tasks = [asyncio.create_task(work()) for _ in range(number)]
        await asyncio.sleep(5.0)
        answered = 0
        await asyncio.sleep(seconds)
        rate = answered / seconds
        ended.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(2.0)
        return rate

    rates = {f"{number} connections": round(await answers(number), 2) for number in (64, *connections)}
    rates["64 connections again"] = round(await answers(64), 2)
    print(rates, file=sys.stderr)
    return rates


async def measure_leaving(port: int) -> dict[str, float]:
    """Seconds until the worker has nothing to do after A has left."""
    endless = {"stop": "steps", "min_length": 1_000, "max_length": 1_000, "no_loops": False}
    free = {"min_length": 0, "max_length": 40}
    longest = {"min_length": 900, "max_length": 1_000}
    operations = {
        "beam": ("/api/translate", {"text": words(300), "search": {"size": 16, **endless}}),
        "exact": ("/api/translate", {"text": words(60), "search": {"kind": "exact", "max_nodes": 20_000, **free}}),
        "required": (
            "/api/translate",
            {"text": words(300), "search": {"required": [words(5, n) for n in range(10)], **longest}},
        ),
        "stream": ("/api/translate/stream", {"text": words(200), "search": {"size": 16, **endless}}),
        "heads": ("/api/heads", {"text": words(150), "search": {**endless, "min_length": 400, "max_length": 400}}),
        "score": ("/api/score", {"pairs": [[words(150, n), words(150, n + 1)] for n in range(500)]}),
    }
    seconds = {}
    for name, (path, body) in operations.items():
        task = asyncio.create_task(send(port, path, body))
        await asyncio.sleep(1.5)
        if task.done():
            print(name, "was over before its client left:", task.result()[::2], file=sys.stderr)
            continue
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        start = time.perf_counter()
        while time.perf_counter() - start < PATIENCE:
            _, _, text = await send(port, "/metrics", None)
            running = re.search(rb"weft_num_requests_running\{[^}]*\} (\d+)", text)
            if running is not None and running[1] == b"0":
                break
            await asyncio.sleep(0.02)
        seconds[name] = round(time.perf_counter() - start, 2)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="memory,floods,leaving")
    parser.add_argument("--memory", type=float, default=2e9, help="the setting memory of the service")
    parser.add_argument("--connections", default="200,500,800", help="of the floods")
    parser.add_argument("--rounds", type=int, default=2, help="of the expensive requests; the first one loads modules")
    parser.add_argument("--count", type=int, default=40, help="requests of client B for each flood")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=8767)
    parser.add_argument("--run", type=Path, help="a run folder; by default one is made")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = given.run or make_run(Path(temporary))
        settings = {"memory": given.memory, "threads": given.threads}
        command = [sys.executable, "-m", "weft", "serve", str(run), "--port", str(given.port), "--device", "cpu"]
        command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        result: dict[str, Any] = {"settings": settings}
        with process(command, given.port, os.sched_getaffinity(0)) as service:
            if "memory" in given.parts:
                rounds = [asyncio.run(measure_memory(given.port, service.pid)) for _ in range(given.rounds)]
                result["memory"] = rounds
            if "leaving" in given.parts:
                result["leaving_s"] = asyncio.run(measure_leaving(given.port))
            if "overload" in given.parts:
                numbers = [int(number) for number in given.connections.split(",")]
                result["long_texts_per_second"] = asyncio.run(measure_overload(given.port, numbers))
            if "floods" in given.parts:
                numbers = [int(number) for number in given.connections.split(",")]
                result["floods"] = asyncio.run(measure_floods(given.port, numbers, given.count))
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
