"""A limit of device memory: every call that gives some keeps to it, and what programs ask about the device shows it (D3)."""

import os
import subprocess
import sys
import tempfile
import unittest

import harness

QUOTA = harness.programs()["quota"]
MIB = 1 << 20

# What NVML says of the first device's memory before there is a session, and what CUDA and NVML say when the program has some.
SIZES = """
import ctypes, sys, time
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
context, memory, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
def nvml_says():
    v1, v2 = (ctypes.c_uint64 * 3)(), (ctypes.c_uint64 * 5)(2 << 24 | 40)
    assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(device, v1) == 0 and nvml.nvmlDeviceGetMemoryInfo_v2(device, v2) == 0
    assert nvml.nvmlShutdown() == 0  # lest it tells again what it has heard a moment ago
    (total, free, used), (_, total_2, reserved, free_2, used_2) = v1, v2
    assert (total, free) == (total_2, free_2) and free + used == total == reserved + free_2 + used_2, (list(v1), list(v2))
    return "nvml", total, free, used_2
print(*nvml_says())
assert cuda.cuInit(0) == 0 and cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0
print("cuda", total.value)
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[1]))) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print("cuda", total.value, free.value)
deadline = time.monotonic() + 30  # the server tells for a moment what it has told
while nvml_says()[3] < int(sys.argv[1]) and time.monotonic() < deadline:
    time.sleep(0.05)
print(*nvml_says())
"""


def setUpModule():
    harness.build_program(QUOTA)


class QuotaTest(unittest.TestCase):
    def server(self, *flags, **environment):
        server = harness.Server(environment={"SOFTGPU_MEMORY": "1GiB", **environment}, flags=flags)
        self.addCleanup(server.__exit__)
        return server

    def check(self, server, limit, *arguments, **environment):
        done = harness.run([QUOTA.binary, limit, *arguments], "remote", server, extra=environment, seconds=120)
        said = f"exit code {done.code}\n{done.stdout}{done.stderr}{server.log_text()}"
        self.assertEqual((done.code, done.stdout), (0, f"verified: {limit}\n"), said)
        return server.log_text()

    def test_d3_every_way_to_allocate(self):
        for profile in ("generous", "strict"):
            with self.subTest(profile):
                log = self.check(self.server(SOFTGPU_PROFILE=profile), 64, WARPLINE_MEMORY="64MiB")
                # The first refusal is always told; of later ones only what a second has room for.
                self.assertIn("the program asks for 69206016 bytes of device 0, and has 0 of the 67108864 that it may have", log)

    def test_d3_addresses_of_the_drivers_choice(self):
        self.check(self.server(SOFTGPU_PROFILE="strict,vmm=no"), 64, "own", WARPLINE_MEMORY="64MiB")

    def test_d3_the_servers_limit_holds_where_it_is_smaller(self):
        server = self.server("--session-memory=48MiB")
        self.assertIn("that sessions may have here (session_memory)", self.check(server, 48, WARPLINE_MEMORY="64MiB"))
        self.check(server, 48)
        self.check(server, 32, WARPLINE_MEMORY="32MiB")

    def test_d3_without_credit_and_with_much(self):
        self.check(self.server("--memory-credit=0"), 64, WARPLINE_MEMORY="64MiB")
        self.check(self.server("--memory-credit=1GiB"), 96, WARPLINE_MEMORY="96MiB")

    def test_d3_a_limit_that_cannot_be_read_is_none_to_run_without(self):
        done = harness.run([QUOTA.binary, 64], "remote", self.server(), extra={"WARPLINE_MEMORY": "64 sheep"}, stats=False)
        self.assertEqual(done.code, 1, done.stdout)
        self.assertIn("WARPLINE_MEMORY", done.stderr)
        self.assertIn("64 sheep", done.stderr)

    def test_d3_run_with_memory(self):
        server = self.server()
        run = [harness.WARPLINE, "run", "--memory"]
        environment = harness.environment_for("remote", server, {})
        done = subprocess.run([*run, "64MiB", "--", QUOTA.binary, "64"], env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "verified: 64\n"), done.stderr)
        done = subprocess.run([*run, "many", "--", QUOTA.binary, "64"], env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("--memory: memory = 'many' is not", done.stderr)

    def sizes(self, server, bytes, **environment):
        """What NVML and CUDA say, line by line."""
        done = harness.run([sys.executable, "-c", SIZES, bytes], "remote", server, environment)
        self.assertEqual(done.code, 0, done.stderr + server.log_text())
        return [line.split()[:1] + [int(number) for number in line.split()[1:]] for line in done.stdout.splitlines()]

    def test_d3_cuda_and_nvml_show_the_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            def server(*flags):
                # Spare workers have contexts, too: on the strict profile they would hide what the program has.
                profile = f"{os.environ.get('SOFTGPU_PROFILE', 'generous')},context_bytes=0"
                return self.server(*flags, SOFTGPU_USAGE_FILE=tempfile.mkstemp(dir=folder)[1], SOFTGPU_PROFILE=profile)
            contexts = 16 * MIB  # what a context takes is NVML's, and not the limit's
            for flags, environment, limit, before in (
                ((), {"WARPLINE_MEMORY": "256MiB"}, 256 * MIB, 256 * MIB),
                (("--session-memory=128MiB",), {"WARPLINE_MEMORY": "256MiB"}, 128 * MIB, 256 * MIB),
                (("--session-memory=128MiB",), {}, 128 * MIB, 1024 * MIB),
                ((), {"WARPLINE_MEMORY": "8GiB"}, 1024 * MIB, 1024 * MIB),
            ):
                with self.subTest(flags=flags, **environment):
                    nvml_before, cuda_before, cuda, nvml = self.sizes(server(*flags), 40 * MIB, **environment)
                    self.assertEqual(nvml_before[:2], ["nvml", before])
                    self.assertEqual(cuda_before, ["cuda", limit])
                    self.assertEqual(cuda[:2], ["cuda", limit])
                    self.assertEqual(nvml[:2], ["nvml", limit])
                    if limit < 1024 * MIB:
                        self.assertEqual(cuda[2], limit - 40 * MIB)
                    self.assertTrue(40 * MIB <= nvml[3] <= 40 * MIB + contexts, nvml)
                    self.assertTrue(limit - 40 * MIB - contexts <= nvml[2] <= limit - 40 * MIB, nvml)

    def test_d3_other_sessions_have_their_own(self):
        """One that is at its limit takes nothing from others, nor do those have one for it."""
        server = self.server()
        first = harness.popen([sys.executable, "-c", HOLDS], "remote", server, {"WARPLINE_MEMORY": "64MiB"}, stdin=subprocess.PIPE)
        self.addCleanup(first.communicate)
        self.assertEqual(first.stdout.readline(), "full\n")
        self.check(server, 64, WARPLINE_MEMORY="64MiB")


# Has all that it may have, until its input ends.
HOLDS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20)) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1)) == 2
print("full", flush=True)
sys.stdin.read()
"""

if __name__ == "__main__":
    unittest.main()
