"""A recurrent model on one GPU: weft and OpenNMT-py decode the same lines, by text and by ids, in one run.

    python benchmarks/recurrent_gpu.py --rivals $RIVALS --data $RIVALS/data
    python benchmarks/recurrent_gpu.py --alone --data $RIVALS/data             # weft only, lines of JSON

BiLSTM 2 × 256, LSTM 512, input feeding, general attention, a joint vocabulary of 8,000 (benchmarks/rivals/workload.py),
random weights, lines of Multi30k, every output of exactly 20 tokens. By text: lines in, lines out; by ids: sources are
tokenized already. A batch of 64 is 64 sentences that are passed and searched together; "auto": all lines are handed
over, and weft chooses the batches. weft's tf32 is `weft.load(..., precision="tf32")`; OpenNMT-py has PyTorch's switch
`torch.backends.cuda.matmul.allow_tf32`. Each toolkit runs in its own process and environment; of its passes over the
lines the first does not count (of OpenNMT-py two batches), then the fastest does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE / "rivals"))
from opennmt_gpu import BATCHES, fastest, options, read, result  # noqa: E402

COMMON = ("data", "sentences", "length", "beams", "batches", "repeats", "device")
AUTO = "auto"


def translators(given: argparse.Namespace) -> dict[str, Any]:
    """A model of these sizes with fresh weights, in each precision."""
    from train import recipe_tree

    import weft
    from weft.data.preparation import learn_tokenizers, read_corpus
    from weft.models.build import build_model
    from weft.translation.engines.torch import TorchEngine
    from weft.translation.translator import Translator

    given.model, given.attention = "rnn", "general"
    recipe = weft.make_recipe(recipe_tree(given))
    tokenizers = learn_tokenizers(recipe, list(read_corpus(recipe, "train")))
    model = build_model(recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size)
    target = tokenizers.target
    engines = {each: TorchEngine(model, target, device=given.device, precision=each) for each in given.precisions}
    return {
        precision: Translator(model, tokenizers, recipe, device=given.device, engine=engine)
        for precision, engine in engines.items()
    }


def searches(run: Any, lines: list[str], settings: dict[str, Any], batch: int | str) -> dict[str, Callable[[], Any]]:
    """By level: what is timed. Both return the lengths of the outputs."""
    from weft.translation.engines.interface import searched_batches
    from weft.translation.pipeline import tokenize
    from weft.translation.translator import windows_of

    if batch == AUTO:
        calls = list(windows_of(lines, return_attention=False, large=True))
    else:
        order = sorted(lines, key=lambda line: len(line.split()))
        calls = [order[start : start + batch] for start in range(0, len(order), batch)]
    requests = [tokenize(run, replace(run.request(call, **settings), return_attention=False)) for call in calls]

    def by_text() -> list[int]:
        if batch == AUTO:
            return [len(found.ids) for found in run.translate_lines(lines, **settings)]
        outputs = [run.translate(call, return_attention=False, **settings) for call in calls]
        return [len(found.ids) for call in outputs for found in call]

    def by_ids() -> list[int]:
        batches = (searched_batches(run.engine, request.engine_request) for request in requests)
        return [length for part in batches for searched in part for length in _lengths(searched.hypotheses)]

    return {"text": by_text, "ids": by_ids}


def _lengths(hypotheses: Any) -> list[int]:
    """Numbers of tokens of the best hypotheses; on a GPU they are arrays."""
    if hasattr(hypotheses, "arrays"):
        return hypotheses.arrays.token_counts_BN[:, 0].tolist()
    return [len(of_sentence[0].tokens) for of_sentence in hypotheses]


def alone(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """weft's side."""
    import weft

    runs = translators(given)
    lines = read(given.data, given.sentences)
    exact: dict[str, Any] = {"min_length": given.length, "max_length": given.length, "no_loops": False}
    for beam in given.beams:
        kind = {"kind": "greedy"} if beam == 1 else {"kind": "beam", "size": beam}
        for precision, run in runs.items():
            for batch in [*given.batches, AUTO]:
                chosen = lines if batch == AUTO else lines[: BATCHES * batch]
                settings = exact | kind | {"batch_tokens": AUTO if batch == AUTO else 1_000_000}
                for level, search in searches(run, chosen, settings, batch).items():
                    search()  # captures CUDA graphs
                    seconds = fastest(search, length=given.length, repeats=given.repeats, device=given.device)
                    case = {"level": level, "beam": beam, "batch": batch, "precision": precision}
                    sizes = {"sentences": len(chosen), "length": given.length}
                    yield result("weft", weft.__version__, case, **sizes, seconds=seconds)


def measure(command: list[str]) -> Iterator[dict[str, Any]]:
    """The lines of JSON that a command prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE / "rivals") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                print(line, end="", file=sys.stderr, flush=True)
                yield json.loads(line)


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Output tokens per second; ratios are to OpenNMT-py's fastest precision at this batch, or at any for "auto"."""
    names = sorted({(line["toolkit"], line["precision"]) for line in found}, key=lambda name: name[0] != "weft")
    yield "| search | level | batch | " + " | ".join(f"{who}, {how}" for who, how in names) + " | weft is |"
    yield "|---" * (4 + len(names)) + "|"
    groups = sorted({(-line["beam"], line["level"], str(line["batch"])) for line in found}, key=_order)
    for negative, level, batch in groups:
        same = [line for line in found if (-line["beam"], line["level"]) == (negative, level)]
        here = {
            (line["toolkit"], line["precision"]): line["tokens_per_second"]
            for line in same
            if str(line["batch"]) == batch
        }
        rivals = [
            line["tokens_per_second"]
            for line in same
            if line["toolkit"] != "weft" and batch in (AUTO, str(line["batch"]))
        ]
        ours = [speed for (who, _), speed in here.items() if who == "weft"]
        cells = [f"{here[name]:,}" if name in here else "" for name in names]
        ratios = [f"{speed / max(rivals):.1f} ×" for speed in ours] if rivals else []
        search = "greedy" if negative == -1 else f"beam {-negative}"
        yield f"| {search} | {level} | {batch} | " + " | ".join(cells) + " | " + ", ".join(ratios) + " |"


def _order(group: tuple[int, str, str]) -> tuple[Any, ...]:
    return group[0], group[1] != "text", int(group[2]) if group[2].isdigit() else 10**9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser)
    parser.add_argument("--rivals", type=Path, help="where OpenNMT-py is installed; needed unless --alone")
    parser.add_argument("--precisions", choices=["fp32", "tf32"], nargs="+", default=["fp32", "tf32"], help="of weft")
    parser.add_argument("--alone", action="store_true", help="weft only, as lines of JSON")
    given = parser.parse_args()
    given.data = given.data.resolve()
    if given.alone:
        for line in alone(given):
            print(json.dumps(line), flush=True)
        return
    if given.rivals is None:
        parser.error("--rivals: say where they are installed (benchmarks/rivals/README.md)")
    common = []
    for name in COMMON:
        value = getattr(given, name)
        common += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    ours = [sys.executable, str(HERE.resolve() / "recurrent_gpu.py"), "--alone", *common, "--precisions"]
    theirs = [
        str(given.rivals.absolute() / "opennmt/bin/python"),
        str(HERE.resolve() / "rivals/opennmt_gpu.py"),
        *common,
    ]
    found = [*measure([*ours, *given.precisions]), *measure(theirs)]
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
