#!/usr/bin/env bash
# Measures and checks the program `parallel` on the GPUs of this machine. Prints lines of JSON, the last one with the marks.
#
#   tests/gpu/parallel.sh                          all parts; builds the program with Cargo if there is one
#   PROGRAM=path/to/parallel tests/gpu/parallel.sh memory faults    some parts, with a program that was built elsewhere
#   OPTIONS="--device host --layers 1 --width 32 --context 16" GPUS=2 tests/gpu/parallel.sh    tries the script without a GPU
#
# Two or four GPUs with NCCL are wanted. With one GPU, the script runs one rank with NCCL, and two ranks on this GPU that reduce through
# host memory. `python3` is needed, and torch for the part `ddp`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ -z "${PROGRAM:-}" ]; then
    cargo build --release --example parallel
    PROGRAM=target/release/examples/parallel
fi
count() { nvidia-smi --list-gpus 2> /dev/null | wc -l; }
export PROGRAM GPUS=${GPUS:-$(count)} OPTIONS=${OPTIONS:-}
exec python3 tests/gpu/parallel/rows.py "$@"
