"""What makes a program of a file of tests: what it needs, what it runs, and its last line."""

import os
import shutil
import sys
import unittest


def missing(tools, remedy):
    """What is needed and not there; empty if nothing. `tools` are Debian's packages by the commands that are looked for."""
    if os.geteuid() != 0:
        return "not root, and chroot wants to be"
    lacking = [package for tool, package in tools.items() if shutil.which(tool) is None]
    return f"not installed: {' '.join(lacking)}{remedy}" if lacking else ""


def main(word, tools, remedy=""):
    """Runs the tests of __main__ that the command line names, or all; closes with 'WORD: N passed, N failed, N skipped'."""
    loader = unittest.TestLoader()
    here = sys.modules["__main__"]
    names = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    suite = loader.loadTestsFromNames(names, here) if names else loader.loadTestsFromModule(here)
    if why := missing(tools, remedy):
        print(f"{word}: nothing is tested: {why}")
        print(f"{word}: 0 passed, 0 failed, {suite.countTestCases()} skipped")
        return
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{word}: {max(0, result.testsRun - failed - skipped)} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed != 0)
