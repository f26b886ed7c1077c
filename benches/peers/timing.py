"""What the peers on a GPU are timed by: device time by events around replays of a CUDA graph, one synchronisation a batch.

One replay goes before the first event; the launches of a graph take sets of buffers in turns, all together at least four
times the level-2 cache and at least two; a graph holds about 2 ms of work; the median of 10 batches.
"""

import gc
import json
import math
import os
import platform
import re
import statistics
import subprocess
import time

SAMPLES = 10
GRAPH_SECONDS = 2e-3
BATCH_SECONDS = 10e-3
MOST_LAUNCHES = 1000
CACHES = 4


def told(error):
    """The error in a line, without the colours of a terminal."""
    words = re.sub(r"\x1b\[[0-9;]*m", "", f"{type(error).__name__}: {error}").split()
    return " ".join(words)[:500]


def write(path, results):
    temporary = path.with_suffix(".json.part")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)


class Timer:
    """The device that the peers run on."""

    def __init__(self, device):
        import torch

        self.torch = torch
        self.device = device
        self.is_cuda = device == "cuda"
        # Graphs are recorded on it. Gradients run on the stream of their forward pass, so that pass belongs here, too.
        self.stream = torch.cuda.Stream() if self.is_cuda else None
        torch.manual_seed(42)

    def machine(self, versions, missing):
        """What a file of figures says of where they were measured."""
        torch = self.torch
        versions = {"torch": torch.__version__, "python": platform.python_version(), "cuda": torch.version.cuda} | versions
        driver = printed("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or "unknown"
        found = {
            "machine": torch.cuda.get_device_name(0) if self.is_cuda else "CPU",
            "driver": driver if self.is_cuda else "none",
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "versions": versions,
            "missing": missing,
        }
        if commit := os.environ.get("FERROWARP_COMMIT"):
            found["commit"] = commit
        return found

    def forget(self):
        """Frees what nobody holds any more, and what a compiler keeps."""
        gc.collect()
        if self.is_cuda:
            self.torch.cuda.synchronize()
            # Memory from the driver takes long.
            if self.torch.cuda.memory_reserved() > self.torch.cuda.get_device_properties(0).total_memory / 8:
                self.torch.cuda.empty_cache()

    def count(self, size):
        """How many sets of so many bytes leave the level-2 cache cold; on the CPU one."""
        if not self.is_cuda:
            return 1
        torch = self.torch
        count = max(2, math.ceil(CACHES * torch.cuda.get_device_properties(0).L2_cache_size / size))
        count = min(count, MOST_LAUNCHES)
        free = torch.cuda.mem_get_info()[0]
        if count * size > free / 3:
            raise MemoryError(f"{count} sets of {size} bytes are over a third of {free} free")
        return count

    def measure(self, function, count, samples=SAMPLES):
        """Times `function(i)`, for i from 0 to count - 1 in turns."""
        if not self.is_cuda:
            function(0)
            return figures([wall_time(lambda: function(0)) for _ in range(samples)], 1, count)
        torch = self.torch
        # Compilers and autotuners run now, and PyTorch wants a warm-up on a stream of its own before it captures.
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                for i in range(min(count, 3)):
                    function(i)
        torch.cuda.synchronize()

        graph = self.record(function, count, 1)
        seconds = self.replay(graph, 1)
        rounds = max(1, min(math.ceil(GRAPH_SECONDS / seconds), MOST_LAUNCHES // count))
        if rounds > 1:
            graph = None
            graph = self.record(function, count, rounds)
            seconds = self.replay(graph, 1)
        replays = max(1, math.ceil(BATCH_SECONDS / seconds))
        times = [self.replay(graph, replays) / replays / (rounds * count) for _ in range(samples)]
        return figures(times, rounds * count, count)

    def measure_without_graph(self, function, count, samples=SAMPLES):
        """As `measure`, launch by launch: with what the host does between them."""
        if not self.is_cuda:
            return self.measure(function, count, samples)
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))

        def seconds(rounds):
            start.record()
            for _ in range(rounds):
                for i in range(count):
                    function(i)
            end.record()
            end.synchronize()
            return max(start.elapsed_time(end), 1e-4) / 1e3

        seconds(1)
        rounds = max(1, math.ceil(BATCH_SECONDS / seconds(1)))
        times = [seconds(rounds) / (rounds * count) for _ in range(samples)]
        return figures(times, rounds * count, count)

    def record(self, function, count, rounds):
        """A graph of rounds over the sets. Results live until their set's next turn, so that they rotate as well."""
        torch = self.torch
        results = [None] * count
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for _ in range(rounds):
                for i in range(count):
                    results[i] = None
                    results[i] = function(i)
        return graph, results

    def replay(self, recorded, replays):
        """Seconds of the replays, without the one that goes before them."""
        graph, _ = recorded
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        return max(start.elapsed_time(end), 1e-4) / 1e3


def figures(times, launches, sets):
    return {
        "microseconds": statistics.median(times) * 1e6,
        "samples": len(times),
        "launches_per_sample": launches,
        "sets": sets,
    }


def wall_time(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def printed(*command):
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
        return lines[0].strip()
    except (OSError, subprocess.CalledProcessError):
        return None
