#!/usr/bin/env bash
# Checks and measures the bundle on a machine with an NVIDIA GPU: bash run.sh OUTPUT_FOLDER
#
# Every step writes its log to OUTPUT_FOLDER and a line to the table at the end; a failed step does not stop the rest.
set -u
cd "$(dirname "$0")"
out=${1:?usage: bash run.sh OUTPUT_FOLDER}
mkdir -p "$out"
out=$(cd "$out" && pwd)
export FERROWARP_PTX=$PWD
failed=0
summary=""

step() {
    local name=$1
    shift
    local start=$SECONDS
    "$@" >"$out/$name.log" 2>&1
    local status=$?
    [ "$status" = 0 ] || failed=1
    summary+="$(printf '%-24s exit %-4s %4s s   %s' "$name" "$status" $((SECONDS - start)) "$(tail -n 1 "$out/$name.log")")"$'\n'
}

nvidia-smi --query-gpu=name,driver_version,compute_cap,clocks.sm,clocks.mem --format=csv >"$out/gpu.csv" 2>&1
step self-check ./self-check --device cuda
# The fault check kills its context on purpose, which a sanitizer would report.
for tool in memcheck racecheck initcheck synccheck; do
    step "$tool" compute-sanitizer --tool "$tool" --error-exitcode 3 ./self-check --device cuda --no-fault-checks
done
for pipeline in fused naive; do
    step "train-$pipeline" ./train-mnist --device cuda --data data --pipeline "$pipeline" \
        --metrics "$out/train-$pipeline.jsonl" --save "$out/$pipeline.safetensors"
done
# The same seed twice gives the same weights.
step train-again ./train-mnist --device cuda --data data --save "$out/again.safetensors"
step same-weights cmp "$out/fused.safetensors" "$out/again.safetensors"
step train-cpu ./train-mnist --device cpu --data data --metrics "$out/train-cpu.jsonl"
step predict ./predict --device cuda --data data --model "$out/fused.safetensors" 0 1 2
rm -f "$out/again.safetensors" "$out/naive.safetensors"

{
    echo "$(date -u +%Y-%m-%d), commit $(cat COMMIT)"
    cat "$out/gpu.csv"
    printf '%s' "$summary"
    echo
    cat "$out/train-fused.log"
} | tee "$out/summary.txt"
exit "$failed"
