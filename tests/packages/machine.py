"""A virtual machine (QEMU) that boots a Debian of root.py from a disk, with that Debian's kernel and systemd, and a way to run commands in it."""

import base64
import os
import pathlib
import shutil
import socket
import subprocess
import time

PORT_OF_SERVER = 14833

# Reads commands from the machine's channel, each in a line of base64, and answers with its exit status, what it said, and how long that is.
SHELL = """#!/bin/sh
exec 3<>/dev/virtio-ports/warpline
echo up >&3
while read -r line <&3; do
    echo "$line" | base64 -d >/run/command
    sh /run/command >/run/said 2>&1 </dev/null
    echo "$? $(wc -c </run/said)" >&3
    cat /run/said >&3
done
"""
SHELL_UNIT = """[Unit]
Description=Commands of the test
Requires=dev-virtio\\x2dports-warpline.device
After=dev-virtio\\x2dports-warpline.device
[Service]
Environment=HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
ExecStart=/bin/sh /opt/shell
[Install]
WantedBy=multi-user.target
"""
NETWORK = "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n"


def accelerator():
    """KVM if this machine's processor can do what an unmodified kernel wants of it; else QEMU's own emulation, slower, with which a kernel
    is as real. (/dev/kvm is there, too, where only kernels that know of it can be run.)"""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    if os.access("/dev/kvm", os.R_OK | os.W_OK) and ("vmx" in flags or "svm" in flags):
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi", "-cpu", "max"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Machine:
    """Made of a Root, which must have a kernel, systemd and udev; it is copied. `port` of this machine leads to the server's port there."""

    def __init__(self, root, folder, port):
        folder = pathlib.Path(folder)
        root.write("opt/shell", SHELL, 0o755)
        root.write("etc/systemd/system/shell.service", SHELL_UNIT)
        root.write("etc/systemd/network/eth0.network", NETWORK)
        root.write("etc/hostname", "gpu-node\n")
        # A system without one presets all its units at the first start: what is enabled here is what the packages have enabled.
        root.run("systemd-machine-id-setup")
        root.run("systemctl", "enable", "shell.service", "systemd-networkd.service")
        self.disk = folder / "disk.img"
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root.folder, self.disk, "3G"], check=True, capture_output=True)
        for name in ("vmlinuz", "initrd.img"):
            shutil.copy(root.folder / name, folder / name)
        self.console = folder / "console.log"
        channel = folder / "channel"
        self.command = [
            "qemu-system-x86_64", *accelerator(), "-smp", "2", "-m", "2048", "-nodefaults", "-no-user-config", "-display", "none",
            "-kernel", folder / "vmlinuz", "-initrd", folder / "initrd.img",
            "-append", "root=/dev/vda rw console=ttyS0 net.ifnames=0 panic=-1",
            "-drive", f"file={self.disk},format=raw,if=virtio,cache=unsafe", "-serial", f"file:{self.console}",
            "-nic", f"user,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:{port}-:{PORT_OF_SERVER}",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=channel,path={channel},server=on,wait=on",
            "-device", "virtserialport,chardev=channel,name=warpline"]
        self.channel_path = channel

    def start(self):
        """Returns when commands can be run: the seconds that took."""
        began = time.monotonic()
        self.process = subprocess.Popen(list(map(str, self.command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        line = self.process.stdout.readline()  # "info: QEMU waiting for connection on: …", once the socket is there
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(str(self.channel_path))
        except OSError as error:
            self.process.kill()
            raise AssertionError(f"qemu: {line}{self.process.communicate()[0]}") from error
        channel.settimeout(600)
        self.channel = channel.makefile("rwb")
        channel.close()
        self.await_up()
        return time.monotonic() - began

    def await_up(self):
        said = self.channel.readline()
        if said != b"up\n":
            raise AssertionError(f"the machine did not come up: {said!r}\n{self.console_text()[-4000:]}")

    def run(self, command, check=True):
        """What a shell's command says in the machine, and its exit status if that is not looked at here."""
        self.channel.write(base64.b64encode(command.encode()) + b"\n")
        self.channel.flush()
        status, length = map(int, self.channel.readline().split())
        said = self.channel.read(length).decode(errors="replace")
        if not check:
            return status, said
        if status != 0:
            raise AssertionError(f"{command}: exit status {status}\n{said}")
        return said

    def reboot(self):
        """The seconds until commands can be run again."""
        began = time.monotonic()
        self.run("systemctl --no-block reboot")
        self.await_up()
        return time.monotonic() - began

    def power_off(self):
        """The exit status of QEMU."""
        self.run("systemctl --no-block poweroff")
        return self.process.wait(timeout=300)

    def console_text(self):
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
