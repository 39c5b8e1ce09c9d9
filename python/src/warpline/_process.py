"""What of CUDA is loaded in this process, and our libraries in their place."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from . import _files
from ._errors import CudaLoadedError

NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED
_LIBRARIES = re.compile(r"^(libcuda|libnvidia-ml)\.so(\.[0-9.]+)?$")
CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"
_MARKER = "warpline_client_marker"  # what our libraries export, and nobody else


def mapped_libraries(maps: str) -> list[str]:
    """The files of CUDA's driver and of NVML among those that a process has mapped (`/proc/PID/maps`), in that order, once each."""
    found: dict[str, None] = {}
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and _LIBRARIES.match(Path(words[5].removesuffix(" (deleted)")).name):
            found[words[5]] = None
    return list(found)


def _loaded_as(name: str) -> ctypes.CDLL | None:
    """What is loaded under a path, or a name that a library has given itself."""
    try:
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


def loaded() -> Path | None:
    """Our driver library if this process has it already, whoever has loaded it. @raises CudaLoadedError if it has another."""
    paths = mapped_libraries(Path("/proc/self/maps").read_text())
    # By their names as well: a link may lead to a file that is called otherwise.
    for name in [*paths, CUDA, NVML]:
        library = _loaded_as(name)
        if library is not None and not hasattr(library, _MARKER):
            raise CudaLoadedError(
                f"{name} is loaded in this process, and cannot be replaced: call warpline.connect() before anything that uses "
                "CUDA or NVML, or start the program with `warpline run`"
            )
    return next((Path(path) for path in paths if Path(path).name == CUDA), None)


def load() -> Path:
    """Loads our libraries, unless they are there, so that whoever then asks the system for libcuda.so.1 or libnvidia-ml.so.1 is
    given them: the dynamic linker goes by the names that libraries have given themselves.

    @return  the driver library
    @raises  CudaLoadedError
    """
    path = loaded()
    if path is None:
        path = _files.cuda_library()
        ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        ctypes.CDLL(str(_files.nvml_library()), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    return path


def _driver(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path), mode=os.RTLD_NOW)


def has_started(path: Path) -> bool:
    """Whether CUDA has been initialised by this library. Does not initialise it."""
    return int(_driver(path).cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != NOT_INITIALIZED


def start(path: Path) -> int:
    """cuInit: connects. Returns CUDA's error code. Blocks as long as that takes, without the interpreter's lock."""
    return int(_driver(path).cuInit(0))


def error_name(path: Path, code: int) -> str:
    """CUDA's name of an error."""
    name = ctypes.c_char_p()
    _driver(path).cuGetErrorName(code, ctypes.byref(name))
    return name.value.decode() if name.value else "?"
