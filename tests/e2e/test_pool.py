"""Several servers: what they tell, and which one a program goes to (B5, C4)."""

import fcntl
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import harness
from test_failure import working
from test_heartbeat import PATIENT, Patient

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos.proxy import Proxy  # noqa: E402

VECTOR_ADD = harness.programs()["vector_add"]
UNTIL_ERROR = harness.programs()["until_error"]
STARTED = re.compile(r"session start id=")


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(UNTIL_ERROR)
    harness.build_program(PATIENT)


def begun(server):
    """How many sessions a server says that it has had."""
    return len(STARTED.findall(server.log_text()))


class Pool:
    """Some servers with the same certificates. As an argument of harness.run(), it is the pool."""

    def __init__(self, count, flags=(), listen=(), environments=()):
        self.folder = tempfile.TemporaryDirectory(prefix="warpline-pool-")
        self.certificates = harness.development_certificates(pathlib.Path(self.folder.name) / "certs")
        self.servers = []
        for i in range(count):
            place = {"listen": listen[i]} if listen else {}
            place |= {"environment": environments[i]} if environments else {}
            self.servers.append(harness.Server(certificates=self.certificates, flags=[*flags[i:i + 1]], **place))
        self.addresses = [server.address for server in self.servers]

    def environment(self):
        return {**self.servers[0].environment(), "WARPLINE_SERVERS": ",".join(self.addresses), "WARPLINE_LOG": "info",
                "XDG_RUNTIME_DIR": self.folder.name}

    def sessions(self):
        """How many sessions each has had."""
        return [begun(server) for server in self.servers]

    def close(self):
        for server in self.servers:
            server.process.kill()  # sessions of programs that were killed are not waited for
            server.__exit__()
        self.folder.cleanup()


class PoolCase(unittest.TestCase):
    def pool(self, count, flags=(), **options):
        pool = Pool(count, flags, **options)
        self.addCleanup(pool.close)
        return pool

    def run_program(self, pool, code=0, **variables):
        before = sum(pool.sessions())
        done = harness.run([VECTOR_ADD.binary], "remote", pool, extra=variables)
        self.assertEqual(done.code, code, done.stdout + done.stderr)
        # A program may be over before its server has written that it began.
        self.assertTrue(code != 0 or harness.until(lambda: sum(pool.sessions()) > before))
        return done

    def start_working(self, server):
        before = begun(server)
        process = working(server)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertTrue(harness.until(lambda: begun(server) > before))
        return process


class ServersTest(PoolCase):
    def servers(self, pool, *arguments):
        return subprocess.run([harness.WARPLINE, "servers", *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **pool.environment()})

    def test_b5_the_table_tells_sessions_limits_and_who_does_not_answer(self):
        pool = self.pool(2, ["--max-sessions=5", "--max-sessions=6"])
        self.start_working(pool.servers[1])
        nobody = closed_port()
        done = self.servers(pool)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[1], rf"^{pool.addresses[0]} .* 0 / 5 .* no +1 +\d+% +[\d.]+GiB +software \d+\.\d+ +[\d.]+ ms$")
        self.assertRegex(lines[2], rf"^{pool.addresses[1]} .* 1 / 6 .* no +1 +\d+% +[\d.]+GiB +software \d+\.\d+ +[\d.]+ ms$")
        done = self.servers(pool, "--server", pool.addresses[0], "--server", nobody)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout.splitlines()[2], rf"^{nobody} +connection refused")

    def test_c4_a_server_that_drains_says_so(self):
        pool = self.pool(1)
        self.start_working(pool.servers[0])
        pool.servers[0].process.terminate()
        self.wait_for(lambda: "draining: 1 sessions" in pool.servers[0].log_text())
        self.assertRegex(self.servers(pool).stdout.splitlines()[1], r" 1 / 64 +\d+ +yes ")

    def wait_for(self, reached):
        deadline = time.monotonic() + 20
        while not reached() and time.monotonic() < deadline:
            time.sleep(0.02)  # polling with a deadline: a log tells nobody that it has grown
        self.assertTrue(reached())

    def test_f1_a_stranger_is_told_nothing(self):
        pool, others = self.pool(1), self.pool(1)
        stranger = {**others.environment(), "WARPLINE_CA": str(pool.certificates / "ca.crt"), "WARPLINE_SERVERS": pool.addresses[0]}
        done = subprocess.run([harness.WARPLINE, "servers"], capture_output=True, text=True, timeout=60, env={**os.environ, **stranger})
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("/ 64", done.stdout)
        self.assertIn("refused peer=", pool.servers[0].log_text())


def closed_port():
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


class ChoiceTest(PoolCase):
    def test_b5_the_one_with_the_fewest_sessions(self):
        pool = self.pool(3)
        for server in pool.servers[:2]:
            self.start_working(server)
        before = pool.sessions()
        done = self.run_program(pool, WARPLINE_LOG="debug")
        self.assertEqual([after - earlier for after, earlier in zip(pool.sessions(), before)], [0, 0, 1], done.stderr)

    def test_b5_thirty_programs_at_once_spread(self):
        # Workers are ready, as it is the choice that is looked at, not how fast drivers start.
        pool = self.pool(3, ["--workers-ready=12"] * 3)
        # Each then waits for us: thirty that work would leave the servers' machine, which is the same here, to nobody else.
        processes = [Patient(pool) for _ in range(30)]
        try:
            for process in processes:
                process.ask()
            for process in processes:
                process.answer()
            sessions = pool.sessions()
        finally:
            for process in processes:
                process.process.kill()
                process.process.communicate()
        self.assertEqual(sum(sessions), 30, sessions)
        for count in sessions:
            self.assertLessEqual(abs(count - 10), 2, sessions)
        print(f"       spread: {sessions}")

    def test_b5_round_robin_takes_turns(self):
        pool = self.pool(2)
        for _ in range(4):
            self.run_program(pool, WARPLINE_POLICY="round_robin")
        self.assertEqual(pool.sessions(), [2, 2])

    def test_b5_in_order_takes_the_first(self):
        pool = self.pool(2)
        for _ in range(3):
            self.run_program(pool, WARPLINE_POLICY="in_order")
        self.assertEqual(pool.sessions(), [3, 0])

    def busy_pool(self):
        """Three servers; what NVML says of their GPUs is in the files that are returned, too."""
        folder = tempfile.TemporaryDirectory(prefix="warpline-nvml-")
        self.addCleanup(folder.cleanup)
        files = [pathlib.Path(folder.name) / str(i) for i in range(3)]
        pool = self.pool(3, [f"--nvml={harness.FAKE_NVML}"] * 3, environments=[{"FAKE_NVML": str(path)} for path in files])
        for path, address in zip(files, pool.addresses):
            uuid = self.status(address)["devices"][0]["uuid"]
            path.write_text(f"{uuid} 0 {6 << 30} {8 << 30}\n")
        return pool, files

    def status(self, address):
        done = subprocess.run([harness.GPU_SERVER, "status", "--json", "--listen", address], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def say_busy(self, pool, files, loads):
        """Each server's GPU is so busy, in percent, with so many GiB free; returns when the servers say so."""
        for path, address, (percent, free) in zip(files, pool.addresses, loads):
            path.write_text(f"{path.read_text().split()[0]} {percent} {free << 30} {8 << 30}\n")
            told = {"utilisation_percent": percent, "free_bytes": free << 30}
            self.assertTrue(harness.until(lambda: told.items() <= self.status(address)["devices"][0].items()), told)

    def test_c4_the_least_utilised_gpu(self):
        pool, files = self.busy_pool()
        chosen = []
        for loads in ([(80, 8), (20, 1), (90, 8)], [(0, 2), (3, 7), (50, 8)], [(2, 6), (4, 6), (0, 3)]):
            self.say_busy(pool, files, loads)
            before = pool.sessions()
            self.run_program(pool, WARPLINE_POLICY="gpu_utilisation")
            chosen.append([after - earlier for after, earlier in zip(pool.sessions(), before)])
            self.start_working(pool.servers[0])
        # By utilisation; by free memory; the first two are equal, and the first one has sessions.
        self.assertEqual(chosen, [[0, 1, 0], [0, 1, 0], [0, 1, 0]])
        self.say_busy(pool, files, [(10, 6), (90, 6), (40, 6)])
        before = pool.sessions()
        self.run_program(pool, WARPLINE_POLICY="gpu_utilisation")
        self.run_program(pool)
        self.assertEqual([after - earlier for after, earlier in zip(pool.sessions(), before)][0], 1, "sessions count otherwise")
        shown = subprocess.run([harness.WARPLINE, "servers"], capture_output=True, text=True, timeout=60,
                               env={**os.environ, **pool.environment()})
        self.assertRegex(shown.stdout.splitlines()[2], r" 1 +90% +6.0GiB +software ")
        table = subprocess.run([harness.GPU_SERVER, "status", "--listen", pool.addresses[2]], capture_output=True, text=True, timeout=60)
        self.assertRegex(table.stdout, r" MiB +6144 MiB +40 %\n")

    def test_c4_whose_load_is_not_known_comes_last(self):
        pool, files = self.busy_pool()
        self.say_busy(pool, files, [(99, 1)] * 3)
        for path in files[1:]:
            path.write_text("")
        for address in pool.addresses[1:]:
            self.assertTrue(harness.until(lambda: self.status(address)["devices"][0]["utilisation_percent"] is None))
        self.start_working(pool.servers[0])
        self.run_program(pool, WARPLINE_POLICY="gpu_utilisation")
        self.assertEqual(pool.sessions(), [2, 0, 0])
        pool.addresses.pop(0)
        self.start_working(pool.servers[1])
        self.run_program(pool, WARPLINE_POLICY="gpu_utilisation")
        self.assertEqual(pool.sessions(), [2, 1, 1])

    def test_b5_weights(self):
        pool = self.pool(2)
        pool.addresses[1] += "*3"
        self.start_working(pool.servers[1])
        self.run_program(pool, WARPLINE_POLICY="weighted")
        self.assertEqual(pool.sessions(), [0, 2])

    def test_c4_full_and_draining_ones_are_passed_over_and_the_reasons_told(self):
        pool = self.pool(3, ["--max-sessions=1", "--max-sessions=1", "--max-sessions=64"])
        for server in pool.servers[:2]:
            self.start_working(server)
        pool.servers[1].process.terminate()
        self.run_program(pool, WARPLINE_POLICY="in_order")
        self.assertEqual(pool.sessions(), [1, 1, 1])
        pool.addresses[2] = closed_port()
        done = harness.run([VECTOR_ADD.binary], "remote", pool)
        self.assertNotEqual(done.code, 0)
        for reason in (f"{pool.addresses[0]}: it is full: 1 of 1 sessions", f"{pool.addresses[1]}: it is being drained",
                       f"{pool.addresses[2]}: connection refused"):
            self.assertIn(reason, done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if "it is full" in line]), 1, done.stderr)

    def test_c4_a_program_waits_for_a_place(self):
        for count in (1, 2):
            pool = self.pool(count, ["--max-sessions=1"] * count)
            if count > 1:
                pool.addresses.append(closed_port())
            holders = [self.start_working(server) for server in pool.servers]
            waits = harness.popen([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_WAIT": "120"})
            self.addCleanup(waits.kill)
            said = harness.read_until(waits.stderr, "waiting for a place")
            self.assertIn("it is full: 1 of 1 sessions", said)
            holders[-1].kill()
            out, err = waits.communicate(timeout=60)
            self.assertEqual(waits.returncode, 0, said + out + err)
            self.assertEqual(pool.sessions()[-1], 2)
        # Nobody waits for what is not there.
        pool.addresses[:] = [closed_port()]
        done = harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_WAIT": "120"})
        self.assertNotEqual(done.code, 0)
        self.assertNotIn("waiting for a place", done.stderr)

    def test_c4_dead_servers_cost_nothing(self):
        pool = self.pool(1)
        with socket.socket() as silent:
            # Takes connections and never says anything.
            silent.bind(("127.0.0.1", 0))
            silent.listen(8)
            pool.addresses = [f"127.0.0.1:{silent.getsockname()[1]}", closed_port(), *pool.addresses]
            began = time.monotonic()
            self.run_program(pool, WARPLINE_CONNECT_TIMEOUT="60")
            self.assertLess(time.monotonic() - began, 30, "a server that is silent was waited for")
        self.assertEqual(pool.sessions(), [1])

    def test_c4_a_server_that_has_failed_rests(self):
        pool = self.pool(1)
        resting = pathlib.Path(pool.folder.name) / f"warpline-resting-{os.getuid()}"
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(8)
            silent.settimeout(20)
            silent_address = f"127.0.0.1:{silent.getsockname()[1]}"
            pool.addresses.insert(0, silent_address)
            self.run_program(pool, WARPLINE_CONNECT_TIMEOUT="1")
            silent.accept()[0].close()
            failures, until, who = resting.read_text().split()
            self.assertEqual((failures, who), ("1", silent_address))
            self.assertLess(int(until), (time.time() + 3) * 1000)
            # As if it had failed often.
            resting.write_text(f"5 {int((time.time() + 50) * 1000)} {silent_address}\n")
            done = self.run_program(pool)
            self.assertIn(f"{silent_address}: has failed lately", done.stderr)
            # Nobody else is left.
            pool.addresses[1] = closed_port()
            done = harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_CONNECT_TIMEOUT": "1"})
            self.assertNotEqual(done.code, 0)
            self.assertIn(f"TLS handshake with {silent_address} took too long", done.stderr)
            silent.accept()[0].close()
            silent.settimeout(0)
            with self.assertRaises(BlockingIOError, msg="it was asked while it rested"):
                silent.accept()
        # Without quarantine nobody is remembered.
        resting.unlink()
        self.assertNotEqual(harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_QUARANTINE": "0"}).code, 0)
        self.assertFalse(resting.exists())

    def test_c4_a_look_by_hand_ends_the_rest(self):
        pool = self.pool(2)
        resting = pathlib.Path(pool.folder.name) / f"warpline-resting-{os.getuid()}"
        resting.write_text(f"5 {int((time.time() + 50) * 1000)} {pool.addresses[0]}\n")
        self.run_program(pool, WARPLINE_POLICY="in_order")
        self.assertEqual(pool.sessions(), [0, 1])
        subprocess.run([harness.WARPLINE, "servers"], check=True, capture_output=True, timeout=60,
                       env={**os.environ, **pool.environment()})
        self.run_program(pool, WARPLINE_POLICY="in_order")
        self.assertEqual(pool.sessions(), [1, 1])

    def test_c4_a_program_that_is_stopped_with_a_shared_file_holds_up_nobody(self):
        pool = self.pool(2)
        resting = pathlib.Path(pool.folder.name) / f"warpline-resting-{os.getuid()}"
        with resting.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = self.run_program(pool)
        self.assertIn(f"{resting}: another program has it", done.stderr)
        self.assertNotIn("another program has it", self.run_program(pool).stderr)

    def test_b5_one_server_alone_is_not_asked(self):
        """There is the connection that opens the session and the one that carries it, and none before them."""
        pool = self.pool(1)
        with Proxy(pool.servers[0]) as proxy:
            pool.addresses = [proxy.address]
            self.run_program(pool)
            self.assertEqual(len(proxy.totals), 2)
        self.assertEqual(pool.sessions(), [1])

    def test_b5_what_is_no_policy_is_told(self):
        pool = self.pool(2)
        done = harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_POLICY": "best"})
        self.assertNotEqual(done.code, 0)
        self.assertIn("'best' is no way to choose a server", done.stderr)


if __name__ == "__main__":
    unittest.main()
