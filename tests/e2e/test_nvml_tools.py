"""nvidia-smi's and DCGM's ways through NVML, with a device that nobody uses and with one at work (A5)."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import harness
import test_nvml
import toolkits

TOOLS = pathlib.Path(__file__).with_name("nvml_tools.py")


class NvmlToolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bindings = toolkits.python_package(*test_nvml.BINDINGS)
        cls.folder = tempfile.TemporaryDirectory(prefix="warpline-usage-")
        cls.addClassCleanup(cls.folder.cleanup)

    def server(self):
        usage = {"SOFTGPU_USAGE_FILE": f"{self.folder.name}/{self.id()}", "SOFTGPU_DEVICES": "2", "SOFTGPU_MEMORY": "1GiB"}
        server = harness.Server(environment=usage)
        self.addCleanup(server.__exit__)
        return server

    def start(self, script, step, server):
        environment = {"PYTHONPATH": str(self.bindings), "PYTHONDONTWRITEBYTECODE": "1", **server.environment()}
        program = harness.popen([sys.executable, script, step], "remote", None, environment, stdin=subprocess.PIPE)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def page(self, tool, server):
        """What a tool prints."""
        program = self.start(TOOLS, tool, server)
        stdout, stderr = program.communicate(timeout=120)
        self.assertEqual((program.returncode, stdout.splitlines()[-1:]), (0, ["verified"]), stderr)
        return stdout

    def test_a5_the_list(self):
        server = self.server()
        lines = self.page("smi_list", server).splitlines()
        self.assertRegex(lines[0], r"^GPU 0: .+ \(UUID: GPU-[0-9a-f-]{36}\)$")
        self.assertRegex(lines[1], r"^GPU 1: ")
        self.assertNotIn("session start", server.log_text())

    def test_a5_the_table_of_a_device_at_work(self):
        server = self.server()
        program = self.start(test_nvml.STEPS, "work", server)
        pid = program.stdout.readline().strip()
        table = self.page("smi_table", server)
        self.assertRegex(table, rf"\|  1  N/A N/A  {pid}  C  \S*python\S*  [56]\d\dMiB \|")
        self.assertRegex(table, r"\| N/A  \d\dC  P8  20W / 150W \| \d+MiB / 1024MiB \| 0%  Default \| N/A \|")
        stdout, stderr = program.communicate("\n", timeout=120)
        self.assertEqual(stdout.splitlines()[-1:], ["verified"], stderr)

    def test_a5_every_value_of_the_page(self):
        page = self.page("smi_page", self.server())
        self.assertRegex(page, r"GPU 0000[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\.0\n")
        self.assertIn("    Min and Max Power Limit                   : [150000, 150000]\n", page)

    def test_a5_rows_of_monitors(self):
        self.page("smi_monitor", self.server())

    def test_a5_dcgms_host_engine(self):
        self.page("dcgm", self.server())


if __name__ == "__main__":
    unittest.main()
