#!/usr/bin/env bash
# Checks and measures the bundle on a machine with an NVIDIA GPU: bash run.sh OUTPUT_FOLDER [STEP...]
#
# Steps: check (self-check with the PTX of both back ends, programs on cust,
# sanitizers), repeat (100 runs of attention and matrix multiplication, bit for bit, while another process uses the GPU), train, bench (our softmax), peers (PyTorch, Triton,
# FlashInfer and QuACK), peers-compile (torch.compile), missed (Nsight Compute on ours and QuACK where QuACK was ahead), matmul
# (our matrix multiplication at every shape), matmul-peers (ours in turns with cuBLASLt, PyTorch and Triton, and the rungs of the ladder), attention (our attention at every
# shape, and the rungs of its ladder), attention-peers (ours in turns with PyTorch, cuDNN and FlexAttention, and the same rungs),
# norm (our norms at every shape), norm-peers (ours in turns with PyTorch, torch.compile and QuACK), axis (our sums, cumulative sums and transposes), axis-peers (ours in turns with PyTorch and
# torch.compile), random (problems drawn from FERROWARP_SEED, ours in turns with PyTorch, cuBLASLt and torch.compile), accuracy (30,000 random problems of every operation, their errors and PyTorch's), collective (all-reduce, cross entropy and wide layers on one GPU and on all), collective-peers (PyTorch's all-reduce on all
# GPUs), ranks (training on two GPUs, by torchrun and by --gpus, whose processes are then killed), mlp (our training, rung by rung),
# mlp-peers (PyTorch and JAX), timelines (what runs when, on each rung), ladder (accuracy and kernels of each rung), gallery (the
# lessons), gallery-peers (PyTorch at their problems), gallery-counts (Nsight Compute's sectors and
# conflicts of each lesson), roofline (the time of every kernel that no lesson times), faults (kernels that fail on purpose,
# and what the programs then do), profile (Nsight Compute on some softmax shapes); all if none is named.
# FERROWARP_LESSONS names the lessons of the step gallery, all if it is empty.
# FERROWARP_BENCH_SHAPES=few in the environment takes a few shapes, some takes all but half of the widths;
# FERROWARP_PEERS_BUDGET, FERROWARP_COMPILE_BUDGET, FERROWARP_MLP_PEERS_BUDGET, FERROWARP_MATMUL_BUDGET and
# FERROWARP_ATTENTION_BUDGET are in seconds; FERROWARP_MATMUL_TYPES and FERROWARP_ATTENTION_TYPES are lists such as bf16,f16,
# FERROWARP_MATMUL_PEERS one such as cublaslt,compile, and
# FERROWARP_MATMUL_SHAPES and FERROWARP_ATTENTION_SHAPES regular expressions such as '^4096x'; FERROWARP_ATTENTION is a part of the ids of
# its bench, such as 4x4096x16x16x128; FERROWARP_SOFTMAX and
# FERROWARP_MLP are regular expressions for the ids of the benches, such as 'softmax/.*/(f32|bf16)/' and mlp/fused;
# FERROWARP_PROFILE and FERROWARP_MISSED take the bench ids to profile, without `softmax/` before them.
#
# What the pages of softmax and training need, in calls of less than five minutes each on an H200:
# export FERROWARP_BENCH_SHAPES=some FERROWARP_SOFTMAX='softmax/.*/(f32|bf16)/'
# bash run.sh OUT1 bench timelines
# FERROWARP_PEERS_BUDGET=170 FERROWARP_COMPILE_BUDGET=90 bash run.sh OUT2 peers peers-compile
# FERROWARP_MLP_PEERS_BUDGET=100 bash run.sh OUT3 mlp mlp-peers missed
# cargo xtask report softmax --ours OUT1/softmax.json --peers OUT2/peers.json --peers OUT2/peers-compile.json --profile OUT3/missed.txt
# cargo xtask report mlp --ours OUT3/mlp.json --peers OUT3/mnist-peers.json
# cargo xtask report timelines --merge OUT1
#
# What the page of matrix multiplication needs; the third run adds torch.compile, which tunes each shape for long:
# FERROWARP_MATMUL_TYPES=bf16,f16 bash run.sh OUT4 matmul-peers
# FERROWARP_MATMUL_TYPES=tf32,f32 bash run.sh OUT5 matmul-peers
# FERROWARP_MATMUL_TYPES=bf16 FERROWARP_MATMUL_PEERS=cublaslt,compile FERROWARP_MATMUL_SHAPES=4096 bash run.sh OUT6 matmul-peers
# cargo xtask report matmul --runs OUT6/matmul-peers.json --runs OUT4/matmul-peers.json --runs OUT5/matmul-peers.json
#
# What the page of attention's ladder needs:
# FERROWARP_ATTENTION_TYPES=bf16 FERROWARP_ATTENTION_SHAPES='^4x4096x16x16x128$' bash run.sh OUT7 attention-peers
# cargo xtask report attention --ladder OUT7/attention-peers.json
#
# What the page of several GPUs needs, on a machine with two or more; `collective` also works with one:
# bash run.sh OUT8 ranks collective collective-peers
# NCCL is that of python3's PyTorch, unless FERROWARP_NCCL names another one. FERROWARP_COLLECTIVE is a part of ids such as
# all_reduce/f32/1024.
#
# QuACK is timed where python3 finds it, and else named as missing. It comes by `pip install 'quack-kernels[cu13]'`; onto a
# machine without a network as wheels, of the packages that it and nvidia-cutlass-dsl[cu13] require, but no others of CUDA:
# pip install --no-index --no-deps --target DIR *.whl
# export PYTHONPATH=DIR:DIR/nvidia_cutlass_dsl/dsl_packages
#
# A failed part does not stop the rest. OUTPUT_FOLDER gets summary.txt, which grows as the parts end, logs.txt with
# what they printed, the JSON of benches, peers and faults, and the metrics and the model of the training.
set -u
cd "$(dirname "$0")"
out=${1:?usage: bash run.sh OUTPUT_FOLDER [STEP...]}
shift
steps=${*:-check repeat train bench peers peers-compile missed matmul matmul-peers attention attention-peers norm norm-peers axis axis-peers random accuracy collective collective-peers ranks mlp mlp-peers timelines ladder gallery gallery-peers gallery-counts roofline faults profile}
for step in $steps; do
    case $step in
        check | repeat | train | bench | peers | peers-compile | missed | mlp | mlp-peers | ladder | faults) ;;
        gallery | gallery-peers | gallery-counts | roofline | profile | timelines | matmul | matmul-peers) ;;
        attention | attention-peers | norm | norm-peers | axis | axis-peers | random | accuracy | collective | collective-peers | ranks) ;;
        *)
            echo "$step is no step; bash run.sh OUTPUT_FOLDER runs all that the head of the script names" >&2
            exit 2
            ;;
    esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export FERROWARP_PTX=$PWD
FERROWARP_COMMIT=$(cat COMMIT)
export FERROWARP_COMMIT
failed=0

# Runs one part: its output into logs.txt, a line with its last one into summary.txt.
part() {
    local name=$1
    shift
    local start=$SECONDS
    "$@" >"$scratch/$name.log" 2>&1
    local status=$?
    [ "$status" = 0 ] || failed=1
    {
        echo "==== $name: $*"
        cat "$scratch/$name.log"
    } >>"$out/logs.txt"
    printf '%-24s exit %-4s %4s s   %s\n' "$name" "$status" $((SECONDS - start)) \
        "$(tail -n 1 "$scratch/$name.log")" | tee -a "$out/summary.txt"
}

check() {
    part self-check ./self-check --device cuda
    # Programs written for Rust-CUDA's cust.
    part cust-vecadd ./cust-vecadd
    part cust-host-api ./cust-host-api
    # The same kernels, made by LLVM's own back end.
    FERROWARP_PTX=$PWD/ptx-llvm part self-check-llvm ./self-check --device cuda
    # The fault check kills its context on purpose, which a sanitizer would report.
    for tool in memcheck initcheck; do
        sanitize "$tool"
    done
    # It reports diverged warps wherever a cluster of 16 blocks starts after another has ended, in a kernel too that
    # does no more than __syncthreads: as many clusters as run at once, then.
    sanitize synccheck --most-rows 8
    # Minutes, where the others take seconds.
    sanitize racecheck
}

# Other processes have other contexts, so the kernels of the two take turns.
repeat() {
    local other
    CRITERION_HOME=$scratch/other ./bench-matmul --bench bf16/4096x >"$scratch/other.log" 2>&1 &
    other=$!
    for operation in attention matmul; do
        part "repeat-$operation" ./self-check --device cuda --only "$operation" --runs 100
    done
    kill "$other"
}

sanitize() {
    local tool=$1
    shift
    part "$tool" compute-sanitizer --tool "$tool" --error-exitcode 3 ./self-check --device cuda --every 2 --no-fault-checks --no-soil "$@"
}

train() {
    for pipeline in fused naive; do
        part "train-$pipeline" ./train-mnist --device cuda --data data --pipeline "$pipeline" \
            --metrics "$out/train-$pipeline.jsonl" --save "$scratch/$pipeline.safetensors"
    done
    # The same seed twice gives the same weights.
    part train-again ./train-mnist --device cuda --data data --save "$scratch/again.safetensors"
    part same-weights cmp "$scratch/fused.safetensors" "$scratch/again.safetensors"
    part train-cpu ./train-mnist --device cpu --data data --metrics "$out/train-cpu.jsonl"
    part predict ./predict --device cuda --data data --model "$scratch/fused.safetensors" 0 1 2
    cp "$scratch/fused.safetensors" "$out/"
}

bench() {
    CRITERION_HOME=$scratch/criterion part bench-softmax ./bench-softmax --bench "${FERROWARP_SOFTMAX:-softmax}"
    cp "$scratch/criterion/softmax.json" "$out/"
}

peers() {
    part peers-softmax python3 peers_softmax.py --out "$out/peers.json" \
        --peers clone,eager,flashinfer,triton,quack --shapes "${FERROWARP_BENCH_SHAPES:-all}" \
        --budget "${FERROWARP_PEERS_BUDGET:-360}"
}

peers-compile() {
    part peers-compile python3 peers_softmax.py --out "$out/peers-compile.json" --peers compile \
        --shapes "${FERROWARP_BENCH_SHAPES:-all}" --budget "${FERROWARP_COMPILE_BUDGET:-240}"
}

# One launch of each kernel, ours and QuACK's, with a cold cache and at the clocks that programs have.
missed() {
    local id metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,launch__registers_per_thread
    local points="softmax/bf16/4096x1280 softmax/bf16/4096x1536 softmax/bf16/131072x128 softmax/bf16/8192x32768"
    points="$points backward/f32/8192x32768 backward/f32/64x32000 backward/bf16/4096x12672 backward/bf16/131072x1024"
    points="$points backward/bf16/64x32000 cross_entropy/f32/4096x256 cross_entropy/f32/64x32000"
    points="$points cross_entropy/bf16/4096x12672 cross_entropy/bf16/64x32000"
    points=${FERROWARP_MISSED:-$points}
    metrics=$metrics,launch__block_size,launch__grid_size,launch__cluster_size,smsp__inst_executed.sum
    metrics=$metrics,sm__warps_active.avg.pct_of_peak_sustained_active,sm__cycles_active.avg,sm__cycles_elapsed.max
    metrics=$metrics,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
    metrics=$metrics,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio
    local ncu=(ncu --csv --page raw --print-units base --clock-control none --metrics "$metrics")
    sed -n 1,3p "$out/summary.txt" >"$out/missed.txt"
    part missed-quack "${ncu[@]}" --profile-from-start off --log-file "$scratch/quack.csv" \
        python3 peers_softmax.py --profile "$points"
    { echo "==== quack $points" && cat "$scratch/quack.csv"; } >>"$out/missed.txt"
    for id in $points; do
        CRITERION_HOME=$scratch/criterion FERROWARP_BENCH_SHAPES=all part "missed-${id//\//-}" "${ncu[@]}" \
            --kernel-name "regex:softmax|cross_entropy|backward" --launch-count 1 --log-file "$scratch/ours.csv" \
            ./bench-softmax --bench "softmax/$id\$" --test
        { echo "==== ours $id" && cat "$scratch/ours.csv"; } >>"$out/missed.txt"
    done
}

matmul() {
    CRITERION_HOME=$scratch/criterion part bench-matmul ./bench-matmul --bench
    cp "$scratch/criterion/matmul.json" "$out/"
}

matmul-peers() {
    part peers-matmul python3 peers_matmul.py --out "$out/matmul-peers.json" --ours ./bench-matmul \
        --types "${FERROWARP_MATMUL_TYPES:-bf16,f16,tf32,f32}" --shapes "${FERROWARP_MATMUL_SHAPES:-}" \
        --peers "${FERROWARP_MATMUL_PEERS:-cublaslt,torch,triton,copy}" --budget "${FERROWARP_MATMUL_BUDGET:-540}"
}

attention() {
    CRITERION_HOME=$scratch/criterion part bench-attention ./bench-attention --bench "${FERROWARP_ATTENTION:-attention}"
    cp "$scratch/criterion/attention.json" "$out/"
}

attention-peers() {
    part peers-attention python3 peers_attention.py --out "$out/attention-peers.json" --ours ./bench-attention \
        --types "${FERROWARP_ATTENTION_TYPES:-bf16,f16}" --shapes "${FERROWARP_ATTENTION_SHAPES:-}" \
        --budget "${FERROWARP_ATTENTION_BUDGET:-540}"
}

norm() {
    CRITERION_HOME=$scratch/criterion part bench-norm ./bench-norm --bench
    cp "$scratch/criterion/norm.json" "$out/"
}

norm-peers() {
    part peers-norm python3 peers_norm.py --out "$out/norm-peers.json" --ours ./bench-norm \
        --types "${FERROWARP_NORM_TYPES:-bf16,f32}" --norms "${FERROWARP_NORMS:-}" --peers "${FERROWARP_NORM_PEERS:-torch,quack,copy}" \
        --budget "${FERROWARP_NORM_BUDGET:-540}"
}

axis() {
    CRITERION_HOME=$scratch/criterion part bench-axis ./bench-axis --bench
    cp "$scratch/criterion/axis.json" "$out/"
}

axis-peers() {
    part peers-axis python3 peers_axis.py --out "$out/axis-peers.json" --ours ./bench-axis --types "${FERROWARP_AXIS_TYPES:-bf16,f32}" \
        --operations "${FERROWARP_AXIS:-}" --peers "${FERROWARP_AXIS_PEERS:-torch,compile,copy}" --budget "${FERROWARP_AXIS_BUDGET:-540}"
}

random() {
    part bench-random ./bench-random --bench --seed "${FERROWARP_SEED:-1}"
    part peers-random python3 peers_random.py --out "$out/random.json" --ours ./bench-random --seed "${FERROWARP_SEED:-1}" \
        --problems "${FERROWARP_PROBLEMS:-300}" --budget "${FERROWARP_RANDOM_BUDGET:-540}"
}

accuracy() {
    part accuracy ./self-check --device cuda random --problems 30000 --json "$out/accuracy.json"
    part peers-accuracy python3 peers_accuracy.py --out "$out/accuracy-peers.json"
}

# With multicast in the NVLink switches, which some virtual machines lack, NCCL fails there.
collective() {
    NCCL_NVLS_ENABLE=0 FERROWARP_NCCL=${FERROWARP_NCCL:-$(nccl)} CRITERION_HOME=$scratch/criterion \
        part bench-collective ./bench-collective --bench "${FERROWARP_COLLECTIVE:-collective}"
    cp "$scratch/criterion/collective.json" "$out/"
}

collective-peers() {
    NCCL_NVLS_ENABLE=0 part peers-collective python3 peers_collective.py --out "$out/collective-peers.json"
}

# torchrun and --gpus give the same weights, and so does a run whose processes are killed at ten moments.
ranks() {
    if [ "$(nvidia-smi --list-gpus | wc -l)" -lt 2 ]; then
        part ranks echo "needs two GPUs: nothing was run"
        return
    fi
    export NCCL_NVLS_ENABLE=0 FERROWARP_NCCL=${FERROWARP_NCCL:-$(nccl)}
    local kill run=(./train-mnist --device cuda --data data --epochs "${FERROWARP_RANKS_EPOCHS:-40}")
    part ranks-whole "${run[@]}" --gpus 2 --save "$scratch/whole.safetensors"
    part ranks-torchrun python3 -m torch.distributed.run --standalone --nproc-per-node 2 --no-python \
        "${run[@]}" --save "$scratch/torchrun.safetensors"
    part ranks-same-weights cmp "$scratch/whole.safetensors" "$scratch/torchrun.safetensors"
    for kill in 1 2 3 4 5 6 7 8 9 10; do
        part "ranks-kill-$kill" kill_rank "${run[@]}"
    done
    part ranks-resumed "${run[@]}" --gpus 2 --checkpoint "$scratch/kills" --resume "$scratch/kills" \
        --save "$scratch/resumed.safetensors"
    part ranks-same-bits cmp "$scratch/whole.safetensors" "$scratch/resumed.safetensors"
}

# Starts two ranks, or goes on with their newest checkpoint, and kills one within a second of the next checkpoint. The other one must
# end with status 1 and name the killed one, within 15 s.
kill_rank() {
    local rank victim=$((RANDOM % 2)) delay=0.$((RANDOM % 10))$((RANDOM % 10)) folder=$scratch/kills pids=() before after status
    local flags=(--checkpoint "$folder" --checkpoint-every 100)
    [ ! -e "$folder" ] || flags+=(--resume "$folder")
    touch "$scratch/begun"
    for rank in 0 1; do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 FERROWARP_COLLECTIVE_PORT=29777 \
            "$@" "${flags[@]}" >"$scratch/rank-$rank.log" 2>&1 &
        pids+=($!)
    done
    for _ in $(seq 600); do
        [ -n "$(find "$folder" -name '*.checkpoint' -newer "$scratch/begun" 2>/dev/null)" ] && break
        sleep 0.1
    done
    sleep "$delay"
    kill -9 "${pids[$victim]}" || { cat "$scratch"/rank-*.log && return 1; }
    before=$(date +%s%N)
    wait "${pids[1 - victim]}"
    status=$?
    after=$(date +%s%N)
    cat "$scratch/rank-$((1 - victim)).log"
    echo "rank $victim was killed $delay s after a checkpoint; the other ended with status $status after $(((after - before) / 1000000)) ms"
    [ "$status" = 1 ] && [ $((after - before)) -lt 15000000000 ] && grep -q "rank $victim" "$scratch/rank-$((1 - victim)).log"
}

# The path of the NCCL that comes with PyTorch; the loader's search path finds another one where there is none.
nccl() {
    python3 -c '
import pathlib, sys
found = [path for folder in sys.path for path in pathlib.Path(folder or ".").glob("nvidia/nccl/lib/libnccl.so.2")]
print(found[0] if found else "libnccl.so.2")
'
}

mlp() {
    CRITERION_HOME=$scratch/criterion FERROWARP_BENCH_DATA=$PWD/data part bench-mlp ./bench-mlp --bench "${FERROWARP_MLP:-mlp}"
    cp "$scratch/criterion/mlp.json" "$out/"
}

mlp-peers() {
    part peers-mnist python3 peers_mnist.py --out "$out/mnist-peers.json" --data data \
        --budget "${FERROWARP_MLP_PEERS_BUDGET:-100}"
}

gallery() {
    # The words of the variable are lessons.
    # shellcheck disable=SC2086
    part gallery ./gallery ${FERROWARP_LESSONS:-} --device cuda --out "$out/gallery.json"
}

gallery-peers() {
    part peers-gallery python3 peers_gallery.py --out "$out/gallery-peers.json" --ours "$out/gallery.json" \
        --budget "${FERROWARP_GALLERY_PEERS_BUDGET:-180}"
}

gallery-counts() {
    local metrics=l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
    metrics=$metrics,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
    metrics=$metrics,smsp__sass_branch_targets_threads_divergent.sum
    part gallery-counts ncu --csv --page raw --clock-control none --metrics "$metrics" \
        --log-file "$out/gallery-ncu.csv" ./gallery --device cuda --once --out "$scratch/once.json"
}

roofline() {
    part roofline ./gallery --device cuda --roofline --out "$out/roofline.json"
}

# What runs when, on each rung.
timelines() {
    local pipeline
    for pipeline in naive deferred overlapped fused graph resident; do
        part "timeline-$pipeline" ./train-mnist --device cuda --data data --epochs 2 --pipeline "$pipeline" \
            --timeline "$out/$pipeline.svg"
        echo "<!-- commit $FERROWARP_COMMIT, date $(date -u +%Y-%m-%d) -->" >>"$out/$pipeline.svg"
    done
}

# Five seeds at the settings that accuracies are compared at, and what each kernel takes.
ladder() {
    local pipeline precision
    for pipeline in naive deferred overlapped fused graph resident; do
        seeds "$pipeline" --pipeline "$pipeline"
        part "kernels-$pipeline" ./train-mnist --device cuda --data data --epochs 1 --pipeline "$pipeline" --profile
    done
    for precision in tf32 bf16 f16; do
        seeds "graph-$precision" --pipeline graph --precision "$precision"
    done
    seeds resident-f16 --pipeline resident --precision f16
    part record ./train-mnist --device cuda --data data --epochs 2 --target-accuracy 98 --batch-size 56 --lr 0.8 \
        --lr-schedule trapezoid --lr-warmup 0.1 --label-smoothing 0.1 --seeds 1..5
    grep average "$scratch/record.log" | tee -a "$out/summary.txt"
}

seeds() {
    local name=seeds-$1
    shift
    part "$name" ./train-mnist --device cuda --data data --epochs 10 --lr 0.1 --lr-schedule constant --drop-last \
        --seeds 1..5 "$@"
    grep average "$scratch/$name.log" | tee -a "$out/summary.txt"
}

faults() {
    part faults ./self-check --device cuda faults --json "$out/faults.json"
    # The faults stay in their processes: the GPU goes on.
    part after-faults ./self-check --device cuda --only relu_forward
}

# One launch of each, at the clocks that Nsight Compute holds the GPU at.
profile() {
    local id metrics=dram__bytes_read.sum,dram__bytes_write.sum,sm__cycles_active.avg,sm__cycles_active.min
    metrics=$metrics,sm__cycles_active.max,sm__cycles_elapsed.max
    sed -n 1,3p "$out/summary.txt" >"$out/profile.txt"
    for id in ${FERROWARP_PROFILE:-softmax/bf16/512x262144 softmax/bf16/8192x16384}; do
        CRITERION_HOME=$scratch/criterion part "profile-${id//\//-}" ncu --kernel-name regex:softmax --launch-count 1 \
            --apply-rules no --section LaunchStats --section Occupancy --section SpeedOfLight --section WarpStateStats \
            --metrics "$metrics" ./bench-softmax --bench "softmax/$id\$"
        { echo "==== $id" && sed -n '/softmax.*Context/,$p' "$scratch/profile-${id//\//-}.log"; } >>"$out/profile.txt"
    done
}

: >"$out/logs.txt"
{
    echo "$(date -u +%Y-%m-%d), commit $FERROWARP_COMMIT"
    nvidia-smi --query-gpu=name,driver_version,compute_cap,clocks.sm,clocks.mem --format=csv 2>&1
} | tee "$out/summary.txt"
for step in $steps; do
    "$step"
done
for told in faults train-fused; do
    if [ -f "$scratch/$told.log" ]; then
        { echo && cat "$scratch/$told.log"; } | tee -a "$out/summary.txt"
    fi
done
exit "$failed"
