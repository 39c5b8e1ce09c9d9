#!/usr/bin/env python3
"""Makes the packages, installs them where nothing of this machine is, and uses them; closes with 'packages: N passed, N failed, N skipped'.

Usage: run.py [-v] [TEST…]      needs root, mmdebstrap, debhelper and lintian; WARPLINE_BUILD names a build (default build/release)

The server is installed in a fresh Debian 12, the client in a fresh Debian 11, whose glibc is older than that of the machine that builds.
Neither has CUDA. E6."""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import harness  # noqa: E402
import suite  # noqa: E402
from products import enrol, package, program_for_old_systems  # noqa: E402
from root import Root  # noqa: E402

PORT = 14933


def setUpModule():
    global WORK, PACKAGES, SERVER, CLIENT, BEFORE
    WORK = pathlib.Path(tempfile.mkdtemp(prefix="warpline-packages-"))
    unittest.addModuleCleanup(shutil.rmtree, WORK, ignore_errors=True)
    PACKAGES = package(WORK / "packages", "deb", "tarball")
    SERVER = Root(WORK / "server", "bookworm", ["openssl", "systemd", "systemd-sysv", "dbus"])
    CLIENT = Root(WORK / "client", "bullseye")
    BEFORE = {"server": SERVER.files(), "client": CLIENT.files()}
    SERVER.install(PACKAGES["warpline-server"], PACKAGES["warpline-softgpu"])
    CLIENT.install(PACKAGES["warpline-client"], PACKAGES["warpline-softgpu"])
    CLIENT.copy_in(program_for_old_systems("vector_add", WORK), "/opt/vector_add")


# Linked for an older glibc, stat() and its like are system calls of the program's own (cmake/glibc/newer.c), which find no pages that the
# device has (docs/known-issues.md).
OWN_SYSTEM_CALLS = {("kernel_buffers", "names")}


class Server:
    """The installed server, as its unit starts it, with certificates as docs/install.md makes them."""

    def __init__(self):
        enrol(SERVER, CLIENT, PORT)

    def __enter__(self):
        read, write = os.pipe()
        self.log = open(WORK / "server.log", "w+")
        self.process = SERVER.start("/usr/bin/gpu-server", "--listen", f"127.0.0.1:{PORT}", "--ready-fd", str(write), pass_fds=[write],
                                    stdout=self.log, stderr=subprocess.STDOUT)
        os.close(write)
        with os.fdopen(read) as ready:
            if not ready.readline():
                self.process.wait()
                self.log.seek(0)
                raise AssertionError(self.log.read())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


def user_of(process):
    """The effective one: what belongs to a process that hides itself is root's."""
    return int(re.search(r"^Uid:\s+\d+\s+(\d+)", (process / "status").read_text(), re.MULTILINE)[1])


def processes_of(program):
    """Those in /proc that run it."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "exe").endswith(program):
                yield process


class Packages(unittest.TestCase):
    def test_debian_says_that_they_are_well_made(self):
        debs = [file for file in PACKAGES.values() if file.suffix == ".deb"]
        done = subprocess.run(["lintian", "--fail-on", "error", *debs], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stdout, "manual|groff", "each program has its page")

    def test_the_same_bytes_each_time(self):
        again = package(WORK / "again", "deb", "tarball")
        self.assertEqual(PACKAGES.keys(), again.keys())
        for name, file in PACKAGES.items():
            self.assertEqual(hashlib.sha256(file.read_bytes()).digest(), hashlib.sha256(again[name].read_bytes()).digest(), name)

    def test_tarball_runs_from_anywhere(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(PACKAGES["warpline"]) as archive:
                archive.extractall(folder)
            root = next(pathlib.Path(folder).iterdir())
            for where in ("--local", "--direct"):
                done = subprocess.run([root / "bin/warpline", "run", where, "--", WORK / "vector_add"], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, where + done.stdout + done.stderr)

    def test_unit_is_valid(self):
        unit = SERVER.folder / "lib/systemd/system/warpline-server.service"
        with tempfile.TemporaryDirectory() as folder:
            # systemd-analyze looks whether the program is there, and here it is elsewhere.
            copy = pathlib.Path(folder) / unit.name
            copy.write_text(unit.read_text().replace("/usr/bin/gpu-server", str(harness.GPU_SERVER)))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Use(unittest.TestCase):
    """In the order of their names: the last ones take the packages away."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    def test_1_program_runs_over_tls_in_an_older_system(self):
        with self.server:
            CLIENT.run("/usr/bin/warpline", "run", "--", "/opt/vector_add")
            devices = CLIENT.run("/usr/bin/warpline", "devices").stdout
            self.assertIn(f"localhost:{PORT}", devices)
            log = (WORK / "server.log").read_text()
            self.assertIn('tenant="alice"', log)

    def test_2_no_launcher_where_the_loader_knows(self):
        link = CLIENT.folder / "etc/ld.so.conf.d/warpline.conf"
        link.symlink_to("/usr/share/warpline/ld.so.conf.d/warpline.conf")
        CLIENT.run("ldconfig")
        with self.server:
            CLIENT.run("/opt/vector_add")
        link.unlink()
        CLIENT.run("ldconfig")
        self.assertNotEqual(CLIENT.run("/opt/vector_add", check=False).returncode, 0, "it ran without anybody's libcuda.so.1")

    def test_3_software_gpu_in_the_programs_process(self):
        CLIENT.run("/usr/bin/warpline", "run", "--direct", "--", "/opt/vector_add")

    def test_4_stranger_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "certs" / "dev", folder], check=True, capture_output=True)
            for name in ("tenant.crt", "tenant.key"):
                CLIENT.copy_in(f"{folder}/{name}", f"/root/stranger/{name}")
        stranger = {"WARPLINE_CERT": "/root/stranger/tenant.crt", "WARPLINE_KEY": "/root/stranger/tenant.key"}
        with self.server:
            done = CLIENT.run("/usr/bin/warpline", "run", "--", "/opt/vector_add", environment=stranger, check=False)
            self.assertNotEqual(done.returncode, 0)

    def test_5_upgrade_leaves_the_running_server_alone(self):
        with self.server:
            SERVER.install(PACKAGES["warpline-server"], PACKAGES["warpline-softgpu"])
            CLIENT.run("/usr/bin/warpline", "run", "--", "/opt/vector_add")

    def test_6_who_executes_is_not_root(self):
        with self.server:
            users = {user_of(process) for process in processes_of(f"{SERVER.folder}/usr/lib/warpline/bin/gpu-server")}
            names = {int(line.split(":")[2]): line.split(":")[0] for line in (SERVER.folder / "etc/passwd").read_text().splitlines()}
            owners = {names.get(user) for user in users}
            self.assertEqual(owners, {"root", "warpline-door", "warpline-worker"})

    def test_7_systemd_starts_reloads_restarts_and_stops_it(self):
        SERVER.install(PACKAGES["warpline-client"])
        of_tenant = SERVER.folder / "root/.config/warpline/ca/tenants/alice"
        for name in ("tenant.crt", "tenant.key", "ca.crt"):
            shutil.copy(of_tenant / name, SERVER.folder / "root/.config/warpline")
        SERVER.copy_in(WORK / "vector_add", "/opt/vector_add")
        run = "WARPLINE_SERVERS=localhost:14833 warpline run -- /opt/vector_add; echo program $?"
        said = SERVER.boot("\n".join([
            "systemctl is-active warpline-server", run, "systemctl reload warpline-server; echo reload $?", run,
            "systemctl restart warpline-server; echo restart $?", run, "systemctl stop warpline-server; echo stop $?",
            "systemctl is-failed warpline-server", "journalctl --no-pager --unit warpline-server"]))
        told = re.findall("^(active|program .*|reload .*|restart .*|stop .*|inactive|failed)$", said, re.MULTILINE)
        self.assertEqual(told, ["active", "program 0", "reload 0", "program 0", "restart 0", "program 0", "stop 0", "inactive"], said)

    def test_8_the_suites_programs_run_in_the_older_system(self):
        """Those that need no library of CUDA's, over TLS; what they print is looked at as ever."""
        folder, wrong, ran = CLIENT.folder / "opt/programs", [], 0
        folder.mkdir()
        self.addCleanup(shutil.rmtree, folder)
        self.addCleanup((CLIENT.folder / "mandelbrot.png").unlink, missing_ok=True)  # where programs are started
        with self.server:
            for name, program in harness.programs().items():
                if "remote" not in program.modes or program.needs_toolkit:
                    continue
                program_for_old_systems(name, folder)
                for arguments in program.args:
                    if (name, *arguments) in OWN_SYSTEM_CALLS:
                        continue
                    done = CLIENT.run("/usr/bin/warpline", "run", "--", f"/opt/programs/{name}", *arguments, check=False, seconds=program.seconds + 60,
                                      environment={"WARPLINE_LOG": "error"})
                    ran += 1
                    if done.returncode != 0 or harness.wrong_output(program, done.stdout):
                        wrong.append(f"{name} {' '.join(arguments)}: exit status {done.returncode}: {done.stdout[-2000:]}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        print(f"  {ran} runs of programs in the older system", end=" ", flush=True)

    def test_9_purge_leaves_nothing(self):
        SERVER.run("dpkg", "--purge", "warpline-server", "warpline-softgpu", "warpline-client")
        CLIENT.run("dpkg", "--purge", "warpline-client", "warpline-softgpu")
        left = {name for name in SERVER.files() - BEFORE["server"] if not re.match(r"etc/(passwd|group|shadow|gshadow|machine-id)|var/lib/dbus/machine-id|opt/vector_add", name)}
        self.assertEqual(left, set(), "what the server's packages leave")
        self.assertEqual(CLIENT.files() - BEFORE["client"] - {"opt/vector_add"}, set(), "what the client's packages leave")


# Debian's packages by their commands.
TOOLS = {"mmdebstrap": "mmdebstrap", "dh": "debhelper", "lintian": "lintian", "systemd-analyze": "systemd", "systemd-nspawn": "systemd-container", "unshare": "util-linux"}

if __name__ == "__main__":
    suite.main("packages", TOOLS)
