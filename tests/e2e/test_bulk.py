"""Large copies stand in nobody's way: other threads' calls go on beside them, copies from page-locked memory return at once, and both
survive the loss of their connection (B3, C2)."""

import re
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos import plan  # noqa: E402
from chaos.proxy import Proxy  # noqa: E402

BULK = harness.programs()["bulk"]
PATIENCE = 120


def setUpModule():
    harness.build_program(BULK)


class BulkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()
        cls.addClassCleanup(cls.server.__exit__)

    def rounds_beside(self, what, server):
        done = harness.run([BULK.binary, what], "remote", server, seconds=PATIENCE)
        self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}\n{self.server.log_text()}")
        return int(re.search(r"rounds beside it: (\d+)", done.stdout)[1])

    def rounds_on_a_slow_link(self, what, direction):
        """The link, at 100 MB/s, is what takes the time: 2.7 s for the copy."""
        with Proxy(self.server, [plan.parse(f"throttle:2:{direction}:0:1e8")]) as proxy:
            return self.rounds_beside(what, proxy)

    def test_b3_calls_of_other_threads_pass_a_copy_to_the_device(self):
        self.assertGreaterEqual(self.rounds_on_a_slow_link("upload", "up"), 10)

    def test_b3_calls_of_other_threads_pass_a_copy_to_the_program(self):
        self.assertGreaterEqual(self.rounds_on_a_slow_link("download", "down"), 10)

    def test_b3_a_question_about_a_copy_on_its_way_is_answered_at_once(self):
        for what, direction in (("upload", "up"), ("download", "down")):
            with Proxy(self.server, [plan.parse(f"throttle:2:{direction}:0:1e8")]) as proxy:
                done = harness.run([BULK.binary, "query", what], "remote", proxy, seconds=PATIENCE)
                self.assertEqual(done.code, 0, f"{what}: {done.stdout}{done.stderr}\n{self.server.log_text()}")

    def go_through_little_memory(self, what, cuts):
        """256 MiB in a copy, with 24 MiB of staging memory, on a connection that is cut on the way."""
        with harness.Server(flags=["--staging-memory=24MiB", "--log=info,copies=debug"]) as server:
            with Proxy(server, [plan.parse(cut) for cut in cuts]) as proxy:
                done = harness.run([BULK.binary, *what], "remote", proxy, seconds=PATIENCE)
                self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}\n{server.log_text()}")
                self.assertEqual(done.stats["reconnects"], len(cuts), done.stats)
            staging = [int(number) for number in re.findall(r"staging memory: .* (\d+) in all", server.log_text())]
            self.assertTrue(staging, server.log_text())
            self.assertLessEqual(max(staging), 24 << 20)

    def test_b3_an_asynchronous_copy_to_the_program_goes_through_little_memory(self):
        self.go_through_little_memory(["back"], ["cut:2:down:50000000", "cut:3:down:70000000"])

    def test_b3_copies_of_rows_go_through_little_memory(self):
        self.go_through_little_memory(["rows", "sync"], ["cut:2:up:50000000", "cut:3:up:70000000", "cut:4:down:20000000"])

    def test_b3_asynchronous_copies_of_rows_go_through_little_memory(self):
        self.go_through_little_memory(["rows", "async"], ["cut:2:up:50000000", "cut:3:down:70000000", "cut:4:up:20000000"])

    def test_c2_calls_go_on_beside_a_copy_that_is_cut(self):
        cuts = [plan.parse(f"cut:{number}:up:{offset}") for number, offset in enumerate((30_000_000, 70_000_000, 5_000_000), 2)]
        with Proxy(self.server, cuts) as proxy:
            self.rounds_beside("upload", proxy)
            self.assertGreaterEqual(proxy.count(ending=True), 3)

    def test_b3_a_copy_from_page_locked_memory_returns_though_nothing_passes(self):
        with Proxy(self.server) as proxy:
            process = harness.popen([BULK.binary, "locked"], "remote", proxy, stdin=subprocess.PIPE)
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "ready\n")
            proxy.hold_network()
            process.stdin.write("now\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "queued\n")
            proxy.release()
            out, err = process.communicate("go on\n", timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, f"{out}{err}\n{self.server.log_text()}")
        self.assertIn("verified", out)

    def test_c2_a_copy_from_page_locked_memory_is_cut(self):
        with Proxy(self.server, [plan.parse("cut:2:up:20000000"), plan.parse("cut:3:up:40000000")]) as proxy:
            process = harness.popen([BULK.binary, "locked"], "remote", proxy, stdin=subprocess.PIPE)
            self.addCleanup(process.kill)
            out, err = process.communicate("now\ngo on\n", timeout=PATIENCE)
            self.assertGreaterEqual(proxy.count(ending=True), 2)
        self.assertEqual(process.returncode, 0, f"{out}{err}\n{self.server.log_text()}")


if __name__ == "__main__":
    unittest.main()
