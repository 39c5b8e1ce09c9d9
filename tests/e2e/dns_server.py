"""A DNS server for tests, on a UDP port of loopback: it knows the records that it was given and counts the questions."""

import socket
import struct
import threading

A, SRV, AAAA = 1, 33, 28


def encoded(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def address(text):
    return socket.inet_aton(text)


def service(priority, weight, port, host):
    return struct.pack("!HHH", priority, weight, port) + encoded(host)


class DnsServer:
    """Used as a context manager. `records` maps (name, type) to data as address() and service() make them."""

    def __init__(self, records=None, ttl=60, silent=False):
        self.records, self.ttl, self.silent = dict(records or {}), ttl, silent
        self.asked = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.serve, daemon=True)

    @property
    def where(self):
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def serve(self):
        while True:
            question, peer = self.socket.recvfrom(4096)
            if not question:
                return
            answer = self.answer(question)
            if not self.silent:
                self.socket.sendto(answer, peer)

    def answer(self, question):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        kind, = struct.unpack_from("!H", question, at + 1)
        name = ".".join(labels)
        self.asked.append((name, kind))
        found = self.records.get((name, kind), [])
        known = any(other == name for other, _ in self.records)
        header = question[:2] + struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, len(found), 0, 0)
        body = question[12:at + 5]
        for data in found:
            body += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, self.ttl, len(data)) + data
        return header + body

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()
