"""Where the programs and libraries lie that the wheel carries, and how its command is run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ._errors import WarplineError

# The layout of a build and of every installation: bin/ and, beside it, lib/warpline/.
ROOT = Path(__file__).resolve().parent / "files"


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise WarplineError(f"{path} is not there: this is not the package of a wheel; build one with python/build_wheel")
    return path


def command() -> Path:
    """The `warpline` program."""
    return _existing(ROOT / "bin" / "warpline")


def cuda_library() -> Path:
    """The client library that takes the place of NVIDIA's driver."""
    return _existing(ROOT / "lib" / "warpline" / "libcuda.so.1")


def nvml_library() -> Path:
    """The library that takes the place of NVIDIA's NVML."""
    return _existing(ROOT / "lib" / "warpline" / "libnvidia-ml.so.1")


def run_command(words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the `warpline` program to its end and returns what it said. Blocks as long as that takes."""
    return subprocess.run(
        [str(command()), *words], env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
