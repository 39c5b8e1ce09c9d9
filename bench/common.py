"""What the scripts that measure have in common: the build, the programs of bench/programs, `warpline-bench` and its links."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "e2e"))
import harness  # noqa: E402

BENCH = harness.BUILD / "bin" / "warpline-bench"
DRY = {"SOFTGPU_EXECUTE": "0"}  # kernels are accepted and not computed


def build(name):
    """The binary of bench/programs/NAME.cu, made anew. Needs nvcc."""
    binary = harness.BUILD / "bench" / name
    binary.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([harness.cuda_root() / "bin" / "nvcc", "-O2", "-std=c++17", "-o", binary, HERE / "programs" / f"{name}.cu"], check=True)
    return binary


@contextlib.contextmanager
def link(server, bits_per_second, round_trip):
    """`warpline-bench link` before a server: what programs say instead of the server's address."""
    command = [BENCH, "link", "--to", server, "--rate", str(bits_per_second / 1e6), "--rtt", str(round_trip * 1e3)]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            if "WARPLINE_SERVERS=" not in line:
                sys.exit(process.wait())
            yield line.strip().rpartition("WARPLINE_SERVERS=")[2]
        finally:
            process.terminate()


def through(server, address):
    """The server, for harness.run(), as programs reach it at another address: that of a link."""
    return types.SimpleNamespace(environment=lambda: {**server.environment(), "WARPLINE_SERVERS": address})


def figures(*arguments, environment=None):
    """What `warpline-bench` measures: {(case, metric): {"unit", "min", "median", "max"}}. Ends the script if it fails."""
    done = subprocess.run([str(a) for a in (BENCH, *arguments, "--json")], env={**os.environ, **(environment or {})}, capture_output=True,
                          text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    lines = map(json.loads, done.stdout.splitlines())
    return {(line.pop("case"), line.pop("metric")): line for line in lines}


def slow_link_figures(cases, rate, round_trip, runs):
    """Cases through a link of so many bits a second and a round trip of so many seconds, on a dry device."""
    with harness.Server(environment=DRY) as server, link(server.address, rate, round_trip) as address:
        return figures("--inside", "--cases", cases, "--runs", runs,
                       environment={**server.environment(), "WARPLINE_SERVERS": address, "LD_LIBRARY_PATH": str(harness.CLIENT_LIB)})
