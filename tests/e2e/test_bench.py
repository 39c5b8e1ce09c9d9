"""The benchmark's link is what it says, and programs run through it (E8)."""

import re
import subprocess
import types
import unittest

import harness

BENCH = harness.BUILD / "bin" / "warpline-bench"


def bench(*arguments, environment=None, seconds=120):
    return subprocess.run([str(a) for a in (BENCH, *arguments)], env=environment, capture_output=True, text=True, timeout=seconds)


class LinkTest(unittest.TestCase):
    def test_e8_a_link_has_its_round_trip_and_its_rate(self):
        """Within a quarter, on a machine that may be busy; the model is exact (link_model_test)."""
        done = bench("link", "--check", "--rtt", 20, "--rate", 200)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        figures = re.findall(r"wanted +([0-9.e+]+) \S+ +measured +([0-9.e+]+)", done.stdout)
        self.assertEqual(len(figures), 2, done.stdout)
        for wanted, measured in figures:
            self.assertAlmostEqual(float(measured) / float(wanted), 1, delta=0.25, msg=done.stdout)

    def test_e8_a_program_runs_through_a_link_that_loses_packets(self):
        with harness.Server() as server:
            link = subprocess.Popen([BENCH, "link", "--to", server.address, "--rtt", "5", "--rate", "1000", "--jitter", "1", "--loss", "2"],
                                    stdout=subprocess.PIPE, text=True)
            with link:
                address = link.stdout.readline().strip().rpartition("WARPLINE_SERVERS=")[2]
                program = harness.programs()["vector_add"]
                harness.build_program(program)
                through = types.SimpleNamespace(environment=lambda: {**server.environment(), "WARPLINE_SERVERS": address})
                done = harness.run([program.binary], "remote", through, seconds=60)
                link.terminate()
                totals = link.stdout.read()
            self.assertEqual(done.code, 0, done.stdout + done.stderr)
            self.assertIn("verified", done.stdout)
            connections, up, down, _ = (int(n) for n in re.findall(r"\d+", totals))
            self.assertGreaterEqual(connections, 2, totals)  # door and worker
            self.assertGreater(min(up, down), 4096, totals)

    def test_e8_what_cannot_be_emulated_is_refused(self):
        for arguments, reason in ((("--rtt", 0.001), "the relay alone takes"), (("--rtt", 1, "--jitter", 2), "--jitter is at most --rtt"),
                                  (("--listen", "nowhere:1"), "no numeric address"), (("--to", "127.0.0.1:99999"), "is not HOST:PORT")):
            done = bench("link", "--to", "127.0.0.1:1", *arguments) if "--to" not in arguments else bench("link", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(reason, done.stderr)
