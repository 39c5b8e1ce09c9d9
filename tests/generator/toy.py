"""A small description of an interface in a folder of its own, which tests change as they need."""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cuda/gen"))
sys.dont_write_bytecode = True

import generate  # noqa: E402
import prototypes  # noqa: E402
from diagnostics import DescriptionError  # noqa: E402

REAL_API = ROOT / "cuda/api"
CUDA_INCLUDE = Path(os.environ.get("WARPLINE_CUDA_INCLUDE", "/usr/local/cuda/include"))

STREAM = """\
area: stream
title: Streams
calls:
- call: cuStreamCreate
  id: 0x0401
  class: create
  params:
    phStream: {dir: out}
  source: "somewhere"
- call: cuStreamQuery
  id: 0x0402
  class: query
  params:
    hStream: {dir: in}
  source: "somewhere"
- call: cuMemcpyHtoD_v2
  id: 0x0403
  class: ordered
  params:
    srcHost: {dir: in, len: ByteCount, payload: yes}
  ranges:
  - {address: dstDevice, bytes: ByteCount, access: write}
  source: "somewhere"
"""

HEADER = """\
CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags);
CUresult cuStreamQuery(CUstream hStream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount);
CUresult cuProfilerStart(void);
"""

UNSUPPORTED = """\
groups:
- reason: "never needed"
  calls: [cuProfilerStart]
"""

SYMBOLS = """\
cuMemcpyHtoD_v2 cuMemcpyHtoD 3020
cuMemcpyHtoD_v2_ptds cuMemcpyHtoD 7000 per_thread
cuProfilerStart cuProfilerStart 4000
cuStreamCreate cuStreamCreate 2000
cuStreamQuery cuStreamQuery 2000
cuStreamQuery_ptsz cuStreamQuery 7000 per_thread
"""

LOCK = """\
0x0401 cuStreamCreate
0x0402 cuStreamQuery
0x0403 cuMemcpyHtoD_v2
"""


class ToyTest(unittest.TestCase):
    """Gives each test a description that has no mistake."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.api = self.folder / "cuda/api"
        self.api.mkdir(parents=True)
        (self.api / "types.yaml").write_text((REAL_API / "types.yaml").read_text())
        self.write("stream.yaml", STREAM)
        self.write("unsupported.yaml", UNSUPPORTED)
        self.write("symbols.txt", SYMBOLS)
        self.write("ids.lock", LOCK)
        self.include = self.folder / "include"
        self.include.mkdir()
        (self.include / "cuda.h").write_text(HEADER)
        (self.include / "cudaProfiler.h").touch()

    def write(self, name: str, text: str) -> None:
        (self.api / name).write_text(text)

    def entry(self, text: str, name: str = "extra") -> None:
        """Adds an area with one entry, `  ` in front of each line."""
        body = textwrap.indent(textwrap.dedent(text).strip(), "  ")
        self.write(f"{name}.yaml", f"area: {name}\ncalls:\n- " + body[2:] + "\n")

    def declare(self, *functions: str) -> None:
        """Adds declarations to cuda.h, "cuInit(unsigned int Flags)"; the last one of a function counts."""
        with (self.include / "cuda.h").open("a") as stream:
            for function in functions:
                stream.write(f"CUresult {function};\n")
        prototypes.declared_in.cache_clear()

    def symbols(self, *names: str) -> None:
        """Says that the driver has these functions, too, without parameters."""
        self.declare(*(f"{name}(void)" for name in names))
        with (self.api / "symbols.txt").open("a") as stream:
            for name in names:
                stream.write(f"{name} {name.split('_v')[0]} 2000\n")

    def lock(self, *lines: str) -> None:
        with (self.api / "ids.lock").open("a") as stream:
            for line in lines:
                stream.write(line + "\n")

    def read(self):
        return generate.read(self.api, self.include)

    def findings(self) -> list:
        try:
            generate.read(self.api, self.include)
        except DescriptionError as error:
            return error.found
        return []

    def assert_finding(self, kind: str, entry: str, line: int | None = None, text: str = "") -> None:
        """Exactly one finding, of this kind, about this entry."""
        found = self.findings()
        self.assertEqual([(d.kind, d.entry) for d in found], [(kind, entry)], "\n".join(map(str, found)))
        if line is not None:
            self.assertEqual(found[0].place.line, line, str(found[0]))
        self.assertIn(text, found[0].text)
