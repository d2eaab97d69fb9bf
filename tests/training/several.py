"""Several workers for a test: forked from one process that has imported torch, so that a start takes no time."""

import json
import os
import socket
import subprocess
import sys

SERVER = """
import json, os, signal, sys, traceback
import torch, torch._dynamo  # here, as all else that would be loaded in every worker again
import weft, weft.trainer, weft.training.sharding
from weft.errors import WeftError
from weft.training.distributed import Workers
from weft.training.events import Step, Validation

def work(order, rank):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(order["count"]))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(order["port"]))
    team = Workers.from_environment()
    seen = []
    with team.joined():
        recipe = weft.make_recipe({}, order["changes"])
        for event in weft.train(recipe, order["out"], resume=order["resume"], workers=team):
            if isinstance(event, Step):
                seen.append([event.step, event.loss, event.norm, event.target_tokens])
            elif isinstance(event, Validation):
                seen.append([event.step, event.loss, event.best])
            if order["until"] and event.step >= order["until"] and type(event).__name__ == "Saved":
                break
    return seen

print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    children = []
    for rank in range(order["count"]):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code, said = 0, ""
            signal.alarm(240)
            try:
                said = json.dumps(work(order, rank))
            except WeftError as error:
                code, said = 2, str(error)
            except BaseException:
                code, said = 1, traceback.format_exc()[-3000:]
            os.write(writing, said.encode())
            os._exit(code)
        os.close(writing)
        children.append((child, reading))
    found = []
    for child, reading in children:
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode()
        found.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said])
    print(json.dumps(found), flush=True)
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Several:
    """``several(2, changes, out)``: what each of two workers saw of a run."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def __call__(self, count, changes, out, *, resume=False, until=0, check=0):
        order = {"count": count, "changes": changes, "out": str(out), "resume": resume, "until": until}
        self.process.stdin.write(json.dumps({**order, "port": free_port()}) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert [code for code, _ in found] == [check] * count, found
        return [json.loads(said) if check == 0 else said for _, said in found]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
