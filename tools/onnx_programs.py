"""Run exported ONNX folders in optimum and in transformers.js, and compare with weft: outputs, and ids of tokenizers.

    pip install --no-deps --target OPTIMUM optimum optimum-onnx \\
        'transformers<4.58' 'huggingface_hub<1' 'tokenizers<0.23'
    (cd NODE && npm install --ignore-scripts @huggingface/transformers)
    python tools/onnx_programs.py --optimum OPTIMUM --node NODE

OPTIMUM is put before the installed packages, since optimum needs an older transformers than weft's tests. Models are
tiny and random: some of weft's own, some imported (`--kinds`). For each, greedy outputs of ten random sources, in
optimum those of a beam of five too (transformers.js has no beam search), and the ids of six lines, which its tokenizers
make if the folder has a tokenizer.json. Beams are compared if outputs are not cut off and start with no language, for
which beam search is another in transformers 4.57 than in 5. The exit code is 0 if all are equal.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch

from fixtures import pretrained_models
from fixtures.tokenizers import learn
from weft.interop.huggingface.exporting import make_plan
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.interop.onnx.exporting import export_onnx
from weft.models.build import build_model
from weft.recipe import make_recipe
from weft.runs.load import LoadedRun, load_run
from weft.text.specials import END
from weft.text.tokenizer import Tokenizers
from weft.translation.engines.interface import EngineRequest
from weft.translation.engines.torch import TorchEngine

LONGEST = 30
LINES = ["the old king reads", "a  book, to his son!", "König Ødegård 12", "", "don't 王 read", "a_b ▁d"]
OWN = {"bpe": "pre", "unigram": "post", "character": "pre", "byte": "pre"}
"""Tokenizers of own models, and where their norms are."""
OPTIMUM = """
import json, sys, torch
from pathlib import Path
from optimum.onnxruntime import ORTModelForSeq2SeqLM
from transformers import AutoTokenizer
for folder in map(Path, sys.argv[1:]):
    case, model = json.loads((folder / "case.json").read_text()), ORTModelForSeq2SeqLM.from_pretrained(folder)
    result = {}
    for kind, beams in (("greedy", 1), ("beam", 5)):
        result[kind] = []
        for ids in case["sources"]:
            ids = torch.tensor([ids])
            output = model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=beams, max_new_tokens=30
            )
            result[kind].append(output[0].tolist())
    (folder / "optimum.json").write_text(json.dumps(result))
"""
NODE = """
import fs from "node:fs";
import path from "node:path";
import { AutoModelForSeq2SeqLM, AutoTokenizer, Tensor, env } from "@huggingface/transformers";
env.allowRemoteModels = false;
for (const folder of process.argv.slice(2)) {
  env.localModelPath = path.dirname(folder) + "/";
  const name = path.basename(folder), test = JSON.parse(fs.readFileSync(folder + "/case.json", "utf8"));
  const model = await AutoModelForSeq2SeqLM.from_pretrained(name, { dtype: "fp32" });
  const result = { greedy: [] };
  for (const ids of test.sources) {
    const inputs = new Tensor("int64", ids.map(BigInt), [1, ids.length]);
    const attention_mask = new Tensor("int64", ids.map(() => 1n), [1, ids.length]);
    const output = await model.generate({ inputs, attention_mask, num_beams: 1, max_new_tokens: 30 });
    result.greedy.push(output.tolist()[0].map(Number));
  }
  if (fs.existsSync(folder + "/tokenizer.json")) {
    const tokenizer = await AutoTokenizer.from_pretrained(name);
    result.lines = test.lines.map((line) => tokenizer.encode(line));
  }
  fs.writeFileSync(folder + "/node.json", JSON.stringify(result));
}
"""


def make_run(kind: str, folder: Path) -> LoadedRun:
    if kind in pretrained_models.KINDS:
        pretrained_models.make(kind, folder / "original", end=3.0)
        path = folder / "original" / "generation_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "num_beams": 5}))
        options = ImportOptions(*pretrained_models.KINDS[kind].languages)
        return load_run(import_model(folder / "original", folder / "run", options))
    stack = {
        "kind": "transformer",
        "hidden": 12,
        "layers": 1,
        "heads": 2,
        "feed_forward": 20,
        "norm_placement": OWN[kind],
    }
    model = {"embedding": 12, "tie": "all", "encoder": stack, "decoder": stack}
    search = {"size": 5, "stop": "finished", "no_loops": False}
    recipe = make_recipe({"name": "own", "tokenizer": {"kind": kind}, "model": model, "search": search})
    sizes = {"size": 60} if kind in ("bpe", "unigram") else {}
    tokenizer = learn(kind, ["the old king reads", "a book, to his son!"], **sizes)
    torch.manual_seed(3)
    network = build_model(recipe.model, source_size=tokenizer.size, target_size=tokenizer.size)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        network.output.bias_V[END] += 7.0 if kind == "byte" else 4.0
    return LoadedRun(network.eval(), Tokenizers(tokenizer, tokenizer), recipe)


def make_case(run: LoadedRun, folder: Path) -> dict[str, Any]:
    """Sources with weft's outputs as the expected results, in the ids of the export."""
    orders, frame, random = make_plan(run).orders, run.tokenizers.frame, Random(1)
    ids = [random.choices(range(3, run.tokenizers.source.size), k=random.randint(1, 9)) for _ in range(10)]
    sources = [frame.source(row) for row in ids]
    case: dict[str, Any] = {"sources": [[orders["source"][id] for id in row] for row in sources], "lines": LINES}
    for kind in ("greedy", "beam")[: 1 + (len(frame.start) == 1)]:
        settings = run.recipe.search.model_copy(update={"kind": kind, "no_loops": False, "max_length": LONGEST})
        request = EngineRequest(sources, [[] for _ in sources], settings, start=frame.start)
        found = [best for best, *_ in TorchEngine(run.model, run.tokenizers.target).search(request)]
        case[kind] = [[orders["target"][id] for id in best.tokens] for best in found]
        case[kind] = [
            [*row, orders["target"][END]] if best.ended == "end" else row
            for row, best in zip(case[kind], found, strict=True)
        ]
    encoded = [frame.source(run.tokenizers.source.encode(line)) for line in LINES]
    case["encoded"] = [[orders["source"][id] for id in row] for row in encoded]
    case["start"], case["end"] = len(frame.start), orders["target"][END]
    (folder / "case.json").write_text(json.dumps(case))
    return case


def cut(row: list[int], end: int) -> list[int]:
    """Ids up to the end token."""
    return row[: row.index(end) + 1] if end in row else row


def same_output(ours: list[int], theirs: list[int]) -> bool:
    """Whether two outputs are equal, as far as both go: the limits of their length may differ by a token or two."""
    shorter = min(len(ours), len(theirs))
    return ours[:shorter] == theirs[:shorter] and (shorter >= LONGEST - 2 or len(ours) == len(theirs))


def compare(case: dict[str, Any], result: dict[str, Any]) -> tuple[str, bool]:
    """A line of text, and whether all are equal."""
    texts, equal = [], True
    for kind in ("greedy", "beam"):
        if kind in result and kind in case:
            outputs = [cut(row[case["start"] :], case["end"]) for row in result[kind]]
            pairs = list(zip(case[kind], outputs, strict=True))
            if kind == "beam":  # outputs that are cut off compete with others in `generate`
                pairs = [both for both in pairs if all(row[-1] == case["end"] for row in both)]
            same = sum(same_output(*both) for both in pairs)
            texts.append(f"{kind} {same} of {len(pairs)}")
            equal &= same == len(pairs)
    if "lines" in result:
        same = sum(ours == theirs for ours, theirs in zip(case["encoded"], result["lines"], strict=True))
        texts.append(f"lines {same} of {len(LINES)}")
        equal &= same == len(LINES)
    return ", ".join(texts), equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimum", type=Path, help="a folder of packages")
    parser.add_argument("--node", type=Path, help="a folder with node_modules")
    parser.add_argument("--kinds", nargs="+", default=[*OWN, "marian", "nllb", "t5", "bart"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        cases = {}
        for kind in given.kinds:
            run = make_run(kind, Path(place) / kind)
            cases[kind] = make_case(run, export_onnx(run, Path(place) / f"{kind}-onnx"))
        folders = [f"{place}/{kind}-onnx" for kind in cases]
        if given.optimum:
            environment = {**os.environ, "PYTHONPATH": str(given.optimum.resolve()), "TRANSFORMERS_VERBOSITY": "error"}
            subprocess.run([sys.executable, "-W", "ignore", "-c", OPTIMUM, *folders], env=environment, check=True)
        if given.node:
            command = ["node", "--input-type=module", "-", *folders]
            subprocess.run(command, input=NODE, text=True, cwd=given.node, check=True)
        equal = True
        for kind, case in cases.items():
            for program in ("optimum", "node"):
                path = Path(place, f"{kind}-onnx", f"{program}.json")
                if path.exists():
                    text, same = compare(case, json.loads(path.read_text()))
                    print(f"{kind:<10} {program:<8} {text}")
                    equal &= same
    raise SystemExit(not equal)


if __name__ == "__main__":
    main()
