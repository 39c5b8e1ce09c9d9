"""The scripts beside the generator."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from toy import CUDA_INCLUDE, REAL_API, ROOT, ToyTest

TOOLS = ROOT / "cuda/gen/tools"


class NewCall(ToyTest):
    def new_call(self, name: str) -> subprocess.CompletedProcess:
        options = ["--api", self.api, "--include", CUDA_INCLUDE]
        return subprocess.run([sys.executable, "-B", TOOLS / "new_call.py", name, "stream", *options], capture_output=True, text=True)

    def test_a_first_version_passes_the_checks(self):
        self.symbols("cuStreamGetPriority")
        self.include = CUDA_INCLUDE
        text = self.new_call("cuStreamGetPriority").stdout
        self.assertIn("- call: cuStreamGetPriority\n  id: 0x0404\n", text)
        self.assertIn("  params:\n    priority: {dir: out}\n", text)
        self.write("stream.yaml", (self.api / "stream.yaml").read_text() + text)
        self.lock("0x0404 cuStreamGetPriority")
        self.assertEqual(self.findings(), [])

    def test_a_call_that_does_not_exist(self):
        result = self.new_call("cuMakeCoffee")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("cuda.h declares no cuMakeCoffee", result.stderr)


class PinSymbols(unittest.TestCase):
    def test_the_pinned_list_is_that_of_the_toolkit(self):
        candidates = (CUDA_INCLUDE.parent, Path("/usr/local/cuda"))
        toolkit = next((p for p in candidates if (p / "lib64/stubs/libcuda.so").exists()), None)
        if toolkit is None or "#define CUDA_VERSION 13000" not in (toolkit / "include/cuda.h").read_text():
            self.skipTest("no toolkit 13.0 with a stub libcuda.so")
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "symbols.txt"
            subprocess.run([sys.executable, "-B", TOOLS / "pin_symbols.py", toolkit, out], check=True, capture_output=True)
            self.assertEqual(out.read_text(), (REAL_API / "symbols.txt").read_text())
            command = [sys.executable, "-B", TOOLS / "pin_symbols.py", "--display", toolkit / "include", out]
            subprocess.run(command, check=True, capture_output=True)
            self.assertEqual(out.read_text(), (REAL_API / "display_symbols.txt").read_text())


if __name__ == "__main__":
    unittest.main()
