"""Every program of programs.toml, directly on the software GPU and through gpu-server (A1, A6, A8, B2, C3)."""

import concurrent.futures
import json
import os
import subprocess
import sys
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
    remote_runs = 0

    def check(self, program, arguments, mode):
        done = harness.run([program.binary, *arguments], mode, self.server, seconds=program.seconds)
        said = f"exit code {done.code}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.code, 0, said)
        self.assertIsNone(harness.wrong_output(program, done.stdout), said)
        if mode == "remote":
            self.assertGreater(done.stats["frames_sent"], 0, "the program did not use the server")
            ProgramTest.remote_runs += 1
            if "WARPLINE_DISABLE" in os.environ:
                return  # more calls wait then
            if program.round_trips is not None:
                self.assertLessEqual(done.stats["blocking_round_trips"], program.round_trips, done.stats)
            allowed = harness.waits(program)
            more = {call: count for call, count in done.stats["waits"].items()
                    if allowed.get(call, 0) != "any" and count > allowed.get(call, 0)}
            self.assertEqual(more, {}, f"calls that wait for the server, and did not before ({allowed}); see list_waits.py")


def add_tests():
    for program in harness.programs().values():
        for arguments in program.args:
            for mode in program.modes:
                name = "_".join(["test", program.name, *(a.split(".")[0] for a in arguments), mode])
                setattr(ProgramTest, name, lambda self, p=program, a=arguments, m=mode: self.check(p, a, m))


add_tests()


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


class UncalledTest(unittest.TestCase):
    """What is forwarded is called by a program, or is on the list of what still is not (A2). After the programs and the probe:
    modules and classes run in the order of the alphabet."""

    def test_forwarded_functions_are_called(self):
        expected = sum(len(p.args) for p in harness.programs().values() if "remote" in p.modes)
        probed = any("warpline-gpu-probe" in programs for programs in harness.called.values())
        if ProgramTest.remote_runs < expected or not probed:
            self.skipTest(f"of {expected} programs {ProgramTest.remote_runs} have passed, and the probe has {'' if probed else 'not '}run")
        (harness.BUILD / "called.json").write_text(json.dumps({f: sorted(p) for f, p in sorted(harness.called.items())}, indent=1))
        generator = [sys.executable, harness.ROOT / "cuda/gen/generate.py", "--api", harness.ROOT / "cuda/api", "--include",
                     harness.cuda_root() / "include", "--called", harness.BUILD / "called.json"]
        subprocess.run([*generator, "--target", "coverage", "--out", harness.BUILD / "generated"], check=True)
        listed = harness.ROOT / "tests/programs/uncalled.txt"
        allowed = {line for line in listed.read_text().splitlines() if line and not line.startswith("#")}
        uncalled = {call.name for call in self.forwarded() if not harness.called.keys() & set(call.symbols)}
        self.assertEqual(uncalled - allowed, set(), "forwarded, and no program calls it: write one")
        self.assertEqual(allowed - uncalled, set(), f"called by now: take it off {listed.name}")

    @staticmethod
    def forwarded():
        sys.path.insert(0, str(harness.ROOT / "cuda/gen"))
        import generate
        api = generate.read(harness.ROOT / "cuda/api", harness.cuda_root() / "include")
        return [call for call in api.calls if call.forwarded]


if __name__ == "__main__":
    unittest.main()
