#!/usr/bin/env python3
"""Runs the end-to-end tests and closes with 'end to end: N passed, N failed, N skipped'.

WARPLINE_BUILD names the build folder (default build/release)."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FIRST = ["test_programs", "test_bulk", "test_chaos", "test_failure", "test_gpu", "test_heartbeat", "test_local", "test_probe"]
LAST = "test_uncalled"


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
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many modules run at a time (default: 1)")
    arguments = parser.parse_args(argv)
    left_out = arguments.without.split(",") if arguments.without else []
    for module in left_out:
        if not (HERE / f"{module}.py").is_file():
            parser.error(f"there is no module {module}")
    names = [name for name in arguments.names or (path.stem for path in HERE.glob("test_*.py")) if name not in left_out]
    return names, arguments.jobs


def order(name):
    """Modules that take long come first, so that none of them is waited for alone; what looks at the others' runs, last."""
    return name == LAST, FIRST.index(name) if name in FIRST else len(FIRST), name


def run_here(names):
    """Runs tests in this process. How many have passed, failed, and been skipped."""
    sys.path.insert(0, str(HERE))
    suite = unittest.TestLoader().loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result, stream=sys.stdout).run(suite)
    return getattr(result, "passed", 0), len(result.failures) + len(result.errors), len(result.skipped)


def run_module(name):
    """Runs a module in a process of its own, and prints what it has said when it has ended. Its numbers, as of run_here()."""
    done = subprocess.run([sys.executable, "-u", __file__, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    said, found, numbers = done.stdout.rpartition("end to end: ")
    print(f"{'=' * 30} {name}\n{said if found else done.stdout}", flush=True)
    if not found:
        print(f"FAIL: {name} ended with {done.returncode}, without its numbers")
        return 0, 1, 0
    return tuple(int(number) for number in re.findall(r"\d+", numbers))


def run_all(names, jobs):
    """Runs modules, some at a time; what looks at the others' runs, after them. The sums of their numbers."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        results = [*pool.map(run_module, [name for name in names if name != LAST])]
    results += [run_module(LAST)] if LAST in names else []
    return tuple(map(sum, zip(*results)))


def main(argv):
    names, jobs = arguments_of(argv)
    names = sorted(names, key=order)
    with tempfile.TemporaryDirectory(prefix="warpline-called-") as called:
        os.environ.setdefault("WARPLINE_CALLED", called)
        passed, failed, skipped = run_all(names, jobs) if jobs > 1 and len(names) > 1 else run_here(names)
    print(f"end to end: {passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
