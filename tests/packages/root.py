"""A Debian of its own in a folder, and programs that run in it (as root, by chroot(1))."""

import contextlib
import os
import pathlib
import shutil
import subprocess


class Root:
    """One release of Debian, fresh, with a few packages more than the smallest system has."""

    def __init__(self, folder, release, packages=()):
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        options = [f"--include={','.join(packages)}"] if packages else []
        made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=path-exclude=/usr/share/locale/*", *options, release, self.folder],
                              capture_output=True, text=True)
        if made.returncode != 0:
            raise RuntimeError(f"mmdebstrap made no {release}: {made.stderr}")
        # Services are started by whoever runs the test.
        self.write("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
        self.write("etc/hosts", "127.0.0.1 localhost\n")

    def command(self, *command):
        """What runs a command in here, with /proc and /dev of its own that go with it."""
        setup = f'mount -t proc proc "{self.folder}/proc" && mount --rbind /dev "{self.folder}/dev" && exec chroot "{self.folder}" "$@"'
        return ["unshare", "--mount", "sh", "-c", setup, "chroot", *map(str, command)]

    def run(self, *command, environment=(), check=True, seconds=120):
        """The finished process, what it said in `stdout`."""
        done = subprocess.run(self.command(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
                              env=self.environment(environment))
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
        return done

    def start(self, *command, environment=(), **options):
        return subprocess.Popen(self.command(*command), env=self.environment(environment), text=True, **options)

    def boot(self, script, seconds=180):
        """Starts the system with its own systemd and a network of its own, runs a script in it once it is up, and stops it: what the
        script said."""
        self.write("opt/script", "#!/bin/sh\n" + script, 0o755)
        self.write("etc/systemd/system/script.service", """[Unit]
After=warpline-server.service
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/opt/script
StandardOutput=append:/var/tmp/script.log
StandardError=inherit
ExecStopPost=systemctl --no-block poweroff
[Install]
WantedBy=multi-user.target
""")
        self.run("systemctl", "enable", "script.service")
        command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", f"--directory={self.folder}", "--boot"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
        self.run("systemctl", "disable", "script.service")
        log = self.folder / "var/tmp/script.log"
        if not log.exists():
            raise AssertionError(f"the system did not run the script: exit status {done.returncode}\n{done.stdout}")
        said = log.read_text()
        for file in ("opt/script", "etc/systemd/system/script.service", "var/tmp/script.log"):
            (self.folder / file).unlink()
        return said

    def write(self, place, text, mode=0o644):
        (self.folder / place).write_text(text)
        (self.folder / place).chmod(mode)

    @staticmethod
    def environment(more):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", **dict(more)}

    def copy_in(self, file, place):
        target = self.folder / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)

    def copy_out(self, place, target):
        shutil.copytree(self.folder / place.lstrip("/"), target)

    def install(self, *debs):
        for deb in debs:
            self.copy_in(deb, "/var/tmp/" + pathlib.Path(deb).name)
        return self.run("dpkg", "--install", *(f"/var/tmp/{pathlib.Path(deb).name}" for deb in debs))

    def files(self):
        """Everything that is there but for what keeps itself: dpkg's and the system's own notes."""
        kept = ("var/lib/dpkg", "var/log", "var/tmp", "var/cache", "proc", "dev", "run", "tmp", "root", "var/lib/systemd")
        found = set()
        for place, folders, files in os.walk(self.folder):
            relative = os.path.relpath(place, self.folder)
            folders[:] = [name for name in folders if os.path.normpath(f"{relative}/{name}") not in kept]
            found.update(os.path.normpath(f"{relative}/{name}") for name in [*folders, *files])
        return found

    def remove(self):
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)
