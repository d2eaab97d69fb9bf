"""``weft adapter``, --adapter and --lora."""

import io
import json

import pytest
from typer.testing import CliRunner

from weft.apps.cli import app
from weft.apps.cli.commands.train import lora_changes
from weft.apps.serve.worker import Worker
from weft.data.pairs import Pair
from weft.errors import CheckpointError, RecipeError
from weft.training.train import train
from weft.translation.load import load

STACK = {"kind": "transformer", "layers": 1, "hidden": 12, "heads": 2, "feed_forward": 20}
MODEL = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
MODEL |= {"model.embedding": 12, "training.warmup": 0, "training.learning_rate": 0.05}
pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    list(train(tiny(MODEL), folder / "base"))
    lora = {"training.start": str(folder / "base"), "training.lora.rank": 2, "training.lora.name": "mine"}
    list(train(tiny({**MODEL, **lora, "training.steps": 20}), folder / "adapted"))
    return folder


def weft(*arguments, input=None):
    result = CliRunner().invoke(app, [*map(str, arguments)], input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_lora_option():
    assert lora_changes(None) == []
    assert lora_changes("rank=16, alpha=32,dropout=0.1,targets=query+decoder.*.value,name=x") == [
        "training.lora.rank=16",
        "training.lora.alpha=32.0",
        "training.lora.dropout=0.1",
        'training.lora.targets=["query", "decoder.*.value"]',
        'training.lora.name="x"',
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("16", "--lora 16: expected NAME=VALUE separated by commas, for example rank=16"),
        ("rnk=16", "--lora rnk: unknown setting; did you mean 'rank'?"),
        ("alpha=3", "--lora alpha=3: needs a rank, for example rank=16"),
    ],
)
def test_lora_option_refused(given, message):
    with pytest.raises(RecipeError) as caught:
        lora_changes(given)
    assert str(caught.value) == message


def test_list_add_use_export_remove(runs, tmp_path):
    base, adapted = runs / "base", runs / "adapted"
    assert weft("adapter", "list", base) == ""
    assert weft("adapter", "list", adapted) == "mine\trank 2, alpha 4, 6 projections, 288 parameters\tstep 20\n"
    assert weft("adapter", "add", base, adapted, "--name", "copied") == "copied\n"
    assert '"name": "copied", "rank": 2' in weft("adapter", "list", base, "--json")
    plain, changed = (
        weft("score", base, "-", *options, input="a b\ta b\n") for options in ([], ["--adapter", "copied"])
    )
    assert plain != changed
    assert changed == weft("score", adapted, "-", input="a b\ta b\n")
    assert plain == weft("score", adapted, "-", "--adapter", "none", input="a b\ta b\n")
    assert weft("translate", base, "--adapter", "copied", input="a b\n") == weft("translate", adapted, input="a b\n")
    assert weft("adapter", "export", base, "copied", "--out", tmp_path / "out") == f"{tmp_path / 'out'}\n"
    assert weft("adapter", "add", adapted, tmp_path / "out", "--name", "again") == "again\n"
    assert weft("score", base, "-", "--adapter", "copied", input="a\ta\n") == weft(
        "score", adapted, "-", "--adapter", "again", input="a\ta\n"
    )
    assert weft("adapter", "remove", base, "copied") == "" and weft("adapter", "list", base) == ""
    assert not (base / "adapters/copied").exists()


def test_other_commands(runs, tmp_path):
    """compare, report, bench and the worker of a service use the adapter that is named."""
    adapted, pairs = runs / "adapted", tmp_path / "p.tsv"
    pairs.write_text("a b c\ta b c\nd c\td c\n", "utf-8")
    compared = weft("compare", f"{adapted}:none", adapted, pairs, "--samples", 100, "--json")
    assert json.loads(compared)["runs"] == [f"{adapted}:none", str(adapted)]
    quick = ("--samples", 100, "--to", tmp_path / "r.html", "--json")
    first, second = (json.loads(weft("report", adapted, pairs, *quick, "--adapter", name)) for name in ("none", "mine"))
    assert first["scores"] != second["scores"]
    assert second["run"] == "adapted:mine" and "<title>adapted:mine: weft" in (tmp_path / "r.html").read_text("utf-8")
    worker = Worker(io.BytesIO(), io.BytesIO())
    worker.config = {"runs": [str(adapted)], "device": "cpu", "adapter": "none"}
    expected = load(runs / "base", device="cpu").score([Pair("a", "a")])
    assert worker._load().score([Pair("a", "a")])[0].token_scores == expected[0].token_scores


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "{base}", "{base}:x"), "{base}:x: {base} has no adapter 'x'; it has none"),
        (("sample", "{base}", "--adapter", "x"), "--adapter x: {base} has no adapter of this name; it has none"),
        (("bench", "translate", "{base}", "--adapter", "x"), "--adapter x: {base} has no adapter of this name; it"),
        (("serve", "{base}:x"), "{base}:x: {base} has no adapter 'x'; it has none"),
        (("adapter", "remove", "{adapted}", "mine"), "has trained the adapter 'mine' itself; remove the run folder"),
        (("adapter", "add", "{adapted}", "{adapted}"), "has an adapter of this name; choose another, or remove it"),
        (("adapter", "add", "{base}", "{adapted}", "--name", "a/b"), "--name: 'a/b' was given; expected letters"),
        (("adapter", "add", "{base}", "nowhere"), "nowhere: no such folder"),
        (("adapter", "export", "{base}", "x", "--out", "y"), "--adapter x: {base} has no adapter of this name; it has"),
        (("score", "{adapted}", "--adapter", "mein"), "--adapter mein: {adapted} has no adapter of this name; did you"),
    ],
)
def test_refused(runs, arguments, message):
    names = {name: str(runs / name) for name in ("base", "adapted")}
    with pytest.raises(CheckpointError) as caught:
        weft(*(argument.format(**names) for argument in arguments))
    assert message.format(**names) in str(caught.value) and "\n" not in str(caught.value)
