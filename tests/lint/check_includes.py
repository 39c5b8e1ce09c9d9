#!/usr/bin/env python3
"""Checks that folders include only what ARCHITECTURE.md allows, and rooms within them only those below; that no header of a wrapped
library escapes its wrapper; that calls are in the file of their area of cuda/api; and that nothing generated is in git. Prints one
line per breach; exit code 1 if there is any."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# folder -> folders of ours it may include (its own is always allowed). The most specific prefix counts.
ALLOWED = {
    "common/base": [],
    "common/log": ["common/base"],
    "common/config": ["common/base", "common/log"],
    "common/net": ["common/base", "common/log"],
    "cuda": ["common/base", "common/log"],
    "compress": ["common/base"],
    "protocol": ["compress", "cuda", "common/base"],
    "client": ["protocol", "compress", "cuda", "common"],
    "server": ["protocol", "compress", "cuda", "common"],
    "softgpu": ["cuda", "common/base", "common/log"],
    "bench": None,  # anything
    "tests": None,
}



def in_order(*rooms):
    """Rooms each of which may include those before it."""
    return {room: list(rooms[:i]) for i, room in enumerate(rooms)}


# The rooms within a folder, and which others each may include: arrows run down only. `gen` is made from cuda/api, in the build
# folder, and not checked itself. Rooms may have rooms of their own.
ROOMS = {
    "client": {
        "state": [],
        "managed": ["state"],
        "trace": [],
        "report": [],
        "identity": [],
        "pool": ["identity"],
        "nvml": ["pool", "identity"],
        "session": ["identity", "report", "state", "managed", "trace"],
        "abi": ["pool", "session", "identity", "report", "state", "managed", "trace"],
        "call": ["gen", "abi", "session", "state", "managed", "trace"],
        "code": ["call", "gen", "abi", "session", "state", "managed", "trace"],
        "graph": ["code", "call", "gen", "abi", "session", "state", "managed", "trace"],
        "copy": ["graph", "code", "call", "gen", "abi", "session", "state", "managed", "trace"],
        "hooks": ["copy", "graph", "code", "call", "gen", "abi", "session", "state", "managed", "trace"],
        "analyze": [],
        "cli": ["analyze", "pool", "identity", "report"],
        "nvrtc": [],
    },
    "server": {
        "control": [],
        "daemon": ["control"],
        "door": ["control"],
        "gauge": ["driver", "control"],
        "cache": ["control"],
        "driver": ["gen", "control"],
        "objects": ["driver", "control"],
        "session": ["gen", "objects", "driver", "control"],
        "hooks": ["gen", "session", "objects", "driver"],
        "worker": ["session", "objects", "driver", "control"],
    },
    "softgpu": {
        "ptx": [],
        "passes": ["ptx"],
        "check": [],
        "exec": ["isa", "check", "passes", "ptx"],  # instructions and what executes them know each other
        "isa": ["exec", "check", "ptx"],
        "driver": ["exec", "check"],
        "nvml": ["driver"],
    },
    "softgpu/driver": in_order(
        "config", "space", "share", "device", "process", "memory", "context", "texture", "code", "operations", "graph", "life", "calls"
    ),
}
# Folders of functions with one file for each area of cuda/api, and what comes before the name of a call there.
BY_AREA = {"client/hooks": "hook_client_", "softgpu/driver/calls": ""}

# Header pattern -> the only folders that may include it.
WRAPPED = {
    r"^asio[/.]": ["common/net", "bench/link"],
    r"^openssl/": ["common/net"],
    r"^fmt/chrono": ["common/log"],
    r"^CLI/": ["common/config", "client/cli", "server/daemon", "bench"],
    r"^toml\+\+/": ["common/config"],
    r"^cuda(Typedefs)?\.h$": ["cuda/abi", "tests/programs"],
    r"^(lz4|zstd)": ["compress", "cuda/image"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


def longest_prefix(path, table):
    fits = [p for p in table if path == p or path.startswith(p + "/")]
    return max(fits, key=len) if fits else None


def breaches_of_rooms(path, header):
    """Why a file may not include a header of its own folder, for each folder with rooms that both are in."""
    for folder, rooms in ROOMS.items():
        if not path.startswith(folder + "/") or not header.startswith(folder + "/"):
            continue
        inside, target = path[len(folder) + 1 :].split("/"), header[len(folder) + 1 :].split("/")[0]
        if len(inside) == 1:
            continue  # not a file of a room; the program itself puts rooms together
        if inside[0] not in rooms:
            yield f"{folder}/{inside[0]}/ is no room that ROOMS in {pathlib.Path(__file__).name} knows"
        elif target not in (inside[0], *rooms[inside[0]]):
            yield f"{folder}/{inside[0]}/ may not include {header}"


def misplaced_calls():
    """Files that are not named like an area, and functions that are not in the file of theirs: what several areas share belongs into a
    room of its own."""
    areas = {p.stem: p.read_text() for p in (ROOT / "cuda/api").glob("*.yaml")}
    area_of = {call: area for area, text in areas.items() for call in re.findall(r"^- call: (\w+)", text, re.M)}
    for folder, prefix in BY_AREA.items():
        for path in sorted((ROOT / folder).glob("*")):
            name = f"{folder}/{path.name}"
            if path.suffix != ".cpp" or path.stem not in areas:
                yield f"{name}: only <area>.cpp is here, for the areas of cuda/api"
                continue
            for call in re.findall(rf"^CUresult {prefix}(cu[A-Z]\w+)\(.*[^;]$", path.read_text(), re.M):
                if area_of.get(call) != path.stem:
                    yield f"{name}: {call} belongs to {area_of.get(call, 'no area')}"


def breaches_of(path, text):
    own = longest_prefix(path, ALLOWED)
    if own is None:
        return
    for match in INCLUDE.finditer(text):
        header = match.group(1)
        line = text.count("\n", 0, match.start()) + 1
        target = longest_prefix(header, ALLOWED)
        if target is not None and ALLOWED[own] is not None:
            if longest_prefix(header, [own, *ALLOWED[own]]) is None:
                yield f"{path}:{line}: {own}/ may not include {header}"
        yield from (f"{path}:{line}: {breach}" for breach in breaches_of_rooms(path, header))
        for pattern, folders in WRAPPED.items():
            if re.match(pattern, header) and longest_prefix(path, folders) is None and not path.startswith("tests/"):
                yield f"{path}:{line}: only {', '.join(folders)} may include <{header}>"


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    breaches = [f"{f}: generated code does not belong in git" for f in files if re.search(r"\.(gen\.(h|cpp)|capnp\.(h|c\+\+))$", f)]
    for path in files:
        if path.endswith((".h", ".cpp", ".cu")) and (ROOT / path).exists():
            breaches += breaches_of(path, (ROOT / path).read_text(errors="replace"))
    breaches += misplaced_calls()
    print("\n".join(breaches) if breaches else f"{len(files)} files: includes as they should be")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
