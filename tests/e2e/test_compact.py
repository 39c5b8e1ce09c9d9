"""What a launch takes on its way, everything included, and that nothing changes where calls are not made compact (B2, B6)."""

import unittest

import harness

PROGRAM = harness.programs()["launch_burst"]
LAUNCHES = 20_000
RECORD = 22  # bytes of a TLS record beside what it carries: header, type, tag
RECORD_CARRIES = 16 << 10


def setUpModule():
    harness.build_program(PROGRAM)


class CompactTest(unittest.TestCase):
    def statistics(self, server, **extra):
        done = harness.run([PROGRAM.binary, str(LAUNCHES)], "remote", server, extra=extra)
        self.assertEqual(done.code, 0, done.stdout + done.stderr + server.log_text())
        self.assertIn("verified", done.stdout)
        self.assertGreaterEqual(done.stats["calls_sent"], LAUNCHES)
        return done.stats

    @staticmethod
    def bytes_for_each(stats):
        """Each frame begins a record at most."""
        records = stats["frames_sent"] + stats["bytes_sent"] // RECORD_CARRIES
        return (stats["bytes_sent"] + RECORD * records) / LAUNCHES

    def test_b6_a_launch_takes_24_bytes_at_most(self):
        with harness.Server() as server:
            stats = self.statistics(server)
            self.assertGreaterEqual(stats["calls_alike"], LAUNCHES - 1)
            self.assertLessEqual(self.bytes_for_each(stats), 24)
            for codec in ("lz4", "none"):
                with self.subTest(codec=codec):
                    self.assertLessEqual(self.bytes_for_each(self.statistics(server, WARPLINE_COMPRESS=codec)), 24)

    def test_b6_either_side_may_leave_it_out(self):
        def check(server, **extra):
            stats = self.statistics(server, WARPLINE_COMPRESS="none", **extra)
            self.assertEqual(stats["calls_alike"], 0)
            self.assertGreaterEqual(stats["bytes_sent"], LAUNCHES * 100)

        with harness.Server() as server:
            check(server, WARPLINE_DISABLE="compact")
        with harness.Server(flags=["--disable=compact"]) as server:
            check(server)


if __name__ == "__main__":
    unittest.main()
