#!/usr/bin/env python3
"""Copies over paths that lose packets, and after pauses, with the kernel's own TCP (B6): `warpline-bench path`, with and without what
follows the path. Needs root, and a build (build/release; WARPLINE_BUILD names another one).

While it runs, this machine's congestion control is the one of --congestion, as is the program's."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
import harness  # noqa: E402

CONTROL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
PROGRAM = """
import ctypes, json, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
size, copies, pause, way = int(sys.argv[1]) << 20, int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
               cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size))):
    assert result == 0, result
sent = os.urandom(size)
host, back = ctypes.create_string_buffer(sent, size), ctypes.create_string_buffer(size)
def up():
    assert cuda.cuMemcpyHtoD_v2(memory, host, ctypes.c_size_t(size)) == 0 and cuda.cuCtxSynchronize() == 0
def down():
    assert cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(size)) == 0
up()
times = []
for _ in range(copies):
    time.sleep(pause)
    begin = time.monotonic()
    up() if way == "up" else down()
    times.append(time.monotonic() - begin)
down()
assert back.raw == sent
print(json.dumps(times))
"""


def measure(server, arguments, disabled, loss, mebibytes, copies, pause, way):
    port = server.address.rpartition(":")[2]
    environment = {**os.environ, **server.environment(), "WARPLINE_SERVERS": f"localhost[198.18.0.1]:{port}", "WARPLINE_DISABLE": disabled,
                   "LD_LIBRARY_PATH": str(harness.BUILD / "lib" / "warpline")}
    done = subprocess.run([harness.BUILD / "bin" / "warpline-bench", "path", "--rtt", str(arguments.round_trip), "--rate", str(arguments.rate),
                           "--queue", "30", "--loss", str(loss), "--congestion", arguments.congestion, "--", sys.executable, "-c", PROGRAM,
                           str(mebibytes), str(copies), str(pause), way], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=200, help="Mb/s, each way")
    parser.add_argument("--round-trip", type=float, default=30, help="milliseconds")
    parser.add_argument("--loss", default="0,0.1,1", help="percent")
    parser.add_argument("--pause", type=float, default=3, help="seconds, before copies of 4 MiB")
    parser.add_argument("--congestion", default="cubic", help="what both machines have set")
    parser.add_argument("--copies", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{arguments.round_trip:g} ms, {arguments.rate:g} Mb/s, {arguments.congestion} on both sides; medians of {arguments.copies} copies")
    kinds = {"as it is": "cache", "without BBR": "cache,congestion", "nor lanes": "cache,congestion,lanes"}
    before = CONTROL.read_text()
    CONTROL.write_text(arguments.congestion)
    try:
        for kind, disabled in kinds.items():
            with harness.Server(environment={"SOFTGPU_EXECUTE": "0", "WARPLINE_DISABLE": disabled}, listen="0.0.0.0:0") as server:
                for way in ("up", "down"):
                    cases = [(float(loss), 16, 0) for loss in arguments.loss.split(",")] + [(0, 4, arguments.pause)]
                    for loss, mebibytes, pause in cases:
                        times = measure(server, arguments, disabled, loss, mebibytes, arguments.copies, pause, way)
                        rate = mebibytes * 8.388608 / statistics.median(times)
                        after = f" after {pause:g} s" if pause else ""
                        print(f"{kind:12} {way:4} {mebibytes:3} MiB{after:10} {loss:5g} % loss  {rate:6.1f} Mb/s  "
                              f"{statistics.median(times) * 1e3:7.0f} ms", flush=True)
    finally:
        CONTROL.write_text(before)


if __name__ == "__main__":
    main()
