"""Contenders that take turns on a GPU, whose clock depends on what ran before.

Each contender of a problem is timed once a round, and the medians of the rounds are compared. Ours are timed by a server of our bench,
the others as timing.py describes, by CUDA graphs over sets that leave the cache cold. Clocks and power are those that nvidia-smi
reports after the last rounds.

After some errors a process can use the GPU no more. The script then notes which contender it was, and starts anew without it.
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

import timing

ROUNDS = 9


def words(shape):
    return "x".join(str(extent) for extent in shape)


def parse(doc, types, peers, shapes, flags=(), default_types=None, default_peers=None):
    """The command line of a script with these types and peers. `shapes` are the words of its shapes, and `flags` are further flags:
    name, default and help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--ours", type=pathlib.Path, help="our bench, such as ./bench-matmul; without it only the peers")
    parser.add_argument("--types", default=",".join(default_types or types), help=f"of {', '.join(types)}")
    parser.add_argument("--shapes", default="", help=f"a regular expression for shapes such as {shapes[0].split()[-1]}")
    parser.add_argument("--peers", default=",".join(default_peers or peers), help=f"of {', '.join(peers)}")
    for name, default, told in flags:
        parser.add_argument(name, default=default, help=told)
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no shape is begun")
    parser.add_argument("--resume", action="store_true", help="go on with what the file has")
    parser.add_argument("--list-shapes", action="store_true")
    options = parser.parse_args()
    if options.list_shapes:
        print("\n".join(shapes))
        sys.exit()
    if not options.out:
        parser.error("--out is missing")
    for name, known in (("types", types), ("peers", peers)):
        given = getattr(options, name).split(",")
        setattr(options, name, given)
        if unknown := set(given) - set(known):
            parser.error(f"unknown {name}: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    return options


def has(expression, text):
    return re.search(expression, text) is not None


class Server:
    """Our bench, which prepares a problem and times it when it is asked to."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request, default=None):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = line.strip() or (default if line else None)
        if answer is None or answer.startswith("error"):
            raise RuntimeError(answer or "our bench ended")
        return answer

    def end(self):
        self.process.kill()
        self.process.wait()


class Ours:
    """A problem that the server has prepared, as `words` ask for it."""

    def __init__(self, server, name, words):
        self.server, self.name = server, name
        error, _, self.kernels = server.ask(f"prepare {name} {words}").partition(" ")
        self.error = float(error)

    def time(self):
        return float(self.server.ask(f"time {self.name}"))

    def others(self):
        """Microseconds and kernels of the others that can do the problem."""
        found = [other.partition(" ") for other in self.server.ask(f"others {self.name}", "").split("\t")]
        return [[float(seconds) * 1e6, kernels] for seconds, _, kernels in found if seconds]

    def free(self):
        self.server.ask(f"free {self.name}")


class Peer:
    """A function of the sets, recorded as a graph."""

    kernels = None

    def __init__(self, timer, sets, function):
        torch = timer.torch
        self.function = function
        self.timer, self.sets = timer, sets
        torch.cuda.synchronize()
        with torch.cuda.stream(timer.stream):
            for given in sets[:3]:
                function(*given)
        torch.cuda.synchronize()
        run = lambda i: function(*sets[i])
        self.graph, self.rounds = timer.record(run, len(sets), 1), 1
        seconds = timer.replay(self.graph, 1)
        self.rounds = max(1, min(round(timing.GRAPH_SECONDS / seconds), timing.MOST_LAUNCHES // len(sets)))
        if self.rounds > 1:
            self.graph = timer.record(run, len(sets), self.rounds)
            seconds = timer.replay(self.graph, 1)
        self.replays = max(1, round(timing.BATCH_SECONDS / seconds))

    def time(self):
        return self.timer.replay(self.graph, self.replays) / (self.replays * self.rounds * len(self.sets))

    def free(self):
        self.graph = None


class Lost(Exception):
    """A contender's error after which the process can use the GPU no more."""

    def __init__(self, name, error):
        super().__init__(timing.told(error))
        self.name = name


def check(timer, name, error):
    """Raises `Lost` if the GPU cannot be used after a contender's error."""
    try:
        timer.torch.cuda.synchronize()
    except Exception:
        raise Lost(name, error) from error


def clock_and_power():
    found = timing.printed("nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0")
    try:
        return [float(number) for number in (found or "").split(",")]
    except ValueError:
        return []


def contest(timer, makers, rounds=ROUNDS):
    """What each of the contenders gave, by name. `makers` yields names and functions that make contenders. With fewer rounds it does not
    read clocks."""
    contenders, results = {}, {}
    for name, make in makers:
        try:
            contenders[name] = make()
        except Exception as error:
            check(timer, name, error)
            results[name] = {"error": timing.told(error), "samples": 0, "sets": 0}
    times = {name: [] for name in contenders}
    readings = {name: [] for name in contenders}
    order = random.Random(42)
    for turn in range(rounds):
        # What runs before a contender sets its clock, so that each round has an order of its own.
        for name, contender in order.sample(list(contenders.items()), len(contenders)):
            try:
                times[name].append(contender.time())
            except Exception as error:
                check(timer, name, error)
                raise
            # The program that reads them takes longer than a turn.
            if turn >= ROUNDS - 2:
                readings[name].append(clock_and_power())
    sets = next((len(contender.sets) for contender in contenders.values() if isinstance(contender, Peer)), 0)
    for name, contender in contenders.items():
        figures = {"microseconds": statistics.median(times[name]) * 1e6, "samples": rounds, "sets": sets}
        known = [reading for reading in readings[name] if len(reading) == 2]
        if known:
            figures["clock_and_power"] = [statistics.median(column) for column in zip(*known)]
        if contender.error is not None:
            figures["relative_error"] = contender.error
        if contender.kernels is not None:
            figures["kernels"] = contender.kernels
        results[name] = figures
    fastest = min((results[name]["microseconds"] for name, it in contenders.items() if isinstance(it, Peer)), default=0)
    for name, contender in contenders.items():
        if isinstance(contender, Ours) and results[name]["microseconds"] > fastest > 0:
            others = contender.others()
            results[name] |= {"others": others} if others else {}
        contender.free()
    return results


def run(timer, options, problems, unit="TFLOP/s", rounds=ROUNDS):
    """Times the problems and writes the file. Each has words, entries that all of its results get, the number of its operations
    or bytes, and a function that yields its makers, given the server of our bench or None."""
    server = Server(options.ours.resolve()) if options.ours else None
    results = timer.machine({}, {}) | {"entries": [], "lost": {}, "done": []}
    if options.resume:
        results = {"lost": {}} | json.loads(options.out.read_text())
    start, skipped = time.monotonic(), []
    for words, entry, operations, makers in problems:
        if words in results["done"]:
            continue
        if time.monotonic() - start > options.budget:
            skipped.append(words)
            continue
        lost = results["lost"].setdefault(words, {})
        try:
            found = contest(timer, ((name, make) for name, make in makers(server) if name not in lost), rounds)
        except Lost as error:
            lost[error.name] = str(error)
            timing.write(options.out, results)
            print(f"{words} {error.name} {error}; starting anew without it", flush=True)
            if server:
                server.end()
            rest = options.budget - (time.monotonic() - start)
            os.execv(sys.executable, [sys.executable, *sys.argv, "--resume", "--budget", str(rest)])
        except Exception as error:
            found = {"all": {"error": timing.told(error)}}
        found |= {name: {"error": error} for name, error in lost.items()}
        results["entries"] += [{"name": name} | entry | figures for name, figures in found.items()]
        results["done"].append(words)
        timing.write(options.out, results)
        for name, figures in found.items():
            rate = operations / figures.get("microseconds", float("inf")) / (1e6 if unit == "TFLOP/s" else 1e3)
            told = figures.get("error") or f"{figures['microseconds']:10.2f} us {rate:8.1f} {unit} {figures.get('clock_and_power', '')}"
            print(f"{words:32} {name:10} {told}", flush=True)
        timer.forget()
    del results["lost"]
    results["skipped"] = skipped
    timing.write(options.out, results)
    print(f"{len(results['entries'])} entries, {len(skipped)} shapes skipped")
