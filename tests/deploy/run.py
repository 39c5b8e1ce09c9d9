#!/usr/bin/env python3
"""Runs the tests of deploy/ and closes with 'deploy: N passed, N failed, N skipped'.

Usage: run.py [MODULE…]      default: test_kubernetes; test_containers wants root and Debian's podman, buildah and mmdebstrap

WARPLINE_BUILD names the build folder (default build/release)."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

from run import Result  # tests/e2e: a line for each test, with its time


def main(names):
    suite = unittest.TestLoader().loadTestsFromNames(names or ["test_kubernetes"])
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors)
    passed = getattr(result, "passed", 0)
    print(f"deploy: {passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 0 if failed == 0 and passed + len(result.skipped) > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
