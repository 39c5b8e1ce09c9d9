#!/usr/bin/env python3
"""How long a call waits for its answer while another thread copies over a slow link (B6): over `warpline-bench link`, with and without
what follows the link (WARPLINE_DISABLE=parts), in turn. Needs a build (build/release; WARPLINE_BUILD names another one)."""

import argparse
import json
import os
import statistics
import sys

from common import harness, link, through

PROGRAM = """
import ctypes, json, os, sys, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, small, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_void_p()
bytes_each, copies, down = int(sys.argv[1]) << 20, int(sys.argv[2]), sys.argv[3] == "down"
for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
               cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(bytes_each)), cuda.cuMemAlloc_v2(ctypes.byref(small), 4),
               cuda.cuStreamCreate(ctypes.byref(stream), 1)):
    assert result == 0, result
host = ctypes.create_string_buffer(os.urandom(bytes_each), bytes_each)
rounds = []
def copy():
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(copies):
        begin = time.monotonic()
        if down:
            result = cuda.cuMemcpyDtoH_v2(host, memory, ctypes.c_size_t(bytes_each))
        else:
            result = cuda.cuMemcpyHtoD_v2(memory, host, ctypes.c_size_t(bytes_each)) or cuda.cuCtxSynchronize()
        assert result == 0, result
        rounds.append(bytes_each / (time.monotonic() - begin))
assert cuda.cuMemcpyHtoD_v2(memory, host, ctypes.c_size_t(bytes_each)) == 0 and cuda.cuCtxSynchronize() == 0
thread = threading.Thread(target=copy)
thread.start()
waits = []
while thread.is_alive():
    begin = time.monotonic()
    assert cuda.cuMemsetD8Async(small, 1, 4, stream) == 0 and cuda.cuStreamSynchronize(stream) == 0
    waits.append(time.monotonic() - begin)
    time.sleep(0.003)
thread.join()
print(json.dumps({"waits": waits, "rates": rounds}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=100e6, help="bits a second, each way")
    parser.add_argument("--round-trip", type=float, default=0.005, help="seconds")
    parser.add_argument("--mebibytes", type=int, default=8, help="of each copy")
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--lanes", default="0,2", help="connections for large copies, beside the first one")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{arguments.rate / 1e6:g} Mb/s, {arguments.round_trip * 1e3:g} ms there and back; {arguments.copies} copies of "
          f"{arguments.mebibytes} MiB of random bytes, {arguments.runs} runs in turn")
    with harness.Server(environment={"SOFTGPU_EXECUTE": "0"}) as server, link(server.address, arguments.rate, arguments.round_trip) as address:
        linked = through(server, address)
        for lanes in arguments.lanes.split(","):
            for way in ("up", "down"):
                found = {"fixed": ([], []), "adapted": ([], [])}
                for _ in range(arguments.runs):
                    for kind, disabled in (("fixed", "cache,parts"), ("adapted", "cache")):
                        done = harness.run([sys.executable, "-c", PROGRAM, arguments.mebibytes, arguments.copies, way], "remote", linked,
                                           {"WARPLINE_DISABLE": disabled, "WARPLINE_BULK_LANES": lanes, "WARPLINE_BULK_LANES_AFTER": "0",
                                            **({} if os.environ.get("WARPLINE_LOG") else {"WARPLINE_LOG": "error"})}, seconds=300)
                        if done.code != 0:
                            sys.exit(done.stdout + done.stderr)
                        said = json.loads(done.stdout)
                        found[kind][0].extend(said["waits"])
                        found[kind][1].extend(said["rates"])
                for kind, (waits, rates) in found.items():
                    waits.sort()
                    print(f"{lanes} lanes, {way:4}  {kind:8} a wait: median {statistics.median(waits) * 1e3:7.1f} ms, 90 % "
                          f"{waits[len(waits) * 9 // 10] * 1e3:7.1f} ms ({len(waits)} waits)   copies {statistics.median(rates) * 8 / arguments.rate:6.1%} of the link", flush=True)


if __name__ == "__main__":
    main()
