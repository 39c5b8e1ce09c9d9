#!/usr/bin/env python3
"""Writes cuda/api/symbols.txt: the symbols of a toolkit's stub libcuda.so, each with the name and the version under which
cuGetProcAddress finds it; cuda/api/newer_symbols.txt: those that the headers of a newer toolkit declare besides; and
cuda/api/display_symbols.txt: those for OpenGL, EGL and VDPAU, which the driver has and the stub has not.

  pin_symbols.py /usr/local/cuda cuda/api/symbols.txt
  pin_symbols.py --newer INCLUDE cuda/api/symbols.txt cuda/api/newer_symbols.txt
  pin_symbols.py --display INCLUDE cuda/api/display_symbols.txt

The versions are those of cudaTypedefs.h (PFN_<name>_v<version>[_ptsz|_ptds]): sorted by version they correspond one to one to the
symbols of that name sorted by suffix (base, _v2, _v3, …). A count that does not agree stops the script.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HEADERS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h")
DISPLAY_HEADERS = ("cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h")


def read_versions(include: Path, headers: tuple[str, ...] = HEADERS) -> dict[tuple[str, bool], set[int]]:
    versions: dict[tuple[str, bool], set[int]] = {}
    for header in headers:
        for name, version, twin in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", (include / header).read_text()):
            versions.setdefault((name, bool(twin)), set()).add(int(version))
    return versions


def read_symbols(stub: Path) -> list[str]:
    out = subprocess.run(["nm", "-D", "--defined-only", str(stub)], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in out.splitlines()]


def pair(symbols: list[str], versions: dict[tuple[str, bool], set[int]]) -> list[tuple[str, str, int, bool]]:
    groups: dict[tuple[str, bool], list[tuple[int, str]]] = {}
    for symbol in symbols:
        match = re.fullmatch(r"(cu\w+?)(?:_v(\d+))?(_ptsz|_ptds)?", symbol)
        groups.setdefault((match[1], bool(match[3])), []).append((int(match[2] or 1), symbol))
    rows = []
    for key, members in groups.items():
        members.sort()
        ordered = sorted(versions.get(key, ()))
        if len(ordered) != len(members):
            sys.exit(f"{key[0]}: {len(members)} symbols, but {len(ordered)} versions: {members} {ordered}")
        rows += [(symbol, key[0], version, key[1]) for (_, symbol), version in zip(members, ordered)]
    return sorted(rows)


def read_declarations(include: Path) -> list[str]:
    """The functions that cuda.h declares when it leaves every name as it is exported. There is no stub library in a wheel."""
    source = "#define __CUDA_API_VERSION_INTERNAL 1\n#include <cuda.h>\n"
    command = ["g++", "-E", "-P", "-x", "c++", "-I", str(include), "-"]
    text = subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"\bCUresult\s+(cu\w+)\s*\(", text)))


def read_pinned(path: Path) -> list[tuple[str, str, int, bool]]:
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return [(words[0], words[1], int(words[2]), len(words) > 3) for words in lines]


def newer(include: Path, pinned: list[tuple[str, str, int, bool]]) -> list[tuple[str, str, int, bool]]:
    known = {row[0] for row in pinned}
    rows = pair(sorted(known | set(read_declarations(include))), read_versions(include))
    gone = set(pinned) - set(rows)
    if gone:
        sys.exit(f"the newer headers say otherwise: {sorted(gone)}")
    return [row for row in rows if row[0] not in known]


def display(include: Path) -> list[tuple[str, str, int, bool]]:
    """Each version of a name is a form of it (base, _v2, …), the per-thread one a twin of the last: with no stub to count by."""
    text = "".join((include / header).read_text() for header in DISPLAY_HEADERS)
    suffixes = dict(re.findall(r"\*PFN_(cu\w+?)_v\d+(_ptsz|_ptds)\)", text))
    versions = {key: sorted(found) for key, found in read_versions(include, DISPLAY_HEADERS).items() if "WGL" not in key[0]}
    rows = []
    for (name, twin), found in versions.items():
        forms = [name + (f"_v{i}" if i > 1 else "") for i in range(1, len(versions[name, False]) + 1)]
        rows += [(f"{forms[-1]}{suffixes[name]}", name, found[0], True)] if twin else [
            (form, name, version, False) for form, version in zip(forms, found)]
    return sorted(rows)


def write(path: Path, title: str, rows: list[tuple[str, str, int, bool]]) -> None:
    lines = [
        f"# {title}, made by cuda/gen/tools/pin_symbols.py.",
        "# symbol  name for cuGetProcAddress  version from which on it is the one  [per_thread]",
    ]
    lines += [f"{symbol} {name} {version}{' per_thread' if twin else ''}" for symbol, name, version, twin in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rows)} symbols")


def main() -> None:
    if sys.argv[1] == "--newer":
        include, pinned, output = map(Path, sys.argv[2:5])
        rows = newer(include, read_pinned(pinned))
        newest = max(version for _, _, version, _ in rows)
        write(output, f"What the headers of toolkit {newest // 1000}.{newest % 1000 // 10} declare besides symbols.txt", rows)
        return
    if sys.argv[1] == "--display":
        write(Path(sys.argv[3]), "The driver's symbols for displays (toolkit 13.0, its Typedefs headers)", display(Path(sys.argv[2])))
        return
    toolkit, output = Path(sys.argv[1]), Path(sys.argv[2])
    rows = pair(read_symbols(toolkit / "lib64/stubs/libcuda.so"), read_versions(toolkit / "include"))
    write(output, "The symbols of the CUDA driver library (toolkit 13.0, stubs/libcuda.so)", rows)


if __name__ == "__main__":
    main()
