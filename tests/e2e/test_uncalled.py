"""What is forwarded is called by a program that looks at its effect, or is on the list of what has no effect to be seen (A2). Looks at
what the other modules have run: run.py runs it after them."""

import json
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "cuda/gen"))
import generate  # noqa: E402

# It calls everything, and looks at results and at which parameters are written to, not at effects.
PROBE = "warpline-gpu-probe"
UNSEEN = harness.ROOT / "tests/programs/unseen.txt"


def by_programs(called):
    """Which programs have called which functions, without the probe's calls."""
    return {function: left for function, programs in called.items() if (left := programs - {PROBE})}


class UncalledTest(unittest.TestCase):
    def test_forwarded_functions_are_called(self):
        called = harness.called()
        ran = set().union(*called.values())
        missing = {PROBE, *(name for name, p in harness.programs().items() if "remote" in p.modes)} - ran
        if missing:
            self.skipTest(f"{len(missing)} programs have not run through a server, {min(missing)} among them")
        told = harness.BUILD / "called.json"
        told.write_text(json.dumps({function: sorted(programs) for function, programs in sorted(called.items())}, indent=1))
        generator = [sys.executable, harness.ROOT / "cuda/gen/generate.py", "--api", harness.ROOT / "cuda/api", "--include",
                     harness.cuda_root() / "include", "--called", told, "--unseen", UNSEEN]
        subprocess.run([*generator, "--target", "coverage", "--out", harness.BUILD / "generated"], check=True)
        allowed = set(generate.read_unseen(UNSEEN))
        api = generate.read(harness.ROOT / "cuda/api", harness.cuda_root() / "include")
        seen = by_programs(called)
        uncalled = {call.name for call in api.calls if call.forwarded and not seen.keys() & set(call.symbols)}
        self.assertEqual(uncalled - allowed, set(), "forwarded, and no program calls it and looks at what it does: write one")
        self.assertEqual(allowed - uncalled, set(), f"forwarded no more, or called by a program: take it off {UNSEEN.name}")

    def test_the_list_says_why(self):
        for function, reason in generate.read_unseen(UNSEEN).items():
            self.assertGreater(len(reason.split()), 3, f"why can nobody see what {function} does?")

    def test_what_the_probe_alone_calls_is_not_called(self):
        self.assertEqual(by_programs({"cuA": {PROBE}, "cuB": {PROBE, "copies"}}), {"cuB": {"copies"}})


if __name__ == "__main__":
    unittest.main()
