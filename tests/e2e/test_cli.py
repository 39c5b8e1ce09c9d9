"""The warpline command and gpu-server's own words, as a user meets them (E1, D1)."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

import harness

VECTOR_ADD = harness.programs()["vector_add"]
MANDELBROT = harness.programs()["mandelbrot"]


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(MANDELBROT)


warpline = harness.warpline


class CommandTest(unittest.TestCase):
    def test_a4_the_library_has_the_name_without_a_version_too(self):
        folder = harness.BUILD / "lib" / "warpline"
        for name in (folder / "libcuda.so", folder / "direct" / "libcuda.so"):
            self.assertTrue(name.is_symlink() and name.exists(), name)
            self.assertEqual(name.readlink().name, "libcuda.so.1")

    def test_version_and_help(self):
        self.assertRegex(warpline("--version").stdout, r"\d+\.\d+\.\d+")
        said = warpline("--help")
        self.assertEqual(said.returncode, 0)
        for word in ("run", "devices", "servers", "ping", "options"):
            self.assertIn(word, said.stdout)
        for command in ("run", "devices", "servers", "ping", "options"):
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

        def is_of_the_server(pid):
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                return False
            ours = f"TMPDIR={folder}".encode() in environment.split(b"\0")  # others are those of tests beside this one
            return ours and str(harness.GPU_SERVER).encode() == command.split(b"\0")[0]

        # The server's helpers end when they hear that it has gone.
        left = {p for p in os.listdir("/proc") if p.isdigit()} - before
        self.assertTrue(harness.until(lambda: not any(map(is_of_the_server, left)), 10), "processes of the server are left")

    def test_picture_through_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            done = warpline("run", "--local", "--", MANDELBROT.binary, f"{folder}/m.png", 60, 40, 50,
                            environment={"WARPLINE_STATS": f"{folder}/stats"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(pathlib.Path(f"{folder}/m.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            stats = json.loads(pathlib.Path(f"{folder}/stats").read_text())
            self.assertLessEqual(stats["blocking_round_trips"], 2, stats)  # two copies back
            self.assertEqual((stats["link"]["level"], stats["link"]["missed_pings"]), ("up", 0), stats)
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
            self.check_ping(server)
            done = warpline("run", "--server", server.address, "--", VECTOR_ADD.binary,
                            environment={**server.environment(), "WARPLINE_SERVERS": ""})
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_devices_and_servers_as_json(self):
        with harness.Server(environment={"SOFTGPU_DEVICES": "2"}) as server:
            nobody = "127.0.0.1:1"
            asked = ["--json", "--server", server.address, "--server", nobody]
            done = warpline("devices", *asked, environment=server.environment())
            there, not_there = json.loads(done.stdout)
            self.assertEqual((done.returncode, there["server"], there["reached"], len(there["devices"])), (1, server.address, True, 2))
            for device in there["devices"]:
                self.assertEqual((device["name"], device["compute_capability"]), ("Warpline software GPU", [8, 9]))
                self.assertRegex(device["uuid"], "^GPU-[0-9a-f-]{36}$")
                self.assertLessEqual(device["free_bytes"], device["total_bytes"])
            self.assertEqual(not_there, {"server": nobody, "reached": False, "problem": "unreachable: CUDA error 100"})
            done = warpline("servers", *asked, environment=server.environment())
            there, not_there = json.loads(done.stdout)
            self.assertEqual((done.returncode, there["answered"], there["device_count"], there["max_sessions"]), (1, True, 2, 64))
            self.assertEqual((there["driver"], there["draining"], len(there["devices"])), ("software", False, 2))
            self.assertEqual((not_there["answered"], sorted(not_there)), (False, ["answered", "problem", "server"]))
            self.assertTrue(not_there["problem"].startswith("connection refused"), not_there)
            self.assertEqual(warpline("servers", "--any", *asked, environment=server.environment()).returncode, 0)
            self.assertEqual(warpline("servers", "--any", "--server", nobody, environment=server.environment()).returncode, 1)

    def test_options_and_where_their_values_come_from(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(f"{folder}/client.toml")
            file.write_text('wait_seconds = 60\n')
            environment = {"WARPLINE_CONFIG": str(file), "WARPLINE_SERVERS": "a:1,b:1"}
            done = warpline("options", environment=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"(?m)^servers +WARPLINE_SERVERS +a:1,b:1  \(WARPLINE_SERVERS\)$")
            self.assertRegex(done.stdout, r"(?m)^wait_seconds +WARPLINE_WAIT +60  \(.*client\.toml:1\)$")
            said = json.loads(warpline("options", "--json", environment=environment).stdout)
            options = {option["name"]: option for option in said["options"]}
            self.assertEqual((options["bulk_lanes"]["environment"], options["bulk_lanes"]["origin"]), ("WARPLINE_BULK_LANES", "default"))
            self.assertEqual((options["wait_seconds"]["value"], options["wait_seconds"]["default"], said["problem"]), ("60", "0", ""))
            done = warpline("options", "--json", environment={**environment, "WARPLINE_WAIT": "soon"})
            self.assertEqual(done.returncode, 1)
            self.assertIn("'soon' is not a whole number", json.loads(done.stdout)["problem"])

    def check_ping(self, server):
        done = warpline("ping", environment=server.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("\nanswer from "), 20, done.stdout)
        done = warpline("ping", "-c", 3, "-i", 0.5, "--server", server.address, environment={**server.environment(), "WARPLINE_SERVERS": ""})
        self.assertEqual(done.returncode, 0, done.stderr)
        times = [float(t) for t in re.findall(r"(?m)^answer from \S+: seq=\d time=([0-9.]+) ms$", done.stdout)]
        self.assertEqual(len(times), 3, done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^PING {re.escape(server.address)}: connected in [0-9.]+ ms, driver \d+\.\d, 2 devices$")
        self.assertIn("3 probes sent, 3 answered, 0% loss", done.stdout)
        least, mean, most, deviation = (float(t) for t in re.search(r"min/avg/max/mdev = ([0-9.]+)/([0-9.]+)/([0-9.]+)/([0-9.]+) ms", done.stdout).groups())
        self.assertEqual((least, most), (min(times), max(times)))
        self.assertGreater(least, 0.005, "no message goes to another process and back in that time")
        self.assertAlmostEqual(mean, sum(times) / 3, delta=0.002)
        self.assertAlmostEqual(deviation, (sum(t * t for t in times) / 3 - (sum(times) / 3) ** 2) ** 0.5, delta=0.01)
        # A second of session: the heartbeat has measured the link, too.
        self.assertRegex(done.stdout, r"(?m)^link up for [0-9.]+ s, sent [0-9.]+ k?B/s, received [0-9.]+ k?B/s; heartbeat rtt [0-9.]+ ms, .* 0 of \d+ missed$")
        # The supervisor's line, once the worker is gone.
        measured = re.compile(r"session end .* round_trip_us=[1-9]\d* missed_pings=0 ")
        self.assertTrue(harness.until(lambda: measured.search(server.log_text()), 10), server.log_text())

    def test_ping_of_several_servers_and_of_none(self):
        with harness.Server() as server:
            environment = {**server.environment(), "WARPLINE_SERVERS": f"{server.address},127.0.0.1:1"}
            done = warpline("ping", "-c", 2, environment=environment)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("2 probes sent, 2 answered", done.stdout)
            self.assertIn("127.0.0.1:1: unreachable", done.stdout)
        self.assertEqual(warpline("ping", environment={"WARPLINE_SERVERS": ""}).returncode, 2)

    def test_ping_copies_over_all_lanes_C1(self):
        with harness.Server() as server:
            done = warpline("ping", "-c", 1, "--copy", "64MiB", environment={**server.environment(), "WARPLINE_BULK_LANES": "2"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"(?m)^copied 67108864 bytes to the device at [0-9.]+ [kMG]B/s, back at [0-9.]+ [kMG]B/s$")
            for link in "link", "bulk lane [12]":  # the second one may not be up before the copies are over
                self.assertRegex(done.stdout, rf"(?m)^{link} up for [0-9.]+ s, sent .*, received .*B/s")
            done = warpline("ping", "-c", 1, "--copy", "1PiB", environment=server.environment())
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("\nno copy: CUDA error 2\n", done.stdout)

    def test_ping_that_is_interrupted_sums_up(self):
        with harness.Server() as server:
            process = subprocess.Popen([harness.WARPLINE, "ping", "-i", "3600"], env={**os.environ, **server.environment()}, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
            self.assertIn("PING", process.stdout.readline())
            self.assertIn("seq=1", process.stdout.readline())
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, out + err)
            self.assertIn("1 probes sent, 1 answered, 0% loss", out)
            self.assertIn("link up", out)

    def test_ping_tells_a_server_that_dies(self):
        with harness.Server() as server:
            process = subprocess.Popen([harness.WARPLINE, "ping", "-c", "100000", "-i", "0.01"], env={**os.environ, **server.environment()},
                                       text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while "seq=1" not in process.stdout.readline():
                self.assertIsNone(process.poll())
            server.process.kill()  # its workers end with it
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, out)  # as ping: somebody has answered
            self.assertRegex(out, r"no answer from \S+: seq=\d+ CUDA error 46")
            sent, answered = (int(n) for n in re.search(r"(\d+) probes sent, (\d+) answered", out).groups())
            self.assertEqual(sent, answered + 1)

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
        with tempfile.NamedTemporaryFile() as stats:
            environment = {"SOFTGPU_EXECUTE": "0", "WARPLINE_STATS": stats.name}
            for mode in ("--local", "--direct"):
                with self.subTest(mode):
                    done = warpline("run", mode, "--", dry.binary, environment=environment)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout, "dry run: verified\n")
            waits = json.loads(stats.read().splitlines()[-1])["waits"]
        # Machine code is taken without asking the server, as if it had a GPU (B2).
        self.assertNotIn("wlImageCompile", waits)
        self.assertIn("cuStreamSynchronize", waits)

    def test_machine_code_of_nvrtc_runs(self):
        nvrtc = harness.programs()["nvrtc"]
        harness.build_program(nvrtc)
        for mode in ("--local", "--direct"):
            for how in ("own", "found"):
                done = warpline("run", mode, "--", nvrtc.binary, how)
                self.assertEqual(done.returncode, 0, f"{mode} {how}: {done.stderr}")
                self.assertIn("verified", done.stdout)

    def test_xla_is_asked_for_line_information(self):
        def flags(mode, given):
            done = warpline("run", *mode, "--", "sh", "-c", 'echo "$XLA_FLAGS"', environment={"XLA_FLAGS": given})
            return done.stdout.strip()

        wanted = "--xla_gpu_generate_line_info=true"
        for mode in (["--direct"], ["--local"]):
            self.assertEqual(flags(mode, ""), wanted)
            self.assertEqual(flags(mode, "--xla_gpu_autotune_level=0"), f"--xla_gpu_autotune_level=0 {wanted}")
            self.assertEqual(flags(mode, "--xla_gpu_generate_line_info=false"), "--xla_gpu_generate_line_info=false")
        self.assertEqual(flags(["--server", "127.0.0.1:9"], ""), "", "a server has a GPU")

    def test_ptx_of_a_special_architecture_runs(self):
        binary = harness.BINARIES / "vector_add_90a"
        nvcc = harness.cuda_root() / "bin" / "nvcc"
        subprocess.run([nvcc, "-gencode", "arch=compute_90a,code=compute_90a", "-o", binary, VECTOR_ADD.source], check=True)
        for mode in ("--local", "--direct"):
            done = warpline("run", mode, "--", binary)
            self.assertEqual(done.returncode, 0, f"{mode}: {done.stderr}")
            self.assertIn("verified", done.stdout)

    def test_linked_machine_code_with_line_information_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "one.cu").write_text('''
                #include <cstdio>
                __device__ int twice(int);
                __global__ void kernel(int* value) { *value = twice(*value); }
                int main() {
                    int *there, value = 21;
                    cudaMalloc(&there, 4);
                    cudaMemcpy(there, &value, 4, cudaMemcpyHostToDevice);
                    kernel<<<1, 1>>>(there);
                    cudaMemcpy(&value, there, 4, cudaMemcpyDeviceToHost);
                    cudaError_t error = cudaGetLastError();
                    std::printf("%d %s\\n", value, cudaGetErrorName(error));
                    return value == 42 && error == 0 ? 0 : 1;
                }''')
            (pathlib.Path(folder) / "two.cu").write_text("__device__ int factor = 2;\n__device__ int twice(int x) { return x * factor; }\n")
            nvcc = harness.cuda_root() / "bin" / "nvcc"
            flags = ["-rdc=true", "-lineinfo", "-gencode", "arch=compute_80,code=sm_80"]
            subprocess.run([nvcc, *flags, "-o", f"{folder}/linked", f"{folder}/one.cu", f"{folder}/two.cu"], check=True)
            for mode in ("--local", "--direct"):
                done = warpline("run", mode, "--", f"{folder}/linked")
                self.assertEqual(done.returncode, 0, f"{mode}: {done.stdout}{done.stderr}")

    def test_trace_log_has_a_line_for_each_call(self):
        harness.build_program(VECTOR_ADD)
        for mode in ("--local", "--direct"):
            done = warpline("run", mode, "--", VECTOR_ADD.binary, environment={"WARPLINE_LOG": "off,calls=trace,cuda=debug"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"trace warpline.* calls: cuMemAlloc_v2: 0 \(CUDA_SUCCESS\)")
            # Before cuInit, of which the program has one.
            before, after = done.stderr.split("calls: cuInit: 0", 1)
            self.assertIn("export table F8CFF951 refused", before)
            self.assertNotIn("calls: cuInit: 0", after)

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
