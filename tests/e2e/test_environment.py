"""CUDA's environment variables mean what they mean, through a server too (A9)."""

import pathlib
import resource
import unittest

import harness
from test_failure import workers_of

PROGRAM = harness.programs()["environment"]
VECTOR_ADD = harness.programs()["vector_add"]
ALL_MAJOR = harness.programs()["vector_add_all_major"]
LEAVE = harness.programs()["leave"]
MANAGED = harness.programs()["managed"]
NO_DEVICE, JIT_DISABLED = 100, 223  # cudaErrorNoDevice, cudaErrorJitCompilationDisabled
DEVICES = {"SOFTGPU_DEVICES": "3"}
server = None


def setUpModule():
    global server
    for program in (PROGRAM, VECTOR_ADD, ALL_MAJOR, LEAVE, MANAGED):
        harness.build_program(program)
    server = harness.Server(environment=DEVICES)


def tearDownModule():
    server.__exit__()


def say(what, mode="remote", on=None, **variables):
    done = harness.run([PROGRAM.binary, what], mode, on or server, extra={**DEVICES, **variables})
    if done.code != 0:
        raise AssertionError(f"{done.code}: {done.stdout}{done.stderr}")
    return done


def devices(mode="remote", on=None, **variables):
    return say("devices", mode, on, **variables).stdout.splitlines()


class DevicesTest(unittest.TestCase):
    def setUp(self):
        self.all = devices()
        self.assertEqual(len(self.all), 3)

    def test_visible_devices_in_all_its_forms(self):
        first, second, third = self.all
        names = [line.split()[1] for line in self.all]
        uuids = [f"GPU-{n[:8]}-{n[8:12]}-{n[12:16]}-{n[16:20]}-{n[20:]}" for n in names]
        none = [f"error {NO_DEVICE}"]
        for mode in ("direct", "remote"):
            for value, expected in (
                ("2,0", [third, first]), ("1,-1,0", [second]), ("0,7", [first]), ("-1", none), ("", none), ("0,0", none),
                (uuids[1], [second]), (f"{uuids[2]},0", [third, first]), (uuids[0][:8], none), (f"1,{uuids[0][:8]}", [second]),
                ("MIG-" + uuids[0][4:], none), ("NoDevFiles", none),
            ):
                with self.subTest(mode=mode, value=value):
                    self.assertEqual(devices(mode, CUDA_VISIBLE_DEVICES=value), expected)

    def test_our_own_library_is_no_driver(self):
        with self.assertRaisesRegex(RuntimeError, "is Warpline's client library, not a CUDA driver"):
            harness.Server(driver=harness.CLIENT_LIB / "libcuda.so.1")

    def test_on_the_server_it_says_what_there_is_to_be_seen(self):
        with harness.Server(environment={**DEVICES, "CUDA_VISIBLE_DEVICES": "2,1"}) as two:
            self.assertEqual(devices(on=two), [self.all[2], self.all[1]])
            self.assertEqual(devices(on=two, CUDA_VISIBLE_DEVICES="1"), [self.all[1]])
            # The order of a list is the list's; what its numbers mean is the variable's.
            self.assertEqual(devices(on=two, CUDA_DEVICE_ORDER="PCI_BUS_ID"), [self.all[2], self.all[1]])

    def test_parts_of_a_gpu_have_names_of_their_own(self):
        parts = {"SOFTGPU_PROFILE": "generous,mig=yes"}
        with harness.Server(environment={**DEVICES, **parts}) as mig:
            name = devices(on=mig)[1].split()[1]
            uuid = f"MIG-{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
            self.assertIn(uuid, mig.log_text())
            for mode in ("direct", "remote"):
                seen = devices(mode, mig, CUDA_VISIBLE_DEVICES=uuid, **parts)
                self.assertEqual([line.split()[1] for line in seen], [name], mode)


class DriverTest(unittest.TestCase):
    def test_eager_loading_sends_images_when_they_are_loaded(self):
        lazy = say("loading")
        eager = say("loading", CUDA_MODULE_LOADING="EAGER")
        self.assertEqual((lazy.stdout, eager.stdout), ("lazy\n", "eager\n"))
        self.assertEqual(lazy.stats["payload_bytes_sent"], 0)
        self.assertGreater(eager.stats["payload_bytes_sent"], 1000)

    def test_launches_wait_in_every_stream(self):
        plain = say("launches").stats["blocking_round_trips"]
        blocking = say("launches", CUDA_LAUNCH_BLOCKING="1").stats["blocking_round_trips"]
        self.assertGreaterEqual(blocking, plain + 9)

    def test_what_may_be_compiled(self):
        def run(program, **variables):
            done = harness.run([program.binary], "remote", server, extra=variables)
            return done.code, done.stdout + done.stderr
        for variable in ("CUDA_DISABLE_PTX_JIT", "CUDA_DISABLE_JIT"):
            code, said = run(VECTOR_ADD, **{variable: "1"})
            self.assertNotEqual(code, 0)
            self.assertIn(f"({JIT_DISABLED})", said)
            self.assertEqual(run(ALL_MAJOR, **{variable: "1"})[0], 0, "it has machine code for the device")
        self.assertEqual(run(VECTOR_ADD, CUDA_FORCE_PTX_JIT="1")[0], 0)

    def test_a_drivers_settings_reach_a_worker_of_its_own(self):
        process = harness.popen([LEAVE.binary, "stay"], "remote", server, extra={"CUDA_DEVICE_MAX_CONNECTIONS": "1"})
        try:
            self.assertEqual(process.stdout.readline(), "working\n")
            setting = b"CUDA_DEVICE_MAX_CONNECTIONS=1"
            with_it = [w for w in workers_of(server) if setting in pathlib.Path(f"/proc/{w}/environ").read_bytes().split(b"\0")]
            self.assertEqual(len(with_it), 1)
        finally:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    unittest.main()


class LimitsTest(unittest.TestCase):
    def test_a_limit_on_files_ends_nobody_by_a_signal(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        for program, code, said in ((VECTOR_ADD, 0, r"^$"), (MANAGED, 1, r"cannot be had: .*`ulimit -f`(.|\n)*out of memory \(2\)")):
            process = harness.popen([program.binary], "remote", server, extra=DEVICES, preexec_fn=limit)
            _, errors = harness.finish(process, harness.patience(60), server)
            self.assertEqual(process.returncode, code, errors)
            self.assertRegex(errors, said)
