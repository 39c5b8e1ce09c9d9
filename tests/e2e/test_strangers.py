"""Connections of strangers, by the hundred: they cost little, and nobody waits for them (F1)."""

import resource
import socket
import ssl
import unittest

import harness
from test_failure import workers_of
from test_security import NEW_SESSION

VECTOR_ADD = harness.programs()["vector_add"]
READY = 2  # workers
# Workers that have served one of our programs, or were started for it, and the one that a first stranger is trusted with.
LEAVING = 4
# Of one host, in TLS and Hello at a time.
GREETINGS_PER_HOST = 8


def setUpModule():
    harness.build_program(VECTOR_ADD)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    unittest.addModuleCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


def client_hello():
    """What TLS begins with."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class StrangersTest(unittest.TestCase):
    def setUp(self):
        self.server = harness.Server(flags=[f"--workers-ready={READY}"])
        self.addCleanup(self.server.__exit__)
        self.strangers = []
        self.addCleanup(lambda: [stranger.close() for stranger in self.strangers])

    def come(self, count, says=b"", hosts=20):
        """Connections from several addresses of the loopback network."""
        host, port = self.server.address.rsplit(":", 1)
        for i in range(count):
            stranger = socket.create_connection((host, int(port)), timeout=30, source_address=(f"127.0.1.{i % hosts + 1}", 0))
            self.strangers.append(stranger)
            if says:
                stranger.sendall(says)

    def expect_service(self, workers):
        for _ in range(3):
            done = harness.run([VECTOR_ADD.binary], "remote", self.server)
            self.assertEqual(done.code, 0, done.stderr + self.server.log_text()[-4000:])
        self.assertLessEqual(len(workers_of(self.server)), workers, self.server.log_text()[-4000:])
        # A line a second, not one for each of them.
        self.assertLess(self.server.log_text().count("dropped"), 60, self.server.log_text()[-4000:])

    def test_f1_who_says_nothing_stops_nobody(self):
        self.come(min(1500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200))  # the lobby holds 256
        self.expect_service(READY + LEAVING)

    def test_f1_who_says_what_he_wants_and_no_more_gets_no_worker(self):
        self.come(400, NEW_SESSION)
        self.expect_service(READY + LEAVING)

    def test_f1_who_begins_tls_and_goes_no_further_has_few_workers(self):
        self.come(100, NEW_SESSION + client_hello(), hosts=1)
        self.expect_service(READY + GREETINGS_PER_HOST + LEAVING)


if __name__ == "__main__":
    unittest.main()
