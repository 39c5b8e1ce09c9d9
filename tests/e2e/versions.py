#!/usr/bin/env python3
"""Which CUDA version's programs run on which driver version: the matrix, what CUDA's own rules say of each cell, and what was found.

Usage: versions.py [--write]     runs all of it; docs/compatibility.md must say what was found, or is written"""

import concurrent.futures
import re
import subprocess
import sys
import threading
from dataclasses import dataclass

import harness
import toolkits

SOURCES = harness.PROGRAMS / "versions"
BINARIES = harness.BINARIES / "versions"
DRIVERS = ["11.8", "12.2", "12.4", "12.8", "13.0", "13.5"]
MODES = ["direct", "remote"]

INSUFFICIENT_DRIVER = 35
UNSUPPORTED_PTX_VERSION = 222
SECONDS = 120

# [PTX ISA, Release Notes]; from 11.8 on the minor versions agree, but for these.
PTX_OF = {"12.6": 85, "12.8": 87, "12.9": 88}


def ptx_version(version):
    """The PTX of a toolkit, and the newest that its driver compiles, as 10 x major + minor."""
    if version in PTX_OF:
        return PTX_OF[version]
    major, minor = map(int, version.split("."))
    return {11: 70, 12: 80, 13: 90}[major] + minor


@dataclass(frozen=True)
class Row:
    """A program: of which version, how it is linked, and what its kernels are compiled to."""

    kind: str  # shared | static: the runtime; nvrtc: NVRTC and the driver API
    version: str
    code: str = "PTX"  # PTX | machine code: for the device itself, with PTX beside it
    own_compiler: bool = True  # False: compiled by the toolkit at hand and run with this version's runtime

    @property
    def compiled_by(self):
        if self.kind == "nvrtc" or (self.own_compiler and toolkits.major(self.version) == 13):
            return self.version
        return "11.8" if toolkits.major(self.version) < 13 else toolkits.at_hand()

    @property
    def title(self):
        if self.kind == "nvrtc":
            return f"NVRTC {self.version} and the driver API"
        by = "" if self.compiled_by == self.version else f", objects of {self.compiled_by}"
        return f"runtime {self.version}, {self.kind}, {self.code}{by}"

    def expected(self, driver):
        """0, or CUDA's error. A runtime runs on drivers of its major version and newer; PTX must not be newer than its compiler."""
        if self.kind != "nvrtc" and toolkits.major(self.version) > toolkits.major(driver):
            return INSUFFICIENT_DRIVER
        if self.code == "PTX" and ptx_version(self.compiled_by) > ptx_version(driver):
            return UNSUPPORTED_PTX_VERSION
        return 0


def small_part():
    at_hand = toolkits.at_hand()
    return ([Row("shared", "11.8"), Row("shared", "12.9"), Row("static", at_hand), Row("static", at_hand, "machine code"),
             Row("shared", "13.5", "machine code", own_compiler=False), Row("nvrtc", at_hand)],
            ["11.8", "12.4", "13.0", "13.5"])


def everything():
    rows = [Row("static", "11.8")]
    for version in toolkits.VERSIONS:
        rows.append(Row("shared", version))
        if toolkits.major(version) == 13:
            rows += [Row("static", version), Row("static", version, "machine code")]
    return rows + [Row("nvrtc", version) for version in toolkits.VERSIONS], DRIVERS


def _nvcc(row):
    if row.compiled_by == toolkits.at_hand():
        return harness.cuda_root() / "bin" / "nvcc"
    return toolkits.compiler(row.compiled_by)


def _call(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


_compiling = threading.Lock()


def _compile(row):
    """The object of the program, by the row's compiler and for its target; rows share it."""
    source = SOURCES / "tour.cu"
    compiled = BINARIES / f"{row.compiled_by}-{row.code.split()[0]}.o"
    with _compiling:
        if compiled.exists() and compiled.stat().st_mtime > max(source.stat().st_mtime, (SOURCES.parent / "check.h").stat().st_mtime):
            return compiled
        target = ["-gencode", "arch=compute_75,code=compute_75"] if row.code == "PTX" else ["-arch=sm_89"]
        _call([_nvcc(row), "-allow-unsupported-compiler", "-O1", *target, "-c", source, "-o", compiled])
    return compiled


def build(row):
    """The command of a row's program. Raises toolkits.Unavailable if what it takes cannot be fetched."""
    BINARIES.mkdir(parents=True, exist_ok=True)
    if row.kind == "nvrtc":
        binary = BINARIES / "entry_points"
        source = SOURCES / "entry_points.cpp"
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            _call(["g++", "-O1", "-I", harness.cuda_root() / "include", source, "-o", binary, "-ldl"])
        return [binary, _nvrtc(row.version)]
    compiled = _compile(row)
    binary = BINARIES / f"tour-{row.kind}-{row.version}-{compiled.stem}"
    if binary.exists() and binary.stat().st_mtime > compiled.stat().st_mtime:
        return [binary]
    if row.kind == "static":
        library = [_static_runtime(row.version), "-ldl", "-lrt", "-lpthread"]
    else:
        library = [toolkits.runtime_library(row.version), f"-Wl,-rpath,{toolkits.runtime(row.version) / 'lib'}"]
    _call(["g++", compiled, *library, "-o", binary])
    return [binary]


def _static_runtime(version):
    own = harness.cuda_root() / "lib64" / "libcudart_static.a"
    return own if version == toolkits.at_hand() and own.exists() else toolkits.static_runtime(version)


def _nvrtc(version):
    own = sorted((harness.cuda_root() / "lib64").glob("libnvrtc.so.*"))
    return own[0] if version == toolkits.at_hand() and own else toolkits.nvrtc(version)


def run_cell(row, command, driver, mode, server):
    """(the program's CUDA error or 0, what is wrong with that or nothing)"""
    done = harness.run(command, mode, server, extra={"SOFTGPU_DRIVER_VERSION": driver}, seconds=SECONDS, stats=False)
    failed = re.search(r"\((\d+)\)", done.stderr.splitlines()[-1]) if done.code != 0 and done.stderr else None
    found = 0 if done.code == 0 and "verified" in done.stdout else int(failed[1]) if failed else -1
    said = f"{row.title} on {driver}, {mode}: exit code {done.code}\n{done.stdout}{done.stderr}"
    expected = row.expected(driver)
    if found != expected:
        return found, f"expected {expected or 'success'}: {said}"
    if f"driver {toolkits.number(driver)}" not in done.stdout:
        return found, f"another driver version: {said}"
    if found == UNSUPPORTED_PTX_VERSION and mode == "remote" and done.stderr.count("newer than the server's driver") != 1:
        return found, f"one line should say why: {said}"
    return found, None


def run_driver(rows, commands, driver):
    """The cells of one driver version, of both modes."""
    cells = {}
    with harness.Server(environment={"SOFTGPU_DRIVER_VERSION": driver}) as server:
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            cells = {(row, mode): pool.submit(run_cell, row, commands[row], driver, mode, server) for row in rows for mode in MODES}
        return {key: cell.result() for key, cell in cells.items()}


def conflicts(declarations, include):
    """What a compiler says of declarations for an old cuda.h beside those of a new one; nothing if they agree."""
    before = "#define __CUDA_API_VERSION_INTERNAL 1\n#include <cuda.h>\n#undef CUDA_VERSION\n#define CUDA_VERSION 13000\n"
    before += "#define WARPLINE_HAS_NEWER_TYPES\n"
    source = before + declarations.replace("#pragma once", "")
    done = subprocess.run(["g++", "-x", "c++", "-fsyntax-only", "-I", include, "-"], input=source, capture_output=True, text=True)
    return done.stderr


def table(rows, drivers, results):
    """docs/compatibility.md."""
    lines = [
        "# Which CUDA versions run on which driver versions",
        "",
        "Made by `tests/e2e/versions.py` (`scripts/test --all`), by running each program directly on the software GPU and",
        "through `gpu-server`, with `SOFTGPU_DRIVER_VERSION` as the column says. The rules are CUDA's own: a runtime runs on",
        "drivers of its major version and newer; PTX that is newer than the driver cannot be compiled, machine code for the",
        "device need not be. The numbers are CUDA's errors: 35 `cudaErrorInsufficientDriver`, 222",
        "`cudaErrorUnsupportedPtxVersion`. `a/b`: directly a, through a server b.",
        "",
        "| program | " + " | ".join(f"driver {driver}" for driver in drivers) + " |",
        "|---" * (len(drivers) + 1) + "|",
    ]
    for row in rows:
        cells = []
        for driver in drivers:
            found = ["OK" if results[driver][row, mode][0] == 0 else str(results[driver][row, mode][0]) for mode in MODES]
            cells.append(found[0] if found[0] == found[1] else "/".join(found))
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "There is no compiler of 12.x to be had as a package, so runtimes 12.x run objects that 11.8 has compiled; kernels of",
        "12.x are those of its NVRTC. A runtime of 12.x to be linked statically is to be had in no package either.",
        "",
    ]
    return "\n".join(lines)


def main():
    rows, drivers = everything()
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        commands = dict(zip(rows, pool.map(build, rows)))
    results = {driver: run_driver(rows, commands, driver) for driver in drivers}
    wrong = [cell[1] for cells in results.values() for cell in cells.values() if cell[1]]
    text = table(rows, drivers, results)
    page = harness.ROOT / "docs" / "compatibility.md"
    if "--write" in sys.argv[1:]:
        page.write_text(text)
    elif page.read_text() != text:
        print(text)
        wrong.append("docs/compatibility.md says otherwise: run versions.py --write, and look at the difference")
    for problem in wrong:
        print(problem)
    cells = len(rows) * len(drivers) * len(MODES) + 1
    print(f"versions: {cells - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
