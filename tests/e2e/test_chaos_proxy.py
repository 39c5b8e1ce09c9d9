"""The fault proxy of tests/chaos by itself, between plain sockets: what it does is what its plan says, byte for byte."""

import random
import socket
import sys
import threading
import time
import types
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos import plan  # noqa: E402
from chaos.proxy import Proxy  # noqa: E402

SEED = 8


class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)

    def connect(self, proxy):
        """Both ends of a new connection through the proxy."""
        host, port = proxy.address.split(":")
        near = socket.create_connection((host, int(port)), timeout=30)
        far, _ = self.listener.accept()
        far.settimeout(30)
        self.addCleanup(near.close)
        self.addCleanup(far.close)
        return near, far

    def proxy(self, *faults):
        server = types.SimpleNamespace(address=f"127.0.0.1:{self.listener.getsockname()[1]}")
        proxy = Proxy(server, [plan.parse(f) for f in faults], SEED)
        self.addCleanup(proxy.__exit__)
        return proxy

    @staticmethod
    def receive(end):
        """What arrives until the end of the stream; with a reset, what came before it."""
        received = b""
        try:
            while part := end.recv(65536):
                received += part
        except ConnectionResetError:
            return received, "reset"
        return received, "end"

    def test_bytes_and_ends_pass_as_they_are(self):
        near, far = self.connect(self.proxy())
        data = random.Random(SEED).randbytes(3 << 20)
        for sender, receiver in ((near, far), (far, near)):
            thread = threading.Thread(target=lambda s=sender: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
            thread.start()
            self.assertTrue(self.receive(receiver) == (data, "end"))
            thread.join()

    def test_a_cut_resets_both_sides_at_its_byte(self):
        near, far = self.connect(self.proxy("cut:1:up:5"))
        near.sendall(b"0123456789")
        received, how = self.receive(far)
        self.assertTrue(b"01234".startswith(received), received)
        self.assertEqual((how, self.receive(near)), ("reset", (b"", "reset")))

    def test_a_half_close_ends_one_direction_at_its_byte(self):
        near, far = self.connect(self.proxy("half-close:1:up:5"))
        near.sendall(b"0123456789")
        self.assertEqual(self.receive(far), (b"01234", "end"))
        far.sendall(b"answer")
        self.assertEqual(near.recv(100), b"answer")

    def test_corruption_flips_the_bits_of_one_byte(self):
        near, far = self.connect(self.proxy("corrupt:1:down:3:128"))
        far.sendall(b"\0" * 10)
        far.close()
        self.assertEqual(self.receive(near)[0], b"\0\0\0\x80\0\0\0\0\0\0")

    def test_what_is_held_arrives_when_it_is_released(self):
        proxy = self.proxy("hold:1:up:4")
        near, far = self.connect(proxy)
        near.sendall(b"01234567")
        far.sendall(b"down")
        self.assertEqual((far.recv(100), near.recv(100)), (b"0123", b"down"))
        self.assertTrue(proxy.wait_until(lambda p: p.count() == 1, 30))
        self.assertEqual(proxy.delivered(plan.UP), 4)
        proxy.release()
        self.assertEqual(far.recv(100), b"4567")

    def test_a_held_network_holds_new_connections_and_ends_too(self):
        proxy = self.proxy()
        first, far = self.connect(proxy)
        proxy.hold_network()
        second, other_far = self.connect(proxy)
        second.sendall(b"new")
        first.sendall(b"old")
        first.close()
        proxy.release()
        self.assertEqual((other_far.recv(100), self.receive(far)), (b"new", (b"old", "end")))

    def test_reordered_connections_deliver_in_another_order(self):
        proxy = self.proxy("reorder:1:up:0:6")
        near, far = self.connect(proxy)
        other, other_far = self.connect(proxy)
        self.assertTrue(proxy.wait_until(lambda p: p.open_connections() == 2, 30))
        near.sendall(b"first")
        self.assertTrue(proxy.wait_until(lambda p: p.count() == 1, 30))
        other.sendall(b"sec")
        self.assertEqual(other_far.recv(100), b"sec")
        self.assertEqual(proxy.totals[0][plan.UP], 0)
        other.sendall(b"ond")
        self.assertEqual(other_far.recv(100), b"ond")
        self.assertEqual(far.recv(100), b"first")
        self.assertEqual([e.what for e in proxy.events], ["reorder:1:up:0:6", "reordered"])

    def test_delays_and_rates_are_kept(self):
        near, far = self.connect(self.proxy("delay:1:up:0:0.2", "throttle:1:down:1000:100000"))
        began = time.monotonic()
        near.sendall(b"late")
        far.recv(100)
        self.assertGreaterEqual(time.monotonic() - began, 0.2)
        began = time.monotonic()
        far.sendall(b"\0" * 31000)
        far.close()
        self.assertEqual(len(self.receive(near)[0]), 31000)
        self.assertGreaterEqual(time.monotonic() - began, 0.25)  # 30,000 bytes at 100,000 a second, less the last piece

    def test_events_say_how_to_repeat_them(self):
        lines = []
        server = types.SimpleNamespace(address=f"127.0.0.1:{self.listener.getsockname()[1]}")
        with Proxy(server, [plan.parse("cut:1:up:5")], SEED, lines.append) as proxy:
            near, _ = self.connect(proxy)
            near.sendall(b"0123456789")
            self.assertTrue(proxy.wait_until(lambda p: p.count(ending=True) == 1, 30))
        self.assertEqual(lines, [f"seed={SEED} connection=1 up offset=5 cut:1:up:5"])


if __name__ == "__main__":
    unittest.main()
