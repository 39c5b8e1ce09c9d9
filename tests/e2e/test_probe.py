"""What NVIDIA's driver is known to answer (tests/gpu/hardware.json), the software GPU answers too, but for what tests/gpu/ours.json
says: directly, and through a server (A2, A6, A13)."""

import json
import pathlib
import sys
import tempfile
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "gpu"))
import expected  # noqa: E402

PROBE = harness.BUILD / "bin" / "warpline-gpu-probe"
# As the machine that hardware.json was seen on.
MACHINE = {"SOFTGPU_COMPUTE_CAPABILITY": "9.0", "SOFTGPU_DRIVER_VERSION": "13000"}
GENEROUS, STRICT = {**MACHINE, "SOFTGPU_PROFILE": "generous"}, {**MACHINE, "SOFTGPU_PROFILE": "strict"}


@unittest.skipUnless(PROBE.exists(), "the probe is not part of this build")
class ProbeTest(unittest.TestCase):
    def answers(self, mode, server=None, extra=None):
        with tempfile.TemporaryDirectory(prefix="warpline-probe-") as folder:
            out = pathlib.Path(folder) / "answers.json"
            done = harness.run([PROBE, "--out", out], mode, server, extra=extra, seconds=300)
            self.assertEqual(done.code, 0, done.stderr)
            return json.loads(out.read_text())

    def check(self, answers, side, name):
        known = expected.Expected(side)
        differences, all_of_them = known.differences(answers), known.all_differences(answers)
        print(f"{name}: {len(answers)} questions ({expected.told(known.counts(answers))}), {len(all_of_them)} differ, "
              f"{len(differences)} of them unexpectedly")
        self.assertGreater(len(answers), 3000)
        self.assertEqual(differences, {})
        self.assertEqual(known.unused(answers), [], "these classes of ours.json are needed no more")

    def test_direct(self):
        self.check(self.answers("direct", extra=GENEROUS), "direct", "direct")

    def test_direct_strict(self):
        self.check(self.answers("direct", extra=STRICT), "direct", "direct, strict")

    def test_through_a_server(self):
        with harness.Server(environment=GENEROUS) as server:
            self.check(self.answers("remote", server), "remote", "through a server")

    def test_through_a_strict_server(self):
        with harness.Server(environment=STRICT) as server:
            self.check(self.answers("remote", server), "remote", "through a server, strict")

    def test_an_unknown_answer_is_a_difference(self):
        known = expected.Expected("direct")
        self.assertIn("cuMemAlloc_v2/plain", known.differences({"cuMemAlloc_v2/plain": {"result": 1}}))
        self.assertIn("cuMemAlloc_v2/plain", known.differences({"cuMemAlloc_v2/plain": {"result": 0}}))  # dptr is not written
        right = {"cuMemAlloc_v2/plain": {"result": 0, "values": {"written": ["dptr"]}}}
        self.assertNotIn("cuMemAlloc_v2/plain", known.differences(right))
        self.assertIn("cuArrayDestroy/hArray=destroyed", known.differences({"cuArrayDestroy/hArray=destroyed": {"result": "crash"}}))


if __name__ == "__main__":
    unittest.main()
