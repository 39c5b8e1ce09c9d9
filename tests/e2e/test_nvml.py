"""NVML in a program without a GPU: it tells what the server's devices are and do, and costs the server no session (A5)."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import harness
import toolkits

STEPS = pathlib.Path(__file__).with_name("nvml_steps.py")
SYMBOLS = harness.ROOT / "cuda" / "nvml" / "symbols.txt"
BINDINGS = ("nvidia-ml-py", "13.615.71")


class NvmlTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bindings = toolkits.python_package(*BINDINGS)
        cls.folder = tempfile.TemporaryDirectory(prefix="warpline-usage-")
        cls.addClassCleanup(cls.folder.cleanup)

    def server(self, *flags, certificates=None, **environment):
        """One whose software GPUs nobody else uses."""
        usage = {"SOFTGPU_USAGE_FILE": f"{self.folder.name}/{self.id()}", "SOFTGPU_DEVICES": "2", "SOFTGPU_MEMORY": "1GiB"}
        server = harness.Server(certificates=certificates, flags=flags, environment={**usage, **environment})
        self.addCleanup(server.__exit__)
        return server

    def start(self, step, *arguments, server, **environment):
        environment = {"PYTHONPATH": str(self.bindings), "PYTHONDONTWRITEBYTECODE": "1", **server.environment(), **environment}
        program = harness.popen([sys.executable, STEPS, step, *arguments], "remote", None, environment, stdin=subprocess.PIPE)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def end(self, program):
        stdout, stderr = program.communicate(timeout=300)
        self.assertEqual((program.returncode, stdout.splitlines()[-1:]), (0, ["verified"]), stderr)
        return stderr

    def run_step(self, step, *arguments, server=None, **environment):
        return self.end(self.start(step, *arguments, server=server or self.server(), **environment))

    def test_a5_devices_are_those_of_cuda(self):
        self.run_step("names")

    def test_a5_visible_devices_are_not_nvmls_business(self):
        self.run_step("values", CUDA_VISIBLE_DEVICES="1")

    def test_a5_asking_costs_no_session(self):
        server = self.server()
        stderr = self.run_step("values", server=server)
        self.assertEqual(stderr, "")
        self.assertNotIn("session start", server.log_text())

    def test_a5_every_function_is_there(self):
        self.run_step("every_function", SYMBOLS)

    def test_a5_counting_versions_and_buffers(self):
        self.run_step("rules", server=self.server(SOFTGPU_DEVICES="3"))

    def test_a5_a_program_at_work_is_seen(self):
        server = self.server()
        program = self.start("work", server=server)
        watcher = self.start("watch", program.stdout.readline().strip(), server=server)
        self.assertEqual(watcher.stdout.readline(), "seen\n", watcher.stderr.read() if watcher.poll() is not None else "")
        self.end(program)
        self.end(watcher)
        self.assertEqual(server.log_text().count("session start"), 1)

    def test_a5_programs_of_other_tenants_are_not_told(self):
        server = self.server()
        folder = server.certificates / "tenants" / "other"
        subprocess.run([harness.ROOT / "certs" / "enrol-tenant", "--dir", server.certificates, "other"], check=True, capture_output=True)
        program = self.start("work", server=server)
        program.stdout.readline()
        other = {"WARPLINE_CERT": str(folder / "tenant.crt"), "WARPLINE_KEY": str(folder / "tenant.key")}
        self.run_step("foreign", server=server, **other)
        self.end(program)

    def test_a5_children_of_fork(self):
        self.run_step("child")

    def test_a5_threads(self):
        self.run_step("threads")

    def test_a5_without_a_server(self):
        server = self.server()
        reason = self.run_step("no_server", server=server, WARPLINE_SERVERS="127.0.0.1:1")
        self.assertRegex(reason, r"\Awarpline: NVML: 127\.0\.0\.1:1: .*refused.*\n\Z")
        reason = self.run_step("no_server", server=server, WARPLINE_SERVERS="")
        self.assertIn("no server is configured", reason)

    def test_a5_a_server_that_ends(self):
        server = self.server()
        program = self.start("lost", server=server, WARPLINE_CONNECT_TIMEOUT="5")
        self.assertEqual(program.stdout.readline(), "here\n")
        server.stop()
        self.end(program)

    def test_a5_one_of_several_servers(self):
        server = self.server()
        pool = f"127.0.0.1:1,{server.address}"
        self.run_step("values", server=server, WARPLINE_SERVERS=pool)

    def test_a5_the_server_of_the_session(self):
        first = self.server(CUDA_VISIBLE_DEVICES="0")
        second = self.server(certificates=first.certificates, CUDA_VISIBLE_DEVICES="1")
        pool = f"{first.address},{second.address}"
        self.run_step("session_first", server=first, WARPLINE_SERVERS=pool, WARPLINE_POLICY="in_order")

    def test_a5_a_server_without_nvml(self):
        self.run_step("without_library", server=self.server("--nvml=none"))

    def stand_in(self, *lines, **environment):
        """A server whose NVML says this of the first device, and what the lines say."""
        path = pathlib.Path(self.folder.name) / self.id()
        server = self.server(f"--nvml={harness.FAKE_NVML}", FAKE_NVML=f"{path}-says", **environment)
        uuid = re.search(r"(?:GPU|MIG)-[0-9a-f-]{36}", server.log_text())[0]
        pathlib.Path(f"{path}-says").write_text("".join(f"{line}\n" for line in (f"{uuid} 37 {6 << 30} {8 << 30}", *lines)))
        return server

    def test_a5_what_nvidias_library_says(self):
        self.run_step("nvidias", server=self.stand_in())

    def test_a5_memory_of_a_process_that_is_not_known(self):
        server = self.stand_in()
        program = self.start("unknown_memory", server=server, WARPLINE_MEMORY="512MiB")
        self.assertEqual(program.stdout.readline(), "here\n")
        worker = re.search(r"session start .* worker=(\d+)", server.log_text())[1]
        with open(f"{self.folder.name}/{self.id()}-says", "a", encoding="utf-8") as says:
            says.write(f"process {worker} {(1 << 64) - 1}\n")
        self.end(program)

    def test_a5_parts_of_gpus(self):
        parts = {"SOFTGPU_PROFILE": "generous,mig=yes"}
        self.run_step("part", "known", server=self.stand_in(**parts))
        self.run_step("part", "unknown", server=self.server(**parts))

    def test_a5_a_slow_library(self):
        self.run_step("slow", server=self.stand_in("slow 2300"))


class DeviceFilesTest(unittest.TestCase):
    """What `warpline run --device-files` shows a program, and nobody else."""

    LOOK = "ls /dev/nvidia*; cat /proc/driver/nvidia/version /proc/driver/nvidia/gpus/*/information; echo x >/dev/null && test -d /dev/shm && script -qec true /dev/null </dev/null >/dev/null && id -u"

    def check(self, done, devices, user):
        self.assertEqual(done.returncode, 0, done.stderr)
        files = ["nvidia-uvm", *(f"nvidia{i}" for i in range(devices)), "nvidiactl"]
        self.assertRegex(done.stdout, "^" + "".join(f"/dev/{name}\n" for name in files) + r"NVRM version: .* \d+\.[\d.]+  \(Warpline\)\n")
        self.assertEqual(len(re.findall(r"GPU UUID: \t GPU-[0-9a-f-]{36}\n", done.stdout)), devices)
        self.assertEqual(done.stdout.splitlines()[-1], str(user))

    def setUp(self):
        if subprocess.run(["unshare", "-m", "true"] if os.geteuid() == 0 else ["unshare", "-Urm", "true"], capture_output=True).returncode != 0:
            self.skipTest("this system allows no mount namespace")
        self.before = sorted(os.listdir("/dev"))

    def tearDown(self):
        self.assertEqual([name for name in os.listdir("/dev") if name.startswith("nvidia") and name not in self.before], [])

    def test_a5_of_a_server(self):
        with harness.Server(environment={"SOFTGPU_DEVICES": "3"}) as server:
            done = harness.warpline("run", "--device-files", "--", "sh", "-c", self.LOOK, environment=server.environment())
            self.check(done, 3, os.geteuid())
            self.assertNotIn("session start", server.log_text())

    def test_a5_of_another_user(self):
        other = ["setpriv", "--reuid", "4321", "--regid", "4321", "--clear-groups", "env", "HOME=/nonexistent"]
        if os.geteuid() != 0 or harness.sanitizer_runtime():
            self.skipTest("only root becomes another user; the sanitizers have their own way in")
        for needed in (["test", "-x", harness.WARPLINE], ["unshare", "-Urm", "true"]):
            if subprocess.run([*other, *needed], capture_output=True).returncode != 0:
                self.skipTest("others may not come here, or have no namespaces")
        command = [harness.WARPLINE, "run", "--local", "--driver", "software", "--device-files", "--", "sh", "-c", self.LOOK]
        self.check(subprocess.run([*other, *command], capture_output=True, text=True, timeout=120), 1, 4321)

    def test_a5_without_a_server(self):
        with harness.Server() as server:
            environment = {**server.environment(), "WARPLINE_SERVERS": "127.0.0.1:1"}
        done = harness.warpline("run", "--device-files", "--", "true", environment=environment)
        self.assertEqual(done.returncode, 125)
        self.assertIn("warpline: NVML: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
