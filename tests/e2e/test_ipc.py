"""Memory and events that processes share through a server (A2): who may have them, and who may not."""

import os
import pathlib
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos import processes  # noqa: E402

SHARES = harness.programs()["shares"]
OTHER_SERVER = "on another server"
NOT_THERE = "no session of this tenant on the server shares it"
# Of CUDA's run time: a handle that is none, or no longer.
INVALID = 400
NO_EVENT = 205  # bytes that are no handle of an event


def setUpModule():
    harness.build_program(SHARES)
    harness.build_program(harness.programs()["processes"])


class Giver:
    """A program that shares memory and an event, until it is told to end."""

    def __init__(self, server, *how, **environment):
        self.process = harness.popen([SHARES.binary, "give", *how], "remote", server, environment, stdin=subprocess.PIPE)
        self.handles = self.process.stdout.readline().split()

    def free(self):
        self.process.stdin.write("f\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "freed\n"

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(60)
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, said


class SharesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server().__enter__()
        subprocess.run([harness.ROOT / "certs" / "enrol-tenant", "--dir", cls.server.certificates, "other"], check=True,
                       capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def setUp(self):
        self.giver = Giver(self.server)
        self.assertEqual(len(self.giver.handles), 2, "nothing is shared")
        self.ended = False

    def tearDown(self):
        if not self.ended:
            code, said = self.giver.end()
            self.assertEqual(code, 0, said + self.server.log_text())

    def take(self, memory=0, event=0, handles=None, server=None, **environment):
        """Opens what the giver shares, or says it shares; returns what was said."""
        command = [SHARES.binary, "take", *(handles or self.giver.handles)]
        done = harness.run(command, "remote", server or self.server, environment)
        said = done.stderr + self.server.log_text()
        self.assertEqual(done.code, 0, said)
        self.assertEqual(done.stdout, f"memory {memory} event {event}\n", said)
        return done.stderr

    def test_a2_another_process_of_the_tenant(self):
        self.assertEqual(self.take(), "")
        self.assertEqual(self.take(), "")  # and another one, when the first has closed them

    def test_a2_a_process_of_another_tenant_is_refused(self):
        folder = self.server.certificates / "tenants" / "other"
        other = {"WARPLINE_CERT": str(folder / "tenant.crt"), "WARPLINE_KEY": str(folder / "tenant.key")}
        # What the server says of itself to its owner; the stranger learns nothing that he does not know.
        environment = {**self.server.environment(), **other}
        done = subprocess.run([SHARES.binary, "take", *self.giver.handles], env={**harness.environment_for("remote", self.server), **environment},
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, f"memory {INVALID} event {INVALID}\n"), done.stderr)
        self.assertIn(NOT_THERE, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(self.server.log_text(), r'refused id=\S+ tenant="other" reason="it asked for what session \S+ of another tenant')
        self.take()  # the owner's other processes go on

    def test_a2_a_process_on_another_server_is_refused(self):
        with harness.Server(certificates=self.server.certificates) as elsewhere:
            said = self.take(INVALID, INVALID, server=elsewhere)
        self.assertIn(OTHER_SERVER, said)
        self.assertEqual(said.count("\n"), 1, said)

    def test_a2_memory_that_is_freed_is_not_to_be_had(self):
        self.giver.free()
        self.assertIn(NOT_THERE, self.take(INVALID, 0))

    def test_a2_memory_that_is_freed_beside_others_is_not_to_be_had(self):
        """What lies there next is something else: its bytes would be taken for what was shared."""
        giver = Giver(self.server, "small")
        try:
            giver.free()
            self.assertIn(NOT_THERE, self.take(INVALID, 0, handles=giver.handles))
        finally:
            code, said = giver.end()
        self.assertEqual(code, 0, said)

    def test_a2_handles_end_with_their_process(self):
        code, said = self.giver.end()
        self.ended = True
        self.assertEqual(code, 0, said)
        # The worker ends when its client has said goodbye.
        self.assertTrue(processes.until(lambda: "session end" in self.server.log_text().rsplit("session start", 1)[1], 20))
        self.assertIn(NOT_THERE, self.take(INVALID, INVALID))

    def test_a2_forged_handles_are_refused(self):
        memory, event = self.giver.handles
        for byte in (0, 4, 5, 8, 20, 40):  # magic, version, kind, server, session, key
            forged = [f"{text[:2 * byte]}{int(text[2 * byte:2 * byte + 2], 16) ^ 1:02x}{text[2 * byte + 2:]}" for text in (memory, event)]
            self.assertNotEqual(self.take(INVALID, INVALID if byte > 5 else NO_EVENT, forged), "")
        self.take(INVALID, NO_EVENT, [event, memory])
        self.take()

    def test_a2_a_handle_that_lies_about_its_size(self):
        memory, event = self.giver.handles
        for size in (0, 1, 4 << 20, 1 << 46, (1 << 64) - (2 << 20)):  # the true one is 2 MiB
            lying = memory[:96] + size.to_bytes(8, "little").hex() + memory[112:]
            command = [SHARES.binary, "take", lying, event]
            done = harness.run(command, "remote", self.server)
            self.assertEqual(done.code, 0, done.stderr)
            self.assertRegex(done.stdout, rf"memory ({INVALID}|2) event 0\n")
        self.take()

    def test_a2_descriptors_that_are_closed_leave_nothing_on_the_server(self):
        process = harness.popen([SHARES.binary, "many"], "remote", self.server, stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "many\n")
        worker = processes.worker_of(self.server, process.pid)
        links = [os.readlink(link) for link in pathlib.Path(f"/proc/{worker}/fd").iterdir()]
        self.assertLess(len([link for link in links if "softgpu-shared" in link]), 5, links)
        _, said = process.communicate("\n", timeout=60)
        self.assertEqual(process.returncode, 0, said)


class ProcessesTest(unittest.TestCase):
    """Two processes that work together, in other surroundings than test_programs has."""

    def work(self, environment):
        for mode in ("handles", "mappings", "pool"):
            done = harness.run([harness.programs()["processes"].binary, mode], "remote", self.server, environment)
            self.assertEqual(done.code, 0, f"{mode}: {done.stdout}{done.stderr}{self.server.log_text()}")

    def test_a2_without_optimisations(self):
        with harness.Server() as self.server:
            self.work({"WARPLINE_DISABLE": "all"})

    def test_a2_who_waits_for_a_dead_process_is_told(self):
        told = {"SOFTGPU_PROFILE": "generous,lost_events=told"}
        with harness.Server(environment=told) as self.server:
            for mode in ("direct", "remote"):
                done = harness.run([harness.programs()["processes"].binary, "told"], mode, self.server, extra=told)
                self.assertEqual(done.code, 0, f"{mode}: {done.stdout}{done.stderr}{self.server.log_text()}")

    def test_a2_over_a_unix_socket(self):
        done = harness.warpline("run", "--local", "--", harness.programs()["processes"].binary, "handles")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a2_on_several_servers(self):
        with harness.Server() as self.server, harness.Server(certificates=self.server.certificates) as second:
            pool = {"WARPLINE_SERVERS": f"{self.server.address},{second.address}"}
            environment = {**harness.environment_for("remote", self.server), **pool, "WARPLINE_POLICY": "in_order"}
            command = [str(harness.programs()["processes"].binary), "handles"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            # Each process goes where the fewest sessions are.
            environment["WARPLINE_POLICY"] = "least_connections"
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn(OTHER_SERVER, done.stderr)


if __name__ == "__main__":
    unittest.main()
