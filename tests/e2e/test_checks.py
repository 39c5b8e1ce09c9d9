"""SOFTGPU_CHECK: mistakes are reported where they are, and correct programs give no report; schedules by seed (issue 3, 5 and 6)."""

import re
import unittest

import harness

CHECKS = harness.programs()["checks"]
# Correct programs of every kind: reductions, CUB and Thrust, cooperative groups, warp exchange, wmma, asynchronous copies, atomics.
CLEAN = ["matmul_shared", "warp_shuffle", "atomics", "cooperative", "thrust_cub", "tensor_cores", "constants_globals", "calls", "streams_events",
         "pools", "graphs", "copies", "half_precision", "managed", "textures", "tensor_maps"]
SEEDED = ["matmul_shared", "warp_shuffle", "atomics", "cooperative", "tensor_cores", "calls"]


def setUpModule():
    for name in ["checks", "errors", *CLEAN, *SEEDED]:
        harness.build_program(harness.programs()[name])


def line_of(which):
    """Line of checks.cu that makes a mistake."""
    for number, line in enumerate(CHECKS.source.read_text().splitlines(), 1):
        if line.endswith(f"// line of: {which}"):
            return f"checks.cu:{number}"
    raise AssertionError(which)


class ChecksTest(unittest.TestCase):
    def reports(self, which, checks):
        done = harness.run([CHECKS.binary, which], "direct", extra={"SOFTGPU_CHECK": checks})
        self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}")
        return "\n".join(line for line in done.stderr.splitlines() if line.startswith("====="))

    def expect(self, which, checks, *texts, errors=None, places=1):
        text = self.reports(which, checks)
        for part in texts:
            self.assertIn(part, text)
        self.assertRegex(text, rf"SOFTGPU_CHECK: {errors or '[0-9]+'} errors?, at {places} place")
        return text

    def test_bounds(self):
        text = self.expect("bounds", "memory", "Invalid write of 4 bytes", line_of("bounds"), "in beyond(int*)",
                           "by thread (100,0,0) in block (0,0,0)", "0 bytes past the end of a 400-byte allocation at 0x", errors=1)
        self.assertRegex(text, r"st\.global\.u32 at ptx:[0-9]+ \(")

    def test_reports_through_a_server_are_the_programs(self):
        # A8: what the driver writes on its server appears here.
        with harness.Server(environment={"SOFTGPU_CHECK": "race"}) as server:
            done = harness.run([CHECKS.binary, "race"], "remote", server)
            self.assertIn("read after write", server.log_text())
        self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}")
        self.assertEqual(done.stderr.count("read after write"), 1, done.stderr)
        self.assertIn(line_of("race"), done.stderr)

    def test_every_thread_that_fails_an_assertion_says_so(self):
        for mode in ("direct", "remote"):
            with self.subTest(mode=mode), harness.Server() as server:
                done = harness.run([harness.programs()["errors"].binary, "assert"], mode, server)
                self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}")
                said = re.findall(r"errors\.cu:\d+: void assertion\(unsigned int\): block: \[0,0,0\], thread: \[(\d+),0,0\] Assertion `threadIdx.x < threads` failed", done.stderr)
                self.assertEqual(said, ["32", "33"], done.stderr)

    def test_freed(self):
        self.expect("freed", "memory", line_of("bounds"), "0 bytes into a 400-byte allocation at 0x", "that was freed")

    def test_misaligned(self):
        self.expect("misaligned", "memory", "Misaligned write of 4 bytes", line_of("misaligned"), "by thread (1,0,0)")

    def test_shared(self):
        self.expect("shared", "memory", "Invalid write of 4 bytes", line_of("shared"), "by thread (31,0,0)", "the block has 128 bytes")

    def test_local(self):
        self.expect("local", "memory", "Invalid read of 4 bytes", line_of("local"), "of local memory")

    def test_race(self):
        # Half of the threads read what another has written, the others before it is written.
        text = self.expect("race", "race", "read after write", "write after read", line_of("race"), errors=128, places=2)
        self.assertEqual(text.count("Race in shared memory"), 2)
        self.assertEqual(len(re.findall(r"by thread \((\d+),0,0\) in block \(0,0,0\)", text)), 4)

    def test_uninitialised(self):
        self.expect("uninitialised", "init", "Read of 4 bytes of global memory", line_of("uninitialised"), "by thread (40,0,0)",
                    "byte 160 of a 400-byte allocation", errors=60)

    def test_unset_shared(self):
        self.expect("unset", "init", "4 bytes of shared memory", line_of("unset"), "by thread (60,0,0)", errors=8)

    def test_host_copy(self):
        self.expect("host_copy", "init", "Copy to the host", "byte 396 of a 400-byte allocation", errors=1)

    def test_leak(self):
        self.expect("leak", "leak", "Leaked 400 bytes of device memory", errors=1)

    def test_other_mistakes_are_not_reported(self):
        for which, checks in (("race", "memory,leak"), ("uninitialised", "memory,race,leak"), ("leak", "memory,race,init")):
            self.assertTrue(self.reports(which, checks).endswith("SOFTGPU_CHECK: 0 errors, at 0 places"))

    def test_unknown_words_are_refused(self):
        done = harness.run([CHECKS.binary, "bounds"], "direct", extra={"SOFTGPU_CHECK": "memory,rice"})
        self.assertNotEqual(done.code, 0)
        self.assertEqual(len(re.findall("there is no check 'rice'", done.stderr)), 1, done.stderr)

    def test_clean_programs(self):
        for name in CLEAN:
            program = harness.programs()[name]
            with self.subTest(name):
                done = harness.run([program.binary], "direct", extra={"SOFTGPU_CHECK": "memory,race,init"}, seconds=300)
                self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}")
                self.assertIn("SOFTGPU_CHECK: 0 errors, at 0 places", done.stderr)

    def test_schedules(self):
        for name in SEEDED:
            program = harness.programs()[name]
            for seed in (1, 2, 3):
                with self.subTest(name, seed=seed):
                    done = harness.run([program.binary], "direct", extra={"SOFTGPU_SCHEDULE_SEED": str(seed)}, seconds=300)
                    self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}")
                    self.assertIn("verified", done.stdout)


if __name__ == "__main__":
    unittest.main()
