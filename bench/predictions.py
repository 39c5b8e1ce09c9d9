#!/usr/bin/env python3
"""How exact `warpline analyze` predicts what another link costs (E8): programs of the end-to-end suite are traced without a link and over
emulated ones, in turn, and what is predicted from the first is compared with the second.

The links are `warpline-bench link` (docs/performance.md#the-link-emulator). Needs a build (build/release; WARPLINE_BUILD names another one)
and nvcc."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common import harness, link, through

PROGRAMS = ("vector_add,matmul_shared,launch_burst,copies,streams_events,host_threads,polling,graphs,graph_launches,callbacks,pools,"
            "memory_waits,captures,thrust_cub,atomics,poll_loops:event,poll_loops:stream,poll_loops:times")


class Case:
    """A program of programs.toml, with the first of its arguments there or others."""

    def __init__(self, text):
        name, _, arguments = text.partition(":")
        self.program = harness.programs()[name]
        self.command = [self.program.binary, *(arguments.split() or self.program.args[0])]
        self.name = text.replace(":", " ")
        self.file = self.name.replace(" ", "-")


def traced(case, server, path):
    done = harness.run(case.command, "remote", server, {"WARPLINE_TRACE": str(path)}, seconds=300)
    if done.code != 0:
        sys.exit(f"{case.name}: {done.stdout}{done.stderr}")
    return done.stats


def analyzed(path, *arguments):
    done = subprocess.run([harness.WARPLINE, "analyze", path, "--json", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=PROGRAMS, help="names from programs.toml; NAME:ARGUMENTS for others than the first there")
    parser.add_argument("--links", default="30/1000,5/100", help="round trip in ms / rate in Mb/s, and further ones")
    parser.add_argument("--runs", type=int, default=3, help="of each, in turn; medians are compared")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the traces")
    arguments = parser.parse_args()
    links = [tuple(float(part) for part in text.split("/")) for text in arguments.links.split(",")]
    cases = [Case(text) for text in arguments.programs.split(",")]
    for case in cases:
        harness.build_program(case.program)
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warpline-predictions-")))
        folder.mkdir(parents=True, exist_ok=True)
        server = stack.enter_context(harness.Server())
        servers = []
        for rtt, rate in links:
            address = stack.enter_context(link(server.address, rate * 1e6, rtt / 1e3))
            servers.append(through(server, address))
        print(f"load {os.getloadavg()[0]:.1f}; medians of {arguments.runs}")
        print("| program | waits | here, ms |" + "".join(f" {rtt:g} ms, {rate:g} Mb/s: predicted / measured, ms | off by |"
                                                         for rtt, rate in links))
        print("|---|---|---|" + "---|---|" * len(links))
        far, all_off = 0, []
        for case in cases:
            here, predicted, measured = [], [[] for _ in links], [[] for _ in links]
            for turn in range(arguments.runs):
                path = folder / f"{case.file}-here-{turn}.json"
                waits = traced(case, server, path)["blocking_round_trips"]
                for i, (rtt, rate) in enumerate(links):
                    said = analyzed(path, "--rtt", f"{rtt}ms", "--rate", f"{rate}Mbit")
                    predicted[i].append(said["predictions"][0]["seconds"] * 1e3)
                    there = folder / f"{case.file}-{rtt:g}-{rate:g}-{turn}.json"
                    traced(case, servers[i], there)
                    measured[i].append(analyzed(there)["seconds"] * 1e3)
                here.append(said["seconds"] * 1e3)
            row = f"| `{case.name}` | {waits} | {statistics.median(here):,.0f} |"
            for i in range(len(links)):
                was, is_predicted = statistics.median(measured[i]), statistics.median(predicted[i])
                off = is_predicted / was - 1
                all_off.append(abs(off))
                row += f" {is_predicted:,.0f} / {was:,.0f} | {off:+.1%} |"
            print(row, flush=True)
        far = sum(off > 0.15 for off in all_off)
        print(f"{len(all_off) - far} of {len(all_off)} within 15 %, the furthest off by {max(all_off):.1%}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
