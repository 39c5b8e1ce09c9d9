#!/usr/bin/env python3
"""Checks that a stand-in library exports exactly the pinned symbols of NVIDIA's and nothing else, and that it needs
nothing from the machine but libc (and a sanitizer's run time in a sanitized build).

Usage: check_exports.py LIBRARY SYMBOLS.txt…"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from wheel_builder.binaries import SYSTEM_LIBRARIES  # noqa: E402

# What gpu-server asks the software GPU, beside the mark of whose library it is, which is absolute (A).
OURS = {"warpline_softgpu_takes_machine_code"}
SANITIZED = re.compile(r"^lib(asan|ubsan|tsan|stdc\+\+|gcc_s)\.so")


def main(library, *pinned):
    lines = [line for path in pinned for line in pathlib.Path(path).read_text().splitlines()]
    wanted = {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}
    output = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    found = {line.split()[-1].split("@")[0] for line in output.splitlines() if line.split()[-2] != "A"} - OURS
    problems = [f"missing: {s}" for s in sorted(wanted - found)] + [f"surplus: {s}" for s in sorted(found - wanted)]
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    sanitized = any(re.match(r"lib[at]san", n) for n in needed)
    for name in needed:
        if name not in SYSTEM_LIBRARIES and not (sanitized and SANITIZED.match(name)):
            problems.append(f"needs {name} from the machine")
    print("\n".join(problems) if problems else f"{library}: {len(found)} symbols, needs {', '.join(needed)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
