"""What is compressed on its way arrives as it was, in as few bytes as its codec makes of it, in both directions (B4)."""

import unittest

import harness

PROGRAM = harness.programs()["kinds_of_data"]
BYTES = 16 << 20
ON_ALL_LANES = {"WARPLINE_BULK_LANES_AFTER": "0"}


def setUpModule():
    harness.build_program(PROGRAM)


class CompressionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()
        cls.addClassCleanup(cls.server.__exit__)

    def copy(self, kind, wish, server=None, **extra):
        """The statistics of a copy of 16 MiB there and back."""
        server = server or self.server
        done = harness.run([PROGRAM.binary, kind], "remote", server, extra={"WARPLINE_COMPRESS": wish, **extra})
        self.assertEqual(done.code, 0, f"{kind}, {wish}: {done.stdout}{done.stderr}{server.log_text()}")
        for direction in ("sent", "received"):
            self.assertGreaterEqual(done.stats[f"payload_bytes_{direction}"], BYTES)
        return done.stats

    def check(self, kind, wish, codec, most, server=None, **extra):
        """At most this much of the bytes travels, and this codec was all that was used."""
        stats = self.copy(kind, wish, server, **extra)
        for direction in ("sent", "received"):
            with self.subTest(kind=kind, wish=wish, direction=direction, **extra):
                self.assertLessEqual(stats[f"bytes_{direction}"], BYTES * most + 100_000)  # the rest of the session
                self.assertEqual(list(stats[f"compressed_{direction}"]), [codec] if codec else [])
                if codec:
                    counts = stats[f"compressed_{direction}"][codec]
                    self.assertGreaterEqual(counts["bytes"], BYTES)
                    self.assertLessEqual(counts["compressed_bytes"], stats[f"bytes_{direction}"])

    def test_b4_zeros_take_a_twentieth_whatever_the_link(self):
        for wish in ("auto", "zstd", "zstd:9", "lz4", "group4"):
            self.check("zeros", wish, "zstd" if wish in ("auto", "zstd:9") else wish, 1 / 20)

    def test_b4_floats_are_grouped(self):
        self.check("weights", "group4", "group4", 0.85)
        self.check("halves", "group2", "group2", 0.80)

    def test_b4_floats_by_codecs_that_know_nothing_of_floats(self):
        self.check("weights", "zstd", "zstd", 0.95)

    def test_b4_what_gets_no_smaller_travels_as_it_is(self):
        stats = self.copy("random", "zstd")
        for direction in ("sent", "received"):
            for counts in stats[f"compressed_{direction}"].values():  # of calls
                self.assertLess(counts["bytes"], BYTES // 16)
            self.assertLessEqual(stats[f"bytes_{direction}"], BYTES + 100_000)

    def test_b4_over_bulk_lanes(self):
        for kind, wish, most in (("zeros", "zstd", 1 / 20), ("weights", "group4", 0.85)):
            self.check(kind, wish, wish, most, **ON_ALL_LANES)

    def test_b4_nothing_is_compressed_where_one_side_does_not_wish_it(self):
        self.check("zeros", "none", None, 1.01)
        with harness.Server(flags=["--compression=false"]) as server:
            self.check("zeros", "auto", None, 1.01, server)
            done = harness.run([PROGRAM.binary, "zeros"], "remote", server, extra={"WARPLINE_COMPRESS": "lz4"})
            self.assertEqual(done.code, 0, done.stderr)
            self.assertIn("does not take lz4", done.stderr)
            self.assertEqual(done.stats["compressed_sent"], {})

    def test_b4_a_wish_that_is_none_is_refused(self):
        for wish in ("gzip", "zstd:20", "lz4:3", ""):
            done = harness.run([PROGRAM.binary, "zeros"], "remote", self.server, extra={"WARPLINE_COMPRESS": wish})
            self.assertNotEqual(done.code, 0)
            self.assertIn(f"'{wish}' names no compression", done.stderr)


if __name__ == "__main__":
    unittest.main()
