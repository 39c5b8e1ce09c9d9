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
# Connections of a program in the order in which it makes them: the door, the command lane, bulk lanes; then those that take the
# place of a lost one.
COMMAND_LANE, BULK_LANES = 2, (3, 4)
# Cuts and rates are by bytes on the wire: these are the program's, however slow a busy machine makes the link look.
PLAIN = {"WARPLINE_COMPRESS": "none", "WARPLINE_BULK_LANES": str(len(BULK_LANES))}
ONE_LANE = {"WARPLINE_BULK_LANES": "0"}  # the command lane


def setUpModule():
    harness.build_program(BULK)


class BulkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()
        cls.addClassCleanup(cls.server.__exit__)

    @staticmethod
    def bulk_lanes_are_up(proxy):
        """The server has said more on each than what it takes to have it: the handshake and the answer to Resume are 335 bytes."""
        return len(proxy.totals) >= BULK_LANES[-1] and all(proxy.totals[number - 1]["down"] > 400 for number in BULK_LANES)

    def rounds_beside(self, what, server, extra=None):
        done = harness.run([BULK.binary, what], "remote", server, extra={**PLAIN, **(extra or {})}, seconds=PATIENCE)
        self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}\n{self.server.log_text()}")
        return int(re.search(r"rounds beside it: (\d+)", done.stdout)[1])

    def rounds_on_a_slow_link(self, what, direction):
        """The link, at 100 MB/s for each connection, is what takes the time: more than a second for the copy."""
        slow = [plan.parse(f"throttle:{number}:{direction}:0:1e8") for number in (COMMAND_LANE, *BULK_LANES)]
        for extra in ({}, ONE_LANE):
            with self.subTest(extra=extra), Proxy(self.server, slow) as proxy:
                yield self.rounds_beside(what, proxy, extra)

    def test_b3_calls_of_other_threads_pass_a_copy_to_the_device(self):
        for rounds in self.rounds_on_a_slow_link("upload", "up"):
            self.assertGreaterEqual(rounds, 10)

    def test_b3_calls_of_other_threads_pass_a_copy_to_the_program(self):
        for rounds in self.rounds_on_a_slow_link("download", "down"):
            self.assertGreaterEqual(rounds, 10)

    def test_b3_a_question_about_a_copy_on_its_way_is_answered_at_once(self):
        for what, direction in (("upload", "up"), ("download", "down")):
            with Proxy(self.server, [plan.parse(f"throttle:{n}:{direction}:0:1e8") for n in (COMMAND_LANE, *BULK_LANES)]) as proxy:
                done = harness.run([BULK.binary, "query", what], "remote", proxy, extra=PLAIN, seconds=PATIENCE)
                self.assertEqual(done.code, 0, f"{what}: {done.stdout}{done.stderr}\n{self.server.log_text()}")

    def go_through_little_memory(self, what, cuts, extra=None):
        """96 or 256 MiB in a copy, with 24 MiB of staging memory, on connections that are cut on the way."""
        with harness.Server(flags=["--staging-memory=24MiB", "--log=info,copies=debug"]) as server:
            with Proxy(server, [plan.parse(cut) for cut in cuts]) as proxy:
                done = harness.run([BULK.binary, *what], "remote", proxy, extra={**PLAIN, **(extra or {})}, seconds=PATIENCE)
                self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}\n{server.log_text()}")
                # On a busy machine an attempt may take too long, and the one that takes its place meets a later cut, or none.
                met = proxy.count(ending=True)
                self.assertGreater(met, 0, proxy.events)
                self.assertGreaterEqual(done.stats["reconnects"], met, f"{done.stats}\n{done.stderr}\n{proxy.events}")
            staging = [int(number) for number in re.findall(r"staging memory: .* (\d+) in all", server.log_text())]
            self.assertTrue(staging, server.log_text())
            self.assertLessEqual(max(staging), 24 << 20)

    def test_b3_an_asynchronous_copy_to_the_program_goes_through_little_memory(self):
        self.go_through_little_memory(["back"], ["cut:2:down:50000000", "cut:3:down:70000000"], ONE_LANE)

    def test_b3_copies_of_rows_go_through_little_memory(self):
        self.go_through_little_memory(["rows", "sync"], ["cut:2:up:50000000", "cut:3:up:70000000", "cut:4:down:20000000"], ONE_LANE)

    def test_b3_asynchronous_copies_of_rows_go_through_little_memory(self):
        self.go_through_little_memory(["rows", "async"], ["cut:2:up:50000000", "cut:3:down:70000000", "cut:4:up:20000000"], ONE_LANE)

    def test_b3_bulk_lanes_are_lost_on_the_way_to_the_program(self):
        self.go_through_little_memory(["back"], ["cut:3:down:30000000", "cut:4:down:40000000", "cut:5:down:20000000"])

    def test_b3_bulk_lanes_are_lost_while_rows_travel(self):
        for what in ("sync", "async"):
            with self.subTest(what=what):
                self.go_through_little_memory(["rows", what], ["cut:3:up:30000000", "cut:4:up:50000000", "cut:5:down:10000000"])

    def test_b3_the_command_lane_is_lost_and_bulk_lanes_go_on(self):
        with Proxy(self.server, [plan.parse("cut:2:up:36000000")]) as proxy:
            self.rounds_beside("upload", proxy)

    def test_c2_bulk_lanes_that_do_not_come_back_are_done_without(self):
        """One of two, then both, so that what they had goes over the command lane; in the middle of copies in either direction."""
        for what, direction in (["rows", "sync"], "up"), (["rows", "async"], "down"), (["back"], "down"):
            for lanes in (BULK_LANES[:1], BULK_LANES):
                cuts = [plan.parse(f"cut:{number}:{direction}:{20_000_000 + 1_000_000 * number}") for number in lanes]
                with self.subTest(what=what, lanes=len(lanes)), Proxy(self.server, cuts, most=BULK_LANES[-1]) as proxy:
                    process = harness.popen([BULK.binary, *what], "remote", proxy, extra={**PLAIN, "WARPLINE_GRACE": "1"})
                    self.addCleanup(process.kill)
                    out, err = process.communicate(timeout=PATIENCE)
                    said = f"{out}{err}\n{self.server.log_text()}"
                    self.assertEqual(process.returncode, 0, said)
                    self.assertIn("verified", out, said)
                    self.assertEqual(err.count("goes over the others"), len(lanes), said)

    def test_c2_what_waits_for_parts_on_bulk_lanes_may_be_much(self):
        self.pile_up(lambda proxy: proxy.release())

    def test_c2_what_waits_for_parts_of_lanes_that_do_not_come_back_may_be_much(self):
        """The parts come over the command lane, behind all that waits for them. No lane takes the place of one that is held for so long
        that its heartbeats give it up."""
        err, ways = self.pile_up(lambda proxy: proxy.cut(BULK_LANES), {"WARPLINE_GRACE": "1"}, most=BULK_LANES[-1])
        self.assertEqual(err.count("goes over the others"), len(BULK_LANES), f"{err}\n{ways}\n{self.server.log_text()}")

    def pile_up(self, then, extra=None, most=None):
        """Bulk lanes are held while a large copy is on them, until the client takes nothing more from the command lane."""
        with Proxy(self.server, most=most) as proxy:
            extra = {**PLAIN, "WARPLINE_BULK_LANES_AFTER": "0", **(extra or {})}
            process = harness.popen([BULK.binary, "pile"], "remote", proxy, extra=extra, stdin=subprocess.PIPE)
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assertTrue(proxy.wait_until(self.bulk_lanes_are_up, PATIENCE))
            proxy.hold_from(BULK_LANES[0])
            before = proxy.delivered("down")
            process.stdin.write("now\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "queued\n")
            # The rest stays on the server's side of the connection until the large copy is complete.
            self.assertTrue(proxy.wait_until(lambda p: p.delivered("down") - before > 64 << 20, PATIENCE))
            then(proxy)
            out, err = process.communicate(timeout=PATIENCE)
            ways = f"bytes down by connection: {[total['down'] for total in proxy.totals]}"
        self.assertEqual(process.returncode, 0, f"{out}{err}\n{ways}\n{self.server.log_text()}")
        return err, ways

    def test_c2_calls_go_on_beside_a_copy_that_is_cut(self):
        for first, extra in ((COMMAND_LANE, ONE_LANE), (BULK_LANES[0], {})):
            offsets = (30_000_000, 20_000_000, 5_000_000)  # each lane carries more, however unevenly they share the copy
            cuts = [plan.parse(f"cut:{number}:up:{offset}") for number, offset in enumerate(offsets, first)]
            with self.subTest(extra=extra), Proxy(self.server, cuts) as proxy:
                self.rounds_beside("upload", proxy, extra)
                self.assertGreaterEqual(proxy.count(ending=True), 3)

    def test_b3_a_copy_from_page_locked_memory_returns_though_nothing_passes(self):
        with Proxy(self.server) as proxy:
            process = harness.popen([BULK.binary, "locked"], "remote", proxy, extra=PLAIN, stdin=subprocess.PIPE)
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
            process = harness.popen([BULK.binary, "locked"], "remote", proxy, extra={**PLAIN, **ONE_LANE}, stdin=subprocess.PIPE)
            self.addCleanup(process.kill)
            out, err = process.communicate("now\ngo on\n", timeout=PATIENCE)
            self.assertGreaterEqual(proxy.count(ending=True), 2)
        self.assertEqual(process.returncode, 0, f"{out}{err}\n{self.server.log_text()}")


if __name__ == "__main__":
    unittest.main()
