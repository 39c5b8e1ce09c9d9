"""scripts/test-gpu as it would run on a machine with a GPU: from an archive unpacked into an empty folder, with Python and libc only, and
the software GPU in the role of the driver (A1, A2)."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import harness

TESTS = harness.ROOT / "tests" / "gpu"
sys.path.insert(0, str(TESTS))
import confinement  # noqa: E402
import report as reports  # noqa: E402

# What of a system's commands the scripts may use: no compiler, no openssl, no package manager.
COMMANDS = ["bash", "dirname", "nproc", "sed", "ldd", "env"]


@unittest.skipIf(harness.sanitizer_runtime(), "what is packed runs without the machine's sanitizers")
class RehearsalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in ("vector_add", "copies"):
            harness.build_program(harness.programs()[name])
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-rehearsal-"))
        archive = cls.folder / "packed.tar.gz"
        done = subprocess.run([sys.executable, TESTS / "run.py", "--pack", archive, "vector_add", "copies"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        subprocess.run(["tar", "xf", archive, "-C", cls.folder], check=True)
        archive.unlink()
        cls.root = cls.folder / "warpline-gpu-test"
        tools = cls.folder / "commands"
        tools.mkdir()
        for command in COMMANDS:
            (tools / command).symlink_to(shutil.which(command))
        (tools / "python3").symlink_to(sys.executable)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def rehearse(self, profile, *flags):
        """Runs scripts/test-gpu on the software GPU of a profile; returns (exit code, what was printed, the report's rows by id)."""
        path = self.folder / "report.txt"
        environment = {"PATH": str(self.folder / "commands"), "SOFTGPU_PROFILE": profile, "HOME": str(self.folder),
                       "WARPLINE_DRIVER": str(self.root / "build/release/lib/libsoftgpu.so")}
        done = subprocess.run([self.root / "scripts/test-gpu", "--short", "--report", path, *flags], env=environment, capture_output=True,
                              text=True, timeout=300)
        said = done.stdout + done.stderr
        self.assertTrue(path.exists(), said)
        rows = {row["id"]: row for row in reports.read(path)["rows"]}
        return done.returncode, said, rows

    def test_on_the_strict_profile(self):
        code, said, rows = self.rehearse("strict")
        self.assertEqual(code, 0, said)
        self.assertEqual([id for id, row in rows.items() if row["status"] == "failed"], [], said)
        different = {(id, d[0]) for id, row in rows.items() for d in row.get("differences", []) if "through a server" not in d[0]}
        self.assertEqual({id for id, _ in different if not id.startswith("arguments")}, set(), said)
        for id in ("in_relaxed_capture/free", "launch_queue_depth", "near_full_memory", "calls_outside_the_filter", "vector_add", "copies",
                   "arguments directly", "arguments through a server"):
            self.assertIn(rows[id]["status"], ("same", "differs"), said)
        self.assertEqual(rows["vector_add"]["status"], "same", said)
        self.assertEqual(rows["launch_queue_depth"]["answer"]["values"]["waits"], True, said)
        self.assertNotIn(str(harness.ROOT), said)

    def test_another_driver_makes_differences(self):
        _, said, rows = self.rehearse("generous", "vector_add")
        for id, what in (("in_relaxed_capture/synchronise", "result"), ("launch_queue_depth", "waits"),
                         ("host_functions_of_two_streams", "run_beside_each_other")):
            self.assertEqual(rows[id]["status"], "differs", said)
            self.assertIn(what, [d[0] for d in rows[id]["differences"]], said)
            self.assertIn(id, said[said.index("What differs"):])


class ConfinementTest(unittest.TestCase):
    def test_what_a_driver_does_outside_the_filter_is_seen(self):
        class Binding:
            """A driver that opens a socket to wait on as it compiles."""

            def context(self, *_):
                pass

            def kernels(self):
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind("\0warpline-test-" + str(os.getpid()))

            def memory(self, _):
                pass

            def devices(self):
                return 1

            def call(self, *_):
                pass

        own, confinement.Driver = confinement.Driver, Binding
        try:
            found = confinement.calls_outside_the_filter(None)
        except confinement.NotHere as missing:
            self.skipTest(str(missing))
        finally:
            confinement.Driver = own
        self.assertEqual(found, {"worked": True, "calls": ["bind"]})

    def test_the_table_knows_every_denied_call(self):
        self.assertEqual([name for name in confinement.denied() if name not in confinement.NUMBERS], [])
