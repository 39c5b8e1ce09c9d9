"""The prototypes of CUDA's functions, as the toolkit's headers declare them."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path

from diagnostics import DescriptionError, Diagnostic
from model import Place

# The names behind the macros: cuStreamCreate is what a library exports, whatever version of it programs are compiled to call.
SOURCE = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n"
# What of newer headers we serve.
NEWER = Path(__file__).resolve().parent.parent / "abi" / "newer_cuda.h"

Prototypes = dict[str, list[tuple[str, str]]]
"""By function: type and name of each parameter."""


@lru_cache
def declared_in(include: Path) -> Prototypes:
    """What the headers in this folder declare. Errors: DescriptionError if there are none, or no compiler to read them with."""
    command = ["cc", "-E", "-P", "-I", str(include), "-x", "c", "-"]
    try:
        (include / "cuda.h").stat()  # or the compiler might find another one
        text = subprocess.run(command, input=f'{SOURCE}#include "{NEWER}"\n', capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", "") or str(error)).splitlines()[0]
        raise DescriptionError([Diagnostic(Place(str(include), 1), "", "bad-header", f"cuda.h cannot be read: {why}")]) from None
    return parsed(re.sub(r"__attribute__\(\([^)]*\)\)", "", text))


def parsed(text: str) -> Prototypes:
    """The functions that a text without comments and macros declares."""
    functions = re.findall(r"CUresult\s+(cu\w+)\s*\(([^;]*?)\)\s*;", text)
    return {name: [_parameter(p) for p in params.split(",") if p.split() not in ([], ["void"])] for name, params in functions}


def _parameter(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)(\w+)(\[\w*\])?", " ".join(text.split()))
    return re.sub(r"\s*\*\s*", "*", match[1].strip() + ("*" if match[3] else "")), match[2]
