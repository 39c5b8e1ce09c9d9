#!/usr/bin/env python3
"""Runs bench/programs/timed_calls.cu over Warpline (TLS with certificates on both sides) and over another remote libcuda, in turn, before
the same dry software GPU, and prints the medians side by side.

Usage: beside.py --library FOLDER [--set NAME=VALUE …] [--runs N] -- SERVER [ARGUMENT …]

FOLDER has the other one's libcuda.so.1; SERVER is its server, which finds the software GPU as its libcuda.so.1; NAME=VALUE is for both,
such as the address. Needs a build (build/release; WARPLINE_BUILD names another one) and nvcc. Nothing of the other one is part of
Warpline: who wants to compare brings it along."""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import DRY, build, harness  # noqa: E402

# What the program prints: its name here, its unit, whether more is better.
FIGURES = {
    "launch": ("a launch, of 20,000 in a row", "µs", False),
    "synchronize": ("cudaDeviceSynchronize, idle", "µs", False),
    "launch_and_synchronize": ("a launch and the wait for it", "µs", False),
    "word_from_device": ("a launch, and 4 bytes from the device", "µs", False),
    "word_to_device": ("4 bytes to the device", "µs", False),
    "malloc_and_free": ("cudaMalloc and cudaFree, 1 MiB", "µs", False),
    "first_kernel": ("from the first call to the first kernel's end", "µs", False),
    "bulk_to_device": ("256 MiB of random bytes to the device", "GB/s", True),
    "bulk_from_device": ("256 MiB of random bytes from the device", "GB/s", True),
}


def measure(binary, environment):
    done = subprocess.run([binary], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


@contextlib.contextmanager
def other_server(command, environment):
    """The other one's server, whose readiness is found out by whether a program can use it."""
    direct = harness.BUILD / "lib" / "warpline" / "direct"
    process = subprocess.Popen(command, env={**os.environ, **DRY, **environment, "LD_LIBRARY_PATH": str(direct)}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def ready(binary, environment):
    """Warms the other side up."""
    return harness.until(lambda: subprocess.run([binary], env={**os.environ, **environment}, capture_output=True).returncode == 0, 60)


def table(ours, theirs):
    print("| what | Warpline, TLS | the other | ratio | without a network |\n|---|---|---|---|---|")
    for name, (title, unit, more) in FIGURES.items():
        here, there, local = (statistics.median(run[name] for run in runs) for runs in (ours["tls"], theirs, ours["direct"]))
        ratio = here / there if more else there / here
        print(f"| {title} | {here:.3g} {unit} | {there:.3g} {unit} | {ratio:.3g} × | {local:.3g} {unit} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, help="the folder of the other libcuda.so.1")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the other program and server")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("server", nargs="+", help="the other server's command")
    arguments = parser.parse_args()
    variables = dict(one.split("=", 1) for one in arguments.set)
    binary = build("timed_calls")
    direct = {**DRY, "LD_LIBRARY_PATH": str(harness.BUILD / "lib" / "warpline" / "direct")}
    other = {**variables, "LD_LIBRARY_PATH": arguments.library}
    ours, theirs = {"tls": [], "direct": []}, []
    with harness.Server(environment=DRY) as server, other_server(arguments.server, variables):
        tls = harness.environment_for("remote", server, {})
        if not ready(binary, other):
            sys.exit("no program can use the other server")
        measure(binary, tls)
        for _ in range(arguments.runs):
            ours["tls"].append(measure(binary, tls))
            theirs.append(measure(binary, other))
            ours["direct"].append(measure(binary, direct))
    print(f"medians of {arguments.runs} runs; load {os.getloadavg()[0]:.1f}")
    table(ours, theirs)


if __name__ == "__main__":
    main()
