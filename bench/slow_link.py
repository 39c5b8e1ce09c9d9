#!/usr/bin/env python3
"""How much of a link's rate large copies reach when it is slow and long: 1 Gb/s and 10 ms there and back, unless told otherwise (B3).

The link is `warpline-bench link` (docs/performance.md#the-link-emulator), the cases are those of `warpline-bench`. Needs a build (build/release; WARPLINE_BUILD names another one)."""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
import harness  # noqa: E402

BENCH = harness.BUILD / "bin" / "warpline-bench"

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1e9, help="bits a second, each way")
    parser.add_argument("--round-trip", type=float, default=0.010, help="seconds")
    parser.add_argument("--cases", default="h2d_256m,d2h_256m,sync")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with harness.Server(environment={"SOFTGPU_EXECUTE": "0"}) as server:
        with link(server.address, arguments.rate, arguments.round_trip) as address:
            environment = {**os.environ, **server.environment(), "WARPLINE_SERVERS": address,
                           "LD_LIBRARY_PATH": str(harness.BUILD / "lib" / "warpline")}
            done = subprocess.run([BENCH, "--inside", "--cases", arguments.cases, "--runs", str(arguments.runs), "--json"],
                                  env=environment, capture_output=True, text=True)
    print(f"{arguments.rate / 1e9:g} Gb/s, {arguments.round_trip * 1e3:g} ms there and back; median of {arguments.runs} runs")
    for line in done.stdout.splitlines():
        figure = json.loads(line)
        if figure["metric"] in ("best_tls", "of_tls"):
            continue  # of this machine, not of the link
        of_link = f"  {figure['median'] * 8e9 / arguments.rate:.3f} of the link" if figure["unit"] == "GB/s" else ""
        print(f"{figure['case']:18} {figure['metric']:10} {figure['median']:10.4g} {figure['unit']}{of_link}")
    if done.returncode != 0:
        sys.exit(done.stderr)


if __name__ == "__main__":
    main()
