#!/usr/bin/env python3
"""Writes tests/programs/waits.toml: which calls of each program waited for the server, and how often at most in several runs.

Usage: list_waits.py [PROGRAM…]     the programs whose sections are to be made anew (default: all)

To be run when a program is new, or waits less than before; a program that waits more is a question, not a new list."""

import collections
import os
import sys

import harness

RUNS = 5
VARIES = {"cuStreamQuery", "cuEventQuery",  # asked until the answer is yes
          "wlMapNow"}                       # as often as the memory that the server has granted ahead does not suffice


def waits_of(program, server):
    """What waits.toml says of a program: the most of each call, in all runs with the same arguments; "any" where they differ, and for
    what VARIES."""
    limits = {}
    for arguments in program.args:
        runs = []
        for _ in range(RUNS):
            done = harness.run([program.binary, *arguments], "remote", server, seconds=program.seconds)
            if done.code != 0:
                sys.exit(f"{program.name} {arguments}: exit code {done.code}\n{done.stdout}{done.stderr}")
            runs.append(collections.Counter(done.stats["waits"]))
        for call in set().union(*runs):
            counts = {run[call] for run in runs}
            varies = len(counts) > 1 or call in VARIES or limits.get(call) == '"any"'
            limits[call] = '"any"' if varies else max(limits.get(call, 0), *counts)
    return limits


def section(name, limits):
    return ["", f"[{name}]", *(f"{call} = {count}" for call, count in sorted(limits.items()))]


def as_written(program):
    """What waits.toml says of a program already."""
    return {call: '"any"' if count == "any" else count for call, count in harness.waits(program).items()}


def main():
    os.environ["SOFTGPU_PROFILE"] = "strict"
    wanted = set(sys.argv[1:]) or set(harness.programs())
    if wanted - set(harness.programs()):
        sys.exit(f"no such programs: {', '.join(sorted(wanted - set(harness.programs())))}")
    lines = ["# Which calls of each program wait for the server, and how often at most: written by tests/e2e/list_waits.py."]
    with harness.Server() as server:
        for name, program in harness.programs().items():
            if "remote" not in program.modes:
                continue
            if name not in wanted:
                lines += section(name, as_written(program))
                continue
            harness.build_program(program)
            print(name, flush=True)
            lines += section(name, waits_of(program, server))
    (harness.PROGRAMS / "waits.toml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
