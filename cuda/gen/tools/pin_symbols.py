#!/usr/bin/env python3
"""Writes cuda/api/symbols.txt: the symbols of a toolkit's stub libcuda.so, each with the name and the version under which
cuGetProcAddress finds it.

  pin_symbols.py /usr/local/cuda cuda/api/symbols.txt

The versions are those of cudaTypedefs.h (PFN_<name>_v<version>[_ptsz|_ptds]): sorted by version they correspond one to one to the
symbols of that name sorted by suffix (base, _v2, _v3, …). A count that does not agree stops the script.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HEADERS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h")


def read_versions(include: Path) -> dict[tuple[str, bool], set[int]]:
    versions: dict[tuple[str, bool], set[int]] = {}
    for header in HEADERS:
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


def main() -> None:
    toolkit, output = Path(sys.argv[1]), Path(sys.argv[2])
    rows = pair(read_symbols(toolkit / "lib64/stubs/libcuda.so"), read_versions(toolkit / "include"))
    lines = [
        "# The symbols of the CUDA driver library (toolkit 13.0, stubs/libcuda.so), made by cuda/gen/tools/pin_symbols.py.",
        "# symbol  name for cuGetProcAddress  version from which on it is the one  [per_thread]",
    ]
    lines += [f"{symbol} {name} {version}{' per_thread' if twin else ''}" for symbol, name, version, twin in rows]
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rows)} symbols")


if __name__ == "__main__":
    main()
