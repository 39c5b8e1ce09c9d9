#!/usr/bin/env python3
"""Small checks of the sources: formatting (clang-format), length of files, marks of unfinished work, sleeps, and a first line that says
what a file is for; and of the width of documents. One line per finding."""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HARD_LIMIT = 600
DOCUMENT_WIDTH = 120
GENERATED_PAGES = ("docs/configuration.md",)
MARKS = re.compile(r"TODO\(now\)|FIXME|\bXXX\b")
SLEEPS = re.compile(r"\b(sleep_for|usleep|nanosleep)\s*\(")
# Files open with a line on their purpose, before or right behind `#pragma once`. A comment with /// is about what follows. Not yet:
WITHOUT_PURPOSE = ("bench/", "compress/", "tests/unit/compress/")
PURPOSE = re.compile(r"(#pragma once\n\n)?// ?\w")
# Where nobody can tell when the thing waited for has come: it is looked for, with a deadline. Or where the time is the thing.
POLLS = {
    "client/abi/start.cpp": "the pause before servers that were full are asked again",
    "client/cli/tell_death.cpp": "the pause before a server that could not be reached is tried again",
    "client/pool/user_file.cpp": "a lock of a file, which has no deadline of its own",
    "softgpu/driver/context/context.cpp": "contexts take time to make (docs/driver-behaviour.md, DB-16)",
    "tests/unit/server/fake_driver.cpp": "a driver that is slow to begin",
    "softgpu/driver/operations/operation.cpp": "cuStreamWaitValue: memory changes without a word",
    "tests/unit/server/daemon_test.cpp": "the end of processes that are not our children",
    "tests/unit/server/door_test.cpp": "the end of a process that is not our child",
    "tests/unit/server/server_process.cpp": "lines in another process's log, and its end",
}


def wide_lines(path, text):
    """Lines of a document beyond 120 columns. Tables, code and pages that are generated may be wider."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code = code != line.lstrip().startswith("```")
        if len(line) > DOCUMENT_WIDTH and not code and not line.lstrip().startswith("|"):
            yield f"{path}:{number}: {len(line)} columns (at most {DOCUMENT_WIDTH})"


def main():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    sources = [f for f in files if f.endswith((".h", ".cpp")) and (ROOT / f).exists()]
    findings = []
    for path in sources:
        text = (ROOT / path).read_text(errors="replace")
        lines = text.count("\n")
        if lines > HARD_LIMIT:
            findings.append(f"{path}: {lines} lines (at most {HARD_LIMIT})")
        if not path.startswith(WITHOUT_PURPOSE) and not PURPOSE.match(text):
            findings.append(f"{path}:1: open with a line on what the file is for (// …)")
        for match in MARKS.finditer(text):
            findings.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)}")
        if path not in POLLS and not path.startswith("softgpu/isa"):  # nanosleep is an instruction there
            for match in SLEEPS.finditer(text):
                findings.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(1)}: wait for what you wait for")
    for path in files:
        if path.endswith(".md") and path not in GENERATED_PAGES and (ROOT / path).exists():
            findings += wide_lines(path, (ROOT / path).read_text())
    formatter = shutil.which("clang-format")
    if formatter:
        done = subprocess.run([formatter, "--dry-run", "--Werror", *sources], cwd=ROOT, capture_output=True, text=True)
        findings += sorted({line.split(": ")[0] + ": not formatted (clang-format -i)" for line in done.stderr.splitlines() if "error:" in line})
    print("\n".join(findings) if findings else f"{len(sources)} sources: in order")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
