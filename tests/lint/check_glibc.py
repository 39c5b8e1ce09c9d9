#!/usr/bin/env python3
"""Checks that programs and libraries run with an old glibc: none asks for a version above NEWEST, for a private name, or for a library
that is not glibc's.

Usage: check_glibc.py FOLDER     of a build, or of what was installed: its bin/ and lib/"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from wheel_builder.binaries import SYSTEM_LIBRARIES  # noqa: E402

NEWEST = (2, 28)


def readelf(option, file):
    return subprocess.run(["readelf", "--wide", option, file], check=True, capture_output=True, text=True).stdout


def problems(file):
    wanted = re.findall(r" UND (\S+?)@(GLIBC_\S+)", readelf("--dyn-syms", file))
    for name, version in sorted(set(wanted)):
        numbers = tuple(int(part) for part in re.findall(r"\d+", version))
        if not numbers or numbers > NEWEST:
            yield f"asks for {name} of {version}"
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", file)):
        if library not in SYSTEM_LIBRARIES:
            yield f"needs {library}"
    for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", readelf("--dynamic", file)):
        yield f"looks for libraries in {path}"


def main(folder):
    root = pathlib.Path(folder)
    files = [file for place in ("bin/gpu-server", "bin/warpline", "bin/warpline-bench", "lib/*.so*", "lib/warpline/*.so*") for file in root.glob(place)]
    if len(files) < 8:
        sys.exit(f"{folder} has {len(files)} of the 8 files that are shipped")
    found = [f"{file.relative_to(root)} {problem}" for file in files for problem in problems(file)]
    if found:
        sys.exit("\n".join(found))
    print(f"{len(files)} files run with glibc {'.'.join(map(str, NEWEST))} and later")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
