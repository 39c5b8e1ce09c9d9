#!/usr/bin/env python3
"""Checks a build's manual pages: groff has no complaint, each program's page has every option and command of its --help, and the pages of
files every option of docs/configuration.md. Usage: check_manual.py BUILD"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {"warpline": 1, "warpline-bench": 1, "gpu-server": 8}
FILES = {"gpu-server": "warpline-server.toml.5", "The client": "warpline-client.toml.5", "The software GPU": "warpline-softgpu.7"}


def rendered(page):
    """(the page as plain text, what groff complains about)"""
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=1000n", page], capture_output=True, text=True)
    return done.stdout, done.stderr or ("" if done.returncode == 0 else f"groff ended with {done.returncode}")


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def missing(wanted, text):
    return [word for word in wanted if not re.search(rf"(?<![\\w-]){re.escape(word)}(?![\\w-])", text)]


def problems_of(build, program, section):
    page = build / "share/man" / f"man{section}" / f"{program}.{section}"
    text, complaint = rendered(page)
    helped = help_of(build / "bin" / program)
    commands = re.findall(r"^  ([a-z]+) ", helped.partition("Subcommands:")[2], re.MULTILINE)
    wanted = {f"{program} {command}" for command in commands}
    for said in [helped, *(help_of(build / "bin" / program, command) for command in commands)]:
        wanted.update(re.findall(r"^  (?:-\w,)?(--[\w-]+)", said, re.MULTILINE))
    if len(wanted) < 5:
        yield f"{program}: --help names too few options to be looked for: {wanted}"
    if complaint:
        yield f"{page}: {complaint}"
    yield from (f"{page}: {word} is missing" for word in missing(sorted(wanted), text))


def problems_of_file(build, heading, name):
    page = build / "share/man" / f"man{name[-1]}" / name
    text, complaint = rendered(page)
    part = re.search(rf"^## {heading}.*?(?=^## |\Z)", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    rows = re.findall(r"^\| (\S+) \| (\S+) \|", part, re.MULTILINE)
    wanted = {word.strip("`") for row in rows for word in row if word.startswith("`")}
    if len(wanted) < 5:
        yield f"docs/configuration.md: too few options of {heading!r}: {wanted}"
    if complaint:
        yield f"{page}: {complaint}"
    yield from (f"{page}: {word} is missing" for word in missing(sorted(wanted), text))


def main():
    build = pathlib.Path(sys.argv[1])
    problems = [p for program, section in PROGRAMS.items() for p in problems_of(build, program, section)]
    problems += [p for heading, name in FILES.items() for p in problems_of_file(build, heading, name)]
    for problem in problems:
        print(problem)
    print(f"{len(PROGRAMS) + len(FILES)} manual pages: {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
