"""Ten million pairs: the speed of preparation, the memory of each stage, and the time a GPU waits for batches.

    python benchmarks/corpus_size.py --folder scale-runs [--pairs 10000000] [--stages make,learn,...]

    make      pairs of the built-in grammar, written by as many processes as there are cores; with --text FILE.tsv, the
              pairs of that file: the grammar has few distinct words, which favors a cache of words
    learn     `weft tokenizer learn` on them
    prepare   `weft data prepare` with that tokenizer: pairs/s
    alone     the `tokenizers` library on its own, on two million of them, in memory, no output kept: pairs/s, with
              weft's tokenizer, and with the same merges and its fastest pre-tokenizer (for comparison only)
    start     opening the store and making the first batches, of a thousand pairs and of all
    train     steps of a Transformer base on the store (a GPU: bf16): tokens/s, and the time waiting for a batch
    stream    the same without preparation

Memory is the proportional set size (PSS) summed over the processes of a stage, sampled five times per second, including
the resident part of mapped files. One line of JSON per stage.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

WEFT = [sys.executable, "-m", "weft"]
ALONE = 2_000_000
STAGES = ("make", "learn", "prepare", "alone", "start", "train", "stream")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--text", type=Path, help="make: a TSV of ordinary text instead of the built-in grammar")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-tokens", type=int, default=16_384)
    parser.add_argument("--set", action="append", default=[], help="a setting of the training stages")
    parser.add_argument("--inner", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.inner:
        INNER[asked.inner](asked)
        return
    for stage in asked.stages.split(","):
        found = OUTER[stage](asked)
        print(json.dumps({"stage": stage, **found}), flush=True)


def cores() -> int:
    return len(os.sched_getaffinity(0))


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("pairs-*.tsv"))


def make(asked: argparse.Namespace) -> dict[str, object]:
    begun = time.monotonic()
    if asked.text:
        return {"bytes": (asked.folder / "pairs-000.tsv").write_bytes(asked.text.read_bytes())}
    children = [
        subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--inner", "make", "--part", str(part)])
        for part in range(cores())
    ]
    assert not any(child.wait() for child in children)
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "bytes": sum(file.stat().st_size for file in files(asked.folder)),
    }


def make_part(asked: argparse.Namespace) -> None:
    from weft.tasks import generate

    part, parts = asked.part, cores()
    count = asked.pairs * (part + 1) // parts - asked.pairs * part // parts
    with (asked.folder / f"pairs-{part:03}.tsv").open("w", encoding="utf-8") as file:
        for pair in generate("grammar", "train", count, seed=part + 1):
            file.write(f"{pair.source}\t{pair.target}\n")


def learn(asked: argparse.Namespace) -> dict[str, object]:
    out = asked.folder / "tokenizer.json"
    return measured([*WEFT, "tokenizer", "learn", *map(str, files(asked.folder)), "--size", "8000", "--out", str(out)])


def settings(asked: argparse.Namespace) -> list[str]:
    changes = [
        "data.train=pairs-*.tsv",
        f"data.folder={json.dumps(str(asked.folder.resolve()))}",
        "tokenizer.kind=bpe",
        "tokenizer.target_kind=same",
        "tokenizer.joint=true",
        f"tokenizer.file={json.dumps(str((asked.folder / 'tokenizer.json').resolve()))}",
    ]
    return [part for change in changes for part in ("--set", change)]


def prepare(asked: argparse.Namespace) -> dict[str, object]:
    out = asked.folder / "prepared"
    subprocess.run(["rm", "-rf", str(out)], check=True)
    found = measured([*WEFT, "data", "prepare", "grammar-transformer", "--out", str(out), *settings(asked)])
    size = sum(file.stat().st_size for file in out.iterdir())
    pairs = sum(sum(1 for _ in file.open("rb")) for file in files(asked.folder))
    return {**found, "pairs_per_second": round(pairs / float(str(found["seconds"]))), "bytes": size}


def alone(asked: argparse.Namespace) -> dict[str, object]:
    found = measured([sys.executable, __file__, *sys.argv[1:], "--inner", "alone"])
    return {**found, **json.loads(str(found.pop("output")))}


def alone_inner(asked: argparse.Namespace) -> None:
    import json

    from tokenizers import Tokenizer, models, pre_tokenizers

    ours = Tokenizer.from_file(str(asked.folder / "tokenizer.json"))
    model = json.loads(ours.to_str())["model"]
    plain = Tokenizer(models.BPE(model["vocab"], [tuple(merge) for merge in model["merges"]], unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found: dict[str, float] = {}
    for name, library in (("as_weft_cuts", ours), ("plain", plain)):
        seconds, count = 0.0, 0
        for file in files(asked.folder):
            with file.open(encoding="utf-8") as lines:
                while count < ALONE and (block := [line.rstrip("\n") for line, _ in zip(lines, range(100_000))]):  # noqa: B905
                    texts = [text for line in block for text in line.split("\t")]
                    begun = time.perf_counter()
                    library.encode_batch_fast(texts, add_special_tokens=False)
                    seconds += time.perf_counter() - begun
                    count += len(block)
        found[f"pairs_per_second_{name}"] = round(count / seconds)
    print(json.dumps(found))


def start(asked: argparse.Namespace) -> dict[str, object]:
    found = measured([sys.executable, __file__, *sys.argv[1:], "--inner", "start"])
    return json.loads(str(found["output"]))  # type: ignore[no-any-return]


def start_inner(asked: argparse.Namespace) -> None:
    from weft.data.batching.batches import Part, Position, StoredCorpus
    from weft.data.store.prepared import PreparedFolder
    from weft.data.store.token_store import CorpusSize, PairStore

    def seconds(pairs: int, at: Position) -> float:
        begun = time.perf_counter()
        store = PreparedFolder.open(asked.folder / "prepared").pairs
        share = pairs / len(store)
        corpus_size = CorpusSize(pairs, *(int(one * share) for one in store.corpus_size[1:3]), *store.corpus_size[3:])
        part = PairStore(store.source, store.target, corpus_size)
        for one in StoredCorpus(part, (Part(0, pairs),)).batches(4096, seed=1, start=at).take(1, 10):
            one.make()
        return time.perf_counter() - begun

    seconds(1000, Position())
    middle = Position(0, 3, asked.pairs // 40_000, 7)
    timed = {
        "a_thousand": min(seconds(1000, Position()) for _ in range(5)),
        "all": min(seconds(asked.pairs, Position()) for _ in range(5)),
        "all_resumed": min(seconds(asked.pairs, middle) for _ in range(5)),
    }
    print(json.dumps({f"{name}_ms": round(1000 * value, 2) for name, value in timed.items()}))


def train(asked: argparse.Namespace, *more: str) -> dict[str, object]:
    out = asked.folder / "run"
    subprocess.run(["rm", "-rf", str(out)], check=True)
    size = ["--set", f"training.steps={asked.steps}", "--set", f"training.batch_tokens={asked.batch_tokens}"]
    quiet = ["training.validate_every=0", "training.save_every=0", "training.log_every=1", "training.metric=loss"]
    size += [part for change in quiet for part in ("--set", change)]
    base = {"layers": 6, "hidden": 512, "heads": 8, "feed_forward": 2048}
    for side in ("encoder", "decoder"):
        for name, value in base.items():
            size += ["--set", f"model.{side}.{name}={value}"]
    size += ["--set", "model.embedding=512", "--set", "model.tie=all"]
    size += [part for change in asked.set for part in ("--set", change)]
    more = more or ("--set", f"data.prepared={json.dumps(str((asked.folder / 'prepared').resolve()))}")
    found = measured([*WEFT, "train", "grammar-transformer", "--out", str(out), *settings(asked), *size, *more])
    found.pop("output")
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    steps = [event for event in log if event["event"] == "step"][asked.steps // 2 :]  # what is compiled is compiled
    seconds, waited = (sum(event[name] for event in steps) for name in ("seconds", "data_wait"))
    tokens = sum(event["target_tokens"] for event in steps)
    return {**found, "target_tokens_per_second": round(tokens / seconds), "share_waited": round(waited / seconds, 5)}


def stream(asked: argparse.Namespace) -> dict[str, object]:
    return train(asked, "--set", "data.streaming=true")


def measured(command: list[str]) -> dict[str, object]:
    """Run it: seconds, the most memory that it and its children had, what it printed last."""
    most = 0
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def watch() -> None:
        nonlocal most
        while child.poll() is None:
            most = max(most, sum(map(held, tree(child.pid))))
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, errors = child.communicate()
    watcher.join()
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}\n{errors[-3000:]}")
    seconds = round(time.monotonic() - begun, 1)
    return {"seconds": seconds, "peak_MB": round(most / 1e6), "output": (output.strip().splitlines() or [""])[-1]}


def tree(root: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += parents.get(one, [])
    return found


def held(process: int) -> int:
    """Bytes of memory: PSS."""
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


OUTER = {
    "make": make,
    "learn": learn,
    "prepare": prepare,
    "alone": alone,
    "start": start,
    "train": train,
    "stream": stream,
}
INNER = {"make": make_part, "alone": alone_inner, "start": start_inner}

if __name__ == "__main__":
    main()
