"""Counting the round trips that a program waits for, whatever the machine's speed."""

import pathlib
import selectors
import socket
import threading
from dataclasses import dataclass, field

LOOK_SECONDS = 0.01
QUIET_LOOKS = 3


@dataclass
class Connection:
    number: int
    since: int                                # the client's clock when it was dialled
    sent: dict = field(default_factory=dict)  # bytes of the client by the clock at which they left
    client: socket.socket = None
    server: socket.socket = None


class RoundTripCounter:
    """A proxy that gives a program what the server says only when the program can do nothing without: when each of its threads sleeps.
    So what it does without waiting for an answer is seen to be done without, and no more.

    The program's clock is the number of round trips that it has waited for. What it sends leaves at that time; the server's answer to it
    comes one later; and what it says on a new connection leaves one later than it was dialled, for TCP. The clocks of all connections are
    one: an answer is taken to be one to everything that the server had got by then.

    Used as a context manager; takes a server's place in the harness. watch() begins the count; until then nothing passes."""

    def __init__(self, server):
        self.server, self.connections = server, []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._stopped = threading.Event()
        self._pid = None
        self._clock = self._server_clock = 0
        self._held = []  # answers: (connection, bytes, time of their arrival)
        self._looks = []

    def environment(self):
        return {**self.server.environment(), "WARPLINE_SERVERS": self.address}

    def watch(self, pid):
        self._pid = pid
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stopped.set()
        if self._pid:
            self._thread.join()
        self._listener.close()
        for connection in self.connections:
            connection.client.close()
            connection.server.close()

    def _run(self):
        with selectors.DefaultSelector() as selector:
            self._selector = selector
            selector.register(self._listener, selectors.EVENT_READ, (self._accept, None))
            while not self._stopped.is_set():
                ready = selector.select(LOOK_SECONDS)
                for key, _ in ready:
                    function, connection = key.data
                    function(connection)
                if not ready and self._held and self._program_sleeps():
                    self._give()

    def _accept(self, _):
        client, _ = self._listener.accept()
        host, _, port = self.server.address.rpartition(":")
        connection = Connection(len(self.connections), self._clock, client=client, server=socket.create_connection((host, int(port))))
        self.connections.append(connection)
        self._selector.register(connection.client, selectors.EVENT_READ, (self._hear_client, connection))
        self._selector.register(connection.server, selectors.EVENT_READ, (self._hear_server, connection))

    def _hear(self, source):
        try:
            data = source.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(source)
        return data

    def _hear_client(self, connection):
        data = self._hear(connection.client)
        if not data:
            return self._pass_end(connection.server)
        self._clock = max(self._clock, connection.since + 1)
        connection.sent[self._clock] = connection.sent.get(self._clock, b"") + data
        connection.server.sendall(data)
        self._server_clock = self._clock

    def _hear_server(self, connection):
        self._held.append((connection, self._hear(connection.server), self._server_clock + 1))

    def _give(self):
        held, self._held = self._held, []
        for connection, data, time in held:
            self._clock = max(self._clock, time)
            if data:
                connection.client.sendall(data)
            else:
                self._pass_end(connection.client)

    @staticmethod
    def _pass_end(target):
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _program_sleeps(self):
        """Each of its threads, and none of them has run between a few looks."""
        look = []
        try:
            for task in pathlib.Path(f"/proc/{self._pid}/task").iterdir():
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                switches = [line for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line]
                look.append((task.name, state, switches))
        except OSError:
            return True  # it has ended
        self._looks = (self._looks + [sorted(look)])[-QUIET_LOOKS:]
        sleeps = all(state not in "RD" for _, state, _ in look)
        quiet = sleeps and len(self._looks) == QUIET_LOOKS and all(other == self._looks[0] for other in self._looks)
        if quiet:
            self._looks = []
        return quiet
