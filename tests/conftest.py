"""What several test files share: a tiny recipe, trained runs, and a process that can be killed at a chosen moment."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("weft", deadline=None, max_examples=30)  # a busy machine proves nothing
settings.register_profile("thorough", deadline=None, max_examples=1000)  # pytest --hypothesis-profile=thorough
settings.load_profile("weft")
os.environ["WEFT_NO_PROGRESS"] = "1"  # on a busy machine every command takes more than two seconds

if os.environ.get("WEFT_TEST_PERTURBATION"):  # here, and in every process that tests start
    PERTURBATION = str(Path(__file__).parent / "fixtures" / "perturbation")
    os.environ["PYTHONPATH"] = os.pathsep.join([PERTURBATION, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.path.insert(0, PERTURBATION)
    import perturbed_weights  # noqa: F401


def pytest_configure(config):
    """A GPU is hidden from all tests but those marked gpu: their results do not depend on whether there is one."""
    if "gpu" not in config.option.markexpr.replace("not gpu", ""):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


LONGEST = (
    "apps/serve/page/",
    "apps/serve/",
    "contracts/test_models.py",
    "contracts/test_searching.py",
    "contracts/test_settings.py",
    "apps/cli/test_cli.py",
    "apps/cli/commands/test_translate.py",
    "training/test_train_resuming.py",
    "training/test_distributed.py",
    "apps/cli/commands/test_train_workers.py",
    "learning/test_learning.py",
    "contracts/test_bad_input.py",
    "learning/test_transformers.py",
    "apps/tuning/test_tune.py",
    "recipe/test_loading.py",
    "apps/cli/commands/test_attend.py",
    "data/batching/test_streaming.py",
    "translation/test_resumable_output.py",
    "translation/test_inspection.py",
    "training/test_interruption.py",
    "runs/test_load.py",
    "documentation/test_extending.py",
    "apps/tuning/test_processes.py",
    "data/preparation/test_prepare.py",
    "data/store/test_worker_processes.py",
    "peers/test_marian.py",
    "peers/test_ctranslate2.py",
    "translation/test_translator.py",
    "translation/test_load.py",
    "translation/engines/test_batch_sizes.py",
)
"""Where tests take longest, in this order: they are begun first, so that the workers end at the same time."""


def _group(nodeid):
    """Tests that one worker runs, so that what they share is made once: of a file, of the service, of a journey."""
    file = nodeid.split("::", 1)[0].removeprefix("tests/")
    if file == "journeys/test_journeys.py":
        return f"{file}[{nodeid.partition('[')[2]}"
    return next((group for group in ("apps/serve/page/", "apps/serve/") if file.startswith(group)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Each group is run by one worker, in the order in which the tests are collected."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _group(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)


def pytest_collection_modifyitems(config, items):
    """In parallel, the longest groups come first, then those of the most tests."""
    if hasattr(config, "workerinput"):
        sizes = Counter(_group(item.nodeid) for item in items)
        ranks = {group: rank for rank, group in enumerate(LONGEST)}
        items.sort(key=lambda item: (ranks.get(group := _group(item.nodeid), len(ranks)), -sizes[group], group))


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

# Reads requests as lines of JSON and runs each in a forked child: torch is imported once, and a kill is a real kill.
FORKING = """
import json, os, signal, sys, tempfile, time, traceback
import weft, weft.training.train
from weft.errors import WeftError
import safetensors.torch

os.fsync = os.fstat  # a kill spares what is written

def kill_at_call(functions, number):
    calls = 0
    def wrap(owner, name):
        original = getattr(owner, name)
        def counted(*arguments, **keywords):
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **keywords)
        setattr(owner, name, counted)
    for name in functions:
        wrap(*((safetensors.torch, name) if name == "save" else (os, name)))

def run(request):
    kill_at_call(request["functions"], request["call"])
    recipe = weft.make_recipe({}, request["changes"])
    for _ in weft.train(recipe, request["out"], resume=request["resume"]):
        pass

with tempfile.TemporaryDirectory() as scratch:  # what torch loads at its first use, each child would load again
    run({"functions": [], "call": 0, "changes": json.loads(sys.argv[1]), "out": scratch + "/run", "resume": False})
print("ready", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            run(request)
        except WeftError as error:
            os.write(writing, str(error).encode())
            code = 2
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-4000:])
            code = 1
        os._exit(code)
    os.close(writing)
    if request["after"] is not None:
        time.sleep(request["after"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        message = pipe.read().decode()
    print(json.dumps([os.waitstatus_to_exitcode(status), message]), flush=True)
"""


def _changes(changes):
    return [f"{name}={json.dumps(value)}" for name, value in {**TINY, **changes}.items()]


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """Tests keep out of the user's cache, and compile nothing in the background: tests of compiled code wait for it.

    With ``WEFT_NATIVE=1`` all tests use the compiled kernels, which are compiled once, into a cache of their own.
    """
    is_native = os.environ.get("WEFT_NATIVE") == "1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_NATIVE", "1" if is_native else "0")
        if not (is_native and os.environ.get("WEFT_CACHE")):
            patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        if is_native:
            from weft.fast.cpu import compiled  # tests also run without fast/

            assert compiled.library(wait=True) is not None
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk():
    """Only a power failure shows whether files were flushed; tests of that count the calls of fsync."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # fails for a handle that is not open, as fsync does
        yield


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
    """A model that has learned to copy short sequences of letters: p > 0.8 for each, whatever the seed."""
    from weft.training.train import train
    from weft.translation.load import load

    path = tmp_path_factory.mktemp("copier") / "run"
    learning = {
        "name": "copier",
        "data.options.length": 4,
        "data.options.symbols": 5,
        "data.train_size": 600,
        "model.encoder.hidden": 32,
        "model.decoder.hidden": 32,
        "model.dropout": 0.0,
        "training.label_smoothing": 0.0,
        "training.steps": 200,
        "training.batch_tokens": 256,
        "training.learning_rate": 0.02,
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
    """Train a tiny recipe in a process of its own that may be killed; returns its exit code and its error message.

    after        seconds until it is killed from outside
    functions    names of ``os`` functions (or ``save``, of safetensors) ...
    call         ... at whose n-th call, counted together, the process kills itself
    """
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, json.dumps(_changes({"training.steps": 2}))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"

        def run(changes, out, *, resume=False, after=None, functions=(), call=0):
            request = {
                "changes": _changes(changes),
                "out": str(out),
                "resume": resume,
                "after": after,
                "functions": list(functions),
                "call": call,
            }
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return tuple(json.loads(process.stdout.readline()))

        yield run
        with suppress(BrokenPipeError):
            process.stdin.close()
