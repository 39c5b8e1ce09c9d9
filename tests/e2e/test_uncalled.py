"""What is forwarded is called by a program, or is on the list of what still is not (A2). Looks at what the other modules have run:
run.py runs it after them."""

import json
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "cuda/gen"))
import generate  # noqa: E402


class UncalledTest(unittest.TestCase):
    def test_forwarded_functions_are_called(self):
        called = harness.called()
        ran = set().union(*called.values())
        missing = {"warpline-gpu-probe", *(name for name, p in harness.programs().items() if "remote" in p.modes)} - ran
        if missing:
            self.skipTest(f"{len(missing)} programs have not run through a server, {min(missing)} among them")
        told = harness.BUILD / "called.json"
        told.write_text(json.dumps({function: sorted(programs) for function, programs in sorted(called.items())}, indent=1))
        generator = [sys.executable, harness.ROOT / "cuda/gen/generate.py", "--api", harness.ROOT / "cuda/api", "--include",
                     harness.cuda_root() / "include", "--called", told]
        subprocess.run([*generator, "--target", "coverage", "--out", harness.BUILD / "generated"], check=True)
        listed = harness.ROOT / "tests/programs/uncalled.txt"
        allowed = {line for line in listed.read_text().splitlines() if line and not line.startswith("#")}
        api = generate.read(harness.ROOT / "cuda/api", harness.cuda_root() / "include")
        uncalled = {call.name for call in api.calls if call.forwarded and not called.keys() & set(call.symbols)}
        self.assertEqual(uncalled - allowed, set(), "forwarded, and no program calls it: write one")
        self.assertEqual(allowed - uncalled, set(), f"called by now: take it off {listed.name}")


if __name__ == "__main__":
    unittest.main()
