"""One connection through the proxy: two flows of bytes, and the faults that they meet."""

import asyncio
import collections
import socket
import struct

from . import plan as plans
from .plan import DOWN, UP

CHUNK_BYTES = 64 << 10
QUEUE_BYTES = 1 << 20            # what a direction holds before it stops reading: the buffer of a router
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends a reset


class Gate:
    """Where a direction waits while it is held."""

    def __init__(self):
        self._open = asyncio.Event()
        self._open.set()

    def close(self, seconds=None):
        self._open.clear()
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, self._open.set)

    def open(self):
        self._open.set()

    async def pass_through(self):
        await self._open.wait()


class Flow:
    """One direction of one connection: a reader fills a queue, a writer delivers it and executes the faults at their offsets."""

    def __init__(self, connection, direction, source, target, faults):
        self.connection, self.direction, self.source, self.target = connection, direction, source, target
        self.faults = sorted((f for f in faults if f.direction == direction), key=lambda f: f.offset)
        self.delivered = 0
        self.gate = Gate()
        self.done = False          # the receiver has got its end, or is there no more
        self._latency = 0.0
        self._rate = None
        self._next_send = 0.0      # when the rate allows for more
        self._flip = 0
        self._reorder = None       # the fault that the next byte meets, when there is one
        self._queue = collections.deque()
        self._queued_bytes = 0
        self._changed = asyncio.Event()

    async def read(self):
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self.source, CHUNK_BYTES)
            except OSError:
                data = None  # a reset
            self._queue.append((loop.time(), data))
            self._queued_bytes += len(data or b"")
            self._changed.set()
            if not data:
                return
            while self._queued_bytes > QUEUE_BYTES:
                self._changed.clear()
                await self._changed.wait()

    async def write(self):
        loop = asyncio.get_running_loop()
        await self._execute_due()
        while True:
            while not self._queue:
                self._changed.clear()
                await self._changed.wait()
            arrived, data = self._queue.popleft()
            self._queued_bytes -= len(data or b"")
            self._changed.set()
            if self._latency and arrived + self._latency > loop.time():
                await asyncio.sleep(arrived + self._latency - loop.time())
            if data is None:
                await self.gate.pass_through()
                await self.connection.end(reset=True)
            if not data:
                await self.gate.pass_through()
                return await self._end_target()
            await self._deliver(data)

    async def _deliver(self, data):
        """Passes bytes on, in pieces that end where a fault is."""
        while data and not self.done:
            length = min(len(data), self.faults[0].offset - self.delivered if self.faults else len(data))
            if self._rate:
                length = min(length, max(1, int(self._rate / 50)))
            piece, data = data[:length], data[length:]
            if self._flip:
                piece = bytes([piece[0] ^ self._flip]) + piece[1:]
                self._flip = 0
            await self.gate.pass_through()
            if self._reorder:
                await self._let_others_pass()
            await self._pace(length)
            try:
                await asyncio.get_running_loop().sock_sendall(self.target, piece)
            except OSError:
                return await self.connection.flow_is_done(self, broken=True)
            self.delivered += length
            self.connection.proxy.moved(self, length)
            await self._execute_due()

    async def _let_others_pass(self):
        proxy, fault, self._reorder = self.connection.proxy, self._reorder, None
        proxy.happened(self, str(fault))
        proxy.happened(self, await proxy.others_moved(self, int(fault.value or 1)))

    async def _pace(self, length):
        if not self._rate:
            return
        now = asyncio.get_running_loop().time()
        if self._next_send > now:
            await asyncio.sleep(self._next_send - now)
        self._next_send = max(now, self._next_send) + length / self._rate

    async def _execute_due(self):
        while self.faults and self.faults[0].offset <= self.delivered:
            await self._execute(self.faults.pop(0))

    async def _execute(self, fault):
        if fault.kind != plans.REORDER:
            self.connection.proxy.happened(self, str(fault), fault.ends_connection)
        if fault.kind == plans.CUT:
            await self.connection.end(reset=True)
        elif fault.kind == plans.HALF_CLOSE:
            await self._end_target()
        elif fault.kind == plans.CORRUPT:
            self._flip = int(fault.value or 1)
        elif fault.kind == plans.DELAY:
            self._latency = fault.value
        elif fault.kind == plans.THROTTLE:
            self._rate = fault.value
        elif fault.kind == plans.BLACK_HOLE:
            for flow in self.connection.flows.values():
                flow.gate.close(fault.value)
        elif fault.kind == plans.HOLD:
            self.gate.close(fault.value)
        elif fault.kind == plans.REORDER:
            self._reorder = fault

    async def _end_target(self):
        """The receiver sees the end of the stream; what still comes is read and thrown away."""
        try:
            self.target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        await self.connection.flow_is_done(self)


class Connection:
    """A client's connection and the one to the server that it leads to."""

    def __init__(self, proxy, number, client, server, faults):
        self.proxy, self.number = proxy, number
        self.sockets = (client, server)
        self.flows = {UP: Flow(self, UP, client, server, faults), DOWN: Flow(self, DOWN, server, client, faults)}
        self.open = True
        self._broken = False
        self._tasks = [asyncio.ensure_future(step) for flow in self.flows.values() for step in (flow.read(), flow.write())]

    async def flow_is_done(self, flow, broken=False):
        """Closes the connection once nothing is left to be delivered in either direction; with a reset, if a receiver has gone."""
        flow.done = True
        self._broken = self._broken or broken
        if all(f.done for f in self.flows.values()):
            await self.end(reset=self._broken)

    async def end(self, reset):
        """Ends both sides. Does not return to a flow of this connection: its task is cancelled."""
        if self.open:
            self.open = False
            asyncio.ensure_future(self._close(reset))
        await asyncio.get_running_loop().create_future()

    async def close_now(self):
        """Resets both sides, for whoever is no flow of this connection."""
        if self.open:
            self.open = False
            await self._close(reset=True)

    async def _close(self, reset):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the loop lets go of the sockets in callbacks of what was cancelled
        for end in self.sockets:
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.close()
        self.proxy.closed(self)
