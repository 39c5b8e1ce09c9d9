#!/usr/bin/env python3
"""Checks that folders include only what ARCHITECTURE.md allows, and rooms within them only those below; that no header of a wrapped
library escapes its wrapper; that files of hooks are named like the areas of cuda/api; and that nothing generated is in git. Prints one
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
    "client": ["protocol", "cuda", "common"],
    "server": ["protocol", "cuda", "common"],
    "softgpu": ["cuda", "common/base", "common/log"],
    "bench": None,  # anything
    "tests": None,
}

# The rooms within a folder, and which others each may include: arrows run down only. `gen` is made from cuda/api, in the build
# folder, and not checked itself.
ROOMS = {
    "client": {
        "state": [],
        "report": [],
        "pool": [],
        "session": ["report", "state"],
        "abi": ["pool", "session", "report", "state"],
        "call": ["gen", "abi", "session", "state"],
        "code": ["call", "gen", "abi", "session", "state"],
        "graph": ["code", "call", "gen", "abi", "session", "state"],
        "copy": ["graph", "code", "call", "gen", "abi", "session", "state"],
        "hooks": ["copy", "graph", "code", "call", "gen", "abi", "session", "state"],
        "cli": ["pool", "report"],
        "nvrtc": [],
    },
    "server": {
        "control": [],
        "daemon": ["control"],
        "door": ["control"],
        "gauge": ["driver", "control"],
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
    },
}
# Sides whose files of hooks are named like the areas of cuda/api.
HOOKS_BY_AREA = ["client"]

# Header pattern -> the only folders that may include it.
WRAPPED = {
    r"^asio[/.]": ["common/net", "bench/link"],
    r"^openssl/": ["common/net"],
    r"^spdlog/": ["common/log"],
    r"^CLI/": ["common/config", "client/cli", "server/daemon", "bench"],
    r"^toml\+\+/": ["common/config"],
    r"^cuda(Typedefs)?\.h$": ["cuda/abi", "tests/programs"],
    r"^(lz4|zstd)": ["compress", "cuda/image"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


def longest_prefix(path, table):
    fits = [p for p in table if path == p or path.startswith(p + "/")]
    return max(fits, key=len) if fits else None


def breach_of_room(path, header):
    """Why a file may not include a header of its own folder, or None."""
    folder = path.split("/")[0]
    if folder not in ROOMS or not header.startswith(folder + "/") or path.count("/") == 1:
        return None  # not a file of a room; the program itself puts rooms together
    own, target = path.split("/")[1], header.split("/")[1]
    if own not in ROOMS[folder]:
        return f"{folder}/{own}/ is no room that ROOMS in {pathlib.Path(__file__).name} knows"
    return None if target in (own, *ROOMS[folder][own]) else f"{folder}/{own}/ may not include {header}"


def misnamed_hooks():
    """Files of hooks that are not named like an area: what several areas share belongs into a room of its own."""
    areas = {p.stem for p in (ROOT / "cuda/api").glob("*.yaml")}
    for side in HOOKS_BY_AREA:
        for path in sorted((ROOT / side / "hooks").glob("*")):
            if path.suffix != ".cpp" or path.stem not in areas:
                yield f"{side}/hooks/{path.name}: only <area>.cpp is here, for the areas of cuda/api"


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
        if (breach := breach_of_room(path, header)) is not None:
            yield f"{path}:{line}: {breach}"
        for pattern, folders in WRAPPED.items():
            if re.match(pattern, header) and longest_prefix(path, folders) is None and not path.startswith("tests/"):
                yield f"{path}:{line}: only {', '.join(folders)} may include <{header}>"


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    breaches = [f"{f}: generated code does not belong in git" for f in files if re.search(r"\.(gen\.(h|cpp)|capnp\.(h|c\+\+))$", f)]
    for path in files:
        if path.endswith((".h", ".cpp", ".cu")) and (ROOT / path).exists():
            breaches += breaches_of(path, (ROOT / path).read_text(errors="replace"))
    breaches += misnamed_hooks()
    print("\n".join(breaches) if breaches else f"{len(files)} files: includes as they should be")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
