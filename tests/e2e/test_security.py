"""Who may come in, and what a hostile peer can do (F1, F3): certificates, garbage, truncation; other sessions do not notice."""

import os
import pathlib
import random
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import harness
from test_failure import working

VECTOR_ADD = harness.programs()["vector_add"]
# Who speaks with the door, before TLS.
TO_DOOR = b"WLRP" + (2).to_bytes(2, "little") + (1).to_bytes(2, "little") + bytes(24)


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(harness.programs()["until_error"])


class SecurityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server().__enter__()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-other-ca-"))
        cls.stranger = harness.development_certificates(cls.folder)
        cls.witness = working(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.witness.kill()
        cls.witness.communicate()
        cls.server.__exit__()
        shutil.rmtree(cls.folder)

    def tearDown(self):
        # Whatever happened, the other session goes on and the server takes new ones.
        self.assertIsNone(self.witness.poll(), "the other session ended")
        done = harness.run([VECTOR_ADD.binary], "remote", self.server)
        self.assertEqual(done.code, 0, done.stderr + self.server.log_text())

    def address(self):
        host, port = self.server.address.rsplit(":", 1)
        return host, int(port)

    def refused(self, **changes):
        extra = {**self.server.environment(), **changes}
        environment = harness.environment_for("remote", self.server)
        environment.update(extra)
        done = subprocess.run([VECTOR_ADD.binary], env=environment, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("(100)", done.stderr)
        return done.stderr

    def test_unknown_client_is_refused_with_a_reason_on_both_sides(self):
        said = self.refused(WARPLINE_CERT=str(self.stranger / "tenant.crt"), WARPLINE_KEY=str(self.stranger / "tenant.key"))
        self.assertRegex(said, r"(?i)certificate")
        deadline = time.monotonic() + 10  # the server says so when it has read the client's answer
        while not re.search(r"(?i)certificate", self.server.log_text()):
            self.assertLess(time.monotonic(), deadline, self.server.log_text())
            time.sleep(0.05)

    def test_unknown_server_is_refused(self):
        self.assertRegex(self.refused(WARPLINE_CA=str(self.stranger / "ca.crt")), r"(?i)certificate")

    def test_key_that_does_not_belong_to_the_certificate(self):
        self.assertRegex(self.refused(WARPLINE_KEY=str(self.stranger / "tenant.key")), r"(?i)key")

    def test_missing_certificate_file_is_named(self):
        self.assertIn("/nowhere/tenant.crt", self.refused(WARPLINE_CERT="/nowhere/tenant.crt"))

    def test_garbage_sent_to_the_port(self):
        rng = random.Random(7)
        for size in (0, 1, 31, 32, 33, 1000, 100000):
            with socket.create_connection(self.address(), timeout=10) as connection:
                try:
                    connection.sendall(rng.randbytes(size))
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass  # the server may hang up first

    def test_garbage_after_the_preamble(self):
        rng = random.Random(8)
        for size in (0, 5, 517, 70000):
            with socket.create_connection(self.address(), timeout=10) as connection:
                try:
                    connection.sendall(TO_DOOR + rng.randbytes(size))
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass

    def tls(self, version=None):
        context = ssl.create_default_context(cafile=self.server.certificates / "ca.crt")
        context.load_cert_chain(self.server.certificates / "tenant.crt", self.server.certificates / "tenant.key")
        if version:
            context.maximum_version = version
        raw = socket.create_connection(self.address(), timeout=10)
        raw.sendall(TO_DOOR)
        return context.wrap_socket(raw, server_hostname=self.address()[0])

    def test_older_tls_is_refused(self):
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.tls(ssl.TLSVersion.TLSv1_2).recv(1)

    def test_a_tenant_that_sends_no_frames(self):
        rng = random.Random(9)
        for size in (1, 47, 48, 64, 4096, 1 << 20):
            with self.tls() as connection:
                try:
                    connection.sendall(rng.randbytes(size))
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass

    def test_many_half_open_connections(self):
        connections = [socket.create_connection(self.address(), timeout=10) for _ in range(100)]
        try:
            done = harness.run([VECTOR_ADD.binary], "remote", self.server)
            self.assertEqual(done.code, 0, done.stderr)
        finally:
            for connection in connections:
                connection.close()


if __name__ == "__main__":
    unittest.main()
