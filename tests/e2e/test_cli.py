"""The warpline command and gpu-server's own words, as a user meets them (E1, D1)."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import harness

VECTOR_ADD = harness.programs()["vector_add"]
MANDELBROT = harness.programs()["mandelbrot"]


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(MANDELBROT)


def warpline(*arguments, environment=None, **kwargs):
    env = {**os.environ, **(environment or {})}
    words = [str(a) for a in arguments]
    runtime = harness.sanitizer_runtime()
    if runtime:  # programs are not instrumented: the run time has to come before them
        env["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"
        if "--" in words:
            at = words.index("--") + 1
            words[at:at] = ["sh", "-c", f'LD_PRELOAD="{runtime}:$LD_PRELOAD" exec "$@"', "sh"]
    return subprocess.run([harness.WARPLINE, *words], capture_output=True, text=True, env=env, timeout=120, **kwargs)


class CommandTest(unittest.TestCase):
    def test_version_and_help(self):
        self.assertRegex(warpline("--version").stdout, r"\d+\.\d+\.\d+")
        said = warpline("--help")
        self.assertEqual(said.returncode, 0)
        for word in ("run", "devices", "ping"):
            self.assertIn(word, said.stdout)
        for command in ("run", "devices", "ping"):
            self.assertEqual(warpline(command, "--help").returncode, 0)
        self.assertNotEqual(warpline("no-such-command").returncode, 0)
        self.assertIn("--driver", subprocess.run([harness.GPU_SERVER, "--help"], capture_output=True, text=True).stdout)

    def test_run_local(self):
        done = warpline("run", "--local", "--", VECTOR_ADD.binary)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "vector addition: verified\n")

    def test_run_direct(self):
        done = warpline("run", "--direct", "--", VECTOR_ADD.binary)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "vector addition: verified\n")

    def test_run_passes_exit_code_arguments_and_streams(self):
        done = warpline("run", "--local", "--", "sh", "-c", "cat; echo \"$1\" >&2; exit 37", "sh", "two words", input="in and out")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (37, "in and out", "two words\n"))
        self.assertEqual(warpline("run", "--local", "--", "/no/such/program").returncode, 127)
        self.assertNotEqual(warpline("run").returncode, 0)

    def test_run_local_leaves_nothing_behind(self):
        before = {p for p in os.listdir("/proc") if p.isdigit()}
        with tempfile.TemporaryDirectory() as folder:
            done = warpline("run", "--local", "--", VECTOR_ADD.binary, environment={"TMPDIR": folder})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(folder), [])
        for pid in {p for p in os.listdir("/proc") if p.isdigit()} - before:
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            self.assertNotEqual(str(harness.GPU_SERVER).encode(), command.split(b"\0")[0])

    def test_picture_through_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            done = warpline("run", "--local", "--", MANDELBROT.binary, f"{folder}/m.png", 60, 40, 50,
                            environment={"WARPLINE_STATS": f"{folder}/stats"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(pathlib.Path(f"{folder}/m.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            stats = json.loads(pathlib.Path(f"{folder}/stats").read_text())
            self.assertLessEqual(stats["blocking_round_trips"], 2, stats)  # two copies back
            for key in ("calls", "frames_sent", "bytes_sent", "bytes_received", "payload_bytes_sent", "batches", "seconds_connected", "server"):
                self.assertIn(key, stats)

    def test_bench_runs_its_cases(self):
        cases = ["encode", "tls_pingpong", "tls_bulk"]
        if not harness.sanitizer_runtime():  # the others start themselves as a program that is not instrumented
            cases += ["launch", "sync"]
        done = subprocess.run([harness.BUILD / "bin" / "warpline-bench", "--cases", ",".join(cases), "--runs", "1", "--csv"], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for case in cases:
            self.assertRegex(done.stdout, rf"(?m)^{case},", done.stdout)

    def test_configuration_file_of_the_client(self):
        with harness.Server() as server, tempfile.TemporaryDirectory() as folder:
            names = {"servers": server.address, "certificate": server.certificates / "tenant.crt", "key": server.certificates / "tenant.key",
                     "ca": server.certificates / "ca.crt", "stats": f"{folder}/stats", "log": "info"}
            pathlib.Path(f"{folder}/client.toml").write_text("".join(f'{name} = "{value}"\n' for name, value in names.items()))
            done = harness.run([VECTOR_ADD.binary], "remote", extra={"WARPLINE_CONFIG": f"{folder}/client.toml"}, seconds=30, stats=False)
            self.assertEqual(done.code, 0, done.stderr)
            self.assertIn(f"connected to {server.address}", done.stderr)
            self.assertLessEqual(json.loads(pathlib.Path(f"{folder}/stats").read_text())["blocking_round_trips"], 2)

    def test_devices_and_ping(self):
        with harness.Server(environment={"SOFTGPU_DEVICES": "2"}) as server:
            self.assertEqual(server.log_text().count("Warpline software GPU"), 2, server.log_text())
            done = warpline("devices", environment=server.environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("Warpline software GPU"), 2, done.stdout)
            self.assertIn(server.address, done.stdout)
            done = warpline("ping", environment=server.environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("min", done.stdout)
            done = warpline("run", "--server", server.address, "--", VECTOR_ADD.binary,
                            environment={**server.environment(), "WARPLINE_SERVERS": ""})
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_errors_say_what_to_do(self):
        done = warpline("devices", environment={"WARPLINE_SERVERS": ""})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("WARPLINE_SERVERS", done.stderr)
        with harness.Server() as server:
            environment = server.environment()
            server.stop()
            done = warpline("ping", environment=environment)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"refused.*gpu-server")

    def test_dry_mode_accepts_images_without_ptx(self):
        dry = harness.programs()["dry"]
        harness.build_program(dry)
        for mode in ("--local", "--direct"):
            with self.subTest(mode):
                done = warpline("run", mode, "--", dry.binary, environment={"SOFTGPU_EXECUTE": "0"})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, "dry run: verified\n")

    def test_machine_code_of_nvrtc_runs(self):
        nvrtc = harness.programs()["nvrtc"]
        harness.build_program(nvrtc)
        for mode in ("--local", "--direct"):
            done = warpline("run", mode, "--", nvrtc.binary, "own")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("verified", done.stdout)

    def test_sass_only_image_is_refused_by_name(self):
        binary = harness.BINARIES / "vector_add_sass_only"
        subprocess.run([harness.cuda_root() / "bin" / "nvcc", "-gencode", "arch=compute_80,code=sm_80", "-o", binary, VECTOR_ADD.source], check=True)
        for mode in ("--local", "--direct"):
            done = warpline("run", mode, "--", binary)
            self.assertEqual(done.returncode, 1)
            self.assertIn("(209)", done.stderr)
            self.assertRegex(done.stderr, r"SASS.*compute_")


if __name__ == "__main__":
    unittest.main()
