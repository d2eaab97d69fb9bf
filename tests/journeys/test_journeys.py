"""The whole way of a user, for every recipe, task and automatic choice: ``make journeys``.

Every step runs in a process of its own and is checked for its result: texts and log-probabilities are the same in
every process, command, program and format. `tests/journeys/journeys.py` makes the list of journeys.
"""

from __future__ import annotations

import base64
import math
import shlex
import signal
import subprocess
import sys
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import load_file

from journeys.checks import largest_difference
from journeys.journeys import Journey, journeys, structure
from journeys.processes import DEVICE, Processes, Result
from weft.recipe import Recipe

pytestmark = pytest.mark.journey
EXPORTING = Path(__file__).parents[2] / "docs" / "export.md"
TOLERANCE = 2e-4 if DEVICE == "cpu" else 1.0
"""Of log p of a whole target, between programs; on a GPU, models are used in half precision."""


def is_close(score: float, expected: float) -> bool:
    """Whether two numbers are the same log p, but for rounding."""
    return math.isclose(score, expected, rel_tol=1e-5 if DEVICE == "cpu" else 0.02, abs_tol=TOLERANCE)


def same_outputs(outputs: list[dict[str, Any]], expected: list[dict[str, Any]], *, texts: bool = True) -> bool:
    """Whether sources, scores and texts are equal; ``texts``: False for another engine, which may round a tie away.

    In half precision, outputs depend on the batch, and only their scores are compared.
    """
    texts = texts and DEVICE == "cpu"
    return len(outputs) == len(expected) and all(
        output["source"] == other["source"]
        and (output["text"] == other["text"] or not texts)
        and is_close(output["score"], other["score"])
        for output, other in zip(outputs, expected, strict=True)
    )


class Walk:
    """A journey on its way: its folder, and results that later steps compare with."""

    def __init__(self, journey: Journey, folder: Path, processes: Processes) -> None:
        self.journey = journey
        self.folder = folder
        self.processes = processes
        self.finished = False
        journey.prepare(folder)

    def weft(self, *arguments: str | Path, **options: Any) -> Result:
        result = self.processes.weft(self.folder, *arguments, **options)
        assert result.code == 0, result.stderr
        return result

    def call(self, function: str, *arguments: Any) -> Any:
        return self.processes.call(self.folder, f"journeys.checks:{function}", *arguments)

    @cached_property
    def recipe(self) -> Recipe:
        from weft.recipe import load_recipe

        return load_recipe(self.folder / "run" / "recipe.toml")

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """The test pairs; their sources are in sources.txt."""
        pairs = self.call("test_pairs", "run")
        (self.folder / "sources.txt").write_text("".join(f"{source}\n" for source, _ in pairs), "utf-8")
        (self.folder / "pairs.txt").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
        return pairs

    @cached_property
    def outputs(self) -> list[dict[str, Any]]:
        """Of the recipe's own search."""
        assert self.pairs
        return self.weft("translate", "run", "sources.txt", "--json").json_lines

    @cached_property
    def scores(self) -> list[float]:
        """log p of the test pairs."""
        assert self.pairs
        return [line["log_probability"] for line in self.weft("score", "run", "pairs.txt", "--json").json_lines]


@pytest.fixture(scope="module", params=journeys())
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> Walk:
    journey = journeys()[request.param]
    return Walk(journey, tmp_path_factory.mktemp("journey"), processes)


@pytest.fixture
def walk(started: Walk) -> Walk:
    """A journey whose model is trained."""
    assert started.finished, "there is no trained run"
    return started


def test_train_and_interrupt(started: Walk) -> None:
    options = ["--out", "run", *started.journey.options()]
    result = started.processes.weft(started.folder, "train", started.journey.argument, *options, interrupt_at=11)
    assert result.code == 128 + signal.SIGTERM, result.stderr
    last = result.stderr.splitlines()[-1]
    before, _, command = last.partition("; continue with: ")
    step = int(before.removeprefix("weft: interrupted at step "))
    assert step == 11 or (DEVICE == "cuda" and step == 12), "on a GPU, the next update is in flight"
    assert shlex.split(command) == ["weft", "train", "run", "--resume"]


def test_resume(started: Walk) -> None:
    assert "finished at step" in started.weft("train", "run", "--resume").stderr
    started.weft("train", started.journey.argument, "--out", "twin", *started.journey.options())
    interrupted, uninterrupted = (load_file(started.folder / run / "model.safetensors") for run in ("run", "twin"))
    assert interrupted.keys() == uninterrupted.keys()
    for name, weights in interrupted.items():
        same = np.array_equal if DEVICE == "cpu" else partial(np.allclose, atol=1e-2)
        assert same(weights, uninterrupted[name]), name
    started.finished = True


def test_load_in_a_new_process(walk: Walk) -> None:
    result = walk.processes.command(walk.folder, "translate", "run", "sources.txt", "--json") if walk.pairs else None
    assert result is not None and result.code == 0, result
    assert same_outputs(result.json_lines, walk.outputs)
    assert [line["source"] for line in walk.outputs] == [source for source, _ in walk.pairs]


SEARCHES: dict[str, dict[str, Any]] = {"greedy": {}, "beam": {"size": 3}, "sample": {"seed": 3}, "exact": {}}


def test_searches(walk: Walk) -> None:
    sources = [source for source, _ in walk.pairs[:4]]
    for kind, settings in SEARCHES.items():
        options = [part for name, value in settings.items() for part in ("--set", f"search.{name}={value}")]
        (walk.folder / "few.txt").write_text("".join(f"{source}\n" for source in sources), "utf-8")
        outputs = walk.weft("translate", "run", "few.txt", "--json", "--search", kind, *options).json_lines
        scores = walk.call("searched", "run", sources, {"kind": kind, **settings})
        for output, (score, forced) in zip(outputs, scores, strict=True):
            assert is_close(sum(output["token_scores"][: len(output["tokens"])]), score)
            assert forced is None or is_close(forced, score)
        if walk.recipe.search.kind == kind == "greedy":
            assert same_outputs(outputs, walk.outputs[:4])


def test_score(walk: Walk) -> None:
    assert largest_difference(walk.call("own_scores", "run", walk.pairs), walk.scores) < TOLERANCE
    assert largest_difference(walk.call("own_scores", "twin", walk.pairs), walk.scores) < TOLERANCE


def test_evaluate(walk: Walk) -> None:
    record = walk.weft("evaluate", "run", "--json", "--output", "outputs.txt").json
    grouped = walk.recipe.evaluation.references == "grouped"
    n_best = max([1, *(int(name.partition("@")[2]) for name in walk.recipe.evaluation.metrics if "@" in name)])
    outputs = walk.weft("translate", "run", "sources.txt", "--json", "--n-best", str(n_best)).json_lines
    texts = {output["source"]: output["text"] for output in outputs}
    lines = (walk.folder / "outputs.txt").read_text("utf-8").splitlines()
    sources = list(dict.fromkeys(texts)) if grouped else [source for source, _ in walk.pairs]
    assert len(lines) == len(sources)
    if DEVICE == "cpu":  # in half precision, outputs depend on the batch
        assert lines == [texts[source] for source in sources]
    tokens = sum(len(line["token_scores"]) for line in walk.weft("score", "run", "pairs.txt", "--json").json_lines)
    perplexity = math.exp(-sum(walk.scores) / tokens)
    assert math.isclose(record["metrics"]["perplexity"]["value"], perplexity, rel_tol=1e-4 if DEVICE == "cpu" else 0.05)


def test_attend(walk: Walk) -> None:
    source, target = walk.pairs[0]
    if walk.outputs[0]["attention"] is None:
        if walk.recipe.model.kind == "ctc":  # the positions of its labels are drawn
            walk.weft("attend", "run", source, "--to", "map.svg")
            return
        assert walk.recipe.model.attention.score == "none"
        assert "attention" in walk.processes.weft(walk.folder, "attend", "run", source).refusal
        return
    for row in walk.outputs:
        assert all(
            math.isclose(sum(weights), 1, abs_tol=1e-4 if DEVICE == "cpu" else 0.02) for weights in row["attention"]
        )
    walk.weft("attend", "run", source, "--target", target, "--to", "map.svg")
    assert "<svg" in (walk.folder / "map.svg").read_text("utf-8")
    if walk.recipe.model.decoder.kind == "transformer":
        walk.weft("attend", "run", source, "--target", target, "--heads", "--to", "heads.png")
        assert (walk.folder / "heads.png").read_bytes().startswith(b"\x89PNG")


SHORT = ("--set", "search.max_length=9")
"""For searches that round differently: long outputs of an untrained model are equally good but for rounding."""


def test_trace(walk: Walk) -> None:
    source = walk.pairs[0][0]
    record = walk.weft("trace", "run", source, "--json", *SHORT).json
    [output] = walk.weft("translate", "run", "--json", *SHORT, stdin=f"{source}\n").json_lines
    assert is_close(record["log_probability"], output["log_probability"])


def test_compare_with_itself(walk: Walk) -> None:
    record = walk.weft("compare", "run", "twin", "--json", "--samples", "100").json
    for metric in record["metrics"].values():
        first, second = metric["runs"]
        assert first["value"] == second["value"]
        if second["difference"] is not None:
            assert second["difference"]["value"] == 0 and second["difference"]["p_value"] == 1


def test_report(walk: Walk) -> None:
    scores = walk.weft("evaluate", "run", "--json").json["metrics"]
    record = walk.weft("report", "run", "--json", "--to", "page.html", "--samples", "100").json
    for name, metric in record["scores"]["metrics"].items():
        assert math.isclose(metric["value"], scores[name]["value"], rel_tol=1e-6, abs_tol=1e-9)
    assert "</html>" in (walk.folder / "page.html").read_text("utf-8")


def _export(walk: Walk, to: str, *, is_supported: bool) -> Path | None:
    """The exported folder; None if the run is refused, as it should be."""
    result = walk.processes.weft(walk.folder, "export", "run", "--format", to, "--out", to)
    if not is_supported:
        assert result.refusal
        assert not (walk.folder / to).exists()
        return None
    assert result.code == 0, result.stderr
    return walk.folder / to


def _has_ctranslate2_model(recipe: Recipe) -> bool:
    """The rules of docs/export.md: a Transformer that reads a text and copies nothing."""
    return _is_transformer(recipe) and recipe.model.stem.kind == "none" and not recipe.model.copies


def _is_transformer(recipe: Recipe) -> bool:
    return recipe.model.encoder.kind == recipe.model.decoder.kind == "transformer"


def test_export_to_ctranslate2(walk: Walk) -> None:
    supported = _has_ctranslate2_model(walk.recipe)
    if _export(walk, "ctranslate2", is_supported=supported):
        scores = walk.call("ctranslate2_scores", "ctranslate2", walk.pairs)
        assert largest_difference(scores, walk.scores) < TOLERANCE
        beam = ("--search", "beam", "--set", "search.size=2", "--set", "search.stop=finished", *SHORT)
        searches = [("--engine", engine, *beam) for engine in ("ctranslate2", "torch")]
        theirs, ours = (walk.weft("translate", "run", "sources.txt", "--json", *each).json_lines for each in searches)
        assert same_outputs(theirs, ours, texts=False)


def test_export_to_huggingface(walk: Walk) -> None:
    """The rules of docs/export.md."""
    model, tokenizer = walk.recipe.model, walk.recipe.tokenizer
    supported = (
        _is_transformer(walk.recipe)
        and not model.copies
        and {model.encoder.positions, model.decoder.positions} <= {"sinusoidal", "learned"}
        and not (
            "word" in (tokenizer.kind, tokenizer.target_kind) and (tokenizer.split_punctuation or tokenizer.symbols)
        )
    )
    if _export(walk, "huggingface", is_supported=supported):
        scores = walk.call("huggingface_scores", "huggingface", walk.pairs)
        assert largest_difference(scores, walk.scores) < TOLERANCE


def test_export_to_marian(walk: Walk) -> None:
    _export(walk, "marian", is_supported=False)  # only what was imported from Marian


def test_export_to_onnx(walk: Walk) -> None:
    shape = structure(walk.journey.recipe)
    first = next(name for name, journey in journeys().items() if structure(journey.recipe) == shape)
    if first != walk.journey.name:
        pytest.skip(f"the graphs are those of {first}")
    reads_ids = not (walk.recipe.model.copies or walk.recipe.tokenizer.reads_arrays)
    if _export(walk, "onnx", is_supported=reads_ids):
        scores = walk.call("onnx_scores", "run", "onnx", walk.pairs, str(EXPORTING))
        assert largest_difference(scores, walk.scores) < 1e-3


def data_url(source: str) -> str:
    """A source as a service reads it: the content of a file, any other source unchanged."""
    path = Path(source)
    if "\n" in source or len(source) > 4_000 or not path.is_absolute() or not path.is_file():
        return source
    return f"data:application/octet-stream;base64,{base64.b64encode(path.read_bytes()).decode()}"


def test_serve(walk: Walk) -> None:
    assert walk.outputs
    command = [sys.executable, "-m", "weft", "serve", "run", "--port", "0", "--device", DEVICE]
    with subprocess.Popen(
        command, cwd=walk.folder, env=walk.processes.environment, stderr=subprocess.PIPE, text=True
    ) as service:
        assert service.stderr is not None
        try:
            lines = []
            while not (lines and lines[-1].endswith(" ready\n")):
                lines.append(service.stderr.readline())
                assert lines[-1], lines
            [line] = [line for line in lines if " at http" in line]
            url = line.split(" at ")[1].split()[0]
            with httpx.Client(base_url=url, timeout=120) as client:
                sources = [data_url(source) for source, _ in walk.pairs]
                answer = client.post("/api/translate", json={"text": sources}).json()
                assert "translations" in answer, answer
                texts = [translation["text"] for translation in answer["translations"]]
                assert len(texts) == len(sources)
                pairs = [(source, target) for source, (_, target) in zip(sources, walk.pairs, strict=True)]
                assert DEVICE != "cpu" or texts == [output["text"] for output in walk.outputs]
                answer = client.post("/api/score", json={"pairs": pairs}).json()
        finally:
            service.send_signal(signal.SIGTERM)
            service.communicate(timeout=120)
    assert service.returncode == 0
    scores = [one["log_probability"] for one in answer["scores"]]
    assert largest_difference(scores, walk.scores) < TOLERANCE


def _tuned(walk: Walk, out: str, *options: str) -> list[float]:
    """log p of the test pairs after further training on the same data."""
    changes = [change for change in walk.journey.changes if not change.startswith(("model.", "tokenizer."))]
    settings = [part for change in [*changes, "training.steps=8"] for part in ("--set", change)]
    walk.weft("train", walk.journey.argument, "--from", "run", "--out", out, *options, *settings)
    return walk.call("own_scores", out, walk.pairs)


def test_fine_tune(walk: Walk) -> None:
    tuned = _tuned(walk, "tuned")
    assert largest_difference(tuned, walk.scores) > 1e-4, "nothing was learned"


def test_train_an_adapter(walk: Walk) -> None:
    model = walk.recipe.model
    if model.attention.score == "none" and model.bridge == "copy" and not model.decoder.feed_summary:
        result = walk.processes.weft(
            walk.folder, "train", walk.journey.argument, "--from", "run", "--out", "adapted", "--lora", "rank=2"
        )
        assert result.refusal == "training.lora: this model has no projections; train its weights, without --lora"
        return
    adapted = _tuned(walk, "adapted", "--lora", "rank=2")
    assert largest_difference(adapted, walk.scores) > 1e-5, "nothing was learned"
    base = walk.call("own_scores", "adapted", walk.pairs, "none")
    assert largest_difference(base, walk.scores) < TOLERANCE
    if DEVICE == "cpu" and _has_ctranslate2_model(walk.recipe):
        walk.weft("export", "adapted", "--format", "ctranslate2", "--out", "merged")
        assert largest_difference(walk.call("ctranslate2_scores", "merged", walk.pairs), adapted) < TOLERANCE
