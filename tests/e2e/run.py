#!/usr/bin/env python3
"""Runs the end-to-end tests and closes with 'end to end: N passed, N failed, N skipped'.

Usage: run.py [module or module.Class.test …]     WARPLINE_BUILD names the build folder (default build/release)"""

import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Result(unittest.TextTestResult):
    """One line per test, with its time."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed = getattr(self, "passed", 0) + 1

    def stopTest(self, test):
        self.stream.writeln(f"       {time.monotonic() - self.began:.2f} s")
        super().stopTest(test)


def main(names):
    sys.path.insert(0, str(HERE))
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names) if names else loader.discover(str(HERE), pattern="test_*.py", top_level_dir=str(HERE))
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors)
    passed = getattr(result, "passed", 0)
    print(f"end to end: {passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
