"""Jobs in processes: several in parallel, killed, and out of memory."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.apps.tuning import processes
from weft.apps.tuning.job import TuningJob
from weft.apps.tuning.processes import ProcessRunner, Slots, find_slots
from weft.apps.tuning.worker import train_to_rung
from weft.errors import TrainingError
from weft.recipe.toml import write_toml
from weft.runs.locks import lock_owner

# A worker that does what its job says, without torch.
WORKER = """
import json, os, signal, sys, time
job = json.loads(sys.argv[1])
arguments = job["arguments"]
def write(outcome):
    with open(job["result"], "w") as file:
        json.dump(outcome, file)
if "kill" in arguments:
    os.kill(os.getpid(), arguments["kill"])
if "code" in arguments:
    sys.exit(arguments["code"])
others = len(os.listdir(arguments["busy"]))
is_second = os.path.exists(job["result"] + ".tried")
open(job["result"] + ".tried", "w").close()
open(os.path.join(arguments["busy"], job["name"]), "w").close()
time.sleep(arguments.get("sleep", 0.0))
os.remove(os.path.join(arguments["busy"], job["name"]))
if arguments.get("needs_memory") and not is_second:
    write({"failed": "not enough memory", "out_of_memory": True})
else:
    write({"others": others, "device": arguments["device"], "threads": os.environ.get("OMP_NUM_THREADS")})
"""


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """Two jobs at once, of the worker above."""
    monkeypatch.setattr(processes, "WORKER", ["-c", WORKER])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "busy").mkdir()
    return ProcessRunner(Slots(["cpu", "cuda:1"], 3), tmp_path / "logs")


@pytest.fixture
def job(tmp_path):
    def job(name, **arguments):
        return TuningJob("train", name, str(tmp_path / f"{name}.json"), {"busy": str(tmp_path / "busy"), **arguments})

    return job


def test_several_at_once_each_in_its_slot(runner, job):
    outcomes = {found.name: outcome for found, outcome in runner.run([job("a", sleep=0.3), job("b"), job("c")])}
    assert [outcomes[name]["device"] for name in "abc"] == ["cpu", "cuda:1", "cuda:1"]
    assert {outcome["threads"] for outcome in outcomes.values()} == {"3"}


def test_without_memory_beside_others_a_job_runs_again_alone(runner, job):
    jobs = [job("a", needs_memory=True), job("b", sleep=0.3), job("c", needs_memory=True)]
    outcomes = [(found.name, outcome) for found, outcome in runner.run(jobs)]
    assert [name for name, _ in outcomes] == ["b", "a", "c"]
    assert all("failed" not in outcome for _, outcome in outcomes)
    assert [outcome["others"] for _, outcome in outcomes[1:]] == [0, 0]


def test_without_memory_for_itself_alone_a_job_has_failed(runner, job):
    runner.slots = Slots(["cpu"], 1)
    [(_, outcome)] = runner.run([job("a", needs_memory=True)])
    assert outcome["failed"] == "not enough memory"


def test_how_a_process_ended_without_a_result(runner, job, tmp_path):
    [(_, killed)] = runner.run([job("a", kill=signal.SIGKILL)])
    assert killed["failed"] == "its process was killed; too little memory?"
    [(_, broken)] = runner.run([job("b", code=3)])
    assert broken["failed"] == f"its process ended with exit code 3; see {tmp_path / 'logs' / 'b'}.log"
    with pytest.raises(TrainingError, match="c: its process was stopped by SIGTERM; continue with the same command"):
        list(runner.run([job("c", kill=signal.SIGTERM)]))


def test_an_interruption_ends_all_processes(runner, job):
    jobs = runner.run([job("a"), job("b", sleep=60.0)])
    next(jobs)
    [running] = runner.running.values()
    jobs.close()
    assert running.process.returncode == -signal.SIGTERM


def test_by_default_a_candidate_on_every_core(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    assert find_slots("cpu", None, 5) == Slots(["cpu"] * 5, 1)
    assert find_slots("cpu", 2, 5) == Slots(["cpu"] * 2, 4)
    assert find_slots("cpu", None, 20) == Slots(["cpu"] * 8, 1)


def test_by_default_two_on_every_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert find_slots("auto", None, 9).devices == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert find_slots("cuda:1", None, 9) == Slots(["cuda:1", "cuda:1"], 0)
    assert find_slots("cuda", 3, 9).devices == ["cuda:0", "cuda:1", "cuda:0"]


PARENT = """
import json, sys
from weft.apps.tuning.job import TuningJob
from weft.apps.tuning.processes import ProcessRunner, Slots
from pathlib import Path
list(ProcessRunner(Slots(["cpu"], 1), Path(sys.argv[2])).run([TuningJob.from_json(sys.argv[1])]))
"""


@pytest.mark.slow
def test_after_kill_9_a_worker_saves_its_checkpoint_and_nothing_is_lost(tiny, tmp_path):
    """A real worker, whose parent is killed while it trains; then the job is done to its end."""
    endless = {"training.steps": 10**6, "training.validate_every": 10**6 // 8, "data.valid_size": 5}
    (tmp_path / "recipe.toml").write_text(write_toml(tiny(endless)), "utf-8")
    run = tmp_path / "run"
    arguments = {"recipe": str(tmp_path / "recipe.toml"), "folder": str(run), "step": 10**6, "device": "cpu"}
    text = TuningJob("train", "x", str(tmp_path / "x.json"), arguments).to_json()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, text, str(tmp_path / "logs")], env=environment)
    try:
        while _logged_step(run) < 3:
            assert parent.poll() is None
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()
    while lock_owner(run) is not None:  # until the worker has ended too
        time.sleep(0.05)
    [checkpoint] = [path for path in (run / "training").iterdir() if path.name.startswith("step-")]
    reached = json.loads((checkpoint / "state.json").read_text("utf-8"))["step"]
    assert reached >= 3 and reached == _logged_step(run)
    (tmp_path / "recipe.toml").write_text(write_toml(tiny({**endless, "training.steps": reached + 2})), "utf-8")
    outcome = train_to_rung({**arguments, "step": reached + 2})
    assert outcome["finished"] and outcome["step"] == reached + 2


def _logged_step(run: Path) -> int:
    log = run / "log.jsonl"
    lines = log.read_text("utf-8").splitlines() if log.is_file() else []
    return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)
