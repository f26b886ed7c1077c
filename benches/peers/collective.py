"""Times the all-reduce of torch.distributed on all GPUs of this machine, as our bench times ours.

python3 benches/peers/collective.py --out collective-peers.json [--ranks N]
torchrun --nproc-per-node N benches/peers/collective.py --out collective-peers.json

The first form starts torchrun. Every rank sums f32 in place, 1 KiB to 1 GiB. A time is by events, on the slowest
rank, and the median of 10 batches. `all_reduce` queues one by one; `all_reduce_graph` replays a CUDA graph.
The bandwidth is that of the bus by nccl-tests' definition.
"""

import argparse
import os
import pathlib
import statistics
import sys

import timing

SAMPLES = 10

SIZES = [1 << power for power in range(10, 31, 2)]


def runs(size):
    return 100 if size <= 1 << 20 else 20 if size <= 1 << 26 else 5


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--ranks", type=int, help="GPUs; all of this machine if it is left out")
    parser.add_argument("--list-sizes", action="store_true")
    options = parser.parse_args()
    if options.list_sizes:
        print("\n".join(f"{size} {runs(size)}" for size in SIZES))
        sys.exit()
    if not options.out:
        parser.error("--out is missing")
    return options


def start(options):
    """Runs this script again, as the ranks of torchrun."""
    import torch

    ranks = options.ranks or torch.cuda.device_count()
    if ranks < 2:
        print(f"an all-reduce needs two GPUs, and there are {ranks}: nothing is timed")
        sys.exit()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    os.execv(sys.executable, [*torchrun, *sys.argv])


def seconds(torch, dist, batch, count):
    """The time of one of `count` runs on the slowest rank, for each batch."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        dist.barrier()
        start.record()
        batch()
        end.record()
        end.synchronize()
        slowest = torch.tensor([start.elapsed_time(end) / 1e3], device="cuda", dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        times.append(slowest.item() / count)
    return times


def batch_of(torch, dist, x, count, is_graph):
    def queue():
        for _ in range(count):
            dist.all_reduce(x)

    queue()
    torch.cuda.synchronize()
    if not is_graph:
        return queue
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        queue()
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def main():
    options = parse()
    if "RANK" not in os.environ:
        start(options)
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    ranks, is_first = dist.get_world_size(), dist.get_rank() == 0
    timer = timing.Timer("cuda")
    nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
    results = timer.machine({"nccl": nccl}, {}) | {"entries": []}
    for name, is_graph in (("all_reduce", False), ("all_reduce_graph", True)):
        for size in SIZES:
            x = torch.ones(size // 4, device="cuda", dtype=torch.float32)
            dist.all_reduce(x)
            assert (x == ranks).all().item(), f"a sum of {ranks} ones is not {ranks}"
            x.zero_()
            entry = {"name": name, "dtype": "f32", "ranks": ranks, "problem": str(size), "samples": 0}
            try:
                times = seconds(torch, dist, batch_of(torch, dist, x, runs(size), is_graph), runs(size))
                time = statistics.median(times)
                entry |= {"microseconds": time * 1e6, "samples": len(times)}
                entry["bus_bytes_per_second"] = size * 2 * (ranks - 1) / ranks / time
                told = f"{time * 1e6:12.2f} us {entry['bus_bytes_per_second'] / 1e9:10.2f} GB/s on the bus"
            except Exception as error:
                told = entry["error"] = timing.told(error)
            results["entries"].append(entry)
            if is_first:
                print(f"{name}/f32/{size} on {ranks} {told}", flush=True)
                timing.write(options.out, results)
            if "error" in entry:
                # The ranks may be apart.
                break
            del x
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
