"""Decoding speed of weft and other toolkits, in one run: a table of ratios.

    python benchmarks/decode.py --model rnn --rivals $RIVALS --data $RIVALS/data --rounds 3
    python benchmarks/decode.py --model transformer --rivals $RIVALS --data $RIVALS/data --beam 1
    python benchmarks/decode.py --model rnn --data $RIVALS/data --alone int8       # one line of JSON

The workload is that of benchmarks/rivals/decode.py: fresh weights, the same lines in the same batches, every output of
exactly 20 tokens, two threads. In one round each toolkit runs once, in its own process. weft runs twice: in fp32, and
with 8-bit products (`weft.fast.steps.quantization`). With `--batch 1` the table has the times of single calls. Machines
are noisy: check "cores" first (benchmarks/rivals/README.md). With `--cores 0-7` the toolkits of a round run at the same
time, each on two of these cores; in the next round each has the cores of its neighbor.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pinning import pinned, run_round

HERE = Path(__file__).parent
RIVALS = {"rnn": ["opennmt", "fairseq", "joey"], "transformer": ["opennmt", "fairseq", "hf", "joey"]}
OURS = {"weft": "plain", "weft int8": "int8"}
SHARED = ("model", "attention", "data", "beam", "sentences", "batch", "length", "threads")
"""Options that both sides are given."""


def alone(given: argparse.Namespace) -> dict[str, Any]:
    """weft's side, through the façade as a user has it."""
    sys.path.append(str(HERE / "rivals"))  # for what its decode.py imports
    import torch
    from train import recipe_tree

    import weft
    from weft.data.preparation import learn_tokenizers, read_corpus
    from weft.fast.steps.quantization import quantize
    from weft.models.build import build_model
    from weft.translation.translator import Translator

    rivals = _rivals_decode()
    torch.set_num_threads(given.threads)
    recipe = weft.make_recipe(recipe_tree(given))
    tokenizers = learn_tokenizers(recipe, list(read_corpus(recipe, "train")))
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    model = build_model(recipe.model, **sizes).eval()
    translator = Translator(quantize(model) if given.alone == "int8" else model, tokenizers, recipe)
    settings: dict[str, Any] = {"min_length": given.length, "max_length": given.length, "no_loops": False}
    settings |= {"kind": "greedy"} if given.beam == 1 else {"kind": "beam", "size": given.beam}
    settings["batch_tokens"] = 1_000_000  # what is handed over is one batch

    def search(lines: list[str]) -> list[int]:
        return [len(found.ids) for found in translator.translate(lines, return_attention=False, **settings)]

    work = rivals.batches(given.data, sentences=given.sentences, batch=given.batch)
    return {
        "rival": "weft" if given.alone == "plain" else "weft int8",
        "version": weft.__version__,
        "torch": torch.__version__,
        "model": given.model,
        "attention": given.attention if given.model == "rnn" else None,
        "beam": given.beam,
        **rivals.measure(search, work),
        "threads": given.threads,
    }


def _rivals_decode() -> Any:
    """benchmarks/rivals/decode.py, which has this file's name."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("rivals_decode", HERE / "rivals/decode.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(who: str, cores: str, given: argparse.Namespace) -> dict[str, Any] | None:
    """One run, as the line it prints; None if it failed. ``cores``: the cores that it may use; empty: all."""
    common = [word for name in SHARED for word in (f"--{name}", str(getattr(given, name)))]
    if who in OURS:
        command = [sys.executable, str(HERE / "decode.py"), *common, "--alone", OURS[who]]
    else:
        python = given.rivals.absolute() / who / "bin/python"
        command = [str(python), str(HERE / "rivals/decode.py"), "--rival", who, *common]
    done = subprocess.run(pinned(command, cores), capture_output=True, text=True, cwd=HERE / "rivals")
    if not done.stdout.strip():  # the status says little: fairseq aborts as it leaves, its line printed
        print(f"{who}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def table(found: dict[str, list[dict[str, Any]]], given: argparse.Namespace) -> Iterator[str]:
    """Ratios are those of the medians over the rounds."""
    clock = "sentences_per_cpu_second" if given.clock == "cpu" else "sentences_per_second"
    unit = "sentences per CPU second" if given.clock == "cpu" else "sentences/s"
    speed = {who: median(line[clock] for line in lines) for who, lines in found.items()}
    ours = [who for who in OURS if who in found]
    latency = " | p50 / p99 ms" if given.batch == 1 else ""
    yield f"| toolkit | {unit}, round by round{latency} | " + " | ".join(f"{who} is" for who in ours) + " |"
    yield "|---" * (2 + bool(latency) + len(ours)) + "|"
    for who, lines in found.items():
        cells = [f"{who} {lines[0]['version']}", ", ".join(f"{line[clock]:.1f}" for line in lines)]
        if latency:
            middle, late = (median(line[name] for line in lines) for name in ("p50_ms", "p99_ms"))
            cells.append(f"{middle:.0f} / {late:.0f}")
        cells += ["" if who == our else f"{speed[our] / speed[who]:.2f} ×" for our in ours]
        yield "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=RIVALS, required=True)
    parser.add_argument("--attention", choices=["general", "additive"], default="general", help="of the rnn")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rivals", type=Path, help="where they are installed; needed unless --alone")
    parser.add_argument("--toolkit", action="append", help="may be repeated; all if none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beam", type=int, default=5, help="1: greedy")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64, help="sentences per call")
    parser.add_argument("--length", type=int, default=20, help="tokens of every output")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: on a busy machine, --threads 1")
    parser.add_argument(
        "--cores", metavar="FIRST-LAST", default="", help="run the toolkits of a round in parallel on these cores"
    )
    parser.add_argument("--alone", choices=list(OURS.values()), help="weft only, as one line of JSON")
    given = parser.parse_args()
    given.data = given.data.resolve()
    if given.alone:
        print(json.dumps(alone(given)))
        return
    if given.rivals is None:
        parser.error("--rivals: say where they are installed (benchmarks/rivals/README.md)")
    names = [who for who in [*OURS, *RIVALS[given.model]] if who in (given.toolkit or [*OURS, *RIVALS[given.model]])]
    found: dict[str, list[dict[str, Any]]] = {}
    for number in range(1, given.rounds + 1):

        def run(who: str, cores: str, number: int = number) -> dict[str, Any] | None:
            line = measure(who, cores, given)
            if line is not None:
                print(f"round {number} " + json.dumps(line), file=sys.stderr, flush=True)
            return line

        for who, line in run_round(names, run, cores=given.cores, threads=given.threads, round_number=number):
            if line is not None:
                found.setdefault(who, []).append(line)
    print("\n".join(table(found, given)))


if __name__ == "__main__":
    main()
