#!/usr/bin/env python3
"""How long honest programs take to connect while strangers hold connections to the same server, and while nobody does (F1).

Starts without strangers and with them are taken in turn, in blocks, on one server. A start is cuInit of a fresh process: name, TCP, TLS
with the door, Open, TLS with the worker, Hello. Strangers come from other addresses of the loopback network; those that the server sends
away come again, at most --again of them a second. Needs a build (build/release; WARPLINE_BUILD names another one)."""

import argparse
import json
import multiprocessing
import pathlib
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
import harness  # noqa: E402
from test_strangers import TO_DOOR, client_hello  # noqa: E402

# In the program, so that the start of the process is not counted.
PROGRAM = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
began = time.perf_counter()
result = cuda.cuInit(0)
print(result, time.perf_counter() - began)
"""


class Strangers:
    """A process that keeps connections open: idle ones, and such as have begun TLS and go no further."""

    def __init__(self, address, idle, half_open, again):
        host, _, port = address.rpartition(":")
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=self._run, args=(theirs, (host, int(port)), idle, half_open, again), daemon=True)
        self._process.start()

    def come(self):
        """Returns when all are there."""
        self._pipe.send("come")
        return self._pipe.recv()

    def leave(self):
        """Returns how many had to come again meanwhile."""
        self._pipe.send("leave")
        return self._pipe.recv()

    @staticmethod
    def _run(pipe, server, idle, half_open, again):
        hello = TO_DOOR + client_hello()
        while True:
            pipe.recv()
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                kinds = [hello] * half_open + [b""] * idle
                for number, says in enumerate(kinds):
                    Strangers._open(selector, server, number, says)
                pipe.send(len(kinds))
                reopened, began, waiting, leaving = 0, time.monotonic(), [], False
                while not leaving:
                    for key, _ in selector.select(0.01):
                        if key.fileobj is pipe:
                            leaving = True
                            pipe.recv()
                            continue
                        try:
                            ended = not key.fileobj.recv(1 << 16)
                        except OSError:
                            ended = True
                        if ended:
                            selector.unregister(key.fileobj)
                            key.fileobj.close()
                            waiting.append(key.data)
                    while waiting and reopened < (time.monotonic() - began) * again:
                        reopened += 1
                        Strangers._open(selector, server, *waiting.pop(0))
                selector.unregister(pipe)
                for key in list(selector.get_map().values()):
                    key.fileobj.close()
            pipe.send(reopened)

    @staticmethod
    def _open(selector, server, number, says):
        stranger = socket.create_connection(server, timeout=30, source_address=(f"127.0.{1 + number % 16}.{1 + number // 16 % 250}", 0))
        stranger.sendall(says)
        stranger.setblocking(False)
        selector.register(stranger, selectors.EVENT_READ, (number, says))


def start(server, seconds=60):
    """In milliseconds. Waits before until a worker is ready, as the server's own pace is not what is measured."""
    harness.until(lambda: json.loads(subprocess.run([harness.GPU_SERVER, "status", "--json", "--listen", server.address],
                                                    capture_output=True, text=True, check=True).stdout)["workers_ready"] > 0)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=harness.environment_for("remote", server), capture_output=True, text=True,
                          timeout=seconds)
    if not done.stdout.startswith("0 "):
        raise RuntimeError(f"a program could not connect: {done.stdout}{done.stderr}")
    return float(done.stdout.split()[1]) * 1000


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--half-open", type=int, default=500)
    parser.add_argument("--again", type=int, default=500, help="strangers a second that come again")
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--starts", type=int, default=10, help="in each block, of each kind")
    parser.add_argument("--each", action="store_true", help="print each start with strangers, in the order of time")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < arguments.idle + arguments.half_open + 200:
        sys.exit(f"so many connections need more descriptors than this process may have ({hard}): ulimit -Hn")
    unloaded, loaded, reopened = [], [], 0
    with harness.Server(flags=["--workers-ready=2"]) as server:
        strangers = Strangers(server.address, arguments.idle, arguments.half_open, arguments.again)
        start(server)  # not counted: files are read for the first time
        for _ in range(arguments.blocks):
            unloaded += [start(server) for _ in range(arguments.starts)]
            strangers.come()
            loaded += [start(server) for _ in range(arguments.starts)]
            reopened += strangers.leave()
    if arguments.each:
        print("with, each:", [round(value, 1) for value in loaded])
    print(f"{arguments.idle} idle and {arguments.half_open} half-open connections, {reopened} of them came again; "
          f"{len(loaded)} starts each, milliseconds")
    for name, values in (("without", unloaded), ("with", loaded)):
        print(f"{name:8} min {min(values):7.1f}  median {statistics.median(values):7.1f}  p90 {percentile(values, 0.9):7.1f}  "
              f"p99 {percentile(values, 0.99):7.1f}  max {max(values):7.1f}")
    print(f"ratio    median {statistics.median(loaded) / statistics.median(unloaded):.2f}  "
          f"p99 {percentile(loaded, 0.99) / percentile(unloaded, 0.99):.2f}")


if __name__ == "__main__":
    main()
