#!/usr/bin/env bash
# Measures and checks gpucache under PyTorch and CuPy on one NVIDIA GPU, beside PyTorch's own allocators. Prints lines of JSON.
#
#   tests/gpu/frameworks.sh                     all parts, about 30 minutes on an H100
#   tests/gpu/frameworks.sh models streams      some parts
#   OURS="gpucache" OTHERS="native" MODELS=gpt2 tests/gpu/frameworks.sh models
#   OPTIONS="--device cpu --small" tests/gpu/frameworks.sh oom    tries the programs without a GPU
#   SOAK=10000000 tests/gpu/frameworks.sh soak  the long soak: operations of each thread
#
# `python3` must have torch, torchvision, transformers and CuPy, and must find the package `gpucache` (installed, or by PYTHONPATH).
# A line with "part": "marks" compares gpucache with the others. `frameworks/README.md` explains the fields.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)/frameworks
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
ours=${OURS:-gpucache gpucache-auto}
others=${OTHERS:-native expandable async}
read -ra options <<< "${OPTIONS:-}"
failed=0
MODELS=${MODELS:-gpt2,gpt2-random,mixtral,resnet50,vit,graph,generate}

# Runs a program, and says with which status it ended and how long it took.
program() {
    local begin=$SECONDS status=0
    timeout "${PATIENCE:-300}" "$python" "$here/$1.py" "${@:2}" || status=$?
    [ "$status" -eq 0 ] || failed=1
    printf '{"part": "end", "program": "%s", "arguments": "%s", "exit": %d, "seconds": %d}\n' "$1" "${*:2}" "$status" $((SECONDS - begin))
}

# Runs a program once with each of these allocators.
each() {
    local allocators=$1
    shift
    for allocator in $allocators; do
        program "$1" --allocator "$allocator" "${@:2}" ${options[@]+"${options[@]}"}
    done
}

comma() { local IFS=,; printf '%s' "$*"; }

models() {
    # shellcheck disable=SC2086
    PATIENCE=600 program compare --allocators "$(comma $others $ours)" --models "$MODELS" --options="${OPTIONS:-}"
}
# Below PyTorch: its segments come from gpucache, and it plans no tensors. Compare with the lines of `models`.
below() {
    for model in ${MODELS//,/ }; do
        each "native gpucache-pool" models --model "$model"
    done
}
pair() { each "native gpucache" pair; }
streams() {
    each "native $ours" streams --rounds "${ROUNDS:-10000}"
    # Shows that the canaries see a mistake: PyTorch's own allocator, and a program that leaves out its waits.
    each native streams --rounds 1000 --break
}

graphs() { each "native $ours" graphs; }
oom() { each "native $ours" oom; }
soak() { each "$ours" soak --operations "${SOAK:-1000000}"; }
# Processes that end with tensors, scopes and threads. Native shows what PyTorch itself does.
exits() { each "native $ours" exits; }
cupy_streams() { program cupy_streams; }
functions() { each "native $ours" functions; }
batch() { each "$others $ours" batch --limit "${LIMIT_GIB:-20}"; }
# Programs that put their scopes in other places than around the step.
scopes() {
    for place in step passes late turns inside; do
        each "native $ours" scopes --place "$place"
    done
}
# shellcheck disable=SC2086
plan() { program plan --allocators "$(comma $ours)" --options="${OPTIONS:-}"; }
memcheck() {
    command -v compute-sanitizer > /dev/null || { printf '{"part": "memcheck", "error": "compute-sanitizer is not installed"}\n'; return; }
    local log status=0
    log=$(mktemp)
    for allocator in $ours; do
        timeout "${PATIENCE:-300}" compute-sanitizer --tool memcheck --error-exitcode 9 --log-file "$log" \
            "$python" "$here/soak.py" --allocator "$allocator" --operations 2000 --exchanges 100 || status=$?
        [ "$status" -eq 0 ] || failed=1
        printf '{"part": "memcheck", "allocator": "%s", "exit": %d, "summary": "%s"}\n' "$allocator" "$status" "$(tail -1 "$log" | tr -d '"=')"
    done
    rm -f "$log"
}
examples() {
    local folder=$here/../../../examples/python
    for arguments in "train.py" "train.py --gpucache" "cupy_and_torch.py"; do
        # shellcheck disable=SC2086
        timeout "${PATIENCE:-300}" "$python" "$folder"/$arguments | sed 's/^/# /' || failed=1
    done
}

all=(models below pair plan scopes streams cupy_streams graphs oom functions soak exits batch memcheck examples)
for part in "${@:-${all[@]}}"; do
    "$part"
done
exit "$failed"
