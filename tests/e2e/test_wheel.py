"""The Python package (E7): the wheel, made and installed into a fresh environment without a network, and what it does there."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

import harness

PROGRAM = pathlib.Path(__file__).with_name("wheel_program.py")
VECTOR_ADD = harness.programs()["vector_add"]
installed = None  # the folder of the environment
wheel = None


def make_wheel(folder, *flags):
    return subprocess.run([harness.ROOT / "python" / "build_wheel", *flags, harness.BUILD, folder], capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"})


def setUpModule():
    global installed, wheel
    if harness.sanitizer_runtime():
        raise unittest.SkipTest("a sanitized build is none that is shipped")
    harness.build_program(VECTOR_ADD)
    folder = tempfile.TemporaryDirectory(prefix="warpline-wheel-")
    unittest.addModuleCleanup(folder.cleanup)
    made = make_wheel(folder.name, "--glibc", "needed")
    assert made.returncode == 0, made.stderr
    wheel = pathlib.Path(made.stdout.strip())
    installed = pathlib.Path(folder.name) / "environment"
    venv.create(installed, with_pip=True)
    done = subprocess.run([installed / "bin" / "pip", "install", "-q", "--no-index", wheel], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(*command, environment=None, seconds=120, cwd=None):
    """Runs a program of the environment, to which nothing of the build's is known."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("WARPLINE_", "CUDA_"))}
    return subprocess.run([installed / "bin" / command[0], *map(str, command[1:])], capture_output=True, text=True, timeout=seconds,
                          env={**clean, "HOME": str(installed), **(environment or {})}, cwd=cwd)


class WheelTest(unittest.TestCase):
    def test_e7_two_builds_are_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            again = make_wheel(folder, "--glibc", "needed")
            self.assertEqual(pathlib.Path(again.stdout.strip()).read_bytes(), wheel.read_bytes())

    def test_e7_no_tag_promises_what_does_not_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            done = make_wheel(folder, "--glibc", "2.2")
            self.assertEqual((done.returncode, os.listdir(folder)), (1, []), done.stderr)
            self.assertRegex(done.stderr, r"needs glibc 2\.\d+: no wheel of it may say that 2\.2 is enough|keeps to itself")

    def test_e7_what_is_in_it(self):
        with zipfile.ZipFile(wheel) as archive:
            self.assertIsNone(archive.testzip())
            names = set(archive.namelist())
        for name in ("__init__.py", "py.typed", "files/bin/warpline", "files/lib/warpline/libcuda.so.1", "files/lib/warpline/libnvidia-ml.so.1"):
            self.assertIn(f"warpline/{name}", names)
        self.assertLess(wheel.stat().st_size, 40e6)
        said = run("pip", "show", "--files", "warpline").stdout
        self.assertIn("Summary: Run CUDA programs", said)
        self.assertEqual(run("pip", "check").returncode, 0)


class CommandTest(unittest.TestCase):
    def test_e7_the_program_by_both_names(self):
        version = harness.warpline("--version").stdout
        self.assertEqual(run("warpline", "--version").stdout, version)
        self.assertEqual(run("python", "-m", "warpline", "--version").stdout, version)
        self.assertIn(version.split()[-1], run("pip", "show", "warpline").stdout)
        self.assertEqual(run("python", "-m", "warpline", "no-such-command").returncode, harness.warpline("no-such-command").returncode)

    def test_e7_run_against_a_server(self):
        with harness.Server() as server:
            done = run("python", "-m", "warpline", "run", "--", VECTOR_ADD.binary, environment=server.environment())
            self.assertEqual((done.returncode, done.stdout), (0, "vector addition: verified\n"), done.stderr)
            done = run("python", "-m", "warpline", "run", "--", "sh", "-c", "exit 37", environment=server.environment())
            self.assertEqual(done.returncode, 37)

    def test_e7_the_software_gpu_is_in_it(self):
        for mode in "--local", "--direct":
            done = run("warpline", "run", mode, "--", VECTOR_ADD.binary)
            self.assertEqual((done.returncode, done.stdout), (0, "vector addition: verified\n"), done.stderr)
        # Without links in it, the management library is found, too.
        done = run("warpline", "run", "--local", "--", "sh", "-c", f"{installed}/bin/warpline servers")
        self.assertRegex(done.stdout, r" \d+% +[\d.]+GiB +software ", done.stderr)


class PackageTest(unittest.TestCase):
    def verify(self, step, *arguments, environment=None, cwd=None):
        done = run("python", PROGRAM, step, *arguments, environment=environment, cwd=cwd)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["verified"]), done.stdout + done.stderr)
        return done

    def test_e7_connect(self):
        with harness.Server(environment={"SOFTGPU_DEVICES": "2"}) as server, tempfile.TemporaryDirectory() as folder:
            self.verify("connect", server.address, server.certificates, cwd=folder)
            self.assertIn("blocking_round_trips", pathlib.Path(f"{folder}/statistics").read_text())

    def test_e7_another_driver_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(harness.SOFTGPU, f"{folder}/libcuda.so.580.65.06")
            for driver in copy, harness.DIRECT_LIB / "libcuda.so.1":
                self.verify("other_driver", driver, environment={"WARPLINE_SERVERS": "127.0.0.1:1"})

    def test_e7_children_connect_by_themselves(self):
        with harness.Server() as server:
            self.verify("fork", environment=server.environment())
            self.assertEqual(server.log_text().count("session start"), 2, server.log_text())

    def test_e7_devices_and_servers(self):
        with harness.Server(environment={"SOFTGPU_DEVICES": "2"}) as server:
            self.verify("devices", server.address, "127.0.0.1:1", environment=server.environment())

    def test_e7_remote_functions(self):
        with harness.Server() as server:
            self.verify("remote", harness.DIRECT_LIB / "libcuda.so.1", environment=server.environment())

    def test_e7_a_remote_function_that_takes_too_long(self):
        with harness.Server() as server, tempfile.TemporaryDirectory() as folder:
            self.verify("timeout", f"{folder}/told", environment=server.environment())
            killed = 'reason="the program was killed"'
            self.assertTrue(harness.until(lambda: killed in server.log_text(), 20), server.log_text())

    def test_e7_a_remote_function_ends_with_who_waits_for_it(self):
        def alive(process):
            try:
                return pathlib.Path(f"/proc/{process}/cmdline").read_bytes() != b""
            except OSError:
                return False

        with harness.Server() as server, tempfile.TemporaryDirectory() as folder:
            for end in signal.SIGINT, signal.SIGKILL:
                told = pathlib.Path(f"{folder}/{end.name}")
                with subprocess.Popen([installed / "bin" / "python", PROGRAM, "wait", told], stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, **server.environment()}) as process:
                    self.assertTrue(harness.until(lambda: told.exists() and told.read_text().endswith("\n")))
                    worker, its_child = map(int, told.read_text().split())
                    process.send_signal(end)
                    if end == signal.SIGINT:
                        self.assertEqual(process.stdout.read(), "verified\n")
                self.assertTrue(harness.until(lambda: not alive(worker)))
                if end == signal.SIGKILL:  # there is nobody left who would know of it
                    os.kill(its_child, signal.SIGKILL)
                self.assertTrue(harness.until(lambda: not alive(its_child)))
            killed = 'reason="the program was killed"'
            self.assertTrue(harness.until(lambda: server.log_text().count(killed) == 2, 20), server.log_text())

    def test_e7_a_killed_program_is_reported(self):
        with harness.Server() as server:
            words = "import warpline, sys; warpline.connect(); print('connected', flush=True); sys.stdin.read()"
            with subprocess.Popen([installed / "bin" / "python", "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, **server.environment()}) as process:
                harness.read_until(process.stdout, "connected")
                process.kill()
            killed = 'reason="the program was killed"'
            self.assertTrue(harness.until(lambda: killed in server.log_text(), 20), server.log_text())


if __name__ == "__main__":
    sys.exit(unittest.main())
