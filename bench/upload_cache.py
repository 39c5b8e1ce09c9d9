#!/usr/bin/env python3
"""What a second run sends, and how long it takes, of a program that uploads the same as the first one (B7): over an emulated link of
1 Gb/s, unless told otherwise, beside the same without the cache in the same run.

The link is `warpline-bench link` (docs/performance.md#the-link-emulator), the program tests/programs/uploads.cu, which compares all
that has arrived. Needs a build (build/release; WARPLINE_BUILD names another one) and nvcc."""

import argparse
import re
import statistics
import sys

from common import DRY, harness, link, through


def upload(program, server, mebibytes, piece, seed, extra=None):
    """Seconds until the device had all, and the program's statistics."""
    done = harness.run([program.binary, mebibytes, piece, seed], "remote", server, extra=extra, seconds=300)
    if done.code != 0 or "verified" not in done.stdout:
        sys.exit(done.stdout + done.stderr)
    return float(re.search(r"uploaded in ([0-9.]+) s", done.stdout)[1]), done.stats


def measure(rate, round_trip, mebibytes, piece, runs):
    """(seconds, statistics) of each run without the cache, of first ones and of second ones."""
    program = harness.programs()["uploads"]
    harness.build_program(program)
    kinds = {"without": [], "first": [], "second": []}
    with harness.Server(environment={**DRY, "WARPLINE_UPLOAD_CACHE": "8GiB"}) as server:
        with link(server.address, rate, round_trip) as address:
            for seed in range(1, runs + 1):
                for kind, extra in (("without", {"WARPLINE_DISABLE": "cache"}), ("first", None), ("second", None)):
                    kinds[kind].append(upload(program, through(server, address), mebibytes, piece, seed, extra))
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1e9, help="bits a second, each way")
    parser.add_argument("--round-trip", type=float, default=0.0005, help="seconds")
    parser.add_argument("--mebibytes", type=int, default=256)
    parser.add_argument("--piece", type=int, default=0, help="kibibytes of each copy; 0: all in one")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    piece = arguments.piece or arguments.mebibytes << 10
    kinds = measure(arguments.rate, arguments.round_trip, arguments.mebibytes, piece, arguments.runs)
    print(f"{arguments.mebibytes} MiB in pieces of {piece} KiB, {arguments.rate / 1e9:g} Gb/s, {arguments.round_trip * 1e3:g} ms there and "
          f"back; median of {arguments.runs} runs (least to greatest)")
    base = statistics.median(seconds for seconds, _ in kinds["without"])
    for kind, runs in kinds.items():
        seconds = sorted(seconds for seconds, _ in runs)
        sent = statistics.median(stats["bytes_sent"] for _, stats in runs)
        rate = statistics.median(stats["upload_cache"]["hit_rate"] or 0 for _, stats in runs)
        print(f"{kind:8} {statistics.median(seconds):7.3f} s ({seconds[0]:.3f} to {seconds[-1]:.3f})  {statistics.median(seconds) / base:6.1%} of the "
              f"time  {int(sent):12} bytes sent, {sent / (arguments.mebibytes << 20):7.2%}  hit rate {rate:.3f}")


if __name__ == "__main__":
    main()
