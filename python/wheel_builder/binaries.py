"""The programs and libraries of a build: which the wheel carries, without what only debuggers read, and where they can run."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

# From a build's folder to the package's; the layout is the same. What is a link there is a copy here: wheels have no links.
FILES = (
    "bin/warpline",
    "bin/gpu-server",
    "lib/libsoftgpu.so",
    "lib/libnvidia-ml.so.1",
    "lib/warpline/libcuda.so.1",
    "lib/warpline/libnvidia-ml.so.1",
    "lib/warpline/nvrtc.so",
    "lib/warpline/direct/libcuda.so.1",
)
# What every Linux of the tag has (PEP 600); everything else is linked statically.
SYSTEM_LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libresolv.so.2",
    "ld-linux-x86-64.so.2",
}
_OLDEST = (2, 17)  # the oldest glibc that a tag is for

Version = tuple[int, ...]
PRIVATE: Version = (1 << 30,)  # no version has it for sure


class BuildError(Exception):
    """The wheel cannot be made; one line for the user."""


def _output_of(*command: str | Path) -> str:
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not installed (Debian: binutils)") from None
    if done.returncode != 0:
        raise BuildError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def _of(build: Path, path: str) -> Path:
    if not (build / path).is_file():
        raise BuildError(f"{build / path} is not there: build it first (cmake --build … --target products)")
    return build / path


def read(build: Path) -> dict[str, bytes]:
    """The files of a build by their paths below it, stripped. @raises BuildError if one is missing"""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "stripped"
        for path in FILES:
            _output_of("strip", "--strip-unneeded", "--enable-deterministic-archives", "-o", stripped, _of(build, path))
            found[path] = stripped.read_bytes()
    return found


def version_of(build: Path) -> str:
    """The version of a build, as it tells it itself."""
    return _output_of(_of(build, "bin/warpline"), "--version").split()[-1]


def glibc_of(symbols: str) -> Version:
    """The newest glibc that a file asks for, by what `readelf --version-info` says of it."""
    found = re.findall(r"\bGLIBC_([0-9]+(?:\.[0-9]+)+)", symbols)
    return max((tuple(map(int, version.split("."))) for version in found), default=_OLDEST)


def glibc_needed(build: Path) -> tuple[Version, str]:
    """The oldest glibc that all files run with, and the file that asks for it: PRIVATE if one asks for what glibc promises to
    nobody, which any other version of it may lack. @raises BuildError for a foreign library"""
    newest: Version = _OLDEST
    by = ""
    for path in FILES:
        needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", _output_of("readelf", "--dynamic", "--wide", build / path)))
        if needed - SYSTEM_LIBRARIES:
            raise BuildError(f"{path} needs {', '.join(sorted(needed - SYSTEM_LIBRARIES))}, which not every machine has")
        symbols = _output_of("readelf", "--version-info", "--wide", build / path)
        if "GLIBC_PRIVATE" in symbols:
            return PRIVATE, path
        if glibc_of(symbols) > newest:
            newest, by = glibc_of(symbols), path
    return newest, by


def platform_for(build: Path, glibc: str) -> str:
    """The wheel's platform tag.

    glibc  the version that it is to run with, as "2.28"; or "needed": the oldest with which it does, or this machine's alone
    @raises  BuildError if the build asks for more: the tag would promise what does not hold
    """
    needed, by = glibc_needed(build)
    if glibc == "needed":
        return "linux_x86_64" if needed == PRIVATE else f"manylinux_{needed[0]}_{needed[1]}_x86_64"
    wanted = tuple(map(int, glibc.split(".")))
    if needed == PRIVATE:
        raise BuildError(
            f"{by} uses what glibc keeps to itself (GLIBC_PRIVATE): no wheel of it may say of any version that it is enough"
        )
    if needed > wanted:
        raise BuildError(f"{by} needs glibc {'.'.join(map(str, needed))}: no wheel of it may say that {glibc} is enough")
    return f"manylinux_{wanted[0]}_{wanted[1]}_x86_64"
