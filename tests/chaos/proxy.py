"""A TCP proxy between clients and a gpu-server that carries bytes as they are (TLS passes through) and executes a plan of faults.

It runs on a thread of its own; its methods may be called from any other one. A fault from the plan happens at its byte, not at its
time, and is counted and logged with what is needed to repeat it."""

import asyncio
import socket
import threading
from dataclasses import dataclass

from .connection import RESET, Connection
from .plan import DOWN, UP

REORDER_SECONDS = 2  # a reorder whose other connections stay silent gives up and says so


@dataclass(frozen=True)
class Event:
    seed: object
    connection: int
    direction: str
    offset: int
    what: str
    ends_connection: bool = False

    def __str__(self):
        return f"seed={self.seed} connection={self.connection} {self.direction} offset={self.offset} {self.what}"


class Proxy:
    """Listens on a free loopback port and leads to `server` (a harness.Server, or anything with an address and an environment()).

    `plan` is a list of faults, `seed` what it was made from (for the log), `log` takes a line per event; connections beyond the first
    `most` are reset as they come. Used as a context manager; takes a server's place in the harness."""

    def __init__(self, server, plan=(), seed=None, log=None, most=None):
        self.server, self.plan, self.seed = server, list(plan), seed
        self.events = []
        self.totals = []           # of each connection: bytes delivered by direction
        self._log = log or (lambda line: None)
        self._changed = threading.Condition()
        self._connections = set()
        self._network_is_held = False
        self._most = most
        self._waiting = []         # reorders: [flow, bytes to go, future]
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    # ---- What tests do and ask, from their own thread

    def environment(self):
        return {**self.server.environment(), "WARPLINE_SERVERS": self.address}

    def cut(self, numbers=None):
        """Resets every connection that is open now, or those of these numbers."""
        self._call(lambda: self._cut(numbers))

    def hold_network(self):
        """From now on nothing passes, on connections that are open and on new ones, as if the cable were pulled."""
        self._call(self._hold_network)

    def hold_from(self, number):
        """From now on nothing passes on connections that are open, from the one with this number on."""
        self._call(lambda: self._hold_from(number))

    def release(self):
        """Ends holds and black holes; what was sent meanwhile arrives."""
        self._call(self._release)

    def count(self, ending=False):
        """How many events there were, or how many ended a connection."""
        with self._changed:
            return sum(1 for e in self.events if e.ends_connection or not ending)

    def delivered(self, direction):
        with self._changed:
            return sum(t[direction] for t in self.totals)

    def wait_until(self, reached, seconds):
        """Waits until `reached(self)`, which is asked whenever bytes or events have passed. False after `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(self), seconds)

    def open_connections(self):
        return len(self._connections)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._call(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # ---- What the flows report, on the loop's thread

    def happened(self, flow, what, ends_connection=False):
        event = Event(self.seed, flow.connection.number, flow.direction, flow.delivered, what, ends_connection)
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()
        self._log(str(event))

    def moved(self, flow, length):
        with self._changed:
            self.totals[flow.connection.number - 1][flow.direction] += length
            self._changed.notify_all()
        for entry in self._waiting:
            waiting, _, future = entry
            if waiting.direction == flow.direction and waiting.connection is not flow.connection:
                entry[1] -= length
                if entry[1] <= 0 and not future.done():
                    future.set_result("reordered")

    def closed(self, connection):
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()
        if len(self._connections) <= 1:
            for _, _, future in self._waiting:
                if not future.done():
                    future.set_result("reorder: no other connection")

    async def others_moved(self, flow, count):
        """Waits until other connections have delivered `count` bytes in this flow's direction. Returns how that ended."""
        if len(self._connections) <= 1:
            return "reorder: no other connection"
        entry = [flow, count, self._loop.create_future()]
        self._waiting.append(entry)
        try:
            return await asyncio.wait_for(entry[2], REORDER_SECONDS)
        except asyncio.TimeoutError:
            return "reorder: the other connections are silent"
        finally:
            self._waiting.remove(entry)

    # ---- The loop

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._accepting = self._loop.create_task(self._accept())
        self._loop.run_forever()
        self._loop.close()

    def _call(self, function):
        asyncio.run_coroutine_threadsafe(function(), self._loop).result()

    async def _accept(self):
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            if self._most is not None and len(self.totals) >= self._most:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.close()
                continue
            number = len(self.totals) + 1
            with self._changed:
                self.totals.append({UP: 0, DOWN: 0})
            await self._connect(client, number)

    async def _connect(self, client, number):
        host, _, port = self.server.address.rpartition(":")
        server = socket.socket()
        server.setblocking(False)
        try:
            await self._loop.sock_connect(server, (host, int(port)))
        except OSError as error:
            self._log(f"seed={self.seed} connection={number} the server cannot be reached: {error}")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()
            server.close()
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self, number, client, server, [f for f in self.plan if f.connection == number])
        with self._changed:
            self._connections.add(connection)
            self._changed.notify_all()
        if self._network_is_held:
            self._hold(connection)

    async def _cut(self, numbers):
        for connection in [c for c in self._connections if c.open and (numbers is None or c.number in numbers)]:
            self.happened(connection.flows[UP], "cut by the test", True)
            await connection.close_now()

    def _hold(self, connection):
        for flow in connection.flows.values():
            flow.gate.close()
        self.happened(connection.flows[UP], "the network is held")

    async def _hold_network(self):
        self._network_is_held = True
        for connection in self._connections:
            self._hold(connection)

    async def _hold_from(self, number):
        for connection in self._connections:
            if connection.number >= number:
                self._hold(connection)

    async def _release(self):
        self._network_is_held = False
        for connection in self._connections:
            for flow in connection.flows.values():
                flow.gate.open()
            self.happened(connection.flows[UP], "released")

    async def _stop(self):
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._listener.close()
        for connection in list(self._connections):
            await connection.close_now()
        left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        await asyncio.gather(*left, return_exceptions=True)
