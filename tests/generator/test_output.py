"""What is generated from a small description compiles and exports what it should."""

import os
import re
import subprocess
import sys
import unittest

from toy import ROOT, STREAM, ToyTest

import generate

CXX = os.environ.get("CXX", "c++")
CAPNP = os.environ.get("WARPLINE_CAPNP", "capnp")
CUDA_INCLUDE = os.environ.get("WARPLINE_CUDA_INCLUDE", "/usr/local/cuda/include")

# What softgpu/driver would define.
IMPLEMENTATIONS = """
#include "softgpu/driver/gen/entries.gen.h"
#include "softgpu/driver/life/entry.h"
#include "common/log/log.h"
namespace warpline::log {
std::atomic<Level> g_least{Level::off};
bool enabled_in(Level, std::string_view) { return false; }
void vwrite(Level, std::string_view, fmt::string_view, fmt::format_args) {}
}
namespace warpline::softgpu::driver {
static int per_thread = 0;
CUresult check_initialised() noexcept { return CUDA_SUCCESS; }
CUresult result_of_exception(const char*) noexcept { return CUDA_ERROR_OUT_OF_MEMORY; }
PerThreadDefaultStream::PerThreadDefaultStream() noexcept { ++per_thread; }
PerThreadDefaultStream::~PerThreadDefaultStream() { --per_thread; }
CUresult cuStreamCreate(CUstream*, unsigned int) { throw 1; }
CUresult cuStreamQuery(CUstream) { return per_thread ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t) { return CUDA_SUCCESS; }
}
"""

MAIN = """
#include "cuda/abi/symbols/symbols.h"
using namespace warpline::cuda::abi;
static CUresult ask(const char* name, int version, cuuint64_t flags, void** out) {
    return get_proc_address(driver_symbols(), k_newest_version, name, out, version, flags, nullptr);
}
int main() {
    void* f = nullptr;
    CUstream stream = nullptr;
    if (cuStreamQuery(nullptr) != CUDA_SUCCESS) return 1;
    if (cuStreamQuery_ptsz(nullptr) != CUDA_ERROR_NOT_READY) return 2;
    if (cuStreamCreate(&stream, 0) != CUDA_ERROR_OUT_OF_MEMORY) return 3;   // the exception has become a result
    if (ask("cuStreamQuery", 7000, 2, &f) != CUDA_SUCCESS || f != reinterpret_cast<void*>(&cuStreamQuery_ptsz)) return 4;
    if (ask("cuStreamQuery", 7000, 0, &f) != CUDA_SUCCESS || f != reinterpret_cast<void*>(&cuStreamQuery)) return 5;
    if (ask("cuProfilerStart", 4000, 0, &f) != CUDA_SUCCESS) return 6;
    if (reinterpret_cast<CUresult (*)()>(f)() != CUDA_ERROR_NOT_SUPPORTED) return 7;
    return 0;
}
"""


class Output(ToyTest):
    def generate(self, *targets: str):
        out = self.folder / "out"
        for target in targets:
            self.assertEqual(generate.main(["--api", str(self.api), "--include", str(self.include), "--out", str(out), "--target", target]), 0)
        return out

    def run_quietly(self, *command: str, **more) -> str:
        result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def compile(self, *sources, output, flags=()):
        warnings = ["-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden"]
        includes = [f"-I{self.folder / 'out'}", f"-I{ROOT}", "-isystem", CUDA_INCLUDE]
        self.run_quietly(CXX, "-std=c++20", *warnings, *includes, *flags, *sources, "-o", output)

    def test_schema_compiles(self):
        out = self.generate("schema")
        schema = out / "protocol/schema/stream.capnp"
        self.run_quietly(CAPNP, "compile", "-ocapnp", f"--src-prefix={out}", "-I/usr/include", schema)
        self.assertIn("struct CuStreamCreate {\n  phStream @0 :UInt64;\n  flags @1 :UInt32;\n}", schema.read_text())

    def test_driver_library_of_the_toy(self):
        out = self.generate("softgpu", "symbols", "ids")
        implementations, main = self.folder / "implementations.cpp", self.folder / "main.cpp"
        implementations.write_text(IMPLEMENTATIONS)
        main.write_text(MAIN)
        gen = out / "softgpu/driver/gen"
        sources = [
            gen / "stream_entries.gen.cpp",
            gen / "refused.gen.cpp",
            out / "cuda/abi/symbols/symbol_table.gen.cpp",
            out / "cuda/gen/call_id.gen.cpp",
            ROOT / "cuda/abi/symbols/symbols.cpp",
            ROOT / "cuda/abi/driver_log.cpp",
            ROOT / "cuda/abi/error_names.cpp",
            ROOT / "softgpu/driver/life/refuse.cpp",
            implementations,
        ]
        self.compile(*sources, main, output=self.folder / "main", flags=["-DFMT_HEADER_ONLY"])
        self.run_quietly(self.folder / "main")
        library = self.folder / "libtoy.so"
        version_script = out / "cuda/abi/symbols/exports.map"
        self.compile(*sources, output=library, flags=["-DFMT_HEADER_ONLY", "-shared", f"-Wl,--version-script={version_script}"])
        exported = {line.split()[-1] for line in self.run_quietly("nm", "-D", "--defined-only", library).splitlines()}
        self.assertEqual(exported, {s.symbol for s in self.read().symbols})

    def test_unchanged_files_are_not_written(self):
        out = self.generate("schema", "ids")
        schema, ids = out / "protocol/schema/stream.capnp", out / "cuda/gen/call_id.gen.h"
        before = (schema.stat().st_mtime_ns, ids.stat().st_mtime_ns)
        self.write("stream.yaml", STREAM.replace('source: "somewhere"', 'source: "somewhere else"'))
        self.generate("schema", "ids")
        self.assertEqual(before, (schema.stat().st_mtime_ns, ids.stat().st_mtime_ns))

    def test_a_wrong_description_writes_nothing(self):
        self.write("stream.yaml", STREAM.replace("class: query", "class: quick"))
        out = self.folder / "out"
        options = ["--api", self.api, "--include", self.include, "--out", out, "--target", "schema"]
        command = [sys.executable, "-B", ROOT / "cuda/gen/generate.py", *options]
        process = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(process.returncode, 1)
        self.assertIn("cuStreamQuery", process.stderr)
        self.assertFalse(out.exists())

    def test_lock_appends(self):
        self.symbols("cuEventQuery")
        self.entry("""
            call: cuEventQuery
            id: 0x0501
            class: query
            source: "somewhere"
        """)
        before = (self.api / "ids.lock").read_text()
        self.assertEqual(generate.main(["--api", str(self.api), "--include", str(self.include), "--target", "lock"]), 0)
        self.assertEqual((self.api / "ids.lock").read_text(), before + "0x0501 cuEventQuery\n")
        self.assertEqual(self.findings(), [])

    def test_banner(self):
        out = self.generate("ids", "softgpu", "symbols", "schema", "tests", "coverage")
        for path in out.rglob("*"):
            if path.is_file():
                self.assertTrue(re.search(r"Do not edit", path.read_text().splitlines()[0]), path)


if __name__ == "__main__":
    unittest.main()
