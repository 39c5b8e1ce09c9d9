#!/usr/bin/env python3
"""Runs the end-to-end tests and closes with 'end to end: N passed, N failed, N skipped'.

WARPLINE_BUILD names the build folder (default build/release)."""

import argparse
import os
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def cpu_seconds():
    """What this process and its ended children have had of the processors."""
    return sum(os.times()[:4])


class Result(unittest.TextTestResult):
    """One line per test, with its time, and that of the processors in what it has started and seen end."""

    def startTest(self, test):
        self.began, self.cpu = time.monotonic(), cpu_seconds()
        super().startTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed = getattr(self, "passed", 0) + 1

    def stopTest(self, test):
        self.stream.writeln(f"       {time.monotonic() - self.began:.2f} s, {cpu_seconds() - self.cpu:.2f} s of CPU")
        super().stopTest(test)


def arguments_of(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="module, or module.Class.test (default: all modules)")
    parser.add_argument("--without", default="", metavar="MODULES", help="modules to leave out, with commas between them")
    arguments = parser.parse_args(argv)
    left_out = arguments.without.split(",") if arguments.without else []
    for module in left_out:
        if not (HERE / f"{module}.py").is_file():
            parser.error(f"there is no module {module}")
    return arguments.names, left_out


def main(argv):
    names, left_out = arguments_of(argv)
    sys.path.insert(0, str(HERE))
    names = names or sorted(path.stem for path in HERE.glob("test_*.py"))
    suite = unittest.TestLoader().loadTestsFromNames([name for name in names if name not in left_out])
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors)
    passed = getattr(result, "passed", 0)
    print(f"end to end: {passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
