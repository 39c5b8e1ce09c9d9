"""NVIDIA's libraries through gpu-server: their calls go through, and few of them wait (A4, B2). Libraries that neither the toolkit at hand
nor the package index has are left out, with a line that says so."""

import os
import pathlib
import subprocess
import tomllib
import unittest

import harness
import toolkits

SOURCES = harness.ROOT / "tests" / "libraries"
BINARIES = harness.BUILD / "libraries"
# One for which all of them have machine code.
DRY = {"SOFTGPU_EXECUTE": "0", "SOFTGPU_COMPUTE_CAPABILITY": "9.0", "SOFTGPU_MEMORY": "2GiB"}


def toolkit_with(program):
    """The folder with include/ and lib/ of a program's libraries: the toolkit at hand, or a wheel of the same version."""
    root = harness.cuda_root()
    header = program.get("header", program["links"][0] + ".h")
    if (root / "include" / header).exists():
        return root
    if "wheel" not in program:
        raise unittest.SkipTest(f"the toolkit has no {header}")
    try:
        return toolkits.library(program["wheel"], toolkits.at_hand())
    except toolkits.Unavailable as why:
        raise unittest.SkipTest(f"the toolkit has no {header}, and {program['wheel']} cannot be fetched: {why}") from why


def find(program):
    """What to call the compiler with for a program's libraries. Raises SkipTest if one cannot be had."""
    root = toolkit_with(program)
    folders = [f for f in (root / "lib64", root / "lib") if f.exists()]
    flags = ["-I", str(root / "include")]
    for name in program["links"]:
        if name == "cuda":
            flags.append("-lcuda")
            continue
        found = [path for folder in folders for path in sorted(folder.glob(f"lib{name}.so*"))]
        if not found:
            raise unittest.SkipTest(f"the toolkit has no lib{name}")
        # For the linker: nvcc itself knows names that end with .so only.
        flags += ["-Xlinker", str(found[0]), "-Xlinker", f"-rpath={found[0].parent}"]
    return flags


def build(name, program):
    flags = find(program)
    source, binary = SOURCES / f"{name}.cpp", BINARIES / name
    newest = max(path.stat().st_mtime for path in (source, SOURCES / "library.h", SOURCES / "libraries.toml"))
    if binary.exists() and binary.stat().st_mtime > newest:
        return binary
    BINARIES.mkdir(parents=True, exist_ok=True)
    command = [harness.cuda_root() / "bin" / "nvcc", "-std=c++17", "-O1", "-o", binary, source, *flags]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return binary


class LibrariesTest(unittest.TestCase):
    def run_library(self, name, program, arguments):
        binary = build(name, program)
        environment = {"SOFTGPU_DEVICES": str(program.get("devices", 1)), **({} if program.get("executes") else DRY)}
        with harness.Server(environment=environment) as server:
            done = harness.run([binary, *arguments], "remote", server, extra=environment, seconds=120)
            said = f"exit code {done.code}\n{done.stdout}{done.stderr}\n{server.log_text()}"
        self.assertEqual(done.code, 0, said)
        self.assertIn("all calls went through", done.stdout)
        # How often memory that both sides look at all the time is fetched is a matter of time.
        trips = done.stats["blocking_round_trips"] - done.stats["waits"].get("wlReadPages", 0)
        print(f"  {' '.join([name, *arguments])}: {trips} blocking round trips", flush=True)
        if "WARPLINE_DISABLE" not in os.environ:
            self.assertLessEqual(trips, program["round_trips"], done.stats["waits"])


def add_tests():
    programs = tomllib.loads(pathlib.Path(SOURCES / "libraries.toml").read_text())
    for name, program in programs.items():
        for arguments in program.get("args", [[]]):
            test = "_".join(["test_a4", name, *arguments])
            setattr(LibrariesTest, test, lambda self, n=name, p=program, a=arguments: self.run_library(n, p, a))


add_tests()

if __name__ == "__main__":
    unittest.main()
