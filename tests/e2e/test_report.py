"""Programs under `warpline run`: it takes nothing from them and adds nothing, but for one thing: the server learns at once when one
of them has died, and therefore waits for those that live as long as its grace time says (C2, C3, E1)."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import harness
import test_local

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos import processes, runs  # noqa: E402
from chaos.proxy import Proxy  # noqa: E402

VECTOR_ADD = harness.programs()["vector_add"]
UNTIL_ERROR = harness.programs()["until_error"]
# Where nobody reports, the session of a program that was killed is kept for five seconds; where somebody does, and is not heard, for
# the thirty of the grace time.
SOON = 4
LONGER_THAN_IN_DOUBT = 6
KILLED = 'reason="the program was killed"'

# A program in which a test has a say.
OBEDIENT = """
import ctypes, os, socket, stat, sys
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
    assert result == 0, result
print("working", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "close":  # as who closes all descriptors that it does not know: the watcher's socket is among them
        for fd in range(3, 1024):
            try:
                unix = stat.S_ISSOCK(os.fstat(fd).st_mode) and socket.socket(fileno=os.dup(fd)).family == socket.AF_UNIX
            except OSError:
                continue
            if unix:
                os.close(fd)
                print("closed", flush=True)
    elif word == "fork":  # a child that lives on, with copies of all descriptors
        child = os.fork()
        if child == 0:
            sys.stdin.read()
            os._exit(0)
        print(child, flush=True)
    elif word == "synchronize":
        print(cuda.cuCtxSynchronize(), flush=True)
"""


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(UNTIL_ERROR)


def start(server, *command, **environment):
    words = [str(c) for c in command]
    runtime = harness.sanitizer_runtime()
    if runtime:  # programs are not instrumented: the run time has to come before them
        environment["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"
        words[:0] = ["sh", "-c", f'LD_PRELOAD="{runtime}:$LD_PRELOAD" exec "$@"', "sh"]
    return subprocess.Popen([harness.WARPLINE, "run", "--", *words], env={**os.environ, **server.environment(), **environment},
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def watcher_of(pid):
    """The name of the socket at which the watcher of a program listens."""
    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(v.removeprefix(b"WARPLINE_REPORT=").decode() for v in variables if v.startswith(b"WARPLINE_REPORT="))


def is_watched(name):
    return name in pathlib.Path("/proc/net/unix").read_text()


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.server = harness.Server()
        self.addCleanup(self.server.__exit__)

    def working(self, *command, server=None, **environment):
        process = start(server or self.server, *command, **environment)
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        if line != "working\n":
            process.kill()
            self.fail(f"{line!r}; {process.communicate()}")
        return process, processes.worker_of(self.server, process.pid)

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def said(self, process, word):
        process.stdin.write(word + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    def expect_reported(self, worker, count=1):
        self.assertTrue(processes.gone([worker], SOON), self.server.log_text())
        self.expect_audit(count)

    def expect_audit(self, count):
        processes.until(lambda: self.server.log_text().count(KILLED) >= count, 10)  # the supervisor's, a moment after the worker's end
        self.assertEqual(self.server.log_text().count(KILLED), count, self.server.log_text())

    def expect_nobody_watches(self, name):
        self.assertTrue(processes.until(lambda: not is_watched(name), 10))

    def test_a_killed_program_is_not_waited_for(self):
        process, worker = self.working(UNTIL_ERROR.binary)
        name = watcher_of(process.pid)
        self.assertTrue(is_watched(name))
        process.kill()
        self.expect_reported(worker)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.expect_nobody_watches(name)

    def test_one_of_two_programs_of_a_script_is_killed(self):
        script = start(self.server, "sh", "-c", '"$1" & echo $!; "$1" & echo $!; wait', "sh", UNTIL_ERROR.binary)
        lines = [script.stdout.readline().strip() for _ in range(4)]
        self.assertEqual(lines.count("working"), 2, lines)
        first, second = (int(line) for line in lines if line != "working")
        for pid in (first, second):
            self.addCleanup(lambda p=pid: os.path.exists(f"/proc/{p}") and os.kill(p, signal.SIGKILL))
        name = watcher_of(script.pid)
        workers = [processes.worker_of(self.server, pid) for pid in (first, second)]
        os.kill(first, signal.SIGKILL)
        self.expect_reported(workers[0])
        self.assertFalse(processes.gone([workers[1]], 0), self.server.log_text())
        # The script has gone, too: whom it started is still watched.
        script.kill()
        script.wait()
        self.assertTrue(is_watched(name))
        os.kill(second, signal.SIGKILL)
        self.expect_reported(workers[1], 2)
        self.expect_nobody_watches(name)
        script.communicate()

    def test_the_kernel_says_that_a_program_on_a_unix_socket_is_dead(self):
        server = test_local.LocalServer()
        self.addCleanup(server.__exit__)
        process = harness.popen([UNTIL_ERROR.binary], "remote", test_local.AsUser(server))
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "working\n")
        worker = processes.worker_of(server, process.pid)
        process.kill()
        self.assertTrue(processes.gone([worker], SOON), server.log_text())
        self.assertTrue(processes.until(lambda: KILLED in server.log_text(), 10), server.log_text())
        self.assertNotIn("the session is kept", server.log_text())

    def test_an_outage_with_resets_is_survived_for_longer_than_in_doubt(self):
        with Proxy(self.server) as proxy:
            process, worker = self.working(UNTIL_ERROR.binary, server=proxy)
            proxy.hold_network()
            proxy.cut()
            time.sleep(LONGER_THAN_IN_DOUBT)  # the time is the subject
            self.assertFalse(processes.gone([worker], 0), self.server.log_text())
            proxy.release()
            self.assertTrue(processes.until(lambda: "the session goes on over a connection" in self.server.log_text(), 30), self.server.log_text())
            self.assertIsNone(process.poll())
            self.assertIn("the session is kept for 30000 ms", self.server.log_text())
            process.kill()
            self.expect_reported(worker)

    def test_who_is_killed_in_an_outage_is_reported_after_it(self):
        with Proxy(self.server) as proxy:
            process, worker = self.working(UNTIL_ERROR.binary, server=proxy)
            name = watcher_of(process.pid)
            proxy.hold_network()
            process.kill()
            # Whoever waits for the program, or for the end of its streams, does not wait for the watcher.
            process.communicate(timeout=30)
            self.assertTrue(is_watched(name))
            self.assertNotIn(KILLED, self.server.log_text())
            proxy.release()
            self.assertTrue(processes.gone([worker], 20), self.server.log_text())
            self.expect_audit(1)
            self.expect_nobody_watches(name)

    def test_a_program_that_closes_its_descriptors_lives(self):
        process, worker = self.working(sys.executable, "-c", OBEDIENT)
        self.assertEqual(self.said(process, "close"), "closed")
        self.assertEqual(self.said(process, "synchronize"), "0")
        # Whatever the watcher made of that, it has done when it has heard of another program's death.
        other = harness.popen([UNTIL_ERROR.binary], "remote", self.server, {"WARPLINE_REPORT": watcher_of(process.pid)})
        self.assertEqual(other.stdout.readline(), "working\n")
        others = processes.worker_of(self.server, other.pid)
        self.end(other)
        self.expect_reported(others)
        self.assertEqual(self.said(process, "synchronize"), "0")
        process.kill()
        self.expect_reported(worker, 2)

    def test_a_forked_child_does_not_hide_the_death(self):
        process, worker = self.working(sys.executable, "-c", OBEDIENT)
        child = int(self.said(process, "fork"))
        try:
            process.kill()
            process.wait()
            self.expect_reported(worker)
            self.assertIn(processes.state(child), "RS")
        finally:
            os.kill(child, signal.SIGKILL)

    def test_who_ends_in_peace_is_not_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            process = start(self.server, "sh", "-c", 'echo "$WARPLINE_REPORT"; "$1"', "sh", VECTOR_ADD.binary, TMPDIR=folder)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            name, verified = out.splitlines()
            self.assertEqual(verified, "vector addition: verified")
            self.assertEqual(os.listdir(folder), [])
        self.expect_nobody_watches(name)
        self.assertTrue(processes.until(lambda: "session end" in self.server.log_text(), 10))
        self.assertNotIn("says that the program is dead", self.server.log_text())

    def test_the_program_has_the_place_of_the_command(self):
        for script, expected in (("exit 37", 37), ("kill -USR1 $$", -signal.SIGUSR1), ("kill -TERM $$", -signal.SIGTERM)):
            process = start(self.server, "sh", "-c", f"echo $$ $PPID; cat; echo said >&2; {script}")
            out, err = process.communicate("in and out", timeout=60)
            self.assertEqual((process.returncode, out, err), (expected, f"{process.pid} {os.getpid()}\nin and out", "said\n"))
        # It has no child that it does not know.
        process = start(self.server, "python3", "-c", "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')")
        self.assertEqual(process.communicate(timeout=60)[0], "none\n")
        process = start(self.server, "/no/such/program")
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 127)


if __name__ == "__main__":
    unittest.main()
