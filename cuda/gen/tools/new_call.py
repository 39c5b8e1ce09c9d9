#!/usr/bin/env python3
"""Prints a first version of the entry of a call, from its prototype in cuda.h, with the next free id of its area.

  new_call.py cuMemAllocManaged managed [--include /usr/local/cuda/include]

Directions, lengths and `parks` are guesses: read them before the entry goes into cuda/api/<area>.yaml. Then
`generate.py --api cuda/api --target lock` appends the id, and `--target check` tells what is still wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
GENERATOR = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(GENERATOR))

import loader  # noqa: E402
import prototypes  # noqa: E402


def guess(c_type: str) -> str:
    """What there is to be said of a parameter beside its type; nothing of one by value."""
    if not c_type.endswith("*"):
        return ""
    if c_type == "const char*":
        return "dir: in, string: yes"
    return "dir: in" if c_type.startswith("const ") else "dir: out"


def next_id(folder: Path, include: Path, area: str) -> int:
    """One more than the highest id of the area, in ids.lock or in the description."""
    api, _ = loader.load(folder, prototypes.declared_in(include))
    names = {c.name for a in api.areas if a.name == area for c in a.calls}
    used = [c.id for a in api.areas if a.name == area for c in a.calls] + [n for name, n in api.lock.items() if name in names]
    if not used:
        sys.exit(f"no area {area} yet: take a free first byte of ids.lock for it")
    number = max(used) + 1
    while number in api.lock.values():
        number += 1
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call")
    parser.add_argument("area")
    parser.add_argument("--include", type=Path, default=Path("/usr/local/cuda/include"), metavar="DIR")
    parser.add_argument("--api", type=Path, default=GENERATOR.parent / "api", metavar="DIR")
    options = parser.parse_args()
    declared = prototypes.declared_in(options.include)
    if options.call not in declared:
        sys.exit(f"cuda.h declares no {options.call}")
    print(f"- call: {options.call}\n  id: 0x{next_id(options.api, options.include, options.area):04x}\n  class: blocking\n  parks: no")
    guesses = [f"    {name}: {{{guess(c_type)}}}" for c_type, name in declared[options.call] if guess(c_type)]
    print("\n".join(["  params:", *guesses] if guesses else []), end="\n" if guesses else "")
    print(f'  source: "CUDA Driver API 13.0, …, {re.sub("_v[0-9]+$", "", options.call)}"')


if __name__ == "__main__":
    main()
