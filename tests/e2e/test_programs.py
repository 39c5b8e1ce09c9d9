"""Every program of programs.toml, directly on the software GPU and through gpu-server (A1, A6, A8, B2, C3)."""

import concurrent.futures
import os
import unittest

import harness


def setUpModule():
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for program, done in [(p, pool.submit(harness.build_program, p)) for p in harness.programs().values()]:
            if done.exception():
                raise RuntimeError(f"{program.name} does not build") from done.exception()
    ProgramTest.server = harness.Server().__enter__()


def tearDownModule():
    code = ProgramTest.server.stop()
    log = ProgramTest.server.log_text()
    ProgramTest.server.__exit__()
    assert code == 0, f"gpu-server ended with {code}:\n{log}"


class ProgramTest(unittest.TestCase):
    server = None

    def check(self, program, arguments, mode):
        if not program.sanitized and harness.sanitizer_runtime():
            self.skipTest("it takes minutes in a build with a sanitizer")
        done = harness.run([program.binary, *arguments], mode, self.server, seconds=program.seconds)
        said = f"exit code {done.code}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.code, 0, said)
        self.assertIsNone(harness.wrong_output(program, done.stdout), said)
        if mode == "remote":
            self.assertGreater(done.stats["frames_sent"], 0, "the program did not use the server")
            if "WARPLINE_DISABLE" in os.environ:
                return  # more calls wait then
            if program.round_trips is not None:
                self.assertLessEqual(done.stats["blocking_round_trips"], program.round_trips, done.stats)
            allowed = harness.waits(program)
            more = {call: count for call, count in done.stats["waits"].items()
                    if allowed.get(call, 0) != "any" and count > allowed.get(call, 0)}
            self.assertEqual(more, {}, f"calls that wait for the server, and did not before ({allowed}); see list_waits.py")


def modes_of(program):
    """What has no optimisations to switch off is run with them alone; and in a build with a sanitizer the server alone runs a
    program on the software GPU, where it comes to the same code."""
    if ("WARPLINE_DISABLE" in os.environ or harness.sanitizer_runtime()) and "remote" in program.modes:
        return [mode for mode in program.modes if mode != "direct"]
    return program.modes


def add_tests():
    for program in harness.programs().values():
        for arguments in program.args:
            for mode in modes_of(program):
                name = "_".join(["test", program.name, *(a.split(".")[0] for a in arguments), mode])
                setattr(ProgramTest, name, lambda self, p=program, a=arguments, m=mode: self.check(p, a, m))


add_tests()


class ClustersTest(unittest.TestCase):
    DEVICE = {"SOFTGPU_COMPUTE_CAPABILITY": "9.0"}

    def test_b2_questions_about_clusters_are_asked_once(self):
        program = harness.programs()["attributes"]
        harness.build_program(program)
        with harness.Server(environment=self.DEVICE) as server:
            for mode in ("direct", "remote"):
                done = harness.run([program.binary], mode, server, extra=self.DEVICE)
                self.assertEqual(done.code, 0, f"{mode}: {done.stdout}{done.stderr}")
            if "WARPLINE_DISABLE" in os.environ:
                return
            # Two sizes, of which the second brings the others; none; and once the function says which, none again, and 16.
            self.assertEqual(done.stats["waits"]["cuOccupancyMaxActiveClusters"], 5 + 2, done.stats["waits"])  # two of no function
            self.assertEqual(done.stats["waits"]["cuOccupancyMaxPotentialClusterSize"], 2, done.stats["waits"])


class WideColumnsTest(unittest.TestCase):
    DEVICE = {"SOFTGPU_COMPUTE_CAPABILITY": "10.0"}

    def test_a6_columns_of_newer_devices(self):
        program = harness.programs()["columns_wide"]
        harness.build_program(program)
        with harness.Server(environment=self.DEVICE) as server:
            for mode in ("direct", "remote"):
                done = harness.run([program.binary], mode, server, extra=self.DEVICE)
                self.assertEqual((done.code, done.stdout), (0, "wide columns: verified\n"), f"{mode}: {done.stderr}")


class GreenContextsTest(unittest.TestCase):
    """What became of streams of destroyed green contexts before drivers said so."""

    MACHINE = {"SOFTGPU_COMPUTE_CAPABILITY": "9.0", "SOFTGPU_DRIVER_VERSION": "13.0"}

    def test_a2_green_contexts_of_an_older_driver(self):
        program = harness.programs()["green_contexts"]
        harness.build_program(program)
        with harness.Server(environment=self.MACHINE) as server:
            for mode in ("direct", "remote"):
                done = harness.run([program.binary], mode, server, extra=self.MACHINE)
                self.assertEqual(done.code, 0, f"{mode}: {done.stdout}{done.stderr}")


class TwoDevicesTest(unittest.TestCase):
    DEVICES = {"SOFTGPU_DEVICES": "2"}

    def expect(self, name, said):
        program = harness.programs()[name]
        harness.build_program(program)
        with harness.Server(environment=self.DEVICES) as server:
            for mode in ("direct", "remote"):
                done = harness.run([program.binary], mode, server, extra=self.DEVICES)
                self.assertIn(said, done.stdout, f"{mode}: {done.stdout}{done.stderr}")

    def test_pools_of_two_devices(self):
        self.expect("peer_pools", "pools of two devices: verified")

    def test_a6_access_of_peers(self):
        self.expect("peer_access", "access of peers: verified")
        self.DEVICES = {**self.DEVICES, "SOFTGPU_PROFILE": "peers=no"}
        self.expect("peer_access", "access of peers that have none: verified")

    def test_a7_memory_shared_with_two_devices(self):
        self.expect("shared_devices", "page-locked: verified")


class SpinTest(unittest.TestCase):
    """Threads that look for what comes before they sleep, on both sides, find what the others find (B7)."""

    PROGRAMS = "vector_add", "polling", "host_threads", "callbacks", "device_printf"

    def test_programs_whose_calls_look_for_their_replies(self):
        looking = {"WARPLINE_SPIN_MICROSECONDS": "200"}
        with harness.Server(environment=looking) as server:
            for program in (harness.programs()[name] for name in self.PROGRAMS):
                for arguments in program.args:
                    done = harness.run([program.binary, *arguments], "remote", server, seconds=program.seconds, extra=looking)
                    said = f"{program.name} {arguments}: exit code {done.code}\n{done.stdout}{done.stderr}"
                    self.assertEqual(done.code, 0, said)
                    self.assertIsNone(harness.wrong_output(program, done.stdout), said)


if __name__ == "__main__":
    unittest.main()
