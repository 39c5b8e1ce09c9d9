#!/usr/bin/env python3
"""How much of a link's rate large copies reach when it is slow and long: 1 Gb/s and 10 ms there and back, unless told otherwise (B3).

A relay between the program and its server gives all connections together, in each direction, the link's rate, and every byte half the
round trip; what waits before the link is bounded, as in a router, so that who sends has to wait. The cases are those of warpline-bench.
Needs a build (build/release; WARPLINE_BUILD names another one)."""

import argparse
import collections
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
import harness  # noqa: E402

PIECE = 64 * 1024
QUEUE_BYTES = 512 * 1024  # that one connection may have before the link


class Direction:
    """One direction of the link: when the next bytes have passed it."""

    def __init__(self, bytes_per_second, delay):
        self._rate, self._delay = bytes_per_second, delay
        self._lock, self._free_at = threading.Lock(), 0.0
        self.bytes = 0

    def admit(self, count):
        """Takes bytes onto the link, which others may be using. Returns when they have left it, and when they arrive."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + count / self._rate
            self.bytes += count
            return self._free_at, self._free_at + self._delay


class Flow:
    """One direction of one connection."""

    def __init__(self, direction, source, target):
        self._direction, self._source, self._target = direction, source, target
        self._under_way = collections.deque()  # (when it arrives, bytes); None: the end
        self._changed = threading.Condition()
        for work in (self._take, self._give):
            threading.Thread(target=work, daemon=True).start()

    def _take(self):
        try:
            while data := self._source.recv(PIECE):
                left, arrives = self._direction.admit(len(data))
                with self._changed:
                    self._under_way.append((arrives, data))
                    self._changed.notify()
                pause = left - time.monotonic() - QUEUE_BYTES / self._direction._rate
                if pause > 0:
                    time.sleep(pause)
        except OSError:
            pass
        with self._changed:
            self._under_way.append(None)
            self._changed.notify()

    def _give(self):
        try:
            while True:
                with self._changed:
                    while not self._under_way:
                        self._changed.wait()
                    item = self._under_way.popleft()
                if item is None:
                    break
                arrives, data = item
                while (pause := arrives - time.monotonic()) > 0:
                    time.sleep(pause)
                self._target.sendall(data)
        except OSError:
            pass
        for end in (self._source, self._target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Link:
    """The relay. `address` takes the place of the server's."""

    def __init__(self, server, bits_per_second, round_trip):
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self.up, self.down = (Direction(bits_per_second / 8, round_trip / 2) for _ in range(2))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(self._server)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE_BYTES)
            Flow(self.up, client, server)
            Flow(self.down, server, client)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1e9, help="bits a second, each way")
    parser.add_argument("--round-trip", type=float, default=0.010, help="seconds")
    parser.add_argument("--cases", default="h2d_256m,d2h_256m,sync")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with harness.Server(environment={"SOFTGPU_EXECUTE": "0"}) as server:
        link = Link(server.address, arguments.rate, arguments.round_trip)
        environment = {**os.environ, **server.environment(), "WARPLINE_SERVERS": link.address,
                       "LD_LIBRARY_PATH": str(harness.BUILD / "lib" / "warpline")}
        done = subprocess.run([harness.BUILD / "bin" / "warpline-bench", "--inside", "--cases", arguments.cases, "--runs", str(arguments.runs), "--json"],
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
