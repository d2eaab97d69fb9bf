"""What several test files share: a tiny recipe, trained runs, and a process that can be killed at a chosen moment."""

import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import settings

settings.register_profile("weft", deadline=None)  # a busy machine proves nothing
settings.load_profile("weft")

TINY = {
    "data.train": "copy",
    "data.train_size": 120,
    "data.valid_size": 20,
    "data.test_size": 20,
    "data.options.length": 5,
    "data.options.symbols": 7,
    "tokenizer.kind": "word",
    "model.embedding": 11,
    "model.encoder.hidden": 16,
    "model.decoder.hidden": 16,
    "training.steps": 6,
    "training.batch_tokens": 64,
    "training.learning_rate": 0.01,
    "training.validate_every": 0,
    "training.save_every": 0,
    "training.log_every": 1,
    "training.device": "cpu",
}

# Reads orders as lines of JSON and runs each in a forked child: torch is imported once, and a kill is a real kill.
FORKING = """
import json, os, signal, sys, tempfile, time, traceback
import weft, weft.training.train
from weft.errors import WeftError
import safetensors.torch

def arm(functions, place):
    calls = 0
    def wrap(owner, name):
        original = getattr(owner, name)
        def deadly(*arguments, **keywords):
            nonlocal calls
            calls += 1
            if calls == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **keywords)
        setattr(owner, name, deadly)
    for name in functions:
        wrap(*((safetensors.torch, name) if name == "save" else (os, name)))

def obey(order):
    arm(order["functions"], order["place"])
    recipe = weft.make_recipe({}, order["changes"])
    for _ in weft.train(recipe, order["out"], resume=order["resume"]):
        pass

with tempfile.TemporaryDirectory() as scratch:  # what torch loads at its first use, each child would load again
    obey({"functions": [], "place": 0, "changes": json.loads(sys.argv[1]), "out": scratch + "/run", "resume": False})
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            obey(order)
        except WeftError as error:
            os.write(writing, str(error).encode())
            code = 2
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-4000:])
            code = 1
        os._exit(code)
    os.close(writing)
    if order["after"] is not None:
        time.sleep(order["after"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    print(json.dumps([os.waitstatus_to_exitcode(status), said]), flush=True)
"""


def _changes(changes):
    return [f"{name}={json.dumps(value)}" for name, value in {**TINY, **changes}.items()]


@pytest.fixture(scope="session")
def tiny():
    """A recipe that trains in a moment: ``tiny({"training.steps": 3})``."""
    from weft.recipe import make_recipe

    return lambda changes=None: make_recipe({}, _changes(changes or {}))


@pytest.fixture(scope="session")
def finished(tiny, tmp_path_factory):
    """The folder of a short run that has ended. Copy it before you change it."""
    from weft.training.train import train

    path = tmp_path_factory.mktemp("finished") / "run"
    assert list(train(tiny({"training.steps": 2, "training.validate_every": 1}), path))
    return path


@pytest.fixture(scope="session")
def copier(tiny, tmp_path_factory):
    """A model that has learned to copy short sequences of letters."""
    from weft.training.train import train
    from weft.translation.load import load

    path = tmp_path_factory.mktemp("copier") / "run"
    learning = {
        "name": "copier",
        "data.options.length": 4,
        "data.options.symbols": 5,
        "data.train_size": 600,
        "model.dropout": 0.0,
        "training.label_smoothing": 0.0,
        "training.steps": 200,
        "training.batch_tokens": 256,
        "training.learning_rate": 0.03,
        "training.warmup": 20,
        "training.log_every": 100,
    }
    assert list(train(tiny(learning), path))
    return load(path)


@pytest.fixture(scope="session")
def speaker(tiny, tmp_path_factory):
    """A language model."""
    from weft.training.train import train
    from weft.translation.load import load

    path = tmp_path_factory.mktemp("speaker") / "run"
    assert list(train(tiny({"name": "speaker", "model.kind": "language_model", "training.steps": 20}), path))
    return load(path)


@pytest.fixture(scope="session")
def train_elsewhere():
    """Train a tiny recipe in a process of its own that may be killed; gives its exit code and what it said.

    after        seconds until it is killed from outside
    functions    names of ``os`` functions (or ``save``, of safetensors) ...
    place        ... at whose so-many-th call, counted together, the process kills itself
    """
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, json.dumps(_changes({"training.steps": 2}))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"

        def run(changes, out, *, resume=False, after=None, functions=(), place=0):
            order = {
                "changes": _changes(changes),
                "out": str(out),
                "resume": resume,
                "after": after,
                "functions": list(functions),
                "place": place,
            }
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            return tuple(json.loads(process.stdout.readline()))

        yield run
        with suppress(BrokenPipeError):
            process.stdin.close()
