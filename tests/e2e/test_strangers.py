"""Connections of strangers, by the hundred: they cost little, and nobody waits for them (F1)."""

import os
import pathlib
import re
import resource
import signal
import socket
import ssl
import struct
import unittest

import harness
from test_failure import started_as, workers_of, working
from test_security import TO_DOOR

VECTOR_ADD = harness.programs()["vector_add"]
READY = 2  # workers
# Workers that have served one of our programs, or were started for it.
LEAVING = 3
MAX_SESSIONS = 8


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(harness.programs()["until_error"])
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
        self.server = harness.Server(flags=[f"--workers-ready={READY}", f"--max-sessions={MAX_SESSIONS}"])
        self.addCleanup(self.server.__exit__)
        self.strangers = []
        self.addCleanup(lambda: [stranger.close() for stranger in self.strangers])

    def come(self, count, says=b"", hosts=20):
        """Connections from several addresses of the loopback network."""
        host, port = self.server.address.rsplit(":", 1)
        for i in range(count):
            source = f"127.0.{1 + i % hosts // 250}.{1 + i % hosts % 250}"
            stranger = socket.create_connection((host, int(port)), timeout=30, source_address=(source, 0))
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

    def test_f1_who_says_nothing_from_a_host_each_stops_nobody(self):
        """More of them than the lobby holds, and none has more connections than our programs."""
        self.come(600, hosts=600)
        self.expect_service(READY + LEAVING)

    def test_f1_who_says_what_he_wants_and_no_more_gets_no_worker(self):
        self.come(400, TO_DOOR)
        self.expect_service(READY + LEAVING)

    def test_f1_who_begins_tls_and_goes_no_further_gets_no_worker(self):
        self.come(100, TO_DOOR + client_hello(), hosts=1)
        self.expect_service(READY + LEAVING)

    def test_f1_who_begins_tls_from_many_hosts_stops_nobody(self):
        """From far more hosts than there may be sessions, and more connections than the door has threads for."""
        self.come(600, TO_DOOR + client_hello(), hosts=200)
        self.expect_service(READY + LEAVING)

    def room_for_sockets(self):
        """How many messages with one a socket like that to the door holds."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            ours.setblocking(False)
            for count in range(10000):
                try:
                    socket.send_fds(ours, [bytes(104)], [0])
                except BlockingIOError:
                    return count
        self.fail("the socket is never full")

    def test_f1_nobody_is_dropped_while_the_door_has_no_turn(self):
        """More than the socket to the door holds come, and one of ours."""
        door, = started_as(self.server, b"--door-of=")
        descriptors = pathlib.Path(f"/proc/{self.server.process.pid}/fd")
        before = len(list(descriptors.iterdir()))
        os.kill(door, signal.SIGSTOP)
        try:
            self.come(self.room_for_sockets() + 40, TO_DOOR + client_hello(), hosts=320)
            waiting = harness.until(lambda: len(list(descriptors.iterdir())) >= before + 20, 10)
            self.assertTrue(waiting, self.server.log_text()[-4000:])
            program = harness.popen([VECTOR_ADD.binary], "remote", self.server)
            self.addCleanup(lambda: (program.kill(), program.communicate()))
        finally:
            os.kill(door, signal.SIGCONT)
        self.assertEqual(program.wait(60), 0, program.communicate()[1] + self.server.log_text()[-4000:])
        self.assertNotIn("the door does not take it", self.server.log_text())

    def test_f1_who_names_a_session_does_not_harm_it(self):
        """Lanes of a session that runs, by who has seen its number and does not have its key."""
        program = working(self.server)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        session = harness.until(lambda: re.search(r"session start id=([0-9a-f]{32}) .*until_error", self.server.log_text()), 10)
        self.assertTrue(session, self.server.log_text())
        for epoch in range(1, 61):
            lane = b"WLRP" + struct.pack("<HH16sHHI", 2, 2, bytes.fromhex(session[1]), 0, 0, epoch)
            self.come(1, lane + client_hello())
        self.expect_service(READY + LEAVING + 1)
        self.assertIsNone(program.poll(), "the program ended")
        self.assertNotIn("the session goes on over", self.server.log_text())


if __name__ == "__main__":
    unittest.main()
