"""A relay between programs and a gpu-server at a Unix socket, which can cut its connections. Descriptors pass."""

import array
import os
import socket
import tempfile
import threading

CHUNK = 1 << 16
DESCRIPTORS = 4


class Relay:
    """Leads to `server` (a harness.Server at unix:PATH), in whose place a test can use it. Cuts all connections whenever another one
    of these numbers of bytes has passed, in all. A context manager."""

    def __init__(self, server, cut_after=()):
        self.server = server
        self.cut_after = sorted(cut_after)
        self.folder = tempfile.TemporaryDirectory(prefix="warpline-relay-")
        self.path = f"{self.folder.name}/relay"
        self.address = f"unix:{self.path}"
        self.descriptors = 0       # that have passed
        self.bytes = 0
        self._pairs = []
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def environment(self):
        return {**self.server.environment(), "WARPLINE_SERVERS": self.address}

    def cut(self):
        """Ends all connections that are open, as a crash between the two would."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended by itself
        return len(pairs)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(self.server.address.removeprefix("unix:"))
            with self._lock:
                self._pairs.append((client, server))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source, target):
        try:
            while True:
                data, ancillary, _, _ = source.recvmsg(CHUNK, socket.CMSG_SPACE(DESCRIPTORS * 4))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                passed = array.array("i")
                for level, kind, content in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        passed.frombytes(content[:len(content) - len(content) % passed.itemsize])
                with self._lock:  # before they pass: a program that is done with them finds them counted
                    self.descriptors += len(passed)
                    self.bytes += len(data)
                    due = bool(self.cut_after) and self.bytes >= self.cut_after[0]
                    if due:
                        self.cut_after.pop(0)
                sent = target.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if passed else [])
                target.sendall(data[sent:])
                for descriptor in passed:
                    os.close(descriptor)
                if due:
                    self.cut()
        except OSError:
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # likewise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()
        self.cut()
        self.folder.cleanup()
