"""The command line as a person meets it: training and translation in processes of their own, the rest in this one."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from weft.apps.cli import app, main
from weft.recipe import shipped

TINY = [
    "data.train=copy",
    "data.train_size=300",
    "data.valid_size=20",
    "data.test_size=20",
    "data.options={length=4, symbols=5}",
    "tokenizer.kind=word",
    "model.embedding=8",
    "model.encoder.hidden=16",
    "model.decoder.hidden=16",
    "training.steps=30",
    "training.batch_tokens=200",
    "training.learning_rate=0.02",
    "training.validate_every=15",
]


ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100"}


def weft_process(*arguments: str | Path, stdin: str = "", check: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", *map(str, arguments)]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment)
    assert done.returncode == check, done.stderr
    return done


def weft(*arguments: str | Path, stdin: str = "", check: int = 0) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has imported torch."""
    command = ["weft", *map(str, arguments)]
    streams = {"stdin": io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8")), "utf-8")}
    streams |= {name: io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for name in ("stdout", "stderr")}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(sys, "argv", command)
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    stdout, stderr = (streams[name].buffer.getvalue().decode("utf-8") for name in ("stdout", "stderr"))  # type: ignore[attr-defined]
    assert (ended.value.code or 0) == check, stderr
    return subprocess.CompletedProcess(command, check, stdout, stderr)


def changes(*more: str) -> list[str]:
    return [part for change in (*TINY, *more) for part in ("--set", change)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    done = weft_process("train", "grammar", *changes(), "--out", folder)
    assert done.stdout.strip() == str(folder), "data on stdout, the rest on stderr"
    assert "finished at step 30" in done.stderr and "validation perplexity" in done.stderr
    return folder


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "lm"
    weft("train", "grammar", *changes("model.kind=language_model"), "--out", folder)
    return folder


BAD = "search.sise=3"
BAD_ARGUMENTS = {
    "try": ["--set", "training.step=3"],
    "train": ["aditon"],
    "train --set": ["addition", "--set", "training.step=3"],
    "train --from": ["addition", "--from", "nowhere"],
    "train --resume": ["addition", "--resume", "--out", "nowhere"],
    "train --out": ["addition", "--out", "."],
    "translate": ["nowhere"],
    "translate --with": ["RUN", "--with", "nowhere"],
    "translate --set": ["RUN", "--set", BAD],
    "translate FILE": ["RUN", "nowhere.txt"],
    "attend": ["nowhere", "a b"],
    "attend --to": ["RUN", "a b", "--to", "map.gif"],
    "trace": ["nowhere", "a b"],
    "trace --set": ["RUN", "a b", "--set", BAD],
    "positions": ["nowhere"],
    "evaluate": ["nowhere"],
    "evaluate PAIRS": ["RUN", "nowhere.tsv"],
    "evaluate --metric": ["RUN", "--metric", "blue"],
    "compare": ["RUN", "nowhere"],
    "compare PAIRS": ["RUN", "RUN", "nowhere.tsv"],
    "compare --metric": ["RUN", "RUN", "--metric", "blue"],
    "report": ["nowhere"],
    "report PAIRS": ["RUN", "nowhere.tsv"],
    "report --to": ["RUN", "--to", "nowhere/page.html"],
    "score": ["nowhere"],
    "score PAIRS": ["RUN", "nowhere.tsv"],
    "sample": ["nowhere"],
    "sample --set": ["RUN", "--set", BAD],
    "runs": ["nowhere"],
    "export": ["nowhere"],
    "export --format": ["RUN", "--format", "onx"],
    "recipes show": ["aditon"],
    "bench train": ["aditon"],
    "bench translate": ["nowhere"],
    "bench translate FILE": ["RUN", "nowhere.txt"],
    "bench translate --engine": ["RUN", "--engine", "tensorflow"],
    "bench train --device": ["addition", "--device", "gpu"],
    "bench scale": ["aditon"],
    "bench scale --vary": ["addition", "--vary", "length"],
    "bench scale --at": ["addition", "--at", "batch=0"],
    "bench scale --gpus": ["addition", "--gpus", "none"],
    "translate --engine": ["RUN", "--engine", "tensorflow"],
    "translate --precision": ["RUN", "--precision", "fp16"],
    "evaluate --engine": ["RUN", "--engine", "tensorflow"],
    "evaluate --precision": ["RUN", "--precision", "fp16"],
    "attend --device": ["RUN", "a b", "--device", "gpu"],
    "data show": ["nowhere.tsv"],
    "data show NAME": ["aditon"],
    "data show TARGETS": ["nowhere.en", "nowhere.de"],
    "data show --split": ["addition", "--split", "tset"],
    "data check": ["aditon"],
    "data check --set": ["addition", "--set", "data.trian=x"],
    "data prepare": ["aditon", "--out", "prepared"],
    "data prepare --out": ["addition", "--out", "."],
    "data generate": ["aditon"],
    "data generate --split": ["addition", "--split", "tset"],
    "tokenizer learn": ["nowhere.txt"],
    "tokenizer learn --out": ["nowhere.txt", "--out", "."],
    "tokenizer apply": ["nowhere.json"],
    "tokenizer show": ["nowhere.json"],
}
"""What each command refuses: a run, a recipe, a file or a setting that does not exist."""
DRIVER = """
import functools, json, sys
import typer.main
from weft.apps.cli import main

typer.main.get_command = functools.cache(typer.main.get_command)  # building it takes longer than all the commands
for name, arguments in json.loads(sys.argv[1]):
    sys.argv = ["weft", *arguments]
    try:
        main()
    except SystemExit as exit:
        assert exit.code == 2, (name, exit.code)
    else:
        sys.exit(f"{name}: did not fail")
    assert "torch" not in sys.modules, f"{name}: torch was imported"
"""


class TestHelp:
    def test_torch_is_not_imported(self) -> None:
        code = "import sys, weft.apps.cli; sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0

    def test_every_command_ends_with_an_example(self) -> None:
        """Each command's help ends with a command that works as pasted."""

        def leaves(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
            for word, command in group.commands.items():
                if hasattr(command, "commands"):
                    yield from leaves(command, f"{name} {word}")
                else:
                    yield f"{name} {word}", command

        commands = dict(leaves(get_command(app)))
        assert len(commands) > 15
        for name, command in commands.items():
            assert re.match(r"Try:  .*\bweft" + name, command.epilog or ""), name

    def test_version(self) -> None:
        import weft as package

        assert weft("--version").stdout == f"weft {package.__version__}\n"


def test_bad_arguments_fail_before_torch_is_imported(run: Path, tmp_path: Path) -> None:
    """One process tries them all: none may import torch, and each leaves one line."""
    calls = []
    for name, arguments in BAD_ARGUMENTS.items():
        words = [word for word in name.split() if word.islower() and not word.startswith("-")]
        calls.append((name, [*words, *(str(run) if argument == "RUN" else argument for argument in arguments)]))
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(calls)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == done.stderr.count("weft: ") == len(calls), done.stderr


class TestWarnings:
    DRIVER = """
import warnings
from weft.apps import cli
from weft.errors import WeftWarning

cli.app = lambda args, **options: [
    warnings.warn("runs/x: not trained", WeftWarning),
    warnings.warn("another package's", RuntimeWarning),
]
cli.main()
"""

    def test_ours_are_one_line(self) -> None:
        done = subprocess.run([sys.executable, "-c", self.DRIVER], capture_output=True, text=True)
        first, *rest = done.stderr.splitlines()
        assert first == "weft: warning: runs/x: not trained" and done.returncode == 0
        assert "RuntimeWarning: another package's" in rest[0], "those of others are as Python shows them"


class TestTranslate:
    def test_one_line_in_one_line_out(self, run: Path) -> None:
        lines = weft_process("translate", run, stdin="a b\n\nc\n").stdout.split("\n")
        assert len(lines) == 4 and lines[1] == ""

    def test_a_file_or_standard_input(self, run: Path, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("a b c\nd\n", "utf-8")
        from_a_file = weft("translate", run, tmp_path / "in.txt").stdout
        assert weft("translate", run, "-", stdin="a b c\nd\n").stdout == from_a_file

    def test_n_best_and_links(self, run: Path) -> None:
        lines = weft("translate", run, "--n-best", "3", "--align", stdin="a b\n").stdout.splitlines()
        assert len(lines) == 3
        scores = [float(line.split("\t")[1]) for line in lines]
        assert scores == sorted(scores, reverse=True)
        assert all(len(line.split("\t")) == 3 for line in lines)

    def test_json(self, run: Path) -> None:
        found = json.loads(weft("translate", run, "--json", stdin="a b\n").stdout)
        assert found["source"] == "a b" and len(found["attention"]) == len(found["tokens"])
        assert found["source_tokens"] == ["a", "b", "</s>"]

    def test_search_settings(self, run: Path) -> None:
        greedy = weft("translate", run, "--search", "greedy", stdin="a b c\n").stdout
        assert greedy == weft("translate", run, "--set", "search.kind=greedy", stdin="a b c\n").stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--set", "search.sise=3"], "search.sise: unknown setting; did you mean 'size'?"),
            (
                ["--set", "training.steps=3"],
                "--set training.steps=3: only search settings",
            ),
            (["--search", "best"], "search.kind: 'best' was given; input should be 'greedy', 'beam', 'sample', 'mbr'"),
            (["--search", "greedy", "--n-best", "2"], "--n-best 2: greedy search finds one output"),
            (["nowhere.txt"], "nowhere.txt: no such file"),
        ],
    )
    def test_errors_are_one_line(self, run: Path, arguments: list[str], message: str) -> None:
        done = weft("translate", run, *arguments, stdin="a\n", check=2)
        assert message in done.stderr and done.stderr.count("\n") == 1 and done.stderr.startswith("weft: ")

    def test_no_such_run(self, tmp_path: Path) -> None:
        done = weft("translate", tmp_path / "none", stdin="a\n", check=2)
        assert "no such run folder" in done.stderr and done.stderr.count("\n") == 1

    def test_debug_shows_the_traceback(self, tmp_path: Path) -> None:
        assert "Traceback" in weft_process("translate", tmp_path / "none", "--debug", stdin="a\n", check=1).stderr


class TestMeasuring:
    def test_evaluate_on_the_recipes_test_set(self, run: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.txt"
        text = weft("evaluate", run, "--metric", "exact_match", "--metric", "chrf", "--output", out).stdout
        assert "exact match" in text and "version:weft" in text and "search:beam|size:4" in text
        assert "alignment error rate" in text, "copying has gold links"
        assert len(out.read_text("utf-8").splitlines()) == 20

    def test_evaluate_json(self, run: Path) -> None:
        found = json.loads(weft("evaluate", run, "--json").stdout)
        assert found["pairs"] == 20 and found["metrics"]["perplexity"]["value"] > 1
        assert all("signature" in one for one in found["metrics"].values())

    def test_pairs_from_a_file_or_two(self, run: Path, tmp_path: Path) -> None:
        (tmp_path / "p.tsv").write_text("a b\ta b\nc\tc\n", "utf-8")
        (tmp_path / "s").write_text("a b\nc\n", "utf-8")
        one = weft("score", run, tmp_path / "p.tsv").stdout
        assert one == weft("score", run, "--source", tmp_path / "s", "--target", tmp_path / "s").stdout
        assert one == weft("score", run, stdin="a b\ta b\nc\tc\n").stdout
        assert len(one.splitlines()) == 2 and all(float(line) < 0 for line in one.splitlines())

    def test_score_json(self, run: Path) -> None:
        found = json.loads(weft("score", run, "--json", stdin="a\ta\n").stdout)
        assert abs(sum(found["token_scores"]) - found["log_probability"]) < 1e-5

    def test_halves_of_pairs(self, run: Path, tmp_path: Path) -> None:
        assert "--source and --target go together" in weft("score", run, "--source", tmp_path, check=2).stderr
        assert "1 column, expected 2" in weft("score", run, stdin="a\n", check=2).stderr


class TestSeeing:
    def test_a_map_in_the_terminal(self, run: Path) -> None:
        text = weft("attend", run, "a b c").stdout
        assert "┌ a" in text and "links " in text

    @pytest.mark.parametrize("suffix", ["svg", "png"])
    def test_a_picture(self, run: Path, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"map.{suffix}"
        weft("attend", run, "a b c", "--target", "a b c", "--to", path)
        assert path.stat().st_size > 1000

    def test_an_unknown_format(self, run: Path, tmp_path: Path) -> None:
        assert "choose one of svg, png, pdf" in weft("attend", run, "a b", "--to", tmp_path / "map.gif", check=2).stderr


class TestLanguageModel:
    def test_sample(self, language_model: Path) -> None:
        lines = weft("sample", language_model, "--prompt", "a b", "-n", "3", "--length", "5").stdout.splitlines()
        assert len(lines) == 3 and all(line.startswith("a b") for line in lines)
        again = weft("sample", language_model, "--prompt", "a b", "-n", "3", "--length", "5").stdout.splitlines()
        assert lines == again, "seeded"

    def test_it_translates_nothing(self, language_model: Path) -> None:
        assert "language model" in weft("translate", language_model, stdin="a\n", check=2).stderr

    def test_perplexity(self, language_model: Path) -> None:
        assert list(json.loads(weft("evaluate", language_model, "--json").stdout)["metrics"]) == ["perplexity"]


class TestTraining:
    def test_an_existing_folder_is_kept(self, run: Path) -> None:
        done = weft("train", "grammar", *changes(), "--out", run, check=2)
        assert "already exists; continue it with --resume" in done.stderr

    def test_resume_with_more_steps(self, tmp_path: Path) -> None:
        weft("train", "grammar", *changes(), "--out", tmp_path / "r")
        done = weft("train", "grammar", "--set", "training.steps=35", "--out", tmp_path / "r", "--resume")
        assert "finished at step 35" in done.stderr, "the run's own settings, but for what --set says"
        done = weft("train", "addition", "--out", tmp_path / "r", "--resume", check=2)
        assert "was trained from recipe 'grammar', not 'addition'" in done.stderr

    def test_try(self, tmp_path: Path) -> None:
        small = [
            part for change in [*TINY[6:], "data.train_size=300", "data.test_size=20"] for part in ("--set", change)
        ]
        done = weft("try", *small, "--json", "--out", tmp_path / "try")
        found = json.loads(done.stdout.splitlines()[-1])
        assert set(found) == {"seconds", "exact_match", "bleu", "aer", "run"}
        assert "What next" in done.stderr


@pytest.fixture(scope="module")
def transformers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of an encoder and decoder, and of a language model."""
    folder = tmp_path_factory.mktemp("transformers")
    for kind in ("seq2seq", "language_model"):
        weft("train", "grammar", *TRANSFORMER, "--set", f"model.kind={kind}", "--out", folder / kind)
    return {path.name: path for path in folder.iterdir()}


def stacks() -> list[str]:
    found = [f"model.{name}" for name in ("embedding=8", "attention={}", "encoder={}", "decoder={}")]
    sizes = ("kind=transformer", "layers=2", "hidden=16", "heads=2", "feed_forward=24")
    return [*found, *(f"model.{side}.{size}" for side in ("encoder", "decoder") for size in sizes)]


TRANSFORMER = [part for change in (*TINY[:6], *TINY[9:], *stacks()) for part in ("--set", change)]


class TestTransformers:
    @pytest.mark.slow
    def test_every_command_has_an_answer(self, transformers: dict[str, Path]) -> None:
        run = transformers["seq2seq"]
        found = json.loads(weft("translate", run, "--json", stdin="a b\n").stdout)
        assert found["source_tokens"] == ["a", "b", "</s>"] and len(found["attention"]) == len(found["tokens"])
        assert "┌ a" in weft("attend", run, "a b c", "--target", "a b").stdout
        assert json.loads(weft("evaluate", run, "--json").stdout)["metrics"]["perplexity"]["value"] > 1

    def test_a_language_model(self, transformers: dict[str, Path]) -> None:
        run = transformers["language_model"]
        lines = weft("sample", run, "--prompt", "a b", "-n", "3", "--length", "5").stdout.splitlines()
        assert len(lines) == 3 and all(line.startswith("a b") for line in lines)

    def test_a_contradiction_is_one_line(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        done = weft("train", "grammar", *TRANSFORMER, "--set", "model.encoder.heads=3", "--out", out, check=2)
        message = "model.encoder.heads: 3 heads do not divide the width 16 (model.encoder.hidden)"
        assert done.stderr == f"weft: {message}\n" and not out.exists()


class TestBench:
    def test_json(self) -> None:
        short = ("--seconds", "0.2", "--warmup", "2", "--set", "data.train_size=500")
        done = weft("bench", "train", "addition", *short, "--json")
        found = json.loads(done.stdout)
        assert found["recipe"] == "addition" and found["device"] == "cpu" and found["precision"] == "fp32"
        assert found["steps"] >= 1 and found["seconds"] >= 0.2 and found["target_tokens_per_second"] > 0
        assert done.stdout.count("\n") == 1

    @pytest.mark.slow
    def test_in_words(self) -> None:
        measured = ("--seconds", "0.1", "--warmup", "1", "--device", "cpu")
        text = weft("bench", "train", "addition", *measured, "--set", "data.train_size=200").stdout
        assert text.startswith("addition on cpu, fp32, ")
        assert [line.split("  ")[0] for line in text.splitlines()[1:]] == [
            "target tokens/s",
            "source tokens/s",
            "step",
            "first step",
            "matrix products",
            "peak memory",
        ]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["aditon"], "aditon: no such recipe; did you mean 'addition'?, or give a .toml file"),
            (["addition", "--set", "training.step=3"], "training.step: unknown setting; did you mean 'steps'?"),
            (["addition", "--device", "gpu"], "--device gpu: no such device; use auto, cpu, cuda or cuda:N"),
        ],
    )
    def test_errors_are_one_line(self, arguments: list[str], message: str) -> None:
        assert weft("bench", "train", *arguments, check=2).stderr == f"weft: {message}\n"

    @pytest.mark.parametrize("argument", [["--seconds", "0"], ["--warmup", "0"]])
    def test_some_time_must_be_measured(self, argument: list[str]) -> None:
        assert argument[0] in weft("bench", "train", "addition", *argument, check=2).stderr


class TestRecipesAndTokenizers:
    def test_list(self) -> None:
        lines = weft("recipes").stdout.splitlines()
        assert [line.split()[0] for line in lines] == shipped()
        wide = max(map(len, shipped())) + 2
        assert all(line[wide - 1] == " " and line[wide] != " " for line in lines), "in two columns"

    def test_show(self) -> None:
        text = weft("recipes", "show", "addition", "--set", "training.steps=7").stdout
        assert text.startswith("# Character-level addition") and "training.steps = 7" in text
        assert "model.attention.score" in text

    def test_show_a_transformer(self) -> None:
        stacks = ["--set", "model.encoder={kind='transformer', heads=2}"]
        text = weft("recipes", "show", "addition", *stacks).stdout
        assert re.search(r"^model\.encoder\.heads = 2 +# attention heads; .* \(default 8\)$", text, re.M)
        assert "model.encoder.bidirectional" not in text and "model.decoder.input_feeding" in text

    @pytest.mark.parametrize(
        "change", ["data.valid=pairs.tsv", "model.encoder={kind='transformer', embedding_dropout=0.2}"]
    )
    def test_show_what_has_no_default(self, change: str) -> None:
        done = CliRunner().invoke(app, ["recipes", "show", "addition", "--set", change])
        assert done.exit_code == 0 and change.partition("=")[0] in done.output

    def test_show_every_recipe(self) -> None:
        for name in shipped():
            done = CliRunner().invoke(app, ["recipes", "show", name])
            assert done.exit_code == 0 and f'name = "{name}"' in done.output

    def test_tokenizer(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("low lower newest widest\n" * 5, "utf-8")
        made = tmp_path / "tokenizer.json"
        assert "bpe" in weft("tokenizer", "learn", tmp_path / "text", "--size", "30", "--out", made).stdout
        assert weft("tokenizer", "show", made).stdout.splitlines()[1].startswith("merge     1")
        ids = weft("tokenizer", "apply", made, "--ids", stdin="lowest newer\n").stdout
        assert weft("tokenizer", "apply", made, "--decode", stdin=ids).stdout == "lowest newer\n"


@pytest.mark.parametrize("raised", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_not_enough_memory_is_one_line(refusal, monkeypatch, raised):
    def fail(**options):
        raise raised

    monkeypatch.setattr("weft.apps.cli.app", fail)
    assert refusal("recipes").startswith("not enough memory; lower training.batch_tokens or search.batch_tokens")


def test_one_name_for_what_is_written() -> None:
    """Every command that writes a file or a folder takes --out; --to and --output are other names of it."""

    def parameters(command: Any, name: str = "weft") -> Iterator[tuple[str, set[str]]]:
        yield from ((name, {*parameter.opts}) for parameter in command.params)
        for word, inner in getattr(command, "commands", {}).items():
            yield from parameters(inner, f"{name} {word}")

    names = {"--to", "--output", "--out"}
    written = [(name, options) for name, options in parameters(get_command(app)) if names & options]
    assert len(written) > 20
    assert [name for name, options in written if "--out" not in options] == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["trian"], "weft: no such command 'trian', did you mean 'train', 'trace'; see weft --help"),
        (["train", "--nope"], "weft: train: no such option: --nope; see weft train --help"),
        (["course", "check"], "weft: course check: missing argument 'FILE'; see weft course check --help"),
    ],
)
def test_wrong_options_are_one_line_as_other_mistakes_are(
    arguments: list[str], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["weft", *arguments])
    for part in ("standard_streams.install", "raise_on_signals", "_use_encodable_output"):
        monkeypatch.setattr(f"weft.apps.cli.{part}", lambda: None)
    monkeypatch.setattr("weft.apps.cli.showing_status", lambda arguments: nullcontext())
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == f"{line}\n"
