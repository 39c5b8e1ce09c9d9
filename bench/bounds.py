#!/usr/bin/env python3
"""Whether Warpline is as fast as it wants to be: every figure that has a bound (B2, B4, B7, B8, A10), measured now, beside it.

All through TLS with certificates on both sides, unless it says otherwise, on a software GPU that computes nothing; medians of --runs.
Figures are of this machine: where others use it, waits and many programs at once are not worth reading. Ends with 1 if a bound is not
met. Needs a build (build/release; WARPLINE_BUILD names another one) and nvcc; takes a quarter of an hour."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import upload_cache
from common import DRY, build, figures, harness, link, slow_link_figures, through

GIGABIT = 1e9
MISSED = []


def tell(title, values, bound, unit, more=False):
    """One line: the median of the values, all of them, and the bound: at most that, or at least."""
    value = statistics.median(values)
    met = value >= bound if more else value <= bound
    if not met:
        MISSED.append(title)
    runs = " ".join(f"{one:.3g}" for one in values) if len(values) > 1 else ""
    print(f"{title:62} {value:9.4g} {unit:6} {'≥' if more else '≤'} {bound:<6g} {'' if met else 'NOT MET':8} {runs}", flush=True)


def program(server, binary, *words):
    done = harness.run([binary, *words], "remote", server, seconds=300)
    if done.code != 0:
        sys.exit(done.stdout + done.stderr)
    return done


def rested(server):
    """Returns when the server's workers are ready: a program finds one that is warm."""
    def ready():
        answer = harness.warpline("servers", "--json", environment=server.environment())
        return json.loads(answer.stdout)[0]["workers_ready"] >= 2
    if not harness.until(ready):
        sys.exit("the server has no workers ready")


def waits(runs):
    """A wait beside a ping-pong of TLS alone, both asleep meanwhile, and then a wait that looks for its answer first."""
    arguments = ("--mode", "--local-tcp", "--cases", "sync,d2h_4b,tls_pingpong", "--runs", runs)
    asleep, looking = figures(*arguments, environment={"WARPLINE_DISABLE": "spin"}), figures(*arguments)
    ping_pong = asleep["tls_pingpong", "median"]["median"]
    for case, what in (("sync", "cuCtxSynchronize"), ("d2h_4b", "4 bytes from the device")):
        tell(f"{what}, asleep, of a TLS ping-pong asleep", [asleep[case, "median"]["median"] / ping_pong], 1.2, "")
        tell("    looking, of the same", [looking[case, "median"]["median"] / ping_pong], 1.0, "")


def calls(runs):
    """What calls that nobody waits for cost a program, through libcudart."""
    timed, steps = build("timed_calls"), build("timed_steps")
    with harness.Server(environment=DRY) as server:
        program(server, timed)
        names = {"launch": ("a launch, of 20,000", 0.25), "word_to_device": ("4 bytes to the device", 0.3),
                 "malloc_and_free": ("cudaMalloc and cudaFree", 0.6), "first_kernel": ("from the first call to the first kernel's end", 10e3)}
        found = []
        for _ in range(runs):
            rested(server)
            found.append(dict(line.split() for line in program(server, timed).stdout.splitlines()))
        for name, (title, bound) in names.items():
            tell(title, [float(one[name]) for one in found], bound, "us")
        for launches in (20_000, 1_000_000):
            storms = [program(server, steps, "storm", launches) for _ in range(runs)]
            times = [[float(word) for word in storm.stdout.split()] for storm in storms]
            tell(f"a launch with a parameter that changes, of {launches:,}", [one[0] for one in times], 250, "ns")
            tell("    the same, executed", [one[1] for one in times], 1500, "ns")
            tell("    bytes that travel for it", [storm.stats["bytes_sent"] / launches for storm in storms], 24, "bytes")


def slow_links(runs):
    """Far servers and slow links."""
    steps = build("timed_steps")
    with harness.Server(environment=DRY) as server, link(server.address, GIGABIT, 0.03) as address:
        took = [float(program(through(server, address), steps, "train", 40).stdout) for _ in range(runs)]
        tell("a step of a training loop at 30 ms, of the round trip", [one / 30 for one in took], 1.1, "")
    wanted = {"weights": ("float weights", 1.2), "zeros": ("zeros", 20), "h2d": ("random bytes", 0.97), "d2h": ("random bytes", 0.97)}
    found = slow_link_figures("weights_h2d,weights_d2h,zeros_h2d,zeros_d2h,h2d_256m,d2h_256m", GIGABIT, 0.0005, runs)
    for (case, metric), figure in found.items():
        if metric == "throughput":
            what, bound = wanted[case.split("_")[0]]
            direction, memory_kind = "to" if "h2d" in case else "from", ", page-locked" if case.endswith("locked") else ""
            title = f"{what} {direction} the device{memory_kind}, of a link of 1 Gb/s"
            tell(title, [figure["median"] * 8e9 / GIGABIT], bound, "", more=True)
    kinds = upload_cache.measure(GIGABIT, 0.0005, 256, 256 << 10, runs)
    first = statistics.median(seconds for seconds, _ in kinds["without"])
    tell("a second upload of the same: time, of one without the cache", [seconds / first for seconds, _ in kinds["second"]], 0.15, "")
    tell("    bytes, of all", [stats["bytes_sent"] / (256 << 20) for _, stats in kinds["second"]], 0.01, "")


def one_machine(runs):
    """Server and program on one machine: shared memory and a Unix socket."""
    copies = "h2d_256m,d2h_256m,h2d_256m_locked,d2h_256m_locked"
    found = figures("--mode", "--local", "--cases", f"{copies},sync", "--runs", runs)
    for case in copies.split(","):
        way = "to" if case.startswith("h2d") else "from"
        memory = "page-locked" if case.endswith("locked") else "pageable"
        tell(f"256 MiB {way} the device, {memory}, of memcpy", [found[case, "of_memcpy"]["median"]], 0.5, "", more=True)
    tell("cuCtxSynchronize, of a ping-pong over a Unix socket", [found["sync", "of_unix"]["median"]], 1.3, "")


@contextlib.contextmanager
def together(server, count, *words):
    """So many programs, all of which have begun and wait for begin()."""
    environment = harness.environment_for("remote", server)
    command = [str(word) for word in (build("timed_steps"), *words)]
    started = [subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        for one in started:
            if one.stdout.readline() != "ready\n":
                sys.exit(f"a program of {count} has ended with {one.wait()}")
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()


def at_once(server, count, *words):
    """What each of so many programs says that begin together."""
    with together(server, count, *words) as started:
        for one in started:
            one.stdin.write("\n")
            one.stdin.flush()
        return [[float(line) for line in one.communicate()[0].split()] for one in started]


def many_programs(runs, seconds=6):
    """Programs beside each other on one server."""
    flags = ("--max-sessions", "80")
    for launches in (1, 200, 1000):
        with harness.Server(environment=DRY, flags=flags) as server:
            ratios = []
            for run in range(runs):
                order = (8, 64) if run % 2 == 0 else (64, 8)
                launched = {count: sum(sum(one[:1]) for one in at_once(server, count, "steps", launches, seconds, "none")) for count in order}
                ratios.append(launched[64] / launched[8])
            tell(f"launches of 64 programs, {launches} and a wait, of those of 8", ratios, 1.0, "", more=True)
    pooled, worst = [], []
    for _ in range(runs):
        with harness.Server(environment=DRY, flags=flags) as server:
            found = [sorted(one[1:]) for one in at_once(server, 8, "steps", 1, seconds, "waits")]
        spread = [one[len(one) * 99 // 100] / statistics.median(one) for one in (*found, sorted(sum(found, [])))]
        worst.append(max(spread[:-1]))
        pooled.append(spread[-1])
    tell("p99 of a wait of 8 programs, of the median of all", pooled, 5, "")
    tell("    of its own median, the program that is worst off", worst, 5, "")


def resident_bytes(pid):
    rollup = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return int(rollup["Rss"].split()[0]) * 1024


def memory(_, sessions=32):
    """What a session takes that does nothing."""
    with harness.Server(environment={**DRY, "WARPLINE_WORKERS_READY": "0"}, flags=("--max-sessions", "80")) as server:
        supervisor = server.process.pid
        children = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children")
        with together(server, 1, "idle"):
            before = resident_bytes(supervisor)
            with together(server, sessions, "idle"):
                each = (resident_bytes(supervisor) - before) / sessions
                workers = [resident_bytes(pid) for pid in children.read_text().split()]
    tell("an idle session, in the supervisor", [each / 1e6], 1, "MB")
    tell("a worker, what it shares and the software GPU included", [statistics.median(workers) / 1e6], 20, "MB")


SECTIONS = {"waits": waits, "calls": calls, "slow_links": slow_links, "one_machine": one_machine, "many_programs": many_programs,
            "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="of each; medians are compared")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="those wanted")
    arguments = parser.parse_args()
    began = time.monotonic()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; medians of {arguments.runs}")
    for name in arguments.sections.split(","):
        print(f"\n{SECTIONS[name].__doc__}")
        SECTIONS[name](arguments.runs)
    print(f"\n{len(MISSED)} bounds not met, {time.monotonic() - began:.0f} s")
    sys.exit(1 if MISSED else 0)


if __name__ == "__main__":
    main()
