#!/bin/sh
# Two "machines" on one: two network namespaces joined by a virtual cable, each with one worker of the same run.
# Needs root and `ip`. Trains a small recipe three times: by one process, by a worker in each namespace, and so again
# with the second machine's worker killed half-way; then compares the weights.
#
#   sh benchmarks/two_machines.sh [FOLDER]
set -eu
folder=${1:-$(mktemp -d)}
python=${PYTHON:-.venv/bin/python}
export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=
first=weft-a-$$ second=weft-b-$$
changes="--set data.train_size=2000 --set data.valid_size=20 --set model.embedding=16 --set model.encoder.hidden=32
 --set model.decoder.hidden=32 --set training.steps=200 --set training.accumulate=2 --set training.save_every=10
 --set training.validate_every=100 --set training.log_every=1 --set training.optimiser=sgd
 --set training.learning_rate=0.1"

trap 'ip netns del $first 2>/dev/null || true; ip netns del $second 2>/dev/null || true' EXIT
ip netns add "$first"
ip netns add "$second"
ip link add wefta netns "$first" type veth peer name weftb netns "$second"
ip -n "$first" addr add 10.77.0.1/24 dev wefta
ip -n "$second" addr add 10.77.0.2/24 dev weftb
for space in "$first" "$second"; do ip -n "$space" link set lo up; done
ip -n "$first" link set wefta up
ip -n "$second" link set weftb up

machine() { # NUMBER NAMESPACE INTERFACE ADDRESS OUT
    ip netns exec "$2" env GLOO_SOCKET_IFNAME="$3" "$python" -m torch.distributed.run \
        --nnodes 2 --node-rank "$1" --nproc-per-node 1 --max-restarts 2 --local-addr "$4" \
        --rdzv-backend c10d --rdzv-endpoint 10.77.0.1:29400 --rdzv-id weft \
        --rdzv-conf "is_host=$([ "$1" = 0 ] && echo true || echo false)" \
        -m weft train addition $changes --out "$5"
}

both() { # OUT
    machine 0 "$first" wefta 10.77.0.1 "$1" & one=$!
    machine 1 "$second" weftb 10.77.0.2 "$1" & two=$!
}

echo "== one process"
"$python" -m weft train addition $changes --out "$folder/one"
echo "== two machines"
both "$folder/two"
wait $one
wait $two
echo "== two machines, the second one's worker killed after step 60"
both "$folder/killed"
until grep -q '"step": 60,' "$folder/killed/log.jsonl" 2>/dev/null; do sleep 0.1; done
for process in $(ip netns pids "$second"); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep -q '^LOCAL_RANK='; then kill -9 "$process"; fi
done
wait $one
wait $two
"$python" - "$folder" <<'EOF'
import json, pathlib, sys
from safetensors.torch import load_file
folder = pathlib.Path(sys.argv[1])
runs = {name: load_file(next((folder / name / "training").glob("step-*")) / "weights.safetensors")
        for name in ("one", "two", "killed")}
for name in ("two", "killed"):
    far = max(float((runs["one"][key] - runs[name][key]).abs().max()) for key in runs["one"])
    starts = sum('"started"' in line for line in (folder / name / "log.jsonl").read_text().splitlines())
    print(f"{name}: greatest difference to one process {far:.1e}; started {starts} time(s)")
print("killed equals two bit by bit:", all((runs["two"][key] == runs["killed"][key]).all() for key in runs["two"]))
EOF
