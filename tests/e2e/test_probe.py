"""What NVIDIA's driver is known to answer (tests/gpu/expected.json), the software GPU answers too: directly, and through a server
(A2, A6, A13)."""

import json
import pathlib
import sys
import tempfile
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "gpu"))
import expected  # noqa: E402

PROBE = harness.BUILD / "bin" / "warpline-gpu-probe"


@unittest.skipUnless(PROBE.exists(), "the probe is not part of this build")
class ProbeTest(unittest.TestCase):
    def answers(self, mode, server=None, extra=None):
        with tempfile.TemporaryDirectory(prefix="warpline-probe-") as folder:
            out = pathlib.Path(folder) / "answers.json"
            done = harness.run([PROBE, "--out", out], mode, server, extra=extra, seconds=300)
            self.assertEqual(done.code, 0, done.stderr)
            return json.loads(out.read_text())

    def check(self, answers, name):
        known = expected.Expected()
        differences = known.differences(answers)
        print(f"{name}: {len(answers)} questions ({expected.told(known.counts(answers))}), {len(differences)} differ")
        self.assertGreater(len(answers), 3000)
        self.assertEqual(differences, {})

    def test_direct(self):
        self.check(self.answers("direct"), "direct")

    def test_direct_strict(self):
        self.check(self.answers("direct", extra={"SOFTGPU_PROFILE": "strict"}), "direct, strict")

    def test_through_a_server(self):
        with harness.Server() as server:
            self.check(self.answers("remote", server), "through a server")

    def test_through_a_strict_server(self):
        with harness.Server(environment={"SOFTGPU_PROFILE": "strict"}) as server:
            self.check(self.answers("remote", server), "through a server, strict")


if __name__ == "__main__":
    unittest.main()
