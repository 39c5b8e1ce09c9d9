#!/usr/bin/env python3
"""Runs small programs of frameworks from PyPI over Warpline and closes with 'frameworks: N passed, N failed, N skipped'.

Usage: run.py [NAME…]     of those in frameworks.toml (default: all but those that say only_named)

Each framework is installed into an environment of its own below build/frameworks, once; what cannot be fetched is skipped.
WARPLINE_BUILD names the build folder (default build/release)."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("WARPLINE_BUILD", ROOT / "build" / "release")).resolve()
FOLDER = pathlib.Path(os.environ.get("WARPLINE_FRAMEWORKS", ROOT / "build" / "frameworks")).resolve()
MODES = ["direct", "local"]
SECONDS = 400

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import harness


def install(name, packages):
    """The python of a framework's environment; None if its packages cannot be had."""
    folder = FOLDER / name
    done = folder / "installed"
    python = folder / "bin" / "python"
    if not done.exists() or done.read_text() != "\n".join(packages):
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        found = subprocess.run(command, capture_output=True, text=True)
        if found.returncode != 0:
            print(f"{name}: cannot be installed: {found.stderr.strip().splitlines()[-1:]}")
            return None
        done.write_text("\n".join(packages))
    return python


def install_wheel(python):
    """Makes the Python package of the build and installs it into an environment."""
    with tempfile.TemporaryDirectory() as folder:
        make = [ROOT / "python" / "build_wheel", "--glibc", "needed", BUILD, folder]
        made = subprocess.run(make, capture_output=True, text=True, check=True)
        command = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--force-reinstall", made.stdout.strip()]
        subprocess.run(command, check=True)


@contextlib.contextmanager
def started(mode, entry, python):
    """The command that runs the script, and what its environment has more."""
    if mode == "wheel":
        install_wheel(python)
        with harness.Server() as server:
            yield [python], server.environment()
    else:
        yield [BUILD / "bin" / "warpline", "run", f"--{mode}", *entry.get("options", []), "--", python], {}


def run(name, entry, python, mode):
    """(passed, failed, skipped) of one framework in one mode. A case that is known not to work there, and why, is in the entry: that
    it fails is no failure, and that it works is one, so that the entry is mended."""
    cache = FOLDER / entry.get("beside", name) / "cache"
    environment = {**os.environ, **entry.get("environment", {}), "CUPY_CACHE_DIR": str(cache), "NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1",
                   "PYTHONWARNINGS": "ignore", "WARPLINE_LOG": "error"}
    try:
        with started(mode, entry, python) as (command, more):
            done = subprocess.run([str(c) for c in [*command, HERE / entry["script"]]], capture_output=True, text=True,
                                  env={**environment, **more}, timeout=SECONDS)
        said, code = done.stdout + done.stderr, done.returncode
        cases = re.findall(r"^case (\w+): (ok|failed)(.*)$", done.stdout, re.MULTILINE)
    except subprocess.TimeoutExpired as late:
        said, code, cases = str(late), -1, []
    known = {**entry.get("known", {}), **entry.get(f"known_{mode}", {})}
    passed = failed = skipped = 0
    for case, result, words in cases:
        if case in known and result == "failed":
            skipped += 1
            print(f"  {name} {mode} {case}: known: {known[case]}")
        elif (result == "ok") == (case not in known):
            passed += 1
        else:
            failed += 1
            print(f"  {name} {mode} {case}: {result}{words}{', though listed as known' if case in known else ''}")
    if code != 0 or not cases:
        failed += 1
        print(f"  {name} {mode}: exit code {code}\n{said[-3000:]}")
    print(f"{name} {mode}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return passed, failed, skipped


def main(names):
    described = tomllib.loads((HERE / "frameworks.toml").read_text())
    totals = [0, 0, 0]
    for name, entry in described.items():
        if name not in names if names else entry.get("only_named"):
            continue
        beside = entry.get("beside", name)
        python = install(beside, described[beside]["packages"])
        for mode in entry.get("modes", MODES):
            counts = run(name, entry, python, mode) if python else (0, 0, 1)
            totals = [a + b for a, b in zip(totals, counts)]
    print(f"frameworks: {totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 0 if totals[1] == 0 and totals[0] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
