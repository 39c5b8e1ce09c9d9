"""Memory and copies where a driver is less generous than the software GPU's own profile (A1, A6, C5; docs/driver-behaviour.md)."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import harness

PROGRAMS = {name: harness.programs()[name] for name in ("copies", "fault_copies", "found_memory", "kernel_buffers", "memory_waits",
                                                     "memory_waits_frees", "pages_ahead", "pools",
                                                     "registered_parts", "two_devices")}


def setUpModule():
    for program in PROGRAMS.values():
        harness.build_program(program)


class MemoryTest(unittest.TestCase):
    def check(self, name, profile, flags=(), **environment):
        with harness.Server(environment={"SOFTGPU_PROFILE": profile, **environment}, flags=flags) as server:
            done = harness.run([PROGRAMS[name].binary, *PROGRAMS[name].args[0]], "remote", server, seconds=120)
            said = f"{profile}: exit code {done.code}\n{done.stdout}{done.stderr}{server.log_text()}"
            self.assertEqual(done.code, 0, said)
            self.assertIn("verified", done.stdout, said)
            return server.log_text()

    def test_strict_driver(self):
        self.check("memory_waits", "strict")

    def test_a_library_that_is_loaded_while_the_device_has_the_memory(self):
        """What it reads arrives, what it loads in turn is looked for where it says, and a function that has the name of one of the C
        library's is left alone (A7)."""
        read_into = "#include <unistd.h>\nssize_t read_into(int fd, void* buffer, size_t size) { return read(fd, buffer, size); }\n"
        load = "#include <dlfcn.h>\nvoid* load(const char* name) { return dlopen(name, RTLD_LAZY | RTLD_DEEPBIND); }\n"
        namesake = "int times(int a, int b, int c) { return a * 100 + b * 10 + c; }\n"
        caller = "int times(int, int, int);\nint call_times(void) { return times(1, 2, 3); }\n"
        with tempfile.TemporaryDirectory() as folder:
            outer, inside = pathlib.Path(folder, "libouter.so"), pathlib.Path(folder, "inside")
            inside.mkdir()
            for library, source, flags in ((outer, read_into + load, ["-Wl,-rpath,$ORIGIN/inside"]),
                                           (inside / "libnamesake.so", namesake, []),
                                           (inside / "libinner.so", read_into + caller, ["-L", inside, "-lnamesake", "-Wl,-rpath,$ORIGIN"])):
                subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-x", "c", "-o", library, "-", "-x", "none", *flags],
                               input=source, text=True, check=True)
            # The sanitizers' dlopen() asks for all libraries in its own name.
            from_there = [] if harness.sanitizer_runtime() else ["from there"]
            with harness.Server() as server:
                done = harness.run([PROGRAMS["kernel_buffers"].binary, "loads", outer, *from_there], "remote", server, seconds=120)
                self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}{server.log_text()}")

    def test_whatever_a_driver_does_with_hints(self):
        for hints in ("ignored", "refused"):
            with self.subTest(hints):
                self.check("copies", f"strict,hints={hints}")

    def test_without_virtual_memory_management(self):
        for name in ("memory_waits", "memory_waits_frees", "copies", "pools"):
            with self.subTest(name):
                self.assertIn("the driver's own addresses", self.check(name, "strict,vmm=no"))

    def test_the_drivers_own_addresses_are_none_of_the_programs(self):
        """Linux places libraries above 0x7e0000000000 and programs at 0x550000000000; the worker's are below."""
        code = (
            "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); address = ctypes.c_uint64(); context = ctypes.c_void_p()\n"
            "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
            "assert cuda.cuCtxSetCurrent(context) == 0\n"
            "assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(8 << 20)) == 0\n"
            "print(hex(address.value))\n"
        )
        environment = {"SOFTGPU_PROFILE": "strict,vmm=no"}
        with harness.Server(environment=environment) as server:
            done = harness.run([sys.executable, "-c", code], "remote", server, extra=environment)
        self.assertEqual(done.code, 0, done.stderr)
        self.assertLess(int(done.stdout, 16), 0x500000000000)

    @unittest.skipIf(harness.sanitizer_runtime(), "the sanitizer has a handler of its own from the start")
    def test_programs_without_shared_memory_have_no_handler(self):
        """Bit 11 of the caught signals is SIGSEGV (proc(5)): it is there from the first managed memory on (A7)."""
        code = (
            "import ctypes, re; cuda = ctypes.CDLL('libcuda.so.1'); address = ctypes.c_uint64(); context = ctypes.c_void_p()\n"
            "def caught(): return int(re.search('SigCgt:\\\\s*(\\\\w+)', open('/proc/self/status').read())[1], 16) >> 10 & 1\n"
            "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
            "assert cuda.cuCtxSetCurrent(context) == 0\n"
            "assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(8 << 20)) == 0\n"
            "assert cuda.cuMemAllocHost_v2(ctypes.byref(address), ctypes.c_size_t(8 << 20)) == 0\n"
            "before = caught()\n"
            "assert cuda.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(64), 1) == 0\n"
            "print(before, caught())\n"
        )
        with harness.Server() as server:
            done = harness.run([sys.executable, "-c", code], "remote", server)
        self.assertEqual((done.code, done.stdout), (0, "0 1\n"), done.stderr)

    def test_a7_page_locked_memory_that_no_word_names_is_explained(self):
        with harness.Server() as server:
            done = harness.run([PROGRAMS["found_memory"].binary, "hidden"], "remote", server)
        said = f"exit code {done.code}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.code, 0, said)
        self.assertEqual(done.stderr.count("cudaHostAllocMapped"), 1, said)

    def test_a7_what_kernels_leave_alone_of_registered_memory_does_not_travel(self):
        with harness.Server() as server:
            done = harness.run([PROGRAMS["registered_parts"].binary, "parts"], "remote", server)
        said = f"exit code {done.code}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.code, 0, said)
        # All of it after the first kernel, and for four readings from the one on that changes all; of 22 rounds.
        self.assertLess(done.stats["shared_pages"]["fetched_bytes"], 8 * (4 << 20), done.stats["shared_pages"])
        # Each change at a new place takes a question more.
        self.assertLess(done.stats["blocking_round_trips"], 3 * 22 + 10, done.stats)

    def test_a7_of_arrays_that_are_used_in_part_little_travels(self):
        with harness.Server() as server:
            done = harness.run([PROGRAMS["pages_ahead"].binary, "parts"], "remote", server)
        said = f"exit code {done.code}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.code, 0, said)
        # 64 KiB of each of 200 arrays of 1 MiB, all of 20 and of what comes along, and what is looked for at other places.
        self.assertLess(done.stats["shared_pages"]["fetched_bytes"], 110 << 20, done.stats["shared_pages"])
        self.assertLess(done.stats["blocking_round_trips"], 60, done.stats)

    def test_copies_behind_a_fault(self):
        for profile in ("generous", "strict"):
            with self.subTest(profile):
                self.check("fault_copies", profile, flags=("--staging-memory=4MiB",))

    def test_two_devices_without_peer_access(self):
        for mode in ("direct", "remote"):
            environment = {"SOFTGPU_DEVICES": "2", "SOFTGPU_PROFILE": "strict,peers=no"}
            with self.subTest(mode), harness.Server(environment=environment) as server:
                done = harness.run([PROGRAMS["two_devices"].binary], mode, server, extra=environment)
                self.assertIn("verified", done.stdout, f"{done.stdout}{done.stderr}")


if __name__ == "__main__":
    unittest.main()
