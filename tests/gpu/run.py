#!/usr/bin/env python3
"""Runs the test programs natively on this machine's GPU and through gpu-server on NVIDIA's driver, and compares what they print
(A1, A6, A8, C3). Closes with a table and 'N passed, N failed, N skipped'.

Usage: run.py [program …]"""

import ctypes
import os
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402


def system_driver():
    """The path of NVIDIA's driver, or None if it does not load or finds no device."""
    name = os.environ.get("WARPLINE_DRIVER", "libcuda.so.1")
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return None
    if driver.cuInit(0) != 0:
        return None
    with open("/proc/self/maps") as maps:
        for line in maps:
            if re.search(r"/libcuda\.so", line):
                return pathlib.Path(line.split()[-1])
    return None


def timed(command, mode, server, seconds):
    began = time.monotonic()
    done = harness.run(command, mode, server, seconds=seconds)
    return done, time.monotonic() - began


def comparable(text):
    """What must be equal: everything but times."""
    return re.sub(r"\d+\.\d+ s", "_ s", text)


def main(names):
    driver = system_driver()
    if driver is None:
        print("no GPU here: NVIDIA's libcuda.so.1 does not load or finds no device")
        print("\n0 passed, 0 failed, 1 skipped")
        return 1
    rows, passed, failed, skipped = [], 0, 0, 0
    with harness.Server(driver=driver, certificates=None) as server:
        print(server.log_text())
        for program in harness.programs().values():
            if names and program.name not in names:
                continue
            if not program.binary.exists():
                if harness.cuda_root() is None:
                    rows.append((program.name, "", "", "", "skipped: not built, and no nvcc here"))
                    skipped += 1
                    continue
                harness.build_program(program)
            for arguments in program.args:
                label = " ".join([program.name, *arguments])
                native, native_s = timed([program.binary, *arguments], "native", None, program.seconds)
                remote, remote_s = timed([program.binary, *arguments], "remote", server, program.seconds)
                trips = remote.stats.get("blocking_round_trips", -1)
                problem = ""
                if native.code != 0:
                    problem = f"native run failed: {native.stderr.strip()[:200]}"
                elif remote.code != 0:
                    problem = f"exit code {remote.code}: {remote.stderr.strip()[:300]}"
                elif comparable(native.stdout) != comparable(remote.stdout):
                    problem = f"said {remote.stdout!r} instead of {native.stdout!r}"
                elif program.round_trips is not None and trips > program.round_trips:
                    problem = f"{trips} blocking round trips, at most {program.round_trips} expected"
                passed, failed = passed + (not problem), failed + bool(problem)
                rows.append((label, f"{native_s:.2f}", f"{remote_s:.2f}", str(trips), problem or "same"))
    width = max(len(r[0]) for r in rows)
    print(f"{'program':{width}}  native s  remote s  round trips  result")
    for row in rows:
        print(f"{row[0]:{width}}  {row[1]:>8}  {row[2]:>8}  {row[3]:>11}  {row[4]}")
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
