#!/usr/bin/env python3
"""Boots a Debian 12 with the server's packages as a virtual machine, and uses it from a Debian 11 with the client's: a real kernel, systemd
as its first process, what the unit takes from the server enforced. Closes with 'boot: N passed, N failed, N skipped'.

Usage: boot.py [-v] [TEST…]     needs root, mmdebstrap, debhelper and QEMU; WARPLINE_BUILD names a build (default build/release)

What run.py tries in containers of this machine's kernel is not tried again. E6."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from machine import Machine, accelerator, free_port
from products import enrol, package, program_for_old_systems
from root import Root

import harness
import suite

# A driver that is the software GPU's, and says first which files the process that loads it can read.
SPY = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void look(void) {
    const char* files[] = {"/etc/warpline/server.key", "/etc/warpline/server.crt"};
    for (int i = 0; i < 2; ++i) {
        int fd = open(files[i], O_RDONLY);
        fprintf(stderr, "spy: uid %d %s errno %d\n", (int)geteuid(), files[i], fd < 0 ? errno : 0);
        if (fd >= 0) close(fd);
    }
}
"""


def setUpModule():
    global WORK, CLIENT, MACHINE, BOOT_SECONDS
    WORK = pathlib.Path(tempfile.mkdtemp(prefix="warpline-boot-"))
    unittest.addModuleCleanup(shutil.rmtree, WORK, ignore_errors=True)
    packages = package(WORK / "packages", "deb")
    server = Root(WORK / "server", "bookworm", ["openssl", "systemd", "systemd-sysv", "dbus", "udev", "linux-image-cloud-amd64"])
    server.install(packages["warpline-server"], packages["warpline-softgpu"])
    CLIENT = Root(WORK / "client", "bullseye")
    CLIENT.install(packages["warpline-client"])
    for name in ("vector_add", "until_error"):
        CLIENT.copy_in(program_for_old_systems(name, WORK), f"/opt/{name}")
    port = free_port()
    enrol(server, CLIENT, port)
    server.copy_in(make_spy(server), "/opt/spy.so")
    MACHINE = Machine(server, WORK, port)
    unittest.addModuleCleanup(MACHINE.kill)
    BOOT_SECONDS = MACHINE.start()


def make_spy(server):
    """Linked with the software GPU: its functions are found by the spy's handle."""
    (WORK / "spy.c").write_text(SPY)
    library = server.folder / "usr/lib/warpline/lib/libsoftgpu.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", WORK / "spy.so", WORK / "spy.c", "-Wl,--no-as-needed", library,
                    "-Wl,-rpath=/usr/lib/warpline/lib/warpline/direct"], check=True)
    return WORK / "spy.so"


def program(name, **options):
    return CLIENT.run("/usr/bin/warpline", "run", "--", f"/opt/{name}", **options)


class Working:
    """A program that works through the server until it is killed."""

    def __enter__(self):
        self.process = CLIENT.start("/usr/bin/warpline", "run", "--", "/opt/until_error", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        harness.read_until(self.process.stdout, "^working$")
        return self.process

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def value(text, name):
    return re.search(rf"^{name}[:=]\s*(.*)$", text, re.MULTILINE)[1]


def ready_seconds():
    """Since the kernel's start, when the service was ready; and for how long it had been starting."""
    said = MACHINE.run("systemctl show warpline-server -p InactiveExitTimestampMonotonic -p ActiveEnterTimestampMonotonic")
    began, ready = (int(value(said, f"{name}TimestampMonotonic")) / 1e6 for name in ("InactiveExit", "ActiveEnter"))
    return ready, ready - began


def figure(name, text):
    print(f"\n  {name}: {text}", end=" ", flush=True)


class Boot(unittest.TestCase):
    """In the order of their names: one machine, whose life they follow."""

    def test_1_the_unit_starts_with_the_machine(self):
        MACHINE.run("systemctl is-system-running --wait", check=False)
        self.assertEqual(MACHINE.run("systemctl is-active warpline-server").strip(), "active")
        self.assertEqual(MACHINE.run("systemctl is-enabled warpline-server").strip(), "enabled")
        figure("machine", f"{accelerator()[1]}, Linux {MACHINE.run('uname -r').strip()}, commands run after {BOOT_SECONDS:.1f} s")
        figure("service ready", "{:.1f} s after the kernel's start, {:.2f} s after its own".format(*ready_seconds()))
        self.assertIn("Driver software", MACHINE.run("gpu-server status"))

    def test_2_a_tenants_program_runs_over_the_network(self):
        self.assertIn("verified", program("vector_add").stdout)
        self.assertIn('tenant="alice"', self.journal())

    def test_3_what_the_unit_takes_from_the_server_is_gone(self):
        score = MACHINE.run("systemd-analyze security --no-pager warpline-server | tail -n 1")
        figure("systemd-analyze security", score.strip())
        self.assertLessEqual(float(re.search(r"(\d+\.\d+)", score)[1]), 5.0, score)
        main = MACHINE.run("systemctl show -P MainPID warpline-server").strip()
        status = MACHINE.run(f"cat /proc/{main}/status")
        self.assertEqual((value(status, "NoNewPrivs"), value(status, "Seccomp")), ("1", "2"))
        self.assertEqual(int(value(status, "CapBnd"), 16) & (1 << 21 | 1 << 12), 0, "CAP_SYS_ADMIN, CAP_NET_ADMIN")
        inside = f"nsenter --target {main} --mount --"
        for denied in ("touch /usr/warpline-was-here", "touch /etc/warpline-was-here", "ls /root/.config", "touch /proc/sys/vm/swappiness"):
            self.assertNotEqual(MACHINE.run(f"{inside} {denied}", check=False)[0], 0, denied)
        self.assertEqual(MACHINE.run(f"{inside} touch /var/cache/warpline/probe && rm /var/cache/warpline/probe"), "")

    def test_4_who_executes_has_nothing(self):
        with Working():
            processes = {}
            for pid in MACHINE.run("cat /sys/fs/cgroup/system.slice/warpline-server.service/cgroup.procs").split():
                status = MACHINE.run(f"cat /proc/{pid}/status", check=False)[1]
                user = MACHINE.run(f"id -nu {value(status, 'Uid').split()[1]}").strip()
                processes.setdefault(user, []).append(status)
            self.assertEqual(set(processes), {"root", "warpline-door", "warpline-worker"})
            # Our own filter on top of those of the unit, which root's process has, too.
            of_unit = max(int(value(status, "Seccomp_filters")) for status in processes["root"])
            for status in [*processes["warpline-door"], *self.of_sessions(processes["warpline-worker"])]:
                self.assertGreater(int(value(status, "Seccomp_filters")), of_unit, status)
                self.assertEqual((value(status, "CapEff"), value(status, "CapPrm"), value(status, "NoNewPrivs")), ("0" * 16, "0" * 16, "1"))

    def of_sessions(self, workers):
        """Helpers of the workers' user have no filter (they speak with nobody); who serves a session has."""
        filtered = [status for status in workers if int(value(status, "Seccomp_filters")) == max(int(value(s, "Seccomp_filters")) for s in workers)]
        self.assertTrue(filtered)
        return filtered

    def test_5_the_key_is_hidden_by_landlock(self):
        # Readable by everybody as far as its mode goes: what is left is Landlock.
        self.addCleanup(MACHINE.run, "chmod 600 /etc/warpline/server.key; sed -i '/^driver/d' /etc/warpline/server.toml; "
                                     "systemctl restart warpline-server")
        MACHINE.run("chmod 644 /etc/warpline/server.key; echo 'driver = \"/opt/spy.so\"' >> /etc/warpline/server.toml")
        status, said = MACHINE.run("systemctl restart warpline-server", check=False)
        self.assertEqual(status, 0, said + self.journal())
        self.assertIn("verified", program("vector_add").stdout)
        seen = set(re.findall(r"spy: (uid \d+ \S+ errno \d+)", self.journal()))
        worker = MACHINE.run("id -u warpline-worker").strip()
        self.assertEqual({line for line in seen if line.startswith(f"uid {worker} ")},
                         {f"uid {worker} /etc/warpline/server.key errno 13", f"uid {worker} /etc/warpline/server.crt errno 0"}, seen)

    def test_6_reload_leaves_sessions_alone(self):
        with Working() as working:
            MACHINE.run("systemctl reload warpline-server")
            self.assertIn("verified", program("vector_add").stdout)
            self.assertIsNone(working.poll())

    def test_7_renewed_certificates_are_noticed(self):
        with Working() as working:
            MACHINE.run("cd /usr/share/warpline/certs && HOME=/root ./enrol-server localhost 127.0.0.1 gpu-node.example && "
                        "cd /root/.config/warpline/ca/servers/localhost && install -m 644 server.crt ca.crt /etc/warpline/ && "
                        "install -m 600 server.key /etc/warpline/")
            self.assertTrue(harness.until(lambda: "the certificates have changed, and are those of all" in self.journal()), self.journal())
            self.assertIn("verified", program("vector_add").stdout)
            self.assertIsNone(working.poll())

    def test_8_it_comes_back_with_the_machine(self):
        self.nothing_went_wrong()
        before = MACHINE.run("cat /proc/sys/kernel/random/boot_id")
        figure("after a reboot", f"commands run after {MACHINE.reboot():.1f} s")
        self.assertNotEqual(MACHINE.run("cat /proc/sys/kernel/random/boot_id"), before)
        MACHINE.run("systemctl is-system-running --wait", check=False)
        self.assertEqual(MACHINE.run("systemctl is-active warpline-server").strip(), "active")
        figure("service ready", "{:.1f} s after the kernel's start, {:.2f} s after its own".format(*ready_seconds()))
        self.assertIn("verified", program("vector_add").stdout)
        self.nothing_went_wrong()

    def test_9_it_stops_with_the_machine(self):
        self.assertEqual(MACHINE.power_off(), 0)
        self.assertNotIn("warpline-server.service: Failed", MACHINE.console_text())

    def journal(self):
        return MACHINE.run("journalctl --boot --no-pager --output=cat --unit warpline-server")

    def nothing_went_wrong(self):
        self.assertEqual(re.findall(r"^\S+ (?:warn|error) .*", self.journal(), re.MULTILINE), [])
        self.assertEqual(MACHINE.run("journalctl --boot --no-pager --output=cat --unit warpline-server --priority warning"), "")
        self.assertEqual(MACHINE.run("systemctl --failed --plain --no-legend"), "")


# Debian's packages by their commands.
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs", "mmdebstrap": "mmdebstrap", "dh": "debhelper"}

if __name__ == "__main__":
    suite.main("boot", TOOLS, " (scripts/setup --machine)")
