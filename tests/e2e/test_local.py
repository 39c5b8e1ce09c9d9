"""Programs and server on one machine: Unix sockets, users in place of certificates, shared memory, vsock (B9)."""

import json
import os
import pathlib
import pwd
import re
import socket
import stat
import subprocess
import tempfile
import unittest

import harness
from local_relay import Relay

VECTOR_ADD = harness.programs()["vector_add"]
COPIES = harness.programs()["copies"]
BULK = harness.programs()["bulk"]
GRAPH_COPIES = harness.programs()["graph_host_copies"]
PATIENCE = 120
MIB = 1 << 20
NO_CERTIFICATE = {"WARPLINE_CERT": "/nowhere/tenant.crt", "WARPLINE_KEY": "/nowhere/tenant.key", "WARPLINE_CA": "/nowhere/ca.crt"}


def setUpModule():
    for program in (VECTOR_ADD, COPIES, BULK, GRAPH_COPIES):
        harness.build_program(program)


class LocalServer(harness.Server):
    """A server at a Unix socket, and at other addresses."""

    def __init__(self, *flags, tenants="self", others=()):
        self.socket_folder = tempfile.TemporaryDirectory(prefix="warpline-unix-")
        self.path = f"{self.socket_folder.name}/server"
        tenancy = ["--unix-tenants", tenants] if tenants else []
        super().__init__(listen=",".join([f"unix:{self.path}", *others]), flags=[*tenancy, *flags])

    def __exit__(self, *_):
        super().__exit__()
        self.socket_folder.cleanup()


class Seen:
    """A server, as programs with another environment see it."""

    def __init__(self, server, **changes):
        self.server, self.address, self.changes = server, server.address, changes

    def environment(self):
        return {**self.server.environment(), **self.changes}


class AsUser(Seen):
    """… without a certificate."""

    def __init__(self, server, **changes):
        super().__init__(server, **NO_CERTIFICATE, **changes)


class LocalTest(unittest.TestCase):
    def server(self, *flags, **options):
        server = LocalServer(*flags, **options)
        self.addCleanup(server.__exit__)
        return server

    def run_program(self, server, program=VECTOR_ADD, args=(), extra=None, log=None):
        done = harness.run([program.binary, *args], "remote", server, extra=extra, seconds=PATIENCE)
        self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}\n{(log or server).log_text()}")
        self.assertIsNone(harness.wrong_output(program, done.stdout))
        return done.stats

    def expect_refused(self, server, *words, extra=None):
        done = harness.run([VECTOR_ADD.binary], "remote", server, extra=extra)
        self.assertNotEqual(done.code, 0)
        for word in words:
            self.assertIn(word, done.stderr)

    # ---- who comes, and over what

    def test_b9_the_kernel_says_who_the_user_is(self):
        server = self.server()
        stats = self.run_program(AsUser(server), log=server)
        self.assertEqual((stats["connection"], stats["cipher"]), ("unix", ""))
        user = pwd.getpwuid(os.getuid()).pw_name
        started = re.search(rf'session start .* tenant="{user}" peer=user:{os.getuid()}:\d+ ', server.log_text())
        self.assertTrue(started, server.log_text())

    def test_b9_tenants_are_named_by_the_servers_owner(self):
        server = self.server(tenants=f"{os.getuid()}=blue")
        self.run_program(AsUser(server), log=server)
        self.assertIn('tenant="blue"', server.log_text())

    def test_b9_nobody_comes_without_a_certificate_unless_the_owner_says_so(self):
        server = self.server(tenants=None)
        self.expect_refused(AsUser(server), server.address, "it takes nobody without a certificate", "unix_tenants")
        self.run_program(server)  # with one

    def test_b9_another_user_is_refused(self):
        server = self.server(tenants="4711")
        self.expect_refused(AsUser(server), f"user {os.getuid()} has no place here without a certificate")
        refused = harness.until(lambda: re.search(rf"refused peer=user:{os.getuid()}:\d+ ", server.log_text()))
        self.assertTrue(refused, server.log_text())

    @unittest.skipIf(os.getuid() != 0, "only root can be somebody else")
    def test_b9_another_users_process_is_refused(self):
        server = self.server("--unix-mode", "0666")
        pathlib.Path(server.socket_folder.name).chmod(0o755)
        done = subprocess.run([harness.WARPLINE, "ping", "--server", server.address], user=4711, group=4711, extra_groups=[],
                              capture_output=True, text=True, timeout=60, cwd="/",
                              env={**os.environ, **NO_CERTIFICATE, "HOME": "/", "XDG_RUNTIME_DIR": "/nowhere"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("user 4711 has no place here", done.stdout + done.stderr)

    def test_b9_certificates_do_as_well(self):
        server = self.server(tenants=None)
        stats = self.run_program(server)
        self.assertEqual(stats["connection"], "unix")
        self.assertTrue(stats["cipher"].startswith("TLS_"), stats["cipher"])

    def test_b9_who_has_a_certificate_may_come_as_a_user(self):
        server = self.server()
        stats = self.run_program(server, extra={"WARPLINE_UNIX_IDENTITY": "user"})
        self.assertEqual(stats["cipher"], "")
        self.expect_refused(AsUser(server), "WARPLINE_CERT", extra={"WARPLINE_UNIX_IDENTITY": "certificate"})

    def test_b9_a_user_is_nobody_elsewhere(self):
        server = self.server(others=["127.0.0.1:0"])
        port = re.search(r"Listening on .*127\.0\.0\.1:(\d+)", server.log_text())[1]
        self.expect_refused(AsUser(server, WARPLINE_SERVERS=f"127.0.0.1:{port}"), "WARPLINE_CERT")
        # One of several will do.
        stats = self.run_program(AsUser(server, WARPLINE_SERVERS=f"127.0.0.1:{port},{server.address}"), log=server)
        self.assertEqual(stats["connection"], "unix")
        stats = self.run_program(Seen(server, WARPLINE_SERVERS=f"127.0.0.1:{port}"), log=server)
        self.assertEqual(stats["connection"], "tcp")

    def test_b9_commands_take_the_same_addresses(self):
        server = self.server()
        for command in ("ping", "servers", "devices"):
            done = subprocess.run([harness.WARPLINE, command, "--server", server.address], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, **AsUser(server).environment()})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(server.address, done.stdout)
        done = subprocess.run([harness.GPU_SERVER, "status", "--json", "--listen", server.address], capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout)["address"], server.address, done.stderr)

    def test_b9_the_socket_has_its_mode_and_goes_with_the_server(self):
        server = self.server("--unix-mode", "0660")
        self.assertEqual(stat.S_IMODE(os.stat(server.path).st_mode), 0o660)
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(server.path))

    def test_b9_vsock_reaches_the_same_server(self):
        port = 20_000 + os.getpid() % 40_000
        try:
            with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as probe, socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as other:
                probe.bind((socket.VMADDR_CID_ANY, port))
                probe.listen(1)
                other.settimeout(2)
                other.connect((1, port))
        except OSError as error:
            self.skipTest(f"this kernel has no loopback of vsock: {error}")
        server = self.server(others=[f"vsock:{port}"])
        stats = self.run_program(Seen(server, WARPLINE_SERVERS=f"vsock:1:{port}"), log=server)
        self.assertEqual(stats["connection"], "vsock")
        self.assertTrue(stats["cipher"].startswith("TLS_"))
        self.assertEqual(stats["shared_bytes_sent"], 0)

    # ---- shared memory

    def expect_shared(self, stats, sent=0, received=0):
        self.assertGreaterEqual(stats["shared_bytes_sent"], sent, stats)
        self.assertGreaterEqual(stats["shared_bytes_received"], received, stats)
        self.assertLess(stats["bytes_sent"], 16 * MIB, "most of it went through the socket")
        self.assertLess(stats["bytes_received"], 16 * MIB, "most of it came through the socket")

    def test_b9_large_copies_lie_in_shared_memory(self):
        server = self.server()
        for environment in (AsUser(server), server):  # without TLS, and with it
            self.expect_shared(self.run_program(environment, BULK, ["upload"], log=server), sent=256 * MIB, received=256 * MIB)
            for what in (["rows", "sync"], ["rows", "async"], ["back"], ["query", "upload"], ["query", "download"]):
                with self.subTest(what=what):
                    stats = self.run_program(environment, BULK, what, log=server)
                    self.assertGreater(stats["shared_bytes_sent"] + stats["shared_bytes_received"], 64 * MIB, stats)
        for program in (COPIES, GRAPH_COPIES):
            self.run_program(AsUser(server), program, log=server)

    def test_b9_copies_of_several_streams_do_not_mix(self):
        """What the server has said the place of is kept until the client has copied it."""
        server = self.server()
        for environment in (AsUser(server), server):
            stats = self.run_program(environment, BULK, ["several"], log=server)
            self.assertGreater(stats["shared_bytes_received"], 64 * MIB, stats)

    def test_b9_either_side_can_do_without(self):
        for flags, extra in ([], {"WARPLINE_DISABLE": "shm"}), (["--disable", "shm"], {}):
            server = self.server(*flags)
            stats = self.run_program(AsUser(server), BULK, ["upload"], extra=extra, log=server)
            self.assertEqual((stats["shared_bytes_sent"], stats["shared_bytes_received"]), (0, 0))
            self.assertGreater(stats["bytes_sent"], 256 * MIB)

    def test_b9_copies_go_through_little_memory(self):
        server = self.server("--staging-memory=24MiB")
        self.run_program(AsUser(server), BULK, ["back"], log=server)
        self.run_program(AsUser(server), BULK, ["rows", "async"], log=server)

    def test_c2_sessions_survive_the_loss_of_their_connections(self):
        """What lay in shared memory when the connection was lost is found there again."""
        server = self.server()
        cuts = [30_000, 50_000, 75_000]
        for environment in (AsUser(server), server):
            for what in (["upload"], ["rows", "sync"], ["rows", "async"], ["back"]):
                with self.subTest(what=what), Relay(environment, cuts) as relay:
                    stats = self.run_program(relay, BULK, what, log=server)
                    self.assertEqual(relay.cut_after, [], "the program was done before")
                    self.assertGreaterEqual(stats["reconnects"], 1, stats)
                    self.assertEqual(relay.descriptors, 1, "one session, one memory")
                    self.assertGreater(stats["shared_bytes_sent"] + stats["shared_bytes_received"], 64 * MIB, stats)

    # ---- a private server

    def run_local(self, program, *args, flags=()):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "stats.json"
            done = harness.warpline("run", "--local", *flags, "--stats", path, "--", program.binary, *args,
                                    environment=NO_CERTIFICATE, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(path.read_text().splitlines()[0])

    def test_b9_run_local_uses_all_of_it(self):
        stats = self.run_local(BULK, "upload")
        self.assertEqual((stats["connection"], stats["cipher"]), ("unix", ""))
        self.expect_shared(stats, sent=256 * MIB, received=256 * MIB)

    def test_b9_run_local_can_be_as_with_a_server_elsewhere(self):
        stats = self.run_local(VECTOR_ADD, flags=["--tcp"])
        self.assertEqual(stats["connection"], "tcp")
        self.assertTrue(stats["cipher"].startswith("TLS_"), stats["cipher"])


if __name__ == "__main__":
    unittest.main()
