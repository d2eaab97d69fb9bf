"""The commands and Python blocks of README.md and of the guides run, in order, with small models and files.

Recipes are trained with small sizes, tuning runs in this process, services are made but not started, and the Hub is one
of this machine. What is not run at all is marked in the document with the reason, and listed here.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from apps.serve.servers import running_server
from fixtures import guides
from fixtures.guide_files import Models, write_files
from fixtures.local_hub import local_hub
from fixtures.tuning_runners import InlineRunner
from weft.apps.serve.app import create_app
from weft.apps.serve.settings import ServeSettings

ROOT = Path(__file__).parents[2]
MODELS: dict[str, dict[str, str]] = {
    "README.md": {"opus-mt-en-de": "OPUS-MT", "runs/try": "run"},
    "chatbot.md": {},
    "confidence.md": {"runs/mine": "run"},
    "texts.md": {"runs/try": "run"},
    "data.md": {f"runs/{name}": "run" for name in ("summarization", "retrosynthesis", "correction")},
    "distillation.md": {"runs/teacher": "run", "runs/seed-1": "run", "runs/seed-2": "run"},
    "decoding.md": {"runs/try": "run", "runs/nllb": "run of NLLB"},
    "deployment.md": {"runs/en-fr": "run"},
    "export.md": {
        "runs/multi30k-transformer": "run of multi30k-transformer",
        "runs/multi30k-rnn": "run of multi30k-rnn",
        "runs/nllb": "run of NLLB",
        "opus": "Marian",
    },
    "fine-tuning.md": {"legal-lora": "adapter", "runs/flan-t5": "run of T5"},
    "importing.md": {
        "opus-2020-01-08": "Marian",
        ".": "Marian",
        "checkpoints": "fairseq",
        "./": "OpenNMT-py",
        "models/transformer_iwslt14_deen_bpe": "Joey NMT",
    },
    "index.md": {},
    "labs.md": {},
    "own-pairs.md": {},
    "performance.md": {},
    "pictures-as-sources.md": {},
    "probes.md": {"runs/try": "run"},
    "reports.md": {"runs/mine": "run"},
    "serving.md": {
        **{f"runs/{name}": "run" for name in ("try", "en-fr-2025", "seed-1", "seed-2")},
        "runs/en-fr": "run with an adapter",
    },
    "several-machines.md": {"runs/multi30k": "run"},
    "training.md": {},
    "tuning.md": {},
    "word-level-tasks.md": {},
}
"""The documents, and the models that their readers have."""
ELSEWHERE = {
    "CONTRIBUTING.md": "a part of a file; tests/contracts/test_adding.py adds one of each kind",
    "RESULTS.md": "measurements of minutes, on the machines that it names",
    "extending.md": "test_extending.py",
    "terms.md": "words that a run of few pairs does not know; tests/apps/cli/commands/test_{translate,data_clean}.py",
    "releasing.md": "publishes a version",
    **{path.name: "test_course.py" for path in (ROOT / "docs/course").glob("*.md")},
}
"""Documents with code that are not run by this test, and why."""
HUB = {"Helsinki-NLP/opus-mt-en-fr": "OPUS-MT", "facebook/nllb-200-distilled-600M": "NLLB"}
SLOW = ("export.md", "performance.md", "tuning.md")
NOT_RUN = {
    "README.md": ["git clone", "pip install", "weft lab all", "weft history"],
    "deployment.md": ["docker build", "sudo chown", "docker run"],
    "export.md": ["pip install", "from optimum", "marian-decoder", "pip install", "hf auth login"],
    "importing.md": ["pip install"],
    "index.md": ["make try"],
    "labs.md": ["weft lab all", "weft history"],
    "performance.md": ["weft bench scale"] * 5,
    "probes.md": ["weft probe bias"] * 2,
    "serving.md": ["pip install", "curl", "curl", "curl"],
    "several-machines.md": [
        *["weft train"] * 4,
        *["torchrun"] * 2,
        *["weft translate runs/multi30k", "job=", "sbatch", "weft translate runs/multi30k", "import pyarrow"],
    ],
}
"""How the commands and blocks that are not run begin."""


def text_of(name: str) -> str:
    return (ROOT / name if name == "README.md" else ROOT / "docs" / name).read_text("utf-8")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes are trained and tuned with small sizes, and their speed is measured for a moment; of a teacher that is
    hardly trained, every output is used."""
    from weft.apps.tuning import tune
    from weft.pairs.distillation import targets
    from weft.pairs.time_limit import fitting
    from weft.training import train

    start, with_absolute_paths = train.train_with, tune.with_absolute_paths
    monkeypatch.setattr(train, "train_with", lambda recipe, *options: start(guides.small_recipe(recipe), *options))
    monkeypatch.setattr(tune, "with_absolute_paths", lambda recipe: with_absolute_paths(guides.small_recipe(recipe)))
    monkeypatch.setattr(tune, "_process_runner", lambda *_: InlineRunner())
    monkeypatch.setattr(targets, "usable_texts", lambda result: [result.text.strip() or "."])
    for module in (fitting, tune):
        monkeypatch.setattr(module, "MEASURED_SECONDS", (0.0, 0.0))


@pytest.fixture(autouse=True)
def _offline(models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The Hub is one of this machine; services are made, and end when they would begin to answer."""
    import huggingface_hub
    from huggingface_hub import constants

    import weft.apps.serve.server

    monkeypatch.setattr(weft.apps.serve.server, "run", lambda service, settings, bound, on_start: bound.close() or [])
    api, download = huggingface_hub.HfApi, huggingface_hub.snapshot_download
    with local_hub() as hub:
        options = {"endpoint": hub.address, "cache_dir": tmp_path / "hub"}
        for name, kind in HUB.items():
            hub.models[name] = {path.name: path.read_bytes() for path in models.path(kind).iterdir()}
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api(endpoint=hub.address))
        monkeypatch.setattr(
            huggingface_hub, "snapshot_download", lambda name, **given: download(name, **{**given, **options})
        )
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield


def _marks(name: str) -> list[pytest.MarkDecorator]:
    """``make test`` runs README, ``make journeys`` the guides, ``make slow`` those that take longest."""
    if name in SLOW:
        return [pytest.mark.slow]
    return [] if name == "README.md" else [pytest.mark.journey]


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in MODELS])
def test_blocks_run(name: str, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "reader"
    write_files(folder)
    for path, kind in MODELS[name].items():
        models.copy(kind, folder / path)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(typer.main, "get_command", cache(typer.main.get_command))  # built once: it takes long
    guide = guides.Guide(text_of(name), name)
    guide.run()
    skipped = len(guides.not_run(text_of(name)))
    assert guide.done + skipped == sum(len(block.commands()) for block in guide.blocks if block.language != "toml")


def test_what_is_not_run() -> None:
    for name in MODELS:
        skipped, starts = guides.not_run(text_of(name)), NOT_RUN.get(name, [])
        assert len(skipped) == len(starts), (name, skipped)
        for (command, reason), start in zip(skipped, starts, strict=True):
            assert command.startswith(start) and reason, (name, command)
        assert not guides.unused_marks(text_of(name)), name


def test_every_document_with_code_is_run() -> None:
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    blocks = {path.name: guides.blocks_of(path.read_text("utf-8")) for path in paths}
    with_code = {name for name, found in blocks.items() if any(block.commands() for block in found)}
    assert with_code - {*MODELS, *ELSEWHERE} == set()


@pytest.mark.slow
def test_the_request_of_the_guide(models: Models) -> None:
    """The first request of docs/serving.md, sent by curl to a service of a run."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    request = next(command for command, _ in guides.not_run(text_of("serving.md")) if command.startswith("curl"))
    service = create_app({"try": models.path("run")}, ServeSettings(device="cpu", threads=1))
    with running_server(service) as server:
        words = [curl, "--silent", *shlex.split(request)[1:]]
        words = [word.replace("http://127.0.0.1:8000", server.url.rstrip("/")) for word in words]
        answer = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    [translation] = answer["translations"]
    assert len(translation["alternatives"]) == 1 and translation["attention"]


class TestHarness:
    """A guide that is wrong fails."""

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            ("weft train no.tsv", "no.tsv"),
            ("weft recipes shw grammar", "no such command"),
            ("make try", "mark the command as not run"),
            ("weft data generate copy --count 3 --out x.tsv && echo a", "only weft, and echo before a pipe"),
        ],
    )
    def test_a_command_that_fails(self, code: str, message: str, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
            guides.Guide(f"```sh\n{code}\n```\n").run()

    def test_python_that_fails(self) -> None:
        with pytest.raises(NameError):
            guides.Guide("```python\nx = 1\n```\n\n```python\nx, y\n```\n").run()

    def test_a_missing_output(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(AssertionError, match=r"a\.svg does not exist"):
            guides.check_outcome("here", ["attend", "run", "--to", "a.svg"], guides.Printed("text", ""), 0)
        with pytest.raises(AssertionError, match="here: ''"):
            guides.check_outcome("here", ["translate", "run"], guides.Printed("", ""), 1)

    def test_marks(self) -> None:
        text = "<!-- not run (`make a`): slow -->\n```sh\nmake a  # all\nmake b\\\n  c\n```\n"
        assert guides.not_run(text) == [("make a", "slow")] and not guides.unused_marks(text)
        [block] = guides.blocks_of(text)
        assert block.commands() == ["make a", "make b c"] and block.line == 2
        assert guides.unused_marks(text.replace("make a`", "make d`")) == ["make d"]
